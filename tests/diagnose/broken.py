"""Clusters broken on purpose: a good one, with some of its objects and of Slurm's words replaced."""

from __future__ import annotations

from typing import Any

from tests.diagnose.said import said

from slurm_operator.build import labels
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause
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
Case = tuple[str, Facts, str]


def explains(target: str, facts: Facts, code: str) -> None:
    """The walk names this cause, and a command that comes next."""
    answer = explained(facts, target)
    assert isinstance(answer, Cause), answer
    assert answer.code == code, answer
    assert answer.sentence
    assert answer.command.startswith("kubectl ")
