"""What scontrol prints as JSON on a real Slurm full of forged jobs, recorded for tests without Slurm.

    python -m tests.real.slurm.scontrol 24.11 26.05

In: versions. Out: `tests/diagnose/recorded/<version>.json`: the three answers that `kubectl slurm` asks for, of a
cluster with jobs, of one without and of one whose slurmctld is down, and what squeue said in columns that no user can
write. Bytes that are no UTF-8 are kept as lone surrogates (surrogateescape). `answers` and `queue` also serve
`test_hostile.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.real.hostile_jobs import forged
from tests.real.slurm.cluster import Cluster
from tests.real.slurm.hostile import running, sanitised, submit

from slurm_operator.diagnose.scontrol import LISTS, arguments

RECORDED = Path(__file__).parents[2] / "diagnose" / "recorded"
COLUMNS = "%A|%T|%P|%u|%D|%N"


def answers(cluster: Cluster) -> dict[str, bytes]:
    """Each list as scontrol prints it."""
    return {name: _asked(cluster, name, check=True).stdout for name in LISTS}


def _asked(cluster: Cluster, name: str, *, check: bool) -> subprocess.CompletedProcess[bytes]:
    command = [*cluster.enter(), "scontrol", *arguments(name)]
    return subprocess.run(command, capture_output=True, timeout=60, check=check)


def queue(cluster: Cluster) -> list[list[str]]:
    """Every job by squeue's word, in columns that hold nothing of a user's."""
    lines = cluster.run("squeue", "-h", "-a", "-t", "all", "-o", COLUMNS).splitlines()
    return sorted(line.split("|") for line in lines)


def record(version: str) -> None:
    """One cluster before and after hostile users found it."""
    with running(version) as cluster:
        empty = answers(cluster)
        said = submit(cluster, tuple(forged()))
        cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=a b [x] State=IDLE NodeName=n9")
        kept: dict[str, Any] = {
            "queue": queue(cluster),
            "refused": said.refused,
            "full": {name: _text(body) for name, body in answers(cluster).items()},
            "empty": {name: _text(body) for name, body in empty.items()},
        }
        cluster.kill_controller()
        kept["down"] = {name: _ended(_asked(cluster, name, check=False)) for name in LISTS}
    (RECORDED / f"{version}.json").write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{version}: {len(kept['queue'])} jobs, refused {said.refused}", flush=True)


def _ended(ran: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    stdout = _text(ran.stdout) if ran.stdout.startswith(b"{") else ran.stdout.decode()
    return {"code": ran.returncode, "stdout": stdout, "stderr": ran.stderr.decode()}


def _text(body: bytes) -> str:
    return sanitised(body).decode("utf-8", "surrogateescape")


def main() -> None:
    """Record everything anew."""
    for version in sys.argv[1:]:
        record(version)


if __name__ == "__main__":
    main()
