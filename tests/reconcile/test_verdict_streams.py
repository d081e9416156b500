"""The logs of sidecars as streams: who is woken by what, and that none is left open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import REF, small
from tests.campaigns.sidecar import verdict

from kube_runtime.client.errors import Unreachable
from kube_runtime.clock import VirtualClock, check_deadline, run_until_idle, within
from kube_runtime.loop.queue import Key
from slurm_operator.build import verdicts
from slurm_operator.plan.config import ControllerPod
from slurm_operator.plan.verdict_poll import VerdictPoll
from slurm_operator.reconcile.verdict_streams import MAX_STREAMS, STREAM_SECONDS, VerdictStreams

KEY = Key("hpc", "slurm")
POD = ControllerPod("slurm-controller-0", "uid-0", reports_verdicts=True)
STANDBY = ControllerPod("slurm-controller-1", "uid-1", reports_verdicts=True)


def line(hash_: str, version: int = verdicts.VERSION) -> str:
    return verdict(hash_, verdicts.APPLIED, "", version)


def poll(hash_: str = "new", *pods: ControllerPod) -> VerdictPoll:
    return VerdictPoll(hash_, tuple(pod.uid for pod in pods or (POD,)), since=0.0)


@dataclass
class Log:
    """One log for all pods, that a test writes."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    woken: list[Key] = field(default_factory=list)
    # What a reader gets next: a line, an error, or None for the end.
    texts: dict[str, asyncio.Queue[str | Exception | None]] = field(default_factory=dict)

    async def follow(self, _: str, pod: str) -> AsyncGenerator[str, None]:
        self.opened.append(pod)
        texts = self.texts.setdefault(pod, asyncio.Queue())
        try:
            while (text := await texts.get()) is not None:
                if isinstance(text, Exception):
                    raise text
                yield text
        finally:
            self.closed.append(pod)

    async def print(self, text: str | Exception | None, pod: ControllerPod = POD) -> None:
        self.texts.setdefault(pod.name, asyncio.Queue()).put_nowait(text)
        await run_until_idle()

    @property
    def open(self) -> int:
        return len(self.opened) - len(self.closed)

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[VerdictStreams]:
        """Streams that run beside the test."""
        made = VerdictStreams(self.follow, self.clock, self.woken.append)
        running = asyncio.create_task(made.run())
        await run_until_idle()
        try:
            yield made
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            assert self.open == 0


async def want(streams: VerdictStreams, wanted: VerdictPoll | None, *pods: ControllerPod) -> None:
    streams.want(KEY, wanted, pods or (POD,))
    await run_until_idle()


async def test_a_verdict_on_the_candidate_wakes_its_controller_once_and_ends_the_stream() -> None:
    log = Log()
    async with log.streams() as streams:
        await want(streams, poll())
        assert streams.follows(KEY, poll())
        await log.print("[Wed Nov 18] Reconfiguring Slurm...")
        await log.print(line("old"))
        assert (log.woken, streams.heard_at(KEY)) == ([], float("-inf"))
        log.clock.advance(1.0)
        await log.print(line("new"))
        assert (log.woken, streams.heard_at(KEY), log.open) == ([KEY], 1.0, 0)
        # Nobody opens it again for the same candidate.
        await want(streams, poll())
        assert (log.open, streams.follows(KEY, poll())) == (0, True)


async def test_a_verdict_that_is_not_understood_wakes_it_too() -> None:
    log = Log()
    async with log.streams() as streams:
        await want(streams, poll())
        await log.print(line("other", version=verdicts.VERSION + 1))
        assert log.woken == [KEY]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(None, id="ends"),
        pytest.param(Unreachable("no log", sent=True), id="fails"),
        pytest.param(ZeroDivisionError(), id="meets a fault"),
    ],
)
async def test_where_a_stream_does_not_last_the_poll_goes_on(end: Exception | None) -> None:
    log = Log()
    async with log.streams() as streams:
        await want(streams, poll())
        await log.print(end)
        assert (log.woken, streams.heard_at(KEY)) == ([KEY], float("-inf"))
        await want(streams, poll())
        assert (log.opened, streams.follows(KEY, poll())) == ([POD.name], False)
        # The next candidate is followed again.
        await want(streams, poll("newer"))
        assert streams.follows(KEY, poll("newer"))


async def test_no_stream_outlives_its_candidate() -> None:
    log = Log()
    async with log.streams() as streams:
        await want(streams, poll())
        await want(streams, poll("newer"))
        assert (len(log.opened), log.open, streams.follows(KEY, poll())) == (2, 1, False)
        await want(streams, None)
        assert (log.open, log.woken) == (0, [])


async def test_a_silent_stream_is_closed_after_a_while() -> None:
    log = Log()
    async with log.streams() as streams:
        await want(streams, poll())
        log.clock.advance(STREAM_SECONDS)
        await run_until_idle()
        assert (log.open, log.woken, streams.follows(KEY, poll())) == (0, [KEY], False)


async def test_every_pod_is_followed_until_it_has_spoken() -> None:
    log, both = Log(), poll("new", POD, STANDBY)
    async with log.streams() as streams:
        await want(streams, both, POD, STANDBY)
        await log.print(line("new"))
        assert (log.open, streams.follows(KEY, both)) == (1, True)
        await log.print(line("new"), STANDBY)
        assert log.woken == [KEY, KEY]


async def test_a_stream_does_not_end_with_the_time_of_the_reconcile_that_asked_for_it() -> None:
    log = Log()
    seen = []

    async def follow(*_: str) -> AsyncGenerator[str, None]:
        check_deadline()
        seen.append("open")
        yield line("new")

    async def reconcile() -> None:
        streams.want(KEY, poll(), (POD,))

    async with log.streams() as streams:
        streams.follow = follow
        await within(log.clock, 1.0, reconcile())
        log.clock.advance(2.0)
        await run_until_idle()
        assert seen == ["open"]


async def test_there_is_a_limit_to_all_streams_together() -> None:
    log = Log()
    async with log.streams() as streams:
        for number in range(MAX_STREAMS + 1):
            streams.want(Key("hpc", f"slurm-{number}"), poll(), (POD,))
        await run_until_idle()
        assert log.open == MAX_STREAMS
        assert not streams.follows(Key("hpc", f"slurm-{MAX_STREAMS}"), poll())


async def test_nothing_is_opened_where_nobody_runs_them() -> None:
    log = Log()
    streams = VerdictStreams(log.follow, log.clock)
    await want(streams, poll())
    assert (log.opened, streams.follows(KEY, poll())) == ([], False)


def applied(world: World) -> tuple[str, str, bool]:
    """ConfigApplied with its reason, and whether it is of the newest generation."""
    found = world.custom("Controller", "slurm")
    condition = next(each for each in found["status"]["conditions"] if each["type"] == "ConfigApplied")
    is_newest = found["status"]["observedGeneration"] == found["metadata"]["generation"]
    return condition["status"], condition["reason"], is_newest


class TestInTheOperator:
    """The same with the whole operator."""

    @pytest.fixture
    async def followed(self, world: World) -> AsyncIterator[World]:
        await small(world, 1)
        assert world.operator is not None
        running = asyncio.create_task(world.operator.streams.run())
        yield world
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert world.cluster.sidecar.open_streams == 0

    async def test_a_candidate_is_decided_by_its_stream_and_few_readings(self, followed: World) -> None:
        sidecar = followed.cluster.sidecar
        before, sidecar.misses = len(sidecar.readings), 1
        await followed.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
        await followed.run_for(0.9)
        # The kubelet looked too early: after the first look nobody polls.
        assert (len(sidecar.readings) - before, sidecar.open_streams) == (1, 1)
        await followed.run_for(3.0)
        assert "MinJobAge=301" in followed.stored("configmaps", "slurm-config")["data"]["slurm.conf"]
        # Every 0.15 s would have been a dozen.
        assert len(sidecar.readings) - before <= 5
        assert sidecar.open_streams == 0

    async def test_the_status_waits_for_a_verdict_that_is_near_and_not_for_one_that_is_late(
        self, followed: World
    ) -> None:
        followed.cluster.sidecar.misses = 1
        await followed.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
        await followed.run_for(0.8)
        assert applied(followed) == ("True", "InForce", False)
        await followed.run_for(0.3)
        assert applied(followed) == ("False", "Trying", True)
        await followed.run_for(3.0)
        assert applied(followed) == ("True", "InForce", True)

    async def test_a_change_that_is_heard_of_at_once_is_one_status(self, followed: World) -> None:
        seen = followed.custom("Controller", "slurm")["status"]["config"]["hash"]
        await followed.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
        await followed.run_for(0.3)
        assert applied(followed) == ("True", "InForce", True)
        assert followed.custom("Controller", "slurm")["status"]["config"]["hash"] != seen

    async def test_what_another_resource_changed_is_reported_at_once(self, followed: World) -> None:
        """The generation does not tell that the status is of the past."""
        followed.cluster.sidecar.misses = 1
        await followed.create("NodeSet", "more", {**REF, "replicas": 0})
        await followed.run_for(0.5)
        assert applied(followed) == ("False", "Trying", True)

    async def test_what_slurm_took_live_is_reported_when_its_file_is_accepted(self, followed: World) -> None:
        followed.cluster.sidecar.misses = 1
        spec = {"partition": {"enabled": True, "config": "Default=YES MaxTime=7"}}
        await followed.patch("NodeSet", "compute", {"spec": spec})
        await followed.run_for(0.8)
        assert followed.cluster.sidecar.open_streams == 1
        assert applied(followed) == ("True", "InForce", True)
        await followed.run_for(3.0)
        assert "MaxTime=7" in followed.stored("configmaps", "slurm-config")["data"]["slurm.conf"]

    @pytest.mark.parametrize("seconds", [0.0, 600.0], ids=["at once", "long after"])
    async def test_a_controller_that_is_deleted_while_its_candidate_is_tried_leaves_no_stream(
        self, followed: World, seconds: float
    ) -> None:
        assert followed.operator is not None
        streams = followed.operator.streams
        followed.cluster.sidecar.is_silent = followed.judge.expect_loss = True
        await followed.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
        await followed.run_for(5.0)
        assert KEY in streams._streams
        await followed.run_for(seconds)
        await followed.delete("Controller", "slurm")
        await followed.run_for(5.0)
        assert KEY not in streams._streams

    async def test_at_rest_nothing_is_open_and_nothing_is_written(self, followed: World) -> None:
        before = followed.server.store.revision
        await followed.run_for(60.0)
        assert (followed.server.store.revision, followed.cluster.sidecar.open_streams) == (before, 0)

    async def test_a_refusal_is_heard_and_ends_the_stream(self, followed: World) -> None:
        await followed.patch("Controller", "slurm", {"spec": {"extraConf": "JobSubmitPlugins=nosuch\n"}})
        await followed.run_for(2.0)
        found = followed.custom("Controller", "slurm")["status"]["conditions"]
        assert [each["reason"] for each in found if each["type"] == "ConfigValid"] == ["SlurmRefused"]
        assert followed.cluster.sidecar.open_streams == 0
