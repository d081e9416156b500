"""Campaigns by hand: `python -m tests.campaigns` runs them all, `--point R2/S-in/017` replays one.

Prints points, violations and seconds for each scenario; with `--output` one JSON line per point.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from tests.campaigns import hostile_answers, hostile_manifests
from tests.campaigns.campaign import CAMPAIGNS, lines, replay, run, sampled
from tests.campaigns.scenarios import SCENARIOS

# Campaigns whose points have no scenario: each names its parts, runs one, and replays a point.
PARTED = {"R7": hostile_answers, "R8": hostile_manifests}


def main() -> int:
    """The exit code is 1 when something was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument("--point", help="replay this point, for example R2/S-in/017")
    parser.add_argument("--campaign", choices=(*CAMPAIGNS, *PARTED), action="append")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), action="append")
    parser.add_argument("--every", type=int, default=1, help="try one point of so many")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="points that run side by side")
    parser.add_argument("--output", type=Path, help="append one JSON line per point to this file")
    parser.add_argument("--verbose", action="store_true", help="show the operator's log")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    # The judge hears the log in any case.
    logging.getLogger("slurm_operator").propagate = given.verbose
    if given.point:
        parted = PARTED.get(given.point.partition("/")[0])
        outcome = parted.replay(given.point) if parted else replay(given.point)
        print(f"{outcome.point}: {outcome.what or 'undisturbed'}")
        print("\n".join(outcome.violations) or "no violation")
        return bool(outcome.violations)
    return _all(given)


def _all(given: argparse.Namespace) -> int:
    failed = 0
    for campaign in given.campaign or (*CAMPAIGNS, *PARTED):
        parted = PARTED.get(campaign)
        for scenario in parted.PARTS if parted else given.scenario or SCENARIOS:
            if parted:
                result = parted.run(scenario, given.every, given.at_once)
            else:
                result = run(campaign, scenario, sampled(given.every), given.at_once)
            print(f"{campaign}/{scenario}: {result}", flush=True)
            for violation in result.violations[:20]:
                print(f"  {violation}")
            failed += bool(result.violations)
            if given.output:
                with given.output.open("a") as file:
                    file.writelines(f"{line}\n" for line in lines(campaign, result))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
