"""A NodeSet that has pod features may go on changing, as long as it reaches no further and runs the same code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.admission.rules import resources

from slurm_operator.admission import rules
from slurm_operator.admission.rules import privileged_worker, reach, reach_kept
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import Path, errors
from slurm_operator.api.validate import decode
from slurm_operator.build import made_of, revision
from slurm_operator.build.made_of import PodOrigin
from slurm_operator.build.refs import Refs

Spec = dict[str, Any]
Change = Callable[[Spec], object]

OWN_IMAGE = "registry.example.com/slurm/slurmd:26.05"
HAD: Spec = {
    "controllerRef": {"name": "slurm"},
    "replicas": 2,
    "slurmd": {
        "image": "ghcr.io/slinkyproject/slurmd:26.05-ubuntu26.04",
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [
            {"name": "infiniband", "mountPath": "/dev/infiniband"},
            {"name": "tools", "mountPath": "/usr/local/bin/tools"},
        ],
    },
    "template": {
        "spec": {
            "serviceAccountName": "dcgm",
            "runtimeClassName": "nvidia",
            "volumes": [
                {"name": "infiniband", "hostPath": {"path": "/dev/infiniband"}},
                {"name": "tools", "configMap": {"name": "tools"}},
            ],
            "containers": [{"name": "exporter", "image": "nvcr.io/nvidia/dcgm:1", "args": ["-f"]}],
        }
    },
}


def nodeset(spec: Spec) -> NodeSet:
    made = decode(
        {
            "apiVersion": "slinky.slurm.net/v1beta1",
            "kind": "NodeSet",
            "metadata": {"name": "one", "namespace": "slurm", "uid": "0"},
            "spec": spec,
        }
    )
    assert isinstance(made.resource, NodeSet), made.problems
    return made.resource


def around(**more: Any) -> Refs:
    return replace(resources.namespace(), allowed_pod_features=frozenset(), **more)


def pod(spec: Spec) -> Spec:
    found: Spec = spec["template"]["spec"]
    return found


def mount(spec: Spec, path: str, name: str = "scratch") -> None:
    spec["slurmd"]["volumeMounts"].append({"name": name, "mountPath": path})


def scratch(spec: Spec, path: str) -> None:
    pod(spec)["volumes"].append({"name": "scratch", "emptyDir": {}})
    mount(spec, path)


def own_image(spec: Spec) -> None:
    spec["slurmd"]["image"] = "evil.example.com/slurmd:1"


def renamed_tools(spec: Spec) -> None:
    pod(spec)["volumes"][1]["configMap"]["name"] = "evil"


# A privileged sidecar with a port of the node, beside one that has neither.
WITH_DRIVER: Spec = copy.deepcopy(HAD)
pod(WITH_DRIVER)["containers"].append(
    {
        "name": "driver",
        "image": "vendor.example.com/driver:1",
        "securityContext": {"privileged": True},
        "ports": [{"containerPort": 9000, "hostPort": 9000}],
    }
)


@pytest.mark.parametrize(
    "given",
    [
        {"securityContext": {"privileged": True}},
        {"securityContext": {"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}}},
        {"ports": [{"containerPort": 9000, "hostPort": 9000}]},
    ],
    ids=["privileged", "a capability", "a port of the node"],
)
def test_what_one_container_was_given_another_must_not_take(given: Spec) -> None:
    before, after = copy.deepcopy(WITH_DRIVER), copy.deepcopy(WITH_DRIVER)
    pod(before)["containers"][0]["securityContext"] = {"runAsUser": 0}
    pod(after)["containers"][0].update(
        {**given, "securityContext": {"runAsUser": 0, **given.get("securityContext", {})}}
    )
    assert errors(rules.check(nodeset(after), nodeset(before), around()))
    # In another order they are the same containers.
    turned = copy.deepcopy(before)
    pod(turned)["containers"].reverse()
    turned["replicas"] = 7
    assert not errors(rules.check(nodeset(turned), nodeset(before), around()))


STAYS: dict[str, Change] = {
    "replicas": lambda spec: spec.update(replicas=7),
    "a partition": lambda spec: spec.update(partition={"enabled": True}),
    "another tag of a trusted image": lambda spec: spec["slurmd"].update(
        image="ghcr.io/slinkyproject/slurmd:26.05.1-ubuntu26.04"
    ),
    "another tag of a sidecar's image": lambda spec: pod(spec)["containers"][0].update(image="nvcr.io/nvidia/dcgm:2"),
    "resources": lambda spec: spec["slurmd"].update(resources={"limits": {"cpu": 4}}),
    "where it runs": lambda spec: pod(spec).update(
        nodeSelector={"gpu": "yes"}, tolerations=[{"operator": "Exists"}], affinity={"nodeAffinity": {}}
    ),
    "labels of pods": lambda spec: spec["template"].update(metadata={"labels": {"team": "a"}}),
    "a plain variable": lambda spec: spec["slurmd"].update(env=[{"name": "NCCL_DEBUG", "value": "1"}]),
    "a probe's times": lambda spec: spec["slurmd"].update(livenessProbe={"periodSeconds": 30}),
    "scratch space beside the code": lambda spec: scratch(spec, "/scratch"),
    "no capability any more": lambda spec: spec["slurmd"].update(securityContext={}),
    "no service account any more": lambda spec: pod(spec).pop("serviceAccountName"),
    "no sidecar any more": lambda spec: pod(spec).pop("containers"),
    "no folder of the node any more": lambda spec: (
        pod(spec)["volumes"].pop(0),
        spec["slurmd"]["volumeMounts"].pop(0),
    ),
}
IS_REFUSED: dict[str, Change] = {
    "a capability that only slurmd had": lambda spec: pod(spec)["containers"][0].update(
        securityContext={"capabilities": {"add": ["IPC_LOCK"]}}
    ),
    "another folder of the node": lambda spec: pod(spec)["volumes"][0].update(hostPath={"path": "/"}),
    "another capability": lambda spec: spec["slurmd"].update(
        securityContext={"capabilities": {"add": ["IPC_LOCK", "SYS_PTRACE"]}}
    ),
    "another service account": lambda spec: pod(spec).update(serviceAccountName="admin"),
    "a namespace of the node": lambda spec: pod(spec).update(hostPID=True),
    "an image of its own": own_image,
    "an image that only begins like a sidecar's": lambda spec: pod(spec)["containers"][0].update(
        image="nvcr.io/nvidia/dcgm-mine:1"
    ),
    "a command": lambda spec: spec["slurmd"].update(command=["sh", "-c", "evil"]),
    "a sidecar's arguments": lambda spec: pod(spec)["containers"][0].update(args=["-f", "/evil"]),
    "a sidecar's variable": lambda spec: pod(spec)["containers"][0].update(env=[{"name": "A", "value": "b"}]),
    "another sidecar": lambda spec: pod(spec)["containers"].append({"name": "mine", "image": "evil:1"}),
    "an init container": lambda spec: pod(spec).update(initContainers=[{"name": "mine", "image": "evil:1"}]),
    "a loader's variable": lambda spec: spec["slurmd"].update(env=[{"name": "LD_PRELOAD", "value": "/x"}]),
    "a probe that runs something": lambda spec: spec["slurmd"].update(livenessProbe={"exec": {"command": ["x"]}}),
    "a hook": lambda spec: spec["slurmd"].update(lifecycle={"postStart": {"exec": {"command": ["x"]}}}),
    "a mount over programs": lambda spec: scratch(spec, "/usr/sbin"),
    "other files over programs": renamed_tools,
    "the node's folder at another place": lambda spec: mount(spec, "/mnt/ib", "infiniband"),
    "the node's folder in a sidecar": lambda spec: pod(spec)["containers"][0].update(
        volumeMounts=[{"name": "infiniband", "mountPath": "/ib"}]
    ),
    "scratch space in a sidecar": lambda spec: (
        pod(spec)["volumes"].append({"name": "scratch", "emptyDir": {}}),
        pod(spec)["containers"][0].update(volumeMounts=[{"name": "scratch", "mountPath": "/opt"}]),
    ),
    "root in the pod": lambda spec: pod(spec).update(securityContext={"runAsUser": 0}),
    "no sandbox any more": lambda spec: pod(spec).pop("runtimeClassName"),
    "two overlays of one container": lambda spec: pod(spec)["containers"].append(
        {"name": "exporter", "image": "nvcr.io/nvidia/dcgm:1", "command": ["evil"]}
    ),
    "shared processes": lambda spec: pod(spec).update(shareProcessNamespace=True),
    "other host names": lambda spec: pod(spec).update(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["db"]}]),
}


def changed(change: Change, base: Spec = HAD) -> NodeSet:
    spec = copy.deepcopy(base)
    change(spec)
    return nodeset(spec)


def refused(new: NodeSet, old: NodeSet | None, refs: Refs) -> list[str]:
    return [str(each) for each in errors(rules.check(new, old, refs)) if "--allow-pod-features" in each.message]


def origins(*, made_by_go: bool) -> Refs:
    cr = nodeset(HAD)
    hash_ = "" if made_by_go else made_of.hash_of(cr)
    ran = PodOrigin(hash_, hash_, revision.data(cr), has_privileged_worker=made_by_go)
    return around(pod_origins={"0": (ran,)})


@pytest.mark.parametrize("change", STAYS.values(), ids=STAYS.keys())
def test_what_it_has_stays_for(change: Change) -> None:
    """C1: such a change was refused, or left the NodeSet InvalidSpec: by the admission server and by the operator."""
    new = changed(change)
    assert refused(new, None, around()), "nobody else gets these features"
    assert refused(new, nodeset(HAD), around()) == []
    assert refused(new, None, origins(made_by_go=False)) == []
    assert refused(new, None, origins(made_by_go=True)) == []


@pytest.mark.parametrize("change", IS_REFUSED.values(), ids=IS_REFUSED.keys())
def test_what_it_has_is_no_way_to(change: Change) -> None:
    new = changed(change)
    assert refused(new, nodeset(HAD), around())
    assert refused(new, None, origins(made_by_go=False))
    assert refused(new, None, origins(made_by_go=True))


def test_a_null_that_takes_ours_away_is_a_change() -> None:
    """Of a revision of the Go operator, which writes no nulls, nobody can tell."""
    new = changed(lambda spec: spec["slurmd"].update(lifecycle=None))
    assert refused(new, nodeset(HAD), around())
    assert refused(new, None, origins(made_by_go=False))


def test_every_feature_that_stays_is_named_in_a_warning() -> None:
    new = changed(STAYS["replicas"])
    found = rules.check(new, nodeset(HAD), around())
    named = [each for each in found if "its pods had it before" in each.message]
    assert {each.severity for each in named} == {"warning"}
    assert str(named[0]) == (
        'spec.slurmd.securityContext.capabilities.add[0]: the capability "IPC_LOCK" is kept for this NodeSet only,'
        " because its pods had it before; the operator's flag --allow-pod-features=capabilities would allow it"
    )
    assert {feature for feature, _ in reach.kept_fields(new, origins(made_by_go=True))} == {
        "capabilities",
        "hostPath",
        "privileged",
        "serviceAccount",
    }
    everything = frozenset({"capabilities", "hostPath", "privileged", "serviceAccount"})
    assert reach.kept_fields(new, replace(origins(made_by_go=True), allowed_pod_features=everything)) == []


def test_an_image_of_its_own_gets_another_tag_and_nothing_else() -> None:
    """It may take code from any folder, and orders from any variable."""
    base = copy.deepcopy(HAD)
    base["slurmd"]["image"] = OWN_IMAGE
    old = nodeset(base)
    assert refused(changed(lambda spec: spec["slurmd"].update(image=f"{OWN_IMAGE}.1"), base), old, around()) == []
    assert refused(changed(lambda spec: scratch(spec, "/scratch"), base), old, around())
    assert refused(changed(lambda spec: spec["slurmd"].update(env=[{"name": "A", "value": "b"}]), base), old, around())


def test_a_revision_that_cannot_be_read_excuses_nothing() -> None:
    unreadable: list[Spec] = [{}, {"spec": 1}, {"spec": {"template": [1]}}, {"spec": {"ssh": {"enabled": "x"}}}]
    for held in unreadable:
        before = reach_kept.held_by(nodeset(HAD), held)
        assert before is None or not reach_kept.runs_the_same(nodeset(HAD), before, ())


def twins(spec: Spec) -> None:
    pod(spec)["containers"].append(copy.deepcopy(pod(spec)["containers"][0]))


def sshd(spec: Spec) -> None:
    spec["ssh"] = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}, "extraSshdConfig": "Port 22\n"}


def annotated(spec: Spec) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/slurmd"
    spec["template"]["metadata"] = {"annotations": {key: "unconfined"}}


@pytest.mark.parametrize("change", [twins, sshd, annotated], ids=["two of one name", "sshd options", "no AppArmor"])
def test_what_it_has_is_no_way_to_more(change: Change) -> None:
    assert refused(changed(change), nodeset(HAD), around())


@pytest.mark.parametrize("change", [sshd, annotated], ids=["sshd options", "no AppArmor"])
def test_it_stays_beside_another_number_of_replicas(change: Change) -> None:
    base = copy.deepcopy(HAD)
    change(base)
    new = changed(lambda spec: spec.update(replicas=3), base)
    assert refused(new, nodeset(base), around()) == []


def test_a_claim_of_each_worker_is_free_to_be_mounted_beside_the_code() -> None:
    base = copy.deepcopy(HAD)
    base["volumeClaimTemplates"] = [{"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    new = changed(lambda spec: mount(spec, "/scratch"), base)
    assert refused(new, nodeset(base), around()) == []


def test_what_confines_may_not_go() -> None:
    base = copy.deepcopy(HAD)
    base["template"]["spec"]["hostUsers"] = False
    base["slurmd"]["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}, "runAsNonRoot": True}
    old = nodeset(base)
    assert refused(changed(lambda spec: pod(spec).pop("hostUsers"), base), old, around())
    assert refused(changed(lambda spec: spec["slurmd"].update(securityContext=None), base), old, around())


def with_host_path(path: str) -> dict[Path, Any]:
    volumes = [{"name": "home", "hostPath": {"path": path}}]
    return {("spec", "template"): {"spec": {"volumes": volumes}}}


def test_another_kind_keeps_only_what_it_has() -> None:
    """Its pods run what their image says: only the very same is known to be harmless."""
    old = with_host_path("/home")
    assert errors(resources.check("LoginSet", with_host_path("/home2"), old, around()))
    assert errors(resources.check("LoginSet", old, old, around())) == []


def test_a_kind_without_pods_reaches_nothing() -> None:
    assert list(reach.reaches(resources.resource("Token", {}), around())) == []


def test_a_volume_with_a_name_of_ours_is_not_free() -> None:
    base = copy.deepcopy(HAD)
    own = min(privileged_worker.OWN_VOLUMES)
    base["volumeClaimTemplates"] = [{"metadata": {"name": own}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    assert refused(changed(lambda spec: mount(spec, "/scratch", own), base), nodeset(base), around())


def test_another_volume_below_the_code_is_another_code() -> None:
    def moved(spec: Spec) -> None:
        pod(spec)["volumes"][1] = {"name": "tools", "persistentVolumeClaim": {"claimName": "mine"}}

    assert refused(changed(moved), nodeset(HAD), around())
