"""The operator as a process of its own, and what the kernel and its own metrics say of it.

In: a kubeconfig, a file for its log. Out: peak memory, CPU seconds, reconciles, the longest stall of its event loop.
One that takes more memory than `MAX_MEGABYTES` is ended and started again, as a kubelet would. Used by
`neighbours.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import resource
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS = 0.1
MAX_MEGABYTES = 1500.0
ADDRESS_SPACE_BYTES = 8 * 1024**3
READY_SECONDS = 60.0
PORTS = range(20_000, 32_000)
RECONCILES = re.compile(r'^slurm_operator_reconcile_total\{kind="(\w+)",result="\w+"\} ([0-9.e+]+)$', re.MULTILINE)


@dataclass
class OperatorProcess:
    """`slurm-operator run`, from `start` to `stop`."""

    kubeconfig: Path
    log: Path
    peak_megabytes: float = 0.0
    cpu_seconds: float = 0.0
    # How often it ended by itself or had to be ended, and why.
    endings: list[str] = field(default_factory=list)
    reconciles: Counter[str] = field(default_factory=Counter)
    # The longest that its health page took: so long its event loop stood still.
    longest_stall_seconds: float = 0.0
    _child: asyncio.subprocess.Process | None = None
    _sampling: tuple[asyncio.Task[None], ...] = ()
    _ports: tuple[int, int] = (0, 0)

    async def start(self) -> None:
        """Start it, and wait until its caches are there."""
        await self._spawn()
        self._sampling = (asyncio.create_task(self._sample()),)
        async with asyncio.timeout(READY_SECONDS):
            while not await self._get(self._ports[0], "/readyz"):  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.1)
        self._sampling += (asyncio.create_task(self._feel()),)

    async def _spawn(self) -> None:
        self._ports = (_free_port(), _free_port())
        program = ["-m", "slurm_operator", "run", "--kubeconfig", str(self.kubeconfig), "--log-format", "console"]
        addresses = ["--restapi-address", "http://127.0.0.1:{port}"]
        for flag, port in zip(("--health-addr", "--metrics-addr"), self._ports, strict=True):
            addresses += [flag, f"127.0.0.1:{port}"]
        with self.log.open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable, *program, *addresses, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
        resource.prlimit(self._child.pid, resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))

    async def stop(self) -> None:
        """Take the last figures and end it."""
        await self._count()
        for task in self._sampling:
            task.cancel()
        await asyncio.gather(*self._sampling, return_exceptions=True)
        if self._child is not None and self._child.returncode is None:
            self.cpu_seconds += _cpu_seconds(self._child.pid)
            self._child.terminate()
            try:
                await asyncio.wait_for(self._child.wait(), 10)
            except TimeoutError:
                self.endings.append("did not stop within 10 s")
                self._child.kill()
                await self._child.wait()

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            child = self._child
            if child is None:
                continue
            if child.returncode is not None:
                self.endings.append(f"ended by itself with {child.returncode}")
                await self._spawn()
                continue
            now, peak = _megabytes(child.pid)
            self.peak_megabytes = max(self.peak_megabytes, peak)
            if now > MAX_MEGABYTES:
                self.endings.append(f"took {now:.0f} MB")
                self.cpu_seconds += _cpu_seconds(child.pid)
                child.kill()
                await child.wait()
                await self._spawn()

    async def _feel(self) -> None:
        while True:
            began = time.monotonic()
            try:
                # No answer after so long, or none when the phase ends, is a stall too.
                await self._get(self._ports[0], "/healthz", seconds=30)
            finally:
                self.longest_stall_seconds = max(self.longest_stall_seconds, time.monotonic() - began)
            await asyncio.sleep(2 * SAMPLE_SECONDS)

    async def _count(self) -> None:
        text = await self._get(self._ports[1], "/metrics")
        for kind, count in RECONCILES.findall(text):
            self.reconciles[kind] += int(float(count))

    async def _get(self, port: int, path: str, seconds: float = 5) -> str:
        """The page, empty where there is none."""
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with aiohttp.ClientSession(timeout=limit) as http, http.get(f"http://127.0.0.1:{port}{path}") as page:
                text = await page.text()
                return (text or "ok") if page.status == 200 else ""
        except (aiohttp.ClientError, OSError, TimeoutError):
            return ""


def _megabytes(pid: int) -> tuple[float, float]:
    """The resident set now, and the largest so far."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return sizes.get("VmRSS", 0.0), sizes.get("VmHWM", 0.0)


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def _free_port() -> int:
    """One that no connection of this machine can be given meanwhile: they come from above."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as held, contextlib.suppress(OSError):
            held.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")
