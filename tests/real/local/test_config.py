"""Configurations in a whole local cluster with real Slurm: in force at once, refused without a trace, rolled back.

Needs root and an image of each Slurm; where it cannot run it is skipped loudly.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.local.e2e.cluster import REST, CannotRun, LocalCluster

pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-config"),
]

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
  more.conf: |
    BatchStartTimeout=20
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm, namespace: slurm}
spec:
  slurmKeyRef: {name: slurm-key, key: slurm.key}
  jwtKeyRef: {name: jwt-key, key: jwt.key}
  persistence: {enabled: true, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  configFileRefs: [{name: files}]
  slurmctld: {image: "ghcr.io/slinkyproject/slurmctld:VERSION", readinessProbe: {periodSeconds: 1}}
  extraConf: |
    ProctrackType=proctrack/linuxproc
    TaskPlugin=task/none
    Include more.conf
---
apiVersion: slinky.slurm.net/v1beta1
kind: RestApi
metadata: {name: slurm, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  slurmrestd: {image: "ghcr.io/slinkyproject/slurmrestd:VERSION", readinessProbe: {periodSeconds: 1}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: compute, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  replicas: 1
  slurmd: {image: "ghcr.io/slinkyproject/slurmd:VERSION", readinessProbe: {periodSeconds: 1}}
  partition: {enabled: true, config: "Default=YES"}
"""
EXTRA = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nInclude more.conf\n"


class Configured(LocalCluster):
    """A cluster whose configuration is changed."""

    def set_extra(self, lines: str) -> None:
        patch = {"spec": {"extraConf": EXTRA + lines}}
        self.kubectl("patch", "controller", "slurm", "--type=merge", "-p", json.dumps(patch))

    def said(self, which: str) -> tuple[str, str, str]:
        found: list[dict[str, Any]] = self.get("controller", "slurm").get("status", {}).get("conditions", [])
        return next(
            ((one["status"], one["reason"], one["message"]) for one in found if one["type"] == which), ("",) * 3
        )

    def running(self, key: str) -> str:
        return self.admin(f"scontrol show config | sed -n 's/^{key} *= *//p'")

    def config(self, *arguments: str, code: int = 0) -> str:
        """A command of `kubectl slurm config`."""
        program = [sys.executable, "-m", "slurm_operator.cli.kubectl.main"]
        where = ["--kubeconfig", str(self.home.kubeconfig), "-n", "slurm"]
        command = [*program, *where, "config", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def published(self) -> str:
        text: str = self.get("configmap", "slurm-config")["data"]["slurm.conf"]
        return text


@pytest.fixture(scope="module", params=sorted(REST))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    """One small cluster of each version."""
    folder: Path = tmp_path_factory.mktemp("config")
    manifest = folder / "manifest.yaml"
    manifest.write_text(MANIFEST)
    made = Configured(folder / "cluster", request.param)
    try:
        made.prepare()
    except CannotRun as error:
        pytest.skip(f"no local cluster: {error}")
    try:
        made.up(manifest)
        made.until("the first configuration is in force", lambda: made.said("ConfigApplied")[0] == "True")
        yield made
    finally:
        made.reset()


def test_a_line_of_extra_conf_is_in_force_without_a_restart(cluster: Configured) -> None:
    before = cluster.pods()
    cluster.set_extra("MinJobAge=301\n")
    cluster.until("the running configuration has it", lambda: cluster.running("MinJobAge") == "301 sec")
    cluster.until("it is published", lambda: "MinJobAge=301" in cluster.published())
    cluster.until("the condition says so", lambda: cluster.said("ConfigApplied")[:2] == ("True", "InForce"))
    assert cluster.pods() == before


def test_a_file_of_the_users_own_is_in_force_when_it_changes(cluster: Configured) -> None:
    patch = {"data": {"more.conf": "BatchStartTimeout=21\n"}}
    cluster.kubectl("patch", "configmap", "files", "--type=merge", "-p", json.dumps(patch))
    cluster.until("the running configuration has it", lambda: cluster.running("BatchStartTimeout") == "21 sec")


def test_what_slurm_refuses_stays_outside_even_when_the_pod_is_made_anew(cluster: Configured) -> None:
    good = cluster.published()
    cluster.set_extra("MinJobAge=302\nJobSubmitPlugins=nosuch\n")
    cluster.until("it is refused", lambda: cluster.said("ConfigValid")[1] == "SlurmRefused")
    place, _, words = cluster.said("ConfigValid")[2].partition(": ")
    where, _, line = place.rpartition(" line ")
    extra = cluster.get("controller", "slurm")["spec"]["extraConf"]
    assert (where, extra.splitlines()[int(line) - 1]) == ("Controller slurm spec.extraConf", "JobSubmitPlugins=nosuch")
    assert "job_submit" in words
    assert cluster.published() == good
    cluster.kubectl("delete", "pod", "slurm-controller-0")
    cluster.until("slurmctld is back", lambda: cluster.condition("pod", "slurm-controller-0") == "True")
    assert cluster.running("JobSubmitPlugins") == "(null)"
    cluster.set_extra("MinJobAge=301\n")
    cluster.until("all is well again", lambda: cluster.said("ConfigApplied")[0] == "True")


def test_what_only_slurmd_refuses_reaches_nobody_and_a_job_runs_on(cluster: Configured) -> None:
    cluster.until("the worker takes jobs", lambda: "idle" in cluster.admin("sinfo -h -o %t"))
    good, candidate = cluster.published(), cluster.get("configmap", "slurm-config-candidate")["data"]
    job = cluster.admin("sbatch --parsable -D / -o /dev/null --wrap 'sleep 900'")
    cluster.until("the job runs", lambda: cluster.admin(f"squeue -h -j {job} -o %t") == "R")
    began = cluster.admin(f"squeue -h -j {job} -o %S")
    # slurmctld has no use for it, and this image lacks it.
    cluster.set_extra("MinJobAge=302\nAcctGatherEnergyType=acct_gather_energy/ipmi\n")
    took = cluster.until("slurmd refuses it", lambda: cluster.said("ConfigValid")[1] == "SlurmdRefused", 120)
    message = cluster.said("ConfigValid")[2]
    print(f"Slurm {cluster.version}: refused by slurmd after {took:.1f} s: {message}")
    assert "acct_gather_energy/ipmi" in message
    assert "slurmd of NodeSet compute" in message
    assert cluster.published() == good
    assert cluster.get("configmap", "slurm-config-candidate")["data"] == candidate
    cluster.set_extra("MinJobAge=302\nUnkillableStepTimeout=200\n")
    took = cluster.until("the next one is in force", lambda: cluster.running("UnkillableStepTimeout") == "200 sec", 120)
    print(f"Slurm {cluster.version}: tried by slurmd, and in force after {took:.1f} s")
    cluster.until("all is well again", lambda: cluster.said("ConfigValid")[:2] == ("True", "Tried"))
    cluster.until("no trial is left", lambda: not [name for name in cluster.pods() if "-trial-" in name])
    assert not [one for one in cluster.objects("configmaps") if "-trial-" in one["metadata"]["name"]]
    assert cluster.admin("sinfo -h -N -o %N") == "compute-0"
    assert (cluster.admin(f"squeue -h -j {job} -o %t"), cluster.admin(f"squeue -h -j {job} -o %S")) == ("R", began)
    cluster.admin(f"scancel {job}")
    cluster.set_extra("MinJobAge=301\n")
    cluster.until("what went before is back", lambda: cluster.said("ConfigApplied")[0] == "True")


def test_what_the_linter_refuses_names_its_line_and_is_not_even_tried(cluster: Configured) -> None:
    cluster.set_extra("MinJobAge=301\nBogus=1\n")
    cluster.until("it is refused", lambda: cluster.said("ConfigValid")[1] == "LinterRefused")
    assert "unknown key Bogus" in cluster.said("ConfigValid")[2]
    assert "Bogus" not in cluster.get("configmap", "slurm-config-candidate")["data"]["slurm.conf"]
    cluster.set_extra("MinJobAge=301\n")
    cluster.until("all is well again", lambda: cluster.said("ConfigValid")[0] == "True")


def test_without_the_check_a_bad_one_is_rolled_back_and_slurmctld_never_restarts(cluster: Configured) -> None:
    before = cluster.get("pod", "slurm-controller-0")["status"]["containerStatuses"][0]["containerID"]
    cluster.kubectl("annotate", "controller", "slurm", "slinky.slurm.net/config-check=off")
    cluster.set_extra("MinJobAge=301\nSchedulerType=sched/nosuch\n")
    cluster.until("it is rolled back", lambda: cluster.said("ConfigValid")[1] == "RolledBack")
    assert "sched/nosuch" in cluster.said("ConfigValid")[2]
    assert "is UP" in cluster.admin("scontrol ping")
    cluster.kubectl("annotate", "controller", "slurm", "slinky.slurm.net/config-check-")
    cluster.set_extra("MinJobAge=301\n")
    cluster.until("all is well again", lambda: cluster.said("ConfigApplied")[0] == "True")
    assert cluster.get("pod", "slurm-controller-0")["status"]["containerStatuses"][0]["containerID"] == before


def test_the_history_is_shown_compared_and_gone_back_to(cluster: Configured) -> None:
    cluster.set_extra("MinJobAge=301\n")
    cluster.until("it is kept", lambda: _newest(cluster)["state"] == "live" and _newest(cluster)["revision"] != "-", 20)
    first = _newest(cluster)["revision"]
    cluster.set_extra("MinJobAge=3\n")
    patch = {"data": {"more.conf": "BatchStartTimeout=23\n"}}
    cluster.kubectl("patch", "configmap", "files", "--type=merge", "-p", json.dumps(patch))
    cluster.until("the mistake is in force", lambda: cluster.running("MinJobAge") == "3 sec")
    cluster.until("it is kept", lambda: int(_newest(cluster)["revision"].replace("-", "0")) > int(first), 20)
    assert "Controller/slurm: extraConf" in _newest(cluster)["change"]
    assert "+MinJobAge=3" in cluster.config("diff", first, code=1).splitlines()
    dry = cluster.config("rollback", "--dry-run", first)
    assert "ConfigMap files: more.conf" in dry
    assert cluster.running("MinJobAge") == "3 sec"
    said = cluster.config("rollback", first)
    print(f"Slurm {cluster.version}: {said}")
    assert f"slurmctld runs with revision {first} again" in said
    assert (cluster.running("MinJobAge"), cluster.running("BatchStartTimeout")) == ("301 sec", "21 sec")
    assert cluster.config("diff", first).strip().endswith("they are the same")


def _newest(cluster: Configured) -> dict[str, str]:
    rows: list[dict[str, str]] = json.loads(cluster.config("history", "-o", "json"))
    return rows[0]
