"""Writer, events and lease on whole API servers: every test runs on the embedded and on a real one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tests.kube_runtime.client.bodies import (
    budget,
    config_map,
    make,
    pod,
    secret,
    service,
    stateful_set,
    widget,
)
from tests.kube_runtime.client.conftest import Api

from kube_runtime.client import errors
from kube_runtime.client.events import Recorder
from kube_runtime.client.objects import (
    BUILT_IN,
    CONFIG_MAPS,
    EVENTS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    RawObject,
    Resource,
)
from kube_runtime.client.write import Effect, Write, Writer

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


async def test_a_delete_decided_on_a_stale_picture_spares_the_successor(api: Api) -> None:
    stale = await make(api)
    await api.client.delete(CONFIG_MAPS, "a", api.namespace)
    await make(api)
    with pytest.raises(errors.Conflict):
        await Writer(api.client).delete(CONFIG_MAPS, "a", api.namespace, uid=stale.metadata.uid)
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


async def test_services_and_stateful_sets_are_read_into_their_types(api: Api) -> None:
    writer = Writer(api.client)
    await writer.apply(service(api))
    await writer.apply(stateful_set(api))
    read = await api.client.get(SERVICES, "svc", api.namespace)
    assert (read.spec.cluster_ip, [port.port for port in read.spec.ports]) == ("None", [6818, 6817])
    assert (await api.client.get(STATEFUL_SETS, "ctl", api.namespace)).spec.replicas == 0
