"""A real slurmctld and slurmrestd in the place of the stand-in: node records follow the pods, and every request counts.

    python -m bench.real_slurm.server URL CA FOLDER          needs root; the token of the API server on stdin

In: the worker pods of an API server (a watch), requests on a loopback port. Out: what slurmrestd answers, through the
relay; under `/control` the same as the stand-in (`bench/scaling/slurm_server.py`), so that `scale.py` asks both alike.
Workers are records without slurmds. What the benchmark waits for is kept in a model of the stand-in, to which every
write is done once slurmrestd has taken it; from time to time it is compared with slurmctld, which is right.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import ssl
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
from bench.real_slurm.relay import Exchange, Relay
from bench.real_slurm.slurm import RealSlurm, rest_command, slurm_conf
from bench.scaling import objects
from bench.scaling.objects import COMPUTE, Json
from bench.scaling.slurm_records import Refused, Slurm
from bench.scaling.slurm_server import RestApi, log_of, serve, ticks
from bench.scaling.slurm_world import ConfigMap, World, follow_config_maps, follow_pods
from tests.real.slurm import rootfs
from tests.real.slurm.cluster import ClusterFailed

from slurm_operator.build.nodeset import TERMINATING
from slurm_operator.slurm import hostlist

VERSION = "26.05"
JWT_KEY = b"k" * 32
MAX_NODES = 20_000
# slurmds that start within such a time register with one call.
GATHER_SECONDS, COMPARE_SECONDS = 0.2, 5.0


@dataclass(slots=True)
class MirroredSlurm(Slurm):
    """What slurmctld should know; workers that come and go are put down for the real one."""

    coming: dict[str, tuple[str, str]] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def register(self, name: str, address: str, conf: str) -> None:
        """A slurmd starts: its record is made in a moment."""
        self.leaving.discard(name)
        self.coming[name] = address, conf
        self.news.set()

    def stop(self, name: str) -> None:
        """A slurmd ends: its kubelet tells slurmctld so."""
        self.coming.pop(name, None)
        self.leaving.add(name)
        self.news.set()

    def lose(self, name: str) -> None:
        """A slurmd is gone; nothing new where its kubelet has told."""
        node = self.nodes.get(name)
        if node is not None and node.base != "DOWN":
            self.stop(name)

    def registered(self, name: str, address: str, conf: str) -> None:
        """The record is there."""
        Slurm.register(self, name, address, conf)

    def lost(self, names: Iterable[str]) -> None:
        """The records say that their slurmds are gone."""
        for name in names:
            Slurm.stop(self, name)


@dataclass(slots=True)
class RealWorld(World):
    """The pods of one namespace, and the real Slurm behind them."""

    real: RealSlurm | None = None
    relay: Relay | None = None
    # How often the model was wrong.
    differences: int = 0
    _suspected: set[str] = field(default_factory=set)

    def add(self, namespace: str, cluster_name: str, port: int) -> None:
        """The one cluster."""
        if self.slurms:
            raise RuntimeError("there is one real Slurm")
        self.slurms[namespace] = MirroredSlurm(cluster_name, time.time, is_pretty=False)
        self.ports[port] = namespace
        controller, restapi = objects.controller(namespace), objects.restapi(namespace, port)
        conf = slurm_conf(cluster_name, (COMPUTE,), MAX_NODES)
        command = rest_command(controller, restapi)
        self.real = RealSlurm(VERSION, rootfs.provide(VERSION), conf=conf, rest=command, jwt_key=JWT_KEY)

    async def listen(self, port: int) -> None:
        """Start Slurm, and the relay on that port."""
        real = self._started()
        await asyncio.to_thread(start, real)
        self.relay = Relay(real.socket, self.see_exchange, requests=self.requests)
        await self.relay.start(port)

    async def stop(self) -> None:
        """End all of it."""
        if self.relay is not None:
            await self.relay.stop()
        if self.real is not None:
            await asyncio.to_thread(self.real.stop)

    @property
    def slurm(self) -> MirroredSlurm | None:
        """The model."""
        found = next(iter(self.slurms.values()), None)
        return found if isinstance(found, MirroredSlurm) else None

    def _started(self) -> RealSlurm:
        if self.real is None:
            raise RuntimeError("no cluster was named yet")
        return self.real

    def see_config_map(self, found: ConfigMap) -> None:
        """The sidecar accepts it; partitions are changed live, and only by slurmrestd."""
        self.sidecar(found.metadata.namespace).take(found.metadata.name, found.data or {})

    # Requests

    def see_exchange(self, exchange: Exchange) -> None:
        """A write that slurmrestd has taken is done to the model."""
        slurm = self.slurm
        if slurm is None or exchange.method == "GET" or exchange.status >= 300:
            return
        with contextlib.suppress(Refused):
            self._write(slurm, exchange)

    def _write(self, slurm: MirroredSlurm, exchange: Exchange) -> None:
        name, body = exchange.parts[-1], exchange.body
        match exchange.kind:
            case "POST nodes":
                self.changed_records += slurm.update_nodes(msgspec.json.decode(body))
            case "POST node":
                change: Json = msgspec.json.decode(body)
                self.changed_records += slurm.update_nodes(change | {"name": [name]})
            case "DELETE node":
                self.changed_records += slurm.delete_nodes(name)
            case "POST partitions":
                slurm.set_partitions(msgspec.json.decode(body))
                self.announce()
            case "DELETE partition":
                slurm.delete_partition(name)
            case _:
                pass

    def counters(self) -> Json:
        """The requests so far; bytes are those of whole replies."""
        sent = self.relay.sent_bytes.total() if self.relay is not None else 0
        return {**World.counters(self), "sent_bytes": sent, "differences": self.differences}

    # Workers

    async def workers(self) -> None:
        """Make and end records, for as long as this runs."""
        while True:
            slurm = self.slurm
            if slurm is None or self.relay is None:
                await asyncio.sleep(GATHER_SECONDS)
                continue
            await slurm.news.wait()
            slurm.news.clear()
            if not slurm.leaving:
                await asyncio.sleep(GATHER_SECONDS)
            await self._follow(slurm)

    async def _follow(self, slurm: MirroredSlurm) -> None:
        real = self._started()
        coming, slurm.coming = slurm.coming, {}
        leaving, slurm.leaving = slurm.leaving, set()
        known = set(slurm.nodes)
        try:
            await asyncio.to_thread(change_records, real, set(coming) - known, set(coming) & known, leaving & known)
        except ClusterFailed as error:
            # The next comparison finds out what has become of them.
            print(error, file=sys.stderr, flush=True)
        for name, (address, conf) in coming.items():
            slurm.registered(name, address, conf)
        slurm.lost(leaving)

    async def compare(self) -> None:
        """slurmctld is right: a record that the model has otherwise twice in a row is corrected, and counted."""
        while True:
            await asyncio.sleep(COMPARE_SECONDS)
            slurm = self.slurm
            if slurm is None or self.relay is None:
                continue
            there = parse_states(await asyncio.to_thread(self._started().run, *STATES, check=False))
            wrong = differing(there, slurm)
            for name in wrong & self._suspected:
                self.differences += 1
                print(f"{name} is {there.get(name, 'gone')}", file=sys.stderr, flush=True)
                correct(slurm, name, there.get(name))
            self._suspected = wrong


STATES = ("sinfo", "-h", "-N", "-o", "%N|%T")


def start(real: RealSlurm) -> None:
    """slurmctld and slurmrestd."""
    real.start_empty()
    real.start_controller()
    real.start_rest()


def change_records(real: RealSlurm, new: set[str], again: set[str], leaving: set[str]) -> None:
    """What slurmds do: register for the first time, register again, end as the pod's hook tells Slurm."""
    if leaving:
        listed = hostlist.compress(sorted(leaving))
        # One whose record is gone already is no matter.
        real.run("scontrol", "update", f"nodename={listed}", "state=down", f"reason={TERMINATING}", check=False)
    if again:
        real.run("scontrol", "update", f"nodename={hostlist.compress(sorted(again))}", "state=idle", check=False)
    if new:
        real.make_records(sorted(new))


def parse_states(text: str) -> dict[str, bool]:
    """Whether each node takes no jobs, by `sinfo -N -o '%N|%T'`, which has a line for each of its partitions."""
    rows = (line.split("|") for line in text.splitlines() if line.count("|") == 1)
    return {name.strip(): state.startswith(("drain", "drng")) for name, state in rows}


def differing(there: dict[str, bool], slurm: Slurm) -> set[str]:
    """Records that the model lacks, has too many, or has otherwise drained."""
    model = {name: node.is_drained for name, node in slurm.nodes.items()}
    # sinfo shows a node that is DOWN and drained as down.
    return {
        name
        for name in there.keys() | model.keys()
        if (name in there) != (name in model) or (there[name] and not model[name])
    }


def correct(slurm: MirroredSlurm, name: str, is_drained: bool | None) -> None:
    """Make the model of one record right."""
    if is_drained is None:
        with contextlib.suppress(Refused):
            slurm.delete_nodes(name)
        return
    if name not in slurm.nodes:
        slurm.registered(name, "", "")
    if is_drained:
        slurm.update_nodes({"name": [name], "state": ["DRAIN"]})


async def run(options: argparse.Namespace, token: str) -> None:
    """Serve until ended; prints its control port and the port of its kubelet."""
    world = RealWorld(is_pretty=False, job_count=0)
    folder = Path(options.folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")
    # Their connections end with this process.
    _, kubelet_port = await serve(lambda request: log_of(world, request), tls)
    _, control_port = await serve(RestApi(world, world.listen).handle, None)
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=options.ca), limit=0)
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "bench-stand-in"}
    try:
        async with aiohttp.ClientSession(options.url, headers=headers, connector=connector) as http:
            await _work(world, http, control_port, kubelet_port)
    finally:
        await world.stop()


async def _work(world: RealWorld, http: aiohttp.ClientSession, control_port: int, kubelet_port: int) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(follow_pods(http, world))
        group.create_task(follow_config_maps(http, world))
        group.create_task(ticks(world))
        group.create_task(world.workers())
        group.create_task(world.compare())
        print(control_port, kubelet_port, flush=True)


async def until_ended(options: argparse.Namespace, token: str) -> None:
    """The same until SIGTERM; Slurm and its folder go with it."""
    task = asyncio.create_task(run(options, token))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main() -> None:
    """Read the token and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("ca")
    parser.add_argument("folder")
    options = parser.parse_args()
    token = sys.stdin.readline().strip()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(until_ended(options, token))


if __name__ == "__main__":
    main()
