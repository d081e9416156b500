"""The campaigns' small Slurm answers as the real one does: the same requests to both, codes and masked bodies compared.

A step is a request that goes to both, or something that happens to both (a job, an admin's hand). What cannot be equal
is masked: times, addresses, sizes of the machine, words of explanation.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from tests.campaigns.slurm_model import SlurmModel
from tests.real.slurm.cluster import NODES, Cluster, eventually, wait_for
from tests.slurm.replay import VERSIONS

from kube_runtime.clock import SystemClock
from slurm_operator.slurm import requests
from slurm_operator.slurm.requests import NodeChange, Request, ReservationChange
from slurm_operator.slurm.token import mint
from slurm_operator.slurm.transport import Endpoint, Http, Sending
from slurm_operator.slurm.wire import Reply

pytestmark = pytest.mark.real_slurm

NODE_FIELDS = ("name", "comment", "features", "active_features", "partitions", "reservation")
JOB_FIELDS = ("job_state", "partition", "nodes")
RESERVATION_FIELDS = ("name", "node_list", "users")


@dataclass
class Both:
    """The real Slurm and the model of it, which have seen the same."""

    real: Cluster
    model: SlurmModel
    http: Http
    key: bytes

    def token(self, key: bytes | None = None, life: int = 300) -> str:
        return mint(key or self.key, user="slurm", now=int(time.time()), life=life, token_id="model")

    async def replies(self, request: Request, token: str) -> tuple[Reply, Reply]:
        sending = Sending(
            method=request.method,
            path=f"/slurm/{VERSIONS[self.real.version]}{request.path}",
            label=request.label,
            query=request.query,
            body=None if request.body is None else json.dumps(request.body).encode(),
        )
        return await self.http.send(sending, token), self.model.answer(sending, token)

    async def same(self, request: Request, token: str = "") -> Any:
        """Send to both; they must answer alike. Gives the answer, masked."""
        real, model = (masked(reply, request) for reply in await self.replies(request, token or self.token()))
        wrong = "; ".join(differences(model, real))
        assert not wrong, f"{request.label}: {wrong}"
        return real

    async def settle(self, request: Request) -> Any:
        """The same for what takes real daemons a moment."""

        async def equal() -> bool:
            real, model = (masked(reply, request) for reply in await self.replies(request, self.token()))
            return bool(real == model)

        with suppress(TimeoutError):
            await eventually(equal, 10)
        return await self.same(request)

    def occupy(self, node: str, seconds: int = 300) -> int:
        """A job that takes the whole node."""
        command = ("sbatch", "--parsable", "--exclusive", "-w", node, "-o", "/dev/null", "--wrap", f"sleep {seconds}")
        number = int(self.real.run(*command).strip())
        self.real.wait_job(number)
        self.model.occupy(number, node)
        return number


def masked(reply: Reply, request: Request) -> Any:
    """What a reader of an answer goes by; what a write echoes is nothing that anybody reads."""
    if reply.content_type != "application/json":
        return {"status": reply.status, "type": reply.content_type}
    body = json.loads(reply.body)
    updated, listed = body.get("last_update"), body if request.method == "GET" else {}
    return {
        "status": reply.status,
        "errors": [each.get("error_number") for each in body.get("errors") or ()],
        "nodes": sorted((_node(each) for each in body.get("nodes") or ()), key=lambda each: str(each["name"])),
        "jobs": [{key: each[key] for key in JOB_FIELDS} for each in _recent(body.get("jobs") or ())],
        "reservations": [_reservation(each) for each in listed.get("reservations") or ()],
        "partitions": [{"name": each["name"], "sets": each["node_sets"]} for each in body.get("partitions") or ()],
        "updated": None if updated is None else updated["set"] and updated["number"] > 0,
        "pings": len(body.get("pings") or ()),
    }


def differences(model: Any, real: Any, path: str = "") -> Iterator[str]:
    """Where the model is wrong."""
    if isinstance(model, dict) and isinstance(real, dict):
        for key in sorted({*model, *real}):
            yield from differences(model.get(key), real.get(key), f"{path}.{key}")
    elif isinstance(model, list) and isinstance(real, list) and len(model) == len(real):
        for number, (ours, theirs) in enumerate(zip(model, real, strict=True)):
            yield from differences(ours, theirs, f"{path}[{number}]")
    elif model != real:
        yield f"{path}: the model says {model}, Slurm says {real}"


def _node(node: dict[str, Any]) -> dict[str, Any]:
    kept = {key: node[key] for key in NODE_FIELDS}
    who = node["reason_set_by_user"] if node["reason"] else ""
    busy = node["alloc_cpus"] > 0
    return {**kept, "state": sorted(node["state"]), "reason": node["reason"], "by": who, "busy": busy}


def _recent(jobs: Any) -> list[dict[str, Any]]:
    """Without jobs of other tests, whose records stay for minutes."""
    return [job for job in jobs if set(job["job_state"]) & {"RUNNING", "SUSPENDED", "PENDING"}]


def _reservation(reservation: dict[str, Any]) -> dict[str, Any]:
    kept = {key: reservation[key] for key in RESERVATION_FIELDS}
    length = reservation["end_time"]["number"] - reservation["start_time"]["number"]
    return {**kept, "flags": sorted(reservation["flags"]), "seconds": length}


@pytest.fixture
async def both(slurm: Cluster) -> AsyncIterator[Both]:
    """The real one as it is, and a model of that."""
    slurm.quiet()
    slurm.shell(f"scontrol update nodename={','.join(NODES)} comment= features=compute activefeatures=compute")
    model = SlurmModel(SystemClock(), slurm.jwt_key, slurm.version)
    model.up = True
    model.read_config("NodeSet=compute Feature=compute\nPartitionName=compute Nodes=compute Default=YES MaxTime=60\n")
    for name in NODES:
        model.register(name, ["compute"])
    for node in json.loads(slurm.run("scontrol", "--json", "show", "nodes"))["nodes"]:
        if node["name"] in model.nodes:
            # 24.11 keeps the reason of a drain that was lifted.
            model.nodes[node["name"]].reason = node["reason"]
            model.nodes[node["name"]].reason_by = node["reason_set_by_user"]
    http = Http(Endpoint.parse(f"unix://{slurm.socket}"))
    try:
        yield Both(slurm, model, http, slurm.jwt_key)
    finally:
        await http.close()
        slurm.quiet()


ALL_NODES, ALL_JOBS = requests.read("nodes"), requests.read("jobs")


def update(*names: str, **change: Any) -> Request:
    return requests.update_nodes(names, NodeChange(**change))


async def test_lists_and_single_reads(both: Both) -> None:
    found = await both.same(ALL_NODES)
    assert [node["name"] for node in found["nodes"]] == list(NODES)
    for name in ("n0", "nosuch"):
        await both.same(requests.read_one("node", name))
    for what in ("ping", "jobs", "partitions", "reservations"):
        await both.same(requests.read(what))


async def test_drain_and_undrain(both: Both) -> None:
    await both.same(update("n0", "n1", state="DRAIN", reason="scale in"))
    drained = await both.same(ALL_NODES)
    assert drained["nodes"][0]["state"] == ["DRAIN", "DYNAMIC_NORM", "IDLE"]
    # Draining what is drained changes its reason; undraining what is not changes nothing.
    await both.same(update("n0", state="DRAIN", reason="another reason"))
    await both.same(update("n0", "n2", state="UNDRAIN"))
    # For a moment, until their slurmds have answered, both show them as not responding.
    await both.settle(ALL_NODES)
    await both.same(update("n1", state="RESUME"))
    both.real.wait_idle("n1")
    assert (await both.settle(ALL_NODES))["nodes"][1]["state"] == ["DYNAMIC_NORM", "IDLE"]


async def test_an_admin_drains_between_two_looks(both: Both) -> None:
    both.real.run("scontrol", "update", "nodename=n1", "state=drain", "reason=broken fan")
    both.model.admin_drain("n1")
    found = await both.same(ALL_NODES)
    assert found["nodes"][1]["by"] == "root"
    await both.same(update("n1", state="UNDRAIN"))
    await both.settle(ALL_NODES)


async def test_features_comment_and_down(both: Both) -> None:
    await both.same(update("n2", features=("compute", "fast"), active_features=("compute", "fast"), comment="x"))
    await both.same(requests.read_one("node", "n2"))
    await both.same(update("n2", state="DOWN", reason="broken"))
    await both.same(ALL_NODES)
    await both.same(update("n2", state="RESUME", features=("compute",), active_features=("compute",), comment=""))
    await both.settle(ALL_NODES)


async def test_an_unknown_node_in_bulk_does_not_keep_the_others_from_changing(both: Both) -> None:
    answer = await both.same(update("n0", "n1", "nosuch", comment="bulk"))
    assert answer["errors"] == [2018]
    found = await both.same(ALL_NODES)
    assert [node["comment"] for node in found["nodes"]][:2] == ["bulk", "bulk"]


async def test_a_state_that_slurm_does_not_know(both: Both) -> None:
    body = {"name": ["n1"], "state": ["BOGUS"]}
    await both.same(Request(method="POST", path="/nodes/", label="POST nodes", body=body))
    await both.same(ALL_NODES)


async def test_a_busy_node_is_shown_and_not_deleted(both: Both) -> None:
    both.occupy("n0")
    # A single node shows the CPUs that were counted for the last list.
    assert (await both.settle(ALL_NODES))["nodes"][0]["busy"]
    await both.settle(requests.read_one("node", "n0"))
    await both.same(update("n0", state="DRAIN", reason="scale in"))
    await both.settle(ALL_NODES)
    await both.same(ALL_JOBS)
    refused = await both.same(requests.delete_node("n0"))
    assert refused["errors"] == [2016]
    assert (await both.same(requests.delete_node("nosuch")))["errors"]
    await both.same(update("n0", state="UNDRAIN"))
    await both.settle(ALL_NODES)


async def test_a_suspended_job_makes_its_node_look_idle(both: Both) -> None:
    number = both.occupy("n1")
    both.real.run("scontrol", "suspend", str(number))
    both.model.suspend(number)
    found = await both.settle(ALL_NODES)
    assert "ALLOCATED" not in found["nodes"][1]["state"]
    assert (await both.same(ALL_JOBS))["jobs"][0]["job_state"] == ["SUSPENDED"]
    both.real.run("scontrol", "resume", str(number))
    both.model.resume_job(number, 300)
    await both.settle(ALL_NODES)


async def test_a_job_that_ends_leaves_its_node(both: Both) -> None:
    number = both.occupy("n2", seconds=1)
    both.real.wait_job(number, "COMPLETED")
    both.model.end(number)
    assert not (await both.settle(ALL_NODES))["nodes"][2]["busy"]
    real, model = await both.replies(requests.read_one("job", str(number)), both.token())
    assert real.status == 200
    assert model.status in (200, 404)


async def test_a_record_is_deleted_and_its_slurmd_comes_anew(both: Both) -> None:
    both.real.start_node("n3", 17003)
    both.real.wait_idle("n3")
    both.model.register("n3", ["compute"])
    await both.settle(requests.read_one("node", "n3"))
    both.real.kill_node("n3")
    both.model.slurmds.discard("n3")
    await both.same(requests.delete_node("n3"))
    await both.same(requests.read_one("node", "n3"))
    await both.same(requests.delete_node("n3"))


async def test_a_quiet_list_is_unchanged_and_a_changed_one_comes_whole(both: Both) -> None:
    began = int(time.time()) + 1
    wait_for(lambda: time.time() >= began + 1.1, 5, "the next second")
    for what in ("nodes", "partitions", "reservations", "jobs"):
        await both.settle(requests.read(what, since=began + 1))
    await both.same(update("n0", comment="changed"))
    found = await both.same(requests.read("nodes", since=began))
    # 24.11 fails when nodes have changed and partitions have not: the client then asks without condition.
    assert found["errors"] == [-1] if both.real.version == "24.11" else len(found["nodes"]) == len(NODES)


@pytest.mark.parametrize("what", ["nodes", "jobs", "ping"])
async def test_a_refused_token(both: Both, what: str) -> None:
    await both.same(requests.read(what), both.token(b"w" * 32))


async def test_calls_that_the_version_does_not_have(both: Both) -> None:
    await both.same(requests.read("nosuch"))
    await both.same(Request(method="GET", path="/conf", label="GET conf") if both.real.version == "24.11" else ALL_JOBS)


async def test_reservations_come_and_go(both: Both) -> None:
    # To the second: Slurm rounds nothing, and starts one of the past at once.
    start = int(time.time()) + 3600
    change = ReservationChange(
        name="update",
        nodes=("n0", "n1"),
        start_time=start,
        duration=30,
        users=("slurm",),
        flags=("MAINT", "IGNORE_JOBS"),
    )
    await both.same(requests.set_reservation(change))
    await both.same(requests.read("reservations"))
    await both.same(ALL_NODES)
    await both.same(requests.delete_reservation("update"))
    await both.same(requests.read("reservations"))
    await both.same(requests.delete_reservation("update"))


async def test_a_reservation_that_runs_keeps_its_nodes(both: Both) -> None:
    if both.real.version == "24.11":
        pytest.skip("REST v0.0.42 changes no reservations")
    change = ReservationChange(
        name="now", nodes=("n0",), start_time=int(time.time()), duration=30, users=("slurm",), flags=("MAINT",)
    )
    await both.same(requests.set_reservation(change))
    found = await both.settle(ALL_NODES)
    assert "MAINTENANCE" in found["nodes"][0]["state"]
    await both.same(requests.delete_reservation("now"))
    await both.settle(ALL_NODES)
