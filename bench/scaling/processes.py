"""The other processes of the benchmark: the operator that is measured, or its peer, and the stand-in of Slurm.

In: a cluster, and what to run. Out: a running process with what the kernel says of it; a stand-in with what it counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from bench.scaling.objects import Json
from tests.real.kube.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 10.0
LEASE_NAMESPACE = "default"
STAND_IN, REAL_SLURM = "bench.scaling.slurm_server", "bench.real_slurm.server"
STAND_IN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Program:
    """What is measured: a command line, by which user agent its requests are known, and whether it is our own."""

    command: tuple[str, ...]
    agent: str
    is_peer: bool = False
    # Flags of Go's kind are the same for both; a peer finds slurmrestd by its Service, through a proxy.
    profile: str = ""

    def arguments(self, cluster: Cluster) -> list[str]:
        """The whole command line."""
        kubeconfig = str(cluster.kubeconfig_path)
        if self.is_peer:
            return [each.replace("{kubeconfig}", kubeconfig) for each in self.command]
        wrapped = ["-m", "cProfile", "-o", self.profile] if self.profile else []
        ours = [
            "-m",
            "slurm_operator",
            "run",
            "--kubeconfig",
            kubeconfig,
            "--restapi-address",
            "http://127.0.0.1:{port}",
        ]
        # As the chart starts it: what the lease costs is part of what rest costs.
        led = ["--leader-elect", "--leader-elect-namespace", LEASE_NAMESPACE]
        return [sys.executable, *wrapped, *ours, *led, "--health-addr", "0", "--metrics-addr", "0"]

    def environment(self, cluster: Cluster, proxy_port: int) -> dict[str, str]:
        """Its environment; only a peer needs to be led to the stand-in."""
        if not self.is_peer:
            return dict(os.environ)
        proxy = f"http://127.0.0.1:{proxy_port}"
        led = {"HTTP_PROXY": proxy, "http_proxy": proxy, "NO_PROXY": "127.0.0.1,localhost"}
        return {**os.environ, **led, "KUBECONFIG": str(cluster.kubeconfig_path)}


@dataclass(frozen=True, slots=True)
class Process:
    """A running operator, and what the kernel says of it."""

    child: asyncio.subprocess.Process

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def megabytes(self) -> tuple[float, float]:
        """The resident set now, and the largest so far."""
        lines = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmRSS", "VmHWM"))}
        return int(sizes["VmRSS"]) / 1024, int(sizes["VmHWM"]) / 1024

    async def stop(self) -> None:
        """End it in good order, or else not."""
        if self.child.returncode is None:
            self.child.terminate()
            try:
                await asyncio.wait_for(self.child.wait(), STOP_SECONDS)
            except TimeoutError:
                await self.kill()

    async def kill(self) -> None:
        """kill -9."""
        with contextlib.suppress(ProcessLookupError):
            self.child.send_signal(signal.SIGKILL)
        await self.child.wait()


def guard() -> list[str]:
    """The kernel ends a child should this process die without a word."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


async def start(program: Program, cluster: Cluster, proxy_port: int) -> Process:
    """Start what is measured; its log is kept in the cluster's folder."""
    with (cluster.folder / "operator.log").open("ab") as log:
        child = await asyncio.create_subprocess_exec(
            *guard(),
            *program.arguments(cluster),
            env=program.environment(cluster, proxy_port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return Process(child)


@dataclass(frozen=True, slots=True)
class StandIn:
    """The stand-in of slurmrestd, asked on its control port."""

    http: aiohttp.ClientSession
    port: int
    log_port: int

    async def ask(self, what: str, **query: object) -> Json:
        """What it counted or saw."""
        async with self.http.get(
            f"/control/{what}", params={key: str(value) for key, value in query.items()}
        ) as answer:
            answer.raise_for_status()
            return dict(await answer.json())

    async def add(self, clusters: Sequence[Mapping[str, Any]]) -> None:
        """Clusters: namespace, cluster_name and port of each."""
        async with self.http.post("/control/clusters", data=msgspec.json.encode(clusters)) as answer:
            answer.raise_for_status()

    async def summary(self, namespace: str, since: float = 0.0) -> Json:
        """A cluster in numbers."""
        return await self.ask("summary", namespace=namespace, since=since)

    async def counters(self) -> Json:
        """Its requests so far."""
        return await self.ask("counters")


@contextlib.asynccontextmanager
async def stand_in(cluster: Cluster, flags: Sequence[str], module: str = STAND_IN) -> AsyncIterator[StandIn]:
    """The stand-in, or what stands in front of a real Slurm, as a process of its own for the length of the block."""
    ca = cluster.folder / "ca.crt"
    command = [sys.executable, "-m", module, cluster.url, str(ca), str(cluster.folder), *flags]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    with (cluster.folder / "stand-in.log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            *guard(),
            *command,
            env={**os.environ, "PYTHONPATH": paths},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{cluster.token}\n".encode())
    try:
        said = await asyncio.wait_for(child.stdout.readline(), STAND_IN_SECONDS)
        if not said:
            raise RuntimeError(f"the stand-in did not start:\n{(cluster.folder / 'stand-in.log').read_text()}")
        port, log_port = map(int, said.split())
        limits = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=limits) as http:
            yield StandIn(http, port, log_port)
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()
