"""LoginSets: host keys, ports, and what restarts login pods. Whole objects: tests/golden."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from tests.build.resources import controller, loginset, refs

from slurm_operator.build import labels
from slurm_operator.build import loginset as build
from slurm_operator.build.errors import InvalidSpec, MissingReference
from slurm_operator.build.metadata import Object


def deployment(cr: Any, **more: Any) -> Object:
    return build.objects(cr, refs(controller(), **more))[2]


def test_host_keys_are_wrapped_once_and_for_all() -> None:
    secret = build.host_key_secret(loginset("x"))
    assert secret["immutable"] is True
    assert secret["metadata"]["name"] == "x-ssh-host-keys"
    data = build.host_key_data(loginset("x"), {name: name.encode() for name in build.HOST_KEY_FILES})
    assert data == {name: b64encode(name.encode()).decode() for name in build.HOST_KEY_FILES}
    assert len(data) == 6


@pytest.mark.parametrize(
    ("user", "ports"),
    [
        pytest.param([], [("login", 22)], id="none"),
        pytest.param([{"name": "login", "containerPort": 2222}], [("login", 2222)], id="sshd elsewhere"),
        pytest.param([{"name": "x", "containerPort": 80}], [("x", 80), ("login", 22)], id="one more"),
        pytest.param([{"containerPort": 22, "hostPort": 2222}], [("login", 22)], id="the same port"),
    ],
)
def test_ports(user: list[Any], ports: list[tuple[str, int]]) -> None:
    container = deployment(loginset(login={"ports": user}))["spec"]["template"]["spec"]["containers"][0]
    assert [(each["name"], each["containerPort"]) for each in container["ports"]] == ports


@pytest.mark.parametrize(
    ("annotation", "changed"),
    [
        pytest.param(labels.SLURM_KEY_HASH, {"secrets": {"slurm-key": {"slurm.key": b"new"}}}, id="slurm key"),
        pytest.param(labels.SSSD_CONF_HASH, {"secrets": {"sssd": {"sssd.conf": b"new"}}}, id="sssd.conf"),
        pytest.param(
            labels.SSH_HOST_KEYS_HASH,
            {"secrets": {"login-ssh-host-keys": dict.fromkeys(build.HOST_KEY_FILES, b"new")}},
            id="host keys",
        ),
    ],
)
def test_what_restarts_login_pods(annotation: str, changed: dict[str, Any]) -> None:
    before = deployment(loginset())["spec"]["template"]["metadata"]["annotations"]
    after = deployment(loginset(), **changed)["spec"]["template"]["metadata"]["annotations"]
    assert {key for key in before if before[key] != after[key]} == {annotation}


@pytest.mark.parametrize("field", ["rootSshAuthorizedKeys", "extraSshdConfig"])
def test_text_that_cannot_be_a_file_names_its_field(field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        build.objects(loginset(**{field: "a\x00"}), refs(controller()))
    assert caught.value.path == ("spec", field)


def test_a_secret_that_lacks_a_host_key_is_named() -> None:
    held = {name: b"key" for name in build.HOST_KEY_FILES if "ecdsa" not in name}
    with pytest.raises(MissingReference, match=r"'x-ssh-host-keys' lacks ssh_host_ecdsa_key, ssh_host_ecdsa_key\.pub"):
        build.objects(loginset("x"), refs(controller(), secrets={"x-ssh-host-keys": held}))
    with pytest.raises(MissingReference, match="lacks ssh_host_ecdsa_key"):
        build.host_key_data(loginset("x"), held)
