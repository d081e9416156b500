"""What `kubectl slurm wait` says is in the way, and why a drain takes as long as it does."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from slurm_operator.cli.kubectl.main import main
from slurm_operator.cli.kubectl.nodes import NO_JOBS, is_drained, reason_on
from slurm_operator.cli.kubectl.wait import first_of, in_the_way, not_waited_for
from slurm_operator.cli.waiting import UNKNOWN, Reason
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, SlurmNode


def token(name: str, status: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "reason": "WaitingForKey", "message": "its key is missing"}
    head = {"name": name, "generation": 1}
    return {"kind": "Token", "metadata": head, "status": {"observedGeneration": 1, "conditions": [ready]}}


def facts(**tokens: str) -> Facts:
    return Facts("slurm", {"Token": {name: token(name, status) for name, status in tokens.items()}})


@pytest.mark.parametrize(
    ("target", "sentences"),
    [
        ("", ["Token b is not ready: its key is missing"]),
        ("token/b", ["Token b is not ready: its key is missing"]),
        ("token/a", []),
        ("token/c", ["there is no Token 'c' in namespace slurm"]),
    ],
    ids=["everything", "one that is not ready", "one that is", "one that is not there"],
)
def test_what_is_in_the_way(target: str, sentences: list[str]) -> None:
    assert [each.sentence for each in in_the_way(facts(a="True", b="False"), target)] == sentences


def test_what_is_being_deleted_is_not_ready() -> None:
    """Applied again while it was being deleted, it counted as ready at once."""
    known = facts(a="True")
    leaving = token("b", "True")
    leaving["metadata"] |= {"deletionTimestamp": "2030-01-01T12:00:00Z", "finalizers": ["x"]}
    found = in_the_way(Facts("slurm", {"Token": {**known.objects["Token"], "b": leaving}}), "")
    assert [each.sentence for each in found] == ["Token b is being deleted: its key is missing"]


@pytest.mark.parametrize("target", ["", "controller/slurm"])
def test_what_goes_on_while_all_is_ready_is_told_and_not_waited_for(target: str) -> None:
    controller = token("slurm", "True") | {"kind": "Controller", "spec": {"external": True}}
    held = {"type": "Progressing", "status": "True", "reason": "WaitingForJobs", "message": "debug is kept"}
    controller["status"]["conditions"].append(held)
    known = Facts("slurm", {"Controller": {"slurm": controller}})
    assert in_the_way(known, target) == []
    (left,) = not_waited_for(known, target)
    assert left.sentence == "Controller slurm is ready, and something is under way: debug is kept"


def test_of_several_causes_the_first_is_told_and_the_others_are_counted() -> None:
    one, other = Cause("A", "the key is missing", "kubectl get secrets"), Cause("B", "it is slow", "top")
    assert first_of([one, other], "slurm").text == (
        "the key is missing (and 1 more: kubectl slurm -n slurm doctor); kubectl get secrets"
    )
    assert first_of([one], "slurm").text == "the key is missing; kubectl get secrets"
    assert first_of([], "slurm") == UNKNOWN


@pytest.mark.parametrize("target", ["compute", "job/5", "nodeset/"])
def test_only_resources_are_waited_for(target: str) -> None:
    done = CliRunner().invoke(main, ["wait", target])
    assert done.exit_code == 2
    assert "is not KIND/NAME with a kind of partition, controller, nodeset" in done.output


def with_jobs(*jobs: SlurmJob, states: set[str]) -> Facts:
    node = SlurmNode("compute-0", frozenset(states), reason="slurm-operator: cordoned")
    return Facts("slurm", slurm={"slurm": Slurm(nodes={"compute-0": node}, jobs={job.id: job for job in jobs})})


def job(number: str, **wants: str) -> SlurmJob:
    return SlurmJob(number, "train", "bob", "RUNNING", nodes=("compute-0",), wants=wants)


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (
            [job("7", EndTime="2026-11-18T10:00:00Z")],
            "job 7 (train) of bob runs on it, until 2026-11-18T10:00:00Z at the latest",
        ),
        (
            [job("7", EndTime="Unknown"), job("8")],
            "job 7 (train) of bob runs on it, without a time limit, and 1 more",
        ),
    ],
    ids=["one with an end", "two without"],
)
def test_a_drain_that_waits_names_the_job_its_end_and_what_ends_it(jobs: list[SlurmJob], said: str) -> None:
    known = with_jobs(*jobs, states={"ALLOCATED", "DRAIN"})
    assert not is_drained(known, "compute-0")
    assert reason_on(known, "compute-0", NO_JOBS) == Reason(said, "kubectl slurm -n slurm shell -- scancel 7")


def test_a_node_without_jobs_is_drained() -> None:
    assert is_drained(with_jobs(states={"IDLE", "DRAIN"}), "compute-0")
    assert not is_drained(with_jobs(states={"IDLE"}), "compute-0")
    assert not is_drained(Facts("slurm"), "compute-0")


def test_an_undrain_that_waits_says_who_else_has_drained_it() -> None:
    node = SlurmNode("compute-0", frozenset({"IDLE", "DRAIN"}), reason="bad disk")
    known = Facts("slurm", slurm={"slurm": Slurm(nodes={"compute-0": node})})
    assert reason_on(known, "compute-0", "accepts jobs").sentence == "somebody drained compute-0: bad disk"
