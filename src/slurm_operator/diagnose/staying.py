"""Which nodes a job's partitions keep: workers that leave, and records without a pod, run nothing any more.

In: facts, a job that waits, its cluster and its `Room`. Out: `Kept`, which is how many nodes there will be by the
replicas of the NodeSets, and the command that makes them more. Used by `diagnose/short_of_nodes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_operator.build import labels
from slurm_operator.diagnose import partition as partitions
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Slurm,
    SlurmJob,
    SlurmNode,
    annotation_of,
    controller_of,
    host_of,
    label_of,
    name_of,
    spec_of,
)
from slurm_operator.diagnose.partition_owner import owner_of
from slurm_operator.diagnose.room import Room, nodes_of, partitions_of
from slurm_operator.diagnose.scale_in import is_deleted
from slurm_operator.plan.leaving import DELETION, SCALE_IN
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.slurm import policy

# Of all reasons to remove a worker, those after which there is none in its place.
FOR_GOOD = frozenset({SCALE_IN, DELETION})
_GOES = re.compile(rf"\b(?:{SCALE_IN}|{DELETION})$")


@dataclass(frozen=True, slots=True)
class Kept:
    """The nodes that a job can count on."""

    # The NodeSets that can be given more workers for it; those of whose workers one fits come first.
    sets: tuple[Object, ...]
    # How many nodes there will be for it when every NodeSet has its replicas.
    number: int
    # How many of them Slurm has.
    there: int
    # The nodes that go, or are gone.
    going: frozenset[str]

    @property
    def coming(self) -> int:
        """How many have not registered."""
        return max(self.number - self.there, 0) if self.sets else 0


def kept_for(facts: Facts, job: SlurmJob, slurm: Slurm, room: Room) -> Kept:
    """What stays of a job's nodes."""
    mine = frozenset[str]().union(*(nodes_of(each, slurm) for each in partitions_of(job)))
    sets = _sets(facts, job, slurm, mine)
    going = frozenset(name for name in mine if goes(facts, slurm.nodes[name]))
    of_sets = frozenset(name for name in mine if name_of(nodeset_of(facts, name) or {}) in sets)
    may_use = frozenset(room.names)
    # A node that the job does not want is one of its NodeSet's replicas all the same.
    unwanted = of_sets - may_use - going
    by_replicas = sum(spec_of(each)["replicas"] for each in sets.values()) - len(unwanted)
    there = may_use - going
    fitting = {name_of(nodeset_of(facts, name) or {}) for name in room.names if name not in room.unfit}
    ordered = sorted(sets, key=lambda name: (name not in fitting, name))
    return Kept(
        tuple(sets[name] for name in ordered), max(by_replicas, 0) + len(there - of_sets), len(there), going & may_use
    )


def more(facts: Facts, kept: Kept, number: int) -> str:
    """The command that adds this many nodes, if a NodeSet with replicas provides them."""
    if not kept.sets or number <= 0:
        return ""
    owner = kept.sets[0]
    patch = f'{{"spec":{{"replicas":{spec_of(owner)["replicas"] + number}}}}}'
    return f"kubectl -n {facts.namespace} patch nodeset {name_of(owner)} --type=merge -p '{patch}'"


def nodeset_of(facts: Facts, name: str) -> Object | None:
    """The NodeSet whose pod a node is."""
    pod = facts.worker(name)
    return facts.get("NodeSet", str(label_of(pod).get(labels.INSTANCE, ""))) if pod is not None else None


def goes(facts: Facts, node: SlurmNode) -> bool:
    """Whether a node has no pod any more, or its worker leaves for good."""
    pod = facts.worker(node.name)
    if pod is None:
        info = read_pod_info(node.comment)
        ours = bool(info) and info.get("namespace", facts.namespace) == facts.namespace
        return ours or policy.drain_is_ours(node.reason)
    owner = nodeset_of(facts, node.name)
    drained = "DRAIN" in node.states and policy.drain_is_ours(node.reason) and bool(_GOES.search(node.reason))
    return drained or annotation_of(pod, labels.CONDEMNED) in FOR_GOOD or (owner is not None and is_deleted(owner))


def _sets(facts: Facts, job: SlurmJob, slurm: Slurm, mine: frozenset[str]) -> dict[str, Object]:
    """The NodeSets of its partitions whose size somebody chooses."""
    cluster = next((name for name, each in facts.slurm.items() if each is slurm), "")
    own = [each for each in facts.every("NodeSet") if controller_of(each) == cluster and _is_sized(each)]
    owners = (owner_of(facts, name) for name in partitions_of(job))
    named = {each for owner in owners for each in partitions.nodesets_of(owner)}
    whole = _whole_sets(facts, slurm, mine)
    return {name_of(each): each for each in own if {name_of(each), partitions.ALL} & named or name_of(each) in whole}


def _whole_sets(facts: Facts, slurm: Slurm, mine: frozenset[str]) -> set[str]:
    """The NodeSets of which every worker that Slurm has is in these partitions: so will be one more."""
    hosts: dict[str, list[str]] = {}
    for pod in _workers(facts):
        if host_of(pod) in slurm.nodes:
            hosts.setdefault(str(label_of(pod).get(labels.INSTANCE, "")), []).append(host_of(pod))
    return {name for name, found in hosts.items() if mine.issuperset(found)}


def _workers(facts: Facts) -> Iterable[Object]:
    return (pod for pod in facts.every("Pod") if label_of(pod).get(labels.NAME) == labels.WORKER.daemon)


def _is_sized(nodeset: Object) -> bool:
    spec = spec_of(nodeset)
    return isinstance(spec.get("replicas"), int) and spec.get("scalingMode") != "DaemonSet" and not is_deleted(nodeset)
