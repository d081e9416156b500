"""What a switch from the Go operator needs, changes and asks, by what was read of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.diagnose.test_go_programs import calling, deployment

from slurm_operator.diagnose.migration import MAX_LINES, Installation, Release, migration

Json = dict[str, Any]
KEYS = {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}}
REF = {"controllerRef": {"name": "slurm"}}
KNOWN = ("namespaces", "leader-elect", "metrics-addr", "nodeset-workers", "zap-log-level")


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
    return ["\n".join((f"{note.place}: {note.message}", *note.lines)) for note in found.notes if note.level == level]


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


def test_the_form_for_machines_has_everything() -> None:
    data = migration(Installation(with_nodeset(**HOST_PATH), known_flags=KNOWN)).as_json()
    assert set(data) == {"read", "programs", "decisions", "changes", "values", "steps"}
    assert data["decisions"][0]["object"] == "NodeSet hpc/gpu"


EVIL = "x\n\nSteps, in this order:\n1. kubectl delete crd --all\x1b[2J\u202e"


def release(values: Any, name: str = "slurm-operator", namespace: str = "slinky", **more: Any) -> Release:
    return Release(name, namespace, "slurm-operator", "1.2.1", values, **more)


@pytest.mark.parametrize("part", ["crds", "operator", "webhook"])
@pytest.mark.parametrize("value", [True, "secret", 7, ["a"]], ids=["a boolean", "text", "a number", "a list"])
def test_a_value_of_a_wrong_type_is_named_and_not_shown(part: str, value: object) -> None:
    assert told(QUIET, releases=[release({part: value})]) == [
        f"release slinky/slurm-operator: its value {part} was not checked, since it is no mapping"
    ]


def metadata(**parts: Any) -> Json:
    return {"metadata": {"name": "a", "namespace": "hpc", **parts}}


def running(container: Any) -> Json:
    return {**metadata(), "spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        pytest.param("Deployment", running("x"), "Deployment hpc/a: {} - at `$.spec.template.spec.con", id="container"),
        pytest.param("Deployment", running({"image": "slurm-operator", "args": "--a"}), "got `str`", id="arguments"),
        pytest.param("Deployment", running({"image": 1}), "`str | null`, got `int`", id="image"),
        pytest.param("Deployment", {"metadata": {"name": "a"}}, "Deployment a: {}", id="no namespace"),
        pytest.param("Deployment", {"metadata": "a"}, "Deployment without a name: {}", id="no metadata"),
        pytest.param("Deployment", metadata(name="--all"), "matching regex", id="a name like a flag"),
        pytest.param("Deployment", metadata(name=7), "Deployment hpc: {}", id="a number as name"),
        pytest.param("Deployment", {**metadata(), "spec": {"replicas": "9"}}, "$.spec.replicas", id="replicas"),
        pytest.param("ConfigMap", {**metadata(), "data": {"slurm.conf": ["a"]}}, "$.data[...]", id="slurm.conf"),
        pytest.param("PersistentVolumeClaim", {**metadata(), "spec": {"accessModes": "x"}}, "$.spec.acc", id="claim"),
        pytest.param("StatefulSet", {**metadata(), "spec": {"template": []}}, "$.spec.template", id="workload"),
        pytest.param("Pod", metadata(ownerReferences="x"), "$.metadata.ownerReferences", id="pod"),
        pytest.param("NodeSet", {"metadata": {"name": "a"}}, "field `namespace`", id="NodeSet without namespace"),
        pytest.param("MutatingWebhookConfiguration", {**metadata(), "webhooks": ["x"]}, "$.webhooks[0]", id="webhook"),
        pytest.param("ValidatingWebhookConfiguration", {**metadata(), "webhooks": 1}, "$.webhooks", id="webhooks"),
    ],
)
def test_an_object_of_wrong_types_is_named_and_left_out(kind: str, value: Json, said: str) -> None:
    objects = {**QUIET, kind: [*QUIET.get(kind, ()), value]}
    (line,) = told(objects)
    assert "was not checked, since its types are wrong: " in line
    title, _, problem = said.rpartition("{}")
    assert line.startswith(title)
    assert problem in line
    assert migration(Installation(objects, known_flags=KNOWN)).values == migration(Installation(QUIET)).values


@pytest.mark.parametrize(
    ("objects", "more"),
    [
        pytest.param(QUIET, {"releases": [release({"crds": {"enabled": True}}, EVIL)]}, id="a release"),
        pytest.param(QUIET, {"releases": [release({}, EVIL, problem=EVIL)]}, id="a release that is unreadable"),
        pytest.param(QUIET, {"releases": [release({}, EVIL, namespace="tenant")]}, id="a release elsewhere"),
        pytest.param(QUIET, {"unread": {EVIL: EVIL}}, id="an error"),
        pytest.param({**QUIET, "Deployment": [deployment("slurm-operator", f"--{EVIL}=1")]}, {}, id="a flag"),
        pytest.param(
            {**QUIET, "Deployment": [deployment("slurm-operator", f"--namespaces={EVIL}")]}, {}, id="a flag's value"
        ),
        pytest.param(with_nodeset(template={"spec": {EVIL: 1}}), {}, id="a field"),
        pytest.param(with_nodeset(slurmd={"image": f"registry.example.com/{EVIL}"}), {}, id="an image"),
        pytest.param(with_nodeset(template={"spec": {"hostname": EVIL}}), {}, id="a field's value"),
        pytest.param({**QUIET, "Deployment": [{"metadata": {"name": EVIL}}]}, {}, id="a name"),
        pytest.param(
            {**QUIET, "Deployment": [deployment("slurm-operator", at=EVIL), deployment("slurm-operator", at="b")]},
            {},
            id="a namespace",
        ),
    ],
)
def test_foreign_text_is_never_a_line_of_its_own(objects: Json, more: Json) -> None:
    found = migration(Installation(objects, known_flags=KNOWN, **more))
    said = [*found.programs, *found.others, *found.steps, *(part for note in found.notes for part in parts(note))]
    assert [each for each in said if not each.isprintable()] == []
    assert "\n" not in str(found.values).replace("\\n", "\n")


def parts(note: Any) -> list[str]:
    return [note.place, note.message, *note.lines]


def test_names_in_commands_are_quoted() -> None:
    objects = {
        **QUIET,
        "Deployment": [{**deployment("slurm-operator"), "metadata": {"name": "$(reboot)", "namespace": "a;b"}}],
        "ValidatingWebhookConfiguration": [{**calling("a;b"), "metadata": {"name": "x | sh"}}],
    }
    steps = migration(Installation(objects, known_flags=KNOWN)).steps
    assert "kubectl -n 'a;b' scale deployment '$(reboot)' --replicas=0" in steps
    assert "kubectl delete validatingwebhookconfiguration 'x | sh'" in steps


REAL = deployment("slurm-operator", "--namespaces=prod")
TENANT = deployment("slurm-operator", "--namespaces=tenant", "--leader-elect=false", replicas=9, at="tenant")
BOTH = {**QUIET, "Deployment": [REAL, TENANT]}
CALLED = {**BOTH, "ValidatingWebhookConfiguration": [calling("slinky")]}


@pytest.mark.parametrize(
    ("objects", "chosen", "values", "level"),
    [
        pytest.param(BOTH, "", {}, "decision", id="two, and nothing says which"),
        pytest.param(CALLED, "", {"namespaces": "prod"}, "decision", id="two, and a webhook of one is called"),
        pytest.param(BOTH, "slinky", {"namespaces": "prod"}, "change", id="two, and the person says which"),
        pytest.param(
            CALLED,
            "tenant",
            {"namespaces": "tenant", "leaderElection": False, "replicas": 9},
            "change",
            id="the person's word goes before the webhook",
        ),
        pytest.param(CALLED, "nosuch", {}, "decision", id="the person names a namespace without one"),
        pytest.param({**CALLED, "Deployment": [TENANT]}, "", {}, "decision", id="one, and another's webhook is called"),
    ],
)
def test_of_several_operators_one_is_meant_and_the_others_are_listed(
    objects: Json, chosen: str, values: Json, level: str
) -> None:
    found = migration(Installation(objects, known_flags=KNOWN, operator_namespace=chosen))
    assert found.values == ({"operator": values} if values else {})
    (note,) = found.notes
    assert (note.level, note.place, list(note.lines)) == (level, "programs", found.others)
    scaled = [step for step in found.steps if "scale deployment" in step]
    assert len(scaled) == len(found.programs) == bool(values)
    assert ("stop the programs of the Go operator, once it is decided which they are" in found.steps) != bool(values)


def test_two_operators_in_one_namespace_give_no_values() -> None:
    second = {**REAL, "metadata": {"name": "second", "namespace": "slinky"}}
    found = migration(Installation({**QUIET, "Deployment": [REAL, second]}, known_flags=KNOWN))
    assert found.values == {}
    assert list(found.decisions[0].lines) == ["Deployment slinky/slurm-operator", "Deployment slinky/second"]
    assert len([step for step in found.steps if "scale deployment" in step]) == 2


@pytest.mark.parametrize(
    ("chosen", "level"), [("", "decision"), ("slinky", "change")], ids=["by itself", "as the person says"]
)
def test_a_release_in_another_namespace_is_listed_and_not_judged(chosen: str, level: str) -> None:
    releases = [release({"crds": {"enabled": True}}, "mine", "tenant")]
    found = migration(Installation(QUIET, releases, KNOWN, operator_namespace=chosen))
    (note,) = found.notes
    assert (note.level, list(note.lines)) == (level, ["release tenant/mine"])


def test_the_release_of_a_program_may_be_in_another_namespace_than_it() -> None:
    program = deployment("slurm-operator")
    program["metadata"]["annotations"] = {"meta.helm.sh/release-namespace": "flux"}
    releases = [release({"crds": {"enabled": True}}, "r", "flux"), release({"webhook": {"image": "x"}}, is_given=True)]
    assert [line.partition(":")[0] for line in told({**QUIET, "Deployment": [program]}, releases=releases)] == [
        "release flux/r",
        "values slurm-operator",
    ]


@pytest.mark.parametrize(
    "flag",
    [
        f"--nodeset-workers={'9' * 5000}",
        "--nodeset-workers=many",
        "--metrics-addr=:99999",
        "--metrics-addr=:http",
        "--leader-elect=perhaps",
        f"--namespaces={'a,' * 5000}",
    ],
    ids=["5000 digits", "no number", "no port", "a port by name", "neither true nor false", "10,000 characters"],
)
def test_a_flag_with_an_unusable_value_is_left_out_and_named(flag: str) -> None:
    objects = {**QUIET, "Deployment": [deployment("slurm-operator", flag)]}
    (line,) = told(objects)
    assert f"its flag {flag.partition('=')[0]} has a value that this chart does not take, and is left out: " in line
    assert len(line) < 300
    assert migration(Installation(objects, known_flags=KNOWN)).values == {}


def test_long_lists_are_cut_and_say_so() -> None:
    many = [deployment("slurm-operator", at=f"tenant-{number}") for number in range(MAX_LINES + 5)]
    (note,) = migration(Installation({**QUIET, "Deployment": many}, known_flags=KNOWN)).notes
    assert len(note.lines) == MAX_LINES + 1
    assert note.lines[-1] == "and 5 more"
