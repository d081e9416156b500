"""Findings as the command line shows them: file, line, field, what is wrong.

In: problems of the reader, the validator, the rules and the linter. Out: one flat form, printed as `path:line: message`
or as JSON. Used by every command that reads manifests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from slurm_operator.api.problem import FieldProblem, Severity, format_path
from slurm_operator.cli.manifests import Manifest
from slurm_operator.cli.places import Problem

# A field that is not as its kind defines it.
INVALID_FIELD = "InvalidField"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that is wrong, and where."""

    file: str
    line: int
    column: int
    severity: Severity
    message: str
    object: str = ""
    path: str = ""
    code: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        warning = "warning: " if self.severity == "warning" else ""
        field = f"{self.path}: " if self.path else ""
        return f"{where}: {warning}{field}{self.message}"

    def as_json(self) -> dict[str, Any]:
        """The form for machines."""
        return asdict(self)


def of_problem(problem: Problem) -> Finding:
    """A finding of the YAML reader."""
    return Finding(problem.source, problem.line, problem.column, "error", problem.message, code="Unreadable")


def of_field(manifest: Manifest, problem: FieldProblem, code: str = "", line_offset: int = 0) -> Finding:
    """A finding on a field of a manifest; the offset leads into a block of text."""
    place = manifest.places.at(problem.path)
    return Finding(
        manifest.source,
        place.line + line_offset,
        place.column,
        problem.severity,
        problem.message,
        title(manifest.value),
        format_path(problem.path),
        code,
    )


def title(value: dict[str, Any]) -> str:
    """An object as people name it: Kind namespace/name."""
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name", "?")
    namespace = metadata.get("namespace")
    return f"{value.get('kind', '?')} {namespace}/{name}" if namespace else f"{value.get('kind', '?')} {name}"


def errors(findings: Iterable[Finding]) -> int:
    """How many findings are errors."""
    return sum(finding.severity == "error" for finding in findings)
