"""`slurm-operator run` as a process: what it serves to those who look after it."""

from __future__ import annotations

import asyncio
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube_local.apiserver import ApiServer
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.objects import CRDS
from slurm_operator import __version__
from slurm_operator.api.crd import definitions
from slurm_operator.reconcile.resources import OURS

CONTROLLER = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "Controller",
    "metadata": {"name": "slurm", "namespace": "default"},
    "spec": {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}},
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Path]:
    api = ApiServer()
    await api.start()
    path = tmp_path / "kubeconfig"
    path.write_text(api.kubeconfig())
    async with Client.to(kubeconfig.find(path=str(path))) as client:
        for definition in definitions():
            await client.create(CRDS, definition)
        await client.create(OURS["Controller"], CONTROLLER, "default")
    yield path
    await api.stop()


def scrape(port: int) -> dict[str, float]:
    """Every sample, as it is written; nothing while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = [line.rpartition(" ") for line in answer.read().decode().splitlines() if not line.startswith("#")]
    except urllib.error.URLError:
        return {}
    return {name: float(value) for name, _, value in lines}


@pytest.mark.timeout(60)
async def test_a_scrape_tells_of_the_operator_its_calls_and_its_resources(server: Path) -> None:
    port = free_port()
    arguments = ["run", "--kubeconfig", str(server), "--health-addr=0", f"--metrics-addr=127.0.0.1:{port}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "slurm_operator.cli.main", *arguments, "--leader-elect", stderr=asyncio.subprocess.DEVNULL
    )
    ready = 'slurm_operator_condition{kind="Controller",name="slurm",namespace="default"'
    told: dict[str, float] = {}
    try:
        while not any(name.startswith(ready) for name in told):
            await asyncio.sleep(0.1)
            told = await asyncio.to_thread(scrape, port)
    finally:
        process.terminate()
        assert await process.wait() == 0
    assert told["slurm_operator_leader"] == 1
    assert told[f'slurm_operator_build_info{{version="{__version__}"}}'] == 1
    assert told['slurm_operator_api_requests_total{code="200",resource="controllers",verb="list"}'] >= 1
    assert told['slurm_operator_cache_age_seconds{kind="Secret/"}'] < 60
    assert told["slurm_operator_loop_stalls_total"] == 0
    said = [name for name in told if name.startswith(ready) and 'type="Ready"' in name]
    assert [told[name] for name in said] == [1.0]
    assert 'status="False"' in said[0]
    assert sum(value for name, value in told.items() if name.startswith("slurm_operator_reconcile_total")) >= 1
