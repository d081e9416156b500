"""Lanes: reviews run off the loop, in turn by namespace, in bounded number and time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from slurm_operator.admission.lanes import Lane, Overloaded, TookTooLong


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, whatever happened: a thread that waits for it would keep the process."""
    event = threading.Event()
    yield event
    event.set()


def lane(**more: float) -> Lane:
    return Lane(threads=1, **{"max_waiting": 8, "max_waiting_per_namespace": 4, "time_limit_seconds": 5.0, **more})  # type: ignore[arg-type]


def waits(gate: threading.Event) -> Callable[[], bool]:
    return lambda: gate.wait(10)


async def turn() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_loop_goes_on_while_a_review_runs(gate: threading.Event) -> None:
    """T3: a review used to run on the loop, and everybody waited for it."""
    one = lane()
    running = asyncio.create_task(one.run("a", lambda: (gate.wait(10), threading.current_thread().name)))
    await turn()
    assert not running.done()
    gate.set()
    opened, name = await running
    assert opened
    assert name.startswith("review")
    one.close()


async def test_a_namespace_that_asks_much_gets_its_turn_and_no_more(gate: threading.Event) -> None:
    one, order = lane(), list[str]()
    first = asyncio.create_task(one.run("greedy", waits(gate)))
    await turn()
    tasks = [asyncio.create_task(one.run("greedy", partial(order.append, f"greedy {at}"))) for at in range(3)]
    await turn()
    tasks += [asyncio.create_task(one.run(name, partial(order.append, name))) for name in ("b", "c")]
    await turn()
    gate.set()
    await asyncio.gather(first, *tasks)
    assert order.index("b") <= 2
    assert order.index("c") <= 2
    assert [each for each in order if "greedy" in each] == ["greedy 0", "greedy 1", "greedy 2"]
    one.close()


async def test_who_comes_when_it_is_full_is_turned_away_at_once(gate: threading.Event) -> None:
    one = lane(max_waiting=3, max_waiting_per_namespace=2)
    tasks = [asyncio.create_task(one.run("greedy", waits(gate))) for _ in range(3)]
    await turn()
    with pytest.raises(Overloaded):
        await one.run("greedy", waits(gate))
    others = asyncio.create_task(one.run("other", lambda: 7))
    await turn()
    assert one.is_full
    with pytest.raises(Overloaded):
        await one.run("third", lambda: 7)
    gate.set()
    assert await others == 7
    await asyncio.gather(*tasks)
    assert one.waiting == 0
    one.close()


async def test_a_review_that_takes_too_long_is_given_up_and_keeps_no_room(gate: threading.Event) -> None:
    one = lane(time_limit_seconds=0.05)
    ran: list[int] = []
    tasks = [asyncio.create_task(one.run("a", waits(gate))), asyncio.create_task(one.run("a", lambda: ran.append(1)))]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [TookTooLong, TookTooLong]
    assert one.waiting == 0
    gate.set()
    assert await one.run("b", lambda: 3) == 3
    assert ran == [], "what nobody waits for is not begun"
    one.close()


async def test_an_error_comes_back_and_frees_the_thread() -> None:
    one = lane()

    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await one.run("a", broken)
    assert await one.run("a", lambda: 1) == 1
    one.close()
