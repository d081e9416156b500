"""Accountings: slurmdbd.conf with its password, and what refuses to become one. Whole objects: tests/golden."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from tests.build.resources import JWT_KEY, SLURM_KEY, accounting, refs, resource

from slurm_operator.api.accounting import Accounting
from slurm_operator.build import accounting as build
from slurm_operator.build import labels
from slurm_operator.build.errors import BuildError
from slurm_operator.slurm import conf

PASSWORD = {"name": "database", "key": "password"}


def without(field: str, **spec: Any) -> Accounting:
    given = {
        "slurmKeyRef": SLURM_KEY,
        "jwtKeyRef": JWT_KEY,
        "storageConfig": {"host": "db", "passwordKeyRef": PASSWORD},
        **spec,
    }
    found = resource("Accounting", "books", {key: value for key, value in given.items() if key != field}, {})
    assert isinstance(found, Accounting)
    return found


def test_slurmdbd_conf_is_in_the_secret() -> None:
    service, secret, workload = build.objects(accounting(), refs())
    text = b64decode(secret["data"]["slurmdbd.conf"]).decode()
    document = conf.parse(text, file="slurmdbd.conf")
    assert not document.findings
    assert document.get("StoragePass") == "secret"
    assert document.get("DbdHost") == "books-accounting-0"
    assert [each["metadata"]["name"] for each in (service, secret, workload)] == ["books-accounting"] * 3


def test_a_new_password_restarts_slurmdbd() -> None:
    def annotations(password: bytes) -> Any:
        workload = build.objects(accounting(), refs(secrets={"database": {"password": password}}))[2]
        return workload["spec"]["template"]["metadata"]["annotations"]

    one, other = annotations(b"one"), annotations(b"other")
    assert one[labels.SLURMDBD_CONF_HASH] != other[labels.SLURMDBD_CONF_HASH]
    assert one[labels.SLURM_KEY_HASH] == other[labels.SLURM_KEY_HASH]


def test_a_password_may_end_in_a_line_break() -> None:
    text = build.slurmdbd_conf(accounting(), refs(secrets={"database": {"password": b"secret\n"}}))
    assert "StoragePass=secret\n" in text


@pytest.mark.parametrize("password", [b"a b", b"a#b", b"a'b", b'a"b', b"a\\b", b"a\nb", b"\xff", b"a\x00b"])
def test_a_password_that_slurm_cannot_read_is_refused_and_never_shown(password: bytes) -> None:
    with pytest.raises(BuildError) as caught:
        build.objects(accounting(), refs(secrets={"database": {"password": password}}))
    assert caught.value.path == ("spec", "storageConfig", "passwordKeyRef")
    assert password.decode(errors="replace") not in str(caught.value)


@pytest.mark.parametrize(
    ("cr", "path"),
    [
        pytest.param(without("storageConfig"), ("spec", "storageConfig"), id="no database"),
        pytest.param(without("slurmKeyRef"), ("spec", "slurmKeyRef"), id="no slurm key"),
        pytest.param(without("jwtKeyRef"), ("spec", "jwtKeyRef"), id="no jwt key"),
        pytest.param(
            accounting(storageConfig={"host": "a b", "passwordKeyRef": PASSWORD}),
            ("spec", "storageConfig", "host"),
            id="no host",
        ),
        pytest.param(
            accounting(storageConfig={"host": "db", "database": "a b", "passwordKeyRef": PASSWORD}),
            ("spec", "storageConfig", "database"),
            id="no database name",
        ),
        pytest.param(
            accounting(storageConfig={"host": "db", "username": "a\nb", "passwordKeyRef": PASSWORD}),
            ("spec", "storageConfig", "username"),
            id="no user name",
        ),
        pytest.param(
            accounting(storageConfig={"host": "db", "passwordKeyRef": {"name": "gone", "key": "k"}}),
            ("spec", "storageConfig", "passwordKeyRef", "name"),
            id="no password",
        ),
        pytest.param(accounting(extraConf="A=\x07"), ("spec", "extraConf"), id="control character"),
    ],
)
def test_what_cannot_be_built_names_its_field(cr: Accounting, path: tuple[object, ...]) -> None:
    with pytest.raises(BuildError) as caught:
        build.objects(cr, refs())
    assert caught.value.path == path


def test_slurmdbd_elsewhere_owns_nothing() -> None:
    assert build.objects(accounting(external=True, externalConfig={"host": "h", "port": 1}), refs()) == []
