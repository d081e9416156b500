"""Rules of their own of LoginSets and Accountings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.admission.rules.resources import check, namespace, said

from slurm_operator.api.problem import Path
from slurm_operator.build.refs import Refs

Changes = dict[Path, Any]
STORAGE: Path = ("spec", "storageConfig")
SECRET = {"name": "mine", "key": "k"}


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("LoginSet", {("spec", "sssdConfRef"): {"key": "a"}}, "spec.sssdConfRef.name: must not be empty"),
        ("LoginSet", {("spec", "rootSshAuthorizedKeys"): "a\x00"}, "spec.rootSshAuthorizedKeys: has the control"),
        ("LoginSet", {("spec", "extraSshdConfig"): "a\\\n"}, "spec.extraSshdConfig: must not end in a backslash"),
        ("LoginSet", {("spec", "strategy"): {"type": "Roll"}}, "spec.strategy.type: must be Recreate or RollingUpdate"),
        ("Accounting", {STORAGE: None}, "spec.storageConfig: storageConfig must be set when external is false"),
        ("Accounting", {(*STORAGE, "host"): "a b"}, "spec.storageConfig.host: "),
        ("Accounting", {(*STORAGE, "database"): "a;b c"}, "spec.storageConfig.database: "),
        ("Accounting", {(*STORAGE, "database"): ""}, "spec.storageConfig.database: must not be empty"),
        ("Accounting", {(*STORAGE, "username"): "a\nb"}, "spec.storageConfig.username: must be one line"),
        ("Accounting", {(*STORAGE, "passwordKeyRef"): {"key": "a"}}, "spec.storageConfig.passwordKeyRef.name: must"),
    ],
    ids=lambda item: item[:70] if isinstance(item, str) else "",
)
def test_a_mistake_is_refused(kind: str, changes: Changes, expected: str) -> None:
    found = said(check(kind, changes))
    assert len(found) == 1, found
    assert found[0].startswith(expected), found


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("LoginSet", {("spec", "strategy"): {"type": "Recreate"}}),
        ("LoginSet", {("spec", "strategy"): {"rollingUpdate": {"maxSurge": 1}}}),
        ("LoginSet", {("spec", "rootSshAuthorizedKeys"): "ssh-ed25519 AAAA me\nssh-rsa BBBB you\n"}),
        ("Accounting", {(*STORAGE, "username"): ""}),
        ("Accounting", {(*STORAGE, "username"): None}),
        (
            "Accounting",
            {STORAGE: None, ("spec", "external"): True, ("spec", "externalConfig"): {"host": "a", "port": 1}},
        ),
    ],
    ids=lambda item: item if isinstance(item, str) else " ".join(str(value) for value in item.values()),
)
def test_what_is_right_passes(kind: str, changes: Changes) -> None:
    assert check(kind, changes) == []


def test_a_password_that_slurmdbd_cannot_read_is_refused_without_showing_it() -> None:
    base = namespace()
    refs = Refs(secrets={"keys": {"key": b"pass word"}}, controllers=base.controllers)
    (found,) = said(check("Accounting", refs=refs))
    assert found.startswith("spec.storageConfig.passwordKeyRef: the password holds a space")
    assert "pass word" not in found


def test_a_password_that_is_not_there_yet_is_no_objection() -> None:
    assert check("Accounting", refs=Refs()) == []
