"""How a local cluster is shown: to people in lines, to machines as JSON, each change once."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest
from msgspec import structs

from kube_local.node import host
from slurm_operator.cli.local_view import STEADY_SECONDS, Lines, applied, as_json, as_text
from slurm_operator.local.cluster import Health
from slurm_operator.local.readiness import State
from slurm_operator.local.supervisor import PartRecord

READY = State(kind="NodeSet", namespace="slurm", name="compute", ready=True, message="2 workers are ready")
WAITING = State(kind="NodeSet", namespace="slurm", name="compute", ready=False, message="0 of 2 workers are ready")


def part(name: str, **fields: object) -> PartRecord:
    """A part that runs: this process."""
    me = os.getpid()
    return PartRecord(name=name, pid=me, started=host.start_time(me), **fields)  # type: ignore[arg-type]


def health(*objects: State, problems: tuple[str, ...] = (), parts: tuple[PartRecord, ...] = ()) -> Health:
    return Health(
        name="local",
        data="/data",
        supervisor=1,
        answers=True,
        agent_answers=True,
        parts=list(parts or (part("apiserver"),)),
        objects=list(objects),
        problems=list(problems),
    )


def test_a_good_cluster_is_called_healthy_in_both_forms() -> None:
    assert as_text(health(READY)).startswith("cluster local: healthy")
    told = json.loads(as_json(health(READY)))
    assert (told["healthy"], told["parts"][0]["running"]) == (True, True)


def test_what_is_amiss_is_in_the_text() -> None:
    ended = PartRecord(name="operator", last_exit="exit code 3")
    text = as_text(health(WAITING, problems=("the image is not there",), parts=(ended,)))
    for expected in ("not healthy", "does not run (exit code 3)", WAITING.message, "!! the image is not there"):
        assert expected in text


def test_a_part_that_was_started_again_says_how_often() -> None:
    assert "restarted 2 times (last: signal 9)" in as_text(
        health(parts=(part("dns", restarts=2, last_exit="signal 9"),))
    )


def test_lines_tell_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(clock=lambda: 0.0)
    for seen in (WAITING, READY, READY, WAITING, READY):
        lines(health(seen, problems=("crash loop (1)",)))
    assert [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "crash loop (1)",
        "NodeSet slurm/compute is ready",
        f"NodeSet slurm/compute is not ready any more: {WAITING.message}",
        "NodeSet slurm/compute is ready",
    ]


@pytest.mark.parametrize(
    ("since", "said"),
    [("2026-11-17T11:00:00Z", ""), ("2026-11-17T12:00:00Z", "is ready"), ("", "is ready")],
    ids=["before the start", "after it", "unknown"],
)
def test_what_was_ready_before_the_start_is_not_said_to_be(
    capsys: pytest.CaptureFixture[str], since: str, said: str
) -> None:
    """Its status is of the run before: the operator has not looked at it yet."""
    started = datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp() + 0.5
    # The operator alone was started again later: that says nothing about what it wrote before.
    parts = (part("apiserver", since=started), part("operator", since=started + 600))
    Lines(clock=lambda: 0.0)(health(structs.replace(READY, since=since), parts=parts))
    told = capsys.readouterr().err
    assert said in told
    assert bool(told) == bool(said)


def test_what_is_left_over_is_named_once_and_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    left = State(kind="NodeSet", namespace="slurm", name="old", ready=False, message="job 7", left_out="it is going")
    lines, now = Lines(clock=lambda: 0.0), health(READY, left)
    lines(now)
    lines(now)
    said = [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "NodeSet slurm/old is not waited for because it is going: job 7",
        "NodeSet slurm/compute is ready",
    ]
    assert (now.ready_without_leftovers, now.healthy, now.waited_for) == (True, False, [])


def test_what_is_ready_for_a_moment_only_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    """After a restart objects still have the status of before."""
    now = [0.0]
    lines, other = Lines(clock=lambda: now[0]), State(kind="Pod", namespace="slurm", name="a", ready=False)
    for seen, seconds in ((READY, 0.0), (WAITING, 1.0), (READY, 2.0), (READY, 1.9 + STEADY_SECONDS)):
        now[0] = seconds
        lines(health(seen, other))
    assert capsys.readouterr().err == ""
    now[0] = 2.0 + STEADY_SECONDS
    lines(health(READY, other))
    assert capsys.readouterr().err.endswith("NodeSet slurm/compute is ready\n")


def test_a_cluster_that_was_stopped_says_so() -> None:
    text = as_text(structs.replace(health(), supervisor=0, parts=[PartRecord(name="operator")]))
    assert "operator     is stopped" in text
    assert "never started" in as_text(structs.replace(health(), parts=[PartRecord(name="operator")]))


def test_objects_that_were_set_back_are_named() -> None:
    effects = {"created": ["Secret a/b"], "changed": ["NodeSet a/c", "Partition a/d"], "unchanged": []}
    assert applied(effects).splitlines() == [
        "1 created, 2 changed objects",
        "set to what the manifests say: NodeSet a/c, Partition a/d",
    ]
    assert applied({"created": [], "changed": [], "unchanged": ["Secret a/b"]}) == "1 unchanged object"
