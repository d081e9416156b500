"""How much the keyed queue saves, and what it costs.

`python bench/work_queue.py [-o json]`. 10,000 adds of 10 keys arrive while reconciles run; the bar is 20 reconciles.
Beside it, in the same run: the floor (a set and a list, no waiting, no delays) for the cost of an add, and
asyncio.Queue, which merges nothing, for the number of reconciles.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

ADDS, KEYS, WORKERS, BAR = 10_000, 10, 10, 20


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call; the best of five."""
    best = float("inf")
    for _ in range(5):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best


def floor() -> None:
    """The least that merging can cost."""
    seen: set[int] = set()
    order: list[int] = []
    for number in range(ADDS):
        key = number % KEYS
        if key not in seen:
            seen.add(key)
            order.append(key)


def adds() -> None:
    """The same adds into the real queue."""
    from kube_runtime.clock import VirtualClock
    from kube_runtime.loop.queue import Queue

    queue: Queue[int] = Queue(VirtualClock())
    for number in range(ADDS):
        queue.add(number % KEYS)


def turns() -> None:
    """Every key taken and done as soon as it is added: no merging to gain from."""
    from kube_runtime.clock import VirtualClock
    from kube_runtime.loop.queue import Queue

    queue: Queue[int] = Queue(VirtualClock())
    for number in range(ADDS):
        queue.add(number)
        key = queue.take()
        assert key == number
        queue.done(key)


async def reconciles() -> int:
    """How often a controller works when the adds come during its work."""
    from kube_runtime.clock import VirtualClock
    from kube_runtime.loop.controller import Controller, Result
    from kube_runtime.loop.queue import Key

    clock, count = VirtualClock(), 0

    async def reconcile(_key: Key) -> Result:
        nonlocal count
        count += 1
        await clock.sleep(0.05)
        return Result()

    controller = Controller("bench", reconcile, workers=WORKERS, clock=clock)
    running = asyncio.create_task(controller.run())
    for number in range(ADDS):
        controller.add(Key("bench", str(number % KEYS)))
        await asyncio.sleep(0)
    await clock.run_for(60)
    controller.stop()
    await running
    return count


async def peer_reconciles() -> int:
    """The same with asyncio.Queue."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    count = 0

    async def work() -> None:
        nonlocal count
        while True:
            await queue.get()
            count += 1
            queue.task_done()

    workers = [asyncio.create_task(work()) for _ in range(WORKERS)]
    for number in range(ADDS):
        queue.put_nowait(number % KEYS)
        await asyncio.sleep(0)
    await queue.join()
    for worker in workers:
        worker.cancel()
    return count


def main() -> int:
    """Print the figures; 1 when the bar is missed."""
    floor_us, add_us, turn_us = (cpu(work) / ADDS * 1e6 for work in (floor, adds, turns))
    figures: dict[str, float | int] = {
        "adds": ADDS,
        "keys": KEYS,
        "reconciles": asyncio.run(reconciles()),
        "bar": BAR,
        "peer_reconciles": asyncio.run(peer_reconciles()),
        "floor_us_per_add": round(floor_us, 3),
        "us_per_add": round(add_us, 3),
        "us_per_add_take_done": round(turn_us, 3),
    }
    if sys.argv[1:] == ["-o", "json"]:
        print(json.dumps(figures))
    else:
        print("\n".join(f"{name:>22} {value}" for name, value in figures.items()))
    return int(figures["reconciles"] > BAR)


if __name__ == "__main__":
    raise SystemExit(main())
