"""The plan of a NodeSet: which workers are created, drained and removed.

In: one frozen `NodeSetWorld`. Out: stages in a fixed order: adoption, finalizers, revision and shared objects; stale
records, claims and new pods (never blocked by Slurm); pods that have ended; marks, drains, what node records and pods
say, the reservation, owners of claims; deletions of workers, those that Slurm has lost last; left-over records and
objects; events; and once the status is written, conditions of pods. A worker is removed only if Slurm itself reported,
in this reconcile, that its node is drained and idle, or that there is no such node; one whose containers have ended
also if its node is merely idle. Called by `reconcile/nodeset.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from itertools import islice

import msgspec

from kube_runtime.text import first_few
from kube_runtime.times import parse_time
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.plural import counted
from slurm_operator.build import claims, labels, metadata, names, nodeset
from slurm_operator.build.metadata import Object
from slurm_operator.plan import ghosts, marks, placement, pod_conditions, records, registration, reservation, revisions
from slurm_operator.plan.actions import (
    Action,
    Apply,
    Create,
    Delete,
    DeleteNodes,
    Drain,
    PatchMetadata,
    PatchPodConditions,
    PatchSpec,
    Plan,
    Undrain,
    UpdateNodes,
)
from slurm_operator.plan.claim_owners import claim_owners
from slurm_operator.plan.drains import drains
from slurm_operator.plan.events import events
from slurm_operator.plan.keys import is_released
from slurm_operator.plan.leaving import KEY
from slurm_operator.plan.nodeset_world import NodeSetWorld, held_back
from slurm_operator.plan.objects import identity
from slurm_operator.plan.ownership import controller_of, is_controlled_by
from slurm_operator.plan.workers import READ_ONCE, REGISTRATION_GRACE_SECONDS, Worker
from slurm_operator.slurm import hostlist, policy
from slurm_operator.slurm.model import Absent, Job, SlurmList, Unknown

WAITING_REQUEUE_SECONDS = 1.0
# After a drain of nodes that have nothing to do: their workers may go as soon as Slurm confirms it.
DRAINED_REQUEUE_SECONDS = 0.1
IDLE_REQUEUE_SECONDS = 5.0
# So many pods are created, marked or deleted, or get conditions in one reconcile: half a minute of work, after which it
# looks again. The others follow in the next ones.
MAX_PODS_AT_ONCE = 2000
# So many pods get conditions at a time while workers are created, drained or deleted, or are starting.
MAX_CONDITIONS_BESIDE = 4
# So long after a worker became ready its pod should say that Slurm has its node; so many more get conditions then.
OVERDUE_SECONDS = 15.0
MAX_OVERDUE_AT_ONCE = 128
# A worker that is not ready after this long is not what others have to wait for.
STARTING_SECONDS = 60.0


def plan_nodeset(world: NodeSetWorld) -> Plan:
    """Everything that should be done now."""
    new = new_workers(world)[:MAX_PODS_AT_ONCE]
    # A worker whose host name is another's has no node record of its own: nothing is written to it in Slurm.
    staying = tuple(worker for worker in world.choice.staying_unsettled if not worker.rival)
    leaving = [(worker, why) for worker, why in world.choice.leaving.values() if not worker.rival]
    known = [worker for worker in world.unsettled if not worker.rival]
    unregistered, leftovers = tuple(_unregistered(world)), tuple(_leftovers(world, new))
    stages: list[tuple[Action, ...]] = [
        tuple(_adoptions(world)),
        tuple(_finalizers(world, staying)),
        tuple(_left_by_others(world)),
        tuple(_objects(world)),
        *_creations(world, new),
        tuple(_finished_workers(world)),
        # A choice that has to wait is written down before anything is done about it: whoever comes next keeps it. One
        # that is carried out at once is kept by the drain.
        _some(marks.pod_marks(world, world.unsettled)),
        tuple(drains(f"{world.cr.namespace}/{world.cr.name}", staying, leaving, world.nodes, world.propagated)),
        tuple(registration.updates(world.cr, staying, world.nodes, world.slurm.offers)),
        tuple(registration.comments(world.cr, _without(known, staying))),
        tuple(ghosts.questions(known, world.slurm, world.asked, world.now.timestamp())),
        tuple(marks.topology_notes(world, staying)),
        tuple(reservation.changes(world.cr, staying, world.slurm, world.now, world.deleting)),
        tuple(claim_owners(world, world.unsettled)),
        _some(_worker_deletions(world)),
        unregistered,
        leftovers,
        tuple(events(world, len(world.missing) if new else 0, unregistered, leftovers)),
    ]
    # Last, since there is one for each worker, and nobody waits for them.
    conditions = _conditions(world, known, _nodes_written_to(stages))
    stages.append(tuple(islice(conditions, _conditions_at_once(world, stages))))
    *stages, after_report = _without_contradictions(stages)
    return Plan(
        tuple(stage for stage in stages if stage),
        after_report,
        _requeue_seconds(world, stages),
    )


def _requeue_seconds(world: NodeSetWorld, stages: Iterable[tuple[Action, ...]]) -> float:
    if not _is_waiting(world):
        return IDLE_REQUEUE_SECONDS
    drained = {name for stage in stages for each in stage if isinstance(each, Drain) for name in each.nodes}
    may_go_now = any(worker.hostname in drained for worker in about_to_go(world)) if drained else False
    return DRAINED_REQUEUE_SECONDS if may_go_now else WAITING_REQUEUE_SECONDS


def _conditions(world: NodeSetWorld, known: Iterable[Worker], changing: Set[str]) -> Iterator[Action]:
    """Conditions of pods, but not of those that are about to go, nor of nodes that `changing` says change now."""
    some = [worker for worker in _without(known, about_to_go(world)) if worker.hostname not in changing]
    # Where only a few get them, one that never had any is not kept waiting by others whose state goes to and fro.
    some.sort(key=pod_conditions.has_any)
    return pod_conditions.patches(some, world.now)


def _conditions_at_once(world: NodeSetWorld, stages: Iterable[tuple[Action, ...]]) -> int:
    if not (_is_moving(stages) or _is_starting(world)):
        return MAX_PODS_AT_ONCE
    return MAX_CONDITIONS_BESIDE + _overdue(world) if world.may_describe else 0


def _is_moving(stages: Iterable[tuple[Action, ...]]) -> bool:
    """Whether workers come or go: what follows from that must not wait for conditions of other pods."""
    return any(isinstance(action, Create | Delete | Drain) for stage in stages for action in stage)


def _overdue(world: NodeSetWorld) -> int:
    """How many pods lack SlurmNodeRegistered for too long: only a pod that has it shows that its node was lost."""

    def is_overdue(worker: Worker) -> bool:
        since = worker.ready_since
        is_late = since is not None and (world.now - since).total_seconds() >= OVERDUE_SECONDS
        return is_late and worker.node is not None and not pod_conditions.has_any(worker)

    return min(sum(map(is_overdue, world.choice.staying_unsettled)), MAX_OVERDUE_AT_ONCE)


def _is_starting(world: NodeSetWorld) -> bool:
    """Whether workers are about to be ready, which the status is to say without delay."""

    def age_seconds(worker: Worker) -> float:
        created = parse_time(worker.pod.metadata.creation_timestamp)
        return (world.now - created).total_seconds() if created is not None else STARTING_SECONDS

    staying = world.choice.staying_unsettled
    return any(not worker.is_ready and age_seconds(worker) < STARTING_SECONDS for worker in staying)


def _nodes_written_to(stages: Iterable[tuple[Action, ...]]) -> Set[str]:
    """The nodes that have another state in a moment: what they have now would be written for nothing."""
    found: set[str] = set()
    for action in (action for stage in stages for action in stage):
        match action:
            case Drain(nodes=names) | Undrain(nodes=names) | UpdateNodes(nodes=names, changes={"state": _}):
                found.update(names)
    return found


def about_to_go(world: NodeSetWorld) -> Iterator[Worker]:
    """Workers that are removed as soon as Slurm has drained them: nobody reads what their conditions would say."""
    for worker, why in world.choice.leaving.values():
        is_idle = worker.node is not None and not policy.is_busy(worker.node) and worker.deadline is None
        # One that waits for a new key may wait for long.
        if is_idle and why != KEY:
            yield worker


def hosts_to_confirm_first(world: NodeSetWorld) -> frozenset[str]:
    """The nodes of workers that may go in the next reconcile: it asks for them before it plans."""
    return frozenset(worker.hostname for worker in about_to_go(world))


def hosts_to_confirm(world: NodeSetWorld) -> frozenset[str]:
    """The nodes of leaving workers about which nothing is planned until Slurm was asked for them by name."""
    return frozenset(
        worker.hostname
        for worker, why in world.choice.leaving.values()
        # One that was released and waits for the new key may wait for as long as jobs run on others.
        if worker.awaits_confirmation
        and not worker.may_still_register(world.now)
        and not (_waits_for_key(world, why) and is_released(worker.pod, world.key))
    )


def _without(some: Iterable[Worker], others: Iterable[Worker]) -> Iterator[Worker]:
    others_names = {worker.name for worker in others}
    return (worker for worker in some if worker.name not in others_names)


def _some(actions: Iterable[Action]) -> tuple[Action, ...]:
    return tuple(islice(actions, MAX_PODS_AT_ONCE))


def _without_contradictions(stages: list[tuple[Action, ...]]) -> list[tuple[Action, ...]]:
    """A pod that is adopted now goes later; one that goes now gets no conditions: they would change its version."""
    actions = [action for stage in stages for action in stage]
    adopted = {each.uid for each in actions if isinstance(each, PatchMetadata) and each.owners is not None}
    leaving = {each.uid for each in actions if isinstance(each, Delete)} - adopted

    def stays(action: Action) -> bool:
        if isinstance(action, Delete):
            return action.uid not in adopted
        return not isinstance(action, PatchPodConditions) or action.seen.uid not in leaving

    return [tuple(action for action in stage if stays(action)) for stage in stages] if adopted or leaving else stages


def _is_waiting(world: NodeSetWorld) -> bool:
    # While Slurm cannot be asked, no worker in particular is waited for.
    staying = world.choice.staying_unsettled
    unknown = not world.is_blind and any(worker.node is None and worker.is_ready for worker in staying)
    is_leaving = world.deleting and (world.unsettled or records.to_wait_for(world))
    return bool(world.choice.leaving or unknown or is_leaving)


def is_at_rest(world: NodeSetWorld, plan: Plan) -> bool:
    """Whether only a change, in Kubernetes or in Slurm, can bring more to do: nothing is waited for or due later."""
    acts = any(not isinstance(action, Apply) for action in plan.actions) or _is_waiting(world) or world.missing
    has_times = world.deleting or world.asked or reservation.is_asked_for(world.cr) or world.key.is_changing
    is_settled = all(_is_steady(world, worker) for worker in world.unsettled)
    return not acts and not has_times and not world.is_blind and is_settled


def _is_steady(world: NodeSetWorld, worker: Worker) -> bool:
    is_available = worker.is_available(world.cr.spec.min_ready_seconds, world.now)
    is_returning = pod_conditions.is_returning(worker, world.now)
    return is_available and worker.node is not None and not (worker.is_terminating or worker.rival or is_returning)


# Objects, claims, pods


def _adoptions(world: NodeSetWorld) -> Iterator[Action]:
    """Workers that nobody controls get their owner, beside those that they have."""
    for meta in (worker.pod.metadata for worker in world.unsettled):
        if not world.deleting and not meta.deletion_timestamp and controller_of(meta) is None:
            others = tuple(msgspec.to_builtins(owner) for owner in meta.owner_references)
            yield PatchMetadata("v1", "Pod", meta, owners=(*others, metadata.owner(world.cr)))


def _finalizers(world: NodeSetWorld, staying: Iterable[Worker]) -> Iterator[Action]:
    cr, wanted = world.cr, set(world.cr.metadata.finalizers)
    if not world.deleting:
        wanted.add(labels.DRAIN_FINALIZER)
    if reservation.wanted(cr, staying, deleting=world.deleting) is not None:
        wanted.add(labels.RESERVATION_FINALIZER)
    elif reservation.is_reserved(world.slurm) and reservation.found(cr, world.slurm) is None:
        wanted.discard(labels.RESERVATION_FINALIZER)
    kept = tuple(each for each in cr.metadata.finalizers if each in wanted)
    new = tuple(sorted(wanted - set(kept)))
    if (*kept, *new) != tuple(cr.metadata.finalizers):
        yield _patch_cr(cr, (*kept, *new))


def _patch_cr(cr: NodeSet, finalizers: tuple[str, ...]) -> PatchMetadata:
    return PatchMetadata(cr.api_version, "NodeSet", cr.metadata, finalizers=finalizers)


def _objects(world: NodeSetWorld) -> Iterator[Action]:
    if world.deleting:
        return
    yield from revisions.adoptions(world.cr, world.revisions, world.revision)
    privileged = nodeset.is_privileged(world.cr, world.refs)
    yield revisions.applied(world.cr, world.revisions, world.revision, privileged=privileged)
    desired = [nodeset.ssh_config(world.cr)] if world.cr.spec.ssh.enabled else []
    desired += _shared_objects(world)
    for value in desired:
        yield Apply(value, world.live.get(identity(value)))


def _shared_objects(world: NodeSetWorld) -> list[Object]:
    """What all workers of a cluster share; its owners stay as they are while one of them cannot be read."""
    wanted = nodeset.shared_objects(world.controller, world.refs)
    if not world.refs.members_unreadable(world.controller, "NodeSet"):
        return wanted
    return [value for value in wanted if identity(value) not in world.live]


def _left_by_others(world: NodeSetWorld) -> Iterator[Action]:
    """The Go operator's budget names the other limit; there may be only one, and never none."""
    key = ("policy/v1", "PodDisruptionBudget", world.cr.namespace, names.workers_pdb(world.controller.name))
    found = world.live.get(key)
    spec = found.content().get("spec") or {} if found is not None and not world.deleting else {}
    if found is not None and "maxUnavailable" in spec:
        wanted = nodeset.workers_pdb(world.controller, ())["spec"]["minAvailable"]
        yield PatchSpec(*key[:2], found.metadata, {"maxUnavailable": None, "minAvailable": wanted})


def _leftovers(world: NodeSetWorld, new: Iterable[nodeset.WorkerIdentity]) -> Iterator[Action]:
    """What nobody needs any more: node records, revisions, the configuration of an ssh that was turned off."""
    yield from records.defunct(world, {worker.hostname(world.cr) for worker in new})
    if world.deleting:
        return
    live = {world.revision, *(worker.revision for worker in world.unsettled)}
    yield from revisions.history(world.cr, world.revisions, live)
    if not world.cr.spec.ssh.enabled:
        yield from _ssh_config(world)


def _ssh_config(world: NodeSetWorld) -> Iterator[Action]:
    key = ("v1", "ConfigMap", world.cr.namespace, names.ssh_config(world.cr))
    found = world.live.get(key)
    if found is not None and is_controlled_by(world.cr.metadata.uid, found.metadata):
        yield Delete(*key[:2], found.metadata, "ssh is turned off")


def new_workers(world: NodeSetWorld) -> list[nodeset.WorkerIdentity]:
    """The workers to make now: none with a host name that another worker has."""
    wanted = world.missing
    held = held_back(world, wanted)
    return [worker for worker in wanted if worker.name(world.cr) not in held]


def same_hostnames(world: NodeSetWorld) -> list[tuple[str, str]]:
    """Every host name of a worker, made or not, that another has; and who that is."""
    wanted = world.missing
    held = held_back(world, wanted)
    made = [(worker.hostname, worker.rival) for worker in world.unsettled if worker.rival]
    named = {worker.name(world.cr): worker.hostname(world.cr) for worker in wanted}
    return sorted({*made, *((named[name], rival) for name, rival in held.items())})


def _creations(world: NodeSetWorld, new: list[nodeset.WorkerIdentity]) -> list[tuple[Action, ...]]:
    if not new:
        return []
    template = world.template
    pinned = pins(world)
    made = [claim for worker in new for claim in claims.claims(world.cr, worker.identity(world.cr))]
    return [
        tuple(_stale_records(world, new)),
        tuple(Create(claim) for claim in made if claim["metadata"]["name"] not in world.claims),
        tuple(Create(nodeset.pod(world.cr, template, worker, pinned.get(str(worker.ordinal)))) for worker in new),
    ]


def pins(world: NodeSetWorld, running: Iterable[Worker] = ()) -> dict[str, str]:
    """Which Kubernetes node each number belongs on, also that of `running`; none that is gone or no longer fits."""
    if not world.cr.spec.pin_to_node or world.cr.is_daemon:
        return {}
    found = dict(world.cr.status.ordinal_to_node or {})
    found = {key: name for key, name in found.items() if _fits(world, name)}
    for worker in running:
        name = worker.pod.spec.node_name
        if worker.ordinal is not None and worker.pod.status.phase == "Running" and _fits(world, name):
            found.setdefault(str(worker.ordinal), name)
    return found


def _fits(world: NodeSetWorld, name: str) -> bool:
    node = world.nodes.get(name)
    # A cordon is for a while; it does not move a worker.
    return node is not None and placement.may_stay(world.template["spec"], node)


def _stale_records(world: NodeSetWorld, new: Iterable[nodeset.WorkerIdentity]) -> Iterator[Action]:
    # Slurm keeps a record's old features and memory when another slurmd registers under its name.
    if not isinstance(world.slurm.nodes, SlurmList) or isinstance(world.slurm.jobs, Unknown):
        return
    hostnames = {worker.hostname(world.cr) for worker in new}
    silent = (node.name for node in world.slurm.nodes.items if node.name in hostnames and policy.may_be_forgotten(node))
    names = hostlist.in_order(records.unnamed(silent, world.slurm))
    if names:
        yield DeleteNodes(tuple(names), "their pods are recreated", has_successors=True)


def _finished_workers(world: NodeSetWorld) -> Iterator[Action]:
    # Its containers have ended, but only Slurm knows whether its jobs have been dealt with.
    for worker in world.unsettled:
        if worker.is_over and not worker.is_terminating and _is_free(world, worker):
            yield _delete(worker, f"its containers have ended ({worker.pod.status.phase}) and no job holds its node")


def _is_free(world: NodeSetWorld, worker: Worker) -> bool:
    if isinstance(worker.view, Absent):
        return worker.absence_doubt is None
    if worker.node is None or isinstance(world.slurm.jobs, Unknown):
        return False
    held = any(policy.occupies(job, worker.hostname) for job in world.slurm.jobs)
    return not held and not policy.is_busy(worker.node)


def _delete(worker: Worker, why: str) -> Delete:
    return Delete("v1", "Pod", worker.pod.metadata, why)


# Workers that Slurm has lost


def _unregistered(world: NodeSetWorld) -> Iterator[Action]:
    for worker in world.choice.staying_unsettled:
        since = worker.unregistered_since(world.now)
        if since is None or worker.absence_doubt is not None:
            continue
        grace = max(REGISTRATION_GRACE_SECONDS, float(world.cr.spec.min_ready_seconds))
        if (world.now - since).total_seconds() >= grace:
            yield _delete(worker, "it is ready, but Slurm has no record of its node, and no job names it")


# Leaving


def _worker_deletions(world: NodeSetWorld) -> Iterator[Action]:
    for worker, why in world.choice.leaving.values():
        if _waits_for_key(world, why):
            continue
        if isinstance(worker.may_remove, policy.Yes):
            yield _delete(worker, f"{why}; Slurm says that its node is drained and idle, or has no record of it")


def _waits_for_key(world: NodeSetWorld, why: str) -> bool:
    """Whether a worker stays although it is free: its successor would have the new key, and slurmctld has not."""
    return why == KEY and (world.key.is_changing or not world.key.rolled_out)


def finalizer_removal(world: NodeSetWorld) -> PatchMetadata | None:
    """Let a NodeSet that is being deleted go, when nothing of it is left in Slurm, or its owner forces it."""
    cr, ours = world.cr, {labels.DRAIN_FINALIZER}
    if is_forced(cr):
        ours.add(labels.RESERVATION_FINALIZER)
    elif labels.RESERVATION_FINALIZER in cr.metadata.finalizers or world.pods or kept_by_slurm(world):
        return None
    left = tuple(each for each in cr.metadata.finalizers if each not in ours)
    return _patch_cr(cr, left) if left != tuple(cr.metadata.finalizers) else None


def kept_by_slurm(world: NodeSetWorld) -> str | None:
    """Why Slurm still needs the NodeSet: an unfinished job is in its partition, or Slurm cannot be asked."""
    if is_forced(world.cr):
        return None
    for jobs in (world.slurm.jobs, world.slurm.jobs_before):
        if isinstance(jobs, Unknown):
            return jobs.why if jobs == READ_ONCE else f"Slurm's list of jobs is not available: {jobs.why}"
        holders = [job for job in jobs if _waits_for(world, job)]
        if holders:
            return _holders(world.cr.slurm_name, holders)
    return _still_held(world)


def _holders(partition: str, jobs: Iterable[Job]) -> str:
    """The jobs in a partition that goes: those that end by themselves, and those that can never run."""
    ids = sorted((job.job_id, job.states == policy.ONLY_PENDING and job.partition == partition) for job in jobs)
    ending, stuck = [job for job, waits in ids if not waits], [job for job, waits in ids if waits]
    parts = [f"jobs are in partition {partition}: {first_few(ending)}"] if ending else []
    if stuck:
        named = counted(len(stuck), "job waits", "jobs wait")
        parts.append(
            f"{named} in partition {partition} and can never run there: {first_few(stuck)}; move each to another "
            f"partition (scontrol update jobid={stuck[0]} partition=..., again while Slurm says that a resource is "
            f"temporarily unavailable) or cancel it (scancel {stuck[0]})"
        )
    return "; ".join(parts)


def _waits_for(world: NodeSetWorld, job: Job) -> bool:
    """Whether an unfinished job is in the NodeSet's own partition."""
    name = world.cr.slurm_name
    return name in job.partition.split(",") and not policy.is_over(job) and not _is_partition_of_another(world)


def _is_partition_of_another(world: NodeSetWorld) -> bool:
    """Whether another NodeSet, which stays, has the same name in Slurm: the partition and its jobs belong to that."""
    others = (rival.cr for rival in world.rivals if not rival.only_held)
    name = world.cr.slurm_name
    return any(other.slurm_name == name and not other.metadata.deletion_timestamp for other in others)


def _still_held(world: NodeSetWorld) -> str | None:
    """Why a record that names the NodeSet still counts: a job holds its node, or it is not deleted yet."""
    nodes, before = world.slurm.nodes, world.slurm.nodes_before
    if isinstance(nodes, Unknown) or isinstance(before, Unknown) or isinstance(world.slurm.jobs, Unknown):
        return "Slurm's nodes or jobs are unknown"
    if not nodes.complete or not before.complete:
        return "Slurm's list of nodes is incomplete"
    for node in records.own(world.cr, world.slurm.nodes):
        # Its pod may be one that the operator cannot see.
        holder = next((job.job_id for job in world.slurm.jobs if policy.occupies(job, node.name)), None)
        if holder is not None:
            return f"job {holder} holds node {node.name}"
    left = records.to_wait_for(world)
    required = policy.jobs_by_required_node(world.slurm.jobs, frozenset(left))
    for name in left:
        if name in required:
            return _required(name, required[name][0])
    return f"Slurm still has {counted(len(left), 'node record')} of it: {hostlist.compress(left)}" if left else None


def _required(node: str, job: Job) -> str:
    """A job that has only this node to run on would fail with the node's record."""
    known = f"requires node {node}" if job.required is not None else f"may require node {node}: its list is unreadable"
    return (
        f"job {job.job_id} {known}, which goes with the NodeSet, so it can never run; let it run on other nodes "
        f"(scontrol update jobid={job.job_id} reqnodelist=) or cancel it (scancel {job.job_id})"
    )


def is_forced(cr: NodeSet) -> bool:
    """Whether the owner wrote that it shall go whatever Slurm says."""
    return cr.metadata.annotations.get(labels.FORCE_DELETE) == "true"
