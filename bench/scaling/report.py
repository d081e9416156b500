"""The figures for people. In: the result of a run and its bars. Out: a table, each figure beside its bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.scaling.figures import Bar


def table(result: Mapping[str, object], held: Sequence[Bar]) -> str:
    """Figures with a bar first, then all others."""
    lines = [f"{'figure':62}{'measured':>12}{'bar':>10}"] if held else []
    barred = {bar.figure for bar in held}
    for bar in held:
        value = result.get(bar.figure)
        shown = "not measured" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)
        mark = "  above" if isinstance(value, int | float) and value > bar.most else ""
        lines.append(f"{bar.text:62}{shown:>12}{bar.most:>10g}{mark}")
    if held:
        lines.append("")
    for name, value in result.items():
        if name in barred:
            continue
        lines.append(f"{name:40} {_shown(value)}")
    return "\n".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {count}" for key, count in value.items()) or "none"
    return str(value)
