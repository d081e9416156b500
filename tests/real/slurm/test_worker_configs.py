"""The corpus of configurations on real daemons: slurmctld takes each, slurmd starts with the good ones alone.

The linter is held against the same corpus in `tests/plan/test_worker_configs.py`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.real.slurm import rootfs
from tests.real.slurm.cluster import SLURM_CONF, Cluster, require_namespaces

pytestmark = [pytest.mark.real_slurm, pytest.mark.timeout(120)]

CORPUS = Path(__file__).parents[2] / "slurm" / "worker_configs"
VERSIONS = ("24.11", "26.05")
PROCTRACK = "ProctrackType=proctrack/linuxproc\n"
# What a case says itself is not said before it: a second value would only be a warning of Slurm's.
LEFT_TO_CASES = ("ProctrackType", "TaskPlugin", "SelectType", "ReturnToService", "SchedulerParameters")
BASE = "".join(f"{line}\n" for line in SLURM_CONF.splitlines() if not line.startswith(LEFT_TO_CASES))
# Each case begins with job 1 again: what is left of that of the case before, a slurmstepd or a mount, would end it.
# slurmd has so many tenths of a second to register, on a machine with other work.
TRIAL = """
pkill -9 slurmstepd; grep -o ' /var/tmp/[^ ]*' /proc/mounts | sort -r | xargs -r umount -l; rm -rf /var/tmp/*
cd /tmp; rm -rf /var/spool/slurmctld/* /var/spool/slurmd/*; mkdir -p /var/spool/slurmd/n0; rm -f /tmp/*.log
slurmctld -D -i >/tmp/ctld.log 2>&1 & ctld=$!
for _ in $(seq 200); do
  grep -q 'Running as primary controller' /tmp/ctld.log && break
  kill -0 $ctld 2>/dev/null || { echo "slurmctld: $(grep fatal /tmp/ctld.log)"; exit; }
  sleep 0.1
done
slurmd -D -Z -N n0 --conf "Port=17000 Feature=compute $1" >/tmp/slurmd.log 2>&1 & slurmd=$!
said="slurmd does not register"
for _ in $(seq 300); do
  scontrol show node n0 2>/dev/null | grep -q State=IDLE && { said=idle; break; }
  kill -0 $slurmd 2>/dev/null || { said="slurmd: $(grep -E 'fatal|error' /tmp/slurmd.log)"; break; }
  sleep 0.1
done
# The first job after a registration may be turned away. With job_container/tmpfs, every other slurmstepd of 26.05 ends
# before it says anything, whatever the configuration: only then are there more tries.
for try in $(seq 15); do
  [ "$said" = runs ] || [ "${said#slurmd}" != "$said" ] && break
  [ $try -le 3 ] || grep -q 'Can not read return code from slurmstepd' /tmp/slurmd.log && [ $SECONDS -lt 80 ] || break
  timeout -k 1 10 srun -w n0 true >/tmp/srun.log 2>&1 && said=runs || said="srun: $(tail -n 5 /tmp/{srun,slurmd}.log)"
done
kill -9 $slurmd $ctld 2>/dev/null; wait 2>/dev/null
echo "$said"
"""


def corpus(name: str, version: str) -> dict[str, Any]:
    cases = yaml.safe_load((CORPUS / f"{name}.yaml").read_text())
    return {case["name"]: case for case in cases if version in case.get("versions", VERSIONS)}


def every(name: str) -> list[Any]:
    return [
        pytest.param(version, case, id=f"{version}: {case}") for version in VERSIONS for case in corpus(name, version)
    ]


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, Cluster]]:
    """Empty namespaces for each version, made when the first case asks."""
    made: dict[str, Cluster] = {}
    yield made
    for cluster in made.values():
        cluster.stop()


def tried(clusters: dict[str, Cluster], version: str, case: dict[str, Any]) -> str:
    """What becomes of a worker with this configuration: `runs`, or why not."""
    try:
        root = rootfs.provide(version)
        require_namespaces()
    except rootfs.CannotProvision as missing:
        pytest.skip(f"no real Slurm {version}: {missing}")
    if version not in clusters:
        clusters[version] = Cluster(version, root)
        clusters[version].start_empty()
    cluster = clusters[version]
    files = {"cgroup.conf": "CgroupPlugin=disabled\n", "slurm.conf": BASE + case.get("extra", PROCTRACK)}
    cluster.shell("find /etc/slurm -type f ! -name '*.key' -delete; : > /etc/slurm/plugstack.conf")
    for name, text in {**files, **case.get("files", {})}.items():
        command = [*cluster.enter(), "/bin/sh", "-c", f"cat > /etc/slurm/{name}"]
        subprocess.run(command, input=text.encode(), check=True, timeout=20)
    return cluster.run("/bin/bash", "-c", TRIAL, "trial", case.get("node", ""), timeout=100).strip()


@pytest.mark.parametrize(("version", "name"), every("good"))
def test_a_good_one_runs_a_job(clusters: dict[str, Cluster], version: str, name: str) -> None:
    assert tried(clusters, version, corpus("good", version)[name]) == "runs"


@pytest.mark.parametrize(("version", "name"), every("bad"))
def test_a_bad_one_stops_the_worker_and_not_slurmctld(clusters: dict[str, Cluster], version: str, name: str) -> None:
    said = tried(clusters, version, corpus("bad", version)[name])
    assert said.startswith(("slurmd", "srun:")), said
