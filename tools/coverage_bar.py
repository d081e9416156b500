"""Hold the pure core at its coverage: lines and branches of each part at 98 % or more.

In: the `.coverage` data of the last test run (`pytest --cov`). Out: a table on standard output, one row for each part
with what its weakest files miss; exit code 1 when a part is below the bar or was not measured. Run by `make coverage`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from coverage import Coverage
from coverage.exceptions import CoverageException

ROOT = Path(__file__).parents[1]
BAR = 98.0
PARTS = {
    "build": "src/slurm_operator/build/*.py",
    "admission/rules": "src/slurm_operator/admission/rules/*.py",
    "slurm/conf*": "src/slurm_operator/slurm/conf*.py",
    "slurm/hostlist": "src/slurm_operator/slurm/hostlist.py",
}
# What the bar does not hold, but whoever reads the table wants to know.
SHOWN = {
    "api": "src/slurm_operator/api/*.py",
    "plan": "src/slurm_operator/plan/*.py",
    "status": "src/slurm_operator/status/*.py",
    "cli": "src/slurm_operator/cli/*.py",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """Lines and branches of some files, and how many of them ran."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_run: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            self.lines + other.lines,
            self.lines_run + other.lines_run,
            self.branches + other.branches,
            self.branches_run + other.branches_run,
        )

    @property
    def line_percent(self) -> float:
        """Share of lines that ran."""
        return 100 * self.lines_run / self.lines if self.lines else 100.0

    @property
    def branch_percent(self) -> float:
        """Share of branches that were taken."""
        return 100 * self.branches_run / self.branches if self.branches else 100.0

    @property
    def percent(self) -> float:
        """The lower of the two: a part is as well covered as its weaker side."""
        return min(self.line_percent, self.branch_percent)


def measured() -> dict[str, Counted]:
    """What the last run counted, by file."""
    coverage = Coverage(data_file=str(ROOT / ".coverage"), config_file=str(ROOT / "pyproject.toml"))
    coverage.load()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        coverage.json_report(outfile=str(report))
        found: dict[str, Any] = json.loads(report.read_text())
    return {name: _counted(file["summary"]) for name, file in found["files"].items()}


def _counted(summary: dict[str, int]) -> Counted:
    return Counted(
        summary["num_statements"], summary["covered_lines"], summary["num_branches"], summary["covered_branches"]
    )


def of_part(pattern: str, files: dict[str, Counted]) -> dict[str, Counted]:
    """The files of one part."""
    return {name: counted for name, counted in files.items() if fnmatch(_relative(name), pattern)}


def _relative(name: str) -> str:
    path = Path(name)
    return path.relative_to(ROOT).as_posix() if path.is_absolute() else path.as_posix()


def total(counts: Iterable[Counted]) -> Counted:
    """The sum of some counts."""
    return sum(counts, Counted())


def rows(files: dict[str, Counted]) -> Iterator[tuple[str, bool]]:
    """Each line of the table, and whether it is a failure."""
    yield f"{'part':18} {'lines':>7} {'branches':>9}", False
    for name, pattern in {**PARTS, **SHOWN}.items():
        held = of_part(pattern, files)
        counted = total(held.values())
        failed = name in PARTS and (not held or counted.percent < BAR)
        verdict = f"below {BAR:g} %" if failed and held else "not measured" if not held else ""
        yield f"{name:18} {counted.line_percent:6.1f}% {counted.branch_percent:8.1f}%  {verdict}".rstrip(), failed
        if failed:
            yield from ((f"  {line}", False) for line in weakest(held))


def weakest(files: dict[str, Counted], most: int = 5) -> Iterator[str]:
    """The files of a part that pull it down."""
    for name, counted in sorted(files.items(), key=lambda item: item[1].percent)[:most]:
        if counted.percent < BAR:
            yield f"{_relative(name)}: lines {counted.line_percent:.1f}%, branches {counted.branch_percent:.1f}%"


def main() -> int:
    """Print the table; 1 when a part is below the bar."""
    try:
        files = measured()
    except CoverageException as error:
        sys.stderr.write(f"coverage_bar: {error} Run `make test` first.\n")
        return 1
    failed = False
    for line, fails in rows(files):
        sys.stdout.write(f"{line}\n")
        failed = failed or fails
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
