"""What a switch from the Go operator needs, changes and asks, by what was read of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slurm_operator.diagnose.migration import Installation, Release, component, flags, migration

Json = dict[str, Any]
KEYS = {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}}
REF = {"controllerRef": {"name": "slurm"}}
KNOWN = ("namespaces", "leader-elect", "metrics-addr", "nodeset-workers", "zap-log-level")


def deployment(name: str, *args: str, command: tuple[str, ...] = (), replicas: int = 1) -> Json:
    image = f"ghcr.io/slinkyproject/{name}:1.2.1"
    container = {"name": "manager", "image": image, "command": list(command), "args": list(args)}
    return {
        "metadata": {"name": name, "namespace": "slinky"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }


def ours(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "hpc", "uid": f"{kind}-{name}"},
        "spec": spec,
    }


QUIET: Json = {
    "Deployment": [deployment("slurm-operator", "--leader-elect", "--namespaces=hpc", "--nodeset-workers", "8")],
    "Controller": [ours("Controller", "slurm", KEYS)],
    "RestApi": [ours("RestApi", "slurm", REF)],
    "NodeSet": [ours("NodeSet", "compute", REF)],
}


def told(objects: Json, level: str = "decision", **more: Any) -> list[str]:
    found = migration(Installation(objects, known_flags=KNOWN, **more))
    return [f"{note.place}: {note.message}" for note in found.notes if note.level == level]


def test_a_plain_installation_needs_no_decision() -> None:
    found = migration(Installation(QUIET, known_flags=KNOWN))
    assert found.decisions == []
    assert found.programs == ["Deployment slinky/slurm-operator"]
    assert found.values == {"operator": {"namespaces": "hpc", "nodesetWorkers": 8}}
    assert "kubectl -n slinky scale deployment slurm-operator --replicas=0" in found.steps


def with_nodeset(**spec: Any) -> Json:
    return {**copy.deepcopy(QUIET), "NodeSet": [ours("NodeSet", "gpu", {**REF, **spec})]}


HOST_PATH = {"template": {"spec": {"volumes": [{"name": "d", "hostPath": {"path": "/dev/infiniband"}}]}}}
LOCK = {"slurmd": {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}}
WORKER = {"metadata": {"namespace": "hpc", "ownerReferences": [{"uid": "NodeSet-gpu"}]}}
OWN = {"slurmd": {"image": "registry.example.com/slurm/slurmd:1"}}


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (with_nodeset(**HOST_PATH), "a folder of the node needs the operator's flag --allow-pod-features=hostPath;"),
        (with_nodeset(**LOCK), "--allow-pod-features=capabilities; this one keeps it even without the flag"),
        (with_nodeset(**OWN), "without the flag this one is refused, since no worker runs"),
        ({**with_nodeset(**OWN), "Pod": [WORKER]}, "this one keeps it even without the flag"),
        (with_nodeset(template={"spec": {"hostname": "a.b-"}}), "would be refused: spec.template.spec.hostname: "),
        (with_nodeset(replicas="3"), "would be refused: spec.replicas: must be an integer"),
        ({**QUIET, "RestApi": []}, "Controller hpc/slurm: has no RestApi"),
        ({**QUIET, "Deployment": [deployment("slurm-operator", "--gone")]}, "its flag --gone has no counterpart"),
    ],
    ids=["hostPath", "IPC_LOCK", "own image at rest", "own image in use", "a rule", "a field", "no RestApi", "a flag"],
)
def test_a_decision_is_asked_for(objects: Json, words: str) -> None:
    assert [line for line in told(objects) if words in line], told(objects)


def test_the_values_allow_what_the_resources_have() -> None:
    objects = with_nodeset(**HOST_PATH, **OWN)
    assert {**migration(Installation(objects, known_flags=KNOWN)).values, "operator": {}} == {
        "operator": {},
        "allowPodFeatures": ["hostPath"],
        "workerImages": ["ghcr.io/slinkyproject/", "registry.example.com/slurm/slurmd"],
    }


def test_what_could_not_be_read_needs_a_decision() -> None:
    assert told(QUIET, unread={"secrets": "forbidden"}) == [
        "secrets: could not be read, so it was not checked: forbidden"
    ]


def test_changes_are_told_line_by_line() -> None:
    conf = {"metadata": {"name": "slurm-config", "namespace": "hpc"}, "data": {"slurm.conf": "#\nMaxNodeCount=7\n"}}
    workload = {"metadata": {"name": "slurm-controller", "namespace": "hpc"}, "spec": {"template": {"spec": {}}}}
    found = told({**QUIET, "ConfigMap": [conf], "StatefulSet": [workload]}, "change")
    assert any("- MaxNodeCount=7" in line and "+ MaxNodeCount=1024" in line for line in found), found
    assert any("no sidecar reconfigure" in line for line in found)


def test_a_field_of_a_newer_kubernetes_is_a_change() -> None:
    found = told(with_nodeset(template={"spec": {"dNSPolicy": "Default"}}), "change")
    assert any("spec.template.spec.dNSPolicy: unknown field of Kubernetes' type" in line for line in found), found


def test_a_release_that_holds_the_definitions_must_not_be_uninstalled() -> None:
    values = {"crds": {"enabled": True}, "operator": {"image": {"repository": "ghcr.io/slinkyproject/slurm-operator"}}}
    found = told(QUIET, releases=[Release("slurm-operator", "slinky", "slurm-operator", "1.2.1", values)])
    assert [line.partition(": ")[2][:38] for line in found] == [
        "has the definitions in it (crds.enable",
        "names an image in operator.image: leav",
    ]


def test_webhooks_of_the_go_operator_are_deleted_before_the_switch() -> None:
    rule = {"apiGroups": ["slinky.slurm.net"]}
    hooks = [{"name": "nodeset-v1beta1.kb.io", "rules": [rule]}]
    others = [{"name": "pods.kb.io", "rules": [{"apiGroups": [""]}]}]
    binding = [{"name": "podsbinding-v1.kb.io", "rules": []}]
    objects = {
        **QUIET,
        "ValidatingWebhookConfiguration": [
            {"metadata": {"name": "slurm-operator-webhook"}, "webhooks": hooks},
            {"metadata": {"name": "somebody-else"}, "webhooks": others},
        ],
        "MutatingWebhookConfiguration": [{"metadata": {"name": "slurm-operator-webhook"}, "webhooks": binding}],
    }
    steps = migration(Installation(objects, known_flags=KNOWN)).steps
    assert [step for step in steps if "delete" in step] == [
        "kubectl delete validatingwebhookconfiguration slurm-operator-webhook",
        "kubectl delete mutatingwebhookconfiguration slurm-operator-webhook",
    ]


@pytest.mark.parametrize(
    ("workload", "wanted"),
    [
        (deployment("slurm-operator"), "operator"),
        (deployment("slurm-operator-webhook"), "webhook"),
        (deployment("slurm-operator", command=("slurm-operator",)), ""),
        (deployment("slurmrestd"), ""),
    ],
    ids=["Go operator", "Go webhook", "this operator", "something else"],
)
def test_a_program_of_the_go_project_is_known_by_its_image(workload: Json, wanted: str) -> None:
    assert component(workload) == wanted


def test_flags_are_read_in_either_form() -> None:
    given = deployment("slurm-operator", "--a=1", "-b", "2", "--c", command=("/manager", "--d=e"))
    assert flags(given) == {"d": "e", "a": "1", "b": "2", "c": ""}


def test_the_form_for_machines_has_everything() -> None:
    data = migration(Installation(with_nodeset(**HOST_PATH), known_flags=KNOWN)).as_json()
    assert set(data) == {"read", "programs", "decisions", "changes", "values", "steps"}
    assert data["decisions"][0]["object"] == "NodeSet hpc/gpu"
