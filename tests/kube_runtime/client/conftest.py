"""Fixtures of the door to Kubernetes: a server that misbehaves, waits that do not wait, and two whole API servers."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.kube_runtime.client.bodies import WIDGET_CRD, WIDGETS
from tests.kube_runtime.client.fault_server import FaultServer

from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.credentials import Fixed
from kube_runtime.client.errors import AlreadyExists, Expired, NotFound
from kube_runtime.client.kubeconfig import Target
from kube_runtime.client.objects import CONFIG_MAPS, CRDS, NAMESPACES, RawObject, Resource
from kube_runtime.client.timing import Timing
from kube_runtime.client.transport import Limits
from kube_runtime.clock import Timer


@dataclass
class Waits:
    """A clock that moves when somebody sleeps; every sleep is written down."""

    slept: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    on_sleep: Callable[[float], Awaitable[None]] | None = None

    @property
    def timing(self) -> Timing:
        return Timing(self, lambda: 0.5)

    def monotonic(self) -> float:
        return self.elapsed

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        raise NotImplementedError("the client sets no timers")

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.elapsed += seconds
        if self.on_sleep is not None:
            await self.on_sleep(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def faults() -> AsyncIterator[FaultServer]:
    server = FaultServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(faults: FaultServer, waits: Waits) -> AsyncIterator[Client]:
    """A client of the misbehaving server."""
    target = Target(server=faults.url, credentials=Fixed())
    async with Client.to(target, timing=waits.timing) as made:
        yield made


@pytest.fixture
async def hasty(faults: FaultServer, waits: Waits) -> AsyncIterator[Client]:
    """A client that does not wait long; for servers that never answer."""
    target = Target(server=faults.url, credentials=Fixed())
    async with Client.to(target, timing=waits.timing, limits=Limits(request_seconds=0.1)) as made:
        yield made


def embedded_server(**options: Any) -> Any:
    """An embedded API server that is not started yet."""
    try:
        module = importlib.import_module("kube_local.apiserver")
    except ImportError as error:
        pytest.skip(f"EMBEDDED API SERVER NOT TESTED: {error}")
    if not hasattr(module, "ApiServer"):
        pytest.skip("EMBEDDED API SERVER NOT TESTED: kube_local.apiserver has no ApiServer")
    return module.ApiServer(**options)


def _real_cluster(folder: Path, *flags: str) -> Any:
    try:
        tools = importlib.import_module("tests.real.kube.tools")
        cluster = importlib.import_module("tests.real.kube.cluster")
    except ImportError as error:
        pytest.skip(f"REAL KUBE-APISERVER NOT TESTED: {error}")
    if missing := tools.missing_tools():
        pytest.skip(f"REAL KUBE-APISERVER NOT TESTED: {', '.join(missing)} not built (make kube-tools)")
    return cluster.real_cluster(folder, apiserver_flags=flags)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    """A real kube-apiserver for the session."""
    async with _real_cluster(tmp_path_factory.mktemp("real-kube")) as made:
        yield made.kubeconfig_path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_forgetful(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Path, Callable[[], None]]]:
    """A real kube-apiserver that forgets its history every second."""
    flags = ("--watch-cache=false", "--etcd-compaction-interval=1s")
    async with _real_cluster(tmp_path_factory.mktemp("real-forgetful"), *flags) as made:
        yield made.kubeconfig_path, lambda: None


@pytest.fixture
async def embedded_kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """An embedded API server for one test."""
    server = embedded_server()
    await server.start()
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    yield path
    await server.stop()


@pytest.fixture
async def embedded_forgetful(tmp_path: Path) -> AsyncIterator[tuple[Path, Callable[[], None]]]:
    """An embedded API server that forgets its history when told."""
    server = embedded_server()
    await server.start()
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    yield path, server.store.compact
    await server.stop()


SERVERS = ["embedded", pytest.param("real", marks=pytest.mark.real_kube)]


@pytest.fixture(params=SERVERS)
def kubeconfig_path(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of a whole API server: the embedded one, and a real one where it can be had."""
    # Not an async fixture: starting another one from within a running loop is not possible.
    path: Path = request.getfixturevalue(f"{request.param}_kubeconfig")
    return path


@dataclass(frozen=True)
class Api:
    """A client of a whole API server, and a namespace of its own."""

    client: Client
    namespace: str
    kubeconfig_path: Path


async def _api(path: Path, test: str) -> AsyncIterator[Api]:
    namespace = "t-" + hashlib.sha256(test.encode()).hexdigest()[:12]
    async with Client.to(kubeconfig.load([path])) as made:
        await made.create(NAMESPACES, {"metadata": {"name": namespace}, "apiVersion": "v1", "kind": "Namespace"})
        yield Api(made, namespace, path)


@pytest.fixture
async def api(kubeconfig_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    async for made in _api(kubeconfig_path, request.node.nodeid):
        yield made


@pytest.fixture(params=SERVERS)
def forgetful_server(request: pytest.FixtureRequest) -> tuple[Path, Callable[[], None]]:
    """A server with a short memory, and what makes it forget."""
    made: tuple[Path, Callable[[], None]] = request.getfixturevalue(f"{request.param}_forgetful")
    return made


@dataclass(frozen=True)
class Forgetful:
    """An API server that can be made to forget."""

    api: Api
    forget_now: Callable[[], None]

    async def forget(self, resource_version: str) -> None:
        """Wait until the server answers 410 to a watch from there."""
        async with asyncio.timeout(30):
            while not await self._has_forgotten(resource_version):  # noqa: ASYNC110 - nobody tells when
                await asyncio.sleep(0.2)

    async def _has_forgotten(self, resource_version: str) -> bool:
        # History is only cut behind the newest write.
        body = {"metadata": {"generateName": "noise-"}, "apiVersion": "v1", "kind": "ConfigMap"}
        await self.api.client.create(CONFIG_MAPS, body, "default")
        self.forget_now()
        events = self.api.client.watch(CONFIG_MAPS, "default", resource_version=resource_version, seconds=5)
        try:
            await anext(events, None)
        except Expired:
            return True
        finally:
            await events.aclose()
        return False


@pytest.fixture
async def forgetful(
    forgetful_server: tuple[Path, Callable[[], None]], request: pytest.FixtureRequest
) -> AsyncIterator[Forgetful]:
    path, forget_now = forgetful_server
    async for made in _api(path, request.node.nodeid):
        yield Forgetful(made, forget_now)


@pytest.fixture
async def widgets(api: Api) -> Resource[RawObject]:
    """A custom kind with status and scale, served."""
    with suppress(AlreadyExists):
        await api.client.create(CRDS, WIDGET_CRD)
    async with asyncio.timeout(20):
        while True:
            with suppress(NotFound):
                await api.client.list(WIDGETS, api.namespace)
                return WIDGETS
            await asyncio.sleep(0.05)
