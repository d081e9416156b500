"""The CRDs: fresh, structural, and with everything on them that existing manifests, scripts and columns rely on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools import crds, embedded_types

from slurm_operator.api.crd import definitions

Schema = dict[str, Any]

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in definitions()}
KINDS = sorted(CRDS)

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"


def schema_of(kind: str) -> Schema:
    """The schema that the API server holds a kind against."""
    found: Schema = CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every part of a schema, with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def at(kind: str, path: str) -> Schema:
    """One part of a kind's schema."""
    found = dict(nodes(schema_of(kind))).get(f".{path}")
    assert found is not None, f"{kind} has no {path}"
    return found


@pytest.mark.parametrize("name", sorted(crds.files()))
def test_the_file_in_deploy_is_what_the_code_says(name: str) -> None:
    assert (crds.FOLDER / name).read_text() == crds.files()[name], "stale: run `make golden`"


def test_deploy_holds_no_other_crd() -> None:
    assert sorted(path.name for path in Path(crds.FOLDER).iterdir()) == sorted(crds.files())


def test_the_table_of_embedded_types_is_what_kubernetes_says() -> None:
    assert embedded_types.TARGET.read_text() == embedded_types.text(), "stale: run `make golden`"


@pytest.mark.parametrize("kind", KINDS)
class TestEveryNode:
    """Rules of structural schemas, on every node of a kind."""

    def test_says_what_it_is(self, kind: str) -> None:
        for path, node in nodes(schema_of(kind)):
            assert node.get("type") or node.get(INT_OR_STRING) or node.get(PRESERVE), path
            assert not (node.get("type") and node.get(INT_OR_STRING)), path

    def test_uses_no_keyword_that_kubernetes_forbids(self, kind: str) -> None:
        forbidden = {"$ref", "definitions", "patternProperties", "uniqueItems", "anyOf", "const", "x-required"}
        for path, node in nodes(schema_of(kind)):
            assert not forbidden & node.keys(), path
            assert not {"properties", "additionalProperties"} <= node.keys(), path

    def test_has_no_null_default_and_none_of_the_wrong_type(self, kind: str) -> None:
        types = {"boolean": bool, "integer": int, "string": str}
        for path, node in nodes(schema_of(kind)):
            if "default" in node:
                expected = types.get(node.get("type", ""), (int, str))
                assert isinstance(node["default"], expected), path

    def test_requires_only_fields_that_it_has(self, kind: str) -> None:
        for path, node in nodes(schema_of(kind)):
            assert set(node.get("required", ())) <= set(node.get("properties", {})), path

    def test_lists_say_what_is_in_them_and_sets_hold_scalars(self, kind: str) -> None:
        for path, node in nodes(schema_of(kind)):
            if node.get("type") == "array":
                assert "items" in node, path
            if node.get("x-kubernetes-list-type") == "set":
                assert node["items"]["type"] in ("string", "integer"), path

    def test_carries_a_description(self, kind: str) -> None:
        undescribed = [
            path
            for path, node in nodes(schema_of(kind))
            if not node.get("description") and not path.endswith(("[]", "{}")) and path != ".metadata"
        ]
        assert undescribed == []

    def test_status_has_no_default(self, kind: str) -> None:
        assert [path for path, node in nodes(schema_of(kind)) if path.startswith(".status") and "default" in node] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_namespaced_served_stored_and_has_a_status(kind: str) -> None:
    spec = CRDS[kind]["spec"]
    (version,) = spec["versions"]
    assert (spec["group"], spec["scope"], version["name"]) == ("slinky.slurm.net", "Namespaced", "v1beta1")
    assert (version["served"], version["storage"]) == (True, True)
    assert version["subresources"]["status"] == {}
    assert CRDS[kind]["metadata"]["name"] == f"{spec['names']['plural']}.slinky.slurm.net"
    assert "required" not in schema_of(kind)


NAMES = [
    ("Controller", "controllers", "controller", ["slurmctld"]),
    ("NodeSet", "nodesets", "nodeset", ["nodesets", "nss", "slurmd"]),
    ("LoginSet", "loginsets", "loginset", ["loginsets", "lss", "sackd"]),
    ("RestApi", "restapis", "restapi", ["slurmrestd"]),
    ("Accounting", "accountings", "accounting", ["slurmdbd"]),
    ("Token", "tokens", "token", ["tokens", "jwt"]),
    ("Partition", "partitions", "partition", ["slurmpart"]),
]


@pytest.mark.parametrize(("kind", "plural", "singular", "short"), NAMES, ids=[row[0] for row in NAMES])
def test_a_kind_keeps_its_names(kind: str, plural: str, singular: str, short: list[str]) -> None:
    names = CRDS[kind]["spec"]["names"]
    assert (names["plural"], names["singular"], names["shortNames"]) == (plural, singular, short)
    assert names["listKind"] == f"{kind}List"


def test_no_two_kinds_share_a_name() -> None:
    taken = [name for crd in CRDS.values() for name in {crd["spec"]["names"]["plural"]}]
    taken += [
        name
        for crd in CRDS.values()
        for name in set(crd["spec"]["names"]["shortNames"]) - {crd["spec"]["names"]["plural"]}
    ]
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize("kind", KINDS)
def test_only_nodesets_and_loginsets_scale(kind: str) -> None:
    scale = CRDS[kind]["spec"]["versions"][0]["subresources"].get("scale")
    expected = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    assert scale == (expected if kind in ("NodeSet", "LoginSet") else None)


# Name, type, path and priority, as scripts read them.
COLUMNS = [
    ("NodeSet", "DESIRED", "integer", ".status.desired", 0),
    ("NodeSet", "REPLICAS", "integer", ".status.replicas", 0),
    ("NodeSet", "UPDATED", "integer", ".status.updatedReplicas", 0),
    ("NodeSet", "READY", "integer", ".status.readyReplicas", 0),
    ("NodeSet", "IDLE", "integer", ".status.slurmIdle", 1),
    ("NodeSet", "ALLOCATED", "integer", ".status.slurmAllocated", 1),
    ("NodeSet", "DOWN", "integer", ".status.slurmDown", 1),
    ("NodeSet", "DRAIN", "integer", ".status.slurmDrain", 1),
    ("LoginSet", "REPLICAS", "integer", ".status.replicas", 0),
    ("Token", "USER", "string", ".spec.username", 0),
    ("Token", "IAT", "date", ".status.issuedAt", 0),
    *((kind, "AGE", "date", ".metadata.creationTimestamp", 0) for kind in KINDS),
    *(
        (kind, "READY", "string", '.status.conditions[?(@.type=="Ready")].status', 0)
        for kind in KINDS
        if kind != "NodeSet"
    ),
    *((kind, "REASON", "string", '.status.conditions[?(@.type=="Ready")].reason', 1) for kind in KINDS),
]


@pytest.mark.parametrize(
    ("kind", "name", "type_", "path", "priority"), COLUMNS, ids=[f"{row[0]}-{row[1]}" for row in COLUMNS]
)
def test_a_column_is_there_once(kind: str, name: str, type_: str, path: str, priority: int) -> None:
    columns = CRDS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    (found,) = [column for column in columns if column["name"] == name]
    assert (found["type"], found["jsonPath"], found.get("priority", 0)) == (type_, path, priority)


@pytest.mark.parametrize("kind", KINDS)
def test_age_is_the_last_column(kind: str) -> None:
    assert CRDS[kind]["spec"]["versions"][0]["additionalPrinterColumns"][-1]["name"] == "AGE"


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_are_a_map_by_type_with_the_standard_bounds(kind: str) -> None:
    conditions = at(kind, "status.conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    item = conditions["items"]
    assert sorted(item["required"]) == ["lastTransitionTime", "message", "reason", "status", "type"]
    assert item["properties"]["status"]["enum"] == ["True", "False", "Unknown"]
    assert item["properties"]["message"]["maxLength"] == 32768
    assert item["properties"]["reason"]["maxLength"] == 1024
    assert item["properties"]["reason"]["minLength"] == 1
    assert item["properties"]["reason"]["pattern"] == "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    assert item["properties"]["type"]["maxLength"] == 316
    assert item["properties"]["lastTransitionTime"]["format"] == "date-time"


ENUMS = [
    ("NodeSet", "spec.scalingMode", {"DaemonSet", "StatefulSet"}),
    ("NodeSet", "spec.updateStrategy.type", {"RollingUpdate", "OnDelete", "ScheduledUpdate"}),
    ("NodeSet", "spec.persistentVolumeClaimRetentionPolicy.whenDeleted", {"Retain", "Delete"}),
    ("NodeSet", "spec.persistentVolumeClaimRetentionPolicy.whenScaled", {"Retain", "Delete"}),
    ("NodeSet", "spec.pruneSlurmNodeRecords", {"Never", "NodeNotFound"}),
    ("Partition", "spec.state", {"UP", "DOWN", "DRAIN", "INACTIVE"}),
    ("Partition", "spec.driftPolicy", {"Revert", "Report", "Keep"}),
]


@pytest.mark.parametrize(("kind", "path", "values"), ENUMS, ids=[f"{row[0]}-{row[1]}" for row in ENUMS])
def test_a_closed_list_of_values_is_an_enum(kind: str, path: str, values: set[str]) -> None:
    assert set(at(kind, path)["enum"]) == values


RULES = [
    ("Controller", "spec", "!self.external ? has(self.slurmKeyRef) : true"),
    ("Controller", "spec", "!self.external ? has(self.jwtKeyRef) || has(self.jwtHs256KeyRef) : true"),
    ("Controller", "spec", "self.external ? has(self.externalConfig) : true"),
    ("Accounting", "spec", "!self.external ? has(self.slurmKeyRef) : true"),
    ("Accounting", "spec", "!self.external ? has(self.jwtKeyRef) || has(self.jwtHs256KeyRef) : true"),
    ("Accounting", "spec", "self.external ? has(self.externalConfig) : true"),
    ("Token", "spec", "has(self.jwtKeyRef) || has(self.jwtHs256KeyRef)"),
]


@pytest.mark.parametrize(("kind", "path", "rule"), RULES, ids=[f"{row[0]}: {row[2]}" for row in RULES])
def test_a_rule_of_the_contract_is_on_the_crd(kind: str, path: str, rule: str) -> None:
    assert rule in [each["rule"] for each in at(kind, path)["x-kubernetes-validations"]]


@pytest.mark.parametrize(("kind", "path"), [("Controller", "spec"), ("NodeSet", "spec.updateStrategy")])
def test_high_availability_and_scheduled_updates_have_rules_with_messages(kind: str, path: str) -> None:
    assert all(rule["message"] for rule in at(kind, path)["x-kubernetes-validations"])


ATOMIC = [
    ("Controller", "spec.slurmKeyRef"),
    ("Controller", "spec.accountingRef"),
    ("NodeSet", "spec.controllerRef"),
    ("LoginSet", "spec.sssdConfRef"),
    ("Accounting", "spec.storageConfig.passwordKeyRef"),
    ("Token", "spec.secretRef"),
]


@pytest.mark.parametrize(("kind", "path"), ATOMIC, ids=[" ".join(row) for row in ATOMIC])
def test_a_reference_is_replaced_as_a_whole(kind: str, path: str) -> None:
    assert at(kind, path)["x-kubernetes-map-type"] == "atomic"
