"""Questions one by one: a few at a time, for a bounded time."""

from __future__ import annotations

import asyncio

import pytest

from slurm_operator.slurm.one_by_one import MAX_CONCURRENT_REQUESTS, ONE_BY_ONE_SECONDS, ask_each


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_each_is_asked_for_once() -> None:
    asked: list[int] = []

    async def ask(key: int) -> str:
        asked.append(key)
        await asyncio.sleep(0)
        return str(key)

    assert await ask_each(ask, range(20), Clock()) == {key: str(key) for key in range(20)}
    assert sorted(asked) == list(range(20))


async def test_what_is_too_late_is_not_asked_for() -> None:
    clock = Clock()

    async def ask(key: int) -> int:
        clock.now += ONE_BY_ONE_SECONDS / 2
        return key

    assert await ask_each(ask, range(20), clock) == {0: 0, 1: 1}


async def test_an_error_ends_the_other_questions() -> None:
    ended: list[int] = []

    async def ask(key: int) -> int:
        if key == 0:
            raise ValueError("no")
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(key)
        return key

    with pytest.raises(ValueError, match="no"):
        await ask_each(ask, range(20), Clock())
    await asyncio.sleep(0)
    assert ended == list(range(1, MAX_CONCURRENT_REQUESTS))
