"""Broken clusters made on purpose: the walk names the true cause, and a command that comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.diagnose.said import said

from slurm_operator.build import labels
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.cli.kubectl.view import partition_rows
from slurm_operator.diagnose.cause import Cause, Fine, Unseen
from slurm_operator.diagnose.cluster import examine
from slurm_operator.diagnose.facts import Facts, Silence, Slurm

Object = dict[str, Any]

NODES = """\
NodeName=compute-0 Arch=x86_64 CPUAlloc=0 CPUTot=2 State=IDLE+DYNAMIC_NORM Partitions=compute,all
NodeName=compute-1 Arch=x86_64 CPUAlloc=2 CPUTot=2 State=ALLOCATED+DYNAMIC_NORM Partitions=compute
"""
JOBS = """\
JobId=7 JobName=train UserId=alice(1000) JobState=RUNNING Reason=None Partition=compute NodeList=compute-1 NumNodes=1
"""
PARTITIONS = """\
PartitionName=compute AllowGroups=ALL State=UP Nodes=compute-[0-1] TotalNodes=2
"""


def condition(kind: str, status: str, reason: str = "", message: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def resource(kind: str, name: str, spec: Object | None = None, *conditions: Object) -> Object:
    said = list(conditions) or [condition("Ready", "True", "AllReady")]
    return {
        "kind": kind,
        "metadata": {"name": name, "uid": f"{kind}-{name}", "generation": 1},
        "spec": {"controllerRef": {"name": "slurm"}, **(spec or {})} if kind != "Controller" else spec or {},
        "status": {"observedGeneration": 1, "conditions": said},
    }


def pod(name: str, component: labels.Component, instance: str, spec: Object | None = None, **status: Any) -> Object:
    good = {
        "phase": "Running",
        "conditions": [condition("PodScheduled", "True"), condition("Ready", "True")],
        "containerStatuses": [{"name": component.daemon, "ready": True, "state": {"running": {}}}],
    }
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels.of_pod(component, instance)},
        "spec": {"nodeName": "machine-a", "hostname": name, **(spec or {})},
        "status": {**good, **status},
    }


def event(kind: str, name: str, reason: str, message: str) -> Object:
    about = {"kind": kind, "name": name}
    return {"metadata": {"name": f"{name}.{reason}"}, "involvedObject": about, "reason": reason, "message": message}


def cluster(
    *changed: Object, slurm: Slurm | Silence | None = None, without: tuple[str, ...] = (), **more: Any
) -> Facts:
    """A good cluster with some objects in place of its own."""
    made = [
        resource("Controller", "slurm"),
        resource("NodeSet", "compute", {"replicas": 2}),
        resource("Partition", "debug", {"partitionName": "compute"}),
        {"kind": "Node", "metadata": {"name": "machine-a"}, "spec": {}},
        pod("slurm-controller-0", labels.CONTROLLER, "slurm"),
        pod("compute-0", labels.WORKER, "compute"),
        pod("compute-1", labels.WORKER, "compute"),
        *changed,
    ]
    objects: dict[str, dict[str, Object]] = {}
    for each in made:
        name = each["metadata"]["name"]
        if name not in without:
            objects.setdefault(each.get("kind", "Event"), {})[name] = each
    objects.setdefault("StorageClass", {})
    return Facts("slurm", objects, {"slurm": slurm or said(NODES, JOBS, PARTITIONS)}, more.get("logs", {}))


def pending(name: str, message: str, **more: Any) -> Object:
    scheduled = condition("PodScheduled", "False", "Unschedulable", message)
    spec = {"nodeName": "", **more}
    return pod(name, labels.WORKER, "compute", spec, phase="Pending", conditions=[scheduled], containerStatuses=[])


def waiting(name: str, reason: str, message: str = "") -> Object:
    status = {
        "name": "slurmd",
        "image": "x/slurmd:1",
        "ready": False,
        "state": {"waiting": {"reason": reason, "message": message}},
    }
    return pod(name, labels.WORKER, "compute", phase="Pending", conditions=[], containerStatuses=[status])


def crashed(name: str, component: labels.Component, instance: str, **ended: Any) -> Object:
    status = {
        "name": component.daemon,
        "ready": False,
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, **ended}},
    }
    unready = [condition("PodScheduled", "True"), condition("Ready", "False")]
    return pod(name, component, instance, conditions=unready, containerStatuses=[status])


def started_anew(broken: Object) -> Object:
    """The same pod a moment later: the container runs again, and is not ready yet."""
    (status,) = broken["status"]["containerStatuses"]
    running = {**status, "state": {"running": {"startedAt": "2026-11-16T00:00:00Z"}}}
    return {**broken, "status": {**broken["status"], "containerStatuses": [running]}}


def with_node(state: str, reason: str = "", name: str = "compute-0") -> Slurm:
    why = f" Reason={reason}" if reason else ""
    lines = [line for line in NODES.splitlines() if f"={name} " not in line]
    return said("\n".join([*lines, f"NodeName={name} State={state} Partitions=compute{why}"]), JOBS, PARTITIONS)


def with_job(reason: str, **more: str) -> Slurm:
    wanted = " ".join(f"{key}={value}" for key, value in {"Partition": "compute", "NumNodes": "1", **more}.items())
    state = more.get("JobState", "PENDING")
    return said(NODES, f"JobId=9 JobName=j UserId=bob(1001) JobState={state} Reason={reason} {wanted}", PARTITIONS)


def claimed(phase: str, storage: str) -> list[Object]:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-compute-0"},
        "spec": {"storageClassName": storage},
        "status": {"phase": phase},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-compute-0"}}]
    return [claim, pending("compute-0", "0/1 nodes: unbound immediate PersistentVolumeClaims", volumes=volumes)]


def sub_path() -> Object:
    mount = {"name": "etc", "mountPath": "/etc/slurm/slurm.conf", "subPath": "slurm.conf"}
    return pod(
        "slurm-controller-0",
        labels.CONTROLLER,
        "slurm",
        {"containers": [{"name": "slurmctld", "volumeMounts": [mount]}]},
    )


LOST = said(NODES.splitlines()[1], JOBS, PARTITIONS)
CORDONED = {"kind": "Node", "metadata": {"name": "machine-a"}, "spec": {"unschedulable": True}}
ANNOTATED = pod("compute-0", labels.WORKER, "compute")
ANNOTATED["metadata"]["annotations"] = {labels.POD_CORDON: "true"}
OURS = "slurm-operator: Pod (slurm/compute-0) was cordoned"
BAD_KEY = {("compute-0", "slurmd"): ("error: Unable to register: Protocol authentication error",)}
CASES: dict[str, tuple[str, Facts, str]] = {
    "a claim of a storage class that is not there": (
        "pod/compute-0",
        cluster(*claimed("Pending", "fast")),
        "StorageClassMissing",
    ),
    "a claim that is not there": ("pod/compute-0", cluster(claimed("Pending", "")[1]), "ClaimMissing"),
    "no room on any node": (
        "pod/compute-0",
        cluster(pending("compute-0", "0/3 nodes are available: 3 Insufficient cpu.")),
        "NotEnoughRoom",
    ),
    "taints": (
        "nodeset/compute",
        cluster(pending("compute-0", "0/1 nodes: 1 node(s) had untolerated taint {a: b}")),
        "Tainted",
    ),
    "no node with its labels": (
        "compute-0",
        cluster(pending("compute-0", "1 node(s) didn't match Pod's node affinity/selector")),
        "NoNodeFits",
    ),
    "all nodes cordoned": ("compute-0", cluster(pending("compute-0", "1 node(s) were unschedulable")), "NodesCordoned"),
    "an image that is not there": (
        "compute-0",
        cluster(waiting("compute-0", "ImagePullBackOff", "not found")),
        "ImageNotPulled",
    ),
    "a Secret that is not there": (
        "compute-0",
        cluster(waiting("compute-0", "CreateContainerConfigError", 'secret "x" not found')),
        "SecretMissing",
    ),
    "a volume that cannot be mounted": (
        "compute-0",
        cluster(
            waiting("compute-0", "ContainerCreating"),
            event("Pod", "compute-0", "FailedMount", "server 10.0.0.9 timed out"),
        ),
        "VolumeNotMounted",
    ),
    "out of memory": (
        "compute-0",
        cluster(crashed("compute-0", labels.WORKER, "compute", reason="OOMKilled")),
        "OutOfMemory",
    ),
    "out of memory, and started anew": (
        "compute-0",
        cluster(
            started_anew(crashed("compute-0", labels.WORKER, "compute", reason="OOMKilled")),
            event("Pod", "compute-0", "Unhealthy", "Startup probe failed: connection refused"),
        ),
        "OutOfMemory",
    ),
    "a wrong key": (
        "node/compute-0",
        cluster(crashed("compute-0", labels.WORKER, "compute"), logs=BAD_KEY),
        "KeyMismatch",
    ),
    "a wrong key, pod ready": ("node/compute-0", cluster(slurm=LOST, logs=BAD_KEY), "KeyMismatch"),
    "not registered": ("node/compute-0", cluster(slurm=LOST), "NotRegistered"),
    "a name that does not resolve": (
        "nodeset/compute",
        cluster(
            slurm=LOST, logs={("compute-0", "slurmd"): ("error: resolve_ctls: Unable to resolve slurm-controller",)}
        ),
        "NameNotResolved",
    ),
    "a slurmd that reads no configuration": (
        "compute-0",
        cluster(
            crashed("compute-0", labels.WORKER, "compute"),
            logs={("compute-0", "slurmd"): ("fatal: Unable to process configuration file",)},
        ),
        "ConfigurationUnreadable",
    ),
    "a full disk": (
        "controller/slurm",
        cluster(
            crashed("slurm-controller-0", labels.CONTROLLER, "slurm"),
            logs={("slurm-controller-0", "slurmctld"): ("error: write: No space left on device",)},
        ),
        "DiskFull",
    ),
    "slurmctld that dies, seen from a node set": (
        "nodeset/compute",
        cluster(
            crashed("slurm-controller-0", labels.CONTROLLER, "slurm"),
            resource("NodeSet", "compute", {"replicas": 2}, condition("Ready", "Unknown", "SlurmUnreachable")),
            slurm=Silence("connection refused"),
            logs={("slurm-controller-0", "slurmctld"): ("fatal: Incompatible state files",)},
        ),
        "ContainerFails",
    ),
    "slurmctld that dies, seen from a node": (
        "node/compute-0",
        cluster(crashed("slurm-controller-0", labels.CONTROLLER, "slurm"), slurm=Silence("no answer")),
        "ContainerFails",
    ),
    "a drain by hand": ("node/compute-0", cluster(slurm=with_node("IDLE+DRAIN", "bad disk")), "DrainedBySomebody"),
    "a cordoned machine": (
        "node/compute-0",
        cluster(CORDONED, slurm=with_node("IDLE+DRAIN", OURS)),
        "KubernetesNodeCordoned",
    ),
    "a cordoned pod": ("node/compute-0", cluster(ANNOTATED, slurm=with_node("IDLE+DRAIN", OURS)), "PodCordoned"),
    "a scale-in": ("node/compute-0", cluster(slurm=with_node("MIXED+DRAIN", "slurm-operator: scale-in")), "GoingAway"),
    "a refused registration": (
        "node/compute-0",
        cluster(slurm=with_node("IDLE+INVALID_REG", "Low RealMemory")),
        "RegistrationRefused",
    ),
    "a refused registration, drained by slurmctld": (
        "node/compute-0",
        cluster(slurm=with_node("IDLE+DRAIN+INVALID_REG", "gres/gpu count reported lower than configured (0 < 2)")),
        "RegistrationRefused",
    ),
    "a slurmd that is silent": (
        "node/compute-0",
        cluster(slurm=with_node("DOWN+NOT_RESPONDING", "Not responding")),
        "NotResponding",
    ),
    "a record without a pod": (
        "node/compute-0",
        cluster(slurm=with_node("DOWN+NOT_RESPONDING"), without=("compute-0",)),
        "PodGone",
    ),
    "a bad spec": (
        "nodeset/compute",
        cluster(resource("NodeSet", "compute", {}, condition("Ready", "False", "InvalidSpec", "spec.replicas: no"))),
        "InvalidSpec",
    ),
    "a Controller that is not there": ("nodeset/compute", cluster(without=("slurm",)), "ReferenceNotFound"),
    "no operator": ("nodeset/compute", cluster({**resource("NodeSet", "compute"), "status": {}}), "OperatorAbsent"),
    "scaled to zero": (
        "nodeset/compute",
        cluster(resource("NodeSet", "compute", {"replicas": 0}), without=("compute-0", "compute-1")),
        "ScaledToZero",
    ),
    "pods that Kubernetes refuses": (
        "nodeset/compute",
        cluster(event("NodeSet", "compute", "FailedCreate", "exceeded quota"), without=("compute-0", "compute-1")),
        "PodRefused",
    ),
    "a configuration that Slurm refuses": (
        "controller/slurm",
        cluster(
            resource(
                "Controller",
                "slurm",
                {},
                condition("Ready", "True"),
                condition("ConfigValid", "False", "SlurmRefused", "line 3"),
            )
        ),
        "SlurmRefused",
    ),
    "a subPath mount": ("controller/slurm", cluster(sub_path()), "SubPathMount"),
    "a partition that is drained on purpose": (
        "partition/debug",
        cluster(
            resource("Partition", "debug", {"partitionName": "compute", "state": "DRAIN"}),
            slurm=said(NODES, JOBS, PARTITIONS.replace("UP", "DRAIN")),
        ),
        "PartitionNotUp",
    ),
    "a name that another partition has": (
        "partition/debug",
        cluster(resource("Partition", "debug", {}, condition("Ready", "False", "NameTaken", "compute is taken"))),
        "NameTaken",
    ),
    "a partition whose nodes are all drained": (
        "partition/compute",
        cluster(slurm=said("NodeName=compute-0 State=IDLE+DRAIN Reason=x", "", PARTITIONS.replace("-[0-1]", "-0"))),
        "DrainedBySomebody",
    ),
    "an empty partition": (
        "partition/compute",
        cluster(slurm=said(NODES, "", "PartitionName=compute State=UP Nodes=(null)")),
        "PartitionEmpty",
    ),
    "a job that is held": ("job/9", cluster(slurm=with_job("JobHeldUser")), "JobHeldUser"),
    "a job over a limit": ("9", cluster(slurm=with_job("QOSMaxJobsPerUserLimit")), "QOSMaxJobsPerUserLimit"),
    "a job that waits for busy nodes": ("job/9", cluster(slurm=with_job("Resources")), "Resources"),
    "a job that wants too many nodes": (
        "job/9",
        cluster(slurm=with_job("Resources", NumNodes="5")),
        "PartitionTooSmall",
    ),
    "a job in a partition that is down": (
        "job/9",
        cluster(
            slurm=Slurm(
                with_job("x").nodes,
                with_job("PartitionDown").jobs,
                said("", "", PARTITIONS.replace("UP", "DOWN")).partitions,
            )
        ),
        "PartitionNotUp",
    ),
    "a command that is not there": (
        "compute-0",
        cluster(crashed("compute-0", labels.WORKER, "compute", exitCode=128, reason="StartError", message="exec: /x")),
        "ContainerNotMade",
    ),
    "a NodeSet without a RestApi": (
        "nodeset/compute",
        cluster(
            resource(
                "NodeSet",
                "compute",
                {"replicas": 2},
                condition("Ready", "Unknown", "SlurmUnreachable"),
                condition("SlurmReachable", "Unknown", "SlurmUnreachable"),
            )
        ),
        "RestApiMissing",
    ),
    "a job that failed": ("job/9", cluster(slurm=with_job("NonZeroExitCode", JobState="FAILED")), "FAILED"),
}


@pytest.mark.parametrize(("target", "facts", "code"), CASES.values(), ids=CASES.keys())
def test_the_true_cause_is_named(target: str, facts: Facts, code: str) -> None:
    answer = explained(facts, target)
    assert isinstance(answer, Cause), answer
    assert answer.code == code, answer
    assert answer.sentence
    assert answer.command.startswith("kubectl ")


@pytest.mark.parametrize(
    "target", ["node/compute-0", "pod/compute-1", "nodeset/compute", "partition/debug", "job/7", "controller/slurm"]
)
def test_nothing_is_wrong_with_a_good_cluster(target: str) -> None:
    assert isinstance(explained(cluster(), target), Fine)


OBJECTIONS = "0/3 nodes are available: 1 node(s) had untolerated taint(s) {rack: x}, 2 node(s) were unschedulable."
CLOSED = {"kind": "Node", "metadata": {"name": "closed", "labels": {"rack": "x"}}}
TAINT = {"key": "rack", "value": "x", "effect": "NoSchedule"}
CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("selector", "spec", "code"),
    [
        ({"gpu": "h100"}, {"taints": [TAINT]}, "NoNodeFits"),
        ({"rack": "x"}, {"taints": [TAINT]}, "Tainted"),
        ({"rack": "x"}, {"taints": [CORDON_TAINT], "unschedulable": True}, "NodesCordoned"),
        ({"rack": "x"}, {"taints": [CORDON_TAINT, TAINT], "unschedulable": True}, "Tainted"),
    ],
    ids=["no such label", "a taint", "a cordon", "a cordon and a taint"],
)
def test_only_nodes_that_a_pod_asks_for_keep_it_waiting(selector: Object, spec: Object, code: str) -> None:
    waiting_pod = pending("compute-0", OBJECTIONS, nodeSelector=selector)
    answer = explained(cluster(waiting_pod, {**CLOSED, "spec": spec}), "pod/compute-0")
    assert isinstance(answer, Cause)
    assert answer.code == code


@pytest.mark.parametrize(
    ("now", "code"),
    [("2026-11-16T00:00:02+00:00", "JustChanged"), ("2026-11-16T00:01:00+00:00", "OperatorAbsent")],
    ids=["a moment ago", "a minute ago"],
)
def test_an_operator_has_a_moment_to_look(now: str, code: str) -> None:
    changed = {**resource("NodeSet", "compute"), "status": {}}
    changed["metadata"]["managedFields"] = [{"time": "2026-11-16T00:00:00Z"}]
    answer = explained(replace(cluster(changed), now=now), "nodeset/compute")
    assert isinstance(answer, Cause)
    assert answer.code == code


def test_what_somebody_chose_is_explained_but_not_wrong() -> None:
    none = resource("NodeSet", "none", {"replicas": 0})
    facts = cluster(none)
    assert isinstance(explained(facts, "nodeset/none"), Cause)
    assert examine(facts) == []


def test_of_two_partitions_of_one_name_the_one_that_has_it_is_shown() -> None:
    taken = resource("Partition", "a-twin", {"partitionName": "compute"}, condition("Accepted", "False", "NameTaken"))
    owner = resource("Partition", "debug", {"partitionName": "compute"}, condition("Accepted", "True"))
    later = resource("Partition", "z-twin", {"partitionName": "compute"}, condition("Accepted", "False", "NameTaken"))
    assert [row["object"] for row in partition_rows(cluster(taken, owner, later))] == ["debug"]


def test_doctor_finds_nothing_in_a_good_cluster() -> None:
    assert examine(cluster()) == []


def test_doctor_names_one_cause_once() -> None:
    facts = cluster(CORDONED, slurm=with_node("IDLE+DRAIN", OURS))
    assert [cause.code for cause in examine(facts)] == ["KubernetesNodeCordoned"]


@pytest.mark.parametrize("target", ["node/nobody", "pod/nobody", "job/99", "partition/none", "nodeset/none"])
def test_what_is_not_there_is_said_to_be_missing(target: str) -> None:
    assert isinstance(explained(cluster(), target), Unseen)
