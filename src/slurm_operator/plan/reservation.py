"""The Slurm reservation that keeps the window of a scheduled update free.

In: a NodeSet, its registered nodes and Slurm's reservations. Out: what to set or delete. A window that is open keeps
its times; one that is over is not made again. Pure; used by `plan/nodeset.py`, `reconcile/nodeset.py` and
`status/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from kube_runtime.times import parse_time
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels, names
from slurm_operator.build.token import duration
from slurm_operator.plan.actions import Action, DeleteReservation, SetReservation
from slurm_operator.plan.workers import NodeSnapshot, Worker
from slurm_operator.slurm.model import Reservation, SlurmList
from slurm_operator.slurm.requests import Feature, ReservationChange

SCHEDULED = "ScheduledUpdate"
FLAGS = ("IGNORE_JOBS", "MAINT")
RECURRING = frozenset({"HOURLY", "DAILY", "WEEKLY", "WEEKEND", "WEEKDAY"})
# Slurm adds this to a reservation of named nodes.
IMPLIED = frozenset({"SPEC_NODES"})
USER = "slurm"
# Slurm counts a duration in 32 bits.
MAX_WINDOW_MINUTES = 2**31 - 1


def found(cr: NodeSet, slurm: NodeSnapshot) -> Reservation | None:
    """The reservation of this NodeSet, as Slurm shows it."""
    items = slurm.reservations.items if isinstance(slurm.reservations, SlurmList) else ()
    return next((each for each in items if each.name == names.reservation(cr)), None)


def is_asked_for(cr: NodeSet) -> bool:
    """Whether Slurm's reservations matter to this NodeSet."""
    return cr.spec.update_strategy.type == SCHEDULED or labels.RESERVATION_FINALIZER in cr.metadata.finalizers


def is_reserved(slurm: NodeSnapshot) -> bool:
    """Whether Slurm's list of reservations is complete."""
    return isinstance(slurm.reservations, SlurmList) and slurm.reservations.complete


def wanted(cr: NodeSet, some: Iterable[Worker], *, deleting: bool) -> ReservationChange | None:
    """The reservation that there should be."""
    window = cr.spec.update_strategy.scheduled_update
    start = parse_time(window.start_time or "") if window else None
    hosts = tuple(sorted(worker.hostname for worker in some if worker.node is not None))
    if deleting or cr.spec.update_strategy.type != SCHEDULED or window is None or start is None or not hosts:
        return None
    flags = {*FLAGS, *(flag.upper() for flag in window.flags or ())}
    return ReservationChange(
        name=names.reservation(cr),
        nodes=hosts,
        users=(USER,),
        flags=tuple(sorted(flags)),
        start_time=int(start.timestamp()),
        duration=min(int(duration(window.duration) or 0) // 60, MAX_WINDOW_MINUTES),
    )


def changes(
    cr: NodeSet, some: Iterable[Worker], slurm: NodeSnapshot, now: datetime, deleting: bool
) -> Iterator[Action]:
    """What to do about the reservation now."""
    if not is_reserved(slurm) or Feature.RESERVATIONS not in slurm.offers:
        return
    present, should = found(cr, slurm), wanted(cr, some, deleting=deleting)
    if should is None:
        if present is not None and (deleting or cr.spec.update_strategy.type != SCHEDULED or not cr.spec.replicas):
            yield DeleteReservation(present.name, "no scheduled update is wanted any more")
        return
    if present is None:
        if _is_to_come(should, now):
            yield SetReservation(should)
    elif difference := _difference(present, should, now):
        yield SetReservation(difference)


def _is_to_come(should: ReservationChange, now: datetime) -> bool:
    forced = "FORCE_START" in (should.flags or ())
    return forced or bool(RECURRING & set(should.flags or ())) or (should.start_time or 0) > now.timestamp()


def _difference(present: Reservation, should: ReservationChange, now: datetime) -> ReservationChange | None:
    """What to send; None when nothing differs."""
    nodes = should.nodes if set(should.nodes or ()) != set(present.nodes) else None
    if present.start_time <= now.timestamp() < present.end_time:
        # The window is open: its times are Slurm's, only its nodes follow the workers.
        return ReservationChange(name=should.name, nodes=nodes) if nodes else None
    moved_by_slurm = bool(RECURRING & present.flags) and present.start_time > (should.start_time or 0)
    start = should.start_time if present.start_time != should.start_time and not moved_by_slurm else None
    minutes = (present.end_time - present.start_time) // 60
    difference = ReservationChange(
        name=should.name,
        nodes=nodes,
        users=should.users if set(should.users or ()) != set(present.users) else None,
        flags=should.flags if set(should.flags or ()) != set(present.flags - IMPLIED) else None,
        start_time=start,
        duration=should.duration if minutes != should.duration or start is not None else None,
    )
    return None if difference == ReservationChange(name=should.name) else difference
