"""Garbage collection: who goes with whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_local.apiserver.store import Store, StoreFull

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"


async def owner(api: Any, name: str = "owner") -> Any:
    return await api.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})


async def dependent(api: Any, name: str, *owners: Any, **metadata: Any) -> Any:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for one in owners
    ]
    given = {"name": name, "ownerReferences": references, **metadata}
    return await api.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": given})


async def is_there(api: Any, path: str) -> bool:
    return bool((await api.send("GET", path)).status == 200)


@pytest.mark.parametrize("policy", ["Background", ""])
async def test_dependents_follow_their_owner(api: Any, policy: str) -> None:
    first = await owner(api)
    await dependent(api, "child", first)
    await api.ok("DELETE", f"{MAPS}/owner", {"propagationPolicy": policy} if policy else None)
    assert await is_there(api, f"{SECRETS}/child")
    api.server.collect_garbage()
    assert not await is_there(api, f"{SECRETS}/child")


async def test_a_chain_of_owners_goes_to_its_end(api: Any) -> None:
    first = await owner(api)
    middle = await api.create(
        MAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "middle",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": first["metadata"]["uid"]}
                ],
            },
        },
    )
    await dependent(api, "leaf", middle)
    await api.ok("DELETE", f"{MAPS}/owner")
    api.server.collect_garbage()
    assert not await is_there(api, f"{MAPS}/middle")
    assert not await is_there(api, f"{SECRETS}/leaf")


async def test_another_owner_keeps_the_dependent(api: Any) -> None:
    first, second = await owner(api, "first"), await owner(api, "second")
    await dependent(api, "child", first, second)
    await api.ok("DELETE", f"{MAPS}/first")
    api.server.collect_garbage()
    child = await api.ok("GET", f"{SECRETS}/child")
    assert [one["name"] for one in child["metadata"]["ownerReferences"]] == ["second"]


async def test_in_the_foreground_the_owner_waits_for_its_dependents(api: Any) -> None:
    first = await owner(api)
    await dependent(api, "child", first, finalizers=["example.com/hold"])
    await api.ok("DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    api.server.collect_garbage()
    waiting = await api.ok("GET", f"{MAPS}/owner")
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert (await api.ok("GET", f"{SECRETS}/child"))["metadata"]["deletionTimestamp"]
    await api.merge(f"{SECRETS}/child", {"metadata": {"finalizers": None}})
    api.server.collect_garbage()
    assert not await is_there(api, f"{MAPS}/owner")


async def test_orphans_stay_without_their_owner(api: Any) -> None:
    first = await owner(api)
    await dependent(api, "child", first)
    await api.ok("DELETE", f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
    api.server.collect_garbage()
    assert not await is_there(api, f"{MAPS}/owner")
    assert "ownerReferences" not in (await api.ok("GET", f"{SECRETS}/child"))["metadata"]


async def test_a_namesake_of_the_owner_is_not_the_owner(api: Any) -> None:
    first = await owner(api)
    await api.ok("DELETE", f"{MAPS}/owner")
    await owner(api)
    await dependent(api, "child", first)
    api.server.collect_garbage()
    assert not await is_there(api, f"{SECRETS}/child")


async def test_an_owner_in_another_namespace_is_none(api: Any) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps"
    far = await api.create(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far"}})
    await dependent(api, "child", far)
    api.server.collect_garbage()
    assert not await is_there(api, f"{SECRETS}/child")


async def test_an_owner_of_an_unknown_kind_is_let_be(api: Any) -> None:
    reference = {"apiVersion": "nobody.example.com/v1", "kind": "Thing", "name": "x", "uid": "u"}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "child", "ownerReferences": [reference]}}
    await api.create(SECRETS, body)
    api.server.collect_garbage()
    assert await is_there(api, f"{SECRETS}/child")


async def test_a_namespace_goes_with_everything_in_it(api: Any) -> None:
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}})
    held = {"name": "m", "finalizers": ["example.com/hold"]}
    path = "/api/v1/namespaces/old/configmaps"
    await api.create(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    await api.create(
        "/api/v1/namespaces/old/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    )
    dying = await api.ok("DELETE", "/api/v1/namespaces/old")
    assert dying["status"]["phase"] == "Terminating"
    api.server.collect_garbage()
    assert await is_there(api, "/api/v1/namespaces/old")
    assert not await is_there(api, "/api/v1/namespaces/old/secrets/s")
    await api.merge(f"{path}/m", {"metadata": {"finalizers": None}})
    api.server.collect_garbage()
    assert not await is_there(api, "/api/v1/namespaces/old")


async def test_a_definition_goes_with_its_objects(widgets: Any) -> None:
    path = "/apis/example.com/v1/namespaces/default/widgets"
    await widgets.create(path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    await widgets.ok("DELETE", CRD)
    widgets.server.collect_garbage()
    assert not await is_there(widgets, CRD)
    assert (await widgets.send("GET", path)).status == 404
    assert widgets.server.store.rows("widgets.example.com") == []


async def test_a_claim_stays_while_a_pod_uses_it(api: Any) -> None:
    claims, pods = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/namespaces/default/pods"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name in ("used", "free"):
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        made = await api.create(claims, body)
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "used"}}
    pod = {"containers": [{"name": "c", "image": "x"}], "volumes": [volume], "nodeName": "n1"}
    await api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod})
    for name in ("used", "free"):
        await api.ok("DELETE", f"{claims}/{name}")
    api.server.collect_garbage()
    assert [await is_there(api, f"{claims}/{name}") for name in ("used", "free")] == [True, False]
    await api.ok("DELETE", f"{pods}/p", {"gracePeriodSeconds": 0})
    api.server.collect_garbage()
    assert not await is_there(api, f"{claims}/used")


async def test_the_collector_runs_as_a_task(api: Any) -> None:
    task = api.server.run_garbage_collector()
    first = await owner(api)
    await dependent(api, "child", first)
    stream = (await api.send("GET", f"{SECRETS}/child", query={"watch": "true"})).stream
    assert b'"ADDED"' in await anext(stream)
    await api.ok("DELETE", f"{MAPS}/owner")
    async with asyncio.timeout(5):
        assert b'"DELETED"' in await anext(stream)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_quiet_store_is_not_touched(api: Any) -> None:
    first = await owner(api)
    await dependent(api, "child", first)
    api.server.collect_garbage()
    before = api.server.store.revision
    assert api.server.collect_garbage() == 0
    assert api.server.store.revision == before


async def test_garbage_that_a_full_disk_kept_goes_when_there_is_room(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await owner(api)
    await dependent(api, "child", first)
    await api.ok("DELETE", f"{MAPS}/owner", {"propagationPolicy": "Background"})
    with monkeypatch.context() as full:
        full.setattr(Store, "delete", _full)
        with pytest.raises(StoreFull):
            api.server.collect_garbage()
    assert await is_there(api, f"{SECRETS}/child")
    api.server.collect_garbage()
    assert not await is_there(api, f"{SECRETS}/child")


def _full(*_: object) -> None:
    raise StoreFull("database or disk is full")
