"""Campaigns by hand: `python -m tests.campaigns` runs them all, `--point R2/S-in/017` replays one.

Prints points, violations and seconds for each scenario; with `--output` one JSON line per point.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.campaigns import hostile_answers, hostile_manifests, leaders
from tests.campaigns.campaign import CAMPAIGNS, Outcome, Result, lines, replay, run, sampled
from tests.campaigns.rig import LOGGERS
from tests.campaigns.scenarios import SCENARIOS

# Campaigns with a program of their own: they run when they are asked for by name.
PROGRAMS = {"R10": "tests.campaigns.neighbours"}


class Parted(Protocol):
    """A campaign whose points have no scenario: it names its parts, runs one, and replays a point."""

    @property
    def PARTS(self) -> Sequence[str]: ...  # noqa: N802 - a constant of a module

    def run(self, part: str, step: int = 1, at_once: int = 1) -> Result: ...

    def replay(self, name: str) -> Outcome: ...


PARTED: dict[str, Parted] = {"R7": hostile_answers, "R8": hostile_manifests}
ALL = (*CAMPAIGNS, *PARTED, *leaders.CAMPAIGNS)


def main() -> int:
    """The exit code is 1 when something was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument("--point", help="replay this point, for example R2/S-in/017")
    parser.add_argument("--campaign", choices=[*ALL, *PROGRAMS], action="append")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), action="append")
    parser.add_argument("--every", type=int, default=1, help="try one point of so many")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="points that run side by side")
    parser.add_argument("--output", type=Path, help="append one JSON line per point to this file")
    parser.add_argument("--verbose", action="store_true", help="show the operator's log")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    # The judge hears the log in any case.
    for logger in LOGGERS:
        logger.propagate = given.verbose
    if given.point:
        outcome = _replayed(given.point)
        print(f"{outcome.point}: {outcome.what or 'undisturbed'}")
        print("\n".join(outcome.violations) or "no violation")
        return bool(outcome.violations)
    return _all(given)


def _replayed(point: str) -> Outcome:
    campaign = point.partition("/")[0]
    if campaign in PARTED:
        return PARTED[campaign].replay(point)
    return (leaders.replay if campaign in leaders.CAMPAIGNS else replay)(point)


def _all(given: argparse.Namespace) -> int:
    failed = 0
    for campaign in given.campaign or ALL:
        if campaign in leaders.CAMPAIGNS:
            failed += _leaders(campaign, given)
            continue
        if campaign in PROGRAMS:
            failed += importlib.import_module(PROGRAMS[campaign]).main([])
            continue
        if campaign in PARTED:
            for part in PARTED[campaign].PARTS:
                failed += _report(campaign, part, PARTED[campaign].run(part, given.every, given.at_once), given)
            continue
        for scenario in given.scenario or SCENARIOS:
            failed += _report(campaign, scenario, run(campaign, scenario, sampled(given.every), given.at_once), given)
    return bool(failed)


def _leaders(campaign: str, given: argparse.Namespace) -> int:
    failed = 0
    for case in leaders.cases(campaign):
        if not given.scenario or case.partition(".")[2] in given.scenario:
            result = leaders.run(case, sampled(given.every), given.at_once)
            failed += _report(campaign, case, result, given)
    return failed


def _report(campaign: str, scenario: str, result: Result, given: argparse.Namespace) -> bool:
    print(f"{campaign}/{scenario}: {result}", flush=True)
    for violation in result.violations[:20]:
        print(f"  {violation}")
    if given.output:
        with given.output.open("a") as file:
            file.writelines(f"{line}\n" for line in lines(campaign, result))
    return bool(result.violations)


if __name__ == "__main__":
    sys.exit(main())
