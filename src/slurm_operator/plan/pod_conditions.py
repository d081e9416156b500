"""What Slurm reports on a worker's node, as conditions of its pod, for `kubectl get pod` and for disruption tools.

In: a worker that Slurm described, or said that it does not have. Out: conditions. What Slurm did not say changes
nothing. Pure; used by `plan/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache

from kube_runtime.text import printable
from kube_runtime.times import time_text
from slurm_operator.plan.actions import Action, PatchPodConditions
from slurm_operator.plan.workers import NO_LONGER_REGISTERED, REGISTERED, Worker
from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Known, Node, Unknown

PREFIX = "SlurmNodeState"
# One of these, the first that fits; then every flag that is set.
BASES = ("ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN")
FLAGS = ("COMPLETING", "DRAIN", "FAIL", "INVALID", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "UNDRAIN")
# In these a node's reason says why it takes no jobs. Slurm may keep one long after that is over.
OUT_OF_SERVICE = frozenset({"DRAIN", "DOWN", "ERROR", "FAIL", "INVALID", "INVALID_REG", "NOT_RESPONDING"})
# For so long a node that was put back into service may not respond: its slurmd is asked to register first.
RETURN_SECONDS = 10.0
# So long after it became ready, a worker's node is not called unregistered.
REGISTER_SECONDS = 10.0
# Slurm bounds no reason, and an object of Kubernetes has room for hardly more than a megabyte.
MAX_MESSAGE_CHARACTERS = 1024

Condition = Mapping[str, str]
# Type, status and message: what a condition says.
Content = tuple[str, str, str]


def patches(some: Iterable[Worker], now: datetime) -> Iterator[Action]:
    """Every pod whose conditions are not what Slurm says."""
    for worker in some:
        if worker.is_terminating or isinstance(worker.view, Unknown) or is_returning(worker, now):
            continue
        if not isinstance(worker.view, Known) and not _was_registered(worker) and _is_starting(worker, now):
            # It has nothing to say yet.
            continue
        wanted = list(_wanted(worker))
        if set(wanted) != _present(worker):
            yield PatchPodConditions(worker.pod.metadata, tuple(_condition(worker, each, now) for each in wanted))


def has_any(worker: Worker) -> bool:
    """Whether its pod says anything of its Slurm node yet."""
    return bool(_present(worker))


def is_returning(worker: Worker, now: datetime) -> bool:
    """Whether a node was put back into service a moment ago: until its slurmd registers, Slurm calls it silent."""
    node = worker.node
    if node is None or "NOT_RESPONDING" not in node.states or policy.is_draining(node):
        return False
    since = now.timestamp() - node.reason_at
    return node.reason == policy.BACK_IN_SERVICE_REASON and 0 <= since < RETURN_SECONDS


def _is_starting(worker: Worker, now: datetime) -> bool:
    """Whether it is not ready, or so newly that its slurmd may be about to register."""
    since = worker.ready_since
    return since is None or 0 <= (now - since).total_seconds() < REGISTER_SECONDS


def _wanted(worker: Worker) -> Iterator[Content]:
    node = worker.node
    yield REGISTERED, "True" if node else "False", _registration(worker)
    if node is None:
        return
    message = printable(node.reason, MAX_MESSAGE_CHARACTERS) if node.states & OUT_OF_SERVICE else ""
    for state in states(node):
        yield _condition_type(state), "True", message


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


@cache
def _condition_type(state: str) -> str:
    """The type of the condition for one of `BASES` and `FLAGS`."""
    return PREFIX + "".join(part.capitalize() for part in state.split("_"))


def _condition(worker: Worker, content: Content, now: datetime) -> Condition:
    kind, status, message = content
    before = next((each for each in worker.pod.status.conditions if each.type == kind), None)
    same = before is not None and before.status == status and before.last_transition_time
    time = before.last_transition_time if before and same else time_text(now)
    return {"type": kind, "status": status, "reason": "Slurm", "message": message, "lastTransitionTime": time}


def _present(worker: Worker) -> set[Content]:
    return {
        (each.type, each.status, each.message)
        for each in worker.pod.status.conditions
        if each.type == REGISTERED or each.type.startswith(PREFIX)
    }
