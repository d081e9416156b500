"""Figures as SVG, written by hand: curves of pods over time, and figures beside their bars.

In: the steps of a round, its floors and the audit log. Out: small SVG files, readable without scripts or fonts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from bench.scaling.audit import AuditLog
from bench.scaling.figures import Bar
from bench.scaling.floors import Floor
from bench.scaling.objects import Json
from bench.scaling.steps import OURS, Step

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 46, 50
COLOURS = ("#1a66b3", "#c4501b", "#2f8f4e", "#7a4fb5")
# More points than this are not seen.
MAX_POINTS = 300
TICKS = 5
ROW, LABEL_WIDTH, LEGEND_LINE = 26, 400, 18
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """A line with its name; what it is compared with is dashed."""

    name: str
    points: Sequence[Point]
    is_dashed: bool = False


def cumulative(moments: Sequence[float], since: float, *, falling_from: int = 0) -> list[Point]:
    """How many had come by then, or how many were left; seconds since the beginning."""
    ordered = sorted(moments)
    sign, start = (-1, falling_from) if falling_from else (1, 0)
    points = [(0.0, float(start))]
    points += [(at - since, float(start + sign * number)) for number, at in enumerate(ordered, start=1)]
    step = max(1, len(points) // MAX_POINTS)
    return [*points[:-1:step], points[-1]]


def nice_steps(most: float) -> list[float]:
    """Round numbers from 0 to a little above the most."""
    if most <= 0:
        return [0.0, 1.0]
    size = 1.0
    while size * 10 <= most / TICKS:
        size *= 10
    while size > most / TICKS:
        size /= 10
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= most / TICKS)
    count = int(most / step) + (0 if abs(most / step - round(most / step)) < 1e-9 else 1)
    return [round(step * number, 10) for number in range(count + 1)]


def line_chart(title: str, x_label: str, y_label: str, curves: Sequence[Curve]) -> str:
    """Curves over the same axes, each named where the legend is."""
    xs = nice_steps(max(x for curve in curves for x, _ in curve.points))
    ys = nice_steps(max(y for curve in curves for _, y in curve.points))
    # The legend stands above the curves, two names to a line.
    top = TOP + LEGEND_LINE * ((len(curves) + 1) // 2)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - top - BOTTOM

    def place(point: Point) -> str:
        return f"{LEFT + width * point[0] / xs[-1]:.1f},{top + height * (1 - point[1] / ys[-1]):.1f}"

    parts = [_text(LEFT, 22, title, "title")]
    for y in ys:
        line, end = place((0, y)).split(","), place((xs[-1], y)).split(",")
        parts.append(f'<line class="grid" x1="{line[0]}" y1="{line[1]}" x2="{end[0]}" y2="{end[1]}"/>')
        parts.append(_text(LEFT - 8, float(line[1]) + 4, f"{y:,g}", "end"))
    below = HEIGHT - BOTTOM + 18
    parts += [_text(float(place((x, 0)).split(",")[0]), below, f"{x:,g}", "middle") for x in xs]
    parts.append(_text(LEFT + width / 2, HEIGHT - 12, x_label, "middle"))
    turned = f"translate(16 {top + height / 2:.0f}) rotate(-90)"
    parts.append(f'<text class="middle" transform="{turned}">{escape(y_label)}</text>')
    for number, curve in enumerate(curves):
        colour, dash = COLOURS[number // 2 % len(COLOURS)], ' stroke-dasharray="6 4"' if curve.is_dashed else ""
        points = " ".join(map(place, curve.points))
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dash} points="{points}"/>')
        x, y = LEFT + (number % 2) * 300, TOP - 4 + (number // 2) * LEGEND_LINE
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}" stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(_text(x + 32, y + 4, curve.name, ""))
    return _svg(HEIGHT, parts)


def bar_chart(title: str, rows: Sequence[tuple[str, float, float]]) -> str:
    """For each figure its share of its bar; the bar is the line at 1."""
    height = TOP + ROW * len(rows) + 34
    room = WIDTH - LABEL_WIDTH - 90
    most = max([1.0, *(_share(value, bar) for _, value, bar in rows)])
    limit = LABEL_WIDTH + room / most
    parts = [_text(14, 22, title, "title")]
    for number, (label, value, bar) in enumerate(rows):
        y, length = TOP + ROW * number, room * _share(value, bar) / most
        colour = COLOURS[1] if value > bar else COLOURS[0]
        parts.append(_text(LABEL_WIDTH - 8, y + 15, label, "end"))
        parts.append(
            f'<rect x="{LABEL_WIDTH}" y="{y + 4}" width="{max(1.0, length):.1f}" height="14" fill="{colour}"/>'
        )
        parts.append(_text(LABEL_WIDTH + length + 6, y + 15, f"{value:g} of {bar:g}", ""))
    bottom = TOP + ROW * len(rows)
    parts.append(f'<line class="limit" x1="{limit:.1f}" y1="{TOP}" x2="{limit:.1f}" y2="{bottom}"/>')
    parts.append(_text(limit, bottom + 18, "the bar", "middle"))
    return _svg(height, parts)


def _share(value: float, bar: float) -> float:
    """How much of its bar a figure takes; three times is as bad as any more."""
    return min(3.0, value / bar if bar else float(bool(value)) * 3.0)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(text)}</text>'


def _svg(height: float, parts: Sequence[str]) -> str:
    style = (
        "text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}.end{text-anchor:end}"
        ".middle{text-anchor:middle}.grid{stroke:#ddd}.limit{stroke:#222;stroke-dasharray:3 3}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    ground = f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>'
    return "\n".join([head, f"<style>{style}</style>", ground, *parts, "</svg>", ""])


# The figures of a round


def write(
    folder: Path, steps: Mapping[str, Step], floors: Sequence[Floor], log: AuditLog, result: Json, held: Sequence[Bar]
) -> list[Path]:
    """Every figure that the round has data for; gives the files."""
    pods = int(result["pods"])
    found: dict[str, str] = {}
    if "out" in steps and floors:
        found["out"] = _out(steps["out"], floors[0], log, pods)
    if "in" in steps and floors:
        found["in"] = _in(steps["in"], floors[0], log, pods)
    rows = [
        (bar.text, float(result[bar.figure]), bar.most)
        for bar in held
        if isinstance(result.get(bar.figure), int | float)
    ]
    if rows:
        found["bars"] = bar_chart(f"{pods:,} workers: each figure beside its bar", rows)
    if "config" in steps:
        found["config"] = _config(steps)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"scale-{pods}-{name}.svg" for name in found}
    for name, text in found.items():
        paths[name].write_text(text)
    return list(paths.values())


def _out(step: Step, floor: Floor, log: AuditLog, pods: int) -> str:
    ours, bare = (OURS, step.since, step.settled), (floor.namespace, floor.created_since, floor.deleted_since)
    return line_chart(
        f"0 to {pods:,} workers",
        "seconds",
        "pods",
        [
            Curve("exist, operator", cumulative(log.created(*ours), step.since)),
            Curve("exist, bare client", cumulative(log.created(*bare), floor.created_since), is_dashed=True),
            Curve("Ready, operator", cumulative(log.ready(*ours), step.since)),
            Curve("Ready, bare client", cumulative(log.ready(*bare), floor.created_since), is_dashed=True),
        ],
    )


def _in(step: Step, floor: Floor, log: AuditLog, pods: int) -> str:
    gone = log.gone(OURS, step.since, step.settled)
    bare = log.gone(floor.namespace, floor.deleted_since, float("inf"))
    before = step.workers + max(1, pods // 10)
    return line_chart(
        f"{pods:,} to {max(1, pods // 10):,} workers, drained first",
        "seconds",
        "pods left",
        [
            Curve("operator", cumulative(gone, step.since, falling_from=before)),
            Curve(
                "bare client, drains nothing", cumulative(bare, floor.deleted_since, falling_from=pods), is_dashed=True
            ),
        ],
    )


def _config(steps: Mapping[str, Step]) -> str:
    curves = []
    for name in ("config", "config-of-few"):
        if name in steps:
            ordered = sorted(steps[name].more["seconds"])
            points = [(seconds, 100 * number / len(ordered)) for number, seconds in enumerate(ordered, start=1)]
            curves.append(Curve(f"{steps[name].workers:,} workers", [(0.0, 0.0), *points], is_dashed=name != "config"))
    return line_chart("A changed partition: how soon Slurm has it", "seconds", "% of the changes", curves)
