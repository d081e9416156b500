"""What a cluster of a thousand or ten thousand workers costs, on a real kube-apiserver with a Slurm that answers.

    python bench/scale.py [-o json] [--pods 1000] [--scenarios out,idle,…] [--idle SECONDS] [--rounds N] [--short]
                          [--clusters N --nodesets M] [--plots FOLDER] [--peer-agent PREFIX --peer PROGRAM ARGS…]

In: the programs that `make kube-tools` built; without them it says so and exits 0. Out: a table of figures beside their
bars, or one line of JSON; progress on stderr. Kubelets pretend, and slurmrestd is a stand-in whose node records follow
the pods. The floor is a bare client that creates and deletes the same pods in the same run, before and after the
operator. Every round has a cluster of its own. Exits 1 above a bar, or when a step did not get there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.real_slurm.slurm import require_real_slurm  # noqa: E402
from bench.scaling import figures, large, many, report  # noqa: E402
from bench.scaling.processes import Program  # noqa: E402
from bench.scaling.steps import STEPS  # noqa: E402
from tests.real.kube.tools import missing_tools  # noqa: E402
from tests.real.slurm.rootfs import CannotProvision  # noqa: E402

SHORT_PODS, SHORT_IDLE_SECONDS = 40, 5.0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--pods", type=int, default=1000, help="workers of the large cluster")
    parser.add_argument("--scenarios", default=",".join(STEPS), help=f"which of {','.join(STEPS)}, in that order")
    parser.add_argument("--idle", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--short", action="store_true", help=f"{SHORT_PODS} pods, no second floor, no bars: a minute")
    parser.add_argument(
        "--floors",
        type=int,
        choices=[0, 1, 2],
        default=2,
        help="the bare client: before and after, before, or not at all",
    )
    parser.add_argument("--slurm", choices=["stand-in", "real"], default="stand-in", help="real needs root")
    parser.add_argument("--scheduler", choices=["auto", "kube", "bound"], default="auto", help="who binds the workers")
    parser.add_argument("--clusters", type=int, default=0, help="so many small clusters instead of a large one")
    parser.add_argument("--nodesets", type=int, default=5, help="NodeSets of one worker in each of them")
    parser.add_argument("--heartbeat", type=float, default=100.0, help="seconds after which all node records change")
    parser.add_argument(
        "--record-ms", type=float, default=0.0, help="milliseconds that a list takes for each node record"
    )
    parser.add_argument("--jobs", type=int, default=0, help="pending jobs in Slurm")
    parser.add_argument("--slim", action="store_true", help="node records without the blanks of slurmrestd")
    parser.add_argument("--plots", default="", metavar="FOLDER", help="write SVG figures there")
    parser.add_argument("--profile", default="", help="write a cProfile of the operator to this file")
    parser.add_argument("--keep", default="", metavar="FOLDER", help="keep logs and the audit log there")
    parser.add_argument(
        "--peer-agent", default="", help="how the user agent of the peer begins; its file name by default"
    )
    parser.add_argument("--peer", nargs=argparse.REMAINDER, help="measure this program; {kubeconfig} is filled in")
    options = parser.parse_args()
    if options.short:
        options.floors = min(1, options.floors)
        options.pods, options.idle = min(options.pods, SHORT_PODS), min(options.idle, SHORT_IDLE_SECONDS)
    if options.keep and Path(options.keep).is_dir() and any(Path(options.keep).iterdir()):
        parser.error(f"{options.keep} is not empty: an earlier cluster would go on in it")
    unknown = [name for name in options.scenarios.split(",") if name not in STEPS]
    if options.slurm == "real" and (options.clusters or options.jobs or options.record_ms):
        parser.error("--clusters, --jobs and --record-ms are for the stand-in")
    if unknown:
        parser.error(f"no scenario is called {', '.join(unknown)}; there are {', '.join(STEPS)}")
    return options


def program(options: argparse.Namespace) -> Program:
    """What is measured."""
    if options.peer:
        agent = options.peer_agent or Path(options.peer[0]).name
        return Program(tuple(options.peer), agent, is_peer=True)
    return Program((), "slurm-operator", profile=options.profile)


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[figures.Bar]]:
    """All rounds, each in a folder of its own."""
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="scale-") as name:
            folder = Path(options.keep or name)
            folder.mkdir(parents=True, exist_ok=True)
            way = many if options.clusters else large
            rounds.append(asyncio.run(way.measure(folder, program(options), options)))
    if options.clusters:
        held = figures.many_bars(options.clusters, options.nodesets, options.idle)
    else:
        held = figures.bars(options.pods, options.idle)
    return figures.of_rounds(rounds, held), held


def lacking_real_slurm() -> str:
    """What keeps this machine from a real Slurm."""
    try:
        require_real_slurm()
    except CannotProvision as missing:
        return str(missing)
    return ""


def main() -> int:
    """Measure and print."""
    options = parse()
    # A run that is ended takes its cluster along, also in the background, where SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    if missing := missing_tools():
        print(f"skipped: {', '.join(missing)} are not built (make kube-tools)", file=sys.stderr)
        return 0
    if options.slurm == "real" and (why := lacking_real_slurm()):
        print(f"SKIPPED, nothing was measured: no real Slurm: {why}", file=sys.stderr)
        return 0
    result, held = measure(options)
    missed = [*figures.missed(result, held), *result.get("failed", [])]
    if options.output == "json":
        print(json.dumps(result))
    else:
        print(report.table(result, held))
    for line in missed:
        print(line, file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
