"""Polling: how often, with what condition, and what the reader is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from slurm_operator.slurm.errors import SlurmUnreachable
from slurm_operator.slurm.model import Answer, Unchanged, Unknown
from slurm_operator.slurm.poll import ALL_EVERY, Poll


class World:
    """A server, a clock and a reader in one; sleeping moves the clock."""

    def __init__(self, *answers: Answer[str] | Unchanged | SlurmUnreachable) -> None:
        self.answers = list(answers)
        self.asked: list[int | None] = []
        self.told: list[Answer[str] | Unknown] = []
        self.slept: list[float] = []
        self.time = 0.0
        self.in_sleep: Callable[[], None] = lambda: None
        self.poll = Poll(self.ask, self.told.append, monotonic=lambda: self.time, sleep=self.sleep)

    async def ask(self, since: int | None) -> Answer[str] | Unchanged:
        self.asked.append(since)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, SlurmUnreachable):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        self.in_sleep()
        await asyncio.sleep(0)

    async def run(self, looks: int) -> None:
        running = asyncio.ensure_future(self.poll.run())
        while len(self.asked) < looks:  # noqa: ASYNC110 - the loop under test runs in between
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def answer(*items: str, at: int = 100, complete: bool = True) -> Answer[str]:
    return Answer(items, complete=complete, last_update=at)


DOWN = SlurmUnreachable("no route")


async def test_the_first_look_asks_for_all_and_the_next_for_changes() -> None:
    world = World(answer("a", at=7), Unchanged())
    await world.run(3)
    assert world.asked[:3] == [None, 7, 7]
    assert world.told == [answer("a", at=7)]


async def test_before_the_first_answer_nothing_is_known() -> None:
    assert isinstance(World(DOWN).poll.latest, Unknown)


async def test_an_answer_with_the_same_content_is_no_news() -> None:
    world = World(answer("a", at=7), answer("a", at=8), answer("b", at=9))
    await world.run(3)
    assert world.asked[:3] == [None, 7, 8]
    assert world.told == [answer("a", at=7), answer("b", at=9)]


async def test_it_looks_every_five_seconds_and_every_second_while_somebody_waits() -> None:
    world = World(answer("a"), Unchanged())
    await world.run(3)
    assert set(world.slept) == {5.0}
    world.slept.clear()
    with world.poll.waiting(), world.poll.waiting():
        assert world.poll.delay() == 1.0
    assert world.poll.delay() == 5.0


async def test_somebody_who_begins_to_wait_cuts_the_pause_short() -> None:
    looked = asyncio.Event()
    looks = 0

    async def ask(_: int | None) -> Answer[str]:
        nonlocal looks
        looks += 1
        looked.set()
        return answer("a")

    async def for_ever(_: float) -> None:
        await asyncio.Event().wait()

    poll = Poll(ask, lambda _: None, monotonic=lambda: 0.0, sleep=for_ever)
    running = asyncio.ensure_future(poll.run())
    await looked.wait()
    looked.clear()
    with poll.waiting():
        await looked.wait()
    looked.clear()
    poll.wake()
    await looked.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert looks == 3


async def test_failures_back_off_to_thirty_seconds_and_are_told_once() -> None:
    world = World(answer("a", at=7), *[DOWN] * 8, answer("a", at=9), Unchanged())
    await world.run(11)
    assert world.slept[:10] == [5.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 5.0]
    assert world.told == [answer("a", at=7), Unknown("no route"), answer("a", at=9)]


async def test_a_waiter_does_not_hurry_a_server_that_is_down() -> None:
    world = World(*[DOWN] * 20)
    with world.poll.waiting():
        await world.run(7)
    assert world.slept[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]


async def test_after_a_failure_all_is_asked_for() -> None:
    world = World(answer("a", at=7), DOWN, answer("a", at=7), Unchanged())
    await world.run(4)
    assert world.asked[:4] == [None, 7, None, 7]


async def test_an_incomplete_answer_is_not_built_upon() -> None:
    world = World(answer("a", complete=False), answer("a", "b"))
    await world.run(2)
    assert world.asked[:2] == [None, None]


async def test_from_time_to_time_all_is_asked_for_without_condition() -> None:
    world = World(answer("a", at=7), Unchanged())
    await world.run(30)
    gaps = [index for index, since in enumerate(world.asked) if since is None]
    assert gaps[1] - gaps[0] == pytest.approx(ALL_EVERY / 5, abs=1)
