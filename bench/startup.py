"""How much CPU the command line takes before it does anything, beside bare Python; the bar is 0.3 s.

    python bench/startup.py [-o json] [--repeat N]

In: nothing. Out: CPU seconds of the best of some runs, each in a process of its own. Exits 1 above the bar.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys

BAR_SECONDS = 0.3
IMPORT = "import slurm_operator.cli.main"
HELP = "from slurm_operator.cli.main import main; main(['--help'])"


def cpu_seconds(code: str) -> float:
    """User and system time of one Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # No network, no settings of the person who runs this.
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=_environment())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}


def measure(repeat: int) -> dict[str, float | int]:
    """CPU seconds of each program, best of some runs."""
    bare, imported, helped = (min(cpu_seconds(code) for _ in range(repeat)) for code in ("pass", IMPORT, HELP))
    return {
        "runs": repeat,
        "python_cpu_seconds": round(bare, 4),
        "import_cpu_seconds": round(imported - bare, 4),
        "help_cpu_seconds": round(helped - bare, 4),
        "bar_cpu_seconds": BAR_SECONDS,
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    result = measure(options.repeat)
    if options.output == "json":
        print(json.dumps(result))
    else:
        print(
            f"import {result['import_cpu_seconds']} s CPU, --help {result['help_cpu_seconds']} s CPU,"
            f" beside bare Python's {result['python_cpu_seconds']} s (bar {BAR_SECONDS} s)"
        )
    return int(max(result["import_cpu_seconds"], result["help_cpu_seconds"]) > BAR_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
