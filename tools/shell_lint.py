"""Run shellcheck over every shell script of the repository.

In: the files whose first line or name says that they are shell, and the configuration sidecar, whose parts are checked
as the one text that bash gets. Out: findings on standard output, each with its file and line; exit code 1 when there is
one. Run by `make lint`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_operator.build import sidecar

ROOT = Path(__file__).parents[1]
FOLDERS = (".ci", "bench", "deploy", "distributions", "docs", "examples", "src", "tests", "tools")
SIDECAR = ROOT / "src" / "slurm_operator" / "build" / "scripts"
GENERATED = "src/slurm_operator/build/verdicts.py (generated)"
SHEBANG = re.compile(rb"#!\s*\S*/(env\s+)?(ba|da)?sh\b")
FINDING = re.compile(r"-:(?P<line>\d+):(?P<rest>.*)")
COMMAND = (str(Path(sys.executable).with_name("shellcheck")), "--format=gcc")


def scripts(root: Path = ROOT) -> Iterator[Path]:
    """Every file that a shell runs as it is."""
    parts = {SIDECAR / sidecar.path(name) for name in sidecar.PARTS}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path not in parts and "__pycache__" not in path.parts and _is_shell(path):
                yield path


def _is_shell(path: Path) -> bool:
    if path.suffix == ".sh":
        return True
    with path.open("rb") as file:
        return bool(SHEBANG.match(file.readline(200)))


def places(texts: Mapping[str, str]) -> list[str]:
    """`file:line` of each line of the joined sidecar."""
    result: list[str] = []
    for name, text in texts.items():
        file = SIDECAR / sidecar.path(name)
        shown = str(file.relative_to(ROOT)) if name != sidecar.VERDICT_LINE else GENERATED
        # One more: the empty line after a part.
        result += [f"{shown}:{number}" for number in range(1, len(text.rstrip().splitlines()) + 2)]
    return result


def located(line: str, where: list[str]) -> str:
    """A finding on the joined sidecar with the file and line that a person can go to."""
    match = FINDING.fullmatch(line)
    return f"{where[int(match['line']) - 1]}:{match['rest']}" if match else line


def checked(*arguments: str, text: str | None = None) -> list[str]:
    """The findings of shellcheck, one a line."""
    command = [*COMMAND, *arguments]
    ended = subprocess.run(command, cwd=ROOT, input=text, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if ended.returncode > 1:
        raise SystemExit(f"shellcheck ended with {ended.returncode}")
    return ended.stdout.splitlines()


def main() -> int:
    """Check all; the exit code."""
    texts = sidecar.parts()
    where = places(texts)
    found = checked(*(str(path.relative_to(ROOT)) for path in scripts()))
    found += [located(line, where) for line in checked("-", text=sidecar.joined(texts))]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
