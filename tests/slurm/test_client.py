"""The client against recorded answers of both releases: what each answer becomes, and what is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest
from aiohttp import web
from tests.slurm.replay import VERSIONS, Replay, load, respond

from kube_runtime.errors import Retryable
from slurm_operator.slurm import requests
from slurm_operator.slurm.client import Observation, SlurmClient
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmBusy,
    SlurmError,
    SlurmFailed,
    SlurmForbidden,
    SlurmNotFound,
    SlurmRejected,
    SlurmUnreachable,
    SlurmUnsupported,
    SlurmWrongCluster,
)
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import UNLIMITED, Absent, JobState, Known, KnownJob, SlurmList, Unchanged, Unknown
from slurm_operator.slurm.requests import (
    Feature,
    JobSubmission,
    NodeChange,
    PartitionChange,
    ReservationChange,
)

SLEEP = JobSubmission(script="#!/bin/bash\nsleep 300\n", name="j1", partition="compute")


async def test_the_newest_common_version_is_found(client: SlurmClient, replay: Replay) -> None:
    assert await client.version() == VERSIONS[replay.release]
    assert (await client.release()).startswith(replay.release)


async def test_the_first_cluster_that_answers_is_the_one_to_believe(client: SlurmClient, replay: Replay) -> None:
    names = list[str]()
    client.named = names.append
    replay.on("GET /nodes", "nodes")
    await client.all_nodes()
    assert names == ["test"]
    recorded = load(replay.release, "nodes")
    others = msgspec.structs.replace(recorded, body=recorded.body.replace(b'"test"', b'"other"'))
    replay.on_call("GET /nodes", lambda _: respond(others))
    with pytest.raises(SlurmWrongCluster, match="from cluster 'other', not from cluster 'test'"):
        await client.all_nodes()


async def test_a_server_without_a_common_version_is_named(client: SlurmClient, replay: Replay) -> None:
    del replay.answers["GET /ping"]
    with pytest.raises(SlurmUnsupported, match=r"none of REST v0\.0\.42 to v0\.0\.45"):
        await client.version()


async def test_nodes_are_read_with_everything_that_is_used(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "nodes")
    answer = await client.all_nodes()
    assert answer.complete
    assert answer.last_update > 0
    assert [node.name for node in answer.items] == ["n0", "n1", "n2"]
    node = answer.items[0]
    assert node.states == {"IDLE", "DYNAMIC_NORM"}
    assert (node.features, node.partitions) == (("compute",), ("compute",))
    assert (node.cpus, node.address, node.hostname, node.port) == (2, "127.0.0.1", "ctl", 17000)
    assert min(node.last_busy, node.boot_time, node.slurmd_start_time) > 0


@pytest.mark.parametrize(
    ("recording", "states", "reason"),
    [
        ("node", {"IDLE", "DYNAMIC_NORM"}, ""),
        ("node_busy", {"ALLOCATED", "DYNAMIC_NORM"}, ""),
        ("node_draining", {"ALLOCATED", "DRAIN", "DYNAMIC_NORM"}, "slurm-operator: x"),
    ],
    ids=["idle", "busy", "draining"],
)
async def test_one_node_is_known(
    client: SlurmClient, replay: Replay, recording: str, states: set[str], reason: str
) -> None:
    replay.on("GET /node/n0", recording)
    view = await client.node("n0")
    assert isinstance(view, Known)
    assert (view.node.states, view.node.reason) == (frozenset(states), reason)


async def test_a_node_that_slurm_does_not_have_is_absent(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /node/nosuch", "node_absent")
    assert await client.node("nosuch") == Absent()


async def test_a_call_that_the_version_has_but_nobody_found_is_tried_again(client: SlurmClient) -> None:
    # A proxy without a way, or a slurmrestd that is just starting: no reason to give up for good.
    with pytest.raises(SlurmBadAnswer, match="404") as raised:
        await client.drain(["n0"], "scale in")
    assert isinstance(raised.value, Retryable)


async def test_jobs_are_read(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /jobs", "jobs")
    (job,) = (await client.all_jobs()).items
    assert (job.name, job.nodes, job.partition, job.time_limit, job.user) == (
        "j1",
        HostList("n0"),
        "compute",
        5,
        "slurm",
    )
    assert job.states == {"RUNNING"}
    assert job.end_time == job.start_time + 300
    assert 0 < job.submit_time <= job.start_time
    assert job.restarts == 0


async def test_the_states_of_jobs_are_read(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /jobs/state", "jobs_state")
    found = await client.job_states()
    assert found.complete
    assert JobState(1, frozenset({"SUSPENDED"})) in found.items


async def test_a_job_is_known_absent_or_unknown(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /jobs", "jobs")
    (listed,) = (await client.all_jobs()).items
    replay.on(f"GET /job/{listed.job_id}", "jobs")
    assert await client.job(listed.job_id) == KnownJob(listed)
    replay.on("GET /job/999", "job_absent")
    assert await client.job(999) == Absent()


@pytest.mark.parametrize("answer", ["jobs", "jobs_controller_down", "node_absent", "unknown_version", "forbidden"])
async def test_a_job_is_absent_only_by_slurms_own_word(client: SlurmClient, replay: Replay, answer: str) -> None:
    replay.on("GET /job/999", answer)
    assert isinstance(await client.job(999), Unknown)


async def test_partitions_are_read(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /partitions", "partitions")
    (partition,) = (await client.all_partitions()).items
    assert (partition.name, partition.node_sets, partition.nodes) == ("compute", "compute", "n[0-2]")
    assert (partition.max_time, partition.max_nodes, partition.default_time) == (60, UNLIMITED, None)
    assert partition.states == {"UP"}
    assert partition.flags == (None if replay.release == "24.11" else frozenset({"DEFAULT"}))


async def test_reservations_are_read(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /reservations", "reservations")
    names = [(r.name, tuple(r.nodes), r.users) for r in (await client.all_reservations()).items]
    assert names == ([] if replay.release == "24.11" else [("r1", ("n2",), ("slurm",))])


async def test_diag_is_read(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /diag", "diag")
    assert (await client.diag()).since > 0


async def test_the_running_configuration_is_read_where_there_is_one(client: SlurmClient, replay: Replay) -> None:
    if replay.release == "24.11":
        with pytest.raises(SlurmUnsupported, match="running configuration"):
            await client.conf()
        return
    replay.on("GET /conf", "conf")
    assert (await client.conf())["ClusterName"] == "test"


@pytest.mark.parametrize(
    ("call", "recording", "ask"),
    [
        ("GET /nodes", "nodes_since_unchanged", lambda c: c.nodes(5)),
        ("GET /jobs", "jobs_since_unchanged", lambda c: c.jobs(5)),
        ("GET /partitions", "partitions_since_unchanged", lambda c: c.partitions(5)),
        ("GET /reservations", "reservations_since_unchanged", lambda c: c.reservations(5)),
    ],
    ids=["nodes", "jobs", "partitions", "reservations"],
)
async def test_unchanged_is_told_from_empty(
    client: SlurmClient,
    replay: Replay,
    call: str,
    recording: str,
    ask: Callable[[SlurmClient], Awaitable[object]],
) -> None:
    replay.on(call, recording)
    assert await ask(client) == Unchanged()


async def test_a_list_of_1970_is_not_complete_when_all_was_asked_for(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /jobs", "jobs_since_unchanged")
    assert not (await client.all_jobs()).complete


async def test_changed_nodes_come_whole_also_where_24_11_fails(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "nodes_since_changed", "nodes")
    answer = await client.nodes(5)
    assert isinstance(answer, SlurmList)
    assert answer.complete
    assert len(answer.items) == 3


@pytest.mark.parametrize(
    ("call", "recording", "ask", "kind", "number"),
    [
        ("POST /nodes/", "nodes_update_missing", lambda c: c.undrain(["n1", "zz"]), SlurmNotFound, 2018),
        ("POST /nodes/", "nodes_update_bad_state", lambda c: c.undrain(["n1"]), SlurmRejected, 9207),
        ("POST /nodes/", "forbidden", lambda c: c.undrain(["n1"]), SlurmForbidden, 2010),
        ("POST /nodes/", "bad_json", lambda c: c.undrain(["n1"]), SlurmRejected, 0),
        ("POST /nodes/", "node_update_controller_down", lambda c: c.undrain(["n1"]), SlurmUnreachable, 0),
        ("DELETE /node/n0", "node_delete_busy", lambda c: c.delete_node("n0"), SlurmBusy, 2016),
        ("POST /job/submit", "job_submit_refused", lambda c: c.submit(SLEEP), SlurmNotFound, 2000),
        ("GET /nodes", "nodes_controller_down", lambda c: c.nodes(), SlurmUnreachable, 0),
        ("GET /jobs", "jobs_controller_down", lambda c: c.jobs(), SlurmUnreachable, 0),
        ("GET /jobs/state", "jobs_state_controller_down", lambda c: c.job_states(), SlurmFailed, -1),
        ("GET /partitions", "partitions_controller_down", lambda c: c.partitions(), SlurmUnreachable, 0),
        ("GET /reconfigure", "reconfigure_controller_down", lambda c: c.reconfigure(), SlurmUnreachable, 0),
    ],
    ids=[
        *("node missing", "state unknown", "user without rights", "body unreadable", "controller down, update"),
        *("node busy", "partition unknown", "controller down, nodes", "controller down, jobs"),
        *("controller down, states of jobs", "controller down, partitions", "controller down, reconfigure"),
    ],
)
async def test_each_failure_has_its_type(
    client: SlurmClient,
    replay: Replay,
    call: str,
    recording: str,
    ask: Callable[[SlurmClient], Awaitable[object]],
    kind: type[SlurmError],
    number: int,
) -> None:
    replay.on(call, recording)
    with pytest.raises(kind) as caught:
        await ask(client)
    assert type(caught.value) is kind
    assert caught.value.number == number


async def test_a_drain_is_one_call_for_many_nodes(client: SlurmClient, replay: Replay) -> None:
    replay.on("POST /nodes/", "nodes_updated")
    await client.drain(["n0", "n1", "n2"], "scale in")
    assert replay.bodies[-1] == {"name": ["n[0-2]"], "state": ["DRAIN"], "reason": "slurm-operator: scale in"}


async def test_a_job_is_submitted_and_cancelled(client: SlurmClient, replay: Replay) -> None:
    replay.on("POST /job/submit", "job_submitted")
    assert await client.submit(SLEEP) == 1
    for recording in ("job_cancelled", "job_cancel_over", "job_cancel_unknown"):
        replay.on("DELETE /job/1", recording)
        await client.cancel(1)


async def test_a_cancel_that_slurm_refuses_in_its_status_is_an_error(client: SlurmClient, replay: Replay) -> None:
    body = {
        "status": [{"error": {"code": 2002, "message": "Access denied"}}],
        "meta": {"slurm": {"release": "26.05.5", "cluster": "test"}},
        "errors": [],
    }
    replay.on_call("DELETE /job/1", lambda _: web.json_response(body))
    with pytest.raises(SlurmForbidden):
        await client.cancel(1)


@pytest.mark.parametrize(
    ("feature", "ask"),
    [
        (Feature.PARTITIONS, lambda c: c.set_partition(PartitionChange(name="p"))),
        (Feature.PARTITIONS, lambda c: c.delete_partition("p")),
        (Feature.RESERVATIONS, lambda c: c.set_reservation(ReservationChange(name="r"))),
        (Feature.RESERVATIONS, lambda c: c.delete_reservation("r")),
        (Feature.TOPOLOGY, lambda c: c.update_nodes(["n"], NodeChange(topology="a"))),
    ],
    ids=["set partition", "delete partition", "set reservation", "delete reservation", "topology"],
)
@pytest.mark.parametrize("replay", ["24.11"], indirect=True)
async def test_what_a_version_lacks_is_refused_before_it_is_sent(
    client: SlurmClient, replay: Replay, feature: Feature, ask: Callable[[SlurmClient], Awaitable[object]]
) -> None:
    assert not await client.offers(feature)
    with pytest.raises(SlurmUnsupported, match=feature.value):
        await ask(client)
    assert {call.split()[0] for call in replay.seen} == {"GET"}


@pytest.mark.parametrize("replay", ["26.05"], indirect=True)
async def test_live_partitions_and_reservations_of_26_05(client: SlurmClient, replay: Replay) -> None:
    replay.on("POST /partitions/", "partition_set", "partition_bad_nodes", "partition_ignored_field")
    assert (await client.set_partition(PartitionChange(name="live", nodes="compute"))).warnings == ()
    assert replay.bodies[-1] == {"partitions": [{"nodes": {"configured": "compute"}, "name": "live"}]}
    with pytest.raises(SlurmNotFound):
        await client.set_partition(PartitionChange(name="live", nodes="nosuch"))
    (warning,) = (await client.set_partition(PartitionChange(name="compute", state="UP"))).warnings
    assert "ignored" in warning
    replay.on("DELETE /partition/live", "partition_delete_busy", "partition_deleted")
    with pytest.raises(SlurmBusy):
        await client.delete_partition("live")
    await client.delete_partition("live")
    replay.on("POST /reservation", "reservation_set")
    await client.set_reservation(ReservationChange(name="r1", nodes=("n2",), duration=60, start_time=5))
    assert replay.bodies[-1]["duration"] == {"set": True, "infinite": False, "number": 60}


async def test_every_write_passes_the_one_door(client: SlurmClient, replay: Replay) -> None:
    passed: list[str] = []
    write = client.write

    async def watched(request: requests.Request) -> object:
        passed.append(request.label)
        return await write(request)

    client.write = watched  # type: ignore[method-assign,assignment] # the seam that crash tests use
    replay.on("POST /nodes/", "nodes_updated")
    replay.on("DELETE /node/n0", "nodes_updated")
    replay.on("POST /job/submit", "job_submitted")
    replay.on("DELETE /job/1", "job_cancelled")
    replay.on("GET /reconfigure", "reconfigured")
    await client.drain(["n0"], "x")
    await client.undrain(["n0"])
    await client.delete_node("n0")
    await client.submit(SLEEP)
    await client.cancel(1)
    await client.reconfigure()
    sent = [call for call in replay.seen if call.split()[0] != "GET" or "reconfigure" in call]
    assert len(passed) == len(sent) == 6


async def test_a_range_of_records_is_deleted_in_one_call(client: SlurmClient, replay: Replay) -> None:
    replay.on("DELETE /node/n[0-1]", "nodes_updated")
    replay.on("DELETE /node/x", "nodes_update_missing")
    await client.delete_nodes(["x", "n1", "n0"])
    assert len([call for call in replay.seen if call.startswith("DELETE")]) == 2


async def test_every_call_is_measured(client: SlurmClient, replay: Replay, observed: list[Observation]) -> None:
    replay.on("GET /nodes", "nodes")
    replay.on("DELETE /node/n0", "node_delete_busy")
    await client.nodes()
    with pytest.raises(SlurmBusy):
        await client.delete_node("n0")
    assert [(o.call, o.outcome) for o in observed if "node" in o.call] == [
        ("GET nodes", "ok"),
        ("DELETE node", "SlurmBusy"),
    ]


class FencedError(Exception):
    """This process may not write any more."""


@pytest.mark.parametrize("passed", [0, 1], ids=["before the call", "while connecting"])
@pytest.mark.parametrize(
    "write",
    [
        lambda client: client.drain(("n0",), "why"),
        lambda client: client.undrain(("n0",)),
        lambda client: client.delete_node("n0"),
        lambda client: client.reconfigure(),
    ],
    ids=["drain", "undrain", "delete node", "reconfigure"],
)
async def test_nothing_is_written_to_slurm_once_the_right_to_write_has_ended(
    client: SlurmClient, replay: Replay, write: Callable[[SlurmClient], Awaitable[object]], passed: int
) -> None:
    """T17: drains and deletes of node records are writes too."""
    await client.version()
    before = len(replay.seen)
    asked = iter([None] * passed)

    def fence() -> None:
        try:
            next(asked)
        except StopIteration:
            raise FencedError from None

    client.fence = fence
    with pytest.raises(FencedError):
        await write(client)
    assert [call for call in replay.seen[before:] if "/ping" not in call] == []
