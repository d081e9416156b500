"""Campaigns by hand: `python -m tests.campaigns` runs them all, `--point R2/S-in/017` replays one.

Prints points, violations and seconds for each scenario; with `--output` one JSON line per point.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from pathlib import Path

from tests.campaigns import leaders
from tests.campaigns.campaign import CAMPAIGNS, Result, lines, replay, run, sampled
from tests.campaigns.scenarios import SCENARIOS

# Campaigns with a program of their own: they run when they are asked for by name.
PROGRAMS = {"R10": "tests.campaigns.neighbours"}


def main() -> int:
    """The exit code is 1 when something was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument("--point", help="replay this point, for example R2/S-in/017")
    parser.add_argument("--campaign", choices=[*CAMPAIGNS, leaders.CAMPAIGN, *PROGRAMS], action="append")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), action="append")
    parser.add_argument("--every", type=int, default=1, help="try one point of so many")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="points that run side by side")
    parser.add_argument("--output", type=Path, help="append one JSON line per point to this file")
    parser.add_argument("--verbose", action="store_true", help="show the operator's log")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO if given.verbose else logging.CRITICAL)
    if given.point:
        outcome = (leaders.replay if given.point.startswith(f"{leaders.CAMPAIGN}/") else replay)(given.point)
        print(f"{outcome.point}: {outcome.what or 'undisturbed'}")
        print("\n".join(outcome.violations) or "no violation")
        return bool(outcome.violations)
    return _all(given)


def _all(given: argparse.Namespace) -> int:
    failed = 0
    for campaign in given.campaign or (*CAMPAIGNS, leaders.CAMPAIGN):
        if campaign == leaders.CAMPAIGN:
            failed += _leaders(given)
            continue
        if campaign in PROGRAMS:
            failed += importlib.import_module(PROGRAMS[campaign]).main([])
            continue
        for scenario in given.scenario or SCENARIOS:
            failed += _report(campaign, scenario, run(campaign, scenario, sampled(given.every), given.at_once), given)
    return bool(failed)


def _leaders(given: argparse.Namespace) -> int:
    failed = 0
    for case in leaders.CASES:
        if not given.scenario or case.partition(".")[2] in given.scenario:
            result = leaders.run(case, sampled(given.every), given.at_once)
            failed += _report(leaders.CAMPAIGN, case, result, given)
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
