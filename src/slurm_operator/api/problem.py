"""What is wrong with a field of a resource: where, what, how bad.

Made by `api/validate.py` and `admission/rules`, shown by the command line, the admission server and conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from kube_runtime.text import shown

Step = str | int
Path = tuple[Step, ...]
Severity = Literal["error", "warning"]

# More than anybody fixes at once. A resource with many parts must not lead to a response of many megabytes.
MAX_PROBLEMS = 100

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One finding about one field."""

    path: Path
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.message}"


def format_path(path: Sequence[Step]) -> str:
    """A path as people write it: spec.template.spec.containers[0].name."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text or "(root)"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or nothing."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.7)
    return f'; did you mean "{by_lower[close[0]]}"?' if close else ""


def limited(problems: Iterable[FieldProblem]) -> list[FieldProblem]:
    """The first findings of each severity; nothing is looked for once enough errors are found."""
    found: list[FieldProblem] = []
    warnings = 0
    for problem in problems:
        warnings += problem.severity == "warning"
        if problem.severity == "error" and len(found) - min(warnings, MAX_PROBLEMS) >= MAX_PROBLEMS:
            found.append(FieldProblem((), f"has more than {MAX_PROBLEMS} errors; these are the first"))
            break
        if problem.severity == "error" or warnings <= MAX_PROBLEMS:
            found.append(problem)
    return found


def errors(problems: Iterable[FieldProblem]) -> list[FieldProblem]:
    """The problems that refuse an object."""
    return [problem for problem in problems if problem.severity == "error"]
