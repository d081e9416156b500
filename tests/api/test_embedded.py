"""Containers, pods, services and claims inside our kinds, held against Kubernetes' own types."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.api import embedded
from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import format_path
from slurm_operator.api.validate import decode, schema_of


def found(kind: str, spec: object) -> list[str]:
    """The findings as text."""
    return [f"{format_path(each.path)}: {each.message}" for each in embedded.problems(kind, {"spec": spec})]


def test_every_open_part_of_a_kind_has_a_type() -> None:
    for kind in BY_NAME:
        steps = {".".join(path) for path, _ in embedded.EMBEDDED[kind]}
        assert steps == set(_open(schema_of(kind)["properties"]["spec"], ())), kind


def _open(schema: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    inner = schema.get("items", schema)
    if inner.get("x-kubernetes-preserve-unknown-fields"):
        return [".".join(path)]
    return [each for name, part in schema.get("properties", {}).items() for each in _open(part, (*path, name))]


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("NodeSet", {"slurmd": {"imag": "a"}}, 'spec.slurmd.imag: unknown field; did you mean "image"?'),
        ("NodeSet", {"slurmd": {"ports": [{"containerPort": "80"}]}}, "spec.slurmd.ports[0].containerPort: must be"),
        ("NodeSet", {"slurmd": {"resources": {"limits": {"cpu": "4 cores"}}}}, "spec.slurmd.resources.limits.cpu: "),
        ("NodeSet", {"slurmd": {"resources": {"limits": {"cpu": "4\n"}}}}, "spec.slurmd.resources.limits.cpu: "),
        ("NodeSet", {"slurmd": {"env": [{"value": "a"}]}}, "spec.slurmd.env[0].name: is required"),
        ("NodeSet", {"template": {"spec": {"hostname": 5}}}, "spec.template.spec.hostname: must be a string, not 5"),
        ("NodeSet", {"template": {"spec": {"volumes": [None]}}}, "spec.template.spec.volumes[0]: must not be null"),
        ("NodeSet", {"volumeClaimTemplates": [{"spec": {"accessMode": []}}]}, "spec.volumeClaimTemplates[0].spec.acc"),
        ("Controller", {"service": {"spec": {"type": "Nodeport"}}}, 'did you mean "NodePort"?'),
        ("Controller", {"reconfigure": "image"}, 'spec.reconfigure: must be a mapping, not "image"'),
        ("LoginSet", {"login": {"readinessProbe": {"httpGet": {"path": "/"}}}}, "spec.login.readinessProbe.httpGet.po"),
    ],
)
def test_what_kubernetes_would_not_take_is_found(kind: str, spec: dict[str, Any], expected: str) -> None:
    assert [line for line in found(kind, spec) if expected in line], found(kind, spec)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("NodeSet", {"slurmd": {"image": "a", "resources": {"limits": {"cpu": 4, "memory": "1.5Gi"}}}}),
        ("NodeSet", {"slurmd": {"readinessProbe": {"httpGet": {"port": "http"}}}}),
        ("NodeSet", {"template": {"spec": {"containers": [{"name": "side", "image": "a"}]}}}),
        ("NodeSet", {"template": {"spec": {"tolerations": [{"$patch": "replace"}]}}}),
        ("NodeSet", {"template": {"spec": {"tolerations": [{"operator": "Exists", "effect": ""}]}}}),
        ("NodeSet", {"template": "not a mapping: the schema says so"}),
        ("Controller", None),
        ("Token", {"username": "a"}),
    ],
    ids=["resources", "named port", "sidecar", "directive", "empty word", "elsewhere", "no spec", "nothing embedded"],
)
def test_overlays_pass(kind: str, spec: object) -> None:
    assert found(kind, spec) == []


@pytest.mark.parametrize("text", ["1", "0.5", ".5", "5.", "1Ki", "4Gi", "100m", "1e3", "1E-3", "-1", "+1k"])
def test_a_quantity_is_known(text: str) -> None:
    assert found("NodeSet", {"slurmd": {"resources": {"limits": {"memory": text}}}}) == []


@pytest.mark.parametrize("text", ["", "a", "1 Gi", "1KB", "1ki", "٣", "1e", "1\n"])
def test_what_is_no_quantity_is_found(text: str) -> None:
    assert len(found("NodeSet", {"slurmd": {"resources": {"limits": {"memory": text}}}})) == 1


def test_an_overlay_need_not_repeat_what_the_operator_fills_in() -> None:
    assert "required" in embedded.types()["Container"]
    assert "required" not in embedded.overlay_type("Container")


def test_a_field_that_kubernetes_does_not_have_is_left_out_of_what_is_served() -> None:
    """C2: `dNSPolicy` of the Go project's documents, or a field of a newer Kubernetes, made a resource unusable."""
    pod = {
        "dNSPolicy": "Default",
        "workloadRef": {"name": "w"},
        "hostname": "a-",
        "nodeSelector": {"any": "key"},
        "$setElementOrder/volumes": [{"name": "v"}],
        "containers": [{"name": "side", "image": "a", "hugeField": {"deep": [1]}, "env": [{"name": "A", "valu": "b"}]}],
    }
    spec = {"controllerRef": {"name": "slurm"}, "slurmd": {"imag": "a", "image": "b"}, "template": {"spec": pod}}
    raw = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": "a"},
        "spec": {**spec, "volumeClaimTemplates": [{"metadata": {"name": "c"}, "spec": {"accessMode": 1}}]},
    }
    assert decode(raw).resource is None, "a file is checked strictly"
    decoded = decode(raw, served=True)
    assert isinstance(decoded.resource, NodeSet)
    assert decoded.resource.spec.slurmd == {"image": "b"}
    assert decoded.resource.spec.volume_claim_templates == ({"metadata": {"name": "c"}, "spec": {}},)
    assert decoded.resource.spec.template.spec == {
        "hostname": "a-",
        "nodeSelector": {"any": "key"},
        "$setElementOrder/volumes": [{"name": "v"}],
        "containers": [{"name": "side", "image": "a", "env": [{"name": "A"}]}],
    }
    assert {each.severity for each in decoded.problems} == {"warning"}
    assert "spec.template.spec.dNSPolicy: unknown field of Kubernetes' type, which is left out; did you mean \"dns" in (
        "\n".join(map(str, decoded.problems))
    )


def test_a_wrong_value_of_a_known_field_is_an_error_also_when_served() -> None:
    spec = {"controllerRef": {"name": "slurm"}, "slurmd": {"image": 5}}
    raw = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": {"name": "a"}, "spec": spec}
    assert decode(raw, served=True).resource is None
