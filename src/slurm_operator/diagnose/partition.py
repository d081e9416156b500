"""Why a partition runs no jobs: its resource, its line in Slurm, its state, its nodes.

In: facts and the name of a partition in Slurm, or of the Partition or NodeSet that makes it. Out: an answer, whose
command changes the resource: what is only changed in Slurm, the operator changes back.
"""

from __future__ import annotations

from slurm_operator.api.meta import GROUP
from slurm_operator.api.plural import counted
from slurm_operator.build.partition import NODESET_NOT_FOUND
from slurm_operator.diagnose import drift, operator, refusals
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose import resource as resources
from slurm_operator.diagnose.cause import Cause, Diagnosis, Fine, Unseen, quoted
from slurm_operator.diagnose.facts import Facts, Object, Slurm, SlurmPartition, condition_of, name_of, spec_of
from slurm_operator.diagnose.partition_owner import Owner, owner_of, partition_config, unknown_partition
from slurm_operator.diagnose.room import nodes_of
from slurm_operator.plan.partition import declared
from slurm_operator.plan.partition_events import BY_HAND

ALL = "ALL"
UP = "UP"


def why(facts: Facts, name: str) -> Diagnosis:
    """Why a partition runs no jobs, or is not as its resource says."""
    answer, owner = why_no_jobs(facts, name), owner_of(facts, name)
    refused = refusals.why(facts, owner) if owner is not None and not owner.is_leaving else None
    if owner is None or owner.is_leaving:
        return answer
    if refused is None:
        return _flaw(facts, owner) or answer if isinstance(answer, Fine) else answer
    slurm = facts.slurm_of(owner.cluster)
    # One that Slurm does not have is missing because it is refused, whatever else is wrong.
    is_missing = isinstance(slurm, Slurm) and owner.partition not in slurm.partitions
    return refused if is_missing or not isinstance(answer, Cause) else answer


def _flaw(facts: Facts, owner: Owner) -> Cause | None:
    """What is wrong with a partition that takes jobs, as `doctor` has it."""
    incomplete = without_nodeset(facts, owner.resource) if owner.kind == "Partition" else None
    mine = (owner.cluster, owner.partition)
    changed = (cause for each, cause in drift.causes(facts) if (each.cluster, each.partition) == mine)
    return incomplete or next(changed, None)


def why_no_jobs(facts: Facts, name: str) -> Diagnosis:
    """Why a partition, as Slurm has it, runs no jobs."""
    asked, owner = _asked(facts, name), owner_of(facts, name)
    for mine in (asked, owner):
        if mine is not None and mine.kind == "Partition":
            fault = resources.why(facts, "Partition", mine.name)
            if isinstance(fault, Cause) and fault.code in resources.FAULTS | operator.UNSEEN:
                return fault
    cluster = _cluster(facts, name, owner)
    slurm = facts.slurm_of(cluster)
    if not isinstance(slurm, Slurm):
        return nodes.silent(facts, cluster, slurm)
    title = owner.partition if owner is not None else name
    found = slurm.partitions.get(title)
    if owner is not None and owner.is_leaving:
        return _leaving(facts, owner)
    if found is None:
        return _missing(facts, title, owner, cluster)
    return _state(facts, found, owner, slurm)


def _asked(facts: Facts, name: str) -> Owner | None:
    """The Partition of this very name, whoever has its partition."""
    found = facts.get("Partition", name)
    return Owner("Partition", found, name, "") if found is not None else None


def without_nodeset(facts: Facts, partition: Object) -> Cause | None:
    """A NodeSet that a working Partition names, and that is missing; no job waits because of it alone."""
    accepted = condition_of(partition, "Accepted") or {}
    if accepted.get("reason") != NODESET_NOT_FOUND:
        return None
    return Cause(
        NODESET_NOT_FOUND,
        f"Partition {name_of(partition)}: {accepted.get('message', '')}",
        f"kubectl -n {facts.namespace} edit partitions.{GROUP} {name_of(partition)}",
    )


def _cluster(facts: Facts, name: str, owner: Owner | None) -> str:
    if owner is not None:
        return owner.cluster
    for cluster, slurm in facts.slurm.items():
        if isinstance(slurm, Slurm) and name in slurm.partitions:
            return cluster
    return next(iter(facts.slurm), "")


def _leaving(facts: Facts, owner: Owner) -> Cause:
    """A partition on its way out: it was the operator that drained it."""
    message = str((condition_of(owner.resource, "Ready") or {}).get("message") or "its jobs are waited for")
    return Cause(
        "PartitionLeaving",
        f"partition {owner.partition} accepts no new jobs, because {owner.place} is being deleted: {message}",
        f"kubectl slurm -n {facts.namespace} shell -- squeue -p {quoted(owner.partition)}",
        chosen=True,
    )


def _missing(facts: Facts, title: str, owner: Owner | None, cluster: str) -> Diagnosis:
    if owner is None:
        return Unseen(unknown_partition(facts, title), f"kubectl slurm -n {facts.namespace} partition list")
    upper = resources.why(facts, "Controller", cluster)
    if isinstance(upper, Cause) and upper.code not in refusals.OF_PARTITION:
        return upper.under(f"Slurm does not have partition {title!r}")
    return Cause(
        "NotInSlurm",
        f"Slurm does not have partition {title!r} of {owner.place} yet",
        f"kubectl -n {facts.namespace} describe {owner.kind.lower()} {owner.name}",
    )


def _state(facts: Facts, found: SlurmPartition, owner: Owner | None, slurm: Slurm) -> Diagnosis:
    if found.state != UP:
        return _not_up(facts, found, owner)
    if not found.nodes:
        return _empty(facts, found, owner)
    usable = [name for name in nodes_of(found.name, slurm) if _takes_jobs(slurm, name)]
    if not usable:
        first = next(iter(found.nodes))
        answer = nodes.why(facts, first)
        if isinstance(answer, Cause):
            return answer.under(f"no node of partition {found.name} takes jobs, not even {first}")
    takes = counted(len(usable), "takes", "take")
    return Fine(f"partition {found.name} is up, and of {counted(len(found.nodes), 'node')} {takes} jobs")


def _takes_jobs(slurm: Slurm, name: str) -> bool:
    return not slurm.nodes[name].states & {"DRAIN", "DOWN", "NOT_RESPONDING", "FAIL", "INVALID_REG", "FUTURE"}


def _not_up(facts: Facts, found: SlurmPartition, owner: Owner | None) -> Cause:
    """Who set its state; the command is never an scontrol call that the operator would revert."""
    step = f"partition {found.name} is {found.state}"
    by_hand = f"kubectl slurm -n {facts.namespace} shell -- scontrol update partitionname={quoted(found.name)} state=up"
    if owner is None and _is_in_file(facts, found.name):
        return Cause(
            "PartitionLeaving",
            f"{step}, because no resource declares it any more: the operator removes it when its jobs have ended",
            f"kubectl slurm -n {facts.namespace} shell -- squeue -p {quoted(found.name)}",
            chosen=True,
        )
    if owner is None:
        return Cause("PartitionNotUp", f"{step}, and no resource declares it: whoever made it set that", by_hand)
    wanted = wanted_state(owner)
    if wanted == found.state:
        return Cause("PartitionNotUp", f"{step}, as {owner.place} says", _change_state(facts, owner), chosen=True)
    sentence = f"{step}, though {owner.place} asks for {wanted}: {BY_HAND} set it"
    policy = str(spec_of(owner.resource).get("driftPolicy") or "Revert") if owner.kind == "Partition" else "Revert"
    if policy != "Revert" and wanted == UP:
        # Slurm is brought to what the resource says: nobody changes that back.
        return Cause("PartitionNotUp", f"{sentence}, and its driftPolicy is {policy}", by_hand)
    return Cause("PartitionNotUp", sentence, f"kubectl slurm -n {facts.namespace} drift")


def _is_in_file(facts: Facts, name: str) -> bool:
    """Whether a slurm.conf of the operator's holds a partition."""
    texts = (str((each.get("data") or {}).get("slurm.conf") or "") for each in facts.every("ConfigMap"))
    return any(name in declared(text).lines for text in texts if text)


def wanted_state(owner: Owner) -> str:
    """The state that a partition has by its resource."""
    if owner.kind == "Partition":
        return str(spec_of(owner.resource).get("state") or UP)
    if owner.kind == "NodeSet":
        text = f"PartitionName={owner.partition} {partition_config(owner.resource)}"
    else:
        text = str(spec_of(owner.resource).get("extraConf") or "")
    line = declared(text).lines.get(owner.partition)
    return (line.values.get("State", UP) if line is not None else UP).upper()


def _change_state(facts: Facts, owner: Owner) -> str:
    if owner.kind == "Controller":
        return f"kubectl -n {facts.namespace} edit controller {owner.name}"
    return f"kubectl slurm -n {facts.namespace} partition up {quoted(owner.partition)}"


def _empty(facts: Facts, found: SlurmPartition, owner: Owner | None) -> Cause:
    names = nodesets_of(owner)
    for name in names:
        answer = resources.why(facts, "NodeSet", name) if name != ALL else None
        if isinstance(answer, Cause):
            return answer.under(f"partition {found.name} has no nodes; it is made of NodeSet {name}")
    return Cause(
        "PartitionEmpty",
        f"partition {found.name} has no nodes: no worker of {', '.join(names) or 'its NodeSet'} has registered",
        f"kubectl slurm -n {facts.namespace} status",
    )


def nodesets_of(owner: Owner | None) -> list[str]:
    """The NodeSets that a partition is made of, by their names; `ALL` stands for every one."""
    if owner is None or owner.kind == "Controller":
        return []
    if owner.kind == "NodeSet":
        return [owner.name]
    return [str(each) for each in spec_of(owner.resource).get("nodeSets") or ()]
