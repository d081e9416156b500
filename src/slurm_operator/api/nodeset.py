"""NodeSet: worker pods that run slurmd, and the Slurm nodes that they register.

Read by `build/nodeset.py`, and by `build/slurm_conf.py` for the NodeSet and partition lines of slurm.conf.
"""

from typing import Annotated

from msgspec import Meta

from slurm_operator.api.controller import IntOrString
from slurm_operator.api.meta import (
    ATOMIC,
    MAX_DURATION_CHARACTERS,
    MAX_FILE_BYTES,
    Claim,
    Conditions,
    Container,
    ControllerRef,
    Count,
    ObservedGeneration,
    Part,
    PodTemplate,
    Resource,
    SecretKeySelector,
    Time,
    doc,
    rule,
)

STATEFUL = "StatefulSet"
DAEMON = "DaemonSet"
RETAIN = "Retain"
DELETE = "Delete"

SCHEDULED_RULE = rule(
    "self.type != 'ScheduledUpdate' || (has(self.scheduledUpdate) && has(self.scheduledUpdate.startTime)"
    " && has(self.scheduledUpdate.duration))",
    "scheduledUpdate.startTime and scheduledUpdate.duration must be set when type is ScheduledUpdate",
)


class Ssh(Part, frozen=True, kw_only=True):
    """ssh into worker pods."""

    sssd_conf_ref: Annotated[SecretKeySelector | None, doc("The sssd.conf to use; needed when enabled.", **ATOMIC)] = (
        None
    )
    enabled: Annotated[bool, doc("Run sshd beside slurmd; users may enter where they have a job.", x_required=True)] = (
        False
    )
    extra_sshd_config: Annotated[str | None, doc("Lines that are added to sshd_config.", maxLength=MAX_FILE_BYTES)] = (
        None
    )


class NodeSetPartition(Part, frozen=True, kw_only=True):
    """The partition of the NodeSet's own name."""

    enabled: Annotated[bool, doc("Make a partition of this NodeSet's name over its nodes.", x_required=True)] = False
    config: Annotated[
        Annotated[str, Meta(pattern=r"^[^\n]+$")] | None,
        doc("Options of the partition line, such as `Default=YES MaxTime=24:00:00`."),
    ] = None


class RollingUpdate(Part, frozen=True, kw_only=True):
    """Bounds of a rolling update."""

    max_unavailable: Annotated[
        IntOrString, doc("How many workers may be missing at once, as a number or a percentage.")
    ] = "25%"


class ScheduledUpdate(Part, frozen=True, kw_only=True):
    """A maintenance window, kept free by a Slurm reservation."""

    start_time: Annotated[Time | None, doc("When the window opens.")] = None
    duration: Annotated[
        str, doc("How long the window is open, such as 30m or 2h.", maxLength=MAX_DURATION_CHARACTERS)
    ] = "30m"
    flags: Annotated[tuple[str, ...] | None, doc("Further flags of the reservation, such as DAILY.", nullable=True)] = (
        None
    )


class UpdateStrategy(Part, frozen=True, kw_only=True):
    """How workers are replaced when their template changes."""

    type: Annotated[
        str,
        doc(
            "RollingUpdate replaces drained workers within maxUnavailable; OnDelete waits for you to delete pods;"
            " ScheduledUpdate works within a Slurm reservation.",
            enum=["RollingUpdate", "OnDelete", "ScheduledUpdate"],
        ),
    ] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdate, doc("Bounds of a rolling update.")] = RollingUpdate()
    scheduled_update: Annotated[ScheduledUpdate | None, doc("The maintenance window.")] = None


Retention = Annotated[str, Meta(extra_json_schema={"enum": [RETAIN, DELETE]})]


class ClaimRetention(Part, frozen=True, kw_only=True):
    """What happens to the workers' claims."""

    when_deleted: Annotated[Retention, doc("When the NodeSet is deleted.")] = RETAIN
    when_scaled: Annotated[Retention, doc("When a worker is scaled in; never at a cordon or an update.")] = RETAIN


class NodeSetSpec(Part, frozen=True, kw_only=True):
    """Desired state of the workers."""

    controller_ref: Annotated[ControllerRef, doc("The Controller that the workers join.", **ATOMIC)]
    replicas: Annotated[Count, doc("How many workers; DaemonSet mode ignores it.")] = 1
    scaling_mode: Annotated[
        str,
        doc(
            "StatefulSet numbers the workers and keeps `replicas` of them; DaemonSet runs one on each matching node.",
            enum=[DAEMON, STATEFUL],
        ),
    ] = STATEFUL
    slurmd: Annotated[Container, doc("Container that is merged over slurmd's own.")] = {}
    ssh: Annotated[Ssh, doc("ssh into worker pods.")] = Ssh()
    logfile: Annotated[Container, doc("Container that is merged over the log sidecar.")] = {}
    template: Annotated[
        PodTemplate, doc("Overlay of the pods; `spec.hostname` is the prefix of the Slurm node names.")
    ] = PodTemplate()
    extra_conf: Annotated[str | None, doc("Node options for `slurmd --conf`, such as `Weight=10 Gres=gpu:4`.")] = None
    partition: Annotated[NodeSetPartition, doc("The partition of the NodeSet's own name.")] = NodeSetPartition()
    volume_claim_templates: Annotated[
        tuple[Claim, ...] | None, doc("Volume claims that each worker gets. Immutable.", nullable=True)
    ] = None
    update_strategy: Annotated[
        UpdateStrategy,
        doc("How workers are replaced when their template changes.", x_kubernetes_validations=[SCHEDULED_RULE]),
    ] = UpdateStrategy()
    revision_history_limit: Annotated[Count, doc("How many old revisions are kept.")] = 0
    persistent_volume_claim_retention_policy: Annotated[ClaimRetention, doc("What happens to the workers' claims.")] = (
        ClaimRetention()
    )
    min_ready_seconds: Annotated[Count, doc("How long a worker must be ready before it counts as available.")] = 0
    ordinal_padding: Annotated[
        int, Meta(ge=0, le=9), doc("Pad ordinals with zeros to this many digits, in StatefulSet mode.")
    ] = 0
    pin_to_node: Annotated[bool, doc("Keep each ordinal on its first Kubernetes node, in StatefulSet mode.")] = False
    workload_disruption_protection: Annotated[bool, doc("Protect busy workers with a PodDisruptionBudget.")] = True
    prune_slurm_node_records: Annotated[
        str,
        doc(
            "Delete Slurm's records of workers whose Kubernetes node is gone, in DaemonSet mode.",
            enum=["Never", "NodeNotFound"],
        ),
    ] = "Never"
    oversubscribe_node: Annotated[bool, doc("Allow several workers on one Kubernetes node; for tests.")] = False


class NodeSetStatus(Part, frozen=True, kw_only=True):
    """What is true of the workers."""

    replicas: Annotated[Count, doc("How many pods there are.")] = 0
    updated_replicas: Annotated[Count, doc("How many of them run the newest template.")] = 0
    ready_replicas: Annotated[Count, doc("How many are ready.")] = 0
    available_replicas: Annotated[Count, doc("How many have been ready for minReadySeconds.")] = 0
    unavailable_replicas: Annotated[Count, doc("How many are missing or not available.")] = 0
    desired: Annotated[Count, doc("How many there should be.")] = 0
    slurm_idle: Annotated[Count, doc("How many are idle in Slurm.")] = 0
    slurm_allocated: Annotated[Count, doc("How many run jobs.")] = 0
    slurm_down: Annotated[Count, doc("How many are down in Slurm.")] = 0
    slurm_drain: Annotated[Count, doc("How many are drained or draining.")] = 0
    observed_generation: ObservedGeneration = None
    node_set_hash: Annotated[str, doc("Hash of the newest template.", x_required=True)] = ""
    collision_count: Annotated[Count | None, doc("How often that hash collided.")] = None
    conditions: Conditions = ()
    ordinal_to_node: Annotated[
        dict[str, str] | None, doc("Which Kubernetes node each ordinal is pinned to.", nullable=True)
    ] = None
    selector: Annotated[str, doc("Label selector of the pods, for the scale subresource.", x_required=True)] = ""


class NodeSet(Resource, frozen=True, kw_only=True, tag_field="kind", tag="NodeSet"):
    """Worker pods that run slurmd."""

    spec: Annotated[NodeSetSpec, doc("Desired state of the workers.")]
    status: Annotated[NodeSetStatus, doc("Observed state.")] = NodeSetStatus()

    @property
    def slurm_name(self) -> str:
        """The name that Slurm knows this set of nodes by."""
        hostname = self.spec.template.spec.get("hostname") or ""
        return str(hostname).strip("-") or self.name

    @property
    def is_daemon(self) -> bool:
        """One worker on each matching Kubernetes node."""
        return self.spec.scaling_mode == DAEMON
