"""Many partition changes through a whole operator, under running and waiting jobs: what gets lost, waits and grows.

In: a local cluster with real Slurm, and how much of everything. Every change is a write of a Partition through the API
server; the operator, its sidecar and slurmrestd do the rest. Out: `Outcome`, numbers to judge.
Run by hand, like a soak: `python -m tests.real.local.partition_storm`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.real.local.e2e.cluster import REST, LocalCluster

from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.errors import Conflict, NotFound
from kube_runtime.client.write import Writer
from slurm_operator.reconcile.resources import ALL, OURS

NAMESPACE = "slurm"
LONG, SHORT = "sleep 3600", "sleep 1"
PASSING = 5
FIELDS = re.compile(r"\b(JobId|JobState|StartTime|EndTime)=(\S+)")
OPTIONS = "--parsable -o /dev/null"
# The largest process of that name: slurmctld has a small child for scripts.
MEMORY = "cat $(pidof slurmctld | sed 's#[0-9]*#/proc/&/status#g') | sed -n 's/^VmRSS: *//p' | sort -n | tail -1"
MANIFEST = """
apiVersion: v1
kind: Namespace
metadata: {name: slurm}
---
apiVersion: v1
kind: Secret
metadata: {name: slurm-auth-slurm, namespace: slurm}
stringData: {slurm.key: change-me-change-me-change-me-change-me-change-me-change-me-change-me}
---
apiVersion: v1
kind: Secret
metadata: {name: slurm-auth-jwt, namespace: slurm}
stringData: {jwt.key: change-me-change-me-change-me-change-me}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: slurm-files, namespace: slurm}
data:
  cgroup.conf: |
    CgroupPlugin=disabled
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm, namespace: slurm}
spec:
  slurmKeyRef: {name: slurm-auth-slurm, key: slurm.key}
  jwtKeyRef: {name: slurm-auth-jwt, key: jwt.key}
  configFileRefs: [{name: slurm-files}]
  extraConf: |
    ProctrackType=proctrack/linuxproc
    TaskPlugin=task/none
    SelectTypeParameters=CR_Core
    MinJobAge=7200
  slurmctld: {image: "ghcr.io/slinkyproject/slurmctld:VERSION"}
  persistence: {enabled: true, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: RestApi
metadata: {name: slurm, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  slurmrestd: {image: "ghcr.io/slinkyproject/slurmrestd:VERSION"}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: compute, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  replicas: 3
  oversubscribeNode: true
  slurmd: {image: "ghcr.io/slinkyproject/slurmd:VERSION"}
  partition: {enabled: true, config: "Default=YES OverSubscribe=FORCE:64"}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: track, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  replicas: 1
  oversubscribeNode: true
  slurmd: {image: "ghcr.io/slinkyproject/slurmd:VERSION"}
  partition: {enabled: true, config: "PriorityTier=5"}
"""


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    running: int = 200
    pending: int = 50
    changes: int = 1000
    # Seconds between two changes.
    pause: float = 0.2


@dataclass(frozen=True)
class Outcome:
    """What the storm left."""

    changes: int
    seconds: float
    # From the last write to Slurm's own answer.
    settled_after: float
    lost_jobs: tuple[int, ...]
    lost_nodes: tuple[str, ...]
    longest_wait: float
    memory_before_kb: int
    memory_after_kb: int
    restarts: int


@dataclass(frozen=True)
class Job:
    """What Slurm says of a job."""

    number: int
    state: str
    start: float
    end: float


async def storm(cluster: LocalCluster, size: Size) -> Outcome:
    """Fill the cluster, change partitions, and look what became of everything."""
    nodes = _nodes(cluster)
    long = _submit(cluster, size.running, f"-p compute --wrap '{LONG}'")
    cluster.until("the long jobs run", lambda: _are(cluster, long, "RUNNING"), 300)
    relay = _submit(cluster, size.pending, f"-p track --exclusive --wrap '{SHORT}'")
    async with Client.to(kubeconfig.find(path=str(cluster.home.kubeconfig), context="")) as client:
        writer = Writer(client, resources=ALL, field_manager="storm")
        await writer.create(_partition("storm", {}))
        # What a first storm allocates is not growth.
        warm = size.changes // 5
        await _change(writer, range(warm), size.pause)
        before, began = await _memory(cluster), time.monotonic()
        await _change(writer, range(warm, size.changes), size.pause)
        seconds, wrote = time.monotonic() - began, time.monotonic()
    wanted = f"GraceTime={(size.changes - 1) % 7}"
    shown = "scontrol -o show partition storm"
    await asyncio.to_thread(cluster.until, "the last change is in force", lambda: wanted in cluster.admin(shown), 60)
    settled = time.monotonic() - wrote
    after = await _memory(cluster)
    cluster.until("the relay is over", lambda: _are(cluster, relay, "COMPLETED"), 120 + 8.0 * size.pending)
    return _judged(cluster, (long, relay), nodes, size, (seconds, settled), (before, after))


def _judged(
    cluster: LocalCluster,
    jobs: tuple[list[int], list[int]],
    nodes: set[str],
    size: Size,
    took: tuple[float, float],
    memory: tuple[int, int],
) -> Outcome:
    found, (long, relay) = _jobs(cluster), jobs
    lost = [each for each in long if each not in found or found[each].state != "RUNNING"]
    lost += [each for each in relay if each not in found or found[each].state != "COMPLETED"]
    gone = tuple(sorted(nodes - _nodes(cluster)))
    waited = _longest_wait([found[each] for each in relay if each in found])
    statuses = cluster.get("pod", "slurm-controller-0")["status"]["containerStatuses"]
    restarts = sum(int(each["restartCount"]) for each in statuses)
    cluster.admin("scancel -u root; true")
    rounded = (round(took[0], 1), round(took[1], 2))
    return Outcome(size.changes, *rounded, tuple(lost), gone, waited, *memory, restarts)


async def _change(writer: Writer, turns: range, pause: float) -> None:
    """Limits, states, and partitions that come and go."""
    for turn in turns:
        state = ("UP", "DRAIN", "UP", "DOWN")[turn % 4]
        spec = {"maxTime": str(turn % 500 + 1), "state": state, "graceTime": turn % 7}
        await writer.patch(OURS["Partition"], "storm", {"spec": spec}, NAMESPACE)
        name = f"passing{turn % PASSING}"
        if turn % 10 < PASSING:
            # The one before it may be on its way out at this very moment.
            with suppress(Conflict):
                await writer.apply(_partition(name, {"priorityTier": turn % 9 + 1}))
        else:
            await _delete(writer, name)
        await asyncio.sleep(pause)


async def _delete(writer: Writer, name: str) -> None:
    with suppress(NotFound):
        found = await writer.client.get(OURS["Partition"], name, NAMESPACE)
        await writer.delete(OURS["Partition"], name, NAMESPACE, uid=found.metadata.uid)


def _partition(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "Partition"}
    belongs = {"controllerRef": {"name": "slurm"}, "nodeSets": ["compute"]}
    return {**kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {**belongs, **spec}}


def _submit(cluster: LocalCluster, many: int, what: str) -> list[int]:
    said = cluster.admin(f"for each in $(seq {many}); do sbatch {OPTIONS} {what}; done".replace("'", '"'))
    return [int(word) for word in said.split()]


def _jobs(cluster: LocalCluster) -> dict[int, Job]:
    rows = (dict(FIELDS.findall(row)) for row in cluster.admin("scontrol -o show jobs").splitlines())
    found = [
        Job(int(row["JobId"]), row["JobState"], _time(row["StartTime"]), _time(row["EndTime"])) for row in rows if row
    ]
    return {job.number: job for job in found}


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text[:1].isdigit() else 0.0


def _are(cluster: LocalCluster, numbers: list[int], state: str) -> bool:
    found = _jobs(cluster)
    return all(each in found and found[each].state == state for each in numbers)


def _nodes(cluster: LocalCluster) -> set[str]:
    rows = (row.split() for row in cluster.admin("sinfo -h -N -o '%N %T'").splitlines())
    return {name for name, state in rows if not state.startswith(("down", "unknown"))}


def _longest_wait(jobs: list[Job]) -> float:
    """The longest time between the end of one job of the relay and the start of the next."""
    runs = sorted((job.start, job.end) for job in jobs)
    return max((later[0] - earlier[1] for earlier, later in pairwise(runs)), default=0.0)


async def _memory(cluster: LocalCluster) -> int:
    return int((await asyncio.to_thread(cluster.admin, MEMORY)).split()[0])


def _by_hand(version: str, size: Size) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        cluster = LocalCluster(Path(folder) / "cluster", version)
        cluster.name = f"storm-{version.replace('.', '-')}"
        manifest = Path(folder) / "manifest.yaml"
        manifest.write_text(MANIFEST)
        cluster.prepare()
        try:
            cluster.up(manifest)
            cluster.until("the workers are there", lambda: len(_nodes(cluster)) == 4, 120)
            return asyncio.run(storm(cluster, size))
        finally:
            cluster.reset()


def main() -> int:
    """Run a storm of any size and print what it left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", choices=sorted(REST))
    parser.add_argument("--running", type=int, default=Size.running)
    parser.add_argument("--pending", type=int, default=Size.pending)
    parser.add_argument("--changes", type=int, default=Size.changes)
    parser.add_argument("--pause", type=float, default=Size.pause)
    chosen = parser.parse_args()
    outcome = _by_hand(chosen.version, Size(chosen.running, chosen.pending, chosen.changes, chosen.pause))
    print(json.dumps(asdict(outcome), indent=1))
    return 1 if outcome.lost_jobs or outcome.lost_nodes or outcome.longest_wait > 5 or outcome.restarts else 0


if __name__ == "__main__":
    sys.exit(main())
