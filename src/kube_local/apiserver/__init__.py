"""An API server good enough for the operator and for `kubectl`, in one process.

    server = ApiServer()                      # in memory; ApiServer(store="cluster.db") keeps it in SQLite
    await server.handle("GET", "/api/v1/pods")  # no sockets: campaigns, virtual time
    await server.start()                      # HTTPS on loopback: server.url, server.kubeconfig()
    await server.stop()

`handle` never waits but for the log of a pod; clock, uids and versions are injected. Garbage collection runs as a task
between `start` and `stop`; without sockets call `collect_garbage` (one pass) or `run_garbage_collector` (as a task).
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import yaml

from kube_runtime.times import seconds_text

from . import certificates, crds
from .gc import GarbageCollector
from .handlers import Handlers
from .hooks import PodAccess
from .http import HttpsFront
from .registry import Registry, builtin_kinds
from .request import Request, Response, User
from .state import State, random_suffix, random_uid
from .store import MEMORY, Change, Store
from .strategy import CRD_RESOURCE
from .writes import Writes

__all__ = ["ApiServer", "PodAccess", "Request", "Response", "Store", "User"]

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ApiServer:
    """One embedded API server."""

    def __init__(
        self,
        store: str | Store = MEMORY,
        *,
        clock: Callable[[], float] = time.time,
        uid: Callable[[], str] = random_uid,
        suffix: Callable[[], str] = random_suffix,
        first_revision: int = 1,
        keep_changes: int = 10_000,
        bookmark_seconds: float = 60.0,
        certificates_folder: Path | None = None,
        hosts: Sequence[str] = (),
        service_network: IPv4Network | None = None,
    ) -> None:
        opened = (
            store
            if isinstance(store, Store)
            else Store(store, first_revision=first_revision, keep_changes=keep_changes)
        )
        self.state = State(opened, Registry(builtin_kinds()), clock, uid, suffix, bookmark_seconds=bookmark_seconds)
        self.state.service_network = service_network or self.state.service_network
        self.handlers = Handlers(self.state, Writes(self.state), self._is_token)
        self._folder = certificates_folder
        self._hosts = (*_LOOPBACK, *hosts)
        self._credentials: certificates.Credentials | None = None
        self._front: HttpsFront | None = None
        self._collecting: asyncio.Task[None] | None = None
        self._serve_definitions()
        self._make_namespaces()
        self._collector = GarbageCollector(self.state)

    # --- in process -----------------------------------------------------------------------------------------------

    async def handle(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | Mapping[str, Any] | list[Any] | None = None,
        user: User | None = None,
    ) -> Response:
        """Answers one request. A body may be bytes or plain data; a watch answers with `stream`."""
        lowered = {key.lower(): value for key, value in (headers or {}).items()}
        request = Request(method.upper(), path, query or {}, lowered, body, user or User())
        return await self.handlers.handle(request, self._address)

    def collect_garbage(self) -> int:
        """Owner references, finalizers of the server's own, namespaces: until nothing is left to do."""
        return self._collector.run()

    def run_garbage_collector(self) -> asyncio.Task[None]:
        """The same as a task, until it is cancelled."""
        return asyncio.create_task(self._collector.run_forever(), name="garbage collector")

    @property
    def store(self) -> Store:
        """What is stored; for tests and campaigns."""
        return self.state.store

    def plug_in(self, pods: PodAccess) -> None:
        """Connects the node agent that serves logs, exec and port-forward."""
        self.state.pods = pods

    # --- over HTTPS -----------------------------------------------------------------------------------------------

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listens on loopback and starts to collect garbage."""
        if self._front is not None:
            return
        front = HttpsFront(self.state, self.handlers, self.credentials)
        await front.start(host, port)
        self._front = front
        self._collecting = self.run_garbage_collector()

    async def stop(self) -> None:
        """Ends all streams, stops listening, closes the store."""
        if self._collecting:
            self._collecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._collecting
            self._collecting = None
        if self._front:
            await self._front.stop()
            self._front = None
        self.state.store.close()

    @property
    def credentials(self) -> certificates.Credentials:
        """Certificates and token; made when first asked for."""
        if self._credentials is None:
            if self._folder is None:
                self._credentials = certificates.make(self._hosts)
            else:
                self._credentials = certificates.load_or_make(self._folder, self._hosts)
        return self._credentials

    @property
    def url(self) -> str:
        """Where it listens."""
        if self._front is None:
            raise RuntimeError("the server has not been started")
        return f"https://{self._front.address}"

    @property
    def ca_pem(self) -> str:
        """The CA that signed the server's certificate."""
        return self.credentials.ca.decode()

    @property
    def token(self) -> str:
        """The bearer token that may do everything."""
        return self.credentials.token

    def kubeconfig(self) -> str:
        """A kubeconfig for this server, with the token."""
        name = "slurm-operator-local"
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.credentials.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
            "current-context": name,
        }
        return yaml.safe_dump(config, sort_keys=False)

    # --- set-up ---------------------------------------------------------------------------------------------------

    @property
    def _address(self) -> str:
        return self._front.address if self._front else ""

    def _is_token(self, token: str) -> bool:
        return token == self.token

    def _serve_definitions(self) -> None:
        registry = self.state.registry
        for row in self.state.store.rows(CRD_RESOURCE):
            crds.serve(registry, Change(row.revision, "ADDED", row, None))
        self.state.store.listen(lambda change: crds.serve(registry, change))

    def _make_namespaces(self) -> None:
        for name in FIRST_NAMESPACES:
            if self.state.store.get("namespaces", "", name) is None:
                self.state.store.put("namespaces", self._namespace(name))

    def _namespace(self, name: str) -> dict[str, Any]:
        metadata = {
            "name": name,
            "uid": self.state.new_uid(),
            "creationTimestamp": seconds_text(self.state.clock()),
            "labels": {"kubernetes.io/metadata.name": name},
        }
        spec, status = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": spec, "status": status}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
