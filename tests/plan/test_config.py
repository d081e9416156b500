"""The way of a configuration as a table: what is there, what the sidecars said, and the next step."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_operator.plan.config import (
    MAX_REASON_CHARACTERS,
    ConfigWorld,
    ControllerPod,
    Stage,
    Verdict,
    content_hash,
    last_verdict,
    locate,
    note,
    plan_config,
    reconfigure_hash,
)
from slurm_operator.plan.lint import linted
from slurm_operator.plan.worker_trial import TrialStage, WorkerTrial
from slurm_operator.status.config import drafts, fields

OLD = {"slurm.conf": "ClusterName=a\nMinJobAge=300\n", "cgroup.conf": "CgroupPlugin=disabled\n"}
NEW = {**OLD, "slurm.conf": "ClusterName=a\nMinJobAge=301\n"}
WRONG = {**OLD, "slurm.conf": "ClusterName=a\nProctrackType=proctrack/pgid\nBogus=1\n"}
OLD_HASH, NEW_HASH = content_hash(OLD), content_hash(NEW)
TOLD = note(NEW, live_partitions=False, check=True)
POD = ControllerPod("slurm-controller-0", "uid-0", reports_verdicts=True)
SETTLED = ConfigWorld(OLD, OLD, pods=(POD,), applied=OLD_HASH)


def said(stage: str, hash_: str = NEW_HASH, pod: ControllerPod = POD, reason: str = "") -> ControllerPod:
    return replace(pod, verdict=Verdict(hash_, stage, 400, reason=reason))


NEWER = f'verdict version=3 hash={NEW_HASH} stage=applied ms=5 parse=1 trial=2 reconfigure=2 at=1 reason=""'
UNREAD = replace(POD, verdict=last_verdict([NEWER]))
BACKUP = replace(POD, name="slurm-controller-1", uid="uid-1")
CASES = {
    "the first one is published untried": (ConfigWorld(), Stage.FIRST, NEW),
    "a new one is handed over and the old one stays": (SETTLED, Stage.TRYING, OLD),
    "one without a pod waits": (replace(SETTLED, pods=()), Stage.WAITING, OLD),
    "one that was accepted is published": (replace(SETTLED, pods=(said("applied"),)), Stage.APPLIED, NEW),
    "one that was refused is not": (replace(SETTLED, pods=(said("refused"),)), Stage.REFUSED, OLD),
    "one that was taken back is not": (replace(SETTLED, pods=(said("rolledback"),)), Stage.ROLLED_BACK, OLD),
    "the word on another one is no word": (replace(SETTLED, pods=(said("applied", OLD_HASH),)), Stage.TRYING, OLD),
    "every controller must accept it": (replace(SETTLED, pods=(said("applied"), BACKUP)), Stage.TRYING, OLD),
    "one controller is enough to refuse it": (
        replace(SETTLED, pods=(said("applied"), said("refused", pod=BACKUP))),
        Stage.REFUSED,
        OLD,
    ),
    "a verdict that nobody understands is no success": (replace(SETTLED, pods=(UNREAD,)), Stage.UNREADABLE, OLD),
    "nor is it beside one that is": (replace(SETTLED, pods=(said("applied"), UNREAD)), Stage.UNREADABLE, OLD),
    "a refusal stands beside it": (replace(SETTLED, pods=(UNREAD, said("refused", pod=BACKUP))), Stage.REFUSED, OLD),
    "a sidecar of another make reads what is published": (
        replace(SETTLED, pods=(replace(POD, reports_verdicts=False),)),
        Stage.DIRECT,
        NEW,
    ),
    "without a sidecar a new pod reads it": (replace(SETTLED, in_place=False), Stage.DIRECT, NEW),
}


@pytest.mark.parametrize("case", CASES)
def test_the_next_step(case: str) -> None:
    world, stage, good = CASES[case]
    plan = plan_config(NEW, TOLD, world)
    assert (plan.stage, plan.good, plan.candidate) == (stage, good, NEW)


def test_what_is_in_force_and_published_asks_nobody_and_writes_nothing() -> None:
    plan = plan_config(OLD, TOLD, SETTLED)
    assert (plan.stage, plan.nudge, plan.is_open) == (Stage.APPLIED, (), False)


def test_the_pods_that_run_with_another_one_are_named() -> None:
    pods = (said("applied"), said("applied", OLD_HASH, BACKUP))
    assert plan_config(NEW, TOLD, replace(SETTLED, pods=pods)).behind == ((BACKUP.name, OLD_HASH),)


def test_hidden_files_are_not_handed_over_and_do_not_count() -> None:
    assert content_hash({**OLD, ".hidden": "x"}) == OLD_HASH


TOLD_POD = replace(POD, nudged=NEW_HASH)
HANDED_OVER = replace(SETTLED, candidate=NEW, pods=(TOLD_POD,))
NUDGES = {
    "a pod is told of a candidate": (SETTLED, (TOLD_POD,)),
    "once": (HANDED_OVER, ()),
    "also by the next operator, when the last one died before": (replace(HANDED_OVER, pods=(POD,)), (TOLD_POD,)),
    "once more when its sidecar stays silent": (replace(HANDED_OVER, nudges=2), (replace(TOLD_POD, times=2),)),
    "not before that": (replace(HANDED_OVER, nudges=2, pods=(replace(TOLD_POD, times=2),)), ()),
    "not when its sidecar has spoken": (replace(HANDED_OVER, nudges=2, pods=(said("refused", pod=TOLD_POD),)), ()),
    "once more when that was put off, whatever it said before": (
        replace(HANDED_OVER, nudge_is_owed=True, pods=(said("applied", pod=TOLD_POD),)),
        (replace(said("applied", pod=TOLD_POD), times=2),),
    ),
    "once more when another one was handed over since": (
        replace(HANDED_OVER, candidate=OLD),
        (replace(TOLD_POD, times=2),),
    ),
}


@pytest.mark.parametrize("case", NUDGES)
def test_who_is_told_of_a_candidate(case: str) -> None:
    world, nudged = NUDGES[case]
    assert plan_config(NEW, TOLD, world).nudge == nudged


def test_what_slurm_was_told_live_waits_a_moment_for_what_follows() -> None:
    plan = plan_config(NEW, TOLD, replace(SETTLED, nudge_may_wait=True))
    assert (plan.candidate, plan.nudge, plan.nudges_later) == (NEW, (), True)


def test_what_every_pod_has_been_told_is_not_told_later_either() -> None:
    assert not plan_config(NEW, TOLD, replace(HANDED_OVER, nudge_may_wait=True)).nudges_later


@pytest.mark.parametrize("how", ["the linter", "slurmd"])
def test_where_the_next_one_is_held_back_a_pod_is_told_at_last_of_the_candidate_that_stays(how: str) -> None:
    trial = WorkerTrial(TrialStage.REFUSED, reason="x") if how == "slurmd" else WorkerTrial()
    findings = linted(WRONG, "Bogus=1\n", "26.05") if how == "the linter" else ()
    told = replace(HANDED_OVER, worker_trial=trial)
    assert plan_config(WRONG, TOLD, told, findings).nudge == ()
    plan = plan_config(WRONG, TOLD, replace(told, nudge_is_owed=True), findings)
    assert (plan.candidate, plan.nudge) == (NEW, (replace(TOLD_POD, times=2),))


def test_a_pod_that_was_told_of_another_one_is_told_and_asked_again() -> None:
    """The operator died after it had put the old candidate back and before it told the pod."""
    plan = plan_config(OLD, TOLD, replace(SETTLED, pods=(TOLD_POD,)))
    assert (plan.stage, plan.is_open) == (Stage.FIRST, True)
    assert plan.nudge == (replace(POD, nudged=OLD_HASH),)


@pytest.mark.parametrize("reports_verdicts", [True, False], ids=["of our own", "of another make"])
def test_while_a_key_goes_round_pods_are_told_nothing_new(reports_verdicts: bool) -> None:
    plan = plan_config(
        NEW, TOLD, replace(SETTLED, frozen=True, pods=(replace(POD, reports_verdicts=reports_verdicts),))
    )
    assert (plan.stage, plan.good, plan.candidate) == (Stage.HELD, OLD, OLD)
    assert (plan.note, plan.nudge, plan.is_open) == (SETTLED.note, (), False)


def test_what_is_in_force_stays_so_while_a_key_goes_round() -> None:
    assert plan_config(OLD, TOLD, replace(SETTLED, frozen=True)).stage is Stage.APPLIED


def test_a_wish_that_is_taken_back_is_told_to_the_sidecar_too() -> None:
    plan = plan_config(OLD, TOLD, replace(SETTLED, candidate=NEW, pods=(said("refused"),)))
    assert (plan.stage, plan.candidate, plan.good) == (Stage.FIRST, OLD, OLD)
    assert [pod.name for pod in plan.nudge] == [POD.name]


def test_a_last_good_one_that_somebody_deleted_comes_back_from_what_is_in_force() -> None:
    plan = plan_config(NEW, TOLD, replace(SETTLED, good=None))
    assert (plan.stage, plan.good) == (Stage.TRYING, OLD)


def test_what_the_linter_refuses_reaches_nobody() -> None:
    findings = linted(WRONG, "Bogus=1\n", "26.05")
    plan = plan_config(WRONG, TOLD, SETTLED, findings)
    assert (plan.stage, plan.good, plan.candidate, plan.nudge) == (Stage.INVALID, OLD, OLD, ())
    assert "Bogus" in plan.findings[0].message


def test_the_last_verdict_counts() -> None:
    lines = [
        "[Mon] Reconfiguring Slurm...",
        'verdict hash=aa stage=applied ms=5 parse=1 trial=2 reconfigure=2 reason=""',
        "[Mon] REFUSED: no",
        r'verdict hash=bb stage=refused ms=7 parse=1 trial=2 reconfigure=0 reason="say \"no\" \\ twice"',
        "verdict hash=cc stage=",
    ]
    assert last_verdict(lines) == Verdict("bb", "refused", 7, 1, 2, 0, 'say "no" \\ twice')
    assert last_verdict(lines[:1]) is None
    timed = 'verdict hash=dd stage=applied ms=5 parse=1 trial=2 reconfigure=2 at=1700000000 reason=""'
    assert last_verdict([timed]) == Verdict("dd", "applied", 5, 1, 2, 2, "", 1_700_000_000)


def test_a_newer_verdict_hides_what_was_said_before_it() -> None:
    found = last_verdict([f'verdict hash={NEW_HASH} stage=applied ms=5 parse=1 trial=2 reconfigure=2 reason=""', NEWER])
    assert found == Verdict("", "unreadable", reason="the sidecar's verdict has version 3; this operator reads 2")


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "-7", "9" * 19], ids=["huge", "low", "back", "large"])
@pytest.mark.parametrize("field", ["ms", "parse", "trial", "reconfigure", "at"])
def test_no_number_of_a_sidecar_stops_a_turn_or_leaves_its_bounds(field: str, number: str) -> None:
    """A hostile image may print any number, and a clock that goes back makes a negative one."""
    numbers = {"ms": "1", "parse": "1", "trial": "1", "reconfigure": "1", "at": "1700000000", field: number}
    words = " ".join(f"{key}={value}" for key, value in numbers.items())
    found = last_verdict([f'verdict hash={NEW_HASH} stage=applied {words} reason=""'])
    assert found is not None
    assert all(0 <= each < 2**31 for each in (found.milliseconds, found.parse, found.trial, found.reconfigure))
    plan = plan_config(NEW, TOLD, replace(SETTLED, pods=(replace(POD, verdict=found),)))
    written = fields(plan, None, "2026-01-01T00:00:00Z")
    assert plan.stage is Stage.APPLIED
    assert "lastRead" in written or field == "at"


HOSTILE_REASONS = {
    "escape sequences": "\x1b[31mred\x1b]0;title\x07",
    "bidi": "abc\u202edcba\u2066",
    "invalid UTF-8": b"\xff\xfe no".decode("utf-8", "replace"),
    "a megabyte": "x" * 2**20,
    "breaks": "a\rb\x0bc\x85d\u2028e",
    "quotes and backslashes": "\\" * 999 + '"' * 99,
}


@pytest.mark.parametrize("reason", HOSTILE_REASONS.values(), ids=HOSTILE_REASONS.keys())
def test_the_reason_of_a_sidecar_is_one_printable_bounded_line(reason: str) -> None:
    """It goes into a condition, and from there to terminals."""
    line = f'verdict hash={NEW_HASH} stage=refused ms=1 parse=1 trial=1 reconfigure=0 reason="{reason}"'
    found = last_verdict([line])
    assert found is not None
    assert found.reason.isprintable()
    assert len(found.reason) <= MAX_REASON_CHARACTERS
    plan = plan_config(NEW, TOLD, replace(SETTLED, pods=(replace(POD, verdict=found),)))
    told = drafts(plan, None)[0].message
    assert told.isprintable()
    assert told.endswith("stays in force)")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            f'verdict hash={"a" * 65} stage=applied ms=1 parse=1 trial=1 reconfigure=0 reason=""', id="a long hash"
        ),
        pytest.param(
            'verdict hash=\x1b[1m stage=applied ms=1 parse=1 trial=1 reconfigure=0 reason=""', id="an odd hash"
        ),
        pytest.param('verdict hash=aa stage=applied ms=1.5 parse=1 trial=1 reconfigure=0 reason=""', id="a fraction"),
        pytest.param('verdict hash=aa stage=applied ms=٣ parse=1 trial=1 reconfigure=0 reason=""', id="other digits"),
        pytest.param("verdict " * 10_000, id="many words"),
    ],
)
def test_what_no_sidecar_of_ours_prints_is_no_verdict(line: str) -> None:
    assert last_verdict([line]) is None


def test_partition_lines_need_no_reconfigure_where_slurm_takes_them_live() -> None:
    more = {**OLD, "slurm.conf": OLD["slurm.conf"] + "PartitionName=a Nodes=ALL\n"}
    assert reconfigure_hash(more, live_partitions=True) == reconfigure_hash(OLD, live_partitions=True)
    assert reconfigure_hash(more, live_partitions=False) != reconfigure_hash(OLD, live_partitions=False)
    assert reconfigure_hash(NEW, live_partitions=True) != reconfigure_hash(OLD, live_partitions=True)


def test_the_hash_is_the_one_that_the_sidecar_computes(tmp_path: Path) -> None:
    files = {**NEW, "Zebra.sh": "#!/bin/sh\n", "a.conf": "ümlaut\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = "LC_ALL=C; cd $0; sha256sum -- * | sha256sum | cut -d' ' -f1"
    done = subprocess.run(["bash", "-c", command, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == content_hash(files)


SLURM_CONF = """\
ClusterName=a
SlurmUser=slurm
PartitionName=compute Nodes=compute
PartitionName=night Nodes=nosuch MaxTime=60
JobSubmitPlugins=lua
PriorityType=priority/nosuch2
"""


@pytest.mark.parametrize(
    ("reason", "place"),
    [
        pytest.param("fatal: Invalid node names in partition night.", "slurm.conf:4", id="a partition"),
        pytest.param("job_submit/lua: Unable to stat job_submit.lua", "slurm.conf:5", id="a plugin's file"),
        pytest.param("cannot find priority plugin for priority/nosuch2", "slurm.conf:6", id="a plugin"),
        pytest.param("error: Parsing error at unrecognized key: Frob", "cgroup.conf:2", id="another file"),
        pytest.param("slurmctld does not answer any more", "", id="no place"),
    ],
)
def test_the_place_of_a_complaint(reason: str, place: str) -> None:
    assert locate({"slurm.conf": SLURM_CONF, "cgroup.conf": "CgroupPlugin=disabled\nFrob=1\n"}, reason) == place
