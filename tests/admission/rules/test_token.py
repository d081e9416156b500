"""Rules of a Token: whom it speaks for, for how long, and where it is kept."""

from __future__ import annotations

from typing import Any

import pytest
from tests.admission.rules.resources import KEY, check, said

from slurm_operator.api.problem import Path

Changes = dict[Path, Any]
SECRET = {"name": "mine", "key": "k"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({("spec", "jwtKeyRef"): None}, "spec.jwtKeyRef: jwtKeyRef or jwtHs256KeyRef must be set"),
        ({("spec", "jwtKeyRef"): {"key": "a"}}, "spec.jwtKeyRef.name: must not be empty"),
        ({("spec", "username"): "a b", ("spec", "secretRef"): SECRET}, "spec.username: "),
        ({("spec", "username"): "Alice"}, "spec.username: cannot be part of the name of a Secret"),
        ({("spec", "lifetime"): "soon"}, 'spec.lifetime: "soon" is not a duration such as 15m or 1h30m'),
        ({("spec", "lifetime"): "0s"}, "spec.lifetime: must be at least 5s"),
        ({("spec", "lifetime"): "-1h"}, "spec.lifetime: "),
        ({("spec", "secretRef"): {"key": "a"}}, "spec.secretRef.name: must not be empty"),
        ({("spec", "secretRef"): KEY}, "spec.secretRef.name: must not be the Secret that holds the signing key"),
    ],
    ids=lambda item: item[:70] if isinstance(item, str) else "",
)
def test_a_mistake_is_refused(changes: Changes, expected: str) -> None:
    found = said(check("Token", changes))
    assert len(found) == 1, found
    assert found[0].startswith(expected), found


@pytest.mark.parametrize(
    "changes",
    [
        {("spec", "username"): ""},
        {("spec", "username"): "svc$", ("spec", "secretRef"): SECRET},
        {("spec", "lifetime"): "1h30m"},
        {("spec", "lifetime"): ""},
    ],
    ids=lambda item: " ".join(str(value) for value in item.values()),
)
def test_what_is_right_passes(changes: Changes) -> None:
    assert check("Token", changes) == []
