"""Build errors: the field, the sentence, and what happens next."""

from __future__ import annotations

import pytest

from kube_runtime.errors import Retryable, Terminal
from slurm_operator.build.errors import BuildError, InvalidSpec, MissingReference


@pytest.mark.parametrize(
    ("error", "text", "kind", "reason"),
    [
        (InvalidSpec(("spec", "a", 0), "is wrong"), "spec.a[0]: is wrong", Terminal, "InvalidSpec"),
        (
            MissingReference(("spec", "ref"), "Secret", "s"),
            "spec.ref: Secret 's' is not in this namespace",
            Retryable,
            "ReferenceNotFound",
        ),
        (
            MissingReference(("spec", "ref"), "Secret", "s", "is gone"),
            "spec.ref: is gone",
            Retryable,
            "ReferenceNotFound",
        ),
    ],
    ids=["invalid", "missing", "missing, in other words"],
)
def test_an_error_says_where_and_what_next(error: BuildError, text: str, kind: type, reason: str) -> None:
    assert str(error) == text
    assert isinstance(error, kind)
    assert error.reason == reason
    assert error.problem.path == error.path
