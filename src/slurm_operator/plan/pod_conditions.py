"""What Slurm reports on a worker's node, as conditions of its pod, for `kubectl get pod` and for disruption tools.

In: a worker that Slurm described, or said that it does not have. Out: conditions. What Slurm did not say changes
nothing. Pure; used by `plan/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from kube_runtime.text import printable
from kube_runtime.times import time_text
from slurm_operator.plan.actions import Action, PatchPodConditions
from slurm_operator.plan.workers import NO_LONGER_REGISTERED, REGISTERED, Worker
from slurm_operator.slurm.model import Known, Node, Unknown

PREFIX = "SlurmNodeState"
# One of these, the first that fits; then every flag that is set.
BASES = ("ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN")
FLAGS = ("COMPLETING", "DRAIN", "FAIL", "INVALID", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "UNDRAIN")
# Slurm bounds no reason, and an object of Kubernetes has room for hardly more than a megabyte.
MAX_MESSAGE_CHARACTERS = 1024

Condition = Mapping[str, str]


def patches(some: Iterable[Worker], now: datetime) -> Iterator[Action]:
    """Every pod whose conditions are not what Slurm says."""
    for worker in some:
        if worker.is_terminating or isinstance(worker.view, Unknown):
            continue
        if not isinstance(worker.view, Known) and worker.ready_since is None and not _was_registered(worker):
            # A worker that is still starting has nothing to say.
            continue
        wanted = tuple(_conditions(worker, now))
        if _content(wanted) != _content(_present(worker)):
            yield PatchPodConditions(worker.pod.metadata, wanted)


def _conditions(worker: Worker, now: datetime) -> Iterator[Condition]:
    node = worker.node
    yield _condition(worker, REGISTERED, "True" if node else "False", _registration(worker), now)
    if node is None:
        return
    for state in states(node):
        yield _condition(worker, f"{PREFIX}{_camel(state)}", "True", node.reason, now)


def _registration(worker: Worker) -> str:
    if worker.node is not None:
        return "Slurm has a record of its node"
    # What is lost in bulk is doubted, what never came is not.
    return NO_LONGER_REGISTERED if _was_registered(worker) else "Slurm has no record of its node"


def _was_registered(worker: Worker) -> bool:
    return any(
        each.type == REGISTERED and (each.status == "True" or each.message == NO_LONGER_REGISTERED)
        for each in worker.pod.status.conditions
    )


def states(node: Node) -> list[str]:
    """The base state, and the flags that matter to people."""
    base = next((each for each in BASES if each in node.states), "UNKNOWN")
    return [base, *(flag for flag in FLAGS if flag in node.states)]


def _camel(state: str) -> str:
    return "".join(part.capitalize() for part in state.split("_"))


def _condition(worker: Worker, kind: str, status: str, message: str, now: datetime) -> Condition:
    before = next((each for each in worker.pod.status.conditions if each.type == kind), None)
    same = before is not None and before.status == status and before.last_transition_time
    time = before.last_transition_time if before and same else time_text(now)
    shown = printable(message, MAX_MESSAGE_CHARACTERS)
    return {"type": kind, "status": status, "reason": "Slurm", "message": shown, "lastTransitionTime": time}


def _present(worker: Worker) -> Iterator[Condition]:
    for each in worker.pod.status.conditions:
        if each.type == REGISTERED or each.type.startswith(PREFIX):
            yield {"type": each.type, "status": each.status, "message": each.message}


def _content(conditions: Iterable[Condition]) -> set[tuple[str, str, str]]:
    return {(each["type"], each["status"], each["message"]) for each in conditions}
