# ruff: noqa: ASYNC110 - it looks until it is so
"""The node agent with real containers, on pods that are bound by hand: the processes, and what a test does to pods.

Two processes, as in a real local cluster: the API server and the agent, which some tests kill. The image is busybox.
Needs root, runc and conmon (apt-get install runc conmon busybox-static); the tests skip loudly otherwise.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube_local.node import records
from kube_local.node.paths import Paths
from kube_local.node.records import ContainerRecord
from kube_runtime.client.client import Client
from kube_runtime.client.decode import Changed, Deleted
from kube_runtime.client.objects import EVENTS, PODS, SECRETS

MISSING = [program for program in ("runc", "conmon", "ip", "busybox") if shutil.which(program) is None]
NEEDS = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the node agent needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
]

SERVER = """
import asyncio, sys
from pathlib import Path
from kube_local.apiserver import ApiServer
from kube_local.node.proxy import NodePodAccess

async def main(data, port):
    server = ApiServer(str(data / "cluster.db"), certificates_folder=data / "pki")
    server.plug_in(NodePodAccess(data))
    await server.start(port=port)
    fresh = data / "kubeconfig.new"
    fresh.write_text(server.kubeconfig())
    fresh.rename(data / "kubeconfig")
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""

AGENT = """
import asyncio, logging, sys
from pathlib import Path
from types import SimpleNamespace
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_local.node.agent import NodeSettings, run
from kube_local.node.errors import ImageMissing

def images(name):
    if name.startswith("missing"):
        raise ImageMissing(f"no root file system stands for {name}")
    return SimpleNamespace(rootfs=Path(sys.argv[2]), digest="sha256:busybox", entrypoint=("sh",), command=(),
                           env={"FROM_IMAGE": "yes"}, user=None, working_dir="/", note="")

async def main(data):
    async with Client.to(kubeconfig.find(path=str(data / "kubeconfig"))) as client:
        await run(client, NodeSettings(data, images, nodes=2, backoff=(1.0, 4.0)))

logging.basicConfig(level=logging.WARNING)
asyncio.run(main(Path(sys.argv[1])))
"""

STAY = "trap 'exit 0' TERM; while true; do sleep 0.1; done"


@dataclass
class Cluster:
    """An API server and a node agent, each a process."""

    data: Path
    rootfs: Path
    server: subprocess.Popen[bytes] | None = None
    agent: subprocess.Popen[bytes] | None = None

    def start_server(self) -> None:
        port = "0"
        self.server = self._start(SERVER, "server", str(self.data), port)
        deadline = time.monotonic() + 30
        while not (self.data / "kubeconfig").exists():
            assert self.server.poll() is None, (self.data / "server.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def start_agent(self) -> None:
        self.agent = self._start(AGENT, "agent", str(self.data), str(self.rootfs))

    def _start(self, program: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.data / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_agent(self) -> None:
        """kill -9."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait(10)

    def stop(self) -> None:
        for process in (self.agent, self.server):
            if process is not None:
                process.kill()
                process.wait(10)

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """The real kubectl."""
        if shutil.which("kubectl") is None:
            pytest.skip("no kubectl on this machine")
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.data / "kubeconfig"), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not check or done.returncode == 0, (done.stdout, done.stderr, (self.data / "agent.log").read_text())
        return done

    def record(self, uid: str, container: str = "main") -> ContainerRecord:
        found = records.load(records.container_file(Paths.of(self.data).pod(uid).container(container)), ContainerRecord)
        assert found is not None
        return found


@dataclass
class Api:
    """What a test does to pods."""

    cluster: Cluster
    client: Client
    namespace: str
    made: list[str] = field(default_factory=list)

    async def pod(self, name: str = "p", **spec: Any) -> dict[str, Any]:
        """Create a pod bound to a node; `main` is its container unless `containers` are given."""
        annotations = spec.pop("annotations", {})
        if "containers" not in spec:
            own = {key: spec.pop(key) for key in list(spec) if key not in POD_FIELDS}
            spec["containers"] = [{"name": "main", "image": "busybox", **own}]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": "local-0", "terminationGracePeriodSeconds": 5, **spec},
        }
        made = await self.client.create(PODS.raw(), body, self.namespace)
        self.made.append(name)
        return made.content()

    async def until(self, name: str, wanted: Callable[[dict[str, Any]], Any], seconds: float = 60) -> dict[str, Any]:
        """The pod, once it is as wanted."""
        try:
            async with asyncio.timeout(seconds):
                return await self._until(name, wanted)
        except TimeoutError:
            now = (await self.client.get(PODS.raw(), name, self.namespace)).content()
            log = (self.cluster.data / "agent.log").read_text()[-3000:]
            raise AssertionError(
                f"not within {seconds} s: {msgspec.json.format(msgspec.json.encode(now['status'])).decode()}\n{log}"
            ) from None

    async def _until(self, name: str, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        found = await self.client.list(PODS.raw(), self.namespace, field_selector=f"metadata.name={name}")
        for pod in found.items:
            if wanted(pod.content()):
                return pod.content()
        events = self.client.watch(
            PODS.raw(),
            self.namespace,
            resource_version=found.resource_version,
            field_selector=f"metadata.name={name}",
        )
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Changed) and wanted(event.object.content()):
                    return event.object.content()
        raise AssertionError("the watch ended")

    async def gone(self, name: str, seconds: float = 60) -> dict[str, Any]:
        """Delete a pod and wait until it has gone; answers it as it was last."""
        found = await self.client.list(PODS.raw(), self.namespace, field_selector=f"metadata.name={name}")
        await self.client.delete(PODS, name, self.namespace)
        async with asyncio.timeout(seconds):
            events = self.client.watch(
                PODS.raw(),
                self.namespace,
                resource_version=found.resource_version,
                field_selector=f"metadata.name={name}",
            )
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Deleted):
                        self.made.remove(name)
                        return event.object.content()
        raise AssertionError("the watch ended")

    async def ready(self, name: str = "p", **spec: Any) -> dict[str, Any]:
        """Create a pod and wait until it is ready."""
        await self.pod(name, **spec)
        return await self.until(name, is_ready)

    async def run(self, name: str, *command: str, container: str = "") -> str:
        """What a command prints in a container."""
        ran = await self.client.run(self.namespace, name, command, container=container)
        assert ran.code == 0, (ran.stdout, ran.stderr)
        said: str = ran.stdout.decode()
        return said

    async def log(self, name: str, **options: Any) -> list[str]:
        return [line async for line in self.client.logs(self.namespace, name, **options)]

    async def put(self, kind: Any, name: str, data: Mapping[str, str]) -> None:
        """Create or replace a ConfigMap or Secret."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        body = {"metadata": {"name": name}, "data": encoded if kind is SECRETS else dict(data)}
        await self.client.apply(kind, name, body, self.namespace, field_manager="test")

    async def events(self, name: str) -> set[tuple[str, str]]:
        found = (await self.client.list(EVENTS, self.namespace)).items
        return {(event.reason, event.note) for event in found if event.regarding.name == name}

    async def event(self, name: str, reason: str, text: str = "", seconds: float = 30) -> None:
        """Wait for an event about a pod."""
        async with asyncio.timeout(seconds):
            while not any(reason == each and text in note for each, note in await self.events(name)):
                await asyncio.sleep(0.05)


POD_FIELDS = {
    "nodeName", "initContainers", "volumes", "restartPolicy", "terminationGracePeriodSeconds",
    "hostname", "subdomain", "dnsConfig", "dnsPolicy", "hostAliases", "hostNetwork", "activeDeadlineSeconds",
    "readinessGates",
}  # fmt: skip


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def is_ready(pod: dict[str, Any]) -> bool:
    return condition(pod, "Ready") == "True"


def condition(pod: dict[str, Any], kind: str) -> str:
    found = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions") or ()}
    return str(found.get(kind, ""))


def state(pod: dict[str, Any], name: str = "main") -> dict[str, Any]:
    status = pod.get("status") or {}
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((one for one in every if one["name"] == name), {})


def has_phase(phase: str) -> Callable[[dict[str, Any]], bool]:
    return lambda pod: bool(pod.get("status", {}).get("phase") == phase)


def host_folder(api: Api, name: str) -> dict[str, str]:
    """A folder of the machine as a volume."""
    return {"path": str(api.cluster.data / name), "type": "DirectoryOrCreate"}
