"""Reads what a pod refers to from the API: ConfigMaps, Secrets, and the folders behind its claims.

Always read anew, never from a cache: a nudge comes right after the change that it announces, and on another watch.
`pod` calls it before the first start, at every nudge and about once a minute.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kube_local.node import sources
from kube_local.node.errors import MountFailed
from kube_local.node.sources import Object
from kube_local.node.volumes import Referred
from kube_runtime.client.client import Client
from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import CLAIMS, CONFIG_MAPS, SECRETS, RawObject, Resource

PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", RawObject, namespaced=False)


async def referred(client: Client, pod: Object) -> Referred:
    """Everything that the pod refers to; what is missing is left out."""
    names = sources.references(pod)
    namespace = str(pod["metadata"]["namespace"])
    maps, secrets, claims = await asyncio.gather(
        _all(client, CONFIG_MAPS.raw(), names.config_maps, namespace),
        _all(client, SECRETS.raw(), names.secrets, namespace),
        _all(client, CLAIMS.raw(), names.claims, namespace),
    )
    return Referred(
        {name: _files(found) for name, found in maps.items()},
        {name: _files(found) for name, found in secrets.items()},
        {name: path for name, found in claims.items() if (path := await _folder(client, name, found))},
    )


async def _all(
    client: Client, resource: Resource[RawObject], names: Iterable[str], namespace: str
) -> dict[str, dict[str, Any]]:
    async def one(name: str) -> tuple[str, dict[str, Any] | None]:
        try:
            return name, (await client.get(resource, name, namespace)).content()
        except NotFound:
            return name, None

    found = await asyncio.gather(*(one(name) for name in sorted(names)))
    return {name: body for name, body in found if body is not None}


def _files(body: Object) -> dict[str, bytes]:
    if body.get("kind") == "Secret":
        return {key: base64.b64decode(text) for key, text in (body.get("data") or {}).items()}
    plain = {key: text.encode() for key, text in (body.get("data") or {}).items()}
    return plain | {key: base64.b64decode(text) for key, text in (body.get("binaryData") or {}).items()}


async def _folder(client: Client, claim: str, body: Object) -> Path | None:
    volume = (body.get("spec") or {}).get("volumeName")
    if not volume or (body.get("status") or {}).get("phase") != "Bound":
        return None
    try:
        found = (await client.get(PERSISTENT_VOLUMES, str(volume))).content().get("spec") or {}
    except NotFound:
        return None
    source = found.get("hostPath") or found.get("local")
    if not source:
        raise MountFailed(f'volume {volume} of claim "{claim}" is not a folder of this machine (hostPath or local)')
    return Path(source["path"])
