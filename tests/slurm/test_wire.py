"""What a response must be to be believed: within its budgets, of its own cluster, free of contradiction."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.slurm.recorded_replies import MARK, RELEASES, Line, recorded, replayed, reply
from tests.slurm.replay import KEY, RECORDED, load

from slurm_operator.slurm import hostlist, policy, wire
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmBudgetExceeded,
    SlurmError,
    SlurmUnreachable,
    SlurmWrongCluster,
)
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import JobState, Known, KnownJob, Unknown, view
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.wire import Reply


def test_two_records_of_one_node_that_differ_make_it_unknown() -> None:
    document = recorded("26.05", "nodes")
    first = document["nodes"][0]
    document["nodes"].append({**first, "state": ["IDLE", "DRAIN"]})
    answer = wire.nodes(reply(document), "nodes")
    assert isinstance(view(first["name"], answer), Unknown)
    document["nodes"][-1] = first
    same = wire.nodes(reply(document), "nodes")
    assert isinstance(view(first["name"], same), Known)
    assert same.complete


def test_forty_jobs_on_a_hundred_thousand_nodes_cost_nothing() -> None:
    """T11: 4.1 s and 282 MiB when the lists were expanded."""
    document = recorded("26.05", "jobs")
    document["jobs"] = [
        {"job_id": number, "job_state": ["RUNNING"], "nodes": "n[0-99999]", "time_limit": {"set": True, "number": 5}}
        for number in range(1, 41)
    ]
    body = reply(document)
    tracemalloc.start()
    began = time.process_time()
    answer = wire.jobs(body, "jobs")
    ends = policy.deadlines(policy.jobs_by_node(answer.items, {f"n{number}" for number in range(100)}))
    seconds = time.process_time() - began
    _, max_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(answer.items), answer.complete, len(ends)) == (40, True, 100)
    assert max_bytes < 1_000_000
    assert seconds < 1.0


@pytest.mark.parametrize("release", RELEASES)
def test_the_nodes_that_a_job_requires_are_read(release: str) -> None:
    document = recorded(release, "jobs")
    written = {job["job_id"]: job["required_nodes"] for job in document["jobs"]}
    assert "n0" in written.values()
    for state, shown in (("PENDING", "n0"), ("COMPLETED", "")):
        for job in document["jobs"]:
            job["job_state"] = [state]
        answer = wire.jobs(reply(document), "jobs")
        assert {job.required for job in answer.items if written[job.job_id] == "n0"} == {HostList(shown)}


@pytest.mark.parametrize("odd", [None, 7, ["n0"], "n[0-", "n 0", "n[0-999999]", "n0\u2028", {"a": 1}])
def test_required_nodes_that_cannot_be_read_spoil_neither_the_job_nor_the_list(odd: object) -> None:
    document = recorded("26.05", "jobs")
    document["jobs"] = [{"job_id": 1, "job_state": ["PENDING"], "partition": "p", "required_nodes": odd}]
    answer = wire.jobs(reply(document), "jobs")
    assert answer.complete
    assert answer.items[0].required is None


def test_a_thousand_jobs_that_require_a_hundred_thousand_nodes_cost_nothing() -> None:
    document = recorded("26.05", "jobs")
    document["jobs"] = [
        {"job_id": number, "job_state": ["PENDING"], "required_nodes": f"n[0-{98_000 + number}]"}
        for number in range(1, 1001)
    ]
    began = time.process_time()
    answer = wire.jobs(reply(document), "jobs")
    required = policy.jobs_by_required_node(answer.items, {f"n{number}" for number in range(10)})
    assert (answer.complete, len(required), len(required["n7"])) == (True, 10, 1000)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize(
    ("budget", "body"),
    [
        pytest.param("host names", {"jobs": [{"job_id": 1, "job_state": [], "nodes": "n[1-99999]"}] * 60}, id="names"),
        pytest.param("items", {"jobs": [0] * (wire.MAX_ITEMS + 1)}, id="items"),
    ],
)
def test_a_response_above_a_budget_is_refused_by_its_name(budget: str, body: dict[str, Any]) -> None:
    document = {**recorded("26.05", "jobs"), **body}
    with pytest.raises(SlurmBudgetExceeded, match=f"budget of [0-9,]+ {budget}: it has ([0-9,]+|more)") as raised:
        wire.jobs(reply(document), "GET jobs")
    assert raised.value.budget == budget


@pytest.mark.parametrize("place", ["in a field of one item", "in a field of the answer", "instead of the answer"])
def test_nesting_without_end_is_refused_by_its_budget(place: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    document = recorded("26.05", "jobs")
    if place == "in a field of one item":
        document["jobs"][0]["comment"] = MARK
    document["last_backfill"] = MARK if place == "in a field of the answer" else 0
    body = reply(document, deep) if place != "instead of the answer" else Reply(200, "application/json", deep)
    with pytest.raises(SlurmBadAnswer, match=r"levels of nesting|unreadable"):
        wire.jobs(body, "GET jobs")


def of_another(found: Reply, cluster: str) -> Reply:
    document = json.loads(found.body)
    document["meta"]["slurm"]["cluster"] = cluster
    return msgspec.structs.replace(found, body=json.dumps(document).encode())


def calls(client: SlurmClient) -> dict[str, Callable[[], Any]]:
    return {
        "ping": client.ping,
        "nodes": client.all_nodes,
        "jobs": client.all_jobs,
        "jobs_state": client.job_states,
        "partitions": client.all_partitions,
        "reservations": client.all_reservations,
        "diag": client.diag,
        "conf": client.conf,
        "reconfigured": client.reconfigure,
        "nodes_updated": lambda: client.drain(["n0"], "x"),
        "node_deleted": lambda: client.delete_node("n9"),
        "nodes_update_missing": lambda: client.undrain(["n0"]),
    }


@pytest.mark.parametrize("other", ["elsewhere", "", "\u202e\x1b[31m" * 500])
@pytest.mark.parametrize("call", sorted(calls(SlurmClient("http://x", TokenSource(lambda: KEY)))))
async def test_a_response_of_another_cluster_is_not_believed(call: str, other: str) -> None:
    """T7: whatever it says, also that something does not exist or was done."""
    answering = load("26.05", call)
    line = Line(
        lambda path: replayed(path) if path.startswith("/ping") and call != "ping" else of_another(answering, other)
    )
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=line, cluster="test")
    with pytest.raises(SlurmWrongCluster, match="not from cluster 'test'") as raised:
        await calls(client)[call]()
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600
    assert raised.value.reason == "WrongCluster"


@pytest.mark.parametrize("call", ["node_absent", "job_absent"])
async def test_what_another_cluster_lacks_is_unknown(call: str) -> None:
    """T7: busy workers were taken for unregistered, and deleted."""
    line = Line(
        lambda path: replayed(path) if path.startswith("/ping") else of_another(load("26.05", call), "elsewhere")
    )
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=line, cluster="test")
    seen = await (client.node("n0") if call == "node_absent" else client.job(7))
    assert isinstance(seen, Unknown)
    assert "'elsewhere'" in seen.why
    assert "'test'" in seen.why


async def test_a_response_of_its_own_cluster_is_believed() -> None:
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=Line(replayed), cluster="test")
    assert (await client.all_nodes()).complete
    (job,) = (await client.all_jobs()).items
    one = Line(lambda path: replayed(path.replace("/job/", "/jobs/")))
    client = SlurmClient("http://x", TokenSource(lambda: KEY), transport=one, cluster="test")
    assert await client.job(job.job_id) == KnownJob(job)


def test_every_recorded_answer_names_its_cluster() -> None:
    """An empty name is refused like a wrong one: no answer of slurmrestd or slurmdbd lacks it."""
    for release in RELEASES:
        for path in sorted(RECORDED.joinpath(release).glob("*.json")):
            kept = json.loads(path.read_text())
            if "json" in kept:
                assert kept["json"]["meta"]["slurm"]["cluster"] == "test", path.name


def test_an_error_number_without_a_sender_is_not_believed() -> None:
    body = b'{"errors":[{"error_number":2017,"error":"Invalid job id specified"}]}'
    with pytest.raises(SlurmUnreachable):
        wire.jobs(Reply(503, "application/json", body), "GET job")
    with pytest.raises(SlurmBadAnswer, match="does not name its Slurm release"):
        wire.jobs(Reply(200, "application/json", body), "GET job")


def test_the_hosts_of_all_partitions_have_a_budget() -> None:
    document = recorded("26.05", "partitions")
    first = document["partitions"][0]
    many = [{**first, "name": f"p{at}", "nodes": {**first["nodes"], "configured": "n[0-99999]"}} for at in range(51)]
    with pytest.raises(SlurmBudgetExceeded, match="host names"):
        wire.partitions(reply({**document, "partitions": many}), "partitions")
    assert wire.partitions(reply({**document, "partitions": many[:50]}), "partitions").complete


@pytest.mark.parametrize("odd", ["a," * 40_000, 7, None], ids=["endless", "a number", "nothing"])
def test_a_job_whose_partition_cannot_be_read_makes_the_list_incomplete(odd: object) -> None:
    """By it a partition is found to be free of jobs."""
    document = recorded("26.05", "jobs")
    document["jobs"] = [{"job_id": 1, "job_state": ["PENDING"], "partition": odd}]
    assert not wire.jobs(reply(document), "jobs").complete


def states_of(*items: object, hostile: bytes = b"") -> Reply:
    return reply({**recorded("26.05", "jobs_state"), "jobs": list(items)}, hostile)


@pytest.mark.parametrize("release", RELEASES)
def test_each_job_record_has_its_states_once_whatever_array_or_part_it_is(release: str) -> None:
    found = wire.job_states(load(release, "jobs_state"), "GET jobs/state")
    assert found.complete
    assert {each.job_id: set(each.states) for each in found.items} == {
        1: {"SUSPENDED"},
        # The array, of which four tasks wait, and two of its tasks.
        2: {"PENDING"},
        3: {"RUNNING"},
        4: {"RUNNING"},
        # Both parts of a heterogeneous job.
        5: {"RUNNING"},
        6: {"RUNNING"},
        7: {"COMPLETED"},
        8: {"CANCELLED", "COMPLETING"},
        9: {"PENDING", "COMPLETING"},
    }
    assert len(found.items) == 9


@pytest.mark.parametrize(
    "odd",
    [
        *({"state": ["RUNNING"]}, {"job_id": "7"}, {"job_id": 7, "state": ["RUNNING"]}, 7, None, [], "7"),
        *({"job_id": "-7", "state": ["RUNNING"]}, {"job_id": "7_", "state": ["RUNNING"]}),
        *({"job_id": "7_[1-3]", "state": ["RUNNING"]}, {"job_id": "7.batch", "state": ["RUNNING"]}),
        *({"job_id": "9" * 5000, "state": ["RUNNING"]}, {"job_id": "\u0667", "state": ["RUNNING"]}),
        *({"job_id": "7", "state": "RUNNING"}, {"job_id": "7", "state": ["\u202e"]}, {"job_id": "7", "state": [1]}),
        {"job_id": "7\n", "state": ["RUNNING"]},
    ],
    ids=str,
)
def test_a_state_that_cannot_be_read_makes_the_list_incomplete(odd: object) -> None:
    found = wire.job_states(states_of(odd, {"job_id": "8", "state": ["RUNNING"]}), "GET jobs/state")
    assert not found.complete
    assert found.items == (JobState(8, frozenset({"RUNNING"})),)


def test_a_job_in_two_states_at_once_is_in_neither() -> None:
    twice = ({"job_id": "7", "state": ["RUNNING"]}, {"job_id": "7_1", "state": ["COMPLETED"]})
    found = wire.job_states(states_of(*twice), "GET jobs/state")
    assert (found.items, found.complete) == ((), False)


def test_a_state_that_nobody_knows_is_kept() -> None:
    found = wire.job_states(states_of({"job_id": "7", "state": ["DREAMING"]}), "GET jobs/state")
    assert (found.items, found.complete) == ((JobState(7, frozenset({"DREAMING"})),), True)


@pytest.mark.parametrize("lacking", [None, {}, 7, "jobs"], ids=str)
def test_an_answer_without_a_list_of_states_is_no_empty_list(lacking: object) -> None:
    with pytest.raises(SlurmBadAnswer, match="no list"):
        wire.job_states(reply({**recorded("26.05", "jobs_state"), "jobs": lacking}), "GET jobs/state")


def test_errors_beside_a_list_of_states_are_believed_first() -> None:
    document = {**recorded("26.05", "jobs_state"), "errors": [{"error_number": 1, "error": "no"}]}
    with pytest.raises(SlurmError):
        wire.job_states(reply(document), "GET jobs/state")


def test_a_list_of_states_has_a_budget_of_items() -> None:
    """Each waiting task of an array is one, so they may be many."""
    many = [{"job_id": f"7_{task}", "state": ["PENDING"]} for task in range(wire.MAX_ITEMS + 1)]
    found = wire.job_states(states_of(*many), "GET jobs/state")
    assert (found.items, found.complete) == ((JobState(7, frozenset({"PENDING"})),), True)
    with pytest.raises(SlurmBudgetExceeded, match="300,000 items"):
        wire.job_states(states_of(*[0] * (wire.MAX_STATE_ITEMS + 1)), "GET jobs/state")


@pytest.mark.parametrize("release", RELEASES)
def test_of_an_array_only_the_record_that_was_asked_for_counts(release: str) -> None:
    seen = wire.one_job(load(release, "job_array"), 2, "GET job")
    assert isinstance(seen, KnownJob)
    assert (seen.job.job_id, seen.job.states, len(seen.job.nodes)) == (2, frozenset({"PENDING"}), 0)
    task = wire.one_job(load(release, "job_array"), 3, "GET job")
    assert isinstance(task, KnownJob)
    assert task.job.nodes == HostList("n1")
    assert isinstance(wire.one_job(load(release, "job_array"), 7, "GET job"), Unknown)


def test_two_unfinished_jobs_of_one_id_are_unknown() -> None:
    document = recorded("26.05", "jobs")
    (one,) = document["jobs"]
    document["jobs"] = [one, {**one, "nodes": "n7"}]
    assert isinstance(wire.one_job(reply(document), one["job_id"], "GET job"), Unknown)
    document["jobs"] = [one, one]
    assert isinstance(wire.one_job(reply(document), one["job_id"], "GET job"), KnownJob)


def test_a_long_host_list_is_read_once_as_long_as_partitions_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count = hostlist.count

    def noting(text: str) -> int:
        counted.append(text)
        return count(text)

    monkeypatch.setattr(hostlist, "count", noting)
    document = recorded("26.05", "partitions")
    first = document["partitions"][0]
    hosts = ",".join(f"rack{at}-once" for at in range(5000))
    for grace in range(3):
        mine = {**first, "grace_time": grace, "nodes": {**first["nodes"], "configured": hosts}}
        found = wire.partitions(reply({**document, "partitions": [mine]}), "partitions")
        assert (found.items[0].grace_time, found.items[0].nodes) == (grace, hosts)
    assert counted == [hosts]
