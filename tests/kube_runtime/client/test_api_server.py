"""Client and cache on whole API servers: every test runs on the embedded and on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.kube_runtime.client.bodies import (
    WIDGET_CRD,
    config_map,
    make,
    widget,
)
from tests.kube_runtime.client.conftest import Api
from tests.kube_runtime.client.fault_server import Relay

from kube_runtime.backoff import Backoff
from kube_runtime.client import errors, kubeconfig
from kube_runtime.client.cache import Cache, Pace
from kube_runtime.client.client import Client
from kube_runtime.client.credentials import Bearer, Inline
from kube_runtime.client.decode import Changed, Deleted
from kube_runtime.client.objects import (
    CONFIG_MAPS,
    CRDS,
    ConfigMap,
    RawObject,
    Resource,
)
from kube_runtime.client.timing import Timing
from kube_runtime.client.write import Writer
from kube_runtime.clock import SystemClock


async def test_what_was_created_can_be_read(api: Api) -> None:
    made = await make(api, key="value")
    read = await api.client.get(CONFIG_MAPS, "a", api.namespace)
    assert read == made
    assert read.data == {"key": "value"}
    assert read.metadata.uid
    assert read.metadata.resource_version


async def test_a_twin_is_refused(api: Api) -> None:
    await make(api)
    with pytest.raises(errors.AlreadyExists):
        await make(api)


async def test_what_was_made_unread_is_there_and_its_twin_is_refused(api: Api) -> None:
    writer = Writer(api.client)
    await writer.make(config_map(api, key="value"))
    assert (await api.client.get(CONFIG_MAPS, "a", api.namespace)).data == {"key": "value"}
    with pytest.raises(errors.AlreadyExists):
        await writer.make(config_map(api))


async def test_what_is_not_there_is_not_found(api: Api) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await api.client.get(CONFIG_MAPS, "nothing", api.namespace)
    assert caught.value.status.details is not None
    assert caught.value.status.details.name == "nothing"


async def test_a_bad_name_is_invalid_and_the_cause_names_the_field(api: Api) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await make(api, "Not_A_Name")
    assert [cause.field for cause in caught.value.causes] == ["metadata.name"]


async def test_a_wrong_token_is_unauthorized(api: Api) -> None:
    target = replace(kubeconfig.load([api.kubeconfig_path]), credentials=Bearer(Inline(b"wrong")))
    async with Client.to(target) as stranger:
        with pytest.raises(errors.Unauthorized):
            await stranger.list(CONFIG_MAPS, api.namespace)


async def test_a_kind_that_is_not_served_is_not_found(api: Api) -> None:
    with pytest.raises(errors.NotFound):
        await api.client.list(Resource("nowhere.test", "v1", "things", "Thing", RawObject))


async def test_a_list_comes_in_pages_at_one_resource_version(api: Api) -> None:
    for name in "abcde":
        await make(api, name)
    pages = [page async for page in api.client.pages(CONFIG_MAPS, api.namespace, limit=2)]
    names = [item.metadata.name for page in pages for item in page.items]
    assert sorted(name for name in names if len(name) == 1) == list("abcde")
    assert len(pages) >= 3
    assert len({page.resource_version for page in pages}) == 1


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        pytest.param({"label_selector": "app=x"}, ["a", "b"], id="label"),
        pytest.param({"label_selector": "app in (x, y), !odd"}, ["a", "c"], id="label sets"),
        pytest.param({"label_selector": "app!=x,app"}, ["c"], id="label inequality"),
        pytest.param({"field_selector": "metadata.name=c"}, ["c"], id="field"),
    ],
)
async def test_selectors_choose(api: Api, selectors: dict[str, Any], expected: list[str]) -> None:
    await make(api, "a", {"app": "x"})
    await make(api, "b", {"app": "x", "odd": ""})
    await make(api, "c", {"app": "y"})
    listing = await api.client.list(CONFIG_MAPS, api.namespace, **selectors)
    assert sorted(item.metadata.name for item in listing.items) == expected


async def test_a_watch_tells_what_happened_since_the_list(api: Api) -> None:
    listing = await api.client.list(CONFIG_MAPS, api.namespace)
    made = await make(api, v="1")
    await api.client.merge_patch(CONFIG_MAPS, "a", {"data": {"v": "2"}}, api.namespace)
    await api.client.delete(CONFIG_MAPS, "a", api.namespace, uid=made.metadata.uid)
    events = api.client.watch(
        CONFIG_MAPS,
        api.namespace,
        resource_version=listing.resource_version,
        field_selector="metadata.name=a",
        seconds=30,
    )
    async with asyncio.timeout(20):
        first, second, third = [await anext(events) for _ in range(3)]
    await events.aclose()
    assert isinstance(first, Changed)
    assert isinstance(second, Changed)
    assert isinstance(third, Deleted)
    assert [event.object.data["v"] for event in (first, second, third)] == ["1", "2", "2"]
    versions = [int(event.object.metadata.resource_version) for event in (first, second, third)]
    assert versions == sorted(set(versions))


async def test_an_object_that_leaves_the_selection_is_told_as_deleted(api: Api) -> None:
    await make(api, labels={"app": "x"})
    listing = await api.client.list(CONFIG_MAPS, api.namespace, label_selector="app=x")
    events = api.client.watch(
        CONFIG_MAPS, api.namespace, resource_version=listing.resource_version, label_selector="app=x", seconds=30
    )
    await api.client.merge_patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"app": None}}}, api.namespace)
    async with asyncio.timeout(20):
        assert isinstance(await anext(events), Deleted)
    await events.aclose()


async def test_a_watch_ends_by_itself_after_its_seconds(api: Api) -> None:
    listing = await api.client.list(CONFIG_MAPS, api.namespace)
    watch = api.client.watch(CONFIG_MAPS, api.namespace, resource_version=listing.resource_version, seconds=1)
    async with asyncio.timeout(20):
        assert [event async for event in watch if isinstance(event, Changed)] == []


async def test_apply_twice_changes_nothing_the_second_time(api: Api) -> None:
    body = config_map(api, v="1")
    first = await api.client.apply(CONFIG_MAPS, "a", body, api.namespace, field_manager="m")
    second = await api.client.apply(CONFIG_MAPS, "a", body, api.namespace, field_manager="m")
    assert first.metadata.resource_version == second.metadata.resource_version


async def test_apply_takes_away_what_is_no_longer_applied(api: Api) -> None:
    await api.client.apply(CONFIG_MAPS, "a", config_map(api, v="1", w="1"), api.namespace, field_manager="m")
    after = await api.client.apply(CONFIG_MAPS, "a", config_map(api, v="1"), api.namespace, field_manager="m")
    assert after.data == {"v": "1"}


async def test_a_field_of_another_manager_is_a_conflict_unless_forced(api: Api) -> None:
    await api.client.apply(CONFIG_MAPS, "a", config_map(api, v="1"), api.namespace, field_manager="one")
    body = config_map(api, v="2")
    with pytest.raises(errors.Conflict) as caught:
        await api.client.apply(CONFIG_MAPS, "a", body, api.namespace, field_manager="two", force=False)
    assert any(".data.v" in cause.field for cause in caught.value.causes)
    after = await api.client.apply(CONFIG_MAPS, "a", body, api.namespace, field_manager="two", force=True)
    assert after.data == {"v": "2"}


async def test_apply_with_the_uid_of_a_deleted_object_does_not_bring_it_back(api: Api) -> None:
    made = await make(api)
    await api.client.delete(CONFIG_MAPS, "a", api.namespace)
    body = config_map(api, v="2")
    body["metadata"]["uid"] = made.metadata.uid
    with pytest.raises(errors.Conflict):
        await api.client.apply(CONFIG_MAPS, "a", body, api.namespace, field_manager="m")
    with pytest.raises(errors.NotFound):
        await api.client.get(CONFIG_MAPS, "a", api.namespace)


async def test_a_merge_patch_with_an_old_resource_version_is_a_conflict(api: Api) -> None:
    made = await make(api)
    await api.client.merge_patch(CONFIG_MAPS, "a", {"data": {"v": "1"}}, api.namespace)
    old = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"v": "2"}}
    with pytest.raises(errors.Conflict):
        await api.client.merge_patch(CONFIG_MAPS, "a", old, api.namespace)


async def test_a_put_with_an_old_resource_version_is_a_conflict(api: Api) -> None:
    made = await make(api)
    body = config_map(api, v="1")
    body["metadata"]["resourceVersion"] = made.metadata.resource_version
    await api.client.replace(CONFIG_MAPS, "a", body, api.namespace)
    with pytest.raises(errors.Conflict):
        await api.client.replace(CONFIG_MAPS, "a", body, api.namespace)


@pytest.mark.parametrize("which", ["uid", "resource_version"])
async def test_delete_of_another_object_than_the_one_seen_is_a_conflict(api: Api, which: str) -> None:
    made = await make(api)
    wrong: dict[str, Any] = {which: "00000000-0000-0000-0000-000000000000" if which == "uid" else "1"}
    with pytest.raises(errors.Conflict):
        await api.client.delete(CONFIG_MAPS, "a", api.namespace, **wrong)
    await api.client.delete(
        CONFIG_MAPS, "a", api.namespace, uid=made.metadata.uid, resource_version=made.metadata.resource_version
    )
    with pytest.raises(errors.NotFound):
        await api.client.get(CONFIG_MAPS, "a", api.namespace)


async def test_a_dry_run_changes_nothing(api: Api) -> None:
    await api.client.create(CONFIG_MAPS, config_map(api, "new"), api.namespace, dry_run=True)
    made = await make(api, v="1")
    await api.client.apply(CONFIG_MAPS, "a", config_map(api, v="2"), api.namespace, field_manager="m", dry_run=True)
    await api.client.merge_patch(CONFIG_MAPS, "a", {"data": {"v": "3"}}, api.namespace, dry_run=True)
    await api.client.delete(CONFIG_MAPS, "a", api.namespace, uid=made.metadata.uid, dry_run=True)
    assert await api.client.get(CONFIG_MAPS, "a", api.namespace) == made
    with pytest.raises(errors.NotFound):
        await api.client.get(CONFIG_MAPS, "new", api.namespace)


async def test_status_and_spec_are_written_apart(api: Api, widgets: Resource[RawObject]) -> None:
    made = await api.client.create(widgets, widget(api, spec={"replicas": 3}, status={"replicas": 9}), api.namespace)
    assert "status" not in made.content()
    await api.client.apply(
        widgets, "w", widget(api, status={"replicas": 2}), api.namespace, field_manager="m", subresource="status"
    )
    after = (await api.client.get(widgets, "w", api.namespace)).content()
    assert after["status"]["replicas"] == 2
    assert after["spec"]["replicas"] == 3
    assert after["metadata"]["generation"] == 1


async def test_scale_is_read_and_set(api: Api, widgets: Resource[RawObject]) -> None:
    await api.client.create(widgets, widget(api, spec={"replicas": 3}), api.namespace)
    assert (await api.client.get_scale(widgets, "w", api.namespace)).spec.replicas == 3
    assert (await api.client.scale(widgets, "w", 5, api.namespace)).spec.replicas == 5
    assert (await api.client.get(widgets, "w", api.namespace)).content()["spec"]["replicas"] == 5


# Cache


async def test_a_cache_follows_a_whole_server(api: Api) -> None:
    await make(api, "a", v="1")
    cache = Cache(api.client, CONFIG_MAPS, api.namespace, indexes={"v": lambda item: [item.data.get("v", "")]})
    told: list[tuple[str, str]] = []

    def listen(old: ConfigMap | None, new: ConfigMap | None) -> None:
        item = new or old
        assert item is not None
        told.append(("delete" if new is None else "change" if old else "add", item.metadata.name))

    cache.on_change(listen)
    task = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(30):
            await cache.wait_synced()
            await make(api, "b", v="2")
            changed = await api.client.merge_patch(CONFIG_MAPS, "a", {"data": {"v": "2"}}, api.namespace)
            await cache.wait_for(changed.metadata.resource_version)
            assert {item.metadata.name for item in cache.by_index("v", "2")} == {"a", "b"}
            assert cache.get(api.namespace, "a") == changed
            await api.client.delete(CONFIG_MAPS, "b", api.namespace)
            last = await make(api, "c")
            await cache.wait_for(last.metadata.resource_version)
        assert cache.get(api.namespace, "b") is None
        mine = [item for item in told if len(item[1]) == 1]
        assert mine == [("add", "a"), ("add", "b"), ("change", "a"), ("delete", "b"), ("add", "c")]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def relay(api: Api) -> AsyncIterator[Relay]:
    port = urlsplit(kubeconfig.load([api.kubeconfig_path]).server).port
    assert port is not None
    made = Relay(port)
    await made.start()
    yield made
    await made.stop()


async def test_a_cache_whose_watch_is_cut_again_and_again_misses_nothing(api: Api, relay: Relay) -> None:
    target = replace(kubeconfig.load([api.kubeconfig_path]), server=relay.url)
    async with Client.to(target) as behind:
        cache = Cache(
            behind,
            CONFIG_MAPS,
            api.namespace,
            label_selector="mine=yes",
            pace=Pace(backoff=Backoff(first=0.05, limit=0.2, jitter=1.0)),
        )
        task = asyncio.create_task(cache.run())
        async with asyncio.timeout(60):
            await cache.wait_synced()
            for number in range(6):
                made = await make(api, f"n{number}", {"mine": "yes"})
                assert relay.cut() > 0 or number
                await cache.wait_for(made.metadata.resource_version)
            relay.cut()
            await api.client.delete(CONFIG_MAPS, "n0", api.namespace)
            last = await make(api, "n6", {"mine": "yes"})
            await cache.wait_for(last.metadata.resource_version)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert {item.metadata.name for item in cache.items()} == {f"n{number}" for number in range(1, 7)}
    assert cache.relists == 1


async def test_a_cache_of_a_kind_that_appears_later_gets_it(api: Api) -> None:
    group = "later-" + api.namespace + ".test"
    crd: dict[str, Any] = {
        **WIDGET_CRD,
        "metadata": {"name": f"widgets.{group}"},
        "spec": {**WIDGET_CRD["spec"], "group": group},
    }
    missed = asyncio.Event()

    class Noticing(SystemClock):
        async def sleep(self, seconds: float) -> None:
            if isinstance(cache.last_error, errors.NotFound):
                missed.set()
            await super().sleep(seconds)

    widgets = Resource(group, "v1", "widgets", "Widget", RawObject)
    cache = Cache(api.client, widgets, api.namespace, timing=Timing(Noticing()))
    task = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(30):
            await missed.wait()
            await api.client.create(CRDS, crd)
            await cache.wait_synced()
        assert cache.last_error is None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
