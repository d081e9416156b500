"""Node records whose pod and whose NodeSet are gone.

In: facts. Out: one cause for all of a cluster, with the command that removes them. The operator removes the records of
a NodeSet with it, unless it is made to let go earlier, or slurmctld did not answer. Called by `cluster.py` and
`node.py`.
"""

from __future__ import annotations

from slurm_operator.api.plural import counted
from slurm_operator.build import labels
from slurm_operator.diagnose.cause import Cause, quoted
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, SlurmNode, host_of, known_hosts, label_of
from slurm_operator.diagnose.room import jobs_on
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.slurm import hostlist, policy

GONE = frozenset({"DOWN", "NOT_RESPONDING"})


def why(facts: Facts, slurm: Slurm) -> Cause | None:
    """The records of a cluster that are left over; None when there are none."""
    names = left_over(facts, slurm)
    if not names:
        return None
    free = [name for name in names if slurm.nodes[name].states.isdisjoint(policy.RESERVED_STATES)]
    listed = hostlist.compress(free or names)
    text = f"Slurm still has {counted(len(free or names), 'node record')} of a NodeSet that is gone: {listed}"
    shell = f"kubectl slurm -n {facts.namespace} shell --"
    if not free:
        held = f"{text}. A reservation holds them, and Slurm deletes none that it holds"
        return Cause("RecordsLeftOver", held, f"{shell} scontrol show reservation")
    return Cause("RecordsLeftOver", text, f"{shell} scontrol delete nodename={quoted(listed)}")


def left_over(facts: Facts, slurm: Slurm) -> list[str]:
    """The records that nobody will use again, and that no job holds or requires."""
    return facts.once(f"records left over in {id(slurm)}", lambda: _left_over(facts, slurm))


def _left_over(facts: Facts, slurm: Slurm) -> list[str]:
    workers = (pod for pod in facts.every("Pod") if label_of(pod).get(labels.NAME) == labels.WORKER.daemon)
    hosts = {host_of(pod) for pod in workers}
    gone = [node for node in slurm.nodes.values() if node.name not in hosts and is_of_gone_nodeset(facts, node)]
    free = (node.name for node in gone if not jobs_on(slurm, (node.name,)))
    return hostlist.in_order(name for name in free if requiring(slurm, name) is None)


def requiring(slurm: Slurm, name: str) -> SlurmJob | None:
    """The first unfinished job that must have a node: slurmctld fails it when the node's record goes."""
    return slurm.once("jobs by required host", lambda: _by_required_host(slurm)).get(name)


def _by_required_host(slurm: Slurm) -> dict[str, SlurmJob]:
    found: dict[str, SlurmJob] = {}
    for job in slurm.jobs.values():
        if job.required and not policy.states_are_over(frozenset({job.state})):
            for name in known_hosts(job.required, slurm.nodes.keys()):
                found.setdefault(name, job)
    return found


def is_of_gone_nodeset(facts: Facts, node: SlurmNode) -> bool:
    """Whether a record's slurmd is gone, and the NodeSet of this namespace that the record names."""
    if not node.states >= GONE or "DYNAMIC_NORM" not in node.states:
        return False
    info = read_pod_info(node.comment)
    return info.get("namespace") == facts.namespace and info.get("nodeSetUID", "") not in _uids(facts)


def _uids(facts: Facts) -> frozenset[str]:
    """The uids of the NodeSets that there are."""
    uids = (str((each.get("metadata") or {}).get("uid", "")) for each in facts.every("NodeSet"))
    return facts.once("uids of NodeSets", lambda: frozenset(uids))
