"""Why an object cannot be built.

BuildError
├── MissingReference     (Retryable) something that the resource names is not there yet
├── UnreadableReference  (Retryable) something that belongs to the resource is there, but cannot be read
└── InvalidSpec          (Terminal)  the resource says something that cannot be built
"""

from __future__ import annotations

from kube_runtime.errors import OperatorError, Retryable, Terminal
from slurm_operator.api.problem import FieldProblem, Path, format_path


class BuildError(OperatorError):
    """A resource that cannot be built, with the field that says why."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{format_path(path)}: {message}" if path else message)
        self.path = path
        self.message = message

    @property
    def problem(self) -> FieldProblem:
        """The same as a finding."""
        return FieldProblem(self.path, self.message)


class MissingReference(BuildError, Retryable):
    """Something that the resource names is not there."""

    reason = "ReferenceNotFound"

    def __init__(self, path: Path, kind: str, name: str, message: str | None = None) -> None:
        super().__init__(path, message or f"{kind} {name!r} is not in this namespace")
        self.kind = kind
        self.name = name


class UnreadableReference(BuildError, Retryable):
    """Something that belongs to the resource is there, but cannot be read: nobody knows what it says."""

    reason = "ReferenceUnreadable"

    def __init__(self, path: Path, kind: str, name: str) -> None:
        super().__init__(path, f"{kind} {name!r} exists but cannot be read; nothing built from it changes until it can")


class InvalidSpec(BuildError, Terminal):
    """The resource says something that cannot be built."""

    reason = "InvalidSpec"
