"""Pod statuses out of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_local.node.records import ContainerRecord, Ended, PodRecord
from kube_local.node.status import Facts, Kind, View, status

MakePod = Callable[..., dict[str, Any]]
NOW = "2026-01-01T00:00:10Z"
GOOD, BAD = Ended(exit_code=0, reason="Completed"), Ended(exit_code=2, reason="Error")


def view(kind: Kind, state: str, *, ready: bool = False, over: bool = False, **more: Any) -> View:
    return View(kind, ContainerRecord(name=kind.value, state=state, **more), ready, over)


MAIN_UP = view(Kind.MAIN, "running", ready=True, started=True, started_at="t")
SIDE_UP = view(Kind.SIDECAR, "running", ready=True, started=True)
INIT_DONE = view(Kind.INIT, "ended", over=True, ended=GOOD)

CASES: dict[str, tuple[list[View], str, dict[str, str]]] = {
    "nothing started": ([view(Kind.MAIN, "waiting")], "Pending", {"Ready": "False", "Initialized": "True"}),
    "all up": (
        [INIT_DONE, SIDE_UP, MAIN_UP],
        "Running",
        {"Ready": "True", "Initialized": "True", "ContainersReady": "True"},
    ),
    "initializing": (
        [view(Kind.INIT, "running"), view(Kind.MAIN, "waiting")],
        "Pending",
        {"Ready": "False", "Initialized": "False"},
    ),
    "a sidecar not ready": (
        [view(Kind.SIDECAR, "running", started=True), MAIN_UP],
        "Running",
        {"Ready": "False", "Initialized": "True"},
    ),
    "crashing": (
        [view(Kind.MAIN, "ended", ended=BAD, restarts=1, reason="CrashLoopBackOff")],
        "Running",
        {"Ready": "False"},
    ),
    "done": ([view(Kind.MAIN, "ended", over=True, ended=GOOD)], "Succeeded", {"Ready": "False", "Initialized": "True"}),
    "failed": ([view(Kind.MAIN, "ended", over=True, ended=BAD)], "Failed", {"Ready": "False"}),
    "failed to initialize": (
        [view(Kind.INIT, "ended", over=True, ended=BAD), view(Kind.MAIN, "waiting")],
        "Failed",
        {"Initialized": "False"},
    ),
}


def made(pod: dict[str, Any], views: list[View], before: Any = (), **record: Any) -> dict[str, Any]:
    found = PodRecord(uid="u", namespace="n", name="p", node="local-0", ip="10.0.0.2", started_at="s", **record)
    return status(Facts(pod, found, views, "10.0.0.1", NOW, sandbox=True), before)


@pytest.mark.parametrize("case", CASES)
def test_phase_and_conditions_follow_the_containers(case: str, make_pod: MakePod) -> None:
    views, phase, conditions = CASES[case]
    found = made(make_pod(), views)
    assert found["phase"] == phase
    assert conditions.items() <= {one["type"]: one["status"] for one in found["conditions"]}.items()


def test_a_status_names_who_is_not_ready(make_pod: MakePod) -> None:
    found = made(make_pod(), [view(Kind.MAIN, "running")])
    ready = next(one for one in found["conditions"] if one["type"] == "Ready")
    assert (ready["reason"], ready["message"]) == ("ContainersNotReady", "containers with unready status: [main]")


def test_a_condition_keeps_its_time_until_it_turns(make_pod: MakePod) -> None:
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": "earlier"}]
    found = {one["type"]: one["lastTransitionTime"] for one in made(make_pod(), [MAIN_UP], before)["conditions"]}
    assert (found["Ready"], found["Initialized"]) == ("earlier", NOW)
    turned = made(make_pod(), [view(Kind.MAIN, "running")], before)["conditions"]
    assert {one["type"]: one["lastTransitionTime"] for one in turned}["Ready"] == NOW


def test_a_pod_that_the_node_ended_says_why(make_pod: MakePod) -> None:
    found = made(make_pod(), [MAIN_UP], reason="DeadlineExceeded", message="too long")
    assert (found["phase"], found["reason"], found["message"]) == ("Failed", "DeadlineExceeded", "too long")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (MAIN_UP, {"running": {"startedAt": "t"}}),
        (view(Kind.MAIN, "waiting"), {"waiting": {"reason": "ContainerCreating"}}),
        (view(Kind.INIT, "creating"), {"waiting": {"reason": "PodInitializing"}}),
        (
            view(Kind.MAIN, "ended", ended=BAD, reason="CrashLoopBackOff", message="back-off 10s"),
            {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        ),
        (view(Kind.MAIN, "ended", ended=BAD, over=True), {"terminated": {"exitCode": 2, "reason": "Error"}}),
    ],
    ids=["running", "waiting", "being made", "waiting to be restarted", "ended"],
)
def test_a_container_state_is_one_of_three(shown: View, expected: dict[str, Any], make_pod: MakePod) -> None:
    found = made(make_pod(), [shown])
    listed = found["containerStatuses"] if shown.kind is Kind.MAIN else found["initContainerStatuses"]
    assert listed[0]["state"] == expected


def test_every_container_of_a_pod_with_init_containers_waits_for_the_whole_pod(make_pod: MakePod) -> None:
    found = made(make_pod(), [view(Kind.SIDECAR, "creating"), view(Kind.MAIN, "waiting")])
    states = [one["state"] for one in (*found["initContainerStatuses"], *found["containerStatuses"])]
    assert states == [{"waiting": {"reason": "PodInitializing"}}] * 2
