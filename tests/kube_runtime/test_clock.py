"""Virtual time moves only when told to, in order; time limits hold on any clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.kube_runtime.skewed_clock import SkewedClock

from kube_runtime.clock import (
    DeadlinePassed,
    DeadlinePassedError,
    SystemClock,
    VirtualClock,
    check_deadline,
    run_until_idle,
    within,
)


def test_timers_fire_in_order_of_time_then_of_creation(clock: VirtualClock) -> None:
    fired: list[str] = []
    clock.call_later(2, lambda: fired.append("late"))
    clock.call_later(1, lambda: fired.append("first of two"))
    clock.call_later(1, lambda: fired.append("second of two"))
    clock.advance(3)
    assert fired == ["first of two", "second of two", "late"]
    assert clock.monotonic() == 1003.0


def test_a_timer_that_is_not_due_stays(clock: VirtualClock) -> None:
    fired: list[float] = []
    clock.call_later(5, lambda: fired.append(clock.monotonic()))
    clock.advance(4.9)
    assert fired == []
    assert clock.next_due() == 1005.0
    clock.advance(0.1)
    assert fired == [1005.0]
    assert clock.next_due() is None


def test_a_cancelled_timer_does_not_fire(clock: VirtualClock) -> None:
    timer = clock.call_later(1, lambda: pytest.fail("cancelled timer fired"))
    timer.cancel()
    assert not clock.fire_next()
    clock.advance(2)


def test_a_timer_set_in_the_past_fires_now_and_time_does_not_run_back(clock: VirtualClock) -> None:
    seen: list[float] = []
    clock.call_later(-50, lambda: seen.append(clock.monotonic()))
    assert clock.fire_next()
    assert seen == [1000.0]


def test_the_wall_clock_moves_with_virtual_time() -> None:
    epoch = datetime(2030, 6, 1, tzinfo=UTC)
    clock = VirtualClock(start=7.0, epoch=epoch)
    assert clock.now() == epoch
    clock.advance(60)
    assert clock.now() == epoch + timedelta(minutes=1)


async def test_sleepers_wake_in_order_and_see_their_own_time(clock: VirtualClock) -> None:
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in [("b", 2.0), ("a", 1.0), ("now", 0.0)]:
            group.create_task(sleeper(name, seconds))
        await clock.run_for(10)
    assert woken == [("now", 1000.0), ("a", 1001.0), ("b", 1002.0)]
    assert clock.monotonic() == 1010.0


async def test_a_cancelled_sleeper_leaves_no_timer(clock: VirtualClock) -> None:
    task = asyncio.create_task(clock.sleep(5))
    await run_until_idle()
    task.cancel()
    await run_until_idle()
    assert clock.next_due() is None


async def test_a_timer_that_fires_beside_a_cancellation_is_harmless(clock: VirtualClock) -> None:
    task = asyncio.create_task(clock.sleep(5))
    await run_until_idle()
    task.cancel()
    clock.advance(5)
    await run_until_idle()
    assert task.cancelled()


async def test_settle_also_works_on_a_loop_without_a_ready_list(monkeypatch: pytest.MonkeyPatch) -> None:
    class OtherLoop:
        pass

    hops = 0

    async def hopper() -> None:
        nonlocal hops
        while hops < 20:
            hops += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(hopper())
    monkeypatch.setattr(asyncio, "get_running_loop", OtherLoop)
    await run_until_idle()
    monkeypatch.undo()
    await task
    assert hops == 20


async def test_work_within_its_limit_returns_its_value(clock: VirtualClock) -> None:
    async def work() -> str:
        await clock.sleep(1)
        return "done"

    task = asyncio.create_task(within(clock, 2, work()))
    await clock.run_for(1)
    assert await task == "done"
    assert clock.next_due() is None


async def test_work_beyond_its_limit_is_cancelled_and_waited_for(clock: VirtualClock) -> None:
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            await clock.sleep(100)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    task = asyncio.create_task(within(clock, 2, work()))
    await clock.run_for(2)
    with pytest.raises(DeadlinePassedError, match="not done within 2 s"):
        await task
    assert cleaned == [True]


async def test_cancelling_the_waiter_cancels_the_work_and_is_no_deadline(clock: VirtualClock) -> None:
    task = asyncio.create_task(within(clock, 2, clock.sleep(100)))
    await run_until_idle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.next_due() is None


async def test_the_waiter_cancelled_at_the_deadline_is_cancelled(clock: VirtualClock) -> None:
    task = asyncio.create_task(within(clock, 2, clock.sleep(100)))
    await run_until_idle()
    clock.advance(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_error_of_the_work_comes_through(clock: VirtualClock) -> None:
    async def work() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await within(clock, 2, work())


async def test_the_system_clock_sleeps_and_calls(clock: VirtualClock) -> None:
    system = SystemClock()
    before, wall = system.monotonic(), system.now()
    called = asyncio.Event()
    system.call_later(0, called.set)
    await called.wait()
    await system.sleep(0)
    assert system.monotonic() >= before
    assert wall.tzinfo is UTC


async def test_a_skewed_clock_shares_durations_only(clock: VirtualClock) -> None:
    skewed = SkewedClock(clock, wall_offset=-300, monotonic_offset=50)
    assert skewed.now() == clock.now() - timedelta(minutes=5)
    assert skewed.monotonic() == clock.monotonic() + 50
    fired: list[str] = []
    skewed.call_later(1, lambda: fired.append("timer"))
    task = asyncio.create_task(skewed.sleep(2))
    await clock.run_for(2)
    await task
    assert fired == ["timer"]


def test_time_goes_on_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """T17: CLOCK_MONOTONIC would say that nothing has passed."""
    boottime = {"now": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    monkeypatch.setattr(time, "clock_gettime", lambda which: boottime["now"] if which == time.CLOCK_BOOTTIME else 5.0)
    before = SystemClock().monotonic()
    boottime["now"] += 3600
    assert SystemClock().monotonic() - before == 3600


def test_timers_stand_still_while_a_virtual_machine_sleeps(clock: VirtualClock) -> None:
    fired: list[float] = []
    clock.call_later(10, lambda: fired.append(clock.monotonic()))
    clock.advance(4)
    clock.suspend(3600)
    assert clock.monotonic() == 4604.0
    assert clock.next_due() == 4610.0
    clock.advance(5.9)
    assert fired == []
    clock.advance(0.1)
    assert fired == [4610.0]


async def test_a_deadline_that_passed_in_sleep_is_known_before_its_timer_fires(clock: VirtualClock) -> None:
    """T17: what was decided before a suspension is not done after it."""
    asked: list[str] = []

    async def work() -> None:
        check_deadline()
        asked.append("in time")
        clock.suspend(3600)
        with pytest.raises(DeadlinePassed, match="passed 3480 s ago"):
            check_deadline()
        asked.append("late")

    await within(clock, 120, work())
    assert asked == ["in time", "late"]
    check_deadline()


async def test_an_inner_limit_does_not_hide_the_outer_one(clock: VirtualClock) -> None:
    async def inner() -> None:
        with pytest.raises(DeadlinePassed):
            check_deadline()

    async def outer() -> None:
        clock.suspend(20)
        await within(clock, 100, inner())

    await within(clock, 10, outer())
