"""From samples of resident sets to figures and bars: is memory flat once it is warm?

In: samples of one process, each with its time. Out: what it was when warm, the most after that, the slope, and whether
that is within the bar. No I/O. Called by `slurmrestd_memory.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.scaling.objects import Json

WARM_SECONDS = 600.0
# A resident set goes up and down with each request: the most of this time is taken for what it is when warm.
WINDOW_SECONDS = 60.0
# How much more it may be later, and how much it may grow in an hour: 5 % and 10 MB.
FACTOR, SLACK_MB = 0.05, 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at one moment: seconds since the beginning, resident set, CPU so far."""

    at: float
    megabytes: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Flatness:
    """What the memory of a process did after it was warm; megabytes."""

    warm: float
    most: float
    mean: float
    per_hour: float

    @property
    def allowance(self) -> float:
        """So much more is still flat."""
        return FACTOR * self.warm + SLACK_MB

    def problems(self, name: str) -> list[str]:
        """Why it is not flat."""
        found = []
        if self.most > self.warm + self.allowance:
            bar = self.warm + self.allowance
            found.append(f"{name}: {self.most:.0f} MB after {self.warm:.0f} MB when warm; the bar is {bar:.0f} MB")
        if self.per_hour > self.allowance:
            found.append(f"{name} grows by {self.per_hour:.1f} MB/h; the bar is {self.allowance:.0f} MB/h")
        return found


def slope(points: Sequence[tuple[float, float]]) -> float:
    """By least squares; 0 where there is no line."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    width = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / width if width else 0.0


def flatness(samples: Sequence[Sample], warm_seconds: float = WARM_SECONDS) -> Flatness | None:
    """What came after it was warm; None while it is not."""
    window = [each.megabytes for each in samples if warm_seconds - WINDOW_SECONDS < each.at <= warm_seconds]
    later = [each for each in samples if each.at > warm_seconds]
    if not window or len(later) < 2:
        return None
    sizes = [each.megabytes for each in later]
    per_hour = slope([(each.at / 3600, each.megabytes) for each in later])
    return Flatness(max(window), max(sizes), sum(sizes) / len(sizes), per_hour)


def figures(name: str, samples: Sequence[Sample], warm_seconds: float = WARM_SECONDS) -> Json:
    """The figures of one process."""
    if not samples:
        return {}
    last, found = samples[-1], flatness(samples, warm_seconds)
    shown = {
        f"{name}_mb_first": round(samples[0].megabytes, 1),
        f"{name}_mb_last": round(last.megabytes, 1),
        f"{name}_mb_most": round(max(each.megabytes for each in samples), 1),
        f"{name}_cpu_seconds": round(last.cpu_seconds - samples[0].cpu_seconds, 1),
    }
    if found is None:
        return shown
    return shown | {
        f"{name}_mb_when_warm": round(found.warm, 1),
        f"{name}_mb_most_after": round(found.most, 1),
        f"{name}_mb_mean_after": round(found.mean, 1),
        f"{name}_mb_per_hour": round(found.per_hour, 2),
    }
