"""Which workers of a NodeSet are removed, and why: by scale-in, placement, a new key, an update or a deletion.

In: one frozen `NodeSetWorld`. Out: which workers stay and which are removed. A choice that was made is kept. While
Slurm cannot be asked, nobody new is chosen for a scale-in or an update; the other reasons are facts of Kubernetes, and
nobody is removed. Pure; asked for as `NodeSetWorld.choice`, which `plan/nodeset.py` acts on and `status/nodeset.py`
reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kube_runtime.client.objects import Pod
from slurm_operator.api.nodeset import DAEMON, STATEFUL, NodeSet
from slurm_operator.build import labels, nodeset
from slurm_operator.plan import placement
from slurm_operator.plan.leaving import DELETION, KEY, PLACEMENT, SCALE_IN, UPDATE
from slurm_operator.plan.rollout import to_update
from slurm_operator.plan.workers import Worker, in_deletion_order

if TYPE_CHECKING:
    from slurm_operator.plan.nodeset_world import NodeSetWorld


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the unsettled workers stay and which are removed, and why. All settled workers stay."""

    staying_unsettled: tuple[Worker, ...]
    # By name of the pod.
    leaving: Mapping[str, tuple[Worker, str]]

    def why(self, worker: Worker) -> str:
        """Why a worker is removed; empty when it stays."""
        return self.leaving[worker.name][1] if worker.name in self.leaving else ""


def choose(world: NodeSetWorld) -> Choice:
    """Choose the workers to remove; a choice that was made is kept, none for a scale-in or update is made blindly."""
    present = _present(world.unsettled)
    if world.deleting:
        return Choice((), {worker.name: (worker, DELETION) for worker in present})
    wrong_mode = [worker for worker in present if is_of_other_mode(world.cr, worker)]
    own = [worker for worker in present if not is_of_other_mode(world.cr, worker)]
    if world.cr.is_daemon:
        leaving = {worker.name: (worker, PLACEMENT) for worker in _misplaced(world, own)}
    else:
        chosen = scaled_in(world.cr, own, world.now, is_blind=world.is_blind, settled=len(world.settled))
        leaving = {worker.name: (worker, SCALE_IN) for worker in chosen}
    rest = [worker for worker in own if worker.name not in leaving]
    if not world.controller.spec.external:
        leaving |= {worker.name: (worker, KEY) for worker in rest if world.key.is_old(worker.pod)}
        rest = [worker for worker in rest if worker.name not in leaving]
    updated = to_update(world.cr, rest, list(outdated(world, rest)), world.now, len(world.settled))
    leaving |= {worker.name: (worker, UPDATE) for worker in updated if not world.is_blind or worker.condemned == UPDATE}
    leaving |= {worker.name: (worker, PLACEMENT) for worker in wrong_mode}
    return Choice(tuple(worker for worker in present if worker.name not in leaving), leaving)


def _present(some: Iterable[Worker]) -> list[Worker]:
    return [worker for worker in some if not worker.is_terminating and not worker.is_over]


def is_of_other_mode(cr: NodeSet, worker: Worker) -> bool:
    """Whether a worker was made for the other scaling mode."""
    made_as = worker.pod.metadata.labels.get(labels.SCALING_MODE)
    return made_as is not None and made_as != (DAEMON if cr.is_daemon else STATEFUL)


def outdated(world: NodeSetWorld, some: Iterable[Worker]) -> Iterator[Worker]:
    """Workers of an older template, or with files that have changed since they were made."""
    hashes = dict(file_hashes(world))
    for worker in some:
        made_with = worker.pod.metadata.annotations
        same = all(made_with.get(key, value) == value for key, value in hashes.items())
        if worker.revision != world.revision or (not same and not is_taken_over(worker)):
            yield worker


def file_hashes(world: NodeSetWorld) -> Iterator[tuple[str, str]]:
    """The hashes of the files that workers are made with, where a change of these replaces workers."""
    cr = world.cr
    sssd = cr.spec.ssh.sssd_conf_ref
    if cr.spec.ssh.enabled and sssd is not None and sssd.key in world.refs.secrets.get(sssd.name, {}):
        yield from nodeset.content_hashes(cr, world.refs).items()
    if world.controller.spec.external and world.key.current:
        # Whoever runs that slurmctld gives it its key; the workers follow the Secret.
        yield labels.SLURM_KEY_HASH, world.key.current


def is_taken_over(worker: Worker) -> bool:
    """Whether another program made this worker: what its hashes are of is not known."""
    return labels.SLURM_KEY_HASH not in worker.pod.metadata.annotations


def scaled_in(
    cr: NodeSet, some: Iterable[Worker], now: datetime, *, is_blind: bool = False, settled: int = 0
) -> list[Worker]:
    """The workers that are too many, those that were chosen before first; asked by `diagnose/forecast.py` too.

    `settled` are more workers that stay: while there are any, nobody new is chosen.
    """
    present = [worker for worker in _present(some) if not is_of_other_mode(cr, worker)]
    surplus = max(len(present) + settled - cr.spec.replicas, 0)
    if not surplus:
        return []
    chosen = in_deletion_order((each for each in present if each.condemned == SCALE_IN), now)
    others = in_deletion_order((each for each in present if each.condemned != SCALE_IN), now)
    return (chosen if is_blind else [*chosen, *others])[:surplus]


def _misplaced(world: NodeSetWorld, present: Sequence[Worker]) -> Iterator[Worker]:
    """Workers of DaemonSet mode on a node that does not want them, or not under this name, or not twice."""
    spec = world.template["spec"]
    kept: set[str] = set()
    # The one that would be the last to go is the one that stays.
    for worker in reversed(in_deletion_order(present, world.now)):
        name = worker.pod.spec.node_name or _pinned_node(worker.pod)
        node = world.nodes.get(name)
        if node is None:
            # Its node has gone, or is not known yet: Kubernetes itself takes such pods away.
            continue
        right = placement.daemon_worker(node).hostname(world.cr) == worker.hostname
        if name in kept or not right or not placement.may_stay(spec, node):
            yield worker
        else:
            kept.add(name)


def _pinned_node(pod: Pod) -> str:
    return pod.metadata.annotations.get(labels.ASSIGNED_NODE, "")
