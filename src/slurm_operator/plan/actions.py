"""What may be done: every write that this program can make, as data.

Made by the planners, carried out by `reconcile/execute.py`. Each action carries the metadata that it was decided on
(`seen`): its uid and resourceVersion keep it from a successor, its owners show by what right it is written to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kube_runtime.client.objects import RawObject
from kube_runtime.metadata import Metadata
from slurm_operator.api.loginset import LoginSet
from slurm_operator.build.metadata import Object
from slurm_operator.plan.partition_fields import Difference, Line
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.conf_lint import Finding
from slurm_operator.slurm.requests import PartitionChange, ReservationChange

# By partition: the line that slurm.conf holds, None for no line at all; one that is not named has the wanted line.
FileLines = Mapping[str, Line | None]


@dataclass(frozen=True, slots=True)
class Apply:
    """Make an object say exactly this; no request when it already does."""

    desired: Object = field(repr=False)
    live: RawObject | None = field(repr=False)

    def __str__(self) -> str:
        return f"apply {title(self.desired)}"


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object that must not be there yet; one of ours that is there counts as made."""

    desired: Object = field(repr=False)

    def __str__(self) -> str:
        return f"create {title(self.desired)}"


@dataclass(frozen=True, slots=True)
class CreateHostKeys:
    """Draw ssh host keys for a LoginSet, once it is sure that it has none: a cache may be behind."""

    loginset: LoginSet = field(repr=False)

    def __str__(self) -> str:
        return f"create ssh host keys of LoginSet {self.loginset.namespace}/{self.loginset.name}"


@dataclass(frozen=True, slots=True)
class _OnObject:
    """An action on the very object that was judged."""

    api_version: str
    kind: str
    seen: Metadata = field(repr=False)

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return self.seen.namespace

    @property
    def name(self) -> str:
        """The object's name."""
        return self.seen.name

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.seen.uid


@dataclass(frozen=True, slots=True)
class Delete(_OnObject):
    """Delete the very object that was judged, in the very version."""

    why: str

    def __str__(self) -> str:
        return f"delete {self.kind} {self.namespace}/{self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class PatchMetadata(_OnObject):
    """Set labels, annotations, finalizers or owners of the very object that was seen; None takes an entry away."""

    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    finalizers: tuple[str, ...] | None = None
    owners: tuple[Mapping[str, object], ...] | None = None

    @property
    def resource_version(self) -> str:
        """A list is replaced whole: only on the version that was read."""
        return self.seen.resource_version if self.finalizers is not None or self.owners is not None else ""

    def __str__(self) -> str:
        return f"patch metadata of {self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class TakeTemplate(_OnObject):
    """Own the pod template that another program has written, so that applying ours leaves nothing of theirs in it."""

    live: RawObject = field(repr=False)

    def __str__(self) -> str:
        return f"take over the pod template of {self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PatchSpec(_OnObject):
    """Change fields of the spec of the very object that was seen, whoever set them; None takes a field away."""

    fields: Mapping[str, object]

    def __str__(self) -> str:
        return f"patch {', '.join(self.fields)} of {self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PatchPodConditions:
    """Set the conditions of ours on a pod; others stay."""

    seen: Metadata = field(repr=False)
    conditions: tuple[Mapping[str, str], ...]

    def __str__(self) -> str:
        return f"conditions of Pod {self.seen.namespace}/{self.seen.name}"


@dataclass(frozen=True, slots=True)
class Drain:
    """Let nodes take no new jobs."""

    nodes: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"drain {hostlist.compress(self.nodes)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Undrain:
    """Let nodes that we drained take jobs again."""

    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"undrain {hostlist.compress(self.nodes)}"


@dataclass(frozen=True, slots=True)
class UpdateNodes:
    """Change fields of Slurm nodes, the same of all: comment, state, features, topology."""

    nodes: tuple[str, ...]
    changes: Mapping[str, object]
    why: str

    def __str__(self) -> str:
        return f"update nodes {hostlist.compress(self.nodes)}: {self.why}"


@dataclass(frozen=True, slots=True)
class RequestRegistration:
    """Make slurmctld ask slurmds to register again, so that it compares their jobs with its own."""

    nodes: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"ask {hostlist.compress(self.nodes)} to register again: {self.why}"


@dataclass(frozen=True, slots=True)
class DeleteNodes:
    """Delete Slurm node records whose slurmds have ended, in one call."""

    nodes: tuple[str, ...]
    why: str
    # Workers of these names are created next: without this, they would not be.
    has_successors: bool = False

    def __str__(self) -> str:
        return f"delete node records {hostlist.compress(self.nodes)}: {self.why}"


@dataclass(frozen=True, slots=True)
class SetReservation:
    """Make a Slurm reservation, or change what is given of it."""

    change: ReservationChange

    def __str__(self) -> str:
        return f"set reservation {self.change.name}"


@dataclass(frozen=True, slots=True)
class DeleteReservation:
    """Delete a Slurm reservation."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"delete reservation {self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class SetPartition:
    """Make a partition live, or change what is given of it."""

    change: PartitionChange
    why: str
    if_refused: FileLines = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"set partition {self.change.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class DeletePartition:
    """Delete a partition live; Slurm refuses while it is in use."""

    name: str
    why: str
    if_refused: FileLines = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"delete partition {self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Make slurmctld read the files again that it has: the only way to revert a partition before REST v0.0.45."""

    # Whose drift it reverts.
    partitions: tuple[str, ...]
    if_refused: FileLines = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"reconfigure: {', '.join(self.partitions)}"


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Tell people: an event about the resource."""

    reason: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        return f"event {self.reason}: {self.message}"


PartitionAction = SetPartition | DeletePartition | Reconfigure
SlurmAction = (
    Drain
    | Undrain
    | UpdateNodes
    | RequestRegistration
    | DeleteNodes
    | SetReservation
    | DeleteReservation
    | PartitionAction
)
Action = (
    Apply
    | Create
    | CreateHostKeys
    | Delete
    | PatchMetadata
    | PatchSpec
    | TakeTemplate
    | PatchPodConditions
    | SlurmAction
    | RecordEvent
)


@dataclass(frozen=True, slots=True)
class LintDecision:
    """What the linter lets pass of the wanted files."""

    # By hash of the files that were judged: what refuses them.
    judged: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    # What refuses the whole file, the refused lines below left aside.
    findings: tuple[Finding, ...] = ()
    # By partition that stays as it is, since its line or the whole file is refused: why.
    held: Mapping[str, str] = field(default_factory=dict)
    # By partition whose own line is refused: why, and what the file holds instead of it.
    refused: Mapping[str, str] = field(default_factory=dict)
    lines: FileLines = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionDecisions:
    """What was decided of the partitions of one cluster, beside the actions."""

    # The lines that the file must hold if every action is accepted, though they are no longer, or not yet, the wanted.
    kept_lines: Mapping[str, Line] = field(default_factory=dict)
    # By partition that is to go: the jobs that are waited for; empty where they cannot be asked for.
    waits: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # By partition: what was changed by hand.
    drift: Mapping[str, tuple[Difference, ...]] = field(default_factory=dict)
    # The partitions whose drift an action here reverts.
    reverts: frozenset[str] = frozenset()
    # By partition: wanted options that a live change cannot set, and that Slurm ignores in the file.
    unsettable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # What Slurm refused a moment ago and would refuse again: it counts as refused, and is sent later.
    resting: tuple[Refused, ...] = ()
    lint: LintDecision = field(default_factory=LintDecision)


@dataclass(frozen=True, slots=True)
class Plan:
    """Stages in order; actions within a stage do not depend on each other."""

    stages: tuple[tuple[Action, ...], ...] = ()
    # What nobody waits for: done once the status is written.
    after_report: tuple[Action, ...] = ()
    # When to look again though nothing has changed.
    requeue_after: float | None = None
    # Of a Controller alone.
    partitions: PartitionDecisions = field(default_factory=PartitionDecisions)

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions in order."""
        return tuple(action for stage in (*self.stages, self.after_report) for action in stage)

    def __str__(self) -> str:
        return "\n".join(str(action) for action in self.actions) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Refused:
    """A partition action that was not carried out."""

    action: PartitionAction
    why: str
    # Whether Slurm itself said no, and did not merely give no answer.
    is_answer: bool = True


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of a plan that came to its end."""

    # All was done but this.
    refused: tuple[Refused, ...] = ()
    # The objects that were applied, as the server has them now.
    applied: Mapping[tuple[str, str, str, str], RawObject] = field(default_factory=dict, repr=False)

    @property
    def by_partition(self) -> dict[str, Refused]:
        """What was refused, by partition."""
        return {name: each for each in self.refused for name in partitions_of(each.action)}


def partitions_of(action: Action) -> tuple[str, ...]:
    """The partitions that an action is for."""
    match action:
        case Reconfigure():
            return action.partitions
        case SetPartition():
            return (action.change.name,)
        case DeletePartition():
            return (action.name,)
        case _:
            return ()


def title(value: Object) -> str:
    """An object as people name it."""
    metadata = value["metadata"]
    return f"{value['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
