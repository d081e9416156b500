"""slurmctld serves the metrics that alerts, dashboards and the guide on autoscaling name.

`tests/charts/slurm_metrics.yaml` is what it served when it was recorded; `python -m tests.real.slurm.test_metrics` on a
machine with real Slurm writes it anew.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.real.slurm import rootfs
from tests.real.slurm.cluster import Cluster

from slurm_operator.build.controller import METRICS_PATHS

pytestmark = pytest.mark.real_slurm

RECORDED = Path(__file__).parents[2] / "charts" / "slurm_metrics.yaml"
HEAD = (
    "# Every metric that slurmctld 26.05 serves, with its labels. Written by: python -m tests.real.slurm.test_metrics\n"
)
FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


def served(cluster: Cluster) -> dict[str, list[str]]:
    """The names of all samples of a cluster, with their labels."""
    cluster.shell("cp /etc/slurm/slurm.conf /run/before; echo MetricsType=metrics/openmetrics >> /etc/slurm/slurm.conf")
    cluster.stop_controller()
    cluster.start_controller()
    try:
        return dict(sorted(_samples(cluster)))
    finally:
        cluster.shell("cp /run/before /etc/slurm/slurm.conf")
        cluster.stop_controller()
        cluster.start_controller()


def _samples(cluster: Cluster) -> Iterator[tuple[str, list[str]]]:
    for path in METRICS_PATHS:
        command = [*cluster.enter_network(), sys.executable, "-c", FETCH, f"http://127.0.0.1:6817{path}"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        for family in text_string_to_metric_families(text):
            yield from ((sample.name, sorted(sample.labels)) for sample in family.samples)


def test_slurmctld_serves_what_was_recorded(slurm: Cluster) -> None:
    if slurm.version != "26.05":
        pytest.skip("metrics are served from Slurm 25.11 on")
    assert served(slurm) == yaml.safe_load(RECORDED.read_text())
    slurm.quiet()


if __name__ == "__main__":
    recorded = Cluster("26.05", rootfs.provide("26.05"))
    try:
        recorded.start()
        RECORDED.write_text(HEAD + yaml.safe_dump(served(recorded), default_flow_style=None, width=120))
    finally:
        recorded.stop()
