"""A good cluster that breaks later: its nodes, its configuration, its daemons, its operator; each with its cause.

Waves of rows that can be broken side by side; everything is mended again when a wave ends. Used by `test_why.py` with
the harness of `table.py`.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.real.local.broken import nodeset, partition, plain
from tests.real.local.e2e.cluster import CORDON, LocalCluster
from tests.real.local.table import Make, Row, Wave

from slurm_operator.local.supervisor import read_parts

SPARE = 5
HERE = {"nodeSelector": {"kubernetes.io/hostname": "local-0"}}


@contextmanager
def _spare_workers(cluster: Any) -> Iterator[None]:
    """A worker for each row, one that is its partition's only one, and two of which one goes."""
    made = (
        nodeset("spare", replicas=SPARE, pod=HERE),
        nodeset("lone", pod=HERE),
        nodeset("twins", replicas=2, pod=HERE),
        partition("lone", nodeSets=["lone"]),
        partition("twins", nodeSets=["twins"]),
        partition("hand", driftPolicy="Report"),
    )
    try:
        cluster.apply(*made)
        for name in ("spare", "lone", "twins"):
            cluster.until(f"{name} is ready", lambda name=name: cluster.condition("nodeset", name) == "True", 180)
        for name in ("lone", "twins", "hand"):
            cluster.until(f"{name} is there", lambda name=name: cluster.condition("partition", name) == "True", 180)
        # Slurm reads its file once more when the new lines are in it; what is set by hand before that is no drift yet.
        published = ("get", "configmap", "slurm-config", "-o", "jsonpath={.data.slurm\\.conf}")
        cluster.until("it is in slurm.conf", lambda: "PartitionName=hand" in cluster.kubectl(*published))
        cluster.until("that is in force", lambda: cluster.condition("controller", "slurm", "ConfigApplied") == "True")
        yield
    finally:
        cluster.remove(*made)


@contextmanager
def pod_cordoned(cluster: LocalCluster) -> Iterator[str]:
    cluster.kubectl("annotate", "pod", "spare-0", f"{CORDON}=true")
    yield "node/spare-0"


def updated(node: str, state: str, reason: str) -> Make:
    """A node that somebody has changed with scontrol."""

    @contextmanager
    def made(cluster: LocalCluster) -> Iterator[str]:
        cluster.admin(f"scontrol update nodename={node} state={state} reason='{reason}'")
        try:
            yield f"node/{node}"
        finally:
            cluster.admin(f"scontrol update nodename={node} state=resume")

    return made


@contextmanager
def reserved(cluster: LocalCluster) -> Iterator[str]:
    cluster.admin("scontrol create reservation reservationname=r starttime=now duration=9 users=root nodes=spare-4")
    try:
        yield "node/spare-4"
    finally:
        cluster.admin("scontrol delete reservationname=r")


@contextmanager
def drained_under_a_job(cluster: LocalCluster) -> Iterator[str]:
    with updated("lone-0", "drain", "bad fan")(cluster):
        yield f"job/{cluster.submit('sleep 600', '-p', 'lone')}"


@contextmanager
def too_many_nodes(cluster: LocalCluster) -> Iterator[str]:
    number = cluster.submit("sleep 600", "-p", "twins", "-N2", "-H")
    # It could run when it was submitted; otherwise Slurm 24.11 would have refused it.
    _patch(cluster, "nodeset", "twins", {"spec": {"replicas": 1}})
    gone = "! scontrol -o show node twins-1 | grep -q NodeName"
    cluster.admin(f"n=0; until {gone}; do n=$((n+1)); [ $n -lt 600 ] || exit 1; sleep 0.2; done")
    cluster.admin(f"scontrol release {number}")
    yield f"job/{number}"


@contextmanager
def partition_set_by_hand(cluster: LocalCluster) -> Iterator[str]:
    cluster.admin("scontrol update partitionname=hand state=down")
    yield "partition/hand"


@contextmanager
def record_without_pod(cluster: LocalCluster) -> Iterator[str]:
    cluster.admin(
        "scontrol create nodename=ghost cpus=1 state=cloud; scontrol update nodename=ghost state=down reason=gone"
    )
    try:
        yield "node/ghost"
    finally:
        cluster.admin("scontrol delete nodename=ghost || true")


@contextmanager
def machine_cordoned(cluster: LocalCluster) -> Iterator[str]:
    cluster.kubectl("cordon", "local-0")
    try:
        yield "node/compute-0"
    finally:
        cluster.kubectl("uncordon", "local-0")


def stopped(pod: str, daemon: str, target: str) -> Make:
    """A daemon that hangs."""

    @contextmanager
    def made(cluster: LocalCluster) -> Iterator[str]:
        inside = ("exec", pod, "-c", daemon, "--", "sh", "-c")
        cluster.kubectl(*inside, f"kill -STOP $(pidof {daemon})")
        try:
            yield target
        finally:
            cluster.kubectl(*inside, f"kill -CONT $(pidof {daemon})")

    return made


def extra_conf(line: str) -> Make:
    """A line that somebody adds to slurm.conf."""

    @contextmanager
    def made(cluster: LocalCluster) -> Iterator[str]:
        before = cluster.get("controller", "slurm")["spec"]["extraConf"]
        _patch(cluster, "controller", "slurm", {"spec": {"extraConf": before + line + "\n"}})
        try:
            yield "controller/slurm"
        finally:
            _patch(cluster, "controller", "slurm", {"spec": {"extraConf": before}})

    return made


@contextmanager
def config_file(cluster: LocalCluster) -> Iterator[str]:
    _patch(cluster, "configmap", "slurm-files", {"data": {"cgroup.conf": "CgroupPlugin=disabled\nBogus=1\n"}})
    try:
        yield "controller/slurm"
    finally:
        _patch(cluster, "configmap", "slurm-files", {"data": {"cgroup.conf": "CgroupPlugin=disabled\n"}})


def no_slurmrestd(target: str) -> Make:
    """A RestApi without a pod; who asks first, and who asks second, get the same."""

    @contextmanager
    def made(cluster: LocalCluster) -> Iterator[str]:
        _patch(cluster, "restapi", "slurm", {"spec": {"replicas": 0}})
        try:
            yield target
        finally:
            _patch(cluster, "restapi", "slurm", {"spec": {"replicas": 1}})

    return made


@contextmanager
def no_rest_api(cluster: Any) -> Iterator[str]:
    found = cluster.get("restapi", "slurm")
    cluster.kubectl("delete", "restapi", "slurm")
    try:
        yield "nodeset/compute"
    finally:
        cluster.apply(plain("RestApi", "slurm", found["spec"]))


@contextmanager
def operator_stopped(cluster: LocalCluster) -> Iterator[str]:
    pid = read_parts(cluster.home)["operator"].pid
    os.kill(pid, signal.SIGSTOP)
    _patch(cluster, "nodeset", "compute", {"spec": {"minReadySeconds": 1}})
    try:
        yield "nodeset/compute"
    finally:
        os.kill(pid, signal.SIGCONT)


def _patch(cluster: LocalCluster, kind: str, name: str, patch: dict[str, Any]) -> None:
    cluster.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch))


_NODES = {
    "a cordoned pod": Row(pod_cordoned, "PodCordoned", "annotation", "undrain spare-0"),
    "a drain by somebody else": Row(
        updated("spare-1", "drain", "bad dimm"), "DrainedBySomebody", "bad dimm", "state=resume", ok=False
    ),
    "a node that somebody set down": Row(
        updated("spare-2", "down", "new psu"), "SetDown", "new psu", "state=resume", ok=False
    ),
    "a node that Slurm drained": Row(
        updated("spare-3", "drain", "Kill task failed"), "DrainedBySlurm", "Kill task failed", "logs spare-3", ok=False
    ),
    "a node in a reservation": Row(reserved, "Reserved", "reservation r", "show reservation", ok=True),
    "a job whose only node is drained": Row(
        drained_under_a_job, "DrainedBySomebody", "bad fan", "nodename=lone-0 state=resume", ok=False
    ),
    "a job of more nodes than there are": Row(
        too_many_nodes,
        "PartitionTooSmall",
        "asks for 2 nodes, and partition twins has 1",
        '{"spec":{"replicas":2}}',
        ok=False,
    ),
    "a partition that was set by hand": Row(
        partition_set_by_hand, "PartitionNotUp", "scontrol", "partitionname=hand state=up"
    ),
    "a node record without a pod": Row(record_without_pod, "PodGone", "no longer has a pod", "delete nodename=ghost"),
}
WAVES: dict[str, Wave] = {
    "nodes": Wave(_NODES, _spare_workers),
    "a hanging slurmd": Wave(
        {
            "a stopped slurmd": Row(
                stopped("compute-1", "slurmd", "node/compute-1"), "NotAnswering|NotResponding", "slurmd", "logs"
            )
        }
    ),
    "a machine": Wave(
        {
            "a cordoned Kubernetes node": Row(
                machine_cordoned, "KubernetesNodeCordoned", "local-0", "kubectl uncordon local-0"
            )
        }
    ),
    "a wrong key": Wave(
        {
            "a line that Slurm does not know": Row(
                extra_conf("Bogus=1"), "LinterRefused", "Bogus", "edit controllers.slinky.slurm.net slurm"
            )
        }
    ),
    "a wrong plugin": Wave(
        {
            "a plugin that is not there": Row(
                extra_conf("JobSubmitPlugins=nosuch"),
                "SlurmRefused",
                "nosuch",
                "edit controllers.slinky.slurm.net slurm",
            )
        }
    ),
    "a wrong file": Wave(
        {"a file that Slurm does not understand": Row(config_file, "LinterRefused", "cgroup.conf line 2", "edit ")}
    ),
    "no slurmrestd": Wave(
        {
            "no slurmrestd": Row(no_slurmrestd("restapi/slurm"), "ScaledToZero", "replicas are 0", "replicas"),
            "no slurmrestd for a NodeSet": Row(
                no_slurmrestd("nodeset/compute"), "ScaledToZero", "replicas are 0", "patch restapi slurm"
            ),
        }
    ),
    "no RestApi": Wave({"no RestApi": Row(no_rest_api, "RestApiMissing", "has no RestApi", "apply -f -")}),
    "an operator that hangs": Wave(
        {"a stopped operator": Row(operator_stopped, "OperatorAbsent", "operator", "get pods -A")}
    ),
    "a hanging slurmctld": Wave(
        {
            "a stopped slurmctld": Row(
                stopped("slurm-controller-0", "slurmctld", "node/compute-0"),
                "NotAnswering|SlurmSilent",
                "slurmctld",
                "logs",
            )
        }
    ),
}
