"""How much CPU the linter takes for a slurm.conf of 10,000 lines; the bar is half a second.

    python bench/conf_lint.py [-o json] [--repeat N]

In: nothing. Out: CPU seconds of the best and the median run, on standard output.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from slurm_operator.slurm.conf_lint import lint

NODES = 5_000
PARTITIONS = 1_000
LINES = 10_000
BAR_SECONDS = 0.5


def slurm_conf() -> str:
    """5,000 NodeName lines, 1,000 partitions, comments and blank lines up to 10,000."""
    lines = ["ClusterName=bench", "SlurmctldHost=ctl(10.0.0.1)", "MaxNodeCount=10000", "GresTypes=gpu"]
    lines.append("NodeSet=all Feature=compute")
    for number in range(NODES):
        lines.append(
            f"NodeName=n{number:04d} NodeAddr=10.1.{number // 250}.{number % 250} CPUs=64 Sockets=2 CoresPerSocket=16"
            f" ThreadsPerCore=2 RealMemory=256000 Feature=compute,rack{number // 40} Gres=gpu:a100:4 State=CLOUD"
        )
        if number % 5 == 0:
            first = number // 5
            lines.append(
                f"PartitionName=p{first} Nodes=n[{number:04d}-{number + 4:04d}],all Default=NO MaxTime=1-00:00:00"
                f" State=UP OverSubscribe=NO PriorityTier={first}  # team {first}"
            )
    while len(lines) < LINES:
        lines.append("# a comment about the line below" if len(lines) % 2 else "")
    return "\n".join(lines) + "\n"


def measure(repeat: int) -> dict[str, float | int]:
    text = slurm_conf()
    seconds: list[float] = []
    for _ in range(repeat):
        start = time.process_time()
        findings = lint({"slurm.conf": text}, version="26.05")
        seconds.append(time.process_time() - start)
        assert not findings, findings[:3]
    return {
        "lines": text.count("\n"),
        "bytes": len(text),
        "runs": repeat,
        "best_cpu_seconds": round(min(seconds), 4),
        "median_cpu_seconds": round(statistics.median(seconds), 4),
        "bar_cpu_seconds": BAR_SECONDS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    result = measure(options.repeat)
    if options.output == "json":
        print(json.dumps(result))
    else:
        print(f"{result['lines']} lines: {result['median_cpu_seconds']} s CPU (best {result['best_cpu_seconds']} s)")


if __name__ == "__main__":
    main()
