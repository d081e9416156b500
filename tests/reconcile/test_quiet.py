"""A large world at rest: a thousand workers, ten minutes, no write and no event."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import small

from slurm_operator.build import labels

WORKERS = 1000
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SERVER_SETS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


async def sisters(world: World, many: int) -> None:
    """So many workers like the first, as if they had come up long ago: the way there is for other tests."""
    first, record = world.stored("pods", "compute-0"), world.slurm.nodes["compute-0"]
    for key in SERVER_SETS:
        first["metadata"].pop(key, None)
    text = json.dumps(first)
    for number in range(1, many):
        name = f"compute-{number}"
        pod: Any = json.loads(text.replace("compute-0", name))
        pod["metadata"]["labels"][labels.POD_INDEX] = str(number)
        await world.ask("POST", PODS, pod)
        status = {"status": pod["status"]}
        await world.ask("PATCH", f"{PODS}/{name}/status", status, "application/merge-patch+json")
        comment = record.comment.replace("compute-0", name)
        world.slurm.nodes[name] = replace(record, name=name, comment=comment, flags=set(record.flags))
        world.slurm.slurmds.add(name)
    world.slurm.touch("nodes")


async def test_many_workers_at_rest_cost_no_write_and_no_event(world: World) -> None:
    await small(world, 1)
    await world.stop_operator()
    await sisters(world, WORKERS)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": WORKERS}})
    await world.start_operator()
    await world.run(horizon=10.0)
    assert len(world.pods()) == WORKERS
    assert world.custom("NodeSet", "compute")["status"]["readyReplicas"] == WORKERS
    revision, events = world.server.store.revision, len(world.stored("events.events.k8s.io"))
    world.arm()
    await world.run_for(600.0)
    assert world.trace == []
    assert world.server.store.revision == revision
    assert len(world.stored("events.events.k8s.io")) == events
    # Slurm is looked at all the same, whole once a minute.
    assert 100 <= world.calls.count("GET nodes") <= 130
