"""Which addresses stand behind a Service."""

from __future__ import annotations

from typing import Any

from kube_local.controllers.decide.endpoints import MAX_ENDPOINTS_PER_SLICE, slices
from kube_local.controllers.objects import EndpointSlice, Service


def _service(make: Any, **spec: Any) -> Service:
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "main"}], **spec}
    made: Service = make.of(Service, metadata={"name": "web", "namespace": "ns", "uid": "s"}, spec=spec)
    return made


def _pods(make: Any, numbers: range, port: int = 8080) -> list[Any]:
    container = {"name": "main", "ports": [{"name": "main", "containerPort": port}]}
    return [make.pod(f"web-{n:04}", metadata={"labels": {"app": "web"}}, containers=[container]) for n in numbers]


def _members(made: list[dict[str, Any]]) -> dict[str, set[str]]:
    return {one["metadata"]["name"]: {each["targetRef"]["name"] for each in one["endpoints"]} for one in made}


def _live(make: Any, made: list[dict[str, Any]]) -> list[EndpointSlice]:
    return [make.of(EndpointSlice, **{k: v for k, v in one.items() if k not in ("apiVersion", "kind")}) for one in made]


def test_many_pods_take_several_slices_and_one_change_touches_one(make: Any) -> None:
    service = _service(make)
    first = slices(service, _pods(make, range(250)), [])
    assert sorted(len(one["endpoints"]) for one in first) == [50, MAX_ENDPOINTS_PER_SLICE, MAX_ENDPOINTS_PER_SLICE]
    fewer = [pod for pod in _pods(make, range(250)) if pod.metadata.name != "web-0007"]
    second = slices(service, fewer, _live(make, first))
    before, after = _members(first), _members(second)
    assert [name for name in before if before[name] != after[name]] == [
        name for name, members in before.items() if "web-0007" in members
    ]


def test_pods_that_call_their_port_otherwise_have_slices_of_their_own(make: Any) -> None:
    pods = [*_pods(make, range(2)), *_pods(make, range(2, 3), port=9090)]
    made = slices(_service(make), pods, [])
    assert sorted((one["ports"][0]["port"], len(one["endpoints"])) for one in made) == [(8080, 2), (9090, 1)]


def test_a_pod_without_address_or_at_its_end_is_left_out_and_a_going_one_is_not_ready(make: Any) -> None:
    labels = {"metadata": {"labels": {"app": "web"}}}
    pods = [
        make.pod("no-address", status={"podIP": ""}, **labels),
        make.pod("done", status={"phase": "Succeeded"}, **labels),
        make.pod("going", going=True, **labels),
    ]
    (only,) = slices(_service(make), pods, [])
    (endpoint,) = only["endpoints"]
    assert endpoint["targetRef"]["name"] == "going"
    assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}
