"""What users typed into Slurm, seen by the diagnosis: no job is forged or hidden, nothing raises, acts or is expanded.

The recorded answers are of `tests/real/slurm/scontrol.py`: every job in them claims, in each text that its user may
write, to be another job, node, partition or state. Beside them stands what squeue said in columns that no user writes.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.diagnose.said import Record, answer, job, said
from tests.real.hostile_jobs import FORGERIES

from slurm_operator.cli.kubectl import view
from slurm_operator.diagnose import job as jobs
from slurm_operator.diagnose import node, partition
from slurm_operator.diagnose.cause import Cause, Fine, Unseen
from slurm_operator.diagnose.cluster import examine
from slurm_operator.diagnose.facts import Facts, Slurm
from slurm_operator.diagnose.scontrol import LISTS, slurm_facts
from slurm_operator.slurm.errors import SlurmError

RECORDED = Path(__file__).parent / "recorded"
VERSIONS = ("24.11", "26.05")
NODES = "NodeName=n0 CPUAlloc=0 CPUTot=2 State=IDLE Partitions=p"
REAL = {"JobId": "7", "UserId": "alice(1)", "JobState": "RUNNING", "Partition": "p", "NodeList": "n0"}
FORGED_IDS = ("802", "803", "804", "805", "806", "807", "1000")


@cache
def kept(version: str) -> Any:
    return json.loads((RECORDED / f"{version}.json").read_text())


def recorded(version: str, which: str = "full") -> Slurm:
    bodies = (kept(version)[which][name].encode("utf-8", "surrogateescape") for name in LISTS)
    return slurm_facts(*bodies)


def of_jobs(*records: Record, **more: Any) -> Slurm:
    return slurm_facts(answer("nodes", []), answer("jobs", records, **more), answer("partitions", []))


def of_job(**more: Any) -> Slurm:
    return of_jobs({**job(REAL), **more})


# On real answers


@pytest.mark.parametrize("version", VERSIONS)
def test_the_recording_holds_every_forgery(version: str) -> None:
    """Without them, the tests below would show nothing."""
    raw = json.loads(kept(version)["full"]["jobs"])["jobs"]
    names = [each["name"].encode("utf-8", "surrogateescape") for each in raw]
    assert {name: names.count(name) for name in FORGERIES.values()} == dict.fromkeys(FORGERIES.values(), 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_jobs_are_those_of_squeue_whatever_they_are_called(version: str) -> None:
    """None is hidden and none invented; state, partition, owner and nodes are Slurm's word, not the user's."""
    found = recorded(version).jobs.values()
    seen = [
        [each.id, each.state, each.partition, each.user, each.wants["NumNodes"], ",".join(each.nodes)] for each in found
    ]
    assert sorted(seen) == kept(version)["queue"]


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_and_partitions_are_slurms_own(version: str) -> None:
    found = recorded(version)
    assert sorted(found.nodes) == ["n0", "n1", "n2"]
    assert list(found.partitions) == ["compute"]
    assert found.nodes["n2"].reason == "a b [x] State=IDLE NodeName=n9"
    assert {"MIXED", "DRAIN"} <= found.nodes["n2"].states or {"ALLOCATED", "DRAIN"} <= found.nodes["n2"].states
    assert found.partitions["compute"].state == "UP"
    assert list(found.partitions["compute"].nodes) == ["n0", "n1", "n2"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_of_a_users_invention_does_not_exist(version: str) -> None:
    facts = Facts("ns", slurm={"c": recorded(version)})
    for name in FORGED_IDS:
        assert isinstance(jobs.why(facts, name), Unseen)
    assert isinstance(partition.why(facts, "p9"), Cause | Unseen)
    assert isinstance(node.why(facts, "n9"), Cause | Unseen)


@pytest.mark.parametrize("version", VERSIONS)
def test_why_says_of_each_job_what_squeue_says(version: str) -> None:
    facts = Facts("ns", slurm={"c": recorded(version)})
    for name, state, _, user, *_, hosts in kept(version)["queue"]:
        found = jobs.why(facts, name)
        if state == "RUNNING":
            assert isinstance(found, Fine)
            assert found.sentence.partition(", until ")[0] == f"job {name} is running on {hosts}"
        else:
            assert isinstance(found, Cause)
            assert (found.code, found.sentence) == ("JobHeldUser", f"job {name} waits: its owner {user} holds it")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("output", ["json", "yaml"])
def test_the_status_counts_real_states_and_is_text_that_every_reader_takes(version: str, output: str) -> None:
    controller = {"metadata": {"name": "c"}}
    facts = Facts("ns", {"Controller": {"c": controller}}, {"c": recorded(version)})
    written = view.data(view.summary(facts), output)
    assert written.encode().decode() == written
    assert all(line.isprintable() for line in written.split("\n"))
    (cluster,) = view.summary(facts)["clusters"]
    assert cluster["jobs"] == {"PENDING": 12, "RUNNING": 12}
    for line in view.overview(facts, examine(facts)).split("\n"):
        assert "PWNED" not in line


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cluster_without_jobs_has_none(version: str) -> None:
    found = recorded(version, "empty")
    assert not found.jobs
    assert sorted(found.nodes) == ["n0", "n1", "n2"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_empty_list_of_a_slurmctld_that_is_down_is_no_list(version: str) -> None:
    """scontrol ends with 0 and says `"jobs": []`: every job would seem to be gone."""
    ended = kept(version)["down"]["jobs"]
    assert ended["code"] == 0
    with pytest.raises(SlurmError, match="slurmctld did not answer"):
        slurm_facts(answer("nodes", []), ended["stdout"].encode(), answer("partitions", []))


# On what Slurm might say


@pytest.mark.parametrize(
    "name",
    [
        *(text.decode("utf-8", "replace") for text in FORGERIES.values()),
        "a\x1b]0;owned\x07",
        "\u202egnp",
        "x\x0bJobId=8 JobState=FAILED",
        "x\u2028JobId=8",
        "\udcff",
        "�" * 1000,
    ],
)
@pytest.mark.parametrize("field", ["name", "comment", "account", "command", "current_working_directory", "submit_line"])
def test_no_text_of_a_user_changes_its_job_or_makes_another(name: str, field: str) -> None:
    found = of_job(**{field: name})
    assert list(found.jobs) == ["7"]
    (only,) = found.jobs.values()
    assert (only.state, only.partition, only.user, list(only.nodes)) == ("RUNNING", "p", "alice", ["n0"])
    assert only.name.isprintable()
    assert all(value.isprintable() for value in only.wants.values())


def test_a_text_of_a_user_names_no_other_field() -> None:
    record = {**job({**REAL, "JobState": "PENDING", "Reason": "InvalidAccount"}), "account": "{QOS}", "qos": "secret"}
    found = jobs.why(Facts("ns", slurm={"c": of_jobs(record)}), "7")
    assert found.sentence == "job 7 waits: its account {QOS} does not exist"


@pytest.mark.parametrize("state", [None, [], "RUNNING", ["\x1b[2J"], ["a b"], [7], {}], ids=repr)
def test_a_job_whose_state_cannot_be_read_is_shown_all_the_same(state: Any) -> None:
    assert of_job(job_state=state).jobs["7"].state == "UNKNOWN"


@pytest.mark.parametrize("number", [None, "7", -7, 1e400, {"number": 7}, "9" * 5000], ids=repr)
def test_a_list_with_a_job_that_has_no_id_is_no_list(number: Any) -> None:
    """It would hide that job."""
    with pytest.raises(SlurmError, match="not every record"):
        of_jobs(job(REAL), {**job(REAL), "job_id": number})


@pytest.mark.parametrize(
    "body",
    [b"", b"JobId=7 JobState=RUNNING", b"[]", b"{}", b'{"jobs":[', b'{"jobs":null}', b"[" * 100_000, b"\xff\x00"],
    ids=["nothing", "text", "list", "empty", "cut", "null", "deep", "bytes"],
)
def test_what_is_no_answer_of_scontrol_says_nothing(body: bytes) -> None:
    with pytest.raises(SlurmError):
        slurm_facts(answer("nodes", []), body, answer("partitions", []))


def test_an_answer_that_names_an_error_says_nothing() -> None:
    problem = {"error_number": 1, "error": "Unable to contact slurm controller", "description": "x"}
    with pytest.raises(SlurmError, match="Unable to contact"):
        of_jobs(errors=[problem])


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_records_of_one_job_the_one_that_lives_is_shown(order: int) -> None:
    records = [job(REAL), {**job(REAL), "job_state": ["COMPLETED"]}][::order]
    assert of_jobs(*records).jobs["7"].state == "RUNNING"


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (["RUNNING"], "RUNNING"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["COMPLETED", "COMPLETING"], "COMPLETING"),
        (["PENDING", "REQUEUED"], "PENDING"),
    ],
)
def test_a_job_has_the_state_that_squeue_shows(states: list[str], shown: str) -> None:
    assert of_job(job_state=states).jobs["7"].state == shown


def test_the_nodes_that_a_job_waits_for_are_named() -> None:
    record = job({**REAL, "JobState": "PENDING", "Reason": "Resources", "NodeList": ""})
    found = of_jobs({**record, "state_description": "ReqNodeNotAvail, UnavailableNodes:n0"})
    assert found.jobs["7"].reason == "ReqNodeNotAvail, UnavailableNodes:n0"


@pytest.mark.parametrize("number", ["9" * 5000, "²", -1, 1e9, "", None, 1e400, {}], ids=repr)
def test_a_number_that_cannot_be_read_is_none(number: Any) -> None:
    odd = {"set": True, "number": number}
    times = {"start_time": odd, "end_time": odd, "time_limit": odd, "node_count": odd}
    facts = Facts("ns", slurm={"c": of_job(**times, exit_code=number)})
    assert isinstance(jobs.why(facts, "7"), Fine)
    examine(facts)


@pytest.mark.parametrize("nodes", ["n[0-99999]", "n[0", "n[0-999999999]", "", "[" * 1000])
def test_a_host_list_is_neither_expanded_nor_trusted(nodes: str) -> None:
    """T11: a sentence about it is as short as Slurm's own text."""
    tracemalloc.start()
    began = time.process_time()
    lines = f"JobId=7 JobState=RUNNING Partition=p NodeList={nodes}", f"PartitionName=p State=UP Nodes={nodes}"
    facts = Facts("ns", slurm={"c": said(NODES, *lines)})
    found = jobs.why(facts, "7")
    partition.why(facts, "p")
    examine(facts)
    seconds = time.process_time() - began
    _, max_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.sentence) < 1100
    assert max_bytes < 2_000_000
    assert seconds < 1.0
