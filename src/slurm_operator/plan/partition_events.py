"""Events for drift: what somebody changed in Slurm and the operator changed back, on the owner of the partition.

In: the plan of a Controller's reconcile, its outcomes, and the owner of each partition. Out: one event for each revert
that Slurm accepted, on the NodeSet or Partition that has the partition, or on the Controller whose extraConf has it. A
cluster at rest has none. Called by `plan/cluster.py`; recorded by `reconcile/controller.py`; read back by
`kubectl slurm drift`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from kube_runtime.text import first_few, printable
from slurm_operator.api.plural import counted
from slurm_operator.build.partition import Acceptance
from slurm_operator.plan.actions import Outcomes, Plan, RecordEvent, partitions_of
from slurm_operator.plan.partition import MISSING_PARTITION
from slurm_operator.plan.partition_fields import NODES, Difference
from slurm_operator.plan.partition_memory import MAX_REVERTS, WINDOW_SECONDS

REVERTED = "DriftReverted"
COMES_BACK = "DriftComesBack"
# slurmctld does not record who changed a partition, neither in its responses nor in its log.
BY_HAND = "somebody with scontrol or REST"
# How many events in one reconcile, and how many names in one event: a cluster may have two thousand partitions.
MAX_EVENTS = 20
MAX_NAMED = 10
MAX_VALUE_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class OwnerEvent:
    """An event, and the resource that it is about."""

    kind: str
    name: str
    event: RecordEvent


@dataclass(frozen=True, slots=True)
class _Owner:
    """The owner of a partition, and how to change it for good."""

    kind: str
    name: str
    remedy: str


def revert_events(
    controller: str, acceptances: Iterable[Acceptance], plan: Plan, outcomes: Outcomes, given_up: Set[str]
) -> tuple[OwnerEvent, ...]:
    """The events of one reconcile; `given_up` are partitions whose next change will not be reverted."""
    accepted = {name for each in plan.actions for name in partitions_of(each)} - outcomes.by_partition.keys()
    names = sorted(plan.partitions.reverts & accepted)
    if not names:
        return ()
    owners = {each.partition: _owner(each) for each in acceptances if each.accepted}
    in_file = _Owner("Controller", controller, f"change its line in extraConf of Controller {controller}")
    found = [
        _event(name, plan.partitions.drift.get(name, ()), owners.get(name, in_file), is_last=name in given_up)
        for name in names[:MAX_EVENTS]
    ]
    return (*found, *_others(controller, names[MAX_EVENTS:]))


def _owner(acceptance: Acceptance) -> _Owner:
    command = f"kubectl slurm partition set {acceptance.partition} OPTION=VALUE"
    return _Owner(acceptance.kind, acceptance.resource, f"{command} changes {acceptance.kind} {acceptance.resource}")


def _event(name: str, drift: Iterable[Difference], owner: _Owner, *, is_last: bool) -> OwnerEvent:
    message = f"partition {name}: {BY_HAND} {_what(drift)}; changed back. To change it for good: {owner.remedy}"
    if is_last:
        minutes = round(WINDOW_SECONDS / 60)
        message += f". This was revert {MAX_REVERTS} within {minutes} minutes: the next change will not be reverted"
    return OwnerEvent(owner.kind, owner.name, RecordEvent(COMES_BACK if is_last else REVERTED, message, warning=True))


def _what(drift: Iterable[Difference]) -> str:
    rows = tuple(drift)
    if MISSING_PARTITION in rows:
        return "deleted it"
    shown = [_row(each) for each in rows[:MAX_NAMED]]
    more = [f"{len(rows) - MAX_NAMED} more options"] if len(rows) > MAX_NAMED else []
    return f"changed {', '.join([*shown, *more])}"


def _row(each: Difference) -> str:
    wanted, found = (printable(value, MAX_VALUE_CHARACTERS) or "nothing" for value in (each.wanted, each.found))
    return f"{'its nodes' if each.field == NODES else each.field} from {wanted} to {found}"


def _others(controller: str, names: list[str]) -> Iterator[OwnerEvent]:
    if names:
        partitions = f"{counted(len(names), 'more partition')} ({first_few(names, MAX_NAMED)})"
        message = f"{BY_HAND} changed {partitions}; changed back"
        yield OwnerEvent("Controller", controller, RecordEvent(REVERTED, message, warning=True))
