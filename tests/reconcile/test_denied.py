"""A right to read that is missing: it is said, and what does not need it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import KEYS, REF, small

from kube_runtime.client.errors import Forbidden
from kube_runtime.client.requests import Request


def refuse(world: World, plural: str) -> Callable[[], None]:
    """Refuse to list a resource; the answer lets it again."""
    before = world.wire.refuse

    def refusing(request: Request) -> None:
        before(request)
        if request.method == "GET" and request.path.rpartition("/")[2] == plural:
            raise Forbidden(f'{request.what}: {plural} is forbidden: User "op" cannot list resource "{plural}"')

    def allow() -> None:
        world.wire.refuse = before

    world.wire.refuse = refusing
    return allow


async def restart(world: World) -> None:
    await world.stop_operator()
    await world.start_operator()


def refuse_write(world: World, method: str, ending: str) -> Callable[[], None]:
    """Refuse requests whose path ends so; the answer lets them again."""
    before = world.wire.refuse

    def refusing(request: Request) -> None:
        before(request)
        if request.method == method and request.path.endswith(ending):
            raise Forbidden(f"{request.what}: a right is missing")

    def allow() -> None:
        world.wire.refuse = before

    world.wire.refuse = refusing
    return allow


def ready(world: World, kind: str, name: str) -> tuple[str, str, str]:
    found: Any = world.custom(kind, name)["status"]["conditions"]
    return next((each["status"], each["reason"], each["message"]) for each in found if each["type"] == "Ready")


def degraded(world: World) -> tuple[str, str, str]:
    found: Any = world.custom("Controller", "slurm")["status"]["conditions"]
    return next((each["status"], each["reason"], each["message"]) for each in found if each["type"] == "Degraded")


@pytest.mark.parametrize("plural", ["secrets", "configmaps", "statefulsets", "partitions", "pods"])
async def test_what_cannot_be_read_is_a_condition_and_nothing_is_touched(world: World, plural: str) -> None:
    await small(world, 2)
    allow = refuse(world, plural)
    await restart(world)
    assert world.operator is not None
    assert [plural in why for why in world.operator.sources.refused().values()] == [True]
    before, status = sorted(world.pods()), world.custom("NodeSet", "compute")["status"]
    world.arm()
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run_for(30.0)
    for kind, name in (("Controller", "slurm"), ("NodeSet", "compute")):
        told = ready(world, kind, name)
        assert told[:2] == ("Unknown", "Forbidden")
        assert plural in told[2]
    assert {line.split()[1].partition("/")[2] for line in world.trace} <= {"status"}
    assert sorted(world.pods()) == before
    assert world.custom("NodeSet", "compute")["status"]["nodeSetHash"] == status["nodeSetHash"]
    allow()
    await world.run_for(60.0)
    assert sorted(world.pods()) == ["compute-0"]
    assert world.operator.sources.refused() == {}


PEOPLE = (("Controller", "slurm"), ("NodeSet", "compute"), ("Token", "ci"), ("RestApi", "slurm"))


@pytest.mark.parametrize("kind", ["Secret", "Service"])
async def test_a_right_that_is_taken_away_later_is_a_condition_of_everybody(world: World, kind: str) -> None:
    await small(world, 1)
    await world.create("Token", "ci", {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"]})
    await world.run()
    assert world.operator is not None
    (cache,) = world.operator.observer.raw[kind]
    # What a watch that is asked for again comes to, and then what it is when it may go on.
    cache._failed(Forbidden("watch: forbidden"))
    await world.run_for(2.0)
    assert [ready(world, *each)[:2] for each in PEOPLE] == [("Unknown", "Forbidden")] * 4
    cache._opened()
    await world.run_for(6.0)
    assert [ready(world, *each)[0] for each in PEOPLE] == ["True"] * 4


WRITES = {
    "a Token's Secret": ("POST", "/secrets", "Token", "ci"),
    "a Partition's finalizer": ("PATCH", "/partitions/all", "Partition", "all"),
    "a NodeSet's finalizer": ("PATCH", "/nodesets/compute", "NodeSet", "compute"),
}


@pytest.mark.parametrize(("method", "ending", "kind", "name"), WRITES.values(), ids=list(WRITES))
async def test_a_write_that_is_refused_is_a_condition_and_is_tried_again_soon(
    world: World, method: str, ending: str, kind: str, name: str
) -> None:
    allow = refuse_write(world, method, ending)
    await small(world, 1)
    await world.create("Partition", "all", {**REF, "nodeSets": ["compute"]})
    await world.create("Token", "ci", {"username": "alice", "refresh": False, "jwtKeyRef": KEYS["jwtKeyRef"]})
    await world.run_for(900.0)
    assert ready(world, kind, name)[:2] == ("Unknown", "Forbidden")
    allow()
    await world.run_for(10.0)
    assert ready(world, kind, name)[0] == "True"


async def test_conditions_that_may_not_be_written_stand_in_the_status_also_while_workers_come(world: World) -> None:
    """Beside workers that move they are not tried in each reconcile; one that does not try knows nothing new."""
    await small(world, 1)
    allow, said = refuse_conditions(world), [ready(world, "NodeSet", "compute")[1]]
    for replicas in range(2, 32):
        await world.patch("NodeSet", "compute", {"spec": {"replicas": replicas}})
        for _ in range(5):
            await world.run_for(0.2)
            said.append(ready(world, "NodeSet", "compute")[1])
    since = said.index("Forbidden")
    assert since < 25
    assert set(said[since:]) == {"Forbidden"}
    assert world.custom("NodeSet", "compute")["status"]["replicas"] > 25
    assert len(world.pods()) == 31
    allow()
    await world.run_for(10.0)
    assert ready(world, "NodeSet", "compute")[0] == "True"


async def test_conditions_of_workers_that_have_gone_are_owed_by_nobody(world: World) -> None:
    """A scale-out whose conditions could not be written is taken back."""
    await small(world, 1)
    refuse_conditions(world)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
    await world.run_for(5.0)
    assert ready(world, "NodeSet", "compute")[1] == "Forbidden"
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run_for(30.0)
    assert (list(world.pods()), ready(world, "NodeSet", "compute")[0]) == (["compute-0"], "True")


def refuse_conditions(world: World) -> Callable[[], None]:
    """Refuse what the operator writes into the status of worker pods; the answer lets it again."""
    before = world.wire.refuse

    def refusing(request: Request) -> None:
        before(request)
        if request.method == "PATCH" and "/pods/compute-" in request.path and request.path.endswith("/status"):
            raise Forbidden(f"{request.what}: a right is missing")

    def allow() -> None:
        world.wire.refuse = before

    world.wire.refuse = refusing
    return allow


async def test_a_status_that_may_not_be_written_is_an_event(world: World) -> None:
    allow = refuse_write(world, "PATCH", "/nodesets/compute/status")
    await small(world, 1)
    assert "status" not in world.custom("NodeSet", "compute")
    events = [each for each in world.stored("events") if each["reason"] == "Forbidden"]
    notes = [each.get("note") or each["message"] for each in events]
    assert notes
    assert "its status cannot be written" in notes[0]
    assert list(world.pods()) == ["compute-0"]
    allow()
    await world.run_for(10.0)
    assert ready(world, "NodeSet", "compute")[0] == "True"


async def test_a_monitor_that_may_not_be_read_is_told_to_who_asked_for_it(world: World) -> None:
    await world.serve_monitors()
    allow = refuse(world, "servicemonitors")
    await restart(world)
    metrics = {"enabled": True, "serviceMonitor": {"enabled": True}}
    await world.create("Controller", "slurm", {**KEYS, "metrics": metrics})
    await world.run()
    assert ready(world, "Controller", "slurm")[0] == "True"
    assert degraded(world)[:2] == ("True", "Forbidden")
    assert "servicemonitors" in degraded(world)[2]
    allow()
    await world.run_for(60.0)
    assert degraded(world)[0] == "False"


async def test_without_nodes_only_workers_wait(world: World) -> None:
    refuse(world, "nodes")
    await restart(world)
    await world.create("Controller", "slurm", KEYS)
    await world.create("RestApi", "slurm", REF)
    await world.create("NodeSet", "compute", {**REF, "replicas": 1})
    await world.run()
    assert ready(world, "Controller", "slurm")[0] == "True"
    assert ready(world, "NodeSet", "compute")[:2] == ("Unknown", "Forbidden")
    assert world.pods() == {}


async def test_a_right_to_monitors_is_missed_by_nobody(world: World) -> None:
    await world.serve_monitors()
    refuse(world, "servicemonitors")
    await restart(world)
    await small(world, 1)
    assert ready(world, "Controller", "slurm")[0] == "True"


async def test_a_reference_whose_coming_nobody_told_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.create("NodeSet", "compute", {**REF, "replicas": 1})
    await world.run()
    assert ready(world, "NodeSet", "compute")[:2] == ("Unknown", "ReferenceNotFound")
    assert world.operator is not None
    # Every event that would wake the NodeSet gets lost.
    monkeypatch.setattr(world.operator.controllers["NodeSet"], "add", lambda _: None)
    await world.create("Controller", "slurm", KEYS)
    await world.run_for(35.0)
    assert list(world.pods()) == ["compute-0"]
