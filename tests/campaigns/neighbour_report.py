"""What a hostile neighbour cost the others: pairs of phases in, ratios and missed bars out.

Durations are compared as shares: each is divided by the median of its action without the hostile cluster, so that
slow and fast actions count alike. A hostile phase is held against all controls of its kind in the run: the 95th
percentile of one control alone differs three times from that of the next. The median over the rounds counts, so that
a machine that is busy now and then does not decide. Pure; used by `neighbours.py`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tests.campaigns.neighbour_actions import Sample

BAR_SECONDS = 1.3
BAR_MEMORY = 1.5
# Reactions take milliseconds: below this a ratio says more about the machine than about the operator.
REACTION_FLOOR_SECONDS = 0.1


@dataclass(frozen=True)
class Phase:
    """What was measured while the last cluster was in one mode."""

    mode: str
    samples: tuple[Sample, ...]
    peak_megabytes: float
    cpu_seconds: float
    longest_stall_seconds: float
    reconciles: dict[str, int] = field(default_factory=dict)
    # What must not be: jobs that were lost, foreign objects that were touched, and so on, in words.
    violations: tuple[str, ...] = ()
    load: float = 0.0
    is_recovered: bool = True
    # How late timers of the fake world's own process were (95th percentile).
    lag_seconds: float = 0.0
    # What the fake world itself needed: an API server in Python is slower than a real one.
    world_cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Ratios:
    """One mode beside its control, in one round."""

    median: float
    p95: float
    reaction: float
    reaction_p95: float
    memory: float


@dataclass(frozen=True)
class Verdict:
    """One mode over all rounds."""

    mode: str
    ratios: Ratios
    control: Phase
    hostile: Phase
    missed: tuple[str, ...]

    def row(self) -> str:
        """One line of the table."""
        ours, theirs = self.control, self.hostile
        cells = (
            f"{self.mode:17}",
            f"{_middle(ours, 'seconds'):5.2f} {_middle(theirs, 'seconds'):5.2f} {self.ratios.median:5.2f}",
            f"{self.ratios.p95:5.2f}",
            f"{1000 * _middle(ours, 'reaction'):5.0f} {1000 * _middle(theirs, 'reaction'):5.0f}",
            f"{self.ratios.reaction_p95:5.2f}",
            f"{ours.peak_megabytes:5.0f} {theirs.peak_megabytes:5.0f} {self.ratios.memory:5.2f}",
            f"{ours.cpu_seconds:5.1f} {theirs.cpu_seconds:5.1f}",
            f"{ours.longest_stall_seconds:5.2f} {theirs.longest_stall_seconds:5.2f}",
            f"{1000 * ours.lag_seconds:4.0f} {1000 * theirs.lag_seconds:4.0f}",
            f"{sum(ours.reconciles.values()):5} {sum(theirs.reconciles.values()):5}",
            "ok" if not self.missed else "MISSED",
        )
        return " | ".join(cells)


HEAD = (
    "                  |  seconds (median) |  p95  |reaction, ms |  p95  |    memory, MB     |   CPU, s    "
    "|  stall, s   |  lag, ms  | reconciles  |\n"
    "mode              |  good host. ratio | ratio | good  host. | ratio |  good host. ratio |  good host. "
    "|  good host. | good host | good  host. |"
)


def judge(mode: str, pairs: Sequence[tuple[Phase, Phase]], controls: Sequence[Phase] = ()) -> Verdict:
    """What a mode did, by its pairs of control and hostile phase, and by other controls of the same kind."""
    usual = _pooled(controls or [control for control, _ in pairs])
    rounds = [compare(usual, hostile) for _, hostile in pairs]
    middle = Ratios(*(statistics.median(getattr(each, name) for each in rounds) for name in Ratios.__match_args__))
    broken = [each for control, hostile in pairs for phase in (control, hostile) for each in phase.violations]
    return Verdict(mode, middle, usual, pairs[-1][1], (*over_bars(middle), *broken))


def _pooled(phases: Sequence[Phase]) -> Phase:
    samples = tuple(sample for phase in phases for sample in phase.samples)
    return replace(
        phases[-1], samples=samples, peak_megabytes=statistics.median(phase.peak_megabytes for phase in phases)
    )


def over_bars(found: Ratios) -> list[str]:
    """Which bars are missed, in words."""
    bars = {
        "median": ("the median action takes", BAR_SECONDS),
        "p95": ("the 95th percentile of actions takes", BAR_SECONDS),
        "reaction": ("the median reaction takes", BAR_SECONDS),
        "reaction_p95": ("the 95th percentile of reactions takes", BAR_SECONDS),
        "memory": ("memory is", BAR_MEMORY),
    }
    values = asdict(found)
    return [
        f"{words} {values[name]:.2f} times as much, the bar is {bar:g}"
        for name, (words, bar) in bars.items()
        if not values[name] <= bar
    ]


def compare(control: Phase, hostile: Phase) -> Ratios:
    """The ratios of one round."""
    seconds = _shares(control, hostile, lambda sample: sample.seconds)
    reaction = _shares(control, hostile, lambda sample: max(sample.reaction, REACTION_FLOOR_SECONDS))
    return Ratios(
        median=_ratio(seconds, 0.5),
        p95=_ratio(seconds, 0.95),
        reaction=_ratio(reaction, 0.5),
        reaction_p95=_ratio(reaction, 0.95),
        memory=hostile.peak_megabytes / control.peak_megabytes if control.peak_megabytes else math.inf,
    )


def _shares(control: Phase, hostile: Phase, of: Callable[[Sample], float]) -> tuple[list[float], list[float]]:
    """Both phases' durations, each as a share of the control's median for that action."""
    actions = {sample.action for sample in control.samples}
    usual = {name: statistics.median(of(each) for each in control.samples if each.action == name) for name in actions}

    def shares(samples: Iterable[Sample]) -> list[float]:
        return [of(each) / usual[each.action] for each in samples if usual.get(each.action)]

    return shares(control.samples), shares(hostile.samples)


def _ratio(pair: tuple[list[float], list[float]], part: float) -> float:
    control, hostile = pair
    return percentile(hostile, part) / percentile(control, part) if control and hostile else math.inf


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that so large a part of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def _middle(phase: Phase, name: str) -> float:
    return statistics.median(getattr(each, name) for each in phase.samples) if phase.samples else math.nan


def as_json(verdicts: Iterable[Verdict], pairs: dict[str, list[tuple[Phase, Phase]]], **conditions: Any) -> Any:
    """Everything that was measured."""
    return {
        "conditions": conditions,
        "verdicts": [
            {"mode": each.mode, "ratios": asdict(each.ratios), "missed": list(each.missed)} for each in verdicts
        ],
        "rounds": {
            mode: [{"control": asdict(control), "hostile": asdict(hostile)} for control, hostile in each]
            for mode, each in pairs.items()
        },
    }
