"""Never two leaders at the same instant, whatever the store, the network and the clocks do; and soon one again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

import pytest
from tests.kube_runtime.skewed_clock import SkewedClock

from kube_runtime.clock import SystemClock, VirtualClock, run_until_idle
from kube_runtime.loop.leadership import Elector, LeaseRecord, LeaseTimes, NotLeader

T = TypeVar("T")


class LostRaceError(Exception):
    """The store's 409."""


class UnreachableError(Exception):
    """A partition."""


@dataclass
class Lease:
    """The one Lease object, with optimistic locking."""

    record: LeaseRecord | None = None
    versions: Iterator[int] = field(default_factory=lambda: count(1))

    def create(self, record: LeaseRecord) -> LeaseRecord:
        if self.record is not None:
            raise LostRaceError("already exists")
        return self._put(record)

    def update(self, record: LeaseRecord) -> LeaseRecord:
        if self.record is None or self.record.version != record.version:
            raise LostRaceError("the object has been modified")
        return self._put(record)

    def _put(self, record: LeaseRecord) -> LeaseRecord:
        self.record = replace(record, version=str(next(self.versions)))
        return self.record


@dataclass
class Link:
    """One elector's way to the Lease; its faults are set by the test. Fates: see `_send`."""

    lease: Lease
    clock: VirtualClock
    cut: bool = False
    fate: Callable[[], str] = lambda: "fine"
    delay: Callable[[], float] = lambda: 0.0
    late: set[asyncio.Task[Any]] = field(default_factory=set)

    async def get(self) -> LeaseRecord | None:
        return await self._send(lambda: self.lease.record, reading=True)

    async def create(self, record: LeaseRecord) -> LeaseRecord:
        return await self._send(lambda: self.lease.create(record))

    async def update(self, record: LeaseRecord) -> LeaseRecord:
        return await self._send(lambda: self.lease.update(record))

    async def _send(self, apply: Callable[[], T], *, reading: bool = False) -> T:
        fate = self.fate()
        await self.clock.sleep(self.delay())
        if self.cut or fate == "unreachable":
            raise UnreachableError("no route to host")
        if fate == "conflict" and not reading:
            raise LostRaceError("409")
        if fate == "hang":
            await self.clock.sleep(10_000)
        if fate == "applied late" and not reading:
            self.late.add(asyncio.create_task(self._apply_later(apply)))
            await self.clock.sleep(10_000)
        result = apply()
        if fate == "applied, no answer":
            await self.clock.sleep(10_000)
        if fate == "slow answer":
            await self.clock.sleep(4)
        return result

    async def _apply_later(self, apply: Callable[[], Any]) -> None:
        await self.clock.sleep(12)
        try:
            apply()
        except LostRaceError:
            return


class Contest:
    """Several electors with skewed clocks on one Lease, watched at every instant at which anything happens."""

    def __init__(self, clock: VirtualClock, skews: list[float]) -> None:
        self.clock = clock
        self.lease = Lease()
        self.links = [Link(self.lease, clock) for _ in skews]
        self.electors = [
            Elector(
                link,
                f"operator-{number}",
                clock=SkewedClock(clock, wall_offset=skew, monotonic_offset=1000.0 * number),
                random=lambda: 0.5,
            )
            for number, (link, skew) in enumerate(zip(self.links, skews, strict=True))
        ]
        self.tasks: list[asyncio.Task[None]] = []
        self.reigns: list[str] = []

    def start(self, *numbers: int) -> None:
        for number in numbers or range(len(self.electors)):
            self.tasks.append(asyncio.create_task(self.electors[number].run()))

    def leaders(self) -> list[str]:
        return [elector.identity for elector in self.electors if elector.is_leader]

    def watch(self) -> None:
        leaders = self.leaders()
        assert len(leaders) <= 1, f"{leaders} lead at {self.clock.monotonic()}"
        if leaders and self.reigns[-1:] != leaders:
            self.reigns += leaders

    async def run_for(self, seconds: float) -> None:
        await self.clock.run_for(seconds, after_each=self.watch)

    async def close(self) -> None:
        late = [task for link in self.links for task in link.late]
        for task in [*self.tasks, *late]:
            task.cancel()
        await asyncio.gather(*self.tasks, *late, return_exceptions=True)


SKEWS = [0.0, 300.0, -300.0]
SKEW_IDS = ["in step", "5 min ahead", "5 min behind"]


@pytest.fixture
async def contest(clock: VirtualClock) -> Any:
    contest = Contest(clock, SKEWS)
    yield contest
    await contest.close()


async def test_the_first_one_leads_at_once_and_stays(contest: Contest) -> None:
    contest.start()
    await contest.run_for(600)
    assert contest.reigns == ["operator-0"]
    record = contest.lease.record
    assert record is not None
    assert (record.holder, record.transitions, record.lease_seconds) == ("operator-0", 0, 15)


async def test_a_quiet_reign_renews_every_two_seconds_without_reading(contest: Contest) -> None:
    contest.start(0)
    reads: list[float] = []
    original = contest.links[0].get

    async def counted() -> LeaseRecord | None:
        reads.append(contest.clock.monotonic())
        return await original()

    contest.links[0].get = counted  # type: ignore[method-assign]  # a spy on the one method
    await contest.run_for(60)
    assert len(reads) == 1
    assert contest.lease.record is not None
    assert contest.lease.record.version == "31"


async def test_a_dead_leader_is_replaced_after_its_lease_and_not_before(contest: Contest) -> None:
    contest.start(0)
    await contest.run_for(10)
    contest.start(1)
    await contest.run_for(5)
    contest.tasks[0].cancel()
    died = contest.clock.monotonic()
    while not contest.electors[1].is_leader:
        await contest.run_for(0.5)
    assert 13 <= contest.clock.monotonic() - died <= 15 + 2 * 2.4 + 0.5
    assert contest.lease.record is not None
    assert contest.lease.record.transitions == 1


@pytest.mark.parametrize("skew", SKEWS, ids=SKEW_IDS)
async def test_the_fence_falls_before_anyone_else_can_lead(clock: VirtualClock, skew: float) -> None:
    contest = Contest(clock, [skew, -skew])
    contest.start()
    await contest.run_for(30)
    contest.links[0].cut = True
    cut = clock.monotonic()
    while contest.electors[0].is_leader:
        await contest.run_for(0.1)
    fell = clock.monotonic() - cut
    while not contest.electors[1].is_leader:
        await contest.run_for(0.1)
    assert fell <= 10.1
    assert clock.monotonic() - cut >= 13
    await contest.close()


async def test_the_fence_falls_even_when_no_task_can_run(contest: Contest) -> None:
    contest.start(0)
    await contest.run_for(1)
    elector = contest.electors[0]
    elector.check()
    assert 9 <= elector.time_left() <= 10
    contest.clock.advance(10)  # no task runs in between: a stuck event loop
    assert not elector.is_leader
    assert elector.time_left() == 0
    with pytest.raises(NotLeader, match="operator-0 does not hold the lease"):
        elector.check()


async def test_who_slept_through_its_lease_is_no_leader_when_it_wakes(contest: Contest) -> None:
    """T17: no timer has fired, no task has run, and still nothing may be written."""
    contest.start(0)
    await contest.run_for(1)
    elector = contest.electors[0]
    contest.clock.suspend(10)
    assert not elector.is_leader
    with pytest.raises(NotLeader):
        elector.check()
    await contest.run_for(3)
    assert elector.is_leader, "nobody else has taken it: it leads again after a confirmed write"


async def test_a_renewal_answered_after_a_sleep_grants_nothing(contest: Contest) -> None:
    """T17: the right counts from the sending, and time has passed since."""
    fates = iter(["fine", "fine", "slow answer"])
    contest.links[0].fate = lambda: next(fates, "fine")
    contest.start(0)
    await contest.run_for(2.5)
    contest.clock.suspend(60)
    assert contest.leaders() == []
    await contest.run_for(3.9)
    assert contest.leaders() == []


async def test_the_right_counts_from_the_sending_of_the_write_not_from_its_answer(contest: Contest) -> None:
    fates = iter(["fine", "slow answer"])
    contest.links[0].fate = lambda: next(fates, "fine")
    contest.start(0)
    await contest.run_for(4)
    assert contest.leaders() == ["operator-0"]
    assert contest.electors[0].time_left() == pytest.approx(6)


async def test_release_lets_the_next_one_lead_without_waiting(contest: Contest) -> None:
    contest.start(0, 1)
    await contest.run_for(20)
    contest.tasks[0].cancel()
    await run_until_idle()
    await contest.electors[0].stop()
    assert not contest.electors[0].is_leader
    await contest.run_for(2.5)
    assert contest.leaders() == ["operator-1"]


@pytest.mark.parametrize("fate", ["unreachable", "conflict", "hang"])
async def test_a_release_that_fails_is_only_logged(
    contest: Contest, fate: str, caplog: pytest.LogCaptureFixture
) -> None:
    contest.start(0)
    await contest.run_for(5)
    contest.tasks[0].cancel()
    contest.links[0].fate = lambda: fate
    stopping = asyncio.create_task(contest.electors[0].stop())
    await contest.run_for(5)
    await stopping
    assert "the lease was not released" in caplog.text


async def test_who_never_claimed_and_who_lost_the_lease_release_nothing(contest: Contest) -> None:
    await contest.electors[2].stop()
    assert contest.lease.record is None
    contest.start(0)
    await contest.run_for(5)
    contest.tasks[0].cancel()
    contest.start(1)
    await contest.run_for(40)
    before = contest.lease.record
    await contest.electors[0].stop()
    assert contest.lease.record == before


async def test_a_stopped_elector_ends_its_run_and_a_late_answer_grants_nothing(contest: Contest) -> None:
    contest.links[0].delay = lambda: 1.0
    contest.start(0)
    await contest.run_for(1.5)
    stopping = asyncio.create_task(contest.electors[0].stop())
    await contest.run_for(10)
    await stopping
    assert contest.tasks[0].done()
    assert contest.reigns == []


async def test_a_leader_that_sees_another_holder_steps_down_at_once(contest: Contest) -> None:
    contest.start(0)
    await contest.run_for(5)
    assert contest.lease.record is not None
    contest.lease.update(replace(contest.lease.record, holder="by hand"))
    await contest.run_for(4)
    assert contest.leaders() == []


async def test_gained_and_lost_are_told(contest: Contest) -> None:
    elector = contest.electors[0]
    gained, lost = asyncio.create_task(elector.gained()), asyncio.create_task(elector.lost())
    await run_until_idle()
    assert not gained.done()
    contest.start(0)
    await contest.run_for(1)
    assert gained.done()
    assert not lost.done()
    contest.links[0].cut = True
    await contest.run_for(11)
    assert lost.done()


async def test_a_time_out_after_the_write_does_not_end_the_reign(contest: Contest) -> None:
    contest.start()
    await contest.run_for(5)
    fates = iter(["applied, no answer"])
    contest.links[0].fate = lambda: next(fates, "fine")
    await contest.run_for(60)
    assert contest.reigns == ["operator-0"]


async def test_a_claim_without_an_answer_grants_nothing_until_it_is_read_back(contest: Contest) -> None:
    fates = iter(["fine", "applied, no answer"])
    contest.links[0].fate = lambda: next(fates, "fine")
    contest.start(0)
    await contest.run_for(4)
    assert contest.lease.record is not None
    assert contest.lease.record.holder == "operator-0"
    assert contest.leaders() == []
    await contest.run_for(6)
    assert contest.leaders() == ["operator-0"]


async def test_a_holder_of_the_same_name_that_was_not_this_process_is_waited_out(contest: Contest) -> None:
    contest.lease.create(LeaseRecord("operator-0", 15, None, None, 3))
    contest.start(0)
    await contest.run_for(14)
    assert contest.leaders() == []
    await contest.run_for(6)
    assert contest.leaders() == ["operator-0"]


async def test_a_holder_that_asks_for_more_time_gets_it(contest: Contest) -> None:
    contest.lease.create(LeaseRecord("someone", 60, None, None, 0))
    contest.start(0)
    await contest.run_for(59)
    assert contest.leaders() == []
    await contest.run_for(5)
    assert contest.leaders() == ["operator-0"]


async def test_a_holder_whose_wall_clock_stands_still_is_alive(contest: Contest) -> None:
    contest.lease.create(LeaseRecord("stopped clock", 15, None, contest.clock.now(), 0))
    contest.start(0)
    for _ in range(30):
        await contest.run_for(5)
        assert contest.lease.record is not None
        contest.lease.update(contest.lease.record)
    assert contest.reigns == []


async def test_a_lease_deleted_under_its_leader_is_not_taken_by_those_who_knew_it(contest: Contest) -> None:
    contest.start(0, 1, 2)
    await contest.run_for(20)
    contest.lease.record = None
    await contest.run_for(60)
    assert len(contest.leaders()) == 1


async def test_one_who_starts_when_the_lease_is_gone_creates_it(contest: Contest) -> None:
    contest.start(2)
    await contest.run_for(1)
    assert contest.leaders() == ["operator-2"]


@pytest.mark.parametrize("seed", range(60))
async def test_never_two_leaders_under_random_faults_and_one_again_when_they_end(
    clock: VirtualClock, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311 - faults that can be replayed, not secrets
    contest = Contest(clock, [dice.choice([-300.0, -1.0, 0.0, 1.0, 300.0]) for _ in range(3)])
    fates = ["unreachable", "conflict", "hang", "applied, no answer", "applied late", "slow answer"]
    rate = dice.choice([0.05, 0.3, 0.7])
    for link in contest.links:
        link.fate = lambda: dice.choice(fates) if dice.random() < rate else "fine"
        link.delay = lambda: dice.choice([0.0, 0.01, 0.5, 2.0])
    contest.start()
    for _ in range(40):
        for link in contest.links:
            link.cut = dice.random() < 0.3
        await contest.run_for(dice.uniform(1, 30))
    for link in contest.links:
        link.cut, link.fate, link.delay = False, lambda: "fine", lambda: 0.01
    await contest.run_for(40)
    assert len(contest.leaders()) == 1
    assert contest.reigns
    await contest.close()


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 10), (15, 10, 0)], ids=["no margin", "no retry", "no pause"])
def test_lease_times_that_cannot_be_safe_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="retry period < renew deadline < lease"):
        LeaseTimes(*times)


def test_an_elector_without_a_name_is_refused(clock: VirtualClock) -> None:
    with pytest.raises(ValueError, match="needs an identity"):
        Elector(Link(Lease(), clock), "")


def test_without_a_clock_the_system_clock_counts(clock: VirtualClock) -> None:
    elector = Elector(Link(Lease(), clock), "x")
    assert isinstance(elector._clock, SystemClock)
    assert not elector.is_leader
