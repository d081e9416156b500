"""What is written onto worker pods: who was chosen to go and has to wait, until when jobs run, who is protected, where.

In: workers of one frozen `NodeSetWorld`. Out: patches of labels and annotations. Pure; used by `plan/nodeset.py`, and
by `plan/settled.py` to see whether one is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kube_runtime.times import seconds_text
from slurm_operator.build import labels, nodeset
from slurm_operator.plan import registration
from slurm_operator.plan.actions import Action, PatchMetadata
from slurm_operator.plan.choice import is_taken_over
from slurm_operator.plan.drains import may_drain
from slurm_operator.plan.leaving import KEY
from slurm_operator.plan.workers import Worker
from slurm_operator.slurm import policy
from slurm_operator.slurm.model import MAX_EPOCH_SECONDS, Unknown

if TYPE_CHECKING:
    from slurm_operator.plan.nodeset_world import NodeSetWorld


def pod_marks(world: NodeSetWorld, some: Iterable[Worker]) -> Iterator[PatchMetadata]:
    """Every pod that does not say what it should."""
    for worker in some:
        if worker.is_terminating:
            continue
        annotations = dict(_annotations(world, worker))
        marks = dict(_labels(world, worker))
        if annotations or marks:
            yield PatchMetadata("v1", "Pod", worker.pod.metadata, marks, annotations)


def _annotations(world: NodeSetWorld, worker: Worker) -> Iterator[tuple[str, str | None]]:
    why = world.choice.why(worker)
    if worker.mark != why and not _is_said_by_drain(worker, why):
        yield labels.CONDEMNED, why or None
    yield from _key_marks(world, worker, why)
    if isinstance(world.slurm.jobs, Unknown):
        return
    deadline = deadline_text(worker)
    if worker.pod.metadata.annotations.get(labels.POD_DEADLINE) != deadline:
        yield labels.POD_DEADLINE, deadline


def _is_said_by_drain(worker: Worker, why: str) -> bool:
    """Whether the drain of its node keeps the choice as well as a mark would, and not for long."""
    node = worker.node
    if why in ("", KEY) or worker.mark or worker.rival or node is None:
        return False
    # One that waits for jobs may wait for days, in which anybody may write another reason.
    is_quiet = not policy.is_busy(node) and worker.deadline is None
    return is_quiet and (worker.drained_for == why or may_drain(node))


def _key_marks(world: NodeSetWorld, worker: Worker, why: str) -> Iterator[tuple[str, str | None]]:
    annotations = worker.pod.metadata.annotations
    if is_taken_over(worker) and world.key.in_force:
        yield labels.SLURM_KEY_HASH, world.key.in_force
        yield from nodeset.content_hashes(world.cr, world.refs).items()
    if worker.mark == why == KEY and worker.awaits_confirmation:
        # What Slurm said when it was asked holds: it is not asked every second while others wait for their jobs.
        return
    # Only on what Slurm reported in this reconcile, and only once the choice is written down.
    free = worker.mark == why == KEY and isinstance(worker.may_remove, policy.Yes)
    released = world.key.current if free else None
    if annotations.get(labels.RELEASED_FOR_KEY) != released:
        yield labels.RELEASED_FOR_KEY, released


def deadline_text(worker: Worker) -> str | None:
    """When the last job on a worker must be over."""
    if worker.deadline is None:
        return None
    if isinstance(worker.deadline, int) and 0 <= worker.deadline <= MAX_EPOCH_SECONDS:
        return seconds_text(worker.deadline)
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


def topology_notes(world: NodeSetWorld, staying: Iterable[Worker]) -> Iterator[Action]:
    """The pod's own note of its place in the topology: written once Slurm has it."""
    for worker in staying:
        wanted = registration.topology_of(world.nodes.get(worker.pod.spec.node_name))
        noted = worker.pod.metadata.annotations.get(labels.TOPOLOGY, "")
        if wanted != noted and worker.node is not None and worker.is_ready:
            note = {labels.TOPOLOGY: wanted or None}
            yield PatchMetadata("v1", "Pod", worker.pod.metadata, annotations=note)
