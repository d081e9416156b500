"""`slurm-operator webhook`: the admission server as a process.

In: settings. Out: an exit code: 0 when it was asked to stop. It reads our kinds and what they refer to, but no Secret
of theirs; it writes nothing but its own certificate.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from kube_runtime.client import kubeconfig
from kube_runtime.client.cache import Cache
from kube_runtime.client.client import Client
from kube_runtime.client.missing_right import MissingRight
from kube_runtime.client.objects import CLAIMS, CONFIG_MAPS, RawObject
from kube_runtime.client.rights import Scope
from kube_runtime.client.self_review import needed
from kube_runtime.client.write import Writer
from kube_runtime.clock import Clock, SystemClock
from kube_runtime.errors import OperatorError
from kube_runtime.key_pair import load_pair
from kube_runtime.loop.health import health_app, serve
from kube_runtime.loop.metrics import Sample
from slurm_operator import rights
from slurm_operator.admission.certificates import Held, expiry, hosts_of
from slurm_operator.admission.rotation import Rotation
from slurm_operator.admission.server import admission_app
from slurm_operator.cli import serving
from slurm_operator.cli.run import RESOLV_CONF
from slurm_operator.metrics import CERTIFICATE_EXPIRY, OperatorMetrics
from slurm_operator.program import FIELD_MANAGER, USER_AGENT
from slurm_operator.reconcile.measured import kube_calls
from slurm_operator.reconcile.observe import BY_NAMESPACE, BY_OWNER, Observer, namespaces, owners
from slurm_operator.reconcile.resources import OURS
from slurm_operator.settings import Settings, cluster_domain

log = logging.getLogger(__name__)

# How soon a certificate that somebody else renews is noticed.
FOLLOW_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the server's certificate comes from."""

    folder: str = ""
    secret: str = ""
    namespace: str = ""
    service: str = ""
    configuration: str = ""
    hosts: tuple[str, ...] = ()


@dataclass(slots=True)
class Served:
    """The certificate that is served now, if there is one yet."""

    context: ssl.SSLContext
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    certificate: bytes = b""

    def take(self, certificate: bytes, key: bytes) -> None:
        """Serve this one from now on."""
        load_pair(self.context, certificate, key)
        self.certificate = certificate
        self.ready.set()

    def expiry(self) -> Iterator[Sample]:
        """When it ends, for whoever scrapes."""
        if self.certificate:
            yield (), expiry(self.certificate).timestamp()


def run_webhook(settings: Settings, place: tuple[str, int], certificates: Certificates) -> int:
    """Run until asked to stop."""
    if certificates.folder:
        missing = [name for name in ("tls.crt", "tls.key") if not Path(certificates.folder, name).is_file()]
        if missing:
            log.error("%s has no %s: mount the Secret of the certificate there", certificates.folder, missing[0])
            return 1
    serving.share_interpreter()
    try:
        asyncio.run(_run(settings, place, certificates))
    except (OperatorError, OSError, ssl.SSLError) as error:
        log.error("%s", error)  # noqa: TRY400  # for people: the traceback says nothing more
        return 1
    return 0


async def _run(settings: Settings, place: tuple[str, int], certificates: Certificates) -> None:
    clock, metrics, stop = SystemClock(), OperatorMetrics(), _asked_to_stop()
    target = kubeconfig.find(path=settings.kubeconfig, context=settings.context)
    domain = cluster_domain(RESOLV_CONF.read_text()) if RESOLV_CONF.is_file() else settings.cluster_domain
    chosen = replace(certificates, namespace=certificates.namespace or target.namespace)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.to(target, user_agent=USER_AGENT))
        client.report = kube_calls(metrics)
        serving.watch_loop(stack, metrics)
        serving.watch_rights(stack, client, metrics, _rights(settings, chosen))
        observer = _observer(client, settings, domain)
        served = Served(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
        metrics.watch(CERTIFICATE_EXPIRY, served.expiry)
        tasks = [asyncio.create_task(cache.run()) for cache in _caches(observer)]
        tasks.append(asyncio.create_task(_certify(served, chosen, domain, client, clock)))
        stack.push_async_callback(_cancel, tasks)
        await _serve(stack, settings, observer, client, served.ready, metrics)
        await _until(tasks, _either(served.ready, stop))
        if stop.is_set():
            return
        server = await serve(admission_app(observer.refs, metrics.reviewed), *place, tls=served.context)
        stack.push_async_callback(server.close)
        log.info("admission server listens on %s:%d", *place)
        await _until(tasks, stop.wait())


async def _until(tasks: list[asyncio.Task[None]], event: Coroutine[Any, Any, object]) -> None:
    """Wait for an event; the end of a task is a fault, and is raised."""
    waiting = asyncio.create_task(event)
    done, _ = await asyncio.wait([*tasks, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    for task in done:
        task.result()


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await _cancel(waiting)


def _asked_to_stop() -> asyncio.Event:
    """Set when the process is asked to stop, from its very start on: it may wait long for a right."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(
    stack: AsyncExitStack,
    settings: Settings,
    observer: Observer,
    client: Client,
    ready: asyncio.Event,
    metrics: OperatorMetrics,
) -> None:
    def uncertified() -> str | None:
        return None if ready.is_set() else "there is no certificate yet"

    def unsynced() -> str | None:
        waiting = [cache for cache in _caches(observer) if not cache.synced]
        return ", ".join(cache.refusal or cache.resource.plural for cache in waiting) or None

    health = health_app(healthy={}, ready={"caches": unsynced, "certificate": uncertified})
    await serving.start(stack, settings, health, metrics, client)


def _rights(settings: Settings, chosen: Certificates) -> Iterator[MissingRight]:
    """What the admission server needs with these settings; one whose certificate is given writes nothing."""
    scopes = {Scope.NAMESPACES}
    scopes |= set() if chosen.folder else {Scope.OWN, Scope.CLUSTER}
    scopes |= {Scope.METRICS} if settings.metrics_secure else set()
    names = {"<certificate>": chosen.secret, "<configuration>": chosen.configuration}
    for right in needed(rights.WEBHOOK, scopes, settings.namespaces, chosen.namespace):
        yield msgspec.structs.replace(right, name=names.get(right.name, right.name))


def _observer(client: Client, settings: Settings, domain: str) -> Observer:
    indexes = {BY_OWNER: owners, BY_NAMESPACE: namespaces}
    kinds = (*OURS.values(), CONFIG_MAPS.raw(), CLAIMS.raw())
    raw: dict[str, tuple[Cache[RawObject], ...]] = {
        kind.kind: tuple(
            Cache(client, kind, namespace=place, indexes=indexes) for place in settings.namespaces or ("",)
        )
        for kind in kinds
    }
    observer = Observer(raw, (), None, domain, settings.allowed_pod_features, worker_images=settings.worker_images)

    def drop(old: RawObject | None, new: RawObject | None) -> None:
        if old is not None and new is None:
            observer.forget(old.metadata.uid)

    for cache in _caches(observer):
        cache.on_change(drop)
    return observer


def _caches(observer: Observer) -> Iterator[Cache[RawObject]]:
    for caches in observer.raw.values():
        yield from caches


async def _certify(served: Served, chosen: Certificates, domain: str, client: Client, clock: Clock) -> None:
    if chosen.folder:
        await _follow(Path(chosen.folder), served, clock)
        return

    def take(held: Held) -> None:
        served.take(held.certificate, held.key)

    hosts = (*hosts_of(chosen.service, chosen.namespace, domain), *chosen.hosts)
    writer = Writer(client, field_manager=FIELD_MANAGER)
    await Rotation(writer, clock, chosen.namespace, chosen.secret, chosen.configuration, hosts, take).run()


async def _follow(folder: Path, served: Served, clock: Clock) -> None:
    """Serve what is in the folder, also after somebody else has renewed it."""
    last: tuple[bytes, bytes] | None = None
    while True:
        try:
            found = ((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes())
            if found != last:
                served.take(*found)
                last = found
        except (OSError, ssl.SSLError) as error:
            log.warning("the certificate in %s stays as it was: %s", folder, error)
        await clock.sleep(FOLLOW_SECONDS)
