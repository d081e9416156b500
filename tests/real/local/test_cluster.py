"""A whole local cluster with real Slurm: the demo's manifests, a job, killed parts, down and up, and no trace after.

Needs root, and an image in the cache (it is built when it is not there). Where it cannot run it is skipped loudly.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_local.node.paths import Paths
from slurm_operator.local.home import PARTS, Home
from slurm_operator.local.supervisor import read_parts, supervisor_pid

DEMO = Path(__file__).parents[3] / "examples" / "demo"
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    # One cluster for all tests of this file, in their order.
    pytest.mark.xdist_group("local-cluster"),
]


class Cluster:
    """`slurm-operator local` on one data folder."""

    def __init__(self, data: Path) -> None:
        self.home = Home(data)

    def local(self, *arguments: str, check: bool = True) -> str:
        command = [
            sys.executable,
            "-m",
            "slurm_operator.cli.main",
            "local",
            arguments[0],
            "--data",
            str(self.home.data),
        ]
        done = subprocess.run([*command, *arguments[1:]], capture_output=True, text=True, timeout=600, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kubectl(self, *arguments: str) -> str:
        return self.local("kubectl", "--", *arguments)

    def alice(self, *command: str) -> str:
        return self.local("shell", "--", *command).strip()

    def submit(self, script: str) -> str:
        return self.alice("sbatch", "--parsable", "-N2", "--wrap", script)

    def job_state(self, job: str) -> str:
        return self.alice("sacct", "-nXP", "-j", job, "-o", "State")

    def containers(self) -> dict[str, list[str]]:
        pods: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-A", "-o", "json"))["items"]
        return {
            pod["metadata"]["name"]: [one["containerID"] for one in pod["status"]["containerStatuses"]] for pod in pods
        }

    def is_healthy(self) -> bool:
        said = self.local("status", "-o", "json", check=False)
        return bool(said) and bool(json.loads(said)["healthy"])


def until(is_so: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("local") / "cluster")
    try:
        made.local("up", "-f", str(DEMO), "--timeout", "180")
        until(lambda: "compute*" in made.alice("sinfo"), "the partitions")
        yield made
    finally:
        made.local("reset", check=False)


def test_a_job_of_an_ordinary_user_runs_on_two_nodes_and_is_accounted(cluster: Cluster) -> None:
    job = cluster.submit("srun hostname")
    until(lambda: cluster.job_state(job) == "COMPLETED", f"job {job}")


def test_up_again_changes_nothing(cluster: Cluster) -> None:
    before = cluster.containers()
    cluster.local("up", "-f", str(DEMO), "--timeout", "60")
    assert cluster.containers() == before


def test_a_cluster_ip_answers_this_machine_and_pods(cluster: Cluster) -> None:
    """By number no Service answered (U14)."""
    address = cluster.kubectl("get", "service", "-n", "slurm", "slurm-restapi", "-o", "jsonpath={.spec.clusterIP}")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"http://{address}:6820/slurm/v0.0.44/ping", timeout=10)
    with socket.socket() as probe:
        assert probe.connect_ex((address, 6821)) == errno.ECONNREFUSED
    code = cluster.alice("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://{address}:6820/slurm/")
    assert code in ("401", "404")


def test_a_log_file_is_read_without_taking_lines_from_anybody(cluster: Cluster) -> None:
    """slurmctld.log was a pipe: tail hung, and cat stole lines (U9)."""

    def tail() -> str:
        where = ("exec", "-n", "slurm", "slurm-controller-0", "-c", "slurmctld", "--")
        return cluster.kubectl(*where, "timeout", "20", "tail", "-n", "5", "/var/log/slurm/slurmctld.log")

    assert tail()
    cluster.alice("scontrol", "ping")
    job = cluster.submit("true")
    until(lambda: f"JobId={job}" in tail(), "the job in the log")
    until(
        lambda: f"JobId={job}" in cluster.kubectl("logs", "-n", "slurm", "slurm-controller-0", "-c", "logfile"),
        "the same line in the log of the sidecar",
    )
    worker = ("exec", "-n", "slurm", "compute-0", "-c", "slurmd", "--")
    script = "cat /var/log/slurm/slurmd.log >/dev/null && ! su alice -c 'cat /var/log/slurm/slurmd.log' 2>&1"
    assert "Permission denied" in cluster.kubectl(*worker, "sh", "-c", script)


def test_an_image_that_was_never_built_cannot_be_pulled(cluster: Cluster, tmp_path: Path) -> None:
    """A wrong tag ran as some other Slurm, and `why` said that all was well (U11)."""
    spec = {"containers": [{"name": "a", "image": "x/slurmd:nosuch"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "never", "namespace": "default"}, "spec": spec}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    cluster.kubectl("apply", "-f", str(tmp_path / "pod.json"))

    def waiting() -> str:
        path = "jsonpath={.status.containerStatuses[0].state.waiting}"
        return cluster.kubectl("get", "pod", "-n", "default", "never", "-o", path)

    until(lambda: "ImagePullBackOff" in waiting(), "ImagePullBackOff")
    assert "the rule */slurmd*:* of images.yaml builds tags latest" in waiting()
    cluster.kubectl("delete", "pod", "-n", "default", "never", "--wait=false")


def test_the_restart_trigger_restarts_slurmctld_and_no_other_annotation_does(cluster: Cluster) -> None:
    def pod() -> str:
        return cluster.kubectl("get", "pod", "-n", "slurm", "slurm-controller-0", "-o", "jsonpath={.metadata.uid}")

    before = pod()
    cluster.kubectl("annotate", "controller", "-n", "slurm", "slurm", "note=x")
    cluster.kubectl("annotate", "controller", "-n", "slurm", "slurm", "restart-trigger=1")
    until(lambda: pod() not in ("", before), "a new pod")
    until(cluster.is_healthy, "healthy")
    path = "jsonpath={.metadata.annotations}"
    carried = cluster.kubectl("get", "pod", "-n", "slurm", "slurm-controller-0", "-o", path)
    assert '"restart-trigger":"1"' in carried
    assert '"note"' not in carried


@pytest.mark.parametrize("part", PARTS)
def test_a_killed_part_comes_back_without_a_container_noticing(cluster: Cluster, part: str) -> None:
    before, job = cluster.containers(), cluster.submit("sleep 5")
    os.kill(read_parts(cluster.home)[part].pid, signal.SIGKILL)
    until(lambda: read_parts(cluster.home)[part].is_running, part)
    until(cluster.is_healthy, "healthy")
    assert cluster.containers() == before
    until(lambda: cluster.job_state(job) == "COMPLETED", f"job {job}")


def test_parts_outlive_a_killed_supervisor_and_the_next_one_takes_them_over(cluster: Cluster) -> None:
    before = {name: part.pid for name, part in read_parts(cluster.home).items()}
    os.kill(supervisor_pid(cluster.home), signal.SIGKILL)
    until(lambda: supervisor_pid(cluster.home) == 0, "the supervisor's end")
    assert not cluster.is_healthy()
    cluster.local("up", "--timeout", "60")
    assert {name: part.pid for name, part in read_parts(cluster.home).items()} == before


def test_jobs_and_objects_outlast_down_and_up(cluster: Cluster) -> None:
    accounted = cluster.alice("sacct", "-nXP", "-o", "JobID,State")
    cluster.kubectl("config", "set-context", "--current", "--namespace=slurm")
    cluster.local("down")
    assert not traces(cluster.home, with_files=False)
    cluster.local("up", "--port", "0", "--timeout", "180")
    # What a person chose (U14).
    assert "compute-0" in cluster.kubectl("get", "pods")
    assert cluster.alice("sacct", "-nXP", "-o", "JobID,State") == accounted
    assert set(cluster.containers()) >= {"compute-0", "compute-1", "debug-0", "slurm-controller-0"}


def test_nothing_is_left_after_a_reset(cluster: Cluster) -> None:
    cluster.local("reset")
    assert not traces(cluster.home, with_files=True)


def traces(home: Home, *, with_files: bool) -> list[str]:
    """Everything on this machine that bears the cluster's name."""
    prefix, folder = Paths.of(home.data).prefix, str(home.data)
    found = [f"mount {line.split()[1]}" for line in Path("/proc/mounts").read_text().splitlines() if folder in line]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    found += [f"link {line}" for line in links.splitlines() if prefix in line]
    spaces = Path("/run/netns")
    found += [f"netns {entry.name}" for entry in (spaces.iterdir() if spaces.is_dir() else ()) if prefix in entry.name]
    found += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"*/{prefix}*")]
    found += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"{prefix}*")]
    found += [f"process {command}" for command in _commands() if folder in command]
    return found + ([folder] if with_files and home.data.exists() else [])


def _commands() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return found
