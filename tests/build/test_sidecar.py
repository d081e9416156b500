"""The sidecar's program, branch by branch: what becomes of a candidate, and what the operator is told of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.build.sidecar_rig import BASE, Sidecar, files

from slurm_operator.build.verdicts import APPLIED, REFUSED, ROLLED_BACK
from slurm_operator.plan.config import content_hash

RECONFIGURE = "scontrol reconfigure"
# The same state as before: it changes nothing, and pending jobs are looked at.
KICK = "scontrol update partitionname=all state=DRAIN"
TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
NO_ROOM = 'echo "{0}: error writing: No space left on device" >&2; exit 1'


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    made = Sidecar(tmp_path)
    yield made
    made.kill()


class TestStart:
    """Before slurmctld, and until it answers."""

    def test_the_last_good_set_is_there_and_slurmctld_has_started_with_it(self, sidecar: Sidecar) -> None:
        sidecar.begin(files(**{"prolog.sh": "#!/bin/sh\n"}))
        (verdict,) = sidecar.verdicts()
        assert (verdict.stage, verdict.reason) == (APPLIED, "started with it")
        assert verdict.hash == content_hash(files(**{"prolog.sh": "#!/bin/sh\n"}))
        assert verdict.at > 0
        assert {path.name for path in sidecar.etc.glob("[!.]*")} == {
            "cgroup.conf",
            "prolog.sh",
            "slurm.conf",
            "slurm.key",
        }
        assert sidecar.calls() == []

    def test_it_waits_for_the_last_good_set_and_for_slurmctld(self, sidecar: Sidecar) -> None:
        sidecar.untell("up")
        sidecar.start()
        sidecar.wait_for_log("cannot stat")
        sidecar.publish(files(), to="good")
        sidecar.wait_for_log("polling")
        assert sidecar.verdicts() == []
        sidecar.tell("up")
        sidecar.wait(sidecar.verdicts, "a verdict")
        assert sidecar.verdicts()[0].reason == "started with it"

    def test_a_slurmctld_that_does_not_start_is_explained_once_by_a_trial(self, sidecar: Sidecar) -> None:
        sidecar.untell("up")
        sidecar.start(files("TrialFails=1\n"), START_LIMIT="0")
        sidecar.wait(sidecar.verdicts, "a verdict")
        sidecar.tell("up")
        sidecar.wait(lambda: sidecar.verdicts()[-1].stage == APPLIED, "slurmctld's start")
        assert [each.stage for each in sidecar.verdicts()] == [REFUSED, APPLIED]
        assert sidecar.verdicts()[0].reason == "fatal: Invalid JobSubmitPlugins;error: cannot open job_submit.lua"

    def test_one_that_does_not_start_for_another_reason_is_waited_for(self, sidecar: Sidecar) -> None:
        sidecar.untell("up")
        sidecar.start(files(), START_LIMIT="0")
        sidecar.wait_for_call("trial")
        sidecar.tell("up")
        sidecar.wait(sidecar.verdicts, "a verdict")
        assert [each.stage for each in sidecar.verdicts()] == [APPLIED]

    def test_a_container_that_starts_again_keeps_what_is_in_force(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        assert sidecar.judged(files("A=1\n")).stage == APPLIED
        assert sidecar.stop() == 0
        sidecar.start()
        sidecar.wait(lambda: len(sidecar.verdicts()) > 2, "a verdict after the start")
        again = sidecar.verdicts()[2]
        assert (again.hash, again.reason) in [
            (content_hash(files("A=1\n")), each) for each in ("started with it", "in force already")
        ]
        assert sidecar.in_force() == BASE + "A=1\n"
        assert sidecar.judged(files("A=2\n")).stage == APPLIED
        assert sidecar.in_force() == BASE + "A=2\n"


class TestLetIn:
    """Candidates that come into force."""

    def test_it_is_tried_then_read_then_pending_jobs_are_looked_at(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        verdict = sidecar.judged(files("A=1\n", **{"gres.conf": "Name=gpu\n"}))
        assert (verdict.stage, verdict.reason) == (APPLIED, "")
        assert verdict.at > 0
        assert sidecar.calls() == ["trial", RECONFIGURE, KICK]
        assert sidecar.in_force() == BASE + "A=1\n"
        assert (sidecar.etc / "gres.conf").read_text() == "Name=gpu\n"
        sidecar.judged(files())
        assert not (sidecar.etc / "gres.conf").is_symlink()
        assert (sidecar.etc / "slurm.key").read_text() == "secret"

    def test_what_is_in_force_already_is_said_and_not_read_again(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        assert sidecar.judged(files("TrialFails=1\n")).stage == REFUSED
        verdict = sidecar.judged(files())
        assert (verdict.stage, verdict.reason) == (APPLIED, "in force already")
        assert sidecar.calls() == ["trial"]

    def test_what_was_changed_live_needs_no_reading(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.judged(files("A=1\n"), reconfigure="x", check="on")
        assert sidecar.judged(files("A=2\n"), reconfigure="x", check="on").at == 0
        assert sidecar.calls() == ["trial", RECONFIGURE, KICK, "trial"]
        assert sidecar.in_force() == BASE + "A=2\n"

    def test_a_port_that_somebody_has_is_no_fault_of_the_candidate(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        assert sidecar.judged(files("TrialFindsItsPortTaken=1\n")).stage == APPLIED
        assert sidecar.calls()[:3] == ["trial", "trial", RECONFIGURE]

    def test_a_trial_that_got_ready_and_died_at_once_was_ready(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        assert sidecar.judged(files("TrialDiesAtOnce=1\n")).stage == APPLIED

    def test_one_that_need_not_be_checked_is_not_tried(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        assert sidecar.judged(files("TrialFails=1\n"), check="off").stage == APPLIED
        assert sidecar.calls() == [RECONFIGURE, KICK]

    def test_fewer_nodes_than_before_fit_where_they_are_enough(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        assert sidecar.judged(files("MaxNodeCount=3\n")).stage == APPLIED

    def test_a_slurmctld_that_was_just_starting_is_asked_again(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.tell("starting")
        assert sidecar.judged(files("A=1\n")).stage == APPLIED
        assert sidecar.calls() == ["trial", RECONFIGURE, RECONFIGURE, KICK]

    def test_a_kick_that_slurm_does_not_take_changes_no_verdict(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.tell("no-update")
        assert sidecar.judged(files("A=1\n")).stage == APPLIED


REFUSALS = {
    "the parser complains": (
        {"slurm.conf": BASE + "ParseFails=1\n"},
        {},
        "error: Parsing error at unrecognized key: ParseFails",
    ),
    "the parser says it in other words": ({"slurm.conf": "ParseSpeaksFreely=1\n"}, {}, "this is not how I like it"),
    "the parser says nothing": ({"slurm.conf": "ParseSaysNothing=1\n"}, {}, "Slurm cannot read it"),
    "the parser complains before the trial": (
        {"slurm.conf": "ParseFails=1\nTrialFails=1\n"},
        {},
        "error: Parsing error at unrecognized key: ParseFails",
    ),
    "the parser does not come to an end": (
        {"slurm.conf": "ParseHangs=1\n"},
        {"PARSE_LIMIT": "0.2"},
        "Slurm does not come to an end of reading it; is an included file missing?",
    ),
    "the trial fails": (
        files("TrialFails=1\n"),
        {},
        "fatal: Invalid JobSubmitPlugins;error: cannot open job_submit.lua",
    ),
    "the trial says nothing": (files("TrialSaysNothing=1\n"), {}, "slurmctld does not get ready with it within 10 s:"),
    "the trial does not get ready": (
        files("TrialNeverGetsReady=1\n"),
        {"TRIAL_LIMIT": "1"},
        "slurmctld does not get ready with it within 1 s: slurmctld: looking round",
    ),
    "nodes would vanish": (
        files("MaxNodeCount=2\n"),
        {},
        "MaxNodeCount=2 is too low: 3 nodes are registered, and would vanish",
    ),
}


class TestRefused:
    """Candidates that slurmctld never sees."""

    @pytest.mark.parametrize(("content", "settings", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
    def test_it_is_refused_with_slurms_words(
        self, sidecar: Sidecar, content: dict[str, str], settings: dict[str, str], reason: str
    ) -> None:
        sidecar.begin(**settings)
        verdict = sidecar.judged(content)
        assert (verdict.stage, verdict.reason, verdict.at) == (REFUSED, reason, 0)
        assert sidecar.in_force() == BASE
        assert RECONFIGURE not in sidecar.calls()

    def test_a_missing_file_is_found_without_a_trial_too(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        verdict = sidecar.judged(files("include nodes.conf\n"), check="off")
        assert (verdict.stage, verdict.reason) == (REFUSED, "included file nodes.conf is missing")
        assert sidecar.calls() == []


WAYS_BACK = {
    "slurmctld refuses it": ("LiveRefuses=1\n", {}, "slurm_reconfigure error: Invalid node name"),
    "slurmctld does not come to an end": (
        "LiveHangs=1\n",
        {"RECONFIGURE_LIMIT": "1"},
        "scontrol reconfigure ended with 124",
    ),
    "slurmctld falls silent": ("LiveFallsSilent=1\n", {"ANSWER_LIMIT": "2"}, "slurmctld does not answer any more"),
}


class TestRolledBack:
    """Candidates that slurmctld did not live with."""

    @pytest.mark.parametrize(("line", "settings", "reason"), WAYS_BACK.values(), ids=WAYS_BACK.keys())
    def test_the_last_good_set_is_read_again(
        self, sidecar: Sidecar, line: str, settings: dict[str, str], reason: str
    ) -> None:
        sidecar.begin(**settings)
        verdict = sidecar.judged(files(line, **{"gres.conf": "Name=gpu\n"}))
        assert (verdict.stage, verdict.reason) == (ROLLED_BACK, reason)
        assert sidecar.calls() == ["trial", RECONFIGURE, RECONFIGURE, KICK]
        assert sidecar.in_force() == BASE
        assert not (sidecar.etc / "gres.conf").is_symlink()
        assert sidecar.judged(files("A=1\n")).stage == APPLIED

    def test_a_slurmctld_that_stays_away_starts_with_the_last_good_set(self, sidecar: Sidecar) -> None:
        sidecar.begin(ANSWER_LIMIT="2", RETURN_LIMIT="0")
        assert sidecar.judged(files("LiveDies=1\n")).stage == ROLLED_BACK
        assert "it starts with the last good configuration" in sidecar.log()
        assert sidecar.in_force() == BASE

    def test_nodes_that_are_gone_without_a_check_are_counted(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        verdict = sidecar.judged(files("MaxNodeCount=2\nLiveLosesNodes=1\n"), check="off")
        assert (verdict.stage, verdict.reason) == (
            ROLLED_BACK,
            "2 nodes are gone: MaxNodeCount=2 is too low",
        )

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            pytest.param("TrialFails=1\n", "fatal: Invalid JobSubmitPlugins;", id="by a trial that fails"),
            pytest.param("", "slurm_reconfigure error: Invalid node name", id="by slurmctld, where a trial does not"),
        ],
    )
    def test_what_was_not_checked_is_explained_afterwards(self, sidecar: Sidecar, line: str, reason: str) -> None:
        sidecar.begin()
        verdict = sidecar.judged(files(f"LiveRefuses=1\n{line}"), check="off")
        assert verdict.stage == ROLLED_BACK
        assert verdict.reason.startswith(reason)
        assert sidecar.calls() == [RECONFIGURE, RECONFIGURE, "trial", KICK]

    def test_no_word_of_slurms_becomes_a_verdict(self, sidecar: Sidecar) -> None:
        wanted = files("LiveForges=1\n")
        forged = f"verdict version=2 hash={content_hash(wanted)} stage=applied ms=1 parse=1 trial=1 reconfigure=1 at=1"
        sidecar.tell("forged", f'no\n{forged} reason=""\n{forged} reason=""\n')
        sidecar.begin()
        sidecar.publish(wanted)
        sidecar.wait(lambda: len(sidecar.verdicts()) > 1, "a verdict")
        assert [each.stage for each in sidecar.verdicts()] == [APPLIED, ROLLED_BACK]


class TestTriedAgain:
    """Candidates that Slurm did not refuse: time ran out."""

    def test_a_slurmctld_that_was_too_busy_gets_it_again(self, sidecar: Sidecar) -> None:
        sidecar.begin(ANSWER_LIMIT="1", RETRY_AFTER="1000000 0")
        verdict = sidecar.judged(files("LiveIsBusy=1\n"))
        assert verdict.stage == ROLLED_BACK
        assert re.fullmatch(
            f"slurmctld does not answer any more; it is tried again at {TIME} \\(1 of 2\\)", verdict.reason
        )
        assert sidecar.in_force() == BASE

    def test_it_comes_into_force_when_the_load_is_gone(self, sidecar: Sidecar) -> None:
        sidecar.begin(ANSWER_LIMIT="1", RETRY_AFTER="1 1")
        hash_ = sidecar.publish(files("LiveIsBusy=1\n"))
        sidecar.wait(lambda: len(sidecar.verdicts()) > 1, "the first attempt")
        sidecar.tell("calm")
        sidecar.wait(lambda: sidecar.verdicts()[-1].stage == APPLIED, "another attempt")
        assert (sidecar.verdicts()[-1].hash, sidecar.verdicts()[-1].reason) == (hash_, "")
        assert sidecar.in_force() == BASE + "LiveIsBusy=1\n"

    @pytest.mark.parametrize(
        ("line", "settings", "stage", "reason"),
        [
            pytest.param(
                "LiveIsBusy=1\n",
                {"ANSWER_LIMIT": "1"},
                ROLLED_BACK,
                "slurmctld does not answer any more",
                id="slurmctld does not answer",
            ),
            pytest.param(
                "LiveHangs=1\n",
                {"RECONFIGURE_LIMIT": "1"},
                ROLLED_BACK,
                "scontrol reconfigure ended with 124",
                id="slurmctld does not come to an end",
            ),
            pytest.param(
                "TrialNeverGetsReady=1\n",
                {"TRIAL_LIMIT": "1"},
                REFUSED,
                "slurmctld does not get ready with it within 1 s: slurmctld: looking round",
                id="the trial does not get ready",
            ),
        ],
    )
    def test_after_a_few_times_that_is_the_end(
        self, sidecar: Sidecar, line: str, settings: dict[str, str], stage: str, reason: str
    ) -> None:
        sidecar.begin(RETRY_AFTER="0 0", **settings)
        sidecar.publish(files(line))
        sidecar.wait(lambda: sidecar.verdicts()[-1].reason.endswith("it was tried 3 times"), "the last attempt")
        assert [each.stage for each in sidecar.verdicts()] == [APPLIED, stage, stage, stage]
        assert all(each.reason.startswith(reason) for each in sidecar.verdicts()[1:])
        assert sidecar.judged(files("A=1\n")).stage == APPLIED
        assert sidecar.calls().count("trial") == 4

    @pytest.mark.parametrize(
        "line",
        [
            pytest.param("LiveRefuses=1\n", id="slurmctld refuses it"),
            pytest.param("LiveDies=1\n", id="slurmctld dies"),
            pytest.param("LiveFallsSilent=1\n", id="slurmctld is gone for a while"),
            pytest.param("TrialFails=1\n", id="the trial fails"),
        ],
    )
    def test_what_slurm_refuses_or_dies_of_is_not_tried_again(self, sidecar: Sidecar, line: str) -> None:
        sidecar.begin(ANSWER_LIMIT="1", RETURN_LIMIT="0", RETRY_AFTER="0 0")
        assert "again" not in sidecar.judged(files(line)).reason
        sidecar.tell("up")
        assert sidecar.judged(files("A=1\n")).stage == APPLIED
        assert sidecar.calls().count("trial") == 2

    def test_a_newer_one_takes_its_place(self, sidecar: Sidecar) -> None:
        sidecar.begin(TRIAL_LIMIT="1", RETRY_AFTER="1000000")
        sidecar.judged(files("TrialNeverGetsReady=1\n"))
        assert sidecar.judged(files("A=1\n")).stage == APPLIED

    def test_one_that_waits_in_place_is_read_again(self, sidecar: Sidecar) -> None:
        sidecar.begin(ANSWER_LIMIT="1", RETRY_AFTER="0")
        sidecar.untell("up")
        hash_ = sidecar.publish(files("LiveIsBusy=1\n"))
        sidecar.wait_for_log("slurmctld is not up")
        sidecar.tell("up")
        sidecar.wait(lambda: len(sidecar.verdicts()) > 1, "a verdict")
        assert sidecar.verdicts()[1].stage == REFUSED
        sidecar.tell("calm")
        sidecar.untell("busy")
        sidecar.wait(lambda: sidecar.verdicts()[-1].stage == APPLIED, "another attempt")
        assert sidecar.verdicts()[-1].hash == hash_
        assert sidecar.calls() == ["trial", RECONFIGURE, RECONFIGURE, KICK]


class TestArrival:
    """How a candidate is noticed."""

    def test_it_is_seen_when_its_predecessor_goes_away(self, sidecar: Sidecar) -> None:
        sidecar.publish(files())
        sidecar.begin(RECONFIGURE_INTERVAL="1000")
        assert sidecar.judged(files("A=1\n")).stage == APPLIED
        assert sidecar.judged(files("A=2\n")).stage == APPLIED

    @pytest.mark.parametrize("ending", ["exit 1", "sleep 1000"], ids=["ends at once", "sees nothing"])
    def test_without_a_watch_the_interval_finds_it(self, sidecar: Sidecar, ending: str) -> None:
        sidecar.hook("tail", f'[[ "$*" != *-F* ]] || {ending}')
        sidecar.publish(files())
        sidecar.begin()
        assert sidecar.judged(files("A=1\n")).stage == APPLIED
        assert sidecar.judged(files("A=2\n")).stage == APPLIED

    def test_one_that_comes_during_a_trial_waits_for_nothing_else(self, sidecar: Sidecar) -> None:
        sidecar.publish(files())
        sidecar.begin(RECONFIGURE_INTERVAL="1000")
        sidecar.hook("tail", '[[ "$*" != *-F* ]] || sleep 1000')
        sidecar.publish(files("TrialWaits=1\n"))
        sidecar.wait_for_call("trial")
        hash_ = sidecar.publish(files("A=2\n"))
        sidecar.tell("go")
        sidecar.wait(lambda: sidecar.verdicts()[-1].hash == hash_, "the newer one")


class TestNotUp:
    """Candidates that come while slurmctld is away."""

    def test_it_is_put_in_place_and_read_when_slurmctld_is_back(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.untell("up")
        hash_ = sidecar.publish(files("A=1\n"))
        sidecar.wait_for_log("slurmctld is not up; it starts with the new configuration")
        assert len(sidecar.verdicts()) == 1
        assert sidecar.in_force() == BASE + "A=1\n"
        sidecar.tell("up")
        sidecar.wait(lambda: len(sidecar.verdicts()) > 1, "a verdict")
        verdict = sidecar.verdicts()[1]
        assert (verdict.stage, verdict.hash, verdict.reason) == (APPLIED, hash_, "started with it")
        # It may have read the old files just before they were swapped.
        assert sidecar.calls() == ["trial", RECONFIGURE, KICK]

    def test_one_that_slurmctld_then_refuses_is_refused(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.untell("up")
        sidecar.publish(files("LiveRefuses=1\n"))
        sidecar.wait_for_log("slurmctld is not up")
        sidecar.tell("up")
        sidecar.wait(lambda: len(sidecar.verdicts()) > 1, "a verdict")
        verdict = sidecar.verdicts()[1]
        assert (verdict.stage, verdict.reason) == (REFUSED, "slurm_reconfigure error: Invalid node name")

    def test_a_kick_that_slurm_does_not_take_is_no_refusal(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.untell("up")
        sidecar.tell("no-update")
        sidecar.publish(files("A=1\n"))
        sidecar.wait_for_log("slurmctld is not up")
        sidecar.tell("up")
        sidecar.wait(lambda: len(sidecar.verdicts()) > 1, "a verdict")
        assert sidecar.verdicts()[1].stage == APPLIED

    def test_it_is_not_read_while_a_key_changes(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.untell("up")
        sidecar.publish(files("A=1\n"))
        sidecar.wait_for_log("slurmctld is not up")
        key = sidecar.folder / "keys" / "slurm.key"
        key.write_text("another")
        sidecar.tell("up")
        # A look that finds slurmctld there and the key changed says nothing: the next candidate waits as well.
        sidecar.publish(files("A=2\n"))
        sidecar.wait_for_log("key is changing")
        assert RECONFIGURE not in sidecar.calls()
        assert len(sidecar.verdicts()) == 1
        key.write_text("secret")
        sidecar.wait(lambda: sidecar.verdicts()[-1].hash == content_hash(files("A=2\n")), "the newest one")
        assert sidecar.verdicts()[-1].stage == APPLIED


class TestHeld:
    """Candidates that passed their trial and do not come in at once."""

    def test_a_newer_one_makes_it_pointless(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.publish(files("TrialWaits=1\n"))
        sidecar.wait_for_call("trial")
        hash_ = sidecar.publish(files("A=2\n"))
        sidecar.tell("go")
        sidecar.wait(lambda: sidecar.verdicts()[-1].hash == hash_, "the newer one")
        assert len(sidecar.verdicts()) == 2
        assert sidecar.calls().count(RECONFIGURE) == 1

    def test_newer_ones_without_an_end_do_not_keep_all_out(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.publish(files("TrialWaits=1\n"))
        for number in range(2, 8):
            sidecar.wait_for_call("trial", number - 1)
            sidecar.publish(files(f"TrialWaits={number}\n"))
            sidecar.tell("go")
        sidecar.wait(lambda: len(sidecar.verdicts()) > 1, "a verdict")
        verdict = sidecar.verdicts()[1]
        assert (verdict.stage, verdict.hash) == (APPLIED, content_hash(files("TrialWaits=6\n")))

    def test_nothing_is_reconfigured_while_a_key_changes(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        key = sidecar.folder / "keys" / "slurm.key"
        key.write_text("another")
        hash_ = sidecar.publish(files("A=1\n"))
        sidecar.wait_for_log("The auth/slurm key is changing")
        assert sidecar.calls() == ["trial"]
        assert sidecar.in_force() == BASE
        key.write_text("secret")
        sidecar.wait(lambda: sidecar.verdicts()[-1].hash == hash_, "the one that was held")
        assert sidecar.verdicts()[-1].stage == APPLIED

    def test_jobs_that_could_start_are_let_start_before_the_next_reconfigure(self, sidecar: Sidecar) -> None:
        sidecar.begin(RECONFIGURE_SPACING="1000")
        sidecar.judged(files("A=1\n"))
        sidecar.tell("pending", "Dependency\nResources\n")
        hash_ = sidecar.publish(files("A=2\n"))
        sidecar.wait_for_call("squeue")
        assert sidecar.calls().count(RECONFIGURE) == 1
        sidecar.tell("pending", "Dependency\nPartitionTimeLimit\n")
        sidecar.wait(lambda: sidecar.verdicts()[-1].hash == hash_, "the second one")
        assert sidecar.verdicts()[-1].stage == APPLIED

    def test_a_folder_that_goes_away_under_the_copy_has_a_successor(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        folder = sidecar.folder / "candidate"
        (folder / "next").symlink_to(sidecar.write(files("A=2\n")))
        moves = f'mv -T "{folder}/next" "{folder}/..data"; rm -rf "$3"; rm "$WORLD/on.cp"'
        sidecar.hook("cp", f'[[ "$*" != *..new ]] || {{ {moves}; }}')
        sidecar.publish(files("A=1\n"))
        sidecar.wait(lambda: len(sidecar.verdicts()) > 1, "a verdict")
        assert [each.hash for each in sidecar.verdicts()[1:]] == [content_hash(files("A=2\n"))]


FULL = {
    "for the candidate": ("cp", '[[ "${!#}" != */..new ]]', "the candidate cannot be copied: "),
    "for its trial": ("cp", '[[ "${!#}" != */..trial/etc ]]', "the candidate cannot be copied: "),
    "for what a trial is told": ("sed", '[[ "$*" != *..trial* ]]', "the candidate cannot be copied: "),
    "for the link that decides": ("ln", '[[ "${!#}" != */..data_tmp ]]', "the candidate cannot be put in place: "),
    "for a new name": ("ln", '[[ "${!#}" != */gres.conf ]]', "the candidate cannot be put in place: "),
}


class TestNoRoom:
    """/etc/slurm is memory, and may be full."""

    @pytest.mark.parametrize(("command", "spares", "reason"), FULL.values(), ids=FULL.keys())
    def test_it_is_refused_and_what_is_in_force_stays(
        self, sidecar: Sidecar, command: str, spares: str, reason: str
    ) -> None:
        sidecar.begin(files("A=0\n", **{"old.conf": ""}))
        sidecar.hook(command, f"{spares} || {{ {NO_ROOM.format(command)}; }}")
        verdict = sidecar.judged(files("A=1\n", **{"acct_gather.conf": "", "gres.conf": "Name=gpu\n"}))
        assert (verdict.stage, verdict.reason) == (
            REFUSED,
            f"{reason}{command}: error writing: No space left on device",
        )
        assert sidecar.in_force() == BASE + "A=0\n"
        assert (sidecar.etc / "old.conf").exists()
        assert not [path for path in sidecar.etc.glob("*") if path.name in ("acct_gather.conf", "gres.conf")]
        assert RECONFIGURE not in sidecar.calls()
        sidecar.untell(f"on.{command}")
        assert sidecar.judged(files("A=2\n")).stage == APPLIED
        assert sidecar.in_force() == BASE + "A=2\n"

    def test_no_trial_runs_with_what_was_not_meant_for_one(self, sidecar: Sidecar) -> None:
        """It would know the accounting, and its own programs."""
        sidecar.begin()
        sidecar.hook("sed", f'[[ "$*" != *..trial* ]] || {{ {NO_ROOM.format("sed")}; }}')
        assert sidecar.judged(files("AccountingStorageType=accounting_storage/slurmdbd\n")).stage == REFUSED
        assert "trial" not in sidecar.calls()

    def test_the_way_back_waits_for_room_and_leaves_no_link_to_nothing(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.hook("ln", f'[[ "$*" != *..v1* ]] || {{ {NO_ROOM.format("ln")}; }}')
        hash_ = sidecar.publish(files("LiveRefuses=1\n"))
        sidecar.wait_for_log("No space left")
        assert sidecar.in_force() == BASE + "LiveRefuses=1\n"
        assert len(sidecar.verdicts()) == 1
        sidecar.untell("on.ln")
        sidecar.wait(lambda: sidecar.verdicts()[-1].hash == hash_, "a verdict")
        assert sidecar.verdicts()[-1].stage == ROLLED_BACK
        assert sidecar.in_force() == BASE

    @pytest.mark.parametrize("command", ["cp", "ln"])
    def test_a_start_waits_for_room(self, sidecar: Sidecar, command: str) -> None:
        (sidecar.etc / "slurm.key").symlink_to(sidecar.folder / "keys" / "slurm.key")
        sidecar.hook(command, NO_ROOM.format(command))
        sidecar.start(files())
        sidecar.wait_for_log("No space left")
        assert not (sidecar.etc / "..data").exists()
        sidecar.untell(f"on.{command}")
        sidecar.wait(sidecar.verdicts, "a verdict")
        assert sidecar.in_force() == BASE


class TestTrial:
    """What a trial slurmctld gets."""

    def test_it_has_nothing_of_the_running_one(self, sidecar: Sidecar) -> None:
        lines = [
            "SlurmctldHost=ctl(10.0.0.1)",
            "SlurmctldHost=backup",
            "SlurmctldPort=6817",
            " statesavelocation = /var/spool",
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AuthInfo=use_client_ids",
            f"include {sidecar.etc}/nodes.conf",
            "HealthCheckProgram=/bin/false",
        ]
        sidecar.begin()
        sidecar.judged(files("\n".join(lines) + "\n", **{"nodes.conf": "NodeName=n1\n"}))
        tried = (sidecar.folder / "world" / "tried" / "slurm.conf").read_text().splitlines()
        first = len(BASE.splitlines())
        assert tried[first : first + len(lines)] == [
            "SlurmctldHost=ctl(10.0.0.1)",
            "#SlurmctldHost=backup",
            "#SlurmctldPort=6817",
            "# statesavelocation = /var/spool",
            "#AccountingStorageType=accounting_storage/slurmdbd",
            "#AuthInfo=use_client_ids",
            f"include {sidecar.etc}/..trial/etc/nodes.conf",
            "#HealthCheckProgram=/bin/false",
        ]
        mine = dict(line.split("=", 1) for line in tried[first + len(lines) :] if line)
        assert 20000 <= int(mine.pop("SlurmctldPort")) < 30000
        assert mine == {
            "SlurmctldPidFile": f"{sidecar.etc}/..trial/pid",
            "SlurmctldDebug": "info",
            "StateSaveLocation": f"{sidecar.etc}/..trial/state",
            "AuthInfo": "use_client_ids,disable_sack",
        }
        assert (sidecar.folder / "world" / "tried" / "slurm.key").read_text() == "secret"

    def test_it_is_gone_when_the_verdict_comes(self, sidecar: Sidecar) -> None:
        sidecar.begin()
        sidecar.judged(files("A=1\n"))
        mine = f"{sidecar.etc}/..trial"
        assert not [path for path in Path("/proc").glob("[0-9]*/cwd") if points_to(path, mine)]
        assert sidecar.stop() == 0


def points_to(link: Path, target: str) -> bool:
    """Whether a link that may go away, or may not be read, leads there."""
    try:
        return str(link.readlink()) == target
    except OSError:
        return False
