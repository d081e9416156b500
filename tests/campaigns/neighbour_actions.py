"""What the good clusters' users do while the hostile one is at work, and how long the operator takes for it.

In: a world and one of its clusters. Out: a `Sample` for each action: seconds from the patch to the operator's first
write, and to the end state in the API. Used by `neighbours.py`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.campaigns.neighbour_world import MOVING, MOVING_WORKERS, PARTITION, FakeCluster, Json, World, until

ACTION_SECONDS = 30.0
# Seconds before each action, drawn: so the polls of the operator are met at every phase. The more clusters, the
# longer: the fake world shall not be what is waited for.
PAUSES = (0.5, 1.5)
CLUSTERS_AT_EASE = 6


@dataclass(frozen=True)
class Sample:
    """One action on one cluster."""

    cluster: str
    action: str
    # Until the operator made a pod or wrote to Slurm.
    reaction: float
    seconds: float
    is_reached: bool


@dataclass(frozen=True)
class Step:
    """A patch, and what is true when it has been followed."""

    action: str
    kind: str
    name: str
    spec: Json
    holds: Callable[[World, FakeCluster], bool]


async def perform(world: World, cluster: FakeCluster, draw: random.Random, turn: int) -> list[Sample]:
    """One pass over all actions."""
    samples = []
    for step in steps(turn):
        await asyncio.sleep(draw.uniform(*PAUSES) * max(1.0, len(world.clusters) / CLUSTERS_AT_EASE))
        samples.append(await _measure(world, cluster, step))
    return samples


def steps(turn: int) -> Iterator[Step]:
    """Out, a new template, a partition, in."""
    label = {"template": {"metadata": {"labels": {"turn": f"t{turn}"}}}}
    minutes = 61 + turn
    few, more = MOVING_WORKERS, MOVING_WORKERS + 1
    yield Step("roll", "NodeSet", MOVING, label, lambda w, c: workers_are(w, c, few, f"t{turn}"))
    yield Step("out", "NodeSet", MOVING, {"replicas": more}, lambda w, c: workers_are(w, c, more))
    yield Step("partition", "Partition", PARTITION, {"maxTime": str(minutes)}, lambda w, c: partition_is(w, c, minutes))
    yield Step("in", "NodeSet", MOVING, {"replicas": few}, lambda w, c: workers_are(w, c, few))


async def _measure(world: World, cluster: FakeCluster, step: Step) -> Sample:
    began = time.monotonic()
    await world.patch(cluster.namespace, step.kind, step.name, step.spec)
    is_reached = await until(lambda: step.holds(world, cluster), cluster.changed, ACTION_SECONDS)
    ended = time.monotonic()
    first = next((moment for moment in cluster.effects if moment >= began), ended)
    return Sample(cluster.namespace, step.action, first - began, ended - began, is_reached)


def is_ready(cr: Json) -> bool:
    """Whether the status says so, and of the newest spec."""
    status = cr.get("status") or {}
    said = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return bool(cr) and status.get("observedGeneration") == cr["metadata"]["generation"] and said.get("Ready") == "True"


def workers_are(world: World, cluster: FakeCluster, count: int, turn: str = "", name: str = MOVING) -> bool:
    """Whether the pods and the status of a NodeSet are as wanted."""
    cr = world.custom(cluster.namespace, "NodeSet", name)
    counts = ("replicas", "readyReplicas", "updatedReplicas")
    if not is_ready(cr) or any((cr["status"].get(each) or 0) != count for each in counts):
        return False
    pods = world.workers(cluster.namespace, name)
    return len(pods) == count and all(_runs(pod, turn) for pod in pods)


def _runs(pod: Json, turn: str) -> bool:
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions") or []
    is_up = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    is_new = not turn or pod["metadata"]["labels"].get("turn") == turn
    return is_up and is_new and not pod["metadata"].get("deletionTimestamp")


def partition_is(world: World, cluster: FakeCluster, minutes: int) -> bool:
    """Whether Slurm has the partition's new limit, and the status says so."""
    found = cluster.slurm.live_partitions.shapes.get(PARTITION)
    if found is None or found["maximums"]["time"].get("number") != minutes:
        return False
    return is_ready(world.custom(cluster.namespace, "Partition", PARTITION))
