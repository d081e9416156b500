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
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.real.local.broken import MANIFEST, STANDING, Standing, partition, plain
from tests.real.local.e2e.cluster import CORDON, NAMESPACE, CannotRun, LocalCluster

from slurm_operator.cli.kubectl.main import main as kubectl_slurm
from slurm_operator.local.supervisor import read_parts

pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-why"),
]

Json = dict[str, Any]
SECONDS = 30.0
LOOK_SECONDS = 0.3
# Answers that name no cause: something is on its way.
ON_THE_WAY = frozenset(
    {
        *("", "JustChanged", "NotScheduledYet", "Starting", "PodIsEnding", "NotCreatedYet", "RolloutNotSeen"),
        *("RollingOut", "WaitingForPods", "Working", "WorkersNotReady", "NotInSlurmYet", "Trying", "NotRegistered"),
        "WaitingForSlurmctld",
    }
)


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

    @property
    def kubectl_program(self) -> str:
        """Where kubectl is."""
        return str(self._kubectl)

    def expect(self, target: str, code: str, words: str, seconds: float = SECONDS) -> Json:
        """The cause must come, and no other one before it."""
        began, said = time.monotonic(), self.why(target)
        true = set(code.split("|"))
        while said.get("code", "") in ON_THE_WAY - true and time.monotonic() - began < seconds:
            time.sleep(LOOK_SECONDS)
            said = self.why(target)
        assert said.get("code") in true, said
        assert words in said["sentence"], said
        assert said["command"].startswith("kubectl "), said
        assert f"why {target}" not in said["command"], said
        return said

    def apply(self, *objects: Json) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "-f", "-", stdin=text)

    def patch(self, kind: str, name: str, patch: Json) -> None:
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    def sbatch(self, *options: str) -> str:
        """A job of the administrator's."""
        return self.admin(shlex.join(["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "sleep 300"]))


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
        # Otherwise every name stands for some image.
        rules = made.home.rules
        rules.write_text(rules.read_text().replace("match: '*'", "match: library/*"))
        made.kubectl("taint", "node", "local-2", "rack=closed:NoSchedule")
        made.kubectl("cordon", "local-1")
        made.apply(*(item for each in STANDING.values() for item in each.objects))
        yield made
    finally:
        made.reset()


@pytest.mark.parametrize("case", STANDING.values(), ids=STANDING)
def test_what_is_broken_from_the_start_has_its_cause(cluster: Broken, case: Standing) -> None:
    said = cluster.expect(case.target, case.code, case.words)
    assert case.next in said["command"], said


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
def set_down(cluster: Broken) -> Iterator[str]:
    cluster.admin("scontrol update nodename=compute-0 state=down reason='new psu'")
    try:
        yield "node/compute-0"
    finally:
        cluster.admin("scontrol update nodename=compute-0 state=resume")


@contextmanager
def drained_by_slurm(cluster: Broken) -> Iterator[str]:
    cluster.admin("scontrol update nodename=compute-0 state=drain reason='Kill task failed'")
    try:
        yield "node/compute-0"
    finally:
        cluster.admin("scontrol update nodename=compute-0 state=resume")


@contextmanager
def reserved(cluster: Broken) -> Iterator[str]:
    cluster.admin("scontrol create reservation reservationname=r starttime=now duration=9 users=root nodes=compute-0")
    try:
        cluster.until("the node says so", lambda: "RESERVED" in cluster.admin("scontrol show node compute-0"))
        yield "node/compute-0"
    finally:
        cluster.admin("scontrol delete reservationname=r")


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
    # Slurm reads its file once more when the new line is in it; what is set by hand before that is not a drift yet.
    published = ("get", "configmap", "slurm-config", "-o", "jsonpath={.data.slurm\\.conf}")
    cluster.until("it is in slurm.conf", lambda: "PartitionName=hand" in cluster.kubectl(*published))
    cluster.until("that is in force", lambda: cluster.condition("controller", "slurm", "ConfigApplied") == "True")
    cluster.admin("scontrol update partitionname=hand state=down")
    try:
        yield "partition/hand"
    finally:
        cluster.kubectl("delete", "partition", "hand")


@contextmanager
def stopped(cluster: Broken, pod: str, daemon: str) -> Iterator[str]:
    inside = ("exec", pod, "-c", daemon, "--", "sh", "-c")
    cluster.kubectl(*inside, f"kill -STOP $(pidof {daemon})")
    try:
        yield "node/compute-0"
    finally:
        cluster.kubectl(*inside, f"kill -CONT $(pidof {daemon})")


@contextmanager
def record_without_pod(cluster: Broken) -> Iterator[str]:
    cluster.admin(
        "scontrol create nodename=ghost cpus=1 state=cloud; scontrol update nodename=ghost state=down reason=gone"
    )
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
    "a node that somebody set down": (set_down, "SetDown", "new psu"),
    "a node that Slurm drained": (drained_by_slurm, "DrainedBySlurm", "Kill task failed"),
    "a node in a reservation": (reserved, "Reserved", "reservation r"),
    "a node record without a pod": (record_without_pod, "PodGone", "no pod"),
    "a line that Slurm does not know": (lambda it: extra_conf(it, "Bogus=1"), "LinterRefused", "Bogus"),
    "a plugin that is not there": (lambda it: extra_conf(it, "JobSubmitPlugins=nosuch"), "SlurmRefused", "nosuch"),
    "a file that Slurm does not understand": (config_file, "LinterRefused", "cgroup.conf line 2"),
    "no slurmrestd": (lambda it: no_slurmrestd(it, "restapi/slurm"), "ScaledToZero", "replicas are 0"),
    "no slurmrestd for a NodeSet": (lambda it: no_slurmrestd(it, "nodeset/compute"), "ScaledToZero", "replicas are 0"),
    "no RestApi": (no_rest_api, "RestApiMissing", "RestApi"),
    "a stopped operator": (operator_stopped, "OperatorAbsent", "operator"),
    "a stopped slurmd": (
        lambda it: stopped(it, "compute-0", "slurmd"),
        "NotAnswering|NotResponding",
        "slurmd",
    ),
    "a stopped slurmctld": (
        lambda it: stopped(it, "slurm-controller-0", "slurmctld"),
        "NotAnswering|SlurmSilent",
        "slurmctld",
    ),
}


@pytest.mark.parametrize(("broken", "code", "words"), AFTER_EACH_OTHER.values(), ids=AFTER_EACH_OTHER)
def test_what_breaks_later_has_its_cause_and_is_well_when_it_is_mended(
    cluster: Broken, broken: Break, code: str, words: str
) -> None:
    with broken(cluster) as target:
        cluster.expect(target, code, words)
    cluster.until("the workers are well again", lambda: cluster.why("nodeset/compute")["ok"])


def test_a_good_cluster_has_no_cause(cluster: Broken) -> None:
    for target in ("controller/slurm", "restapi/slurm", "nodeset/compute", "node/compute-0", "partition/short"):
        cluster.until(f"{target} is well", lambda target=target: cluster.why(target)["ok"])  # type: ignore[misc]


def test_kubectl_finds_the_plugin_of_a_local_cluster(cluster: Broken) -> None:
    said = cluster.local("kubectl", "slurm", "--namespace", NAMESPACE, "partition", "list", "-o", "json")
    assert "short" in [row["name"] for row in json.loads(said)]
