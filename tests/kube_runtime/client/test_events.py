"""Events: bounded, counted, and never the reason that something else fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kube_runtime.client import fault_server as say
from tests.kube_runtime.client.fault_server import FaultServer

from kube_runtime.client.client import Client
from kube_runtime.client.events import (
    BURST_EVENTS,
    CORE_EVENTS,
    LIFE_SECONDS,
    MAX_NOTE_CHARACTERS,
    REFILL_SECONDS,
    Recorder,
)
from kube_runtime.client.objects import CONFIG_MAPS, NODES, ConfigMap, Node, ObjectMeta
from kube_runtime.client.write import Writer

ABOUT = ConfigMap(metadata=ObjectMeta(name="a", namespace="ns", uid="u", resource_version="7"))


@pytest.fixture
def recorder(client: Client, waits: Any) -> Recorder:
    return Recorder(Writer(client), "operator-0", timing=waits.timing)


def written(faults: FaultServer) -> list[tuple[str, Any]]:
    return [(seen.method, seen.json) for seen in faults.seen]


async def test_an_event_says_what_about_whom_and_by_whom(recorder: Recorder, faults: FaultServer) -> None:
    faults.answer(say.json({"kind": "Event"}))
    await recorder.warning(ABOUT, CONFIG_MAPS, "ConfigInvalid", "line 3", "Check")
    ((method, body),) = written(faults)
    assert (method, faults.seen[0].path) == ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events")
    assert body["regarding"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "ns",
        "name": "a",
        "uid": "u",
        "resourceVersion": "7",
    }
    assert {key: body[key] for key in ("type", "reason", "action", "note", "eventTime", "reportingInstance")} == {
        "type": "Warning",
        "reason": "ConfigInvalid",
        "action": "Check",
        "note": "line 3",
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingInstance": "operator-0",
    }


async def test_repeats_are_written_at_powers_of_two(recorder: Recorder, faults: FaultServer) -> None:
    faults.answer(*[say.json({"kind": "Event"})] * 20)
    for _ in range(100):
        await recorder.normal(ABOUT, CONFIG_MAPS, "Applied", "done")
    counts = [body["series"]["count"] for method, body in written(faults) if method == "PATCH"]
    assert counts == [2, 4, 8, 16, 32, 64]


async def test_an_event_that_the_server_forgot_is_written_anew(recorder: Recorder, faults: FaultServer) -> None:
    faults.answer(say.json({"kind": "Event"}), say.error(404, "NotFound"), say.json({"kind": "Event"}))
    for _ in range(2):
        await recorder.normal(ABOUT, CONFIG_MAPS, "Applied", "done")
    assert [method for method, _ in written(faults)] == ["POST", "PATCH", "POST"]


async def test_an_event_older_than_its_life_is_news_again(recorder: Recorder, faults: FaultServer, waits: Any) -> None:
    faults.answer(*[say.json({"kind": "Event"})] * 3)
    for _ in range(2):
        await recorder.normal(ABOUT, CONFIG_MAPS, "Applied", "done")
        waits.elapsed += LIFE_SECONDS + 1
    assert [method for method, _ in written(faults)] == ["POST", "POST"]


async def test_a_new_process_goes_on_counting(recorder: Recorder, faults: FaultServer) -> None:
    faults.answer(
        say.error(409, "AlreadyExists"),
        say.json({"kind": "Event", "metadata": {"name": "a"}, "series": {"count": 15}}),
        say.json({"kind": "Event"}),
    )
    await recorder.normal(ABOUT, CONFIG_MAPS, "Applied", "done")
    assert written_last(faults)["series"]["count"] == 16


def written_last(faults: FaultServer) -> Any:
    return faults.seen[-1].json


@pytest.mark.parametrize("step", [say.error(403, "Forbidden"), say.reset()], ids=["403", "reset"])
async def test_an_event_that_cannot_be_written_fails_nothing(
    recorder: Recorder, faults: FaultServer, step: say.Step
) -> None:
    faults.answer(step)
    await recorder.normal(ABOUT, CONFIG_MAPS, "Applied", "done")
    assert recorder.dropped == 1


async def test_one_object_cannot_flood_the_server(recorder: Recorder, faults: FaultServer, waits: Any) -> None:
    faults.answer(*[say.json({"kind": "Event"})] * 200)
    for number in range(100):
        await recorder.warning(ABOUT, CONFIG_MAPS, "Failed", f"try {number}")
    assert len(faults.seen) == BURST_EVENTS
    assert recorder.dropped == 100 - BURST_EVENTS
    waits.elapsed += REFILL_SECONDS
    await recorder.warning(ABOUT, CONFIG_MAPS, "Failed", "later")
    assert len(faults.seen) == BURST_EVENTS + 1


async def test_names_and_notes_fit_whatever_they_are_made_of(recorder: Recorder, faults: FaultServer) -> None:
    node = Node(metadata=ObjectMeta(name="n" * 253, uid="u"))
    faults.answer(say.json({"kind": "Event"}))
    await recorder.warning(node, NODES, "Failed", "x" * 5000)
    body = written_last(faults)
    assert len(body["metadata"]["name"]) <= 253
    assert len(body["note"]) == MAX_NOTE_CHARACTERS
    assert body["metadata"]["namespace"] == "default"


async def test_a_core_event_has_a_last_time_and_a_count(client: Client, waits: Any, faults: FaultServer) -> None:
    recorder = Recorder(Writer(client, (CORE_EVENTS,)), "local-0", "kubelet", timing=waits.timing, core=True)
    faults.answer(*[say.json({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}})] * 2)
    for _ in range(2):
        await recorder.normal(ABOUT, CONFIG_MAPS, "Started", "up")
    (_, body), (_, patch) = written(faults)
    assert [seen.path.rpartition("/events")[0] for seen in faults.seen] == ["/api/v1/namespaces/ns"] * 2
    assert (body["message"], body["involvedObject"]["name"], body["count"]) == ("up", "a", 1)
    assert body["source"] == {"component": "kubelet", "host": "local-0"}
    assert body["firstTimestamp"] == body["lastTimestamp"] == "2030-01-01T00:00:00Z"
    assert "eventTime" not in body
    assert patch["count"] == 2


async def test_a_core_event_of_a_predecessor_goes_on_counting(client: Client, waits: Any, faults: FaultServer) -> None:
    recorder = Recorder(Writer(client, (CORE_EVENTS,)), "local-0", "kubelet", timing=waits.timing, core=True)
    known = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "count": 3}
    faults.answer(say.error(409, "AlreadyExists"), say.json(known), say.json(known))
    await recorder.normal(ABOUT, CONFIG_MAPS, "Started", "up")
    assert faults.seen[-1].json["count"] == 4
