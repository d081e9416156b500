"""Who may go now, and who should come: the plan of a NodeSet.

In: one frozen `NodeSetWorld`. Out: stages in a fixed order: finalizer, revision and shared objects, claims and new
workers (never blocked by Slurm), cordon and drain, labels and deadlines, and last the workers that may go. A worker
leaves only when Slurm itself said, in this turn, that its node is drained and idle, or has no record of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slurm_operator.api import text
from slurm_operator.api.controller import Controller
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import claims, labels, nodeset, revision
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.kube.objects import Node, Pod, RawObject
from slurm_operator.plan import placement
from slurm_operator.plan.actions import (
    Action,
    Apply,
    Create,
    Delete,
    DeleteNode,
    Drain,
    PatchMetadata,
    Plan,
    Tell,
    Undrain,
    UpdateNode,
)
from slurm_operator.plan.objects import Identity, identity
from slurm_operator.plan.rollout import to_update
from slurm_operator.plan.workers import (
    DELETION,
    PLACEMENT,
    SCALE_IN,
    UPDATE,
    SlurmWorld,
    Worker,
    in_deletion_order,
    workers,
)
from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Absent, Unknown

WAITING = 1.0
IDLE = 5.0
# A worker that is ready but unknown to Slurm for this long has lost its registration.
REGISTRATION_GRACE = 30.0


@dataclass(frozen=True, slots=True)
class NodeSetWorld:
    """Everything that one turn for a NodeSet sees."""

    cr: NodeSet
    controller: Controller
    refs: Refs
    pods: tuple[Pod, ...]
    slurm: SlurmWorld
    now: datetime
    nodes: Mapping[str, Node] = field(default_factory=dict)
    live: Mapping[Identity, RawObject] = field(default_factory=dict)
    claims: frozenset[str] = frozenset()
    deleting: bool = False

    @property
    def workers(self) -> list[Worker]:
        """The workers that there are."""
        return workers(self.cr, self.pods, self.slurm)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which workers stay and which go, and why."""

    staying: tuple[Worker, ...]
    going: Mapping[str, tuple[Worker, str]]


def plan_nodeset(world: NodeSetWorld) -> Plan:
    """Everything that should be done now."""
    everyone = world.workers
    choice = choose(world, everyone)
    stages: list[tuple[Action, ...]] = [
        tuple(_finalizer(world)),
        tuple(_objects(world)),
        *_creations(world, everyone, choice),
        tuple(_over(world, everyone)),
        tuple(_drains(world, choice)),
        tuple(_metadata(world, everyone, choice)),
        tuple(_registrations(choice)),
        tuple(_departures(world, choice)),
        tuple(_unregistered(world, choice)),
    ]
    waits = bool(choice.going) or any(worker.node is None for worker in choice.staying)
    return Plan(tuple(stage for stage in stages if stage), WAITING if waits else IDLE)


# Who goes


def choose(world: NodeSetWorld, everyone: list[Worker]) -> Choice:
    """Choose the workers that go; a choice that was made is kept."""
    present = [worker for worker in everyone if not worker.is_terminating and not worker.is_over]
    if world.deleting:
        return Choice((), {worker.name: (worker, DELETION) for worker in present})
    if world.cr.is_daemon:
        going = {worker.name: (worker, PLACEMENT) for worker in _misplaced(world, present)}
    else:
        surplus = max(len(present) - world.cr.spec.replicas, 0)
        going = {worker.name: (worker, SCALE_IN) for worker in _scale_in(present, surplus, world.now)}
    rest = [worker for worker in present if worker.name not in going]
    updated = to_update(world.cr, rest, revision_of(world), world.now)
    going |= {worker.name: (worker, UPDATE) for worker in updated}
    return Choice(tuple(worker for worker in present if worker.name not in going), going)


def revision_of(world: NodeSetWorld) -> str:
    """The newest revision's hash."""
    return revision.hash_of(world.cr, world.cr.status.collision_count)


def _scale_in(present: list[Worker], surplus: int, now: datetime) -> list[Worker]:
    chosen = in_deletion_order((each for each in present if each.condemned == SCALE_IN), now)
    others = in_deletion_order((each for each in present if each.condemned != SCALE_IN), now)
    return [*chosen, *others][:surplus]


def _misplaced(world: NodeSetWorld, present: list[Worker]) -> Iterator[Worker]:
    """Workers of DaemonSet mode on a node that does not want them, or not under this name, or not twice."""
    spec = nodeset.pod_template(world.cr, world.controller, world.refs)["spec"]
    kept: set[str] = set()
    # The one that would be the last to go is the one that stays.
    for worker in reversed(in_deletion_order(present, world.now)):
        name = worker.pod.spec.node_name or _pinned_node(worker.pod)
        node = world.nodes.get(name)
        if node is None:
            # Its node has gone, or is not known yet: Kubernetes itself takes such pods away.
            continue
        right = _daemon(node).hostname(world.cr) == worker.hostname
        if name in kept or not right or not placement.may_stay(spec, node):
            yield worker
        else:
            kept.add(name)


def _daemon(node: Node) -> nodeset.Worker:
    override = node.metadata.annotations.get(labels.HOSTNAME_OVERRIDE)
    return nodeset.Worker(node=node.metadata.name, hostname_override=override)


def _pinned_node(pod: Pod) -> str:
    return pod.metadata.annotations.get(labels.ASSIGNED_NODE, "")


# Objects, claims, pods


def _finalizer(world: NodeSetWorld) -> Iterator[Action]:
    cr = world.cr
    if not world.deleting and labels.DRAIN_FINALIZER not in cr.metadata.finalizers:
        yield _patch_cr(cr, (*cr.metadata.finalizers, labels.DRAIN_FINALIZER))


def _patch_cr(cr: NodeSet, finalizers: tuple[str, ...]) -> PatchMetadata:
    return PatchMetadata(
        cr.api_version,
        "NodeSet",
        cr.namespace,
        cr.name,
        cr.metadata.uid,
        finalizers=finalizers,
        resource_version=cr.metadata.resource_version,
    )


def _objects(world: NodeSetWorld) -> Iterator[Action]:
    if world.deleting:
        return
    desired = [revision.controller_revision(world.cr, 1, world.cr.status.collision_count)]
    if world.cr.spec.ssh.enabled:
        desired.append(nodeset.ssh_config(world.cr))
    desired += nodeset.shared_objects(world.controller, world.refs)
    for value in desired:
        yield Apply(value, world.live.get(identity(value)))


def _creations(world: NodeSetWorld, everyone: list[Worker], choice: Choice) -> list[tuple[Action, ...]]:
    if world.deleting:
        return []
    template = nodeset.pod_template(world.cr, world.controller, world.refs)
    if world.cr.is_daemon:
        new = missing_daemons(world, everyone, template["spec"])
    else:
        new = [nodeset.Worker(ordinal=number) for number in missing_ordinals(world.cr, everyone, choice)]
    if not new:
        return []
    made = [claim for worker in new for claim in claims.claims(world.cr, worker.identity(world.cr))]
    return [
        tuple(_stale_records(world, new)),
        tuple(Create(claim) for claim in made if claim["metadata"]["name"] not in world.claims),
        tuple(Create(nodeset.pod(world.cr, template, worker, _pin(world.cr, worker))) for worker in new),
        (Tell("ScalingUp", f"creating {len(new)} workers"),),
    ]


def missing_ordinals(cr: NodeSet, everyone: Iterable[Worker], choice: Choice) -> list[int]:
    """The numbers of the workers to make: the lowest that nobody holds.

    A worker that Kubernetes is taking down holds its number until it is gone, so that its successor gets the same name,
    claims and node record.
    """
    present = list(everyone)
    held = {worker.ordinal for worker in present if worker.ordinal is not None}
    leaving = sum(why == SCALE_IN for _, why in choice.going.values())
    leaving += sum(worker.is_terminating and worker.condemned == SCALE_IN for worker in present)
    needed = cr.spec.replicas - (len(present) - leaving)
    result: list[int] = []
    number = 0
    while len(result) < needed:
        if number not in held:
            result.append(number)
        number += 1
    return result


def missing_daemons(world: NodeSetWorld, everyone: Iterable[Worker], spec: Object) -> list[nodeset.Worker]:
    """The workers of DaemonSet mode to make: one for each node that wants one and has none."""
    names = {worker.name for worker in everyone}
    held = {worker.pod.spec.node_name for worker in everyone}
    wanted = (_daemon(node) for name, node in sorted(world.nodes.items()) if placement.should_run(spec, node))
    return [worker for worker in wanted if worker.node not in held and worker.name(world.cr) not in names]


def _pin(cr: NodeSet, worker: nodeset.Worker) -> str | None:
    pins = cr.status.ordinal_to_node or {}
    return pins.get(str(worker.ordinal)) if cr.spec.pin_to_node else None


def _stale_records(world: NodeSetWorld, new: Iterable[nodeset.Worker]) -> Iterator[Action]:
    # Slurm keeps a record's old features and memory when another slurmd registers under its name.
    for worker in new:
        hostname = worker.hostname(world.cr)
        seen = world.slurm.view(hostname)
        if isinstance(seen, Absent | Unknown) or isinstance(world.slurm.jobs, Unknown):
            continue
        held = any(policy.occupies(job, hostname) for job in world.slurm.jobs)
        if not held and not policy.is_busy(seen.node) and not policy.is_responding(seen.node):
            yield DeleteNode(hostname, "its pod is made anew")


def _over(world: NodeSetWorld, everyone: Iterable[Worker]) -> Iterator[Action]:
    # Its containers have ended, but only Slurm knows whether its jobs have been dealt with.
    for worker in everyone:
        if worker.is_over and not worker.is_terminating and _is_free(world, worker):
            yield _delete(worker, f"its containers have ended ({worker.pod.status.phase}) and no job holds its node")


def _is_free(world: NodeSetWorld, worker: Worker) -> bool:
    if isinstance(worker.view, Absent):
        return True
    if worker.node is None or isinstance(world.slurm.jobs, Unknown):
        return False
    held = any(policy.occupies(job, worker.hostname) for job in world.slurm.jobs)
    return not held and not policy.is_busy(worker.node)


def _delete(worker: Worker, why: str) -> Delete:
    meta = worker.pod.metadata
    return Delete("v1", "Pod", meta.namespace, meta.name, meta.uid, why)


# Drains


def _drains(world: NodeSetWorld, choice: Choice) -> Iterator[Action]:
    by_reason: dict[str, list[str]] = {}
    undrained: list[str] = []
    for worker in choice.staying:
        reason = cordon_reason(world, worker)
        if reason is not None and _may_drain(worker):
            by_reason.setdefault(reason, []).append(worker.hostname)
        elif reason is None and _is_drained_by_us(worker):
            undrained.append(worker.hostname)
    for worker, why in choice.going.values():
        if _may_drain(worker):
            by_reason.setdefault(_going_reason(worker, why), []).append(worker.hostname)
    for reason, hosts in sorted(by_reason.items()):
        yield Drain(tuple(sorted(hosts)), reason)
    if undrained:
        yield Undrain(tuple(sorted(undrained)))


def cordon_reason(world: NodeSetWorld, worker: Worker) -> str | None:
    """Why a worker that stays should take no jobs; None when it should."""
    meta = worker.pod.metadata
    pod = f"{meta.namespace}/{meta.name}"
    node = world.nodes.get(worker.pod.spec.node_name)
    if node is not None and node.spec.unschedulable:
        given = node.metadata.annotations.get(labels.NODE_CORDON_REASON, "")
        name = node.metadata.name
        return text.reason(given) or f"Node ({name}) was cordoned, Pod ({pod}) must be cordoned"
    return f"Pod ({pod}) was cordoned" if worker.is_cordoned_by_user else None


def _going_reason(worker: Worker, why: str) -> str:
    meta = worker.pod.metadata
    return f"Pod ({meta.namespace}/{meta.name}) is pending termination for {why}"


def _may_drain(worker: Worker) -> bool:
    # A reason of somebody else is a drain of somebody else: not ours to touch.
    node = worker.node
    return node is not None and not policy.is_draining(node) and (not node.reason or policy.drain_is_ours(node.reason))


def _is_drained_by_us(worker: Worker) -> bool:
    node = worker.node
    return node is not None and policy.is_draining(node) and policy.drain_is_ours(node.reason)


# Marks on pods


def _metadata(world: NodeSetWorld, everyone: Iterable[Worker], choice: Choice) -> Iterator[Action]:
    for worker in everyone:
        if worker.is_terminating:
            continue
        annotations = dict(_annotations(world, worker, choice))
        marks = dict(_labels(world, worker))
        if annotations or marks:
            meta = worker.pod.metadata
            yield PatchMetadata("v1", "Pod", meta.namespace, meta.name, meta.uid, marks, annotations)


def _annotations(world: NodeSetWorld, worker: Worker, choice: Choice) -> Iterator[tuple[str, str | None]]:
    condemned = choice.going[worker.name][1] if worker.name in choice.going else ""
    if worker.condemned != condemned:
        yield labels.CONDEMNED, condemned or None
    if isinstance(world.slurm.jobs, Unknown):
        return
    deadline = deadline_text(worker)
    if worker.pod.metadata.annotations.get(labels.POD_DEADLINE) != deadline:
        yield labels.POD_DEADLINE, deadline


def deadline_text(worker: Worker) -> str | None:
    """When the last job on a worker must be over."""
    if worker.deadline is None:
        return None
    if isinstance(worker.deadline, int):
        return datetime.fromtimestamp(worker.deadline, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return "9999-12-31T23:59:59Z"


def _labels(world: NodeSetWorld, worker: Worker) -> Iterator[tuple[str, str | None]]:
    if worker.node is None:
        return
    busy = policy.is_busy(worker.node) and world.cr.spec.workload_disruption_protection
    protected = worker.pod.metadata.labels.get(labels.POD_PROTECT)
    if busy and protected != "true":
        yield labels.POD_PROTECT, "true"
    elif not busy and protected is not None:
        yield labels.POD_PROTECT, None


# Registration


def _registrations(choice: Choice) -> Iterator[Action]:
    for worker in choice.staying:
        node = worker.node
        if node is None or not worker.is_ready:
            continue
        left_down = "DOWN" in node.states and "NOT_RESPONDING" not in node.states and node.reason == nodeset.TERMINATING
        if left_down and not policy.is_draining(node):
            yield UpdateNode(worker.hostname, {"state": ("RESUME",)}, "its pod is back")


def _unregistered(world: NodeSetWorld, choice: Choice) -> Iterator[Action]:
    for worker in choice.staying:
        since = worker.ready_since
        lost = isinstance(worker.view, Absent) and worker.is_available(world.cr.spec.min_ready_seconds, world.now)
        if lost and since and (world.now - since).total_seconds() >= REGISTRATION_GRACE:
            yield _delete(worker, "it is ready, but Slurm has no record of its node")


# Leaving


def _departures(world: NodeSetWorld, choice: Choice) -> Iterator[Action]:
    for worker, why in choice.going.values():
        if isinstance(worker.may_go, policy.Yes):
            yield from _claim_owners(world, worker, why)
            yield _delete(worker, f"{why}; Slurm says that its node is drained and idle, or has no record of it")


def _claim_owners(world: NodeSetWorld, worker: Worker, why: str) -> Iterator[Action]:
    pod: Object = {"metadata": {"name": worker.name, "uid": worker.pod.metadata.uid}}
    identity_ = nodeset.Worker(worker.ordinal, worker.pod.spec.node_name or None).identity(world.cr)
    for claim in claims.claims(world.cr, identity_):
        key = identity(claim)
        found = world.live.get(key)
        if found is None:
            continue
        owners = claims.owners(world.cr, pod, scaled_in=why == SCALE_IN)
        yield PatchMetadata(
            *key,
            uid=found.metadata.uid,
            owners=tuple(owners),
            resource_version=found.metadata.resource_version,
        )


def release(world: NodeSetWorld) -> PatchMetadata | None:
    """Let a NodeSet that is being deleted go, when nothing of it is left in Slurm."""
    cr = world.cr
    if labels.DRAIN_FINALIZER not in cr.metadata.finalizers or world.pods or still_named(world):
        return None
    left = tuple(each for each in cr.metadata.finalizers if each != labels.DRAIN_FINALIZER)
    return _patch_cr(cr, left)


def still_named(world: NodeSetWorld) -> str | None:
    """Why Slurm still needs the NodeSet's lines: a job record names its partition, or nobody can say."""
    if world.cr.metadata.annotations.get(labels.FORCE_DELETE) == "true":
        return None
    if isinstance(world.slurm.jobs, Unknown):
        return f"Slurm's word on the jobs is missing: {world.slurm.jobs.why}"
    name = world.cr.slurm_name
    holders = sorted(job.job_id for job in world.slurm.jobs if name in job.partition.split(","))
    return f"jobs name the partition {name}: {', '.join(map(str, holders[:5]))}" if holders else None
