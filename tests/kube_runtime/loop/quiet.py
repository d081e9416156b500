"""Controllers driven by hand: one key at a time, in virtual time, until nothing happens any more. For campaigns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from kube_runtime.clock import VirtualClock, run_until_idle
from kube_runtime.loop.controller import Controller


@dataclass(frozen=True, slots=True)
class Quiet:
    """What it took to come to rest."""

    reconciles: int
    seconds: float


class NeverQuietError(Exception):
    """The controllers did not come to rest within the limits."""


async def run_until_quiet(
    controllers: Sequence[Controller],
    clock: VirtualClock,
    *,
    fingerprint: Callable[[], Hashable] = lambda: None,
    horizon: float = 0.0,
    limit: float = 1800.0,
    max_reconciles: int = 100_000,
    choose: Callable[[Sequence[Controller]], Controller] = lambda ready: ready[0],
    outside: float = 0.0,
) -> Quiet:
    """Work on one key at a time, moving virtual time on, until nothing happens any more.

    Quiet is: no key is ready, none waits for a retry, and `fingerprint()` (say, the world's count of writes) has
    not changed for `horizon` virtual seconds; calls that reconciles ask for go on meanwhile. `choose` picks which
    controller goes next. `outside` is for reconciles that do real I/O: so many real seconds are granted before
    virtual time moves. What is not an Exception (a simulated crash) comes out of here.
    """
    started = changed = clock.monotonic()
    seen, reconciles = fingerprint(), 0
    while True:
        await run_until_idle()
        if (now_seen := fingerprint()) != seen:
            seen, changed = now_seen, clock.monotonic()
        _check_limits(controllers, changed - started <= limit and reconciles <= max_reconciles)
        if ready := [controller for controller in controllers if len(controller.queue)]:
            reconciles += 1
            await _step(choose(ready), clock, outside)
            continue
        failing = any(controller.queue.failing for controller in controllers)
        if not failing and not clock.fire_next(until=changed + horizon):
            clock.advance(max(0.0, changed + horizon - clock.monotonic()))
            return Quiet(reconciles, clock.monotonic() - started)
        if failing:
            _check_limits(controllers, clock.fire_next(until=started + limit))


def _check_limits(controllers: Sequence[Controller], kept: bool) -> None:
    if kept:
        return
    keys = [
        f"{controller.name} {key}"
        for controller in controllers
        for key in sorted(controller.queue.failing | controller.queue.waiting)
    ]
    raise NeverQuietError(f"still at work: {', '.join(keys)}")


async def _step(controller: Controller, clock: VirtualClock, outside: float) -> None:
    task = asyncio.create_task(controller.step(), name=f"step-{controller.name}")
    try:
        while True:
            await run_until_idle()
            if not task.done() and outside > 0:
                await asyncio.wait([task], timeout=outside)
            if task.done():
                break
            if not clock.fire_next():
                raise NeverQuietError(f"{controller.name} waits for something that virtual time does not bring")
    finally:
        task.cancel()
    task.result()
