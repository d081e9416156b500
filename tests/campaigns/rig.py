"""One whole life in one process and in virtual time: API server, small cluster, small Slurm, and the real operator.

In: a scenario's wishes (`apply`, `patch`, `delete`). Out: a world that has come to rest (`run`), with every write
counted and judged on the way. `Disturbance` says where that life is disturbed.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import itertools
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.campaigns.invariants import Judge
from tests.campaigns.kubernetes import Cluster
from tests.campaigns.slurm_model import Line, SlurmModel, is_write
from tests.kube_runtime.client.in_process import InProcess, InProcessResponse
from tests.kube_runtime.loop.quiet import NeverQuietError, run_until_quiet

from kube_local.apiserver import ApiServer
from kube_runtime.client.client import Client
from kube_runtime.client.errors import Unreachable
from kube_runtime.client.requests import Request
from kube_runtime.client.transport import HttpResponse
from kube_runtime.client.write import Write
from kube_runtime.clock import Clock, VirtualClock, run_until_idle
from kube_runtime.loop.controller import Controller
from slurm_operator.build.images import TRUSTED
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.reconcile import polling
from slurm_operator.reconcile.clusters import SlurmTarget
from slurm_operator.reconcile.operator import Operator, Outside, assemble
from slurm_operator.settings import Settings
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.token import TokenSource, mint
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

NAMESPACE = "hpc"
CANARY = b"canary-7f3a"
SLURM_KEY = CANARY + b"-slurm-key-" + b"s" * 40
JWT_KEY = CANARY + b"-jwt-key-" + b"j" * 40
CRDS = Path(__file__).parent.parent.parent / "deploy" / "crds"
# Longer than any wait of the operator for something that does not show itself.
HORIZON = 75.0
LOGGERS = tuple(map(logging.getLogger, ("slurm_operator", "kube_runtime", "kube_local")))
SETTINGS = Settings(
    restapi_address="http://{service}.{namespace}:{port}",
    worker_images=(*TRUSTED, "example.org/"),
    leader_elect=False,
)
GROUP = "slinky.slurm.net/v1beta1"
# Slurm is asked twice before something goes for good: so many polls without news are points of their own.
ALIKE = 2


class Crash(BaseException):
    """kill -9, as seen from within."""


@dataclass
class Disturbance:
    """Where a life is disturbed; points are numbered from `arm`. An empty one disturbs nothing.

    `campaign` is R2 (crash after a write), R5 (the answer to a write gets lost) or R6 (Slurm misbehaves). With `spawn`
    every point is tried in a process of its own while this one lives on undisturbed.
    """

    campaign: str = ""
    point: str = ""
    faults: Mapping[str, Any] = field(default_factory=dict)
    spawn: Callable[[str], bool] | None = None

    def strikes(self, campaign: str, point: str) -> bool:
        """Whether it is here and now."""
        if campaign != self.campaign:
            return False
        if self.spawn is not None:
            return self.spawn(point)
        return point == self.point


@functools.cache
def definitions() -> tuple[dict[str, Any], ...]:
    """The CRDs, read once."""
    return tuple(yaml.load(path.read_text(), yaml.CSafeLoader) for path in sorted(CRDS.glob("*.yaml")))


@dataclass
class Wire(InProcess):
    """The embedded server, with an answer that can get lost."""

    lose: Any = None

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[HttpResponse]:
        """Hand over a request."""
        self.refuse(request)
        headers = {"Accept": request.accept, "Content-Type": request.content_type}
        # Plain data instead of bytes: an apply would otherwise be parsed as YAML, which takes most of the time.
        body = json.loads(request.body) if request.body else None
        response = await self.server.handle(request.method, request.path, dict(request.query), headers, body)
        try:
            if self.lose is not None and self.lose(request):
                raise Unreachable(f"{request.what}: the answer was lost", sent=True)
            yield InProcessResponse(response)
        finally:
            if response.stream is not None and hasattr(response.stream, "aclose"):
                await response.stream.aclose()


@dataclass
class World:
    """Everything that there is."""

    disturbance: Disturbance = field(default_factory=Disturbance)
    release: str = "26.05"
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(start=1000.0))
    trace: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    disturbed: list[str] = field(default_factory=list)
    restarts: int = 0
    reconciles: int = 0
    armed: bool = False

    def __post_init__(self) -> None:
        numbers = itertools.count(1)
        self.server = ApiServer(
            clock=lambda: self.clock.now().timestamp(), uid=lambda: f"uid-{next(numbers):06}", suffix=lambda: "aaaaa"
        )
        self.slurm = SlurmModel(self.clock, JWT_KEY, self.release)
        self.cluster = Cluster(self.server, self.slurm, self.clock)
        self.judge = Judge(self)
        self.wire = Wire(self.server, lose=self._loses)
        self.wire.refuse = self.judge.request
        self.line = Line(self.slurm, self._slurm_call)
        self.operator: Operator | None = None
        self._polling: asyncio.Task[None] | None = None
        self.dead = False
        self._ids = itertools.count(1)
        self._polls: dict[str, tuple[tuple[int, int], int]] = {}
        self._log = _Listener(self.judge)
        # Of the loggers, as they were.
        self._levels: list[int] = []

    @property
    def what(self) -> str:
        """What disturbed this life."""
        return "; ".join(self.disturbed)

    # The cluster's users

    async def open(self) -> None:
        """An empty cluster with our kinds, keys and three nodes."""
        for each in definitions():
            await self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        secrets = {
            "slurm-key": {"slurm.key": SLURM_KEY},
            "jwt-key": {"jwt.key": JWT_KEY},
            "database": {"password": CANARY + b"-password"},
            "sssd": {"sssd.conf": CANARY + b"-sssd"},
        }
        for name, data in secrets.items():
            encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
            await self.ask(
                "POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": name}, "data": encoded}
            )
        for number in range(3):
            await self.ask("POST", "/api/v1/nodes", {"metadata": {"name": f"k{number}"}})
        self.cluster.start()
        for logger in LOGGERS:
            logger.addHandler(self._log)
        # Whoever runs it may want silence; the judge must hear.
        self._levels = [logger.level for logger in LOGGERS]
        for logger in LOGGERS:
            logger.setLevel(logging.INFO)
        await self.start_operator()

    async def serve_monitors(self) -> None:
        """Somebody installs the Prometheus operator."""
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "servicemonitors", "singular": "servicemonitor", "kind": "ServiceMonitor"}
        spec = {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]}
        body = {"metadata": {"name": "servicemonitors.monitoring.coreos.com"}, "spec": spec}
        await self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)

    async def close(self) -> None:
        """The end of the world."""
        for logger, level in zip(LOGGERS, self._levels or [logger.level for logger in LOGGERS], strict=True):
            logger.removeHandler(self._log)
            logger.setLevel(level)
        await self.stop_operator()
        await self.cluster.stop()
        self.server.store.close()

    async def ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        """A request of a user."""
        response = await self.server.handle(method, path, {}, {"content-type": content}, body)
        answer = json.loads(response.body or b"null")
        if response.status >= 400:
            raise AssertionError(f"{method} {path}: {answer}")
        return answer

    async def create(self, kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> Any:
        """`kubectl create`."""
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name, **metadata}, "spec": dict(spec)}
        return await self.ask("POST", f"{self._path(kind)}", body)

    async def patch(self, kind: str, name: str, body: Mapping[str, Any]) -> Any:
        """`kubectl patch --type=merge`."""
        return await self.ask("PATCH", f"{self._path(kind)}/{name}", body, "application/merge-patch+json")

    async def delete(self, kind: str, name: str) -> Any:
        """`kubectl delete`."""
        return await self.ask("DELETE", f"{self._path(kind)}/{name}")

    def _path(self, kind: str) -> str:
        if kind in ("Pod", "Secret", "Service", "ConfigMap"):
            return f"/api/v1/namespaces/{NAMESPACE}/{kind.lower()}s"
        return f"/apis/{GROUP}/namespaces/{NAMESPACE}/{kind.lower()}s"

    def stored(self, resource: str, name: str = "") -> Any:
        """An object, or all of a resource, as they are."""
        if name:
            row = self.server.store.get(resource, NAMESPACE, name)
            return None if row is None else row.load()
        return [row.load() for row in self.server.store.rows(resource, NAMESPACE)]

    def custom(self, kind: str, name: str) -> Any:
        """One of our resources."""
        return self.stored(f"{kind.lower()}s.slinky.slurm.net", name)

    def conditions(self, kind: str, name: str) -> dict[str, Any]:
        """The conditions of one of our resources, by type; none before it has a status."""
        found = (self.custom(kind, name) or {}).get("status") or {}
        return {each["type"]: each for each in found.get("conditions") or ()}

    def verdicts(self, kind: str, name: str) -> dict[str, tuple[str, str]]:
        """The same, of each condition its status and reason alone."""
        return {type_: (each["status"], each["reason"]) for type_, each in self.conditions(kind, name).items()}

    def pods(self, nodeset: str = "compute") -> dict[str, Any]:
        """The worker pods that are not going."""
        found = {pod["metadata"]["name"]: pod for pod in self.stored("pods")}
        return {
            name: pod
            for name, pod in found.items()
            if pod["metadata"]["labels"].get("app.kubernetes.io/instance") == nodeset
            and not pod["metadata"].get("deletionTimestamp")
        }

    # The operator

    async def start_operator(self) -> None:
        """A new operator with nothing in its memory."""
        self.dead = False
        outside = Outside(self._host_keys, lambda: f"id-{next(self._ids):08}", lambda: 0.5, self._connect)
        self.operator = assemble(Client(self.wire), SETTINGS, self.clock, OperatorMetrics(), outside)
        self.operator.writer.before = self._before
        self.operator.writer.after = self._after
        # Beside the others, which go one at a time: a Slurm that hangs keeps only its own poll.
        polls = self.operator.controllers[polling.KIND]
        self._polling = asyncio.create_task(polls.run(), name="polls", context=Context())
        self.operator.sources.want(self.operator.source_names)
        await self.operator.served.look()
        while self.operator.sources.unsynced():
            await run_until_idle()
            if self.operator.sources.unsynced() and not self.clock.fire_next():
                raise AssertionError(f"caches never came: {self.operator.sources.unsynced()}")

    async def stop_operator(self) -> None:
        """The process is gone."""
        if self.operator is not None:
            # Until Python 3.12 wait_for may swallow a cancellation that meets its result.
            await run_until_idle()
            for controller in self.operator.controllers.values():
                controller.stop()
            await self._stop_polling()
            await self.operator.sources.close()
            await self.operator.clusters.close()
            self.operator = None

    async def _stop_polling(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            # A poll of a process that was killed ends as that did.
            await asyncio.gather(self._polling, return_exceptions=True)
            self._polling = None

    def stepped(self) -> list[Controller]:
        """The controllers of the operator that are driven by hand."""
        assert self.operator is not None
        return [each for kind, each in self.operator.controllers.items() if kind != polling.KIND]

    def _connect(self, target: SlurmTarget, token: TokenSource, clock: Clock) -> SlurmClient:
        return SlurmClient(
            target.address,
            token,
            cluster=target.cluster_name,
            transport=self.line,
            monotonic=clock.monotonic,
            # A thread would not stand still with the clock.
            inline_bytes=sys.maxsize,
        )

    def token(self) -> str:
        """A token of the right key."""
        now = int(self.clock.now().timestamp())
        return mint(JWT_KEY, user="slurm", now=now, life=60, token_id="test")

    async def _host_keys(self) -> dict[str, bytes]:
        self.judge.host_keys_drawn()
        kinds = ("rsa", "ecdsa", "ed25519")
        private = {f"ssh_host_{kind}_key": CANARY + b"-host" for kind in kinds}
        return private | {f"ssh_host_{kind}_key.pub": b"public\n" for kind in kinds}

    # Every write passes here

    def arm(self) -> None:
        """From now on writes and calls are counted; the plan's numbers begin here."""
        self.armed = True
        for each in (self.trace, self.requests, self.calls):
            each.clear()

    async def _before(self, write: Write) -> None:
        if self.dead:
            raise Crash
        self.judge.before(write)

    async def _after(self, write: Write, error: BaseException | None) -> None:
        if self.dead:
            raise Crash
        if error is None:
            self.judge.after(write)
        self._count(
            f"{write.verb} {write.resource.kind}{'/' * bool(write.subresource)}{write.subresource} {write.name}"
        )

    def _count(self, what: str) -> None:
        if not self.armed:
            return
        self.trace.append(what)
        if self.disturbance.strikes("R2", f"{len(self.trace) - 1:03}"):
            self.disturbed.append(f"crash after {what}")
            self.dead = True
            raise Crash

    def _loses(self, request: Request) -> bool:
        if not self.armed or request.method == "GET":
            return False
        self.requests.append(f"{request.method} {request.path}")
        if not self.disturbance.strikes("R5", f"{len(self.requests) - 1:03}"):
            return False
        self.disturbed.append(f"lost the answer to {self.requests[-1]}")
        return True

    def _slurm_call(self, sending: Sending, go: Any) -> Reply:
        if self.dead:
            raise Crash
        number = len(self.calls)
        if self.armed:
            self.calls.append(sending.label)
        if is_write(sending):
            self.judge.slurm_write(sending)
        reply = self._faulty(sending, go, number)
        self.judge.slurm_read(sending, reply)
        if is_write(sending):
            self._count(f"slurm {sending.label} {(sending.body or b'').decode()[:80]}")
        return reply

    def _is_news(self, sending: Sending) -> bool:
        """Whether something happened since the last two calls of this kind: polls of a world at rest are all alike."""
        seen, times = self._polls.get(sending.label, (None, 0))
        times = times + 1 if seen == self._fingerprint() else 1
        self._polls[sending.label] = (self._fingerprint(), times)
        return times <= ALIKE

    def _faulty(self, sending: Sending, go: Any, number: int) -> Reply:
        # One point is replayed wherever it is; a campaign tries those that differ.
        if self.armed and (self._is_news(sending) or self.disturbance.spawn is None):
            for name, fault in self.disturbance.faults.items():
                if fault.fits(sending) and self.disturbance.strikes("R6", f"{number:03}-{name}"):
                    self.disturbed.append(f"{name} at {sending.label}")
                    reply: Reply = fault.act(self, sending, go)
                    return reply
        answer: Reply = go()
        self.judge.remember(sending, answer)
        return answer

    # Time

    async def run(self, horizon: float = HORIZON) -> None:
        """Until nothing happens any more, with as many restarts as there are crashes."""
        while True:
            try:
                quiet = await run_until_quiet(
                    self.stepped(), self.clock, fingerprint=self._fingerprint, horizon=horizon
                )
            except Crash:
                self.restarts += 1
                await self.stop_operator()
                await self.start_operator()
                continue
            except NeverQuietError as error:
                self.judge.violation("I11", str(error))
                return
            self.reconciles += quiet.reconciles
            self.judge.at_rest()
            return

    async def run_for(self, seconds: float) -> None:
        """So many virtual seconds, whatever happens."""
        end = self.clock.monotonic() + seconds
        self.clock.call_later(seconds, lambda: None)
        while self.clock.monotonic() < end:
            try:
                await run_until_quiet(self.stepped(), self.clock, horizon=end - self.clock.monotonic())
            except Crash:
                self.restarts += 1
                await self.stop_operator()
                await self.start_operator()

    def _fingerprint(self) -> tuple[int, int]:
        return (self.server.store.revision, self.slurm.changes)


class _Listener(logging.Handler):
    """Hears what the operator could not explain, and what it should not say."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(logging.INFO)
        self._judge = judge

    def emit(self, record: logging.LogRecord) -> None:
        """One line of the log."""
        self._judge.said(record)
