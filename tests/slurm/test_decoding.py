"""What one cluster's long responses may cost: they wait for their turn, and one in vain is not asked for at once."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest
from aiohttp import web
from tests.slurm.replay import Replay

from slurm_operator.slurm import decoding
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.decoding import Decoder, Reading
from slurm_operator.slurm.errors import SlurmBudgetExceeded, SlurmError, SlurmTimeout

TOO_MUCH = SlurmBudgetExceeded("items", "more", 30_000, call="GET jobs")


class Seconds:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time_() -> Seconds:
    return Seconds()


@pytest.fixture
def decoder(time_: Seconds) -> Decoder:
    return Decoder(time_)


def busy(seconds: float) -> str:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return "done"


async def admitted(decoder: Decoder, path: str = "jobs", *, is_usually_small: bool = False) -> bool:
    """Whether a list may be asked for now."""
    try:
        await asyncio.wait_for(decoder.admit(path, is_usually_small=is_usually_small), 0.01)
    except TimeoutError:
        return False
    return True


async def test_a_list_that_took_long_delays_the_next_one(decoder: Decoder, time_: Seconds) -> None:
    reading = Reading()
    assert await decoder.run(reading, busy, 0.05) == "done"
    decoder.close(reading, "jobs", None)
    assert not await admitted(decoder, "nodes")
    time_.seconds += 0.05 / decoding.CPU_SHARE - 0.1
    assert not await admitted(decoder)
    time_.seconds += 2.0
    assert await admitted(decoder)


async def test_a_list_that_is_usually_small_waits_only_for_itself(decoder: Decoder) -> None:
    decoder.close(Reading(spent_seconds=1.0), "nodes", None)
    assert not await admitted(decoder, "jobs")
    assert await admitted(decoder, "states", is_usually_small=True)
    decoder.close(Reading(spent_seconds=1.0), "states", None)
    assert not await admitted(decoder, "states", is_usually_small=True)
    decoder.close(Reading(), "states", None)
    assert await admitted(decoder, "states", is_usually_small=True)


async def test_no_pause_is_longer_than_the_longest(decoder: Decoder, time_: Seconds) -> None:
    decoder.close(Reading(spent_seconds=3600.0), "jobs", TOO_MUCH)
    time_.seconds += decoding.MAX_PAUSE_SECONDS
    assert await admitted(decoder, "nodes")
    time_.seconds += decoding.MAX_REFUSAL_SECONDS
    assert await admitted(decoder, "jobs")


async def test_a_list_in_vain_is_not_asked_for_again_at_once_and_says_why(decoder: Decoder, time_: Seconds) -> None:
    reading = Reading()
    assert await admitted(decoder, "jobs")
    await decoder.run(reading, busy, 0.02)
    decoder.close(reading, "jobs", TOO_MUCH)
    time_.seconds += 0.02 / decoding.CPU_SHARE + 0.05
    for _ in range(3):
        with pytest.raises(SlurmBudgetExceeded) as raised:
            await decoder.admit("jobs")
        assert (str(raised.value), raised.value.budget) == (str(TOO_MUCH), "items")
    assert await admitted(decoder, "nodes")
    time_.seconds += 0.1 / decoding.WASTED_CPU_SHARE
    assert await admitted(decoder, "jobs")


@pytest.mark.parametrize("problem", [None, SlurmTimeout("no answer", call="GET jobs")])
async def test_a_response_that_cost_nothing_delays_nobody(decoder: Decoder, problem: SlurmError | None) -> None:
    decoder.close(Reading(), "jobs", problem)
    assert await admitted(decoder)


async def test_a_list_that_was_cut_off_is_asked_for_again_once_it_is_paid_for(decoder: Decoder, time_: Seconds) -> None:
    """A slurmctld that restarts cuts a long list off: nobody waits a minute for that."""
    decoder.close(Reading(spent_seconds=1.0), "jobs", SlurmTimeout("no answer", call="GET jobs"))
    time_.seconds += decoding.MAX_PAUSE_SECONDS
    assert await admitted(decoder)


async def test_what_one_response_costs_is_not_that_of_another(decoder: Decoder, time_: Seconds) -> None:
    long, short = Reading(), Reading()
    await decoder.feed(long, lambda _, __: None, bytes(50_000_000), "GET jobs")
    decoder.close(short, "node/a", TOO_MUCH)
    assert await admitted(decoder, "node/a")
    decoder.close(long, "jobs", None)
    assert not await admitted(decoder, "nodes")


async def test_a_list_that_was_small_the_last_time_does_not_wait_for_others(decoder: Decoder) -> None:
    assert await admitted(decoder, "nodes")
    decoder.close(Reading(), "nodes", None)
    decoder.close(Reading(spent_seconds=1.0), "jobs", None)
    assert await admitted(decoder, "nodes")


@pytest.mark.parametrize(
    ("spent_seconds", "problem"),
    [(0.0, None), (1.0, None), (1.0, TOO_MUCH)],
    ids=["it cost nothing", "it was decoded beside the event loop", "it exceeded a budget"],
)
def test_nothing_is_kept_of_each_job_that_was_read_by_its_id(
    decoder: Decoder, spent_seconds: float, problem: SlurmError | None
) -> None:
    def size() -> int:
        return sum(len(kept) for kept in vars(decoder).values() if isinstance(kept, dict))

    for number in range(100):
        decoder.close(Reading(spent_seconds=spent_seconds), f"/job/{number}", problem)
    assert size() == 0


async def test_clusters_that_rest_leave_the_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "REST_RATIO", 100.0)
    resting = [asyncio.ensure_future(Decoder(time.monotonic).run(Reading(), busy, 0.02)) for _ in range(4)]
    await asyncio.sleep(0.3)
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    other = asyncio.ensure_future(Decoder(time.monotonic).run(Reading(), loop.call_soon_threadsafe, began.set))
    await asyncio.wait_for(began.wait(), 1.0)
    for each in (*resting, other):
        each.cancel()


async def test_a_cluster_with_too_many_jobs_is_asked_seldom(replay: Replay, client: SlurmClient) -> None:
    asked = 0

    def too_many(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        body = b'{"jobs":[' + b'{"job_id":1,"job_state":["RUNNING"],"nodes":"a"},' * 40_000 + b"0]}"
        return web.Response(body=body, content_type="application/json")

    replay.on_call("GET /jobs", too_many)
    messages = set()
    for _ in range(20):
        with pytest.raises(SlurmBudgetExceeded) as raised:
            await client.all_jobs()
        messages.add(str(raised.value))
    assert asked == 1
    assert len(messages) == 1


def test_the_operator_lets_threads_take_turns_quickly() -> None:
    from slurm_operator.cli import serving

    before = sys.getswitchinterval()
    try:
        serving.share_interpreter()
        assert sys.getswitchinterval() < before
    finally:
        sys.setswitchinterval(before)
