"""A real cluster broken on purpose, way after way: `kubectl slurm why` names each true cause, and never a false one.

Breaks that stand side by side, each in a resource of its own, are made all at once; those of the whole cluster come one
after the other and are mended again. An answer on the way may say that something is not there yet, but every cause that
is named must be the true one. Needs root and Slurm 26.05; where it cannot run it is skipped loudly.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.real.local.e2e.cluster import CORDON, NAMESPACE, CannotRun, LocalCluster

from slurm_operator.cli.kubectl.main import main as kubectl_slurm
from slurm_operator.local.node import records
from slurm_operator.local.node.paths import Paths
from slurm_operator.local.supervisor import read_parts

pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-why"),
]

Json = dict[str, Any]
SECONDS = 15.0
LOOK_SECONDS = 0.3
API = "slinky.slurm.net/v1beta1"
# Answers that name no cause: something is on its way.
ON_THE_WAY = frozenset(
    {
        *("", "JustChanged", "NotScheduledYet", "Starting", "PodIsEnding", "NotCreatedYet", "RolloutNotSeen"),
        *("RollingOut", "WaitingForPods", "Working", "WorkersNotReady", "NotInSlurmYet", "Trying", "NotRegistered"),
    }
)
MANIFEST = """\
apiVersion: v1
kind: Namespace
metadata: {name: slurm}
---
apiVersion: v1
kind: Secret
metadata: {name: slurm-key, namespace: slurm}
stringData: {slurm.key: change-me-change-me-change-me-change-me-change-me-change-me-change-me}
---
apiVersion: v1
kind: Secret
metadata: {name: jwt-key, namespace: slurm}
stringData: {jwt.key: change-me-change-me-change-me-change-me}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: files, namespace: slurm}
data:
  cgroup.conf: |
    CgroupPlugin=disabled
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm, namespace: slurm}
spec:
  slurmKeyRef: {name: slurm-key, key: slurm.key}
  jwtKeyRef: {name: jwt-key, key: jwt.key}
  persistence: {enabled: true, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  configFileRefs: [{name: files}]
  slurmctld: {image: "ghcr.io/slinkyproject/slurmctld:26.05", readinessProbe: {periodSeconds: 1}}
  extraConf: |
    ProctrackType=proctrack/linuxproc
    TaskPlugin=task/none
    SlurmdTimeout=5
    MessageTimeout=3
    MinJobAge=600
    KillWait=1
---
apiVersion: slinky.slurm.net/v1beta1
kind: RestApi
metadata: {name: slurm, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  slurmrestd: {image: "ghcr.io/slinkyproject/slurmrestd:26.05", readinessProbe: {periodSeconds: 1}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: compute, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  replicas: 1
  oversubscribeNode: true
  slurmd: {image: "ghcr.io/slinkyproject/slurmd:26.05", readinessProbe: {periodSeconds: 1}}
  partition: {enabled: true, config: "Default=YES"}
  template: {spec: {nodeSelector: {kubernetes.io/hostname: local-0}}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: Partition
metadata: {name: short, namespace: slurm}
spec: {controllerRef: {name: slurm}, nodeSets: [compute], maxTime: "30"}
"""
IMAGE = "ghcr.io/slinkyproject/{}:26.05"
OTHER_KEY = "another-key-another-key-another-key-another-key-another-key-another"


def plain(kind: str, name: str, spec: Json) -> Json:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}


def nodeset(name: str, *, slurmd: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    """One worker, broken by what is laid over it."""
    made = {
        "controllerRef": {"name": "slurm"},
        "replicas": 1,
        "oversubscribeNode": True,
        "partition": {"enabled": False},
        "slurmd": {"image": IMAGE.format("slurmd"), "readinessProbe": {"periodSeconds": 1}, **(slurmd or {})},
        "template": {"spec": {"terminationGracePeriodSeconds": 1, **(pod or {})}},
    }
    return plain("NodeSet", name, {**made, **spec})


def partition(name: str, **spec: Any) -> Json:
    return plain("Partition", name, {"controllerRef": {"name": "slurm"}, "nodeSets": ["compute"], **spec})


def controller(name: str, *, slurmctld: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    """A second cluster's head, which never comes up."""
    made = {
        "slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"},
        "jwtKeyRef": {"name": "jwt-key", "key": "jwt.key"},
        "persistence": {"enabled": False},
        "slurmctld": {"image": IMAGE.format("slurmctld"), "readinessProbe": {"periodSeconds": 1}, **(slurmctld or {})},
        "template": {"spec": {"terminationGracePeriodSeconds": 1, **(pod or {})}},
    }
    return plain("Controller", name, {**made, **spec})


def volume(name: str, source: Json) -> Json:
    return {"volumes": [{"name": name, **source}]}


def mount(name: str, path: str = "/mnt/data", **more: Any) -> Json:
    return {"volumeMounts": [{"name": name, "mountPath": path, **more}]}


def claim(storage_class: str) -> list[Json]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return [{"metadata": {"name": "scratch"}, "spec": {**spec, "storageClassName": storage_class}}]


@dataclass(frozen=True, slots=True)
class Standing:
    """Something broken in a resource of its own."""

    target: str
    code: str
    # Words that the sentence must hold.
    words: str
    objects: tuple[Json, ...]


SAYS_HELLO = ["sh", "-c", "echo fatal: the licence server says no; exit 3"]
EATS_MEMORY = ["sh", "-c", "x=$(head -c 512M /dev/zero | tr '\\0' x)"]
NO_NAMES = {
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["127.0.0.1"], "options": [{"name": "timeout", "value": "1"}]},
}

STANDING: dict[str, Standing] = {
    "the image is not there": Standing(
        "nodeset/image",
        "ImageNotPulled",
        "nosuch",
        (nodeset("image", slurmd={"image": "ghcr.io/slinkyproject/slurmd:nosuch"}),),
    ),
    "the Secret of a volume is missing": Standing(
        "nodeset/secret",
        "SecretMissing",
        "'passwords'",
        (nodeset("secret", slurmd=mount("more"), pod=volume("more", {"secret": {"secretName": "passwords"}})),),
    ),
    "the Secret of a variable is missing": Standing(
        "nodeset/variable",
        "SecretMissing",
        "'licence'",
        (
            nodeset(
                "variable",
                slurmd={"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "licence", "key": "x"}}}]},
            ),
        ),
    ),
    "the ConfigMap of a volume is missing": Standing(
        "nodeset/configmap",
        "ConfigMapMissing",
        "'settings'",
        (nodeset("configmap", slurmd=mount("more"), pod=volume("more", {"configMap": {"name": "settings"}})),),
    ),
    "the storage class is missing": Standing(
        "nodeset/storage",
        "StorageClassMissing",
        "'fast'",
        (nodeset("storage", slurmd=mount("scratch"), volumeClaimTemplates=claim("fast")),),
    ),
    "the claim is missing": Standing(
        "nodeset/claim",
        "ClaimMissing",
        "'home'",
        (nodeset("claim", slurmd=mount("more"), pod=volume("more", {"persistentVolumeClaim": {"claimName": "home"}})),),
    ),
    "a volume cannot be mounted": Standing(
        "nodeset/volume",
        "VolumeNotMounted",
        "/nosuch/folder",
        (
            nodeset(
                "volume",
                slurmd=mount("more"),
                pod=volume("more", {"hostPath": {"path": "/nosuch/folder", "type": "Directory"}}),
            ),
        ),
    ),
    "no Kubernetes node has the labels": Standing(
        "nodeset/selector", "NoNodeFits", "labels", (nodeset("selector", pod={"nodeSelector": {"gpu": "h100"}}),)
    ),
    "the only node that fits has a taint": Standing(
        "nodeset/taint",
        "Tainted",
        "taint",
        (nodeset("taint", pod={"nodeSelector": {"kubernetes.io/hostname": "local-2"}}),),
    ),
    "the only node that fits is cordoned": Standing(
        "nodeset/cordoned",
        "NodesCordoned",
        "cordoned",
        (nodeset("cordoned", pod={"nodeSelector": {"kubernetes.io/hostname": "local-1"}, "tolerations": []}),),
    ),
    "no node has that much memory": Standing(
        "nodeset/huge",
        "NotEnoughRoom",
        "memory",
        (nodeset("huge", slurmd={"resources": {"requests": {"memory": "900Ti"}}}),),
    ),
    "more memory than the limit": Standing(
        "nodeset/oom",
        "OutOfMemory",
        "memory",
        (nodeset("oom", slurmd={"command": EATS_MEMORY, "resources": {"limits": {"memory": "64Mi"}}}),),
    ),
    "a command that ends": Standing(
        "nodeset/crash",
        "ContainerFails",
        "the licence server says no",
        (nodeset("crash", slurmd={"command": SAYS_HELLO}),),
    ),
    "a command that is not there": Standing(
        "nodeset/command",
        "ContainerNotMade",
        "/nosuch",
        (nodeset("command", slurmd={"command": ["/nosuch"]}),),
    ),
    "an init container that ends": Standing(
        "nodeset/init",
        "ContainerFails",
        "prepare",
        (
            nodeset(
                "init",
                pod={"initContainers": [{"name": "prepare", "image": IMAGE.format("slurmd"), "command": SAYS_HELLO}]},
            ),
        ),
    ),
    "a probe that fails": Standing(
        "nodeset/probe",
        "ProbeFails",
        "slurmd",
        (nodeset("probe", slurmd={"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}),),
    ),
    "another slurm.key": Standing(
        "nodeset/key",
        "KeyMismatch",
        "slurm.key",
        (
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "other-key", "namespace": NAMESPACE},
                "stringData": {"slurm.key": OTHER_KEY},
            },
            nodeset(
                "key",
                slurmd=mount("other", "/etc/slurm"),
                pod=volume("other", {"secret": {"secretName": "other-key", "defaultMode": 0o600}}),
            ),
        ),
    ),
    "names that are not resolved": Standing(
        "nodeset/dns", "NameNotResolved", "resolve", (nodeset("dns", pod=NO_NAMES),)
    ),
    "scaled to nothing": Standing("nodeset/none", "ScaledToZero", "replicas are 0", (nodeset("none", replicas=0),)),
    "a Controller that is not there": Standing(
        "nodeset/stray",
        "ReferenceNotFound",
        "nosuch",
        (nodeset("stray", controllerRef={"name": "nosuch"}),),
    ),
    "a RestApi of a Controller that is not there": Standing(
        "restapi/stray",
        "ReferenceNotFound",
        "nosuch",
        (plain("RestApi", "stray", {"controllerRef": {"name": "nosuch"}}),),
    ),
    "a partition of a NodeSet that is not there": Standing(
        "partition/stray", "NodeSetNotFound", "nosuch", (partition("stray", nodeSets=["nosuch"]),)
    ),
    "a partition whose name is taken": Standing(
        "partition/twin", "NameTaken", "short", (partition("twin", partitionName="short"),)
    ),
    "a partition with a bad host list": Standing(
        "partition/list", "HostListInvalid", "[", (partition("list", nodeSets=[], nodes="n[1-"),)
    ),
    "a partition of a NodeSet without workers": Standing(
        "partition/empty", "ScaledToZero", "replicas are 0", (partition("empty", nodeSets=["none"]),)
    ),
    "a partition of a NodeSet whose image is not there": Standing(
        "partition/image", "ImageNotPulled", "nosuch", (partition("image", nodeSets=["image"]),)
    ),
    "a partition that is DOWN": Standing(
        "partition/down", "PartitionNotUp", "DOWN", (partition("down", state="DOWN"),)
    ),
    "a partition that is DRAIN": Standing(
        "partition/drain", "PartitionNotUp", "DRAIN", (partition("drain", state="DRAIN"),)
    ),
    "a partition that is INACTIVE": Standing(
        "partition/inactive", "PartitionNotUp", "INACTIVE", (partition("inactive", state="INACTIVE"),)
    ),
    "a Controller without its key": Standing(
        "controller/keyless",
        "ReferenceNotFound",
        "nosuch",
        (controller("keyless", slurmKeyRef={"name": "nosuch", "key": "slurm.key"}),),
    ),
    "slurmctld that ends": Standing(
        "controller/crash",
        "ContainerFails",
        "the licence server says no",
        (controller("crash", slurmctld={"command": SAYS_HELLO}),),
    ),
    "slurmctld whose state has no storage class": Standing(
        "controller/storage",
        "StorageClassMissing",
        "'fast'",
        (
            controller(
                "storage",
                persistence={
                    "enabled": True,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "fast",
                },
            ),
        ),
    ),
    "a worker of a slurmctld that ends": Standing(
        "nodeset/orphan",
        "ContainerFails",
        "the licence server says no",
        (nodeset("orphan", controllerRef={"name": "crash"}),),
    ),
    "pods that Kubernetes refuses": Standing(
        "nodeset/refused",
        "PodRefused",
        "priority",
        (nodeset("refused", pod={"priorityClassName": "nosuch"}),),
    ),
}


class Broken(LocalCluster):
    """A cluster that is asked why."""

    def why(self, target: str) -> Json:
        """What `kubectl slurm why` says."""
        where = ["--kubeconfig", str(self.home.kubeconfig), "-n", NAMESPACE]
        done = CliRunner().invoke(kubectl_slurm, [*where, "why", target, "-o", "json"], catch_exceptions=False)
        assert done.exit_code in (0, 1), done.output
        found: Json = json.loads(done.stdout)
        assert found["ok"] == (done.exit_code == 0)
        return found

    def expect(self, target: str, code: str, words: str, seconds: float = SECONDS) -> Json:
        """The cause must come, and no other one before it."""
        began, said = time.monotonic(), self.why(target)
        while said.get("code", "") in ON_THE_WAY - {code} and time.monotonic() - began < seconds:
            time.sleep(LOOK_SECONDS)
            said = self.why(target)
        assert said.get("code") == code, said
        assert words in said["sentence"], said
        assert said["command"], said
        return said

    def apply(self, *objects: Json) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "-f", "-", stdin=text)

    def patch(self, kind: str, name: str, patch: Json) -> None:
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    def sbatch(self, *options: str) -> str:
        """A job of the administrator's."""
        return self.admin(shlex.join(["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "sleep 300"]))

    def processes(self, pod: str, container: str, program: str) -> list[int]:
        """The processes of a program in a container."""
        paths = Paths.of(self.home.data)
        found = [each for each in records.all_pods(paths.pods) if each.name == pod]
        file = records.container_file(paths.pod(found[0].uid).container(container))
        record = records.load(file, records.ContainerRecord)
        assert record is not None
        inside = Path(f"/proc/{record.pid}/ns/pid").stat().st_ino
        running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        return [pid for pid in running if _is(pid, program, inside)]


def _is(pid: int, program: str, namespace: int) -> bool:
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        return name == program and Path(f"/proc/{pid}/ns/pid").stat().st_ino == namespace
    except OSError:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    """A good cluster beside everything that is broken from the start."""
    folder: Path = tmp_path_factory.mktemp("why")
    manifest = folder / "manifest.yaml"
    manifest.write_text(MANIFEST)
    made = Broken(folder / "cluster", "26.05")
    made.name = "why"
    try:
        made.prepare()
    except CannotRun as error:
        pytest.skip(f"no local cluster: {error}")
    try:
        made.local("up", "--nodes", "3", "--no-wait", "--slurm", "26.05", "-f", str(manifest))
        made.until("the good part is ready", lambda: made.condition("partition", "short") == "True")
        made.kubectl("taint", "node", "local-2", "rack=closed:NoSchedule")
        made.kubectl("cordon", "local-1")
        made.apply(*(item for each in STANDING.values() for item in each.objects))
        yield made
    finally:
        made.reset()


@pytest.mark.parametrize("case", STANDING.values(), ids=STANDING)
def test_what_is_broken_from_the_start_has_its_cause(cluster: Broken, case: Standing) -> None:
    cluster.expect(case.target, case.code, case.words)


# One after the other


@contextmanager
def pod_cordoned(cluster: Broken) -> Iterator[str]:
    cluster.kubectl("annotate", "pod", "compute-0", f"{CORDON}=true")
    try:
        yield "node/compute-0"
    finally:
        cluster.kubectl("annotate", "pod", "compute-0", f"{CORDON}-")


@contextmanager
def machine_cordoned(cluster: Broken) -> Iterator[str]:
    machine = cluster.get("pod", "compute-0")["spec"]["nodeName"]
    cluster.kubectl("cordon", machine)
    try:
        yield "node/compute-0"
    finally:
        cluster.kubectl("uncordon", machine)


@contextmanager
def drained(cluster: Broken) -> Iterator[str]:
    cluster.admin("scontrol update nodename=compute-0 state=drain reason='bad dimm'")
    try:
        yield "node/compute-0"
    finally:
        cluster.admin("scontrol update nodename=compute-0 state=resume")


@contextmanager
def drained_under_a_job(cluster: Broken) -> Iterator[str]:
    with drained(cluster), job(cluster, "-p", "short") as target:
        yield target


@contextmanager
def job(cluster: Broken, *options: str) -> Iterator[str]:
    number = cluster.sbatch(*options)
    try:
        yield f"job/{number}"
    finally:
        cluster.admin(f"scancel {number}")


@contextmanager
def dependent_job(cluster: Broken) -> Iterator[str]:
    with job(cluster, "-H") as first, job(cluster, "-d", f"afterok:{first.partition('/')[2]}") as second:
        yield second


@contextmanager
def partition_set_by_hand(cluster: Broken) -> Iterator[str]:
    cluster.apply(partition("hand", driftPolicy="Report"))
    cluster.until("it is there", lambda: cluster.condition("partition", "hand") == "True")
    cluster.admin("scontrol update partitionname=hand state=down")
    try:
        yield "partition/hand"
    finally:
        cluster.kubectl("delete", "partition", "hand")


@contextmanager
def stopped(cluster: Broken, pod: str, container: str, program: str, target: str) -> Iterator[str]:
    for pid in cluster.processes(pod, container, program):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield target
    finally:
        for pid in cluster.processes(pod, container, program):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def record_without_pod(cluster: Broken) -> Iterator[str]:
    cluster.admin("scontrol create nodename=ghost cpus=1 state=down reason=gone")
    try:
        yield "node/ghost"
    finally:
        cluster.admin("scontrol delete nodename=ghost || true")


@contextmanager
def extra_conf(cluster: Broken, line: str) -> Iterator[str]:
    before = cluster.get("controller", "slurm")["spec"]["extraConf"]
    cluster.patch("controller", "slurm", {"spec": {"extraConf": before + line + "\n"}})
    try:
        yield "controller/slurm"
    finally:
        cluster.patch("controller", "slurm", {"spec": {"extraConf": before}})


@contextmanager
def config_file(cluster: Broken) -> Iterator[str]:
    cluster.patch("configmap", "files", {"data": {"cgroup.conf": "CgroupPlugin=disabled\nBogus=1\n"}})
    try:
        yield "controller/slurm"
    finally:
        cluster.patch("configmap", "files", {"data": {"cgroup.conf": "CgroupPlugin=disabled\n"}})


@contextmanager
def no_slurmrestd(cluster: Broken, target: str) -> Iterator[str]:
    cluster.patch("restapi", "slurm", {"spec": {"replicas": 0}})
    try:
        yield target
    finally:
        cluster.patch("restapi", "slurm", {"spec": {"replicas": 1}})


@contextmanager
def no_rest_api(cluster: Broken) -> Iterator[str]:
    found = cluster.get("restapi", "slurm")
    cluster.kubectl("delete", "restapi", "slurm")
    try:
        yield "nodeset/compute"
    finally:
        cluster.apply(plain("RestApi", "slurm", found["spec"]))


@contextmanager
def operator_stopped(cluster: Broken) -> Iterator[str]:
    pid = read_parts(cluster.home)["operator"].pid
    os.kill(pid, signal.SIGSTOP)
    cluster.patch("nodeset", "compute", {"spec": {"minReadySeconds": 1}})
    try:
        yield "nodeset/compute"
    finally:
        os.kill(pid, signal.SIGCONT)


Break = Callable[[Broken], AbstractContextManager[str]]
AFTER_EACH_OTHER: dict[str, tuple[Break, str, str]] = {
    "a cordoned pod": (pod_cordoned, "PodCordoned", "annotation"),
    "a cordoned Kubernetes node": (machine_cordoned, "KubernetesNodeCordoned", "local-0"),
    "a drain by somebody else": (drained, "DrainedBySomebody", "bad dimm"),
    "a job whose only node is drained": (drained_under_a_job, "DrainedBySomebody", "bad dimm"),
    "a held job": (lambda it: job(it, "-H"), "JobHeldUser", "holds"),
    "a job over its partition's time": (lambda it: job(it, "-p", "short", "-t", "60"), "PartitionTimeLimit", "1:00:00"),
    "a job of more nodes than there are": (
        lambda it: job(it, "-p", "short", "-N", "5"),
        "PartitionTooSmall",
        "5 nodes",
    ),
    "a job for later": (lambda it: job(it, "-b", "now+1hour"), "BeginTime", "before"),
    "a job after another job": (dependent_job, "Dependency", "another job"),
    "a job in a partition that is down": (lambda it: job(it, "-p", "down"), "PartitionNotUp", "DOWN"),
    "a partition that was set by hand": (partition_set_by_hand, "PartitionNotUp", "scontrol"),
    "a node record without a pod": (record_without_pod, "PodGone", "no pod"),
    "a line that Slurm does not know": (lambda it: extra_conf(it, "Bogus=1"), "LinterRefused", "Bogus"),
    "a plugin that is not there": (lambda it: extra_conf(it, "JobSubmitPlugins=lua"), "SlurmRefused", "lua"),
    "a file that Slurm does not understand": (config_file, "SlurmRefused", "Bogus"),
    "no slurmrestd": (lambda it: no_slurmrestd(it, "restapi/slurm"), "ScaledToZero", "replicas are 0"),
    "no slurmrestd for a NodeSet": (lambda it: no_slurmrestd(it, "nodeset/compute"), "ScaledToZero", "replicas are 0"),
    "no RestApi": (no_rest_api, "RestApiMissing", "RestApi"),
    "a stopped operator": (operator_stopped, "OperatorAbsent", "operator"),
    "a stopped slurmd": (
        lambda it: stopped(it, "compute-0", "slurmd", "slurmd", "node/compute-0"),
        "NotResponding",
        "does not hear",
    ),
    "a stopped slurmctld": (
        lambda it: stopped(it, "slurm-controller-0", "slurmctld", "slurmctld", "node/compute-0"),
        "SlurmSilent",
        "slurmctld",
    ),
}


@pytest.mark.parametrize(("broken", "code", "words"), AFTER_EACH_OTHER.values(), ids=AFTER_EACH_OTHER)
def test_what_breaks_later_has_its_cause_and_is_well_when_it_is_mended(
    cluster: Broken, broken: Break, code: str, words: str
) -> None:
    with broken(cluster) as target:
        cluster.expect(target, code, words)
    cluster.until("the worker is well again", lambda: cluster.why("node/compute-0")["ok"])
    cluster.until("so is its NodeSet", lambda: cluster.why("nodeset/compute")["ok"])


def test_a_good_cluster_has_no_cause(cluster: Broken) -> None:
    for target in ("controller/slurm", "restapi/slurm", "nodeset/compute", "node/compute-0", "partition/short"):
        cluster.until(f"{target} is well", lambda target=target: cluster.why(target)["ok"])  # type: ignore[misc]


def test_kubectl_finds_the_plugin_of_a_local_cluster(cluster: Broken) -> None:
    said = cluster.local("kubectl", "slurm", "--namespace", NAMESPACE, "partition", "list", "-o", "json")
    assert "short" in [row["name"] for row in json.loads(said)]
