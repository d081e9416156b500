"""The certificate steps carried out: the Secret that holds them, the webhook configuration that trusts them.

In: names, a client, a clock. Out: a TLS context that always serves the certificate of the Secret. Called by
`cli/webhook.py`. Several servers may do this side by side: every write names the version that it was decided on.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kube_runtime.client.errors import AlreadyExists, Conflict, NotFound
from kube_runtime.client.objects import SECRETS, RawObject, Resource
from kube_runtime.client.write import Writer
from kube_runtime.clock import Clock
from kube_runtime.errors import OperatorError
from slurm_operator.admission import certificates
from slurm_operator.admission.certificates import Held, Hold, Publish, Published, Rest

log = logging.getLogger(__name__)

CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    RawObject,
    namespaced=False,
)
PUBLISHED = "slinky.slurm.net/ca-published"
# A Secret that another server changed is seen this soon.
POLL_INTERVAL_SECONDS = 60.0
RETRY_SECONDS = 2.0


@dataclass(slots=True)
class Rotation:
    """Keeps one certificate alive."""

    writer: Writer
    clock: Clock
    namespace: str
    secret: str
    configuration: str
    hosts: tuple[str, ...]
    # Called with each certificate that is to be served from now on.
    serve: Callable[[Held], None]
    _served: Held | None = field(default=None)

    async def run(self) -> None:
        """Take steps for ever."""
        while True:
            try:
                pause = await self.step()
            except (Conflict, AlreadyExists):
                pause = 0.0
            except OperatorError as error:
                log.warning("the admission certificate stays as it is: %s", error)
                pause = RETRY_SECONDS
            await self.clock.sleep(pause)

    async def step(self) -> float:
        """One look and at most one write; how long to wait before the next."""
        secret = await self._read(SECRETS.raw(), self.secret, self.namespace)
        held = certificates.read(_data(secret)) if secret is not None else None
        self._use(held)
        configuration = await self._read(CONFIGURATIONS, self.configuration, "")
        now = self.clock.now()
        step = certificates.plan(held, _published(configuration), self.hosts, now)
        match step:
            case Rest():
                return min(POLL_INTERVAL_SECONDS, max(1.0, (step.until - now).total_seconds()))
            case Hold():
                log.info("admission certificate: %s", step.why)
                await self._hold(secret, step.held)
            case Publish():
                log.info("admission certificate: publish its CA to %s", self.configuration)
                await self._publish(configuration, step.bundle, now)
        return 0.0

    def _use(self, held: Held | None) -> None:
        if held is not None and (self._served is None or self._served.certificate != held.certificate):
            self.serve(held)
            self._served = held

    async def _read(self, resource: Resource[RawObject], name: str, namespace: str) -> RawObject | None:
        try:
            return await self.writer.client.get(resource, name, namespace)
        except NotFound:
            return None

    async def _hold(self, secret: RawObject | None, held: Held) -> None:
        data = {
            key: None if value is None else base64.b64encode(value).decode()
            for key, value in certificates.written(held).items()
        }
        if secret is None:
            metadata = {"name": self.secret, "namespace": self.namespace}
            present = {key: value for key, value in data.items() if value is not None}
            made = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": present}
            await self.writer.create(made)
            return
        version = secret.metadata.resource_version
        await self.writer.patch(SECRETS, self.secret, {"data": data}, self.namespace, resource_version=version)

    async def _publish(self, configuration: RawObject | None, bundle: bytes, now: datetime) -> None:
        if configuration is None:
            return
        text = base64.b64encode(bundle).decode()
        webhooks = [
            {**each, "clientConfig": {**each.get("clientConfig", {}), "caBundle": text}}
            for each in configuration.content().get("webhooks") or []
        ]
        patch = {"metadata": {"annotations": {PUBLISHED: now.isoformat()}}, "webhooks": webhooks}
        version = configuration.metadata.resource_version
        await self.writer.patch(CONFIGURATIONS, self.configuration, patch, resource_version=version)


def _data(secret: RawObject) -> Mapping[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (secret.content().get("data") or {}).items()}


def _published(configuration: RawObject | None) -> list[Published]:
    if configuration is None:
        return []
    content: dict[str, Any] = configuration.content()
    since = _time((content["metadata"].get("annotations") or {}).get(PUBLISHED, ""))
    bundles = [(each.get("clientConfig") or {}).get("caBundle") or "" for each in content.get("webhooks") or []]
    return [Published(base64.b64decode(bundle), since) for bundle in bundles]


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
