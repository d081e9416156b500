"""The demo on a cluster that somebody has played with: a claim that stays Pending, an image that is none, nodes held by
a job, and a NodeSet that is being deleted with a job on it. Nothing of that stops it, and all of it is as it was after.

Needs root, and an image in the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.local.test_cluster import DEMO, Cluster, until

ROOT = Path(__file__).parents[3]
LEFTOVERS = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: leftover, namespace: slurm}
spec: {accessModes: [ReadWriteOnce], storageClassName: nosuch, resources: {requests: {storage: 1Gi}}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: badimg, namespace: slurm}
spec: {controllerRef: {name: slurm}, replicas: 1, oversubscribeNode: true, slurmd: {image: "x/slurmd:nosuch"}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: old, namespace: slurm}
spec: {controllerRef: {name: slurm}, replicas: 1, oversubscribeNode: true, partition: {enabled: true}}
"""
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-cluster"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("demo") / "cluster")
    try:
        made.local("up", "-f", str(DEMO), "--timeout", "300")
        until(lambda: "compute*" in made.alice("sinfo"), "the partitions")
        yield made
    finally:
        made.local("reset", check=False)


def test_the_demo_comes_to_its_end_among_leftovers(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "leftovers.yaml").write_text(LEFTOVERS)
    cluster.kubectl("apply", "-f", str(tmp_path / "leftovers.yaml"))
    until(lambda: cluster.alice("sinfo", "-h", "-p", "old", "-o", "%t") == "idle", "the node of old")
    held = cluster.alice("sbatch", "--parsable", "-p", "compute", "-N2", "--wrap", "sleep 3000")
    kept = cluster.alice("sbatch", "--parsable", "-p", "old", "--wrap", "sleep 3000")

    def run() -> bool:
        return [cluster.alice("squeue", "-h", "-j", job, "-o", "%T") for job in (held, kept)] == ["RUNNING"] * 2

    until(run, "both jobs")
    cluster.kubectl("delete", "nodeset", "-n", "slurm", "old", "--wait=false")
    command = [sys.executable, str(ROOT / "tools" / "demo.py"), "--data", str(cluster.home.data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PersistentVolumeClaim slurm/leftover is not waited for" in done.stderr
    assert "NodeSet slurm/old is not waited for because it is being deleted" in done.stderr
    assert f"job {held}" in done.stdout
    assert "COMPLETED" in done.stdout
    assert run()


def test_every_command_that_the_demo_prints_in_the_end_runs_as_it_is_printed(cluster: Cluster) -> None:
    """`slurm-operator local status` was "command not found" outside of .venv/bin."""
    code = "from slurm_operator.cli.invocation import Typed; from pathlib import Path; import sys;"
    code += "print(Typed(data=Path(sys.argv[1])).local('status', '-o', 'json'))"
    shell = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    asked = [sys.executable, "-c", code, str(cluster.home.data)]
    printed = subprocess.run(asked, capture_output=True, text=True, env=shell, cwd="/", check=True).stdout
    ran = subprocess.run(["sh", "-c", printed], capture_output=True, text=True, env=shell, cwd="/", check=False)
    assert json.loads(ran.stdout)["answers"]
