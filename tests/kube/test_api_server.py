"""Client, cache, writer, events and lease on whole API servers: every test runs on the embedded and on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.kube.conftest import Api
from tests.kube.fault_server import Relay

from slurm_operator.kube import errors, kubeconfig
from slurm_operator.kube.cache import Cache, Pace
from slurm_operator.kube.client import Client
from slurm_operator.kube.credentials import Bearer, Inline
from slurm_operator.kube.decode import Changed, Deleted
from slurm_operator.kube.events import Recorder
from slurm_operator.kube.lease import LeaseObject
from slurm_operator.kube.objects import (
    BUILT_IN,
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    ConfigMap,
    RawObject,
    Resource,
)
from slurm_operator.kube.timing import Timing
from slurm_operator.kube.write import Effect, Write, Writer

WIDGETS = Resource("kube.test", "v1", "widgets", "Widget", RawObject)


def config_map(api: Api, name: str = "a", labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": api.namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def make(api: Api, name: str = "a", labels: dict[str, str] | None = None, **data: str) -> ConfigMap:
    return await api.client.create(CONFIG_MAPS, config_map(api, name, labels, **data), api.namespace)


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


async def test_a_json_patch_runs_in_order_and_a_failed_test_stops_it(api: Api) -> None:
    await make(api, v="1")
    good = [{"op": "test", "path": "/data/v", "value": "1"}, {"op": "replace", "path": "/data/v", "value": "2"}]
    after = await api.client.json_patch(CONFIG_MAPS, "a", good, api.namespace)
    assert after.data == {"v": "2"}
    with pytest.raises(errors.BadRequest):
        await api.client.json_patch(CONFIG_MAPS, "a", good, api.namespace)


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


CONDITION = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
}
WIDGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.kube.test"},
    "spec": {
        "group": "kube.test",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "replicas": {"type": "integer"},
                                    "colour": {"type": "string", "default": "red"},
                                    "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "replicas": {"type": "integer"},
                                    "conditions": {
                                        "type": "array",
                                        "items": CONDITION,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["type"],
                                    },
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture
async def widgets(api: Api) -> Resource[RawObject]:
    """A custom kind with status and scale, served."""
    with suppress(errors.AlreadyExists):
        await api.client.create(CRDS, WIDGET_CRD)
    async with asyncio.timeout(20):
        while True:
            with suppress(errors.NotFound):
                await api.client.list(WIDGETS, api.namespace)
                return WIDGETS
            await asyncio.sleep(0.05)


def widget(api: Api, **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kube.test/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": api.namespace},
        **parts,
    }


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
        cache = Cache(behind, CONFIG_MAPS, api.namespace, label_selector="mine=yes", pace=Pace(most_wait=0.2))
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
        "spec": {**WIDGET_CRD["spec"], "group": group},  # type: ignore[dict-item]
    }
    missed = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if isinstance(cache.last_error, errors.NotFound):
            missed.set()
        await asyncio.sleep(seconds)

    widgets = Resource(group, "v1", "widgets", "Widget", RawObject)
    cache = Cache(api.client, widgets, api.namespace, timing=Timing(sleep=sleep))
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


# Writer


def stateful_set(api: Api) -> dict[str, Any]:
    """Every trap of a comparison in one object: defaults, zeros, quantities, keyed, atomic and ordered lists."""
    labels = {"app": "x"}
    container = {
        "name": "slurmctld",
        "image": "slurmctld:1",
        "args": ["-D"],
        "env": [{"name": "B", "value": ""}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"containerPort": 6817}, {"name": "dns", "containerPort": 6817, "protocol": "UDP"}],
        "resources": {"limits": {"cpu": "2000m", "memory": "1024Mi"}, "requests": {"cpu": 1}},
        "readinessProbe": {"tcpSocket": {"port": 6817}, "initialDelaySeconds": 0},
        "securityContext": {"privileged": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "etc", "mountPath": "/etc/slurm", "readOnly": False}],
    }
    pod_spec = {
        "hostNetwork": False,
        "automountServiceAccountToken": False,
        "containers": [container],
        "initContainers": [{"name": "sidecar", "image": "s", "restartPolicy": "Always", "tty": True}],
        "volumes": [
            {"name": "etc", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}},
            {"name": "run", "emptyDir": {}},
            {"name": "big", "emptyDir": {"sizeLimit": "2048Mi"}},
        ],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    }
    claim = {
        "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "ctl", "namespace": api.namespace, "labels": dict(labels), "annotations": {"empty": ""}},
        "spec": {
            "replicas": 0,
            "serviceName": "ctl",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
            "volumeClaimTemplates": [claim],
        },
    }


def service(api: Api) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "svc",
            "namespace": api.namespace,
            "ownerReferences": [owner("u1")],
            "finalizers": ["a.b/c"],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app": "x"},
            "ports": [{"name": "b", "port": 6818}, {"name": "a", "port": 6817, "targetPort": "slurmctld"}],
        },
    }


def owner(uid: str, *, controller: bool = True) -> dict[str, Any]:
    return {"apiVersion": "kube.test/v1", "kind": "Widget", "name": "w", "uid": uid, "controller": controller}


def budget(api: Api) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": api.namespace},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}},
    }


def secret(api: Api) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": api.namespace},
        "type": "Opaque",
        "data": {"key": "AAEC"},
        "immutable": False,
    }


BUILDERS = [stateful_set, service, budget, secret, config_map]


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
async def test_a_quiet_world_sees_no_write_not_even_from_a_new_process(api: Api, build: Any) -> None:
    first = Writer(api.client)
    assert (await first.apply(build(api))).effect is Effect.CREATED
    second = Writer(api.client)
    applied = await second.apply(build(api))
    assert [str(difference) for difference in applied.why] == []
    assert applied.effect is Effect.UNCHANGED
    assert sum(second.counts.values()) == 0


async def test_what_the_server_writes_in_another_form_is_learnt_after_one_apply(api: Api) -> None:
    body = {**secret(api), "stringData": {"other": "text"}}
    writer = Writer(api.client)
    await writer.apply(body)
    effects = [(await writer.apply(body)).effect for _ in range(3)]
    assert effects == [Effect.UNCHANGED] * 3


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda body: body["spec"].update(replicas=2), id="a value"),
        pytest.param(lambda body: body["metadata"]["labels"].update(new="1"), id="a new label"),
        pytest.param(lambda body: body["metadata"]["annotations"].clear(), id="an annotation less"),
        pytest.param(lambda body: _container(body)["env"].pop(), id="a variable less"),
        pytest.param(lambda body: _container(body)["env"].reverse(), id="variables in another order"),
        pytest.param(lambda body: _container(body)["args"].append("-v"), id="an argument more"),
        pytest.param(lambda body: _container(body).pop("securityContext"), id="a part less"),
        pytest.param(lambda body: _container(body)["ports"].pop(), id="a port less"),
        pytest.param(lambda body: _container(body)["resources"]["limits"].update(cpu="2001m"), id="a quantity"),
        pytest.param(lambda body: body["spec"]["template"]["spec"].update(hostNetwork=True), id="a zero that is none"),
        pytest.param(lambda body: body["spec"]["template"]["spec"].pop("tolerations"), id="a list less"),
        pytest.param(lambda body: body["spec"]["template"]["spec"]["nodeSelector"].update(x="y"), id="an atomic map"),
    ],
)
async def test_every_change_of_what_is_wanted_is_written_once(api: Api, change: Any) -> None:
    writer = Writer(api.client)
    await writer.apply(stateful_set(api))
    body = stateful_set(api)
    change(body)
    assert (await writer.apply(body)).effect is Effect.CHANGED
    assert (await Writer(api.client).apply(body)).effect is Effect.UNCHANGED


def _container(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["template"]["spec"]["containers"][0]
    return found


async def test_drift_is_put_right_and_what_others_own_is_left(api: Api) -> None:
    writer = Writer(api.client)
    await writer.apply(config_map(api, v="1"))
    foreign = {"metadata": {"labels": {"theirs": "1"}}, "data": {"w": "theirs"}}
    await api.client.merge_patch(CONFIG_MAPS, "a", foreign, api.namespace)
    assert (await writer.apply(config_map(api, v="1"))).effect is Effect.UNCHANGED
    await api.client.merge_patch(CONFIG_MAPS, "a", {"data": {"v": "drift"}}, api.namespace)
    assert (await writer.apply(config_map(api, v="1"))).effect is Effect.CHANGED
    after = await api.client.get(CONFIG_MAPS, "a", api.namespace)
    assert after.data == {"v": "1", "w": "theirs"}
    assert after.metadata.labels == {"theirs": "1"}


async def test_a_field_that_somebody_removed_comes_back(api: Api) -> None:
    writer = Writer(api.client)
    await writer.apply(config_map(api, v="", w="1"))
    await api.client.merge_patch(CONFIG_MAPS, "a", {"data": {"v": None}}, api.namespace)
    assert (await writer.apply(config_map(api, v="", w="1"))).effect is Effect.CHANGED
    assert (await api.client.get(CONFIG_MAPS, "a", api.namespace)).data == {"v": "", "w": "1"}


async def test_an_object_that_another_program_made_is_taken_over_once(api: Api) -> None:
    await make(api, v="1")
    writer = Writer(api.client)
    effects = [(await writer.apply(config_map(api, v="1"))).effect for _ in range(2)]
    assert effects == [Effect.CHANGED, Effect.UNCHANGED]


async def test_an_apply_does_not_bring_back_what_somebody_just_deleted(api: Api) -> None:
    writer = Writer(api.client)
    seen = (await writer.apply(config_map(api, v="1"))).object
    await api.client.delete(CONFIG_MAPS, "a", api.namespace)
    with pytest.raises(errors.Conflict):
        await writer.apply(config_map(api, v="2"), seen)


async def test_conditions_of_others_stay(api: Api, widgets: Resource[RawObject]) -> None:
    """A merge patch from a stale cache once wiped Ready from pods of the Go operator."""
    await api.client.create(widgets, widget(api), api.namespace)
    theirs = widget(api, status={"conditions": [{"type": "Theirs", "status": "True"}]})
    await api.client.apply(widgets, "w", theirs, api.namespace, field_manager="other", subresource="status")
    writer = Writer(api.client, (*BUILT_IN, widgets))
    ours = widget(api, status={"conditions": [{"type": "Ready", "status": "True"}], "replicas": 0})
    effects = [(await writer.status(ours)).effect for _ in range(2)]
    assert effects == [Effect.CHANGED, Effect.UNCHANGED]
    after = (await api.client.get(widgets, "w", api.namespace)).content()
    assert sorted(item["type"] for item in after["status"]["conditions"]) == ["Ready", "Theirs"]


async def test_defaults_and_unknown_parts_of_a_custom_resource_are_quiet(
    api: Api, widgets: Resource[RawObject]
) -> None:
    body = widget(api, spec={"replicas": 0, "anything": {"list": [{"a": 1}, {"b": [1.5, None]}], "empty": {}}})
    writer = Writer(api.client, (*BUILT_IN, widgets))
    await writer.apply(body)
    assert (await writer.apply(body)).effect is Effect.UNCHANGED


async def test_prune_deletes_what_the_owner_controls_and_nobody_wants(api: Api) -> None:
    cases = {
        "wanted": owner("u1"),
        "leftover": owner("u1"),
        "foreign": owner("u2"),
        "loose": owner("u1", controller=False),
    }
    for name, reference in cases.items():
        body = config_map(api, name, {"mine": "yes"})
        body["metadata"]["ownerReferences"] = [reference]
        await api.client.create(CONFIG_MAPS, body, api.namespace)
    live = (await api.client.list(CONFIG_MAPS, api.namespace, label_selector="mine=yes")).items
    writer = Writer(api.client)
    gone = await writer.prune(CONFIG_MAPS, "u1", {(api.namespace, "wanted")}, live)
    assert gone == ((api.namespace, "leftover"),)
    left = (await api.client.list(CONFIG_MAPS, api.namespace, label_selector="mine=yes")).items
    assert {item.metadata.name for item in left} == {"wanted", "foreign", "loose"}


async def test_prune_of_a_stale_picture_spares_the_successor(api: Api) -> None:
    body = config_map(api)
    body["metadata"]["ownerReferences"] = [owner("u1")]
    stale = await api.client.create(CONFIG_MAPS, body, api.namespace)
    await api.client.delete(CONFIG_MAPS, "a", api.namespace)
    await make(api)
    with pytest.raises(errors.Conflict):
        await Writer(api.client).prune(CONFIG_MAPS, "u1", set(), [stale])
    successor = await api.client.get(CONFIG_MAPS, "a", api.namespace)
    assert successor.metadata.uid != stale.metadata.uid


async def test_delete_of_what_is_gone_is_done(api: Api) -> None:
    made = await make(api)
    writer = Writer(api.client)
    done = [await writer.delete(CONFIG_MAPS, "a", api.namespace, uid=made.metadata.uid) for _ in range(2)]
    assert done == [True, False]


async def test_a_dry_writer_says_what_it_would_do_and_does_not(api: Api) -> None:
    writer = Writer(api.client, dry_run=True)
    assert (await writer.apply(config_map(api, v="1"))).effect is Effect.CREATED
    with pytest.raises(errors.NotFound):
        await api.client.get(CONFIG_MAPS, "a", api.namespace)


async def test_the_hooks_see_every_write_and_may_stop_it(api: Api) -> None:
    log: list[str] = []

    async def before(write: Write) -> None:
        log.append(f"before {write.verb} {write.name}")
        if write.name == "fenced":
            raise PermissionError("not the leader")

    async def after(write: Write, error: BaseException | None) -> None:
        log.append(f"after {write.verb} {write.name} {type(error).__name__}")

    writer = Writer(api.client, before=before, after=after)
    await writer.create(config_map(api))
    with pytest.raises(errors.AlreadyExists):
        await writer.create(config_map(api))
    with pytest.raises(PermissionError):
        await writer.create(config_map(api, "fenced"))
    assert log == [
        "before create a",
        "after create a NoneType",
        "before create a",
        "after create a AlreadyExists",
        "before create fenced",
    ]
    assert writer.counts == {("create", "ConfigMap"): 2}
    with pytest.raises(errors.NotFound):
        await api.client.get(CONFIG_MAPS, "fenced", api.namespace)


async def test_a_patch_of_another_object_than_the_one_seen_is_a_conflict(api: Api) -> None:
    await make(api)
    with pytest.raises(errors.Conflict):
        await Writer(api.client).patch(CONFIG_MAPS, "a", {"data": {"v": "1"}}, api.namespace, uid="other")


def pod(api: Api) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": api.namespace},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
    }


async def test_a_pod_condition_of_ours_leaves_the_others(api: Api) -> None:
    await api.client.create(PODS, pod(api), api.namespace)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await api.client.merge_patch(PODS, "p", ready, api.namespace, subresource="status")
    ours = {
        **{key: value for key, value in pod(api).items() if key != "spec"},
        "status": {"conditions": [{"type": "kube.test/Drained", "status": "False"}]},
    }
    await Writer(api.client).status(ours)
    after = await api.client.get(PODS, "p", api.namespace)
    assert {item.type for item in after.status.conditions} == {"Ready", "kube.test/Drained"}


async def test_an_evicted_pod_goes(api: Api) -> None:
    made = await api.client.create(PODS, pod(api), api.namespace)
    await Writer(api.client).evict("p", api.namespace, uid=made.metadata.uid)
    with pytest.raises(errors.NotFound):
        await api.client.get(PODS, "p", api.namespace)


async def test_a_command_in_a_pod_that_runs_nowhere_is_a_typed_error(api: Api) -> None:
    await api.client.create(PODS, pod(api), api.namespace)
    with pytest.raises(errors.KubeError):
        await api.client.run(api.namespace, "p", ["true"])


async def test_logs_of_a_pod_that_runs_nowhere_are_empty_or_a_typed_error(api: Api) -> None:
    await api.client.create(PODS, pod(api), api.namespace)
    with suppress(errors.KubeError):
        assert [line async for line in api.client.logs(api.namespace, "p")] == []


# Events and leases


async def test_the_same_event_again_is_a_series_of_the_first(api: Api) -> None:
    about = await make(api)
    writer = Writer(api.client)
    recorder = Recorder(writer, "operator-0")
    for _ in range(9):
        await recorder.warning(about, CONFIG_MAPS, "ConfigInvalid", "line 3 is wrong")
    assert recorder.dropped == 0
    assert writer.counts == {("create", "Event"): 1, ("patch", "Event"): 3}
    (event,) = (await api.client.list(EVENTS, api.namespace)).items
    assert (event.reason, event.note, event.regarding.name) == ("ConfigInvalid", "line 3 is wrong", "a")
    assert event.series is not None
    assert event.series.count == 8


async def test_a_new_process_goes_on_with_the_same_event(api: Api) -> None:
    about = await make(api)
    for _ in range(3):
        await Recorder(Writer(api.client), "operator-0").normal(about, CONFIG_MAPS, "Applied", "done")
    assert len((await api.client.list(EVENTS, api.namespace)).items) == 1


@dataclass(frozen=True)
class Record:
    """As `loop` has it."""

    holder: str
    lease_seconds: int
    acquired: datetime | None
    renewed: datetime | None
    transitions: int
    version: str = ""


async def test_a_lease_is_made_read_and_replaced(api: Api) -> None:
    lease = LeaseObject(api.client, api.namespace, "leader", Record)
    assert await lease.get() is None
    now = datetime(2030, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
    made = await lease.create(Record("one", 15, now, now, 0))
    assert await lease.get() == made
    assert (made.holder, made.renewed) == ("one", now)
    later = await lease.update(replace(made, renewed=now + timedelta(seconds=2)))
    assert later.renewed == now + timedelta(seconds=2)
    released = await lease.update(replace(later, holder=""))
    assert released.holder == ""


async def test_of_two_who_take_a_lease_one_gets_it(api: Api) -> None:
    lease = LeaseObject(api.client, api.namespace, "leader", Record)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    made = await lease.create(Record("", 15, now, now, 0))
    answers = await asyncio.gather(
        *[lease.update(replace(made, holder=name)) for name in ("one", "two")], return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["Conflict", "Record"]
    with pytest.raises(errors.AlreadyExists):
        await lease.create(made)


async def test_services_and_stateful_sets_are_read_into_their_types(api: Api) -> None:
    writer = Writer(api.client)
    await writer.apply(service(api))
    await writer.apply(stateful_set(api))
    read = await api.client.get(SERVICES, "svc", api.namespace)
    assert (read.spec.cluster_ip, [port.port for port in read.spec.ports]) == ("None", [6818, 6817])
    assert (await api.client.get(STATEFUL_SETS, "ctl", api.namespace)).spec.replicas == 0
