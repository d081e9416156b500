"""The reservation of a scheduled update: made before its window, moved when the window moves, gone with it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.plan.small_cluster import Cluster

from slurm_operator.build import labels, names
from slurm_operator.plan import reservation
from slurm_operator.plan.actions import Action, DeleteReservation, SetReservation
from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.slurm.model import Reservation, SlurmList, Unknown
from slurm_operator.slurm.requests import Feature, ReservationChange

HOUR = 3600


def scheduled(start: str = "2030-01-01T13:00:00Z", **window: Any) -> dict[str, Any]:
    update = {"startTime": start, "duration": "2h", **window}
    return {"replicas": 1, "updateStrategy": {"type": "ScheduledUpdate", "scheduledUpdate": update}}


class Case:
    """A NodeSet with one registered worker, and Slurm's reservations."""

    def __init__(self, cluster: Cluster, **spec: Any) -> None:
        self.cluster, self.cr = cluster, cluster.nodeset(**(spec or scheduled()))
        self.now = int(cluster.now.timestamp())

    def changes(self, *present: Reservation, complete: bool = True, **fields: Any) -> list[Action]:
        slurm = self.cluster.slurm(self.cluster.node("w-0"))
        seen = NodeSnapshot(
            slurm.nodes,
            slurm.jobs,
            reservations=fields.pop("reservations", SlurmList(present, complete, 1)),
            offers=fields.pop("offers", frozenset({Feature.RESERVATIONS})),
        )
        world = self.cluster.world(self.cr, [self.cluster.pod("w-0")], seen)
        return list(
            reservation.changes(self.cr, world.unsettled, seen, self.cluster.now, fields.pop("deleting", False))
        )

    def present(self, start: int, **fields: Any) -> Reservation:
        made = {"nodes": ("w-0",), "users": ("slurm",), "flags": frozenset({"IGNORE_JOBS", "MAINT", "SPEC_NODES"})}
        return Reservation(
            name=names.reservation(self.cr), start_time=start, end_time=start + 2 * HOUR, **{**made, **fields}
        )


@pytest.fixture
def case(cluster: Cluster) -> Case:
    return Case(cluster)


def test_a_window_that_is_to_come_is_reserved(case: Case) -> None:
    (action,) = case.changes()
    assert action == SetReservation(
        ReservationChange(
            name=names.reservation(case.cr),
            nodes=("w-0",),
            users=("slurm",),
            flags=("IGNORE_JOBS", "MAINT"),
            start_time=case.now + HOUR,
            duration=120,
        )
    )


@pytest.mark.parametrize(
    ("flags", "made"),
    [((), False), (("FORCE_START",), True), (("DAILY",), True)],
    ids=["once", "forced", "every day"],
)
def test_a_window_that_has_begun_is_made_only_where_it_comes_again_or_is_forced(
    cluster: Cluster, flags: tuple[str, ...], made: bool
) -> None:
    past = Case(cluster, **scheduled("2030-01-01T11:00:00Z", flags=list(flags)))
    assert bool(past.changes()) is made


def test_a_reservation_that_is_right_is_left(case: Case) -> None:
    assert case.changes(case.present(case.now + HOUR)) == []


def test_only_what_differs_is_sent(case: Case) -> None:
    moved = case.changes(case.present(case.now + 3 * HOUR, nodes=("w-0", "w-1")))
    name = names.reservation(case.cr)
    assert moved == [
        SetReservation(ReservationChange(name=name, nodes=("w-0",), start_time=case.now + HOUR, duration=120))
    ]


def test_an_open_window_keeps_its_times(case: Case) -> None:
    assert case.changes(case.present(case.now - HOUR)) == []
    name = names.reservation(case.cr)
    followed = case.changes(case.present(case.now - HOUR, nodes=("w-9",)))
    assert followed == [SetReservation(ReservationChange(name=name, nodes=("w-0",)))]


def test_it_goes_with_its_strategy_and_with_its_nodeset(cluster: Cluster, case: Case) -> None:
    other = Case(cluster, replicas=1)
    assert [type(each) for each in other.changes(other.present(other.now + HOUR))] == [DeleteReservation]
    assert [type(each) for each in case.changes(case.present(case.now), deleting=True)] == [DeleteReservation]


def test_nothing_is_done_on_half_an_answer(case: Case) -> None:
    assert case.changes(complete=False) == []
    assert case.changes(reservations=Unknown("no answer")) == []
    assert case.changes(offers=frozenset()) == []


def test_reservations_are_asked_for_while_one_may_be_left(cluster: Cluster) -> None:
    assert reservation.is_asked_for(cluster.nodeset(**scheduled()))
    assert not reservation.is_asked_for(cluster.nodeset())
    cr = cluster.nodeset()
    held = msgspec.structs.replace(cr.metadata, finalizers=(labels.RESERVATION_FINALIZER,))
    assert reservation.is_asked_for(msgspec.structs.replace(cr, metadata=held))
