"""Devices that gres.conf names and no worker asks for: `check` warns, since slurmd would wait for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_operator.cli.check import check
from slurm_operator.cli.world import load

CONTROLLER = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: files, namespace: slurm}}
data:
  cgroup.conf: CgroupPlugin={cgroup}
  gres.conf: {gres}
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {{name: slurm, namespace: slurm}}
spec:
  slurmKeyRef: {{name: keys, key: key, optional: true}}
  jwtKeyRef: {{name: keys, key: key, optional: true}}
  configFileRefs: [{{name: files}}]
  extraConf: |
    ProctrackType=proctrack/linuxproc
    {types}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {{name: compute, namespace: slurm}}
spec:
  controllerRef: {{name: slurm}}
  replicas: 1
{more}
"""
RECORD = "NodeName=compute-[0-9] Name=gpu File=/dev/nvidia[0-1]"


def found(
    folder: Path, gres: str, more: str = "", *, types: str = "GresTypes=gpu", cgroup: str = "disabled"
) -> list[tuple[int, str]]:
    """Line and message of each such warning."""
    path = folder / "cluster.yaml"
    path.write_text(CONTROLLER.format(gres=gres, more=more, types=types, cgroup=cgroup))
    return [(each.line, each.message) for each in check(load([str(path)])) if each.code == "NoDevice"]


@pytest.mark.parametrize("gres", [RECORD, "Name=gpu File=/dev/nvidia[0-1]"], ids=["for its nodes", "for all nodes"])
def test_a_device_that_no_worker_asks_for_is_a_warning(tmp_path: Path, gres: str) -> None:
    ((line, message),) = found(tmp_path, gres)
    assert line == 6
    assert message.startswith("workers of compute do not ask Kubernetes for a device: unless their container runtime")
    assert "gives them /dev/nvidia0, /dev/nvidia1, slurmd waits for it" in message


@pytest.mark.parametrize(
    ("gres", "more"),
    [
        (RECORD, "  slurmd: {resources: {limits: {nvidia.com/gpu: 2}}}"),
        (RECORD, "  template: {spec: {runtimeClassName: nvidia}}"),
        (RECORD, "  slurmd: {volumeMounts: [{name: dev, mountPath: /dev}]}"),
        (RECORD.replace("compute-", "gpu-"), ""),
        ("Name=gpu File=/dev/null", ""),
        ("Name=gpu File=/opt/gpu0", ""),
        ("AutoDetect=nvml", ""),
        ("NodeName=compute-[0 Name=gpu File=/dev/a", ""),
    ],
    ids=["limit", "runtime", "mount", "other nodes", "common", "no device", "detected", "no list"],
)
def test_what_a_worker_may_have_is_not_judged(tmp_path: Path, gres: str, more: str) -> None:
    assert found(tmp_path, gres, more) == []


def test_a_privileged_worker_has_the_devices_of_its_node(tmp_path: Path) -> None:
    assert found(tmp_path, RECORD, cgroup="cgroup/v2") == []


def test_a_file_that_slurm_does_not_read_is_not_judged(tmp_path: Path) -> None:
    assert found(tmp_path, RECORD, types="KillWait=30") == []
