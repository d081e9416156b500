"""Workers of a NodeSet for which there is nothing to do: a reconcile of ten thousand looks at those that changed.

In: the workers that an earlier reconcile found settled, each with what that was judged on, and the world as it is now.
Out: those that still are, because nothing of it has changed, and those that have become so. All others are
`NodeSetWorld.unsettled`, which the planners look at. A settled worker is ready, registered and up to date; no planner
has anything to do for it, and time alone changes none of that. Who is settled is judged with the planners' own
functions; what that was judged on is compared by identity, which is why caches keep what has not changed. How to add a
rule that looks at workers: decision 24. Pure; kept by `reconcile/nodeset.py` from one reconcile to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from kube_runtime.client.objects import Node as KubeNode
from kube_runtime.client.objects import Pod, RawObject
from slurm_operator.api.nodeset import NodeSet, NodeSetSpec
from slurm_operator.build import claims, labels
from slurm_operator.plan import ghosts, marks, pod_conditions, registration, reservation
from slurm_operator.plan.actions import Action
from slurm_operator.plan.choice import file_hashes, is_of_other_mode, outdated
from slurm_operator.plan.claim_owners import claim_identity, claim_owners
from slurm_operator.plan.drains import drains
from slurm_operator.plan.keys import KeyState
from slurm_operator.plan.leaving import SCALE_IN, drained_for
from slurm_operator.plan.objects import Identity, identity
from slurm_operator.plan.ownership import is_controlled_by
from slurm_operator.plan.workers import Worker, hostname_of, jobs_by_node, other_cluster_of
from slurm_operator.slurm.model import Job, Node, Unknown
from slurm_operator.slurm.requests import Feature

if TYPE_CHECKING:
    from slurm_operator.plan.nodeset_world import NodeSetWorld

NO_JOBS: Sequence[Job] = ()
# In these a node is of no use, which the status says: it looks for them among the workers that are not settled.
# INVALID_REG: slurmctld refuses what the node says of itself, and gives it no job.
USELESS_STATES = frozenset({"DOWN", "FAIL", "INVALID_REG"})
OVER = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class Terms:
    """What all workers of a NodeSet are judged by; with other terms nobody is settled."""

    # Without the number of workers.
    spec: NodeSetSpec
    revision: str
    file_hashes: Mapping[str, str]
    key: KeyState
    is_external: bool
    offers: frozenset[Feature]
    propagated: frozenset[str]


@dataclass(frozen=True, slots=True)
class Row:
    """What one settled worker was judged on."""

    pod: Pod
    hostname: str
    ordinal: int | None
    node: Node
    kube: KubeNode | None
    jobs: Sequence[Job]
    claims: tuple[tuple[Identity, RawObject], ...] = ()


@dataclass(frozen=True)
class Settled:
    """The settled workers of a NodeSet, by the uid of their pods."""

    terms: Terms | None = None
    rows: Mapping[str, Row] = field(default_factory=dict)
    # The jobs that they were judged on, all of them and by node.
    jobs: Sequence[Job] | Unknown = NO_JOBS
    on_nodes: Mapping[str, Sequence[Job]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def pods(self) -> Mapping[str, str]:
        """By host name: the name of the pod."""
        return {row.hostname: row.pod.metadata.name for row in self.rows.values()}

    @cached_property
    def ordinals(self) -> Set[int]:
        """The numbers that they hold."""
        return {row.ordinal for row in self.rows.values() if row.ordinal is not None}

    def count(self, *states: str) -> int:
        """How many of their nodes are in one of these states."""
        return sum(count for each, count in self._states.items() if not each.isdisjoint(states))

    @cached_property
    def _states(self) -> Mapping[frozenset[str], int]:
        return Counter(row.node.states for row in self.rows.values())


NONE_SETTLED = Settled()


def terms(world: NodeSetWorld) -> Terms | None:
    """What its workers are judged by; None where no worker may be skipped."""
    cr = world.cr
    by_all = cr.is_daemon or cr.spec.pin_to_node or reservation.is_asked_for(cr)
    if world.deleting or world.is_blind or world.key.is_changing or by_all:
        return None
    return Terms(
        msgspec.structs.replace(cr.spec, replicas=0),
        world.revision,
        dict(file_hashes(world)),
        world.key,
        world.controller.spec.external,
        world.slurm.offers,
        world.propagated,
    )


def unjudged(before: Settled, cr: NodeSet, pods: Iterable[Pod]) -> list[Pod]:
    """Pods that have changed since they were judged, or were not settled."""
    if before.terms is None or before.terms.spec.controller_ref != cr.spec.controller_ref:
        return list(pods)
    return [pod for pod in pods if (row := before.rows.get(pod.metadata.uid)) is None or row.pod is not pod]


def still_settled(before: Settled, world: NodeSetWorld) -> Settled:
    """Those of the settled workers for whom nothing has changed."""
    now, jobs = terms(world), world.slurm.jobs
    if now is None or before.terms != now or not before.rows or isinstance(jobs, Unknown):
        return Settled(now)
    is_same_list = before.jobs is jobs
    on_nodes = before.on_nodes if is_same_list else jobs_by_node(jobs, before.pods.keys())
    rows = _without_namesakes(dict(_unchanged(before.rows, world, on_nodes)), world)
    if _must_choose_more(world, rows):
        return Settled(now)
    if is_same_list and len(rows) == len(before.rows):
        # With all that was computed from them.
        return before
    return Settled(now, rows, jobs, on_nodes)


def _unchanged(
    rows: Mapping[str, Row], world: NodeSetWorld, on_nodes: Mapping[str, Sequence[Job]]
) -> Iterator[tuple[str, Row]]:
    nodes, kube_nodes = world.slurm.by_name, world.nodes
    for pod in world.pods:
        uid = pod.metadata.uid
        row = rows.get(uid)
        if (
            row is not None
            and row.pod is pod
            and row.node is nodes.get(row.hostname)
            and row.kube is kube_nodes.get(pod.spec.node_name)
            and ((held := on_nodes.get(row.hostname, NO_JOBS)) is row.jobs or list(held) == list(row.jobs))
            and (not row.claims or all(world.live.get(key) is claim for key, claim in row.claims))
        ):
            yield uid, row


def _without_namesakes(rows: dict[str, Row], world: NodeSetWorld) -> dict[str, Row]:
    """Without those whose host name another worker has: whose it is has to be judged."""
    others = {hostname_of(world.cr, pod) for pod in world.pods if pod.metadata.uid not in rows}
    return {uid: row for uid, row in rows.items() if row.hostname not in others} if others else rows


def _must_choose_more(world: NodeSetWorld, rows: Mapping[str, Row]) -> bool:
    """Whether more workers have to be chosen for a scale-in than have been."""
    surplus = len(world.pods) - world.cr.spec.replicas
    if surplus <= 0:
        return False
    others = [pod for pod in world.pods if pod.metadata.uid not in rows]
    present = [pod for pod in others if not pod.metadata.deletion_timestamp and pod.status.phase not in OVER]
    chosen = sum(_is_chosen_for_scale_in(world, pod) for pod in present)
    return surplus - (len(others) - len(present)) > chosen


def _is_chosen_for_scale_in(world: NodeSetWorld, pod: Pod) -> bool:
    mark, node = pod.metadata.annotations.get(labels.CONDEMNED), world.slurm.by_name.get(hostname_of(world.cr, pod))
    if mark or node is None:
        return mark == SCALE_IN
    return drained_for(node, f"{world.cr.namespace}/{world.cr.name}") == SCALE_IN


# Becoming settled


def settled_after(world: NodeSetWorld) -> Settled:
    """The settled workers of a world, and those of the others who have become so."""
    found, jobs = world.settled, world.slurm.jobs
    if found.terms is None or isinstance(jobs, Unknown):
        return found
    new = [worker for worker in world.unsettled if _is_in_service(world, worker)]
    new = [worker for worker in new if not any(_changes(world, worker))]
    if not new:
        return found
    on_nodes = jobs_by_node(jobs, frozenset(worker.hostname for worker in new))
    rows = {worker.pod.metadata.uid: row for worker in new if (row := _row(world, worker, on_nodes)) is not None}
    return replace(found, rows={**found.rows, **rows}, jobs=jobs, on_nodes={**found.on_nodes, **on_nodes})


def _is_in_service(world: NodeSetWorld, worker: Worker) -> bool:
    node, cr = worker.node, world.cr
    if node is None or worker.is_terminating or worker.condemned or worker.rival or not worker.hostname:
        return False
    is_own = is_controlled_by(cr.metadata.uid, worker.pod.metadata) and not other_cluster_of(cr, worker.pod)
    is_current = not is_of_other_mode(cr, worker) and not world.key.is_old(worker.pod)
    is_useful = worker.is_available(cr.spec.min_ready_seconds, world.now) and not node.states & USELESS_STATES
    return is_own and is_current and is_useful and not pod_conditions.is_returning(worker, world.now)


def _changes(world: NodeSetWorld, worker: Worker) -> Iterator[Action | Worker | str]:
    """What any planner would do for this worker.

    Every planner that `plan_nodeset` calls for staying workers must be listed here.
    """
    one = (worker,)
    yield from outdated(world, one)
    yield from marks.pod_marks(world, one)
    yield from drains("", one, (), world.nodes, world.propagated)
    yield from registration.updates(world.cr, one, world.nodes, world.slurm.offers)
    yield from ghosts.ghosts(one, world.slurm)
    yield from marks.topology_notes(world, one)
    yield from pod_conditions.patches(one, world.now)
    yield from claim_owners(world, one)


def _row(world: NodeSetWorld, worker: Worker, on_nodes: Mapping[str, Sequence[Job]]) -> Row | None:
    made = [identity(claim) for claim in claims.claims(world.cr, claim_identity(world.cr, worker))]
    found = [(key, world.live[key]) for key in made if key in world.live]
    if worker.node is None or len(found) != len(made):
        return None
    kube = world.nodes.get(worker.pod.spec.node_name)
    held = on_nodes.get(worker.hostname, NO_JOBS)
    return Row(worker.pod, worker.hostname, worker.ordinal, worker.node, kube, held, tuple(found))
