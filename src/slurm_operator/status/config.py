"""The status of a configuration: ConfigValid, ConfigPublished, ConfigApplied, and `status.config`.

In: a `ConfigDecision` after its reconcile. Out: drafts of conditions, and fields. The message of a refusal names the
place and the reason. Called by `status/cluster.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from kube_runtime.text import first_few
from kube_runtime.times import parse_seconds, seconds_text
from slurm_operator.api.controller import ConfigStatus
from slurm_operator.build.hashes import short_hash
from slurm_operator.plan.config import ConfigDecision, Stage, Verdict
from slurm_operator.plan.daemons import Census
from slurm_operator.slurm.conf_lint import Finding
from slurm_operator.slurm.model import MAX_EPOCH_SECONDS
from slurm_operator.status.conditions import (
    CONFIG_APPLIED,
    CONFIG_PUBLISHED,
    CONFIG_VALID,
    ConditionDraft,
    no,
    unknown,
    yes,
)

MAX_FINDINGS = 5
MAX_NAMED_DAEMONS = 5
MAX_NAMED_NODESETS = 5
SLURMD = "slurmd"
DAEMONS = ("slurmctld", SLURMD, "slurmrestd", "login")
# Seconds within which every slurmd that got a new configuration has restarted and registered.
CATCH_UP_SECONDS = 10.0
_HELD = "waits until the new auth/slurm key is rolled out: a reconfigure would load it too early"


def drafts(decision: ConfigDecision, before: ConfigStatus | None, *, checked: bool = True) -> list[ConditionDraft]:
    """The three conditions."""
    known = before is not None and before.hash == decision.hash
    return [_valid(decision, checked, known), _published(decision), _applied(decision, before)]


def _valid(decision: ConfigDecision, checked: bool, known: bool) -> ConditionDraft:
    if decision.stage is Stage.INVALID:
        return no(CONFIG_VALID, "LinterRefused", "; ".join(shown(each) for each in decision.findings[:MAX_FINDINGS]))
    if decision.stage is Stage.REFUSED_BY_SLURMD and decision.verdict is not None:
        return no(CONFIG_VALID, "SlurmdRefused", _reason(decision, decision.verdict))
    if decision.stage is Stage.REFUSED and decision.verdict is not None:
        return no(CONFIG_VALID, "SlurmRefused", _reason(decision, decision.verdict))
    if decision.stage is Stage.ROLLED_BACK and decision.verdict is not None:
        return no(CONFIG_VALID, "RolledBack", _reason(decision, decision.verdict))
    if decision.stage is Stage.UNREADABLE and decision.verdict is not None:
        return unknown(CONFIG_VALID, "VerdictNotUnderstood", _not_understood(decision, decision.verdict))
    # One that was in force and is wanted again was tried then.
    if checked and (decision.stage is Stage.APPLIED or (decision.stage is Stage.FIRST and known)):
        if decision.untried:
            message = f"slurmctld accepts configuration {short_hash(decision.hash)}; slurmd has not tried it: "
            return yes(CONFIG_VALID, "WorkersNotTried", message + decision.untried)
        return yes(CONFIG_VALID, "Tried", f"Slurm accepts configuration {short_hash(decision.hash)}")
    if decision.stage is Stage.APPLIED:
        return yes(
            CONFIG_VALID,
            "NotTried",
            f"slurmctld runs with configuration {short_hash(decision.hash)}; the trial is off",
        )
    if decision.stage in (Stage.DIRECT, Stage.FIRST):
        return yes(
            CONFIG_VALID,
            "Linted",
            f"the linter accepts configuration {short_hash(decision.hash)}; Slurm was not asked",
        )
    if decision.stage is Stage.HELD:
        return unknown(CONFIG_VALID, "KeyRotation", f"configuration {short_hash(decision.hash)} {_HELD}")
    if decision.stage is Stage.WAITING:
        message = f"no slurmctld runs that could try configuration {short_hash(decision.hash)}"
        return unknown(CONFIG_VALID, "WaitingForSlurmctld", message)
    return unknown(
        CONFIG_VALID, "Trying", f"configuration {short_hash(decision.hash)} is being tried by {_trier(decision)}"
    )


def _trier(decision: ConfigDecision) -> str:
    """Who is trying it."""
    return _slurmd(decision) if decision.stage is Stage.TRYING_ON_SLURMD else "slurmctld"


def _slurmd(decision: ConfigDecision) -> str:
    named = decision.worker_trial.nodesets
    return f"slurmd of {'NodeSet' if len(named) == 1 else 'NodeSets'} {first_few(named, MAX_NAMED_NODESETS)}"


def shown(finding: Finding) -> str:
    """A finding of the linter as one line."""
    return f"{finding.place or f'{finding.file}:{finding.line}'}: {finding.without_place}"


def _reason(decision: ConfigDecision, verdict: Verdict) -> str:
    place = f"{decision.place}: " if decision.place else ""
    who = f"{_slurmd(decision)}; " if decision.stage is Stage.REFUSED_BY_SLURMD else ""
    return f"{place}{verdict.reason} ({who}configuration {short_hash(decision.hash)}; {_stays(decision)})"


def _not_understood(decision: ConfigDecision, verdict: Verdict) -> str:
    return f"what became of configuration {short_hash(decision.hash)} is not known: {verdict.reason}"


def _stays(decision: ConfigDecision) -> str:
    return (
        f"{short_hash(decision.good_hash)} stays in force"
        if decision.good_hash != decision.hash
        else "there is no earlier configuration"
    )


def _published(decision: ConfigDecision) -> ConditionDraft:
    if decision.good_hash == decision.hash:
        return yes(CONFIG_PUBLISHED, "Published", f"the ConfigMap holds configuration {short_hash(decision.hash)}")
    if decision.stage in (Stage.INVALID, Stage.REFUSED_BY_SLURMD, Stage.REFUSED, Stage.ROLLED_BACK):
        return no(
            CONFIG_PUBLISHED,
            "HeldBack",
            f"the ConfigMap holds the last good one, {short_hash(decision.good_hash)}",
        )
    if decision.stage is Stage.HELD:
        return no(
            CONFIG_PUBLISHED,
            "KeyRotation",
            f"the ConfigMap holds {short_hash(decision.good_hash)}; {short_hash(decision.hash)} {_HELD}",
        )
    return no(
        CONFIG_PUBLISHED,
        "Trying",
        f"the ConfigMap holds {short_hash(decision.good_hash)} until {short_hash(decision.hash)} works",
    )


def _applied(decision: ConfigDecision, before: ConfigStatus | None) -> ConditionDraft:
    short = short_hash(decision.hash)
    match decision.stage:
        case Stage.APPLIED:
            took = decision.verdict.milliseconds if decision.verdict else before.milliseconds if before else None
            within = f" (in {took} ms)" if took is not None else ""
            return yes(CONFIG_APPLIED, "InForce", f"slurmctld runs with configuration {short}{within}")
        case Stage.ROLLED_BACK:
            return no(CONFIG_APPLIED, "RolledBack", f"slurmctld failed with {short}; {_stays(decision)}")
        case Stage.INVALID | Stage.REFUSED_BY_SLURMD | Stage.REFUSED:
            return no(CONFIG_APPLIED, "NotValid", f"configuration {short} is not valid; {_stays(decision)}")
        case Stage.DIRECT:
            return unknown(
                CONFIG_APPLIED, "NotReported", f"{short} is published; the sidecar of these pods reports nothing"
            )
        case Stage.FIRST | Stage.WAITING:
            return no(CONFIG_APPLIED, "WaitingForSlurmctld", f"no slurmctld has reported configuration {short} yet")
        case Stage.HELD:
            return no(CONFIG_APPLIED, "KeyRotation", f"configuration {short} {_HELD}")
        case Stage.UNREADABLE:
            message = _not_understood(decision, decision.verdict) if decision.verdict else "a verdict is not understood"
            return unknown(CONFIG_APPLIED, "VerdictNotUnderstood", message)
        case Stage.TRYING_ON_SLURMD:
            return no(CONFIG_APPLIED, "Trying", f"{_slurmd(decision)} is trying configuration {short}")
        case Stage.TRYING:
            return no(CONFIG_APPLIED, "Trying", f"the controller pods have been given configuration {short}")


def fields(
    decision: ConfigDecision, before: ConfigStatus | None, now: str, daemons: Sequence[Census] = ()
) -> dict[str, Any]:
    """`status.config`: a time moves only with what it tells of."""
    known = before or ConfigStatus()
    result: dict[str, Any] = {"hash": known.hash, "lastApplied": known.last_applied, "milliseconds": known.milliseconds}
    result["lastRead"] = _last_read(decision, known)
    if known.stages is not None:
        result["stages"] = {"parse": known.stages.parse, "trial": known.stages.trial}
        result["stages"]["reconfigure"] = known.stages.reconfigure
    if decision.stage is Stage.APPLIED and known.hash != decision.hash:
        result |= {"hash": decision.hash, "lastApplied": now, "milliseconds": None}
        result.pop("stages", None)
        if decision.verdict is not None:
            result["milliseconds"] = decision.verdict.milliseconds
            result["stages"] = {
                "parse": decision.verdict.parse,
                "trial": decision.verdict.trial,
                "reconfigure": decision.verdict.reconfigure,
            }
    if decision.stage is not Stage.APPLIED:
        result["candidate"] = decision.hash
    if decision.behind:
        result["lagging"] = [
            {"daemon": "slurmctld", "name": name, "why": f"runs with {short_hash(hash_)}"}
            for name, hash_ in decision.behind
        ]
    result["daemons"] = _counted(daemons, known, is_early=is_catching_up(decision, before, now)) or None
    return {key: value for key, value in result.items() if value is not None}


def _last_read(decision: ConfigDecision, known: ConfigStatus) -> str | None:
    if (
        decision.verdict is None
        or decision.stage is not Stage.APPLIED
        or not 0 < decision.verdict.at <= MAX_EPOCH_SECONDS
    ):
        return known.last_read
    return seconds_text(decision.verdict.at)


def is_catching_up(decision: ConfigDecision, before: ConfigStatus | None, now: str) -> bool:
    """Whether slurmds may still be restarting after a reconfigure: only later they are counted anew."""
    at, then = parse_seconds(_last_read(decision, before or ConfigStatus())), parse_seconds(now)
    # Both ways: slurmctld's clock may be ahead, and one that is far ahead is not waited for.
    return at is not None and then is not None and abs(then - at) < CATCH_UP_SECONDS


def _counted(found: Sequence[Census], known: ConfigStatus, *, is_early: bool) -> list[dict[str, Any]]:
    """What is known of each kind.

    The slurmds are as they were counted before right after a reconfigure, and while Slurm has not been asked: an
    operator that has just started knows no less than the one before it.
    """
    before = [to_builtins(each) for each in known.daemons if each.daemon == SLURMD]
    rows = {each.daemon: _census(each) for each in found}
    if before and (is_early or SLURMD not in rows):
        rows[SLURMD] = before[0]
    # slurmctld first, then the slurmds, whichever was counted now.
    order = sorted(rows, key=lambda name: DAEMONS.index(name) if name in DAEMONS else len(DAEMONS))
    return [rows[name] for name in order]


def _census(found: Census) -> dict[str, Any]:
    result: dict[str, Any] = {"daemon": found.daemon, "total": found.total, "current": found.current}
    result |= {"behind": len(found.behind), "unknown": len(found.unknown), "why": found.why}
    result["names"] = [*found.behind, *found.unknown][:MAX_NAMED_DAEMONS]
    return {key: value for key, value in result.items() if value or key in ("total", "current")}
