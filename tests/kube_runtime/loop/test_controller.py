"""Whatever a reconcile does, the controller goes on, and goes on in the right way."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from kube_runtime.clock import VirtualClock, run_until_idle, within
from kube_runtime.errors import OperatorError, Retryable, Terminal
from kube_runtime.loop import logs
from kube_runtime.loop.controller import (
    Controller,
    Fault,
    Outcome,
    Reconcile,
    Result,
    classify,
    retry_after,
)
from kube_runtime.loop.metrics import Metrics
from kube_runtime.loop.queue import Key
from kube_runtime.loop.rest import MAX_REST_SECONDS, Rests

A, B = Key("slurm", "a"), Key("slurm", "b")
MakeController = Callable[..., Controller]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def make(clock: VirtualClock, metrics: Metrics) -> MakeController:
    def controller(reconcile: Reconcile, workers: int = 1, time_limit: float = 60.0) -> Controller:
        return Controller(
            "NodeSet",
            reconcile,
            workers=workers,
            time_limit=time_limit,
            clock=clock,
            random=lambda: 0.0,
            metrics=metrics,
        )

    return controller


def results(metrics: Metrics) -> dict[str, float]:
    """Reconciles by result."""
    return {
        sample.labels["result"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "reconcile_total"
    }


class TooBusy(Retryable):
    retry_after = 30.0


class Unspecified(OperatorError):
    """Neither Retryable nor Terminal."""


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several", errors)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Retryable("x"), Outcome.RETRY),
        (Terminal("x"), Outcome.TERMINAL),
        (Unspecified("x"), Outcome.RETRY),
        (KeyError("x"), Outcome.ERROR),
        (group(Terminal("x"), Terminal("y")), Outcome.TERMINAL),
        (group(Terminal("x"), group(Retryable("y"))), Outcome.RETRY),
        (group(Retryable("x"), KeyError("y")), Outcome.ERROR),
    ],
    ids=[
        "retryable",
        "terminal",
        "neither is retried",
        "unexpected",
        "all terminal",
        "nested and partly retryable",
        "partly unexpected",
    ],
)
def test_an_error_says_what_happens_next(error: Exception, outcome: Outcome) -> None:
    assert classify(error) is outcome


def test_the_longest_wait_that_a_server_asked_for_counts() -> None:
    assert retry_after(group(Retryable("x"), TooBusy("y"))) == 30.0
    assert retry_after(Retryable("x")) == 0.0


async def test_success_without_a_wish_leaves_the_queue_empty(make: MakeController, metrics: Metrics) -> None:
    async def reconcile(key: Key) -> Result:
        return Result()

    controller = make(reconcile)
    controller.add(A)
    assert await controller.step()
    assert not await controller.step()
    assert controller.queue.next_due() is None
    assert results(metrics) == {"ok": 1.0}


@pytest.mark.parametrize(
    ("wish", "delay"), [(5.0, 5.0), (0.0, 0.1), (-3.0, 0.1)], ids=["as asked", "not hot", "not in the past"]
)
async def test_a_result_may_ask_to_be_called_again(
    make: MakeController, clock: VirtualClock, metrics: Metrics, wish: float, delay: float
) -> None:
    async def reconcile(key: Key) -> Result:
        return Result(requeue_after=wish)

    controller = make(reconcile)
    controller.add(A)
    await controller.step()
    assert controller.queue.next_due() == pytest.approx(clock.monotonic() + delay)
    assert results(metrics) == {"requeue": 1.0}


async def test_looks_at_a_key_at_rest_become_rarer_until_something_changes(
    make: MakeController, clock: VirtualClock
) -> None:
    times: list[float] = []

    async def reconcile(_: Key) -> Result:
        times.append(clock.monotonic())
        return Result(5.0, is_at_rest=True)

    controller = make(reconcile)
    began = clock.monotonic()
    controller.add(A)
    await looked(controller, clock, until=began + 100.0)
    assert [time - began for time in times] == [0.0, 5.0, 15.0, 35.0, 75.0]
    controller.add(A)
    await looked(controller, clock, until=began + 120.0)
    assert [time - began for time in times[5:]] == [100.0, 105.0, 115.0]
    await looked(controller, clock, until=began + 100_000.0)
    assert max(late - early for early, late in itertools.pairwise(times)) == MAX_REST_SECONDS


@pytest.mark.parametrize("restless", ["it has something to do", "it fails", "it changes while it is looked at"])
async def test_a_key_that_was_not_at_rest_is_looked_at_soon_again(
    make: MakeController, clock: VirtualClock, restless: str
) -> None:
    times: list[float] = []

    async def reconcile(_: Key) -> Result:
        times.append(clock.monotonic())
        if len(times) == 4:
            if restless == "it fails":
                raise TooBusy("no")
            if restless == "it changes while it is looked at":
                controller.add(A)
            return Result(5.0, is_at_rest=restless != "it has something to do")
        return Result(5.0, is_at_rest=True)

    controller = make(reconcile)
    controller.add(A)
    await looked(controller, clock, until=clock.monotonic() + 300.0)
    pauses = [late - early for early, late in itertools.pairwise(times)]
    assert pauses[:3] == [5.0, 10.0, 20.0]
    assert 5.0 in pauses[3:5]


async def test_keys_of_several_controllers_rest_together(clock: VirtualClock) -> None:
    async def reconcile(_: Key) -> Result:
        return Result(5.0, is_at_rest=True)

    rests = Rests(lambda: 0.0)
    first, second = (Controller(name, reconcile, clock=clock, rests=rests) for name in ("NodeSet", "Controller"))
    for number in range(20):
        second.add(Key("slurm", str(number)))
        await second.step()
    first.add(A)
    await first.step()
    assert (first.queue.next_due() or 0.0) - clock.monotonic() > 5.0


async def looked(controller: Controller, clock: VirtualClock, until: float) -> None:
    """Let a controller work until a time."""
    while True:
        while await controller.step():
            pass
        if not clock.fire_next(until=until):
            clock.advance(until - clock.monotonic())
            return


@pytest.mark.parametrize(
    ("error", "delay", "result"),
    [
        (Retryable("no answer"), 0.005, "retry"),
        (TooBusy("later"), 30.0, "retry"),
        (ZeroDivisionError("bug"), 0.005, "error"),
        (TimeoutError("socket"), 0.005, "error"),
    ],
    ids=["retryable", "server asked to wait", "bug", "someone else's time-out"],
)
async def test_failures_come_again_with_backoff(
    make: MakeController, clock: VirtualClock, metrics: Metrics, error: Exception, delay: float, result: str
) -> None:
    async def reconcile(key: Key) -> Result:
        raise error

    controller = make(reconcile)
    controller.add(A)
    await controller.step()
    assert controller.queue.failing == {A}
    assert controller.queue.next_due() == pytest.approx(clock.monotonic() + delay)
    assert results(metrics) == {result: 1.0}


async def test_success_resets_the_backoff(make: MakeController, clock: VirtualClock) -> None:
    fail = True

    async def reconcile(key: Key) -> Result:
        if fail:
            raise Retryable("not yet")
        return Result()

    controller = make(reconcile)
    controller.add(A)
    for _ in range(5):
        await controller.step()
        clock.fire_next()
    fail = False
    await controller.step()
    assert controller.queue.failing == frozenset()
    assert controller.queue.next_due() is None
    assert controller.queue.retry(A) == 0.005


async def test_a_terminal_error_waits_for_a_change(
    make: MakeController, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def reconcile(key: Key) -> Result:
        raise Terminal("spec.replicas is negative")

    controller = make(reconcile)
    controller.add(A)
    await controller.step()
    clock.advance(3600)
    assert not await controller.step()
    controller.add(A)
    clock.advance(1)
    assert await controller.step()
    assert "Failed: spec.replicas is negative; waiting for a change" in caplog.text


async def test_an_unexpected_error_shows_its_traceback_once(
    make: MakeController, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def reconcile(key: Key) -> Result:
        raise ZeroDivisionError("bug")

    controller = make(reconcile)
    controller.add(A)
    for _ in range(3):
        await controller.step()
        clock.advance(300)
    traces = [record for record in caplog.records if record.exc_info]
    assert len(traces) == 1
    assert len(caplog.records) == 3
    assert "unexpected ZeroDivisionError: bug" in caplog.records[2].getMessage()


async def test_after_a_success_the_same_error_shows_its_traceback_again(
    make: MakeController, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception | None] = [ZeroDivisionError("bug"), None, ZeroDivisionError("bug")]

    async def reconcile(key: Key) -> Result:
        if error := errors.pop(0):
            raise error
        return Result()

    controller = make(reconcile)
    for _ in range(3):
        controller.add(A)
        clock.advance(1)
        await controller.step()
    assert len([record for record in caplog.records if record.exc_info]) == 2


async def test_a_reconcile_that_takes_too_long_is_cut_off_and_tried_again(
    make: MakeController, clock: VirtualClock, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    async def reconcile(key: Key) -> Result:
        await clock.sleep(1_000_000)
        return Result()

    controller = make(reconcile, time_limit=60)
    controller.add(A)
    step = asyncio.create_task(controller.step())
    await clock.run_for(60)
    assert await step
    assert results(metrics) == {"timeout": 1.0}
    assert controller.queue.failing == {A}
    assert "cut off after 60 s" in caplog.text


async def test_a_limit_inside_the_reconcile_is_an_ordinary_retry(
    make: MakeController, clock: VirtualClock, metrics: Metrics
) -> None:
    async def reconcile(key: Key) -> Result:
        await within(clock, 1, clock.sleep(10))
        return Result()

    controller = make(reconcile)
    controller.add(A)
    step = asyncio.create_task(controller.step())
    await clock.run_for(1)
    assert await step
    assert results(metrics) == {"retry": 1.0}


async def test_a_cancelled_subtask_does_not_end_the_worker(make: MakeController, metrics: Metrics) -> None:
    async def reconcile(key: Key) -> Result:
        subtask = asyncio.get_running_loop().create_future()
        subtask.cancel()
        await subtask
        return Result()

    controller = make(reconcile)
    controller.add(A)
    assert await controller.step()
    assert results(metrics) == {"retry": 1.0}


async def test_a_simulated_crash_comes_out_of_a_step(make: MakeController, metrics: Metrics) -> None:
    class Crash(BaseException):
        pass

    async def reconcile(key: Key) -> Result:
        raise Crash

    controller = make(reconcile)
    controller.add(A)
    with pytest.raises(Crash):
        await controller.step()
    assert controller.running == {}
    assert controller.queue.processing == frozenset()


def recorder(clock: VirtualClock, seconds: float) -> tuple[list[tuple[str, Key]], Callable[[Key], Awaitable[Result]]]:
    seen: list[tuple[str, Key]] = []

    async def reconcile(key: Key) -> Result:
        seen.append(("begin", key))
        await clock.sleep(seconds)
        seen.append(("end", key))
        return Result()

    return seen, reconcile


async def test_one_key_never_runs_twice_at_once_and_no_change_is_lost(
    make: MakeController, clock: VirtualClock
) -> None:
    seen, reconcile = recorder(clock, 1)
    controller = make(reconcile, workers=4)
    running = asyncio.create_task(controller.run())
    controller.add(A)
    await run_until_idle()
    for _ in range(50):
        controller.add(A)
        await asyncio.sleep(0)
    await clock.run_for(10)
    controller.stop()
    await running
    assert seen == [("begin", A), ("end", A), ("begin", A), ("end", A)]


async def test_no_more_reconciles_than_workers_run_at_once(make: MakeController, clock: VirtualClock) -> None:
    _, reconcile = recorder(clock, 1)
    controller = make(reconcile, workers=3)
    running = asyncio.create_task(controller.run())
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, len(controller.running))

    for number in range(20):
        controller.add(Key("slurm", f"n{number}"))
    await clock.run_for(30, after_each=look)
    controller.stop()
    await running
    assert most == 3
    assert len(controller.queue) == 0


async def test_stop_takes_no_new_key_and_lets_the_running_one_end(make: MakeController, clock: VirtualClock) -> None:
    seen, reconcile = recorder(clock, 5)
    controller = make(reconcile, workers=1)
    running = asyncio.create_task(controller.run())
    controller.add(A)
    controller.add(B)
    await run_until_idle()
    controller.stop()
    await clock.run_for(10)
    await running
    assert seen == [("begin", A), ("end", A)]


async def test_workers_survive_every_kind_of_failure(make: MakeController, clock: VirtualClock) -> None:
    errors: list[Exception] = [Retryable("1"), Terminal("2"), ZeroDivisionError("3"), group(KeyError("4"))]
    handled: list[Key] = []

    async def reconcile(key: Key) -> Result:
        handled.append(key)
        if errors and key != B:
            raise errors.pop()
        return Result()

    controller = make(reconcile, workers=1)
    running = asyncio.create_task(controller.run())
    for number in range(4):
        controller.add(Key("slurm", f"bad-{number}"))
    await run_until_idle()
    controller.add(B)
    await clock.run_for(1)
    assert B in handled
    assert not running.done()
    controller.stop()
    await running


async def test_a_cancelled_reconcile_is_counted_and_its_key_is_free(
    make: MakeController, clock: VirtualClock, metrics: Metrics
) -> None:
    _, reconcile = recorder(clock, 5)
    controller = make(reconcile)
    running = asyncio.create_task(controller.run())
    controller.add(A)
    await run_until_idle()
    assert dict(controller.running) == {A: clock.monotonic()}
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert controller.running == {}
    assert results(metrics) == {"cancelled": 1.0}


async def test_every_line_logged_by_a_reconcile_can_name_its_object(make: MakeController) -> None:
    seen: list[dict[str, str]] = []

    async def reconcile(key: Key) -> Result:
        seen.append(dict(logs._fields.get()))
        return Result()

    controller = make(reconcile)
    for key in (A, B):
        controller.add(key)
        await controller.step()
    assert seen[1] == {
        "kind": "NodeSet",
        "namespace": "slurm",
        "name": "b",
        "controller": "NodeSet",
        "reconcile": "NodeSet-2",
    }


def test_a_controller_needs_a_worker(make: MakeController) -> None:
    async def reconcile(key: Key) -> Result:
        return Result()

    with pytest.raises(ValueError, match="NodeSet: workers must be at least 1, not 0"):
        make(reconcile, workers=0)


def test_a_controller_can_do_without_metrics_and_with_the_system_clock() -> None:
    async def reconcile(key: Key) -> Result:
        return Result()

    controller = Controller("Token", reconcile)
    controller.add(A)
    assert len(controller.queue) == 1


class Reports:
    """What was reported of faults."""

    def __init__(self, error: Exception | None = None) -> None:
        self.faults: list[Fault] = []
        self.error = error

    async def __call__(self, _: Key, fault: Fault) -> None:
        self.faults.append(fault)
        if self.error is not None:
            raise self.error


def reporting(reconcile: Reconcile, reports: Reports, clock: VirtualClock, metrics: Metrics) -> Controller:
    draws = iter((0.25, 0.0, 0.0, 0.0, 0.75, 0.0))
    return Controller(
        "NodeSet",
        reconcile,
        clock=clock,
        random=lambda: next(draws, 0.5),
        metrics=metrics,
        report_fault=reports,
        time_limit=60,
    )


async def test_an_unexpected_error_is_reported_on_its_object_under_the_id_that_the_log_has(
    clock: VirtualClock, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    async def reconcile(key: Key) -> Result:
        raise ZeroDivisionError("bug")

    reports = Reports()
    controller = reporting(reconcile, reports, clock, metrics)
    controller.add(A)
    for _ in range(2):
        await controller.step()
        clock.advance(300)
    assert [fault.is_new for fault in reports.faults] == [True, False]
    assert {fault.id for fault in reports.faults} == {reports.faults[0].id}
    assert f"(fault {reports.faults[0].id})" in caplog.records[0].getMessage()
    counted = metrics.registry.get_sample_value(
        "reconcile_faults_total", {"kind": "NodeSet", "namespace": "slurm", "name": "a"}
    )
    assert counted == 2


async def test_a_reconcile_that_is_cut_off_is_reported_too(clock: VirtualClock, metrics: Metrics) -> None:
    async def reconcile(key: Key) -> Result:
        await clock.sleep(1_000_000)
        return Result()

    reports = Reports()
    controller = reporting(reconcile, reports, clock, metrics)
    controller.add(A)
    task = asyncio.create_task(controller.step())
    await clock.run_for(61)
    await task
    assert [fault.text for fault in reports.faults] == ["the reconcile was cut off after 60 s"]


async def test_a_fault_that_cannot_be_reported_does_not_stop_the_controller(
    clock: VirtualClock, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    async def reconcile(key: Key) -> Result:
        raise ZeroDivisionError("bug")

    controller = reporting(reconcile, Reports(RuntimeError("no API server")), clock, metrics)
    controller.add(A)
    assert await controller.step()
    assert controller.queue.failing == {A}
    assert "could not be reported on NodeSet slurm/a" in caplog.text


@pytest.mark.parametrize("error", [TooBusy("later"), Terminal("no")], ids=["retryable", "terminal"])
async def test_an_error_that_was_foreseen_is_no_fault(clock: VirtualClock, metrics: Metrics, error: Exception) -> None:
    async def reconcile(key: Key) -> Result:
        raise error

    reports = Reports()
    controller = reporting(reconcile, reports, clock, metrics)
    controller.add(A)
    await controller.step()
    assert reports.faults == []


async def test_a_slow_group_does_not_keep_another_one_waiting(clock: VirtualClock, metrics: Metrics) -> None:
    done: list[str] = []

    async def reconcile(key: Key) -> Result:
        if key.namespace == "slow":
            await clock.sleep(50)
        done.append(str(key))
        return Result()

    controller = Controller(
        "NodeSet", reconcile, workers=2, clock=clock, metrics=metrics, group_of=lambda key: key.namespace
    )
    for number in range(100):
        controller.add(Key("slow", f"n{number}"))
    controller.add(Key("quick", "a"))
    running = asyncio.create_task(controller.run())
    await clock.run_for(1)
    assert done == ["quick/a"]
    controller.stop()
    await clock.run_for(120)
    await running
