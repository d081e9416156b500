"""How much CPU `kubectl slurm doctor` and `why` take on 4,000 workers with 8,000 jobs; the bar is two seconds.

    python bench/diagnosis.py [-o json]

In: nothing. Out: CPU seconds for each kind of large cluster, on standard output. Exits 1 above the bar.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.diagnose.test_sizes import CLUSTERS, SIZE  # noqa: E402

from slurm_operator.diagnose import cluster, job  # noqa: E402

BAR_SECONDS = 2.0


def cpu_seconds(name: str) -> float:
    """CPU seconds of one `doctor` and one `why`."""
    facts = CLUSTERS[name]()
    began = time.process_time()
    cluster.examine(facts)
    job.why(facts, str(2 * SIZE - 1))
    return time.process_time() - began


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    found = {name: round(cpu_seconds(name), 3) for name in CLUSTERS}
    if options.output == "json":
        print(json.dumps({"workers": SIZE, "cpu_seconds": found, "bar_cpu_seconds": BAR_SECONDS}))
    else:
        print(f"{SIZE} workers, {2 * SIZE} jobs; CPU seconds (bar {BAR_SECONDS:g}):")
        for name, seconds in found.items():
            print(f"  {name:12} {seconds:.3f}")
    return int(max(found.values()) > BAR_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
