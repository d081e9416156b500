"""Pod templates that reach out of their pod: refused at their field unless a flag allows it, everywhere alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_operator.admission import rules
from slurm_operator.admission.review import AdmissionRequest, GroupVersionKind, judge
from slurm_operator.admission.rules.reach_table import TABLE
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.pod_features import FEATURES
from slurm_operator.api.problem import errors, format_path
from slurm_operator.api.validate import decode
from slurm_operator.build import made_of, revision
from slurm_operator.build.made_of import PodOrigin
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
Reach = tuple[str, dict[str, Any], str]


def security(feature: str, field: str, **context: Any) -> Reach:
    return feature, {"securityContext": context}, f"securityContext.{field}"


def volume(feature: str, source: dict[str, Any], field: str) -> Reach:
    return feature, {"volumes": [{"name": "v", **source}]}, f"volumes[0].{field}"


def projected(source: str) -> Reach:
    content = {"signerName": "s/n", "keyType": "ED25519"} if source == "podCertificate" else {"path": "t"}
    return volume("serviceAccount", {"projected": {"sources": [{source: content}]}}, f"projected.sources[0].{source}")


# What a pod and a container have in common.
PROFILES: list[Reach] = [
    security("privileged", "windowsOptions.hostProcess", windowsOptions={"hostProcess": True}),
    security("securityProfiles", "seLinuxOptions.type", seLinuxOptions={"type": "spc_t"}),
    security("securityProfiles", "seLinuxOptions.user", seLinuxOptions={"user": "system_u"}),
    security("securityProfiles", "seLinuxOptions.role", seLinuxOptions={"role": "sysadm_r"}),
    security("securityProfiles", "seccompProfile.type", seccompProfile={"type": "Unconfined"}),
    security("securityProfiles", "appArmorProfile.type", appArmorProfile={"type": "Unconfined"}),
]
POD_REACHES: list[Reach] = [
    ("hostNamespaces", {"hostNetwork": True}, "hostNetwork"),
    ("hostNamespaces", {"hostPID": True}, "hostPID"),
    ("hostNamespaces", {"hostIPC": True}, "hostIPC"),
    volume("hostPath", {"hostPath": {"path": "/"}}, "hostPath"),
    volume("hostPath", {"gitRepo": {"repository": "r"}}, "gitRepo"),
    volume("hostPath", {"flexVolume": {"driver": "d"}}, "flexVolume"),
    ("serviceAccount", {"serviceAccountName": "admin"}, "serviceAccountName"),
    ("serviceAccount", {"serviceAccount": "admin"}, "serviceAccount"),
    ("serviceAccount", {"automountServiceAccountToken": True}, "automountServiceAccountToken"),
    ("serviceAccount", {"automountServiceAccountToken": None}, "automountServiceAccountToken"),
    ("serviceAccount", {"$retainKeys": ["hostname"], "hostname": "a"}, "automountServiceAccountToken"),
    projected("serviceAccountToken"),
    projected("podCertificate"),
    security("sysctls", "sysctls[0].name", sysctls=[{"name": "kernel.msgmax", "value": "1"}]),
    ("systemPriority", {"priorityClassName": "system-node-critical"}, "priorityClassName"),
    ("systemPriority", {"priorityClassName": "system-cluster-critical"}, "priorityClassName"),
    *PROFILES,
]
CONTAINER_REACHES: list[Reach] = [
    security("privileged", "privileged", privileged=True),
    security("privileged", "procMount", procMount="Unmasked"),
    security("capabilities", "capabilities.add[0]", capabilities={"add": ["BPF"]}),
    security("capabilities", "capabilities.add[1]", capabilities={"add": ["NET_BIND_SERVICE", "ALL"]}),
    ("hostPorts", {"ports": [{"containerPort": 22, "hostPort": 22}]}, "ports[0].hostPort"),
    *PROFILES,
    *(
        ("probeHosts", {probe: {action: {"port": 80, "host": "169.254.169.254"}}}, f"{probe}.{action}.host")
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for action in ("httpGet", "tcpSocket")
    ),
    *(
        (
            "probeHosts",
            {"lifecycle": {hook: {action: {"port": 80, "host": "169.254.169.254"}}}},
            f"lifecycle.{hook}.{action}.host",
        )
        for hook in ("postStart", "preStop")
        for action in ("httpGet", "tcpSocket")
    ),
]
ANNOTATIONS = [
    "container.apparmor.security.beta.kubernetes.io/slurmd",
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/slurmd",
]
SERVICES: list[Reach] = [
    ("externalName", {"type": "ExternalName"}, "type"),
    ("externalName", {"externalName": "evil.example.com"}, "externalName"),
]
Case = tuple[str, str, dict[str, Any], str]
CASES: list[Case] = [
    *(
        (kind, feature, {"template": {"spec": spec}}, f"spec.template.spec.{path}")
        for kind in SPECS
        for feature, spec, path in POD_REACHES
    ),
    *(
        (kind, feature, {MAIN[kind]: container}, f"spec.{MAIN[kind]}.{path}")
        for kind in SPECS
        for feature, container, path in CONTAINER_REACHES
    ),
    *(
        (
            "LoginSet",
            feature,
            {"template": {"spec": {name: [{"name": "x", "image": "i", **container}]}}},
            f"spec.template.spec.{name}[0].{path}",
        )
        for name in ("containers", "initContainers", "ephemeralContainers")
        for feature, container, path in CONTAINER_REACHES
    ),
    *(
        (
            kind,
            "securityProfiles",
            {"template": {"metadata": {"annotations": {name: "unconfined"}}}},
            f'spec.template.metadata.annotations["{name}"]',
        )
        for kind in SPECS
        for name in ANNOTATIONS
    ),
    *(
        (kind, feature, {"service": {"spec": spec}}, f"spec.service.spec.{path}")
        for kind in SPECS
        if kind != "NodeSet"
        for feature, spec, path in SERVICES
    ),
    *(
        (kind, "serviceAccount", {"template": {"spec": {"$patch": "replace"}}}, f"spec.template.spec.{automount}")
        for kind in SPECS
        for automount in ("automountServiceAccountToken",)
    ),
]


def raw(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    place = {"name": "x", "namespace": "slurm"}
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": place, "spec": {**SPECS[kind], **spec}}


def refs(allowed: frozenset[str] | None) -> Refs:
    made = raw("Controller", {})
    controller = decode({**made, "metadata": {"name": "slurm", "namespace": "slurm"}}).resource
    assert isinstance(controller, Controller)
    return Refs(controllers={"slurm": controller}, allowed_pod_features=allowed)


def asked(new: dict[str, Any], old: dict[str, Any] | None, around: Refs) -> list[str]:
    """Where the admission server refuses it."""
    kind = GroupVersionKind("slinky.slurm.net", "v1beta1", new["kind"])
    operation = "CREATE" if old is None else "UPDATE"
    decision = judge(AdmissionRequest("u", kind, operation, "slurm", new, old), lambda _: around)
    return [format_path(each.path) for each in errors(decision.problems)]


@pytest.mark.parametrize(
    ("kind", "feature", "spec", "path"), CASES, ids=[f"{kind} {path} {spec}"[:90] for kind, _, spec, path in CASES]
)
def test_a_reach_is_refused_at_its_field_unless_its_feature_is_allowed(
    kind: str, feature: str, spec: dict[str, Any], path: str
) -> None:
    """T12: half of these passed; by the admission server and by the check that every reconcile begins with."""
    written = raw(kind, spec)
    assert asked(written, None, refs(frozenset())) == [path]
    decoded = decode(written)
    assert decoded.resource is not None, decoded.problems
    refused = errors(rules.check(decoded.resource, None, refs(frozenset())))
    assert [format_path(each.path) for each in refused] == [path]
    assert f"--allow-pod-features={feature}" in refused[0].message
    others = frozenset(FEATURES) - {feature}
    assert path in {format_path(each.path) for each in errors(rules.check(decoded.resource, None, refs(others)))}
    allowed = errors(rules.check(decoded.resource, None, refs(frozenset({feature}))))
    assert not [each for each in allowed if "allow-pod-features" in each.message]
    assert not asked(written, written, refs(frozenset()))


def test_every_row_that_refuses_is_probed() -> None:
    assert len(CASES) >= 60
    probed = {feature for _, feature, _, _ in CASES}
    assert probed == set(FEATURES)
    assert {row.feature for row in TABLE if row.feature} == set(FEATURES)


def test_every_field_of_the_profiles_has_its_row() -> None:
    """The fields as the Pod Security Standards list them."""
    fields = {row.field for row in TABLE if row.profile != "neither"}
    shared = ("appArmorProfile.type", "seccompProfile.type", "windowsOptions.hostProcess")
    labels = tuple(f"seLinuxOptions.{name}" for name in ("type", "user", "role"))
    both = {f"{scope}.securityContext.{name}" for scope in ("pod", "container") for name in (*shared, *labels)}
    users = {
        f"{scope}.securityContext.{name}" for scope in ("pod", "container") for name in ("runAsUser", "runAsNonRoot")
    }
    own = {"privileged", "procMount", "capabilities.add[*]", "capabilities.drop", "allowPrivilegeEscalation"}
    hooks = {"livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop"}
    assert fields >= both | users | {f"container.securityContext.{name}" for name in own}
    assert fields >= {f"container.{hook}.{action}.host" for hook in hooks for action in ("httpGet", "tcpSocket")}
    assert fields >= {"pod.hostNetwork", "pod.hostPID", "pod.hostIPC", "container.ports[*].hostPort"}
    assert fields >= {"pod.volumes[*].hostPath", "pod.securityContext.sysctls[*].name"}
    assert "annotations.container.apparmor.security.beta.kubernetes.io/*" in fields


@pytest.mark.parametrize("kind", SPECS)
def test_what_the_operator_itself_makes_is_nobodys_reach(kind: str) -> None:
    resource = decode(raw(kind, {})).resource
    assert resource is not None
    assert not errors(rules.check(resource, None, refs(frozenset())))


def test_what_stays_in_the_pod_is_allowed() -> None:
    spec = {
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "n", "nfs": {"server": "s", "path": "/p"}}],
        "securityContext": {
            "sysctls": [{"name": "net.ipv4.ping_group_range", "value": "0 1"}],
            "runAsUser": 5,
            "seLinuxOptions": {"type": "container_t", "level": "s0:c1"},
            "seccompProfile": {"type": "RuntimeDefault"},
            "windowsOptions": {"hostProcess": False},
        },
        "automountServiceAccountToken": False,
        "priorityClassName": "high",
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        "shareProcessNamespace": True,
    }
    container = {
        "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}, "privileged": False},
        "readinessProbe": {"httpGet": {"port": 80, "host": ""}},
    }
    service = {"spec": {"type": "LoadBalancer"}}
    resource = decode(raw("LoginSet", {"template": {"spec": spec}, "login": container, "service": service})).resource
    assert resource is not None
    assert not errors(rules.check(resource, None, refs(frozenset())))


HOST_PATH = {"template": {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/data"}}]}}}


def test_a_change_beside_the_pods_is_no_new_reach() -> None:
    """C1: `kubectl scale` of a NodeSet with a hostPath was refused."""
    old = raw("NodeSet", HOST_PATH)
    assert not asked(raw("NodeSet", {**HOST_PATH, "replicas": 5}), old, refs(frozenset()))
    elsewhere = {"template": {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}}
    assert asked(raw("NodeSet", elsewhere), old, refs(frozenset())) == ["spec.template.spec.volumes[0].hostPath"]
    own = raw("NodeSet", {**HOST_PATH, "slurmd": {"image": "mine/slurmd:1"}})
    assert "spec.slurmd.image" in asked(own, old, refs(frozenset())), "what is there is no way in for more"


def test_what_workers_were_made_by_is_taken_by_the_operator() -> None:
    """C1: a NodeSet of the Go operator, or of a time when more was allowed, goes on; nothing else of its kind does."""
    cr = decode({**raw("NodeSet", HOST_PATH), "metadata": {"name": "x", "namespace": "slurm", "uid": "1"}}).resource
    assert isinstance(cr, NodeSet)
    around = refs(frozenset())
    assert errors(rules.check(cr, None, around))
    made = replace(around, pod_origins={"1": (PodOrigin(held=revision.data(cr)),)})
    assert not errors(rules.check(cr, None, made))
    assert errors(rules.check(cr, None, replace(around, pod_origins={"2": (PodOrigin(held=revision.data(cr)),)})))
    changed = decode(
        {**raw("NodeSet", {**HOST_PATH, "slurmd": {"image": "mine/x"}}), "metadata": {"name": "x", "uid": "1"}}
    )
    assert changed.resource is not None
    assert errors(rules.check(changed.resource, None, made))


def resource_of(kind: str, spec: dict[str, Any]) -> Resource:
    made = decode({**raw(kind, spec), "metadata": {"name": "x", "namespace": "slurm", "uid": "1"}}).resource
    assert made is not None
    return made


def after(new: Resource, ran: PodOrigin) -> list[str]:
    """Where the operator refuses a resource of which such pods were made."""
    found = errors(rules.check(new, None, replace(refs(frozenset()), pod_origins={"1": (ran,)})))
    return [format_path(each.path) for each in found]


@pytest.mark.parametrize("kind", SPECS)
def test_what_pods_of_any_kind_were_made_of_is_taken_by_the_operator(kind: str) -> None:
    """Login pods that ran when more was allowed were left alone for good: nothing of them could be changed."""
    new = resource_of(kind, HOST_PATH)
    assert after(new, PodOrigin(made_of.hash_of(new))) == []
    assert after(new, PodOrigin("another")) == ["spec.template.spec.volumes[0].hostPath"]


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize(
    "more",
    [{"automountServiceAccountToken": None}, {"dnsPolicy": "Default"}, {"hostPID": True}],
    ids=["a null", "a harmless field", "a reach"],
)
def test_nothing_is_added_to_what_ran(kind: str, more: dict[str, Any]) -> None:
    ran = PodOrigin(made_of.hash_of(resource_of(kind, HOST_PATH)))
    new = resource_of(kind, {"template": {"spec": {**HOST_PATH["template"]["spec"], **more}}})
    assert "spec.template.spec.volumes[0].hostPath" in after(new, ran)


OWN_IMAGE = {"slurmd": {"image": "mine/x"}}


def test_workers_that_were_not_privileged_excuse_none_that_are() -> None:
    new = resource_of("NodeSet", {**HOST_PATH, **OWN_IMAGE})
    assert isinstance(new, NodeSet)
    hash_, data = made_of.hash_of(new), revision.data(new)
    assert after(new, PodOrigin(hash_)) == ["spec.slurmd.image"]
    assert after(new, PodOrigin(hash_, hash_)) == []
    assert after(new, PodOrigin(hash_, "another")) == ["spec.slurmd.image"]
    assert after(new, PodOrigin("another", hash_)) == [], "privileged once, then something else ran that means the same"
    assert after(new, PodOrigin(held=data)) == ["spec.slurmd.image"]
    assert after(new, PodOrigin(held=data, has_privileged_worker=True)) == []


def test_what_no_revision_says_is_excused_by_none() -> None:
    """Claims stand in none, and a null that takes the operator's own value away looks like a gap there."""
    token = resource_of("NodeSet", {"template": {"spec": {"automountServiceAccountToken": None}}})
    claim = resource_of("NodeSet", {"volumeClaimTemplates": [{"metadata": {"name": "slurm-etc"}}]})
    for new, path in (
        (token, "spec.template.spec.automountServiceAccountToken"),
        (claim, "spec.volumeClaimTemplates[0].metadata.name"),
    ):
        assert isinstance(new, NodeSet)
        ran = PodOrigin(held=revision.data(new), has_privileged_worker=True)
        assert after(new, ran) == [path]


def test_a_workload_of_the_go_operator_excuses_what_stands_in_it() -> None:
    """It has no note; Kubernetes has filled in defaults."""
    volume = {"name": "v", "hostPath": {"path": "/data", "type": ""}}
    ran = PodOrigin(held={"spec": {"volumes": [volume], "containers": [{"name": "login", "image": "i"}]}})
    assert after(resource_of("LoginSet", HOST_PATH), ran) == []
    elsewhere = {"template": {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}}
    assert after(resource_of("LoginSet", elsewhere), ran) == ["spec.template.spec.volumes[0].hostPath"]
    more = resource_of("LoginSet", {**HOST_PATH, "login": {"securityContext": {"privileged": True}}})
    assert after(more, ran) == ["spec.login.securityContext.privileged"]
