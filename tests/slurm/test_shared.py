"""One answer for many turns: who asks, who listens, and when nobody may rely on what another was told."""

from __future__ import annotations

import asyncio

from slurm_operator.slurm.shared import Shared


class Slurm:
    """Counts how often it is asked; time stands still unless a test moves it."""

    def __init__(self) -> None:
        self.time = 0.0
        self.asked = 0
        self.heard = asyncio.Event()
        self.shared: Shared[int] = Shared(lambda: self.time)

    async def ask(self) -> int:
        self.asked += 1
        self.heard.set()
        await asyncio.sleep(0)
        return self.asked

    async def turn(self, who: str, *, fresh: bool = False) -> tuple[int, bool]:
        return await self.shared.get(who, self.ask, fresh=fresh)


async def test_turns_at_the_same_time_share_one_question() -> None:
    slurm = Slurm()
    found = await asyncio.gather(*(slurm.turn(f"nodeset-{number}") for number in range(20)))
    assert slurm.asked == 1
    assert sorted(shared for _, shared in found) == [False, *[True] * 19]


async def test_whoever_comes_back_asks_and_the_others_listen() -> None:
    slurm = Slurm()
    for second in range(10):
        for number in range(20):
            slurm.time = 5.0 * second + number * 0.25
            await slurm.turn(f"nodeset-{number}")
    assert slurm.asked == 10


async def test_one_that_waits_asks_for_all() -> None:
    slurm = Slurm()
    await slurm.turn("quiet")
    for second in range(1, 6):
        slurm.time = float(second)
        assert await slurm.turn("waits") == ((1, True) if second == 1 else (second, False))
    assert await slurm.turn("quiet") == (5, True)


async def test_many_turns_of_one_within_a_second_cost_one_question() -> None:
    slurm = Slurm()
    for _ in range(8):
        await slurm.turn("nodeset")
        slurm.time += 0.1
    assert slurm.asked == 1


async def test_a_decision_is_never_made_by_what_another_was_told() -> None:
    slurm = Slurm()
    await slurm.turn("one")
    assert await slurm.turn("two", fresh=True) == (2, False)
    assert await slurm.turn("one") == (2, True)


async def test_an_old_answer_serves_nobody() -> None:
    slurm = Slurm()
    await slurm.turn("one")
    slurm.time = 6.0
    assert await slurm.turn("two") == (2, False)


async def test_after_a_write_everybody_asks_anew() -> None:
    slurm = Slurm()
    await slurm.turn("one")
    slurm.shared.expire()
    assert await slurm.turn("two") == (2, False)


async def test_an_answer_that_was_on_its_way_during_a_write_is_not_shared() -> None:
    slurm = Slurm()
    asking = asyncio.create_task(slurm.turn("one"))
    await slurm.heard.wait()
    slurm.shared.expire()
    assert await asking == (1, False)
    assert await slurm.turn("two") == (2, False)


async def test_one_that_waits_for_nothing_is_content_with_what_it_knows() -> None:
    slurm = Slurm()
    for second in (0.0, 5.0, 25.0, 29.0):
        slurm.time = second
        await slurm.shared.get("controller", slurm.ask, max_age=30.0)
    assert slurm.asked == 1
    slurm.time = 31.0
    await slurm.shared.get("controller", slurm.ask, max_age=30.0)
    assert slurm.asked == 2
    slurm.shared.expire()
    await slurm.shared.get("controller", slurm.ask, max_age=30.0)
    assert slurm.asked == 3


async def test_who_does_not_wait_gets_the_latest_answer_while_a_long_one_is_on_its_way() -> None:
    slurm = Slurm()
    await slurm.turn("one")
    slurm.time = 10.0
    slurm.heard.clear()
    asking = asyncio.ensure_future(slurm.turn("poll", fresh=True))
    await slurm.heard.wait()
    assert await slurm.shared.get("partition", slurm.ask, waits=False) == (1, True)
    assert await asking == (2, False)


async def test_nobody_gets_an_answer_of_long_ago_for_not_waiting() -> None:
    slurm = Slurm()
    await slurm.turn("one")
    slurm.time = 61.0
    slurm.heard.clear()
    asking = asyncio.ensure_future(slurm.turn("poll", fresh=True))
    await slurm.heard.wait()
    assert (await slurm.shared.get("partition", slurm.ask, waits=False))[0] == 2
    await asking


async def test_a_decision_waits_whoever_makes_it() -> None:
    slurm = Slurm()
    await slurm.turn("one")
    slurm.heard.clear()
    asking = asyncio.ensure_future(slurm.turn("poll", fresh=True))
    await slurm.heard.wait()
    assert await slurm.shared.get("removal", slurm.ask, fresh=True, waits=False) == (3, False)
    await asking


async def test_who_only_reports_gets_the_latest_answer_also_after_a_write_until_it_is_old() -> None:
    slurm = Slurm()
    assert slurm.shared.latest() is None
    await slurm.turn("poll")
    slurm.shared.expire()
    slurm.time = 59.0
    assert slurm.shared.latest() == 1
    slurm.time = 60.0
    assert slurm.shared.latest() is None


async def test_an_answer_for_its_caller_alone_leaves_the_others_what_they_had() -> None:
    slurm = Slurm()
    slurm.shared.is_for_all = lambda answer: answer != 2
    await slurm.turn("one")
    assert await slurm.turn("two", fresh=True) == (2, False)
    assert slurm.shared.latest() == 1
    assert await slurm.turn("two") == (1, True)
    slurm.time = 5.0
    assert await slurm.turn("three") == (1, True)


async def test_an_answer_from_before_a_write_does_not_come_back_after_one_for_its_caller_alone() -> None:
    slurm = Slurm()
    slurm.shared.is_for_all = lambda answer: answer != 2
    await slurm.turn("one")
    slurm.heard.clear()
    asking = asyncio.create_task(slurm.turn("two", fresh=True))
    await slurm.heard.wait()
    slurm.shared.expire()
    await asking
    assert await slurm.turn("three") == (3, False)
