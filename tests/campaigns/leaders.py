"""Campaigns on operators that run as processes: R3 and R4, caches that are late or miss an event; R9, the rest.

R9: two leaders, processes that sleep, watches that are stuck, storms of errors, objects that nobody can read.
In: a case such as `two-leaders.S-in` and which points. Out: `Result`s, each point replayable as `R9/<case>/<n>`. Every
point is compared with the undisturbed life of the same world. Disks and caches on disk are in `disks.py`.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.campaigns import disks
from tests.campaigns.campaign import Outcome, Result, Spawner, Wants, judged, leave_or_close
from tests.campaigns.end_state import State, state_of
from tests.campaigns.led_world import LedWorld
from tests.campaigns.processes import FairWeather
from tests.campaigns.rig import Disturbance
from tests.campaigns.scenarios import SCENARIOS
from tests.campaigns.watches import Expired, Late, Unobserved
from tests.campaigns.weather import Garbled, Storm, Stuck, Suspended, TwoLeaders

from kube_runtime.clock import run_until_idle

CAMPAIGNS = ("R3", "R4", "R9")


@dataclass(frozen=True)
class Case:
    """One way to disturb a life, and which lives."""

    weather: Callable[[LedWorld], FairWeather]
    scenarios: tuple[str, ...]
    campaign: str = "R9"
    elect: bool = False
    suspends: bool = False
    horizon: float = 75.0

    def world(self, disturbance: Disturbance) -> LedWorld:
        """A new one."""
        return LedWorld(
            disturbance,
            weather_of=self.weather,
            elect=self.elect,
            suspends=self.suspends,
            horizon=self.horizon,
        )


LIVES = ("S-up", "S-out", "S-in", "S-roll", "S-conf", "S-key", "S-del")
KINDS: dict[str, Case] = {
    "two-leaders": Case(functools.partial(TwoLeaders, seconds=20.0), LIVES, elect=True),
    "two-leaders-late": Case(functools.partial(TwoLeaders, seconds=90.0), LIVES, elect=True, suspends=True),
    "suspended": Case(functools.partial(Suspended, seconds=3600.0), LIVES, suspends=True),
    # Longer than any watch: what a stuck one has missed is known by then.
    "stuck-watch": Case(Stuck, ("S-out", "S-in", "S-roll", "S-del"), horizon=400.0),
    "storm": Case(Storm, ("S-up", "S-in", "S-roll"), horizon=400.0),
    "garbled": Case(Garbled, ("S-in", "S-roll", "S-del"), horizon=400.0),
    "late": Case(Late, LIVES, "R3", horizon=400.0),
    "unobserved": Case(Unobserved, LIVES, "R4", horizon=400.0),
    "expired": Case(Expired, LIVES, "R4", horizon=400.0),
}


def cases(campaign: str) -> tuple[str, ...]:
    """All cases of R3, R4 or R9."""
    named = [f"{name}.{life}" for name, case in KINDS.items() if case.campaign == campaign for life in case.scenarios]
    return (*named, *(disks.CASES if campaign == "R9" else ()))


async def live(case: str, world: LedWorld) -> State:
    """One life from beginning to end."""
    try:
        await world.open()
        await SCENARIOS[case.partition(".")[2]](world)
        return state_of(world)
    finally:
        await world.close()


def replay(point: str) -> Outcome:
    """One point again, in this process."""
    campaign, name, number = point.split("/")
    if name in disks.CASES:
        return disks.play(name, number)
    case, began = KINDS[name.partition(".")[0]], time.monotonic()
    found = asyncio.run(live(name, case.world(Disturbance(campaign, number))))
    expected = asyncio.run(live(name, case.world(Disturbance())))
    return Outcome(point, _judged(found, expected), time.monotonic() - began, found.what)


def _judged(found: State, expected: State) -> tuple[str, ...]:
    return tuple(judged(_by_rank(found), _by_rank(expected), "R9"))


WORKER = re.compile(r"\bcompute-(\d+)\b")
INDEX = re.compile(r'(/pod-index": )"\d+"')


def _by_rank(state: State) -> State:
    """Workers by their rank: which of them a scale-in takes depends on who is busy when it is decided."""
    alive = sorted((name for name in state.objects if re.fullmatch(r"pods/compute-\d+", name)), key=_ordinal)
    ranks = {name.partition("/")[2]: f"worker-{rank}" for rank, name in enumerate(alive)}

    def renamed(value: Any) -> Any:
        text = INDEX.sub(r'\1"*"', json.dumps(value))
        return json.loads(WORKER.sub(lambda match: ranks.get(match[0], match[0]), text))

    counts: dict[str, list[int]] = {}
    for name, (made, deleted) in state.counts.items():
        total = counts.setdefault(WORKER.sub("workers", name), [0, 0])
        total[0], total[1] = total[0] + made, total[1] + deleted
    return State(renamed(state.objects), counts, renamed(state.slurm), state.violations, state.what)


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def run(name: str, wants: Wants = lambda _: True, at_once: int = 1) -> Result:
    """Every point of a case that is wanted, so many side by side."""
    if name in disks.CASES:
        return disks.run(name, wants)
    began, case = time.monotonic(), KINDS[name.partition(".")[0]]
    with tempfile.TemporaryDirectory() as folder:
        spawner = Spawner(f"{case.campaign}/{name}", wants, Path(folder), at_once)
        expected = _live_or_exit(name, case.world(Disturbance(case.campaign, "", spawn=spawner)), spawner)
        spawner.wait()
        outcomes = [_outcome(spawner, expected, *point) for point in spawner.points]
    first = Outcome(f"{case.campaign}/{name}", tuple(expected.violations))
    return Result([*([first] if first.violations else []), *outcomes], time.monotonic() - began)


def _outcome(spawner: Spawner, expected: State, point: str, path: Path) -> Outcome:
    name, seconds = f"{spawner.prefix}/{point}", spawner.seconds[point]
    if not path.exists():
        return Outcome(name, ("I11: its process ended early",), seconds)
    found = State.from_data(json.loads(path.read_text()))
    return Outcome(name, _judged(found, expected), seconds, found.what)


def _live_or_exit(name: str, world: LedWorld, spawner: Spawner) -> State:
    """The undisturbed life in this process; a child leaves its state and ends where it is."""

    async def life() -> None:
        await world.open()
        await SCENARIOS[name.partition(".")[2]](world)
        await run_until_idle()

    async def whole_life() -> State:
        return await leave_or_close(world, life(), spawner)

    return asyncio.run(whole_life())
