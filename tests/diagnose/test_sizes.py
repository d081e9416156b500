"""A diagnosis of thousands of nodes, pods and jobs: no walk goes through all jobs for each node.

How long it takes is measured by `bench/diagnosis.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.diagnose.broken import Object, event, pod, resource

from slurm_operator.build import labels
from slurm_operator.diagnose import cluster, job
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, SlurmNode, SlurmPartition
from slurm_operator.slurm.hostlist import HostList

SIZE = 4000
OF_GONE_NODESET = '{"namespace":"slurm","nodeSetUID":"gone"}'


def jobs() -> dict[str, SlurmJob]:
    running = [SlurmJob(str(n), "j", "bob", "RUNNING", partition="p", nodes=HostList(f"w-{n}")) for n in range(SIZE)]
    first = SlurmJob("", "j", "bob", "PENDING", "Resources", "p", node_count=2, cpus=8, wants={"Partition": "p"})
    pending = [replace(first, id=str(SIZE + n)) for n in range(SIZE)]
    return {each.id: each for each in (*running, *pending)}


def large(
    state: str, *, reason: str = "", comment: str = "", without_pods: bool = False, pending: bool = False
) -> Facts:
    """As many workers as `SIZE`, all of them alike, each with a job, and as many jobs that wait."""
    states = frozenset(state.split("+"))
    nodes = {f"w-{n}": SlurmNode(f"w-{n}", states, reason, comment, cpus=4, cpus_used=4) for n in range(SIZE)}
    slurm = Slurm(nodes, jobs(), {"p": SlurmPartition("p", "UP", HostList(f"w-[0-{SIZE - 1}]"))})
    status: dict[str, Any] = {"phase": "Pending", "containerStatuses": []} if pending else {}
    workers = [] if without_pods else [pod(f"w-{n}", labels.WORKER, "w", **status) for n in range(SIZE)]
    objects: list[Object] = [resource("Controller", "slurm"), resource("NodeSet", "w", {"replicas": SIZE}), *workers]
    objects.append(pod("slurm-controller-0", labels.CONTROLLER, "slurm"))
    objects += [event("Pod", f"w-{n}", "FailedMount", "no such disk") for n in range(SIZE) if pending]
    kinds: dict[str, dict[str, Mapping[str, Any]]] = {}
    for each in objects:
        kinds.setdefault(each.get("kind", "Event"), {})[each["metadata"]["name"]] = each
    return Facts("slurm", kinds, {"slurm": slurm}, now="2026-11-18T00:00:00Z")


CLUSTERS: dict[str, Callable[[], Facts]] = {
    "busy": lambda: large("ALLOCATED"),
    "going away": lambda: large("ALLOCATED+DRAIN", reason="slurm-operator: scale-in"),
    "down": lambda: large("DOWN+NOT_RESPONDING"),
    "left over": lambda: large("DOWN+NOT_RESPONDING+DYNAMIC_NORM", comment=OF_GONE_NODESET, without_pods=True),
    "pending": lambda: large("DOWN+NOT_RESPONDING", pending=True),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_large_cluster_is_judged(name: str) -> None:
    facts = CLUSTERS[name]()
    causes = cluster.examine(facts)
    answer = job.why(facts, str(2 * SIZE - 1))
    assert bool(causes) == (name in ("down", "left over", "pending"))
    assert f"job {2 * SIZE - 1}" in str(answer)
