"""Variables and command lines of containers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kube_local.node import bundle, environment
from kube_local.node.errors import ConfigInvalid
from kube_local.node.sources import Place
from kube_local.node.volumes import Referred
from slurm_operator.local.image import rules
from slurm_operator.local.image.store import Image

MakePod = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x-$(A)-$(B)", "x-1-2"),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
    ],
    ids=["one", "several", "unknown", "escaped", "dollar before", "shell's own", "not closed", "no name"],
)
def test_references_are_replaced_as_kubernetes_does(text: str, expected: str) -> None:
    assert environment.expand(text, {"A": "1", "B": "2"}) == expected


VALUES: list[tuple[dict[str, Any], str | None]] = [
    ({"name": "V", "value": "$(FIRST)!"}, "one!"),
    ({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}, "slurm"),
    ({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}, "slurmd"),
    ({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['none']"}}}, ""),
    ({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}, "10.240.0.1"),
    ({"name": "V", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}}, "64"),
    ({"name": "V", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}, "2"),
    ({"name": "V", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}}, "1500"),
    ({"name": "V", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "a"}}}, "A"),
    ({"name": "V", "valueFrom": {"secretKeyRef": {"name": "key", "key": "slurm.key"}}}, "K"),
    ({"name": "V", "valueFrom": {"secretKeyRef": {"name": "no", "key": "x", "optional": True}}}, None),
    ({"name": "V", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "no", "optional": True}}}, None),
]


@pytest.mark.parametrize(
    ("variable", "expected"), VALUES, ids=[str(case[0].get("valueFrom", "value")) for case in VALUES]
)
def test_a_variable_gets_its_value(
    variable: dict[str, Any], expected: str | None, make_pod: MakePod, referred: Referred, place: Place
) -> None:
    container = {
        "name": "main",
        "env": [{"name": "FIRST", "value": "one"}, variable],
        "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "1500m"}},
    }
    found = environment.build(make_pod(), container, referred, place, {}, "w-0")
    assert found.get("V") == expected


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        ({"configMapKeyRef": {"name": "no", "key": "a"}}, 'configmap "no" not found'),
        ({"secretKeyRef": {"name": "key", "key": "no"}}, "couldn't find key no in Secret slurm/key"),
        ({"fieldRef": {"fieldPath": "spec.nonsense"}}, "field path 'spec.nonsense' is not supported"),
    ],
    ids=["no ConfigMap", "no key", "no such field"],
)
def test_a_value_that_cannot_be_had_is_named(
    origin: dict[str, Any], text: str, make_pod: MakePod, referred: Referred, place: Place
) -> None:
    with pytest.raises(ConfigInvalid, match=text):
        environment.build(make_pod(), {"env": [{"name": "V", "valueFrom": origin}]}, referred, place, {}, "h")


def test_whole_objects_become_variables_where_their_keys_are_names(
    make_pod: MakePod, referred: Referred, place: Place
) -> None:
    container = {
        "envFrom": [
            {"prefix": "C_", "configMapRef": {"name": "conf"}},
            {"secretRef": {"name": "key"}},
            {"configMapRef": {"name": "absent", "optional": True}},
        ],
        "env": [{"name": "TOKEN", "value": "own"}],
    }
    found = environment.build(make_pod(), container, referred, place, {"FROM": "image"}, "w-0")
    assert found == {
        "PATH": environment.PATH,
        "HOSTNAME": "w-0",
        "FROM": "image",
        "C_a": "A",
        "C_b.txt": "B",
        "C_0bad": "x",
        "slurm.key": "K",
        "TOKEN": "own",
    }


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, ("entry", "default")),
        ({"args": ["$(V)"]}, ("entry", "1")),
        ({"command": ["mine"]}, ("mine",)),
        ({"command": ["mine"], "args": ["x"]}, ("mine", "x")),
        ({"command": [], "args": []}, ("entry", "default")),
    ],
    ids=["image's own", "args replace the image's", "command replaces all", "both", "empty lists say nothing"],
)
def test_the_command_line_is_the_pods_or_the_images(container: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert environment.arguments(container, ("entry",), ("default",), {"V": "1"}) == expected


def test_an_image_of_local_mode_is_what_a_container_is_made_of(tmp_path: Path) -> None:
    image = Image(
        path=tmp_path, version="26.05", digest="d", recipe="r", suite="s", packages={}, bytes=1, built="t", seconds=1
    )
    resolved: bundle.ResolvedImage = rules.resolve("x/slurmrestd:26.05", rules.DEFAULT, {"26.05": image})
    line = environment.arguments({}, resolved.entrypoint, resolved.command, resolved.env)
    assert line == ("tini", "-g", "--", "slurmrestd", "0.0.0.0:6820")
    assert (resolved.user, resolved.rootfs, resolved.working_dir) == ("65534:65534", tmp_path, "/")
