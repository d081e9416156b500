"""What all kinds have in common: names, references, keys, services, and that the rest can be built."""

from __future__ import annotations

from typing import Any

import pytest
from tests.admission.rules.resources import KEY, SPECS, check, said

from slurm_operator.api.problem import Path
from slurm_operator.build.refs import Refs

KINDS = list(SPECS)

NAME: Path = ("metadata", "name")

MEMBERS = ("NodeSet", "LoginSet", "RestApi", "Partition")


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_resource_passes(kind: str) -> None:
    assert check(kind) == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_unchanged_resource_passes_an_update(kind: str) -> None:
    assert check(kind, old={}) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_resource_that_is_wrong_can_still_lose_its_finalizer(kind: str) -> None:
    wrong: dict[Path, Any] = {NAME: "Not_A_Name", ("metadata", "finalizers"): ["a/b"]}
    assert check(kind, wrong) != []
    assert check(kind, {NAME: "Not_A_Name"}, old=wrong) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a\n", "a b", "x" * 254], ids=ascii)
def test_a_name_that_kubernetes_would_not_take_is_refused(kind: str, name: str) -> None:
    assert said(check(kind, {NAME: name}))[0].startswith("metadata.name: ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["A", "a.b", "a\n", "a b\nSlurmUser=root", "x" * 64], ids=ascii)
def test_a_namespace_that_is_no_label_is_refused(kind: str, name: str) -> None:
    found = said(check(kind, {("metadata", "namespace"): name}, refs=Refs()))
    assert any(line.startswith("metadata.namespace: ") for line in found), found


@pytest.mark.parametrize(
    ("kind", "longest"),
    [
        ("Controller", 41),
        ("Accounting", 41),
        ("NodeSet", 61),
        ("LoginSet", 63),
        ("RestApi", 55),
        ("Token", 243),
        ("Partition", 253),
    ],
)
def test_a_name_leaves_room_for_the_names_of_its_children(kind: str, longest: int) -> None:
    changes: dict[Path, Any] = {("spec", "clusterName"): "c"} if kind == "Controller" else {}
    assert check(kind, {**changes, NAME: "x" * longest}) == []
    found = said(check(kind, {**changes, NAME: "x" * (longest + 1)}))
    assert len(found) == 1
    assert found[0].startswith(("metadata.name: is ", "spec.username: cannot be part"))


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_reference_stays_in_its_namespace(kind: str) -> None:
    path: Path = ("spec", "controllerRef")
    assert check(kind, {path: {"name": "slurm", "namespace": "slurm"}}) == []
    assert check(kind, {path: {"name": "slurm", "namespace": ""}}) == []
    (found,) = said(check(kind, {path: {"name": "slurm", "namespace": "other"}}))
    assert found == (
        'spec.controllerRef.namespace: must be "slurm", the namespace of this resource; references do not leave it'
    )


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("ref", [{}, {"name": ""}], ids=["absent", "empty"])
def test_a_reference_names_a_controller(kind: str, ref: dict[str, str]) -> None:
    assert said(check(kind, {("spec", "controllerRef"): ref})) == ["spec.controllerRef.name: must name a Controller"]


@pytest.mark.parametrize("kind", MEMBERS)
def test_only_a_restapi_may_move_to_another_controller(kind: str) -> None:
    found = said(check(kind, {}, old={("spec", "controllerRef"): {"name": "before"}}))
    assert found == ([] if kind == "RestApi" else ['spec.controllerRef.name: must not change; it was "before"'])


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_controller_that_is_not_there_yet_refuses_nothing(kind: str) -> None:
    assert check(kind, refs=Refs()) == []


@pytest.mark.parametrize("kind", ["Controller", "Accounting"])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({("spec", "slurmKeyRef"): None}, "spec.slurmKeyRef: slurmKeyRef must be set when external is false"),
        (
            {("spec", "jwtKeyRef"): None},
            "spec.jwtKeyRef: jwtKeyRef or jwtHs256KeyRef must be set when external is false",
        ),
        ({("spec", "external"): True}, "spec.externalConfig: externalConfig must be set when external is true"),
        ({("spec", "slurmKeyRef"): {"key": "a"}}, "spec.slurmKeyRef.name: must not be empty"),
        ({("spec", "slurmKeyRef"): {"name": "a", "key": ""}}, "spec.slurmKeyRef.key: must not be empty"),
        ({("spec", "jwtKeyRef"): {"key": "a"}}, "spec.jwtKeyRef.name: must not be empty"),
        ({("spec", "jwksKeyRef"): {"key": "a"}}, "spec.jwksKeyRef.name: must not be empty"),
        ({("spec", "externalConfig"): {"host": "a b", "port": 1}}, "spec.externalConfig.host: "),
        ({("spec", "externalConfig"): {"host": "a", "port": 0}}, "spec.externalConfig.port: must not be 0"),
        ({("spec", "extraConf"): "a=b\\"}, "spec.extraConf: must not end in a backslash"),
    ],
    ids=lambda item: item.partition(":")[0] if isinstance(item, str) else "",
)
def test_the_keys_and_places_of_a_daemon_are_checked(kind: str, changes: dict[Path, Any], expected: str) -> None:
    found = said(check(kind, changes))
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_an_old_jwt_reference_is_named_by_its_old_name() -> None:
    changes: dict[Path, Any] = {("spec", "jwtKeyRef"): None, ("spec", "jwtHs256KeyRef"): {"key": "a"}}
    assert said(check("Controller", changes)) == ["spec.jwtHs256KeyRef.name: must not be empty"]


@pytest.mark.parametrize("kind", ["Controller", "Accounting", "Token"])
def test_the_jwt_key_in_force_never_changes(kind: str) -> None:
    other = {"name": "other", "key": "key"}
    assert said(check(kind, {("spec", "jwtKeyRef"): other}, old={}))[0].startswith("spec.jwtKeyRef: must not change")
    # The same reference under its other name is the same reference.
    renamed: dict[Path, Any] = {("spec", "jwtKeyRef"): None, ("spec", "jwtHs256KeyRef"): KEY}
    assert check(kind, renamed, old={}) == []
    assert check(kind, {}, old=renamed) == []


@pytest.mark.parametrize("kind", ["Controller", "LoginSet", "RestApi", "Accounting"])
def test_external_addresses_of_a_service_are_a_warning(kind: str) -> None:
    path: Path = ("spec", "service", "spec", "externalIPs")
    (found,) = said(check(kind, {path: ["192.0.2.1"]}))
    assert found.startswith("warning: spec.service.spec.externalIPs: is ignored")
    assert check(kind, {path: []}) == []
