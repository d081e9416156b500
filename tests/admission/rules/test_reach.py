"""Pod templates that reach out of their pod: refused at their field unless a flag allows it, everywhere alike."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.admission import rules
from slurm_operator.api.controller import Controller
from slurm_operator.api.pod_features import FEATURES
from slurm_operator.api.problem import errors, format_path
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs

KEYS = {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}}
SPECS: dict[str, dict[str, Any]] = {
    "Controller": KEYS,
    "NodeSet": {"controllerRef": {"name": "slurm"}},
    "LoginSet": {"controllerRef": {"name": "slurm"}, "sssdConfRef": {"name": "s", "key": "k"}},
    "RestApi": {"controllerRef": {"name": "slurm"}},
    "Accounting": {**KEYS, "storageConfig": {"host": "db", "passwordKeyRef": {"name": "p", "key": "k"}}},
}
MAIN = {
    "Controller": "slurmctld",
    "NodeSet": "slurmd",
    "LoginSet": "login",
    "RestApi": "slurmrestd",
    "Accounting": "slurmdbd",
}
POD_REACHES: list[tuple[str, dict[str, Any], str]] = [
    ("hostNamespaces", {"hostNetwork": True}, "hostNetwork"),
    ("hostNamespaces", {"hostPID": True}, "hostPID"),
    ("hostNamespaces", {"hostIPC": True}, "hostIPC"),
    ("hostPath", {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "volumes[0].hostPath"),
    ("serviceAccount", {"serviceAccountName": "admin"}, "serviceAccountName"),
    ("serviceAccount", {"automountServiceAccountToken": True}, "automountServiceAccountToken"),
    (
        "serviceAccount",
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
        "volumes[0].projected.sources[0].serviceAccountToken",
    ),
    (
        "sysctls",
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        "securityContext.sysctls[0]",
    ),
    (
        "privileged",
        {"initContainers": [{"name": "x", "image": "i", "securityContext": {"privileged": True}}]},
        "initContainers[0].securityContext.privileged",
    ),
    (
        "capabilities",
        {"containers": [{"name": "x", "image": "i", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
        "containers[0].securityContext.capabilities.add[0]",
    ),
    (
        "hostPorts",
        {"containers": [{"name": "x", "image": "i", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
        "containers[0].ports[0].hostPort",
    ),
]
CONTAINER_REACHES: list[tuple[str, dict[str, Any], str]] = [
    ("privileged", {"securityContext": {"privileged": True}}, "securityContext.privileged"),
    ("privileged", {"securityContext": {"procMount": "Unmasked"}}, "securityContext.procMount"),
    ("capabilities", {"securityContext": {"capabilities": {"add": ["BPF"]}}}, "securityContext.capabilities.add[0]"),
    ("hostPorts", {"ports": [{"containerPort": 22, "hostPort": 22}]}, "ports[0].hostPort"),
]
CASES = [
    (kind, feature, {"template": {"spec": spec}}, f"spec.template.spec.{path}")
    for kind in SPECS
    for feature, spec, path in POD_REACHES
] + [
    (kind, feature, {MAIN[kind]: container}, f"spec.{MAIN[kind]}.{path}")
    for kind in SPECS
    for feature, container, path in CONTAINER_REACHES
]


def raw(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    place = {"name": "x", "namespace": "slurm"}
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": place, "spec": {**SPECS[kind], **spec}}


def refs(allowed: frozenset[str] | None) -> Refs:
    made = raw("Controller", {})
    controller = decode({**made, "metadata": {"name": "slurm", "namespace": "slurm"}}).resource
    assert isinstance(controller, Controller)
    return Refs(controllers={"slurm": controller}, allowed_pod_features=allowed)


@pytest.mark.parametrize(
    ("kind", "feature", "spec", "path"), CASES, ids=[f"{kind} {path}" for kind, _, _, path in CASES]
)
def test_a_reach_is_refused_at_its_field_unless_its_feature_is_allowed(
    kind: str, feature: str, spec: dict[str, Any], path: str
) -> None:
    decoded = decode(raw(kind, spec))
    assert decoded.resource is not None, decoded.problems
    refused = errors(rules.check(decoded.resource, None, refs(frozenset())))
    assert [format_path(each.path) for each in refused] == [path]
    assert f"--allow-pod-features={feature}" in refused[0].message
    others = frozenset(FEATURES) - {feature}
    assert errors(rules.check(decoded.resource, None, refs(others)))
    assert not errors(rules.check(decoded.resource, None, refs(frozenset({feature}))))
    assert not errors(rules.check(decoded.resource, None, refs(None)))


@pytest.mark.parametrize("kind", SPECS)
def test_what_the_operator_itself_makes_is_nobodys_reach(kind: str) -> None:
    resource = decode(raw(kind, {})).resource
    assert resource is not None
    assert not errors(rules.check(resource, None, refs(frozenset())))


def test_what_stays_in_the_pod_is_allowed() -> None:
    spec = {
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "n", "nfs": {"server": "s", "path": "/p"}}],
        "securityContext": {"sysctls": [{"name": "net.ipv4.ping_group_range", "value": "0 1"}], "runAsUser": 5},
    }
    container = {"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}}
    resource = decode(raw("LoginSet", {"template": {"spec": spec}, "login": container})).resource
    assert resource is not None
    assert not errors(rules.check(resource, None, refs(frozenset())))
