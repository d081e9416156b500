"""Why a partition runs no jobs: its resource, its line in Slurm, its state, its nodes.

In: facts and the name of a Partition, or of a partition in Slurm. Out: an answer.
"""

from __future__ import annotations

from slurm_operator.api.plural import counted
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose import resource as resources
from slurm_operator.diagnose.cause import Cause, Diagnosis, Fine, Unseen
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Slurm,
    SlurmPartition,
    controller_of,
    name_of,
    spec_of,
)

ALL = "ALL"


def why(facts: Facts, name: str) -> Diagnosis:
    """Why a partition runs no jobs."""
    mine = _resource(facts, name)
    if mine is not None:
        fault = resources.why(facts, "Partition", name_of(mine))
        if isinstance(fault, Cause) and fault.code in resources.FAULTS | {"OperatorAbsent"}:
            return fault
    cluster = _cluster(facts, name, mine)
    slurm = facts.slurm_of(cluster)
    if not isinstance(slurm, Slurm):
        return nodes.silent(facts, cluster, slurm)
    title = _title(mine, name)
    found = slurm.partitions.get(title)
    if found is None:
        return _missing(facts, title, mine, cluster)
    return _state(facts, found, mine, slurm)


def _title(mine: Object | None, name: str) -> str:
    return str(spec_of(mine).get("partitionName") or name_of(mine)) if mine is not None else name


def _resource(facts: Facts, name: str) -> Object | None:
    found = (each for each in facts.every("Partition") if name in (name_of(each), spec_of(each).get("partitionName")))
    return next(found, None)


def _cluster(facts: Facts, name: str, mine: Object | None) -> str:
    if mine is not None:
        return controller_of(mine)
    for cluster, slurm in facts.slurm.items():
        if isinstance(slurm, Slurm) and name in slurm.partitions:
            return cluster
    return next(iter(facts.slurm), "")


def _missing(facts: Facts, title: str, mine: Object | None, cluster: str) -> Diagnosis:
    if mine is None:
        return Unseen(
            f"there is no partition {title!r} in namespace {facts.namespace}",
            f"kubectl slurm -n {facts.namespace} partition list",
        )
    upper = resources.why(facts, "Controller", cluster)
    if isinstance(upper, Cause):
        return upper.under(f"Slurm does not have partition {title!r}")
    return Cause(
        "NotInSlurm",
        f"Slurm does not have partition {title!r} yet",
        f"kubectl -n {facts.namespace} describe partition {name_of(mine)}",
    )


def _state(facts: Facts, found: SlurmPartition, mine: Object | None, slurm: Slurm) -> Diagnosis:
    if found.state != "UP":
        return _not_up(facts, found, mine)
    if not found.nodes:
        return _empty(facts, found, mine)
    usable = [name for name in slurm.nodes if name in found.nodes and _takes_jobs(slurm, name)]
    if not usable:
        first = next(iter(found.nodes))
        answer = nodes.why(facts, first)
        if isinstance(answer, Cause):
            return answer.under(f"no node of partition {found.name} takes jobs, not even {first}")
    takes = counted(len(usable), "takes", "take")
    return Fine(f"partition {found.name} is up, and of {counted(len(found.nodes), 'node')} {takes} jobs")


def _takes_jobs(slurm: Slurm, name: str) -> bool:
    return not slurm.nodes[name].states & {"DRAIN", "DOWN", "NOT_RESPONDING", "FAIL", "INVALID_REG", "FUTURE"}


def _not_up(facts: Facts, found: SlurmPartition, mine: Object | None) -> Cause:
    if mine is not None and spec_of(mine).get("state", "UP") == found.state:
        return Cause(
            "PartitionNotUp",
            f"partition {found.name} is {found.state}, as its Partition says",
            f"kubectl slurm -n {facts.namespace} partition up {name_of(mine)}",
            chosen=True,
        )
    by_hand = (
        "somebody set it with scontrol" if mine is not None else "its line in slurm.conf says so, or somebody set it"
    )
    command = f"kubectl slurm -n {facts.namespace} " + (
        "drift" if mine is not None else f"shell -- scontrol update partitionname={found.name} state=up"
    )
    return Cause("PartitionNotUp", f"partition {found.name} is {found.state}: {by_hand}", command)


def _empty(facts: Facts, found: SlurmPartition, mine: Object | None) -> Cause:
    names = [str(each) for each in spec_of(mine).get("nodeSets") or ()] if mine is not None else []
    for name in names:
        answer = resources.why(facts, "NodeSet", name) if name != ALL else None
        if isinstance(answer, Cause):
            return answer.under(f"partition {found.name} has no nodes; it is made of NodeSet {name}")
    return Cause(
        "PartitionEmpty",
        f"partition {found.name} has no nodes: no worker of {', '.join(names) or 'its NodeSet'} has registered",
        f"kubectl slurm -n {facts.namespace} status",
    )
