"""Campaigns: every point of a scenario disturbed once, each compared with the undisturbed life.

In: a campaign, a scenario, and which points. Out: `Outcome`s, each with an id such as `R2/S-in/017` that replays it.
A point is tried in a child process that is forked right where the disturbance strikes, so that a point costs only what
comes after it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaigns.end_state import State, differences, state_of
from tests.campaigns.faults import FAULTS
from tests.campaigns.rig import Disturbance, World
from tests.campaigns.scenarios import SCENARIOS

CAMPAIGNS = ("R2", "R5", "R6")
Wants = Callable[[str], bool]


@dataclass(frozen=True)
class Outcome:
    """What came of one point."""

    point: str
    violations: tuple[str, ...]
    seconds: float = 0.0
    what: str = ""


@dataclass
class Result:
    """What came of one scenario under one campaign."""

    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def violations(self) -> list[str]:
        """Everything that went wrong, with the point that replays it."""
        return [f"{outcome.point}: {each}" for outcome in self.outcomes for each in outcome.violations]

    def __str__(self) -> str:
        return f"{len(self.outcomes)} points, {len(self.violations)} violations, {self.seconds:.1f} seconds"


@dataclass
class Spawner:
    """Tries points in children; each leaves its end state in a file."""

    prefix: str
    wants: Wants
    folder: Path
    at_once: int = 1
    points: list[tuple[str, Path]] = field(default_factory=list)
    mine: Path | None = None
    _children: dict[int, tuple[str, float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def __call__(self, point: str) -> bool:
        """Fork, and say in the child that this is the point."""
        if self.mine is not None or not self.wants(point):
            return False
        while len(self._children) >= self.at_once:
            self._wait()
        path, began = self.folder / f"{point}.json", time.monotonic()
        loop = asyncio.get_running_loop()
        child = os.fork()
        if child == 0:
            # asyncio takes a forked process for another thread of life; this one goes on in the same loop.
            asyncio._set_running_loop(loop)
            self.mine = path
            # Its life is short, and a collection would copy every page that it shares with its parent.
            gc.disable()
            return True
        self._children[child] = (point, began)
        self.points.append((point, path))
        return False

    def wait(self) -> None:
        """Until every child has ended."""
        while self._children:
            self._wait()

    def _wait(self) -> None:
        ended, _ = os.waitpid(-1, 0)
        if ended in self._children:
            point, began = self._children.pop(ended)
            self.seconds[point] = time.monotonic() - began


async def live(scenario: str, world: World) -> State:
    """One life from beginning to end."""
    try:
        await world.open()
        await SCENARIOS[scenario](world)
        return state_of(world)
    finally:
        await world.close()


def reference(scenario: str) -> State:
    """The undisturbed life."""
    return asyncio.run(live(scenario, World()))


def replay(point: str) -> Outcome:
    """One point again, in this process."""
    campaign, scenario, number = point.split("/")
    disturbance = Disturbance(campaign, number, FAULTS)
    began = time.monotonic()
    found = asyncio.run(live(scenario, World(disturbance)))
    wrong = judged(found, reference(scenario), campaign)
    return Outcome(point, tuple(wrong), time.monotonic() - began, found.what)


def judged(found: State, expected: State, campaign: str) -> list[str]:
    """What is wrong with a disturbed life."""
    if found.broken:
        return found.violations
    return [*found.violations, *differences(found, expected, counts=campaign != "R6")]


def run(campaign: str, scenario: str, wants: Wants = lambda _: True, at_once: int = 1) -> Result:
    """Every point that is wanted, so many side by side."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        spawner = Spawner(f"{campaign}/{scenario}", wants, Path(folder), at_once)
        expected = _live_or_exit(scenario, Disturbance(campaign, "", FAULTS, spawner), spawner)
        spawner.wait()
        outcomes = [_outcome(spawner, expected, campaign, *point) for point in spawner.points]
    first = Outcome(f"{campaign}/{scenario}", tuple(expected.violations))
    return Result([*([first] if first.violations else []), *outcomes], time.monotonic() - began)


def _live_or_exit(scenario: str, disturbance: Disturbance, spawner: Spawner) -> State:
    """The undisturbed life in this process; a child leaves its state and ends where it is."""

    async def life(world: World) -> None:
        await world.open()
        await SCENARIOS[scenario](world)

    async def whole_life() -> State:
        world = World(disturbance)
        return await leave_or_close(world, life(world), spawner)

    return asyncio.run(whole_life())


async def leave_or_close(world: World, life: Awaitable[None], spawner: Spawner) -> State:
    """The end state of a life; a child leaves it in its file and ends here."""
    try:
        await life
        found = state_of(world)
    except BaseException as error:
        if spawner.mine is None:
            raise
        found = State(violations=[f"I11: {error!r} {traceback.format_exc()[-600:]}"], what=world.what)
    if spawner.mine is not None:
        # Not through the loop's own end: its selector is shared with the parent.
        spawner.mine.write_text(json.dumps(found.as_data()))
        os._exit(0)
    await world.close()
    return found


def _outcome(spawner: Spawner, expected: State, campaign: str, point: str, path: Path) -> Outcome:
    name, seconds = f"{spawner.prefix}/{point}", spawner.seconds[point]
    if not path.exists():
        return Outcome(name, ("I11: its process ended early",), seconds)
    found = State.from_data(json.loads(path.read_text()))
    return Outcome(name, tuple(judged(found, expected, campaign)), seconds, found.what)


def sampled(every: int, offset: int = 0) -> Wants:
    """One point of so many."""
    seen = [offset]

    def wants(_: str) -> bool:
        seen[0] += 1
        return seen[0] % every == 0

    return wants


def lines(campaign: str, result: Result) -> Iterable[str]:
    """One JSON line per point."""
    for outcome in result.outcomes:
        data: dict[str, Any] = {"point": outcome.point, "seconds": round(outcome.seconds, 3), "what": outcome.what}
        yield json.dumps({**data, "violations": list(outcome.violations), "campaign": campaign})
