"""What one reconcile of a NodeSet sees, frozen: its pods, its cluster in Slurm, and everything beside them.

In: what `reconcile/nodeset.py` has read. Out: what follows from it, computed once: which workers are settled, and the
others, each with its rival for the host name, if any; the newest revision and its pod template; which workers are
removed. Pure; `plan/nodeset.py` decides on it, `status/nodeset.py` reports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import count, islice

from kube_runtime.client.objects import Node, Pod, RawObject
from slurm_operator.api.controller import Controller
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels, nodeset
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.plan import duplicates, placement, revisions
from slurm_operator.plan.choice import Choice, choose
from slurm_operator.plan.ghosts import Asked
from slurm_operator.plan.keys import UNCHANGED, KeyState
from slurm_operator.plan.leaving import SCALE_IN
from slurm_operator.plan.objects import Identity
from slurm_operator.plan.settled import NONE_SETTLED, Settled, still_settled
from slurm_operator.plan.workers import NodeSnapshot, Worker, workers


@dataclass(frozen=True)
class NodeSetWorld:
    """Everything that one reconcile of a NodeSet sees."""

    cr: NodeSet
    controller: Controller
    refs: Refs
    pods: tuple[Pod, ...]
    slurm: NodeSnapshot
    now: datetime
    nodes: Mapping[str, Node] = field(default_factory=dict)
    # Kubernetes nodes that are there but cannot be read.
    unread_nodes: frozenset[str] = frozenset()
    live: Mapping[Identity, RawObject] = field(default_factory=dict)
    claims: frozenset[str] = frozenset()
    revisions: tuple[RawObject, ...] = ()
    deleting: bool = False
    # Types of Kubernetes node conditions that explain a drain.
    propagated: frozenset[str] = frozenset()
    # The cluster's auth/slurm key: slurmctld's, and the one that it is to have.
    key: KeyState = UNCHANGED
    # By node: how often its slurmd was asked to register again.
    asked: Mapping[str, Asked] = field(default_factory=dict)
    # The other NodeSets of the Slurm.
    rivals: tuple[duplicates.Rival, ...] = ()
    # Those of its workers for whom there was nothing to do when they were last looked at.
    settled_before: Settled = NONE_SETTLED
    # False while conditions of pods were written a moment ago: those that move now do not wait for more of them.
    may_describe: bool = True
    # False for a while after Slurm was asked for nodes by name and did not say whether it has them.
    may_confirm: bool = True

    # Cached: plan and report both use these, and ten thousand workers take time.

    @cached_property
    def unsettled(self) -> tuple[Worker, ...]:
        """The workers for whom something may have to be done: all but the settled ones."""
        pods = (pod for pod in self.pods if pod.metadata.uid not in self.settled.rows)
        found = workers(self.cr, pods, self.slurm, self.now, len(self.settled))
        taken = _taken(self, found)
        return tuple(replace(each, rival=taken[each.name]) if each.name in taken else each for each in found)

    @cached_property
    def settled(self) -> Settled:
        """The workers for whom there is nothing to do."""
        return still_settled(self.settled_before, self)

    @cached_property
    def choice(self) -> Choice:
        """Which of the unsettled workers stay, and which go."""
        return choose(self)

    @property
    def staying_count(self) -> int:
        """How many workers stay, the settled ones too."""
        return len(self.choice.staying_unsettled) + len(self.settled)

    @cached_property
    def missing(self) -> list[nodeset.WorkerIdentity]:
        """The workers that are to be made, also those whose host name another has."""
        return _missing(self)

    @cached_property
    def revision(self) -> str:
        """The newest revision's hash."""
        return revisions.newest(self.cr, self.revisions)

    @property
    def collisions(self) -> int | None:
        """How often that hash has collided; None when never."""
        return revisions.collisions(self.cr, self.revisions)

    @cached_property
    def template(self) -> Object:
        """What all new workers have in common."""
        return nodeset.pod_template(self.cr, self.controller, self.refs, self.revision)

    @property
    def is_blind(self) -> bool:
        """Whether Slurm has not said enough to choose anybody by."""
        return self.slurm.is_blind


def _taken(world: NodeSetWorld, found: list[Worker]) -> dict[str, str]:
    """By pod: who else has its host name."""
    held = frozenset(worker.hostname for worker in found if worker.hostname)
    others = duplicates.taken(world.cr, held, held, _rivals(world), world.slurm)
    return {
        **duplicates.twins(found),
        **{each.name: others[each.hostname] for each in found if each.hostname in others},
    }


def has_enough(cr: NodeSet, pods: Iterable[Pod]) -> bool:
    """Whether none is missing, whatever Slurm says: seen at a glance, where judging ten thousand takes long."""
    staying = (
        pod for pod in pods if not pod.metadata.deletion_timestamp and labels.CONDEMNED not in pod.metadata.annotations
    )
    return not cr.is_daemon and sum(1 for _ in staying) >= cr.spec.replicas


def held_back(world: NodeSetWorld, wanted: list[nodeset.WorkerIdentity]) -> dict[str, str]:
    """By name of a pod that is not made: who has its host name; the first of several has it."""
    if not wanted:
        return {}
    first = {host: f"pod {name}" for host, name in world.settled.pods.items()}
    first |= {worker.hostname: f"pod {worker.name}" for worker in world.unsettled}
    held = frozenset(first)
    hosts = frozenset(worker.hostname(world.cr) for worker in wanted)
    others = duplicates.taken(world.cr, hosts, held, _rivals(world), world.slurm)
    found: dict[str, str] = {}
    for worker in wanted:
        name, host = worker.name(world.cr), worker.hostname(world.cr)
        holder = others.get(host) or first.setdefault(host, f"pod {name}")
        if holder != f"pod {name}":
            found[name] = holder
    return found


def _rivals(world: NodeSetWorld) -> list[duplicates.Rival]:
    return [
        replace(rival, wanted=_daemon_hosts(world, rival.cr)) if rival.cr.is_daemon else rival for rival in world.rivals
    ]


def _daemon_hosts(world: NodeSetWorld, cr: NodeSet) -> frozenset[str]:
    """The host names that another NodeSet of DaemonSet mode wants workers of."""
    try:
        spec = nodeset.pod_template(cr, world.controller, world.refs)["spec"]
        nodes = (node for node in world.nodes.values() if placement.should_run(spec, node))
        return frozenset(placement.daemon_worker(node).hostname(cr) for node in nodes)
    except Exception:
        # Anybody may have written that template: its own reconcile says what is wrong with it, and no other stops.
        return frozenset()


def _missing(world: NodeSetWorld) -> list[nodeset.WorkerIdentity]:
    if world.deleting:
        return []
    if world.cr.is_daemon:
        return _missing_daemons(world)
    return [nodeset.WorkerIdentity(ordinal=number) for number in _missing_ordinals(world)]


def _missing_ordinals(world: NodeSetWorld) -> list[int]:
    """The numbers of the workers to make: the lowest that nobody holds.

    A worker that Kubernetes is taking down holds its number until it is gone, so that its successor gets the same name,
    claims and node record: where that number is among the lowest, nobody else is made in its place.
    """
    leaving = {name for name, (_, why) in world.choice.leaving.items() if why == SCALE_IN}
    stay = [worker for worker in world.unsettled if not worker.is_terminating and worker.name not in leaving]
    needed = world.cr.spec.replicas - len(stay) - len(world.settled)
    if needed <= 0:
        return []
    taken = {worker.ordinal for worker in stay} | world.settled.ordinals
    lowest = islice((number for number in count() if number not in taken), needed)
    held = {worker.ordinal for worker in world.unsettled}
    return [number for number in lowest if number not in held]


def _missing_daemons(world: NodeSetWorld) -> list[nodeset.WorkerIdentity]:
    """The workers of DaemonSet mode to make: one for each node that wants one and has none."""
    taken = {worker.name for worker in world.unsettled}
    held = {worker.pod.spec.node_name for worker in world.unsettled}
    nodes = (world.nodes[name] for name in sorted(world.nodes))
    wanted = (placement.daemon_worker(node) for node in nodes if placement.should_run(world.template["spec"], node))
    return [worker for worker in wanted if worker.node not in held and worker.name(world.cr) not in taken]
