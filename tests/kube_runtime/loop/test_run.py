"""Everything starts and stops in the right order, and campaigns can drive the loop by hand."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.kube_runtime.loop.quiet import NeverQuietError, Quiet, run_until_quiet

from kube_runtime.clock import VirtualClock, run_until_idle
from kube_runtime.errors import Retryable, Terminal
from kube_runtime.loop.controller import Controller, Reconcile, Result
from kube_runtime.loop.leadership import Elector, LeaseRecord
from kube_runtime.loop.queue import Key
from kube_runtime.loop.run import Ending, run

A, B = Key("slurm", "a"), Key("slurm", "b")


class Lease:
    """A store that always answers, unless cut off, and keeps a diary."""

    def __init__(self, diary: list[str]) -> None:
        self.record: LeaseRecord | None = None
        self.diary = diary
        self.cut = False

    async def get(self) -> LeaseRecord | None:
        if self.cut:
            raise OSError("no route")
        return self.record

    async def create(self, record: LeaseRecord) -> LeaseRecord:
        self.diary.append("lease taken")
        return self._put(record)

    async def update(self, record: LeaseRecord) -> LeaseRecord:
        if self.cut:
            raise OSError("no route")
        if not record.holder:
            self.diary.append("lease released")
        return self._put(record)

    def _put(self, record: LeaseRecord) -> LeaseRecord:
        version = int(self.record.version) + 1 if self.record else 1
        self.record = replace(record, version=str(version))
        return self.record


@dataclass
class FakeSources:
    """Caches that are complete when the test says so."""

    diary: list[str]
    missing: Sequence[str] = ()

    def unsynced(self) -> Sequence[str]:
        return self.missing

    async def close(self) -> None:
        self.diary.append("sources closed")


class Stage:
    """One run with its parts at hand."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.diary: list[str] = []
        self.lease = Lease(self.diary)
        self.sources = FakeSources(self.diary)
        self.stop = asyncio.Event()
        self.elector = Elector(self.lease, "me", clock=clock, random=lambda: 0.0)
        self.controllers = [self.controller(self.work)]
        self.seconds = 3.0

    def controller(self, reconcile: Reconcile, name: str = "NodeSet") -> Controller:
        return Controller(name, reconcile, clock=self.clock, random=lambda: 0.0)

    async def work(self, key: Key) -> Result:
        self.diary.append(f"begin {key.name}")
        try:
            await self.clock.sleep(self.seconds)
        except asyncio.CancelledError:
            self.diary.append(f"cut off {key.name}")
            raise
        self.diary.append(f"end {key.name}")
        return Result()

    def start(self, **options: Any) -> asyncio.Task[Ending]:
        options = {"elector": self.elector, "stop": self.stop, "clock": self.clock, **options}
        return asyncio.create_task(run(self.controllers, self.sources, **options))


@pytest.fixture
async def stage(clock: VirtualClock) -> Stage:
    return Stage(clock)


async def test_controllers_wait_for_complete_caches_and_for_the_lease(stage: Stage) -> None:
    stage.sources.missing = ["pods"]
    stage.controllers[0].add(A)
    task = stage.start()
    await stage.clock.run_for(5)
    assert stage.diary == ["lease taken"]
    stage.sources.missing = []
    await stage.clock.run_for(5)
    assert stage.diary == ["lease taken", "begin a", "end a"]
    stage.stop.set()
    await stage.clock.run_for(1)
    assert await task is Ending.ASKED


async def test_a_standby_does_not_work(stage: Stage) -> None:
    stage.lease.record = LeaseRecord("other", 3600, None, None, 0, version="1")
    stage.controllers[0].add(A)
    task = stage.start()
    await stage.clock.run_for(60)
    stage.stop.set()
    await stage.clock.run_for(1)
    assert await task is Ending.ASKED
    assert stage.diary == ["sources closed"]


async def test_stopping_ends_running_work_takes_no_more_and_releases_the_lease_last(stage: Stage) -> None:
    for key in (A, B):
        stage.controllers[0].add(key)
    task = stage.start()
    await stage.clock.run_for(1)
    stage.stop.set()
    await stage.clock.run_for(10)
    assert await task is Ending.ASKED
    assert stage.diary == ["lease taken", "begin a", "end a", "sources closed", "lease released"]


async def test_work_that_does_not_end_in_time_is_cut_off_before_the_lease_is_released(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.seconds = 100
    stage.controllers[0].add(A)
    task = stage.start(grace=20)
    await stage.clock.run_for(1)
    stage.stop.set()
    await stage.clock.run_for(19)
    assert not task.done()
    await stage.clock.run_for(2)
    assert await task is Ending.ASKED
    assert stage.diary[2:] == ["cut off a", "sources closed", "lease released"]
    assert "NodeSet slurm/a did not end in time and is cut off" in caplog.text


async def test_lost_leadership_cuts_everything_off_at_once(stage: Stage) -> None:
    stage.seconds = 100
    stage.controllers[0].add(A)
    task = stage.start()
    await stage.clock.run_for(1)
    stage.lease.cut = True
    await stage.clock.run_for(10)
    assert "cut off a" in stage.diary
    assert not stage.elector.is_leader
    await stage.clock.run_for(5)
    assert await task is Ending.LEADERSHIP_LOST


async def test_leadership_lost_while_stopping_ends_the_grace(stage: Stage) -> None:
    stage.seconds = 100
    stage.controllers[0].add(A)
    task = stage.start(grace=60)
    await stage.clock.run_for(1)
    stage.lease.cut = True
    stage.stop.set()
    await stage.clock.run_for(11)
    assert "cut off a" in stage.diary
    await stage.clock.run_for(5)
    assert await task is Ending.ASKED


async def test_work_that_ignores_its_end_is_left_behind(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()

    async def stubborn(key: Key) -> Result:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return Result()

    stage.controllers = [stage.controller(stubborn)]
    stage.controllers[0].add(A)
    task = stage.start(grace=1)
    await stage.clock.run_for(1)
    stage.stop.set()
    await stage.clock.run_for(10)
    assert await task is Ending.ASKED
    assert "ignores its cancellation and is left behind" in caplog.text
    release.set()
    await run_until_idle()


async def test_without_an_election_work_starts_at_once(stage: Stage) -> None:
    stage.controllers[0].add(A)
    task = stage.start(elector=None)
    await stage.clock.run_for(5)
    stage.stop.set()
    await stage.clock.run_for(1)
    assert await task is Ending.ASKED
    assert stage.diary == ["begin a", "end a", "sources closed"]


Background = Callable[[], Coroutine[Any, Any, object]]


async def _returns() -> None:
    return None


async def _raises() -> None:
    raise LookupError("broken part")


async def _is_cancelled() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("part", [_returns, _raises, _is_cancelled])
async def test_a_vital_part_that_ends_ends_the_program(
    stage: Stage, part: Background, caplog: pytest.LogCaptureFixture
) -> None:
    async def after_a_while() -> None:
        await stage.clock.sleep(5)
        await part()

    task = stage.start(background=[after_a_while])
    await stage.clock.run_for(6)
    assert await task is Ending.FAILED
    assert "after_a_while has ended and should not have" in caplog.text
    assert stage.diary[-1] == "lease released"


async def test_a_vital_part_that_ends_before_the_work_begins_ends_the_program(stage: Stage) -> None:
    stage.sources.missing = ["pods"]
    task = stage.start(background=[_raises])
    await stage.clock.run_for(1)
    assert await task is Ending.FAILED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_signal_stops_the_program_gracefully(number: signal.Signals) -> None:
    begun = asyncio.Event()
    seen: list[str] = []

    async def reconcile(key: Key) -> Result:
        begun.set()
        await asyncio.sleep(0)
        seen.append("ended")
        return Result()

    controller = Controller("NodeSet", reconcile)
    controller.add(A)
    task = asyncio.create_task(run([controller], FakeSources([])))
    await begun.wait()
    os.kill(os.getpid(), number)
    assert await task is Ending.ASKED
    assert seen == ["ended"]


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    endings: list[Ending] = []

    async def main() -> Ending:
        stop = asyncio.Event()
        stop.set()
        return await run([], FakeSources([]), stop=stop)

    thread = threading.Thread(target=lambda: endings.append(asyncio.run(main())))
    thread.start()
    thread.join()
    assert endings == [Ending.ASKED]


async def test_quiet_is_reached_when_no_key_is_left(stage: Stage) -> None:
    stage.controllers[0].add(A)
    stage.controllers[0].add(B)
    assert await run_until_quiet(stage.controllers, stage.clock) == Quiet(reconciles=2, seconds=6.0)


async def test_retries_are_waited_for(stage: Stage) -> None:
    fails = 10

    async def reconcile(key: Key) -> Result:
        nonlocal fails
        fails -= 1
        if fails >= 0:
            raise Retryable("not yet")
        return Result()

    controller = stage.controller(reconcile)
    controller.add(A)
    quiet = await run_until_quiet([controller], stage.clock)
    assert quiet.reconciles == 11
    assert quiet.seconds == pytest.approx(0.005 * (2**10 - 1))


async def test_polling_goes_on_within_the_horizon_and_does_not_prevent_quiet(stage: Stage) -> None:
    async def reconcile(key: Key) -> Result:
        return Result(requeue_after=5)

    controller = stage.controller(reconcile)
    controller.add(A)
    quiet = await run_until_quiet([controller], stage.clock, horizon=62)
    assert quiet == Quiet(reconciles=13, seconds=62.0)


async def test_a_world_that_still_changes_is_not_quiet(stage: Stage) -> None:
    writes = 0

    async def reconcile(key: Key) -> Result:
        nonlocal writes
        writes += writes < 3
        return Result(requeue_after=5)

    controller = stage.controller(reconcile)
    controller.add(A)
    quiet = await run_until_quiet([controller], stage.clock, fingerprint=lambda: writes, horizon=20)
    assert quiet.seconds == 10 + 20


@pytest.mark.parametrize("error", [Retryable("no"), ZeroDivisionError("bug")], ids=["retryable", "bug"])
async def test_who_fails_for_ever_is_named(stage: Stage, error: Exception) -> None:
    async def reconcile(key: Key) -> Result:
        raise error

    controller = stage.controller(reconcile)
    controller.add(A)
    with pytest.raises(NeverQuietError, match="still at work: NodeSet slurm/a"):
        await run_until_quiet([controller], stage.clock, limit=1800)
    assert stage.clock.monotonic() <= 1000 + 1800


async def test_a_terminal_error_is_quiet(stage: Stage) -> None:
    async def reconcile(key: Key) -> Result:
        raise Terminal("wrong spec")

    controller = stage.controller(reconcile)
    controller.add(A)
    assert (await run_until_quiet([controller], stage.clock)).reconciles == 1


async def test_a_world_that_changes_for_ever_is_never_quiet(stage: Stage) -> None:
    async def reconcile(key: Key) -> Result:
        return Result(requeue_after=1)

    controller = stage.controller(reconcile)
    controller.add(A)
    with pytest.raises(NeverQuietError):
        await run_until_quiet([controller], stage.clock, fingerprint=stage.clock.monotonic, horizon=5, limit=60)


async def test_a_key_that_adds_itself_is_caught(stage: Stage) -> None:
    async def reconcile(key: Key) -> Result:
        controller.add(key)
        return Result()

    controller = stage.controller(reconcile)
    controller.add(A)
    with pytest.raises(NeverQuietError, match="NodeSet slurm/a"):
        await run_until_quiet([controller], stage.clock, max_reconciles=50)


async def test_who_goes_next_can_be_chosen(stage: Stage) -> None:
    order: list[str] = []

    def named(name: str) -> Controller:
        async def reconcile(key: Key) -> Result:
            order.append(name)
            return Result()

        return stage.controller(reconcile, name)

    controllers = [named("NodeSet"), named("Token")]
    for controller in controllers:
        controller.add(A)
    await run_until_quiet(controllers, stage.clock, choose=lambda ready: ready[-1])
    assert order == ["Token", "NodeSet"]


async def test_real_input_and_output_gets_real_time(stage: Stage) -> None:
    async def reconcile(key: Key) -> Result:
        await asyncio.to_thread(lambda: None)
        return Result()

    controller = stage.controller(reconcile)
    controller.add(A)
    quiet = await run_until_quiet([controller], stage.clock, outside=30)
    assert quiet == Quiet(reconciles=1, seconds=0.0)


async def test_a_reconcile_that_waits_for_nothing_and_ignores_its_limit_is_reported(stage: Stage) -> None:
    release = asyncio.Event()

    async def stubborn(key: Key) -> Result:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return Result()

    controller = stage.controller(stubborn)
    controller.add(A)
    with pytest.raises(NeverQuietError, match="waits for something that virtual time does not bring"):
        await run_until_quiet([controller], stage.clock)
    release.set()
    await run_until_idle()


async def test_a_simulated_crash_comes_out(stage: Stage) -> None:
    class Crash(BaseException):
        pass

    async def reconcile(key: Key) -> Result:
        raise Crash

    controller = stage.controller(reconcile)
    controller.add(A)
    with pytest.raises(Crash):
        await run_until_quiet([controller], stage.clock)
