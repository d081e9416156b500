"""Servers that forget: a true 410, on the embedded and on a real API server, and one restored from a backup."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.kube_runtime.client.conftest import Forgetful, embedded_server
from tests.kube_runtime.client.fault_server import Relay

from kube_runtime.backoff import Backoff
from kube_runtime.client import errors, kubeconfig
from kube_runtime.client.cache import Cache, Pace
from kube_runtime.client.client import Client
from kube_runtime.client.objects import CONFIG_MAPS, PODS, Pod


@pytest.fixture
async def relay(forgetful: Forgetful) -> AsyncIterator[Relay]:
    port = urlsplit(kubeconfig.load([forgetful.api.kubeconfig_path]).server).port
    assert port is not None
    made = Relay(port)
    await made.start()
    yield made
    await made.stop()


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def test_pod_deleted_while_the_watch_was_broken_is_seen_as_deleted_after_a_true_410(
    forgetful: Forgetful, relay: Relay
) -> None:
    """kopf keeps such a pod for ever; lightkube and kr8s loop on the same resourceVersion."""
    client, namespace = forgetful.api.client, forgetful.api.namespace
    for name in ("stays", "goes", "changes", "is-replaced"):
        await client.create(PODS, pod(name), namespace)
    told: list[str] = []

    def listen(old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        told.append(f"{'delete' if new is None else 'change' if old else 'add'} {item.metadata.name}")

    target = replace(kubeconfig.load([forgetful.api.kubeconfig_path]), server=relay.url)
    async with Client.to(target) as behind, asyncio.timeout(60):
        cache = Cache(behind, PODS, namespace, pace=Pace(backoff=Backoff(first=0.05, limit=0.2, jitter=1.0)))
        task = asyncio.create_task(cache.run())
        await cache.wait_synced()
        cache.on_change(listen)
        told.clear()
        relay.is_down = True
        relay.cut()
        await client.delete(PODS, "goes", namespace)
        await client.delete(PODS, "is-replaced", namespace)
        await client.create(PODS, pod("is-replaced"), namespace)
        patch = {"metadata": {"labels": {"new": "1"}}}
        changed = await client.merge_patch(PODS, "changes", patch, namespace)
        await forgetful.forget(changed.metadata.resource_version)
        relay.is_down = False
        await cache.wait_for(changed.metadata.resource_version)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert sorted(told) == ["add is-replaced", "change changes", "delete goes", "delete is-replaced"]
    assert cache.relists == 2


async def test_a_list_whose_continue_token_was_forgotten_says_so(forgetful: Forgetful) -> None:
    client, namespace = forgetful.api.client, forgetful.api.namespace
    for name in "abcd":
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await client.create(CONFIG_MAPS, body, namespace)
    pages = client.pages(CONFIG_MAPS, namespace, limit=2)
    first = await anext(pages)
    await forgetful.forget(first.resource_version)
    with pytest.raises(errors.Expired):
        await anext(pages)


async def test_a_watch_from_a_forgotten_version_is_expired(forgetful: Forgetful) -> None:
    client, namespace = forgetful.api.client, forgetful.api.namespace
    listing = await client.list(CONFIG_MAPS, namespace)
    await forgetful.forget(listing.resource_version)
    with pytest.raises(errors.Expired):
        await anext(client.watch(CONFIG_MAPS, namespace, resource_version=listing.resource_version))


async def test_a_server_restored_from_a_backup_is_believed_again_from_a_new_list(tmp_path: Path) -> None:
    """It knows nothing of what we saw, and a watch from our resourceVersion would be silent."""
    newer = embedded_server(first_revision=5000, certificates_folder=tmp_path)
    older = embedded_server(first_revision=100, certificates_folder=tmp_path)
    for server, names in ((newer, "ab"), (older, "a")):
        await server.start()
        for name in names:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            await server.handle("POST", "/api/v1/namespaces/default/configmaps", body=body)
    path = tmp_path / "kubeconfig"
    path.write_text(newer.kubeconfig())
    relay = Relay(urlsplit(newer.url).port or 0)
    await relay.start()
    target = replace(kubeconfig.load([path]), server=relay.url)
    async with Client.to(target) as client, asyncio.timeout(30):
        cache = Cache(client, CONFIG_MAPS, "default", pace=Pace(backoff=Backoff(first=0.05, limit=0.2, jitter=1.0)))
        gone = asyncio.Event()
        cache.on_change(lambda _, new: gone.set() if new is None else None)
        task = asyncio.create_task(cache.run())
        await cache.wait_synced()
        assert len(cache) == 2
        relay.port = urlsplit(older.url).port or 0
        relay.cut()
        await gone.wait()
        await asyncio.sleep(0)
        assert [item.metadata.name for item in cache.items()] == ["a"]
        assert int(cache.resource_version) < 5000
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await relay.stop()
    await newer.stop()
    await older.stop()
