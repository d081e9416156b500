"""Partition: a Slurm partition of its own, over any NodeSets.

Read by `build/partition.py`, which makes its slurm.conf line, and by the pipeline that applies it live.
"""

from typing import Annotated

from msgspec import Meta, field

from slurm_operator.api.meta import (
    ATOMIC,
    INT32_MAX,
    MAX_DURATION_CHARACTERS,
    MAX_NAMES,
    Conditions,
    ControllerRef,
    Count,
    ObservedGeneration,
    Part,
    Resource,
    Time,
    doc,
)

ALL = "ALL"
SLURM_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
UNLIMITED = "[Uu][Nn][Ll][Ii][Mm][Ii][Tt][Ee][Dd]"
INFINITE = "[Ii][Nn][Ff][Ii][Nn][Ii][Tt][Ee]"
SLURM_TIME = rf"^([0-9]+(-[0-9]+(:[0-9]+){{0,2}})?|[0-9]+(:[0-9]+){{1,2}}|{UNLIMITED}|{INFINITE})$"
NODE_COUNT = rf"^([0-9]+|{UNLIMITED})$"

OVER_SUBSCRIBE = r"^([Nn][Oo]|[Ee][Xx][Cc][Ll][Uu][Ss][Ii][Vv][Ee]|([Ff][Oo][Rr][Cc][Ee]|[Yy][Ee][Ss])(:[0-9]{1,5})?)$"

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=SLURM_NAME)]
Names = Annotated[tuple[Name, ...], Meta(extra_json_schema={"x-kubernetes-list-type": "set", "maxItems": MAX_NAMES})]
SlurmTime = Annotated[str, Meta(pattern=SLURM_TIME, max_length=MAX_DURATION_CHARACTERS)]
MegaBytes = Annotated[int, Meta(ge=0, le=2**62)]
UInt16 = Annotated[int, Meta(ge=0, le=65533)]
NodeCount = Annotated[int | str, Meta(extra_json_schema={"x-kubernetes-int-or-string": True, "pattern": NODE_COUNT})]


class PartitionSpec(Part, frozen=True, kw_only=True):
    """Desired state of the partition."""

    controller_ref: Annotated[ControllerRef, doc("The Controller (Slurm cluster) that it belongs to.", **ATOMIC)]
    partition_name: Annotated[
        Name | None, doc("Name of the partition in Slurm; the name of this object by default.")
    ] = None
    node_sets: Annotated[
        tuple[str, ...],
        doc(
            "The NodeSets whose nodes it holds, by name, or ALL for every node of the cluster.",
            x_kubernetes_list_type="set",
            maxItems=MAX_NAMES,
        ),
    ] = ()
    nodes: Annotated[
        Annotated[str, Meta(max_length=65536)] | None,
        doc("Further nodes as a host list; `+host` adds to and `-host` takes from the NodeSets' nodes."),
    ] = None
    default: Annotated[bool, doc("Jobs that name no partition run here; at most one per cluster.")] = False
    state: Annotated[
        str,
        doc(
            "UP accepts and starts jobs; DOWN only accepts them; DRAIN starts those it has; INACTIVE does neither.",
            enum=["UP", "DOWN", "DRAIN", "INACTIVE"],
        ),
    ] = "UP"
    max_time: Annotated[SlurmTime | None, doc("Maximum time limit of a job, such as 24:00:00 or UNLIMITED.")] = None
    default_time: Annotated[SlurmTime | None, doc("Time limit of a job that sets none.")] = None
    max_nodes: Annotated[NodeCount | None, doc("Maximum number of nodes of a job, or UNLIMITED.")] = None
    min_nodes: Annotated[Count | None, doc("Minimum number of nodes of a job.")] = None
    priority_tier: Annotated[
        UInt16 | None, doc("Jobs of a higher tier are scheduled first, and may preempt others.")
    ] = None
    priority_job_factor: Annotated[UInt16 | None, doc("Weight of the partition in a job's priority.")] = None
    over_subscribe: Annotated[
        Annotated[
            str,
            Meta(pattern=OVER_SUBSCRIBE),
        ]
        | None,
        doc("Whether jobs may share cores: NO, EXCLUSIVE, FORCE[:n] or YES[:n]."),
    ] = None
    preempt_mode: Annotated[
        str | None,
        doc(
            "What happens to a preempted job.",
            enum=["OFF", "CANCEL", "REQUEUE", "SUSPEND", "GANG", "WITHIN", "PRIORITY"],
        ),
    ] = None
    grace_time: Annotated[
        Annotated[int, Meta(ge=0, le=INT32_MAX)] | None,
        doc("Seconds between preemption and the end of a job.", format="int32"),
    ] = None
    qos: Annotated[Name | None, doc("The partition's own QOS.")] = None
    allow_accounts: Annotated[Names | None, doc("Only these accounts may use it.")] = None
    deny_accounts: Annotated[Names | None, doc("These accounts may not use it.")] = None
    allow_groups: Annotated[Names | None, doc("Only these Unix groups may use it.")] = None
    allow_qos: Annotated[Names | None, doc("Only these QOS may be used in it.")] = None
    deny_qos: Annotated[Names | None, doc("These QOS may not be used in it.")] = None
    hidden: Annotated[bool | None, doc("Hide it from those who may not use it.")] = None
    root_only: Annotated[bool | None, doc("Only root may start jobs in it.")] = None
    exclusive_user: Annotated[bool | None, doc("A node runs the jobs of one user at a time.")] = None
    lln: Annotated[bool | None, doc("Place jobs on the least loaded nodes.")] = field(default=None, name="lln")
    tres_billing_weights: Annotated[
        dict[str, str] | None, doc('What each resource costs, such as {CPU: "1.0", Mem: "0.25G"}.')
    ] = None
    def_mem_per_cpu: Annotated[MegaBytes | None, doc("Default memory per CPU, in MB.")] = field(
        default=None, name="defMemPerCPU"
    )
    max_mem_per_cpu: Annotated[MegaBytes | None, doc("Maximum memory per CPU, in MB; 0 is unlimited.")] = field(
        default=None, name="maxMemPerCPU"
    )
    def_mem_per_node: Annotated[MegaBytes | None, doc("Default memory per node, in MB.")] = None
    max_mem_per_node: Annotated[MegaBytes | None, doc("Maximum memory per node, in MB; 0 is unlimited.")] = None
    config: Annotated[
        Annotated[str, Meta(pattern=r"^[^\n\r]+$", max_length=8192)] | None,
        doc("Further options of the partition line, such as `SelectTypeParameters=CR_Core`."),
    ] = None
    drift_policy: Annotated[
        str,
        doc(
            "What happens when somebody changes the partition with scontrol: Revert, Report or Keep the change.",
            enum=["Revert", "Report", "Keep"],
        ),
    ] = "Revert"


class LastApply(Part, frozen=True, kw_only=True):
    """How and how fast the partition last took effect."""

    way: Annotated[str, doc("Live or Reconfigure.", enum=["Live", "Reconfigure"])]
    milliseconds: Annotated[int, Meta(ge=0), doc("From seeing the change to Slurm's confirmation.")]
    time: Annotated[Time, doc("When.")]
    line: Annotated[str | None, doc("The hash of its line in slurm.conf that took effect then.")] = None


class Drift(Part, frozen=True, kw_only=True):
    """One field that somebody changed in Slurm itself."""

    field: Annotated[str, doc("The option, as slurm.conf names it.")]
    wanted: Annotated[str, doc("What this object asks for, as Slurm shows it.")]
    found: Annotated[str, doc("What Slurm has.")]
    since: Annotated[Time, doc("When it was first seen.")]


class PartitionStatus(Part, frozen=True, kw_only=True):
    """What is true of the partition."""

    observed_generation: ObservedGeneration = None
    conditions: Conditions = ()
    state: Annotated[str | None, doc("Its state in Slurm; empty if Slurm does not have it, or cannot be asked.")] = None
    nodes: Annotated[Count | None, doc("How many nodes it holds.")] = None
    cpus: Annotated[Count | None, doc("How many CPUs they have.")] = None
    running_jobs: Annotated[
        Count | None, doc("How many jobs run in it, at the last poll (5 s ago or less, with 200 clusters 40 s).")
    ] = None
    pending_jobs: Annotated[Count | None, doc("How many jobs wait in it, at the last poll.")] = None
    last_apply: Annotated[LastApply | None, doc("How and how fast it last took effect.")] = None
    drift: Annotated[
        tuple[Drift, ...],
        doc(
            "What somebody changed in Slurm, and not here.",
            x_kubernetes_list_type="map",
            x_kubernetes_list_map_keys=["field"],
        ),
    ] = ()


class Partition(Resource, frozen=True, kw_only=True, tag_field="kind", tag="Partition"):
    """A Slurm partition over any NodeSets."""

    spec: Annotated[PartitionSpec, doc("Desired state of the partition.")]
    status: Annotated[PartitionStatus, doc("Observed state.")] = PartitionStatus()

    @property
    def slurm_name(self) -> str:
        """The name that Slurm knows the partition by."""
        return self.spec.partition_name or self.name
