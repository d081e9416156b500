"""Many partition changes under running and waiting jobs, on a real Slurm: what gets lost, what waits, what grows.

In: a running cluster, and how much of everything. Out: `Outcome`, numbers that a test or a person judges. Called by
`test_partitions.py` with little of everything, and by hand: `python -m tests.real.slurm.partition_storm --help`.

From 26.05 on every change is planned and sent as the operator does it; before, changes are gathered in slurm.conf, and
a reconfigure with its kick follows a few seconds after the last, as the operator does it there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from tests.real.slurm import rootfs
from tests.real.slurm.cluster import Cluster, eventually

from slurm_operator.plan.actions import DeletePartition, SetPartition
from slurm_operator.plan.partition import PartitionWorld, lines, plan_partitions
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.model import Job
from slurm_operator.slurm.policy import is_over
from slurm_operator.slurm.requests import Feature, JobSubmission
from slurm_operator.slurm.token import TokenSource

SETS = "NodeSet=compute Feature=compute\n"
RELAY = "PartitionName=relay Nodes=compute PriorityTier=5\n"
# Six jobs a core: a small machine holds the jobs of a large one.
COMPUTE = "PartitionName=compute Nodes=compute Default=YES MaxTime=UNLIMITED OverSubscribe=FORCE:6\n"
LONG = "#!/bin/bash\nexec sleep 3600\n"
SHORT = "#!/bin/bash\nexec sleep 1\n"
# Seconds between two reconfigures: less, and the queue starves.
SPACING = 5.0


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    running: int = 4
    pending: int = 4
    changes: int = 60
    # Seconds between two changes.
    pause: float = 0.05


@dataclass(frozen=True)
class Outcome:
    """What the storm left."""

    changes: int
    seconds: float
    reconfigures: int
    lost_jobs: tuple[int, ...]
    lost_nodes: tuple[str, ...]
    longest_wait: float
    memory_before_kb: int
    memory_after_kb: int


def texts(changes: int) -> Iterator[str]:
    """One slurm.conf after the other: limits, states, new and vanishing partitions, other nodes."""
    for turn in range(changes):
        state = ("UP", "DRAIN", "UP", "DOWN")[turn % 4]
        rows = [f"PartitionName=storm Nodes=compute MaxTime={turn % 500 + 1} State={state} GraceTime={turn % 7}"]
        if turn % 3:
            rows.append(f"PartitionName=passing{turn % 5} Nodes=compute PriorityTier={turn % 9 + 1}")
        yield SETS + RELAY + COMPUTE + "\n".join(rows) + "\n"


async def storm(cluster: Cluster, client: SlurmClient, size: Size) -> Outcome:
    """Fill the cluster, change partitions, and look what became of everything."""
    nodes = {node.name for node in (await client.all_nodes()).items}
    await _rewrite(cluster, client, next(texts(1)))
    track = max((await client.all_nodes()).items, key=lambda node: node.name)
    apart = {"excluded_nodes": [track.name]}
    long = [await _submit(client, LONG, "compute", more=apart) for _ in range(size.running)]
    await eventually(lambda: _all_run(client, long), 120)
    whole = {"tasks": track.cpus}
    relay = [await _submit(client, SHORT, "relay", more=whole, nodes=(track.name,)) for _ in range(size.pending)]
    # What a first storm allocates is not growth.
    warm = size.changes // 5
    reconfigures = await _change(cluster, client, Size(changes=warm, pause=size.pause))
    before, began = _memory(cluster), time.monotonic()
    reconfigures += await _change(cluster, client, Size(changes=size.changes - warm, pause=size.pause))
    seconds, after = time.monotonic() - began, _memory(cluster)
    await eventually(lambda: _all_over(client, relay), 60 + 6.0 * size.pending)
    jobs = {job.job_id: job for job in (await client.all_jobs()).items}
    lost = [number for number in long if number not in jobs or "RUNNING" not in jobs[number].states]
    lost += [number for number in relay if number not in jobs or "COMPLETED" not in jobs[number].states]
    gone = nodes - {node.name for node in (await client.all_nodes()).items if "DOWN" not in node.states}
    waited = _longest_wait([jobs[number] for number in relay if number in jobs])
    for number in long:
        await client.cancel(number)
    return Outcome(
        size.changes, round(seconds, 2), reconfigures, tuple(lost), tuple(sorted(gone)), waited, before, after
    )


async def _change(cluster: Cluster, client: SlurmClient, size: Size) -> int:
    live_way = await client.offers(Feature.PARTITIONS)
    in_force, reconfigures, last = next(texts(1)), 0, time.monotonic()
    for text in texts(size.changes):
        if live_way:
            await _apply_live(client, text, in_force)
            in_force = text
        elif time.monotonic() - last >= SPACING:
            await _rewrite(cluster, client, text)
            in_force, reconfigures, last = text, reconfigures + 1, time.monotonic()
        await asyncio.sleep(size.pause)
    return reconfigures


async def _apply_live(client: SlurmClient, text: str, in_force: str) -> None:
    partitions, jobs = await client.all_partitions(), await client.all_jobs()
    plan = plan_partitions(PartitionWorld(lines(text), lines(in_force), partitions, jobs.items, True, {}))
    for action in plan.actions:
        if isinstance(action, SetPartition):
            await client.set_partition(action.change)
        elif isinstance(action, DeletePartition):
            await client.delete_partition(action.name)


async def _rewrite(cluster: Cluster, client: SlurmClient, text: str) -> None:
    """The file, the reconfigure, and the kick that keeps waiting jobs from waiting for 30 s."""
    written = json.dumps(text)
    cluster.shell(
        "sed -e '/^PartitionName=/d' -e '/^NodeSet=/d' /etc/slurm/slurm.conf > /run/slurm.conf.new;"
        f" printf %b {written} >> /run/slurm.conf.new; cat /run/slurm.conf.new > /etc/slurm/slurm.conf;"
        " scontrol reconfigure"
    )
    await eventually(lambda: _answers(client), 20)
    cluster.shell("scontrol update partitionname=compute state=up")


async def _answers(client: SlurmClient) -> bool:
    answer = await client.all_partitions()
    return answer.complete


async def _submit(
    client: SlurmClient, script: str, partition: str, *, more: Mapping[str, object], nodes: tuple[str, ...] = ()
) -> int:
    job = JobSubmission(script=script, partition=partition, required_nodes=nodes, time_limit=60, more=more)
    return await client.submit(job)


async def _all_run(client: SlurmClient, numbers: list[int]) -> bool:
    running = {job.job_id for job in (await client.all_jobs()).items if "RUNNING" in job.states}
    return running >= set(numbers)


async def _all_over(client: SlurmClient, numbers: list[int]) -> bool:
    left = {job.job_id for job in (await client.all_jobs()).items if not is_over(job)}
    return not left & set(numbers)


def _longest_wait(jobs: list[Job]) -> float:
    """The longest time between the end of one job of the relay and the start of the next."""
    runs = sorted((job.start_time, job.end_time) for job in jobs if job.start_time)
    return float(
        max((later[0] - max(each[1] for each in runs[: at + 1]) for at, later in enumerate(runs[1:])), default=0)
    )


def _memory(cluster: Cluster) -> int:
    shown = cluster.shell("grep VmRSS /proc/$(cat /run/slurmctld/slurmctld.pid)/status")
    return int(shown.split()[1])


async def _by_hand(version: str, slurmds: int, size: Size) -> Outcome:
    cluster = Cluster(version, rootfs.provide(version))
    try:
        cluster.start()
        for index in range(3, slurmds):
            cluster.start_node(f"n{index}", 17000 + index)
        for index in range(3, slurmds):
            cluster.wait_idle(f"n{index}")
        async with SlurmClient(f"unix://{cluster.socket}", TokenSource(lambda: cluster.jwt_key)) as client:
            return await storm(cluster, client, size)
    finally:
        cluster.stop()


def main() -> int:
    """Run a storm of any size and print what it left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", choices=sorted(rootfs.SUITES))
    parser.add_argument("--slurmds", type=int, default=24)
    parser.add_argument("--running", type=int, default=40)
    parser.add_argument("--pending", type=int, default=20)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.05)
    chosen = parser.parse_args()
    size = Size(chosen.running, chosen.pending, chosen.changes, chosen.pause)
    outcome = asyncio.run(_by_hand(chosen.version, chosen.slurmds, size))
    print(json.dumps(asdict(outcome), indent=1))
    return 1 if outcome.lost_jobs or outcome.lost_nodes or outcome.longest_wait > 5 else 0


if __name__ == "__main__":
    sys.exit(main())
