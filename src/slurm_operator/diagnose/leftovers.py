"""Node records whose pod and whose NodeSet are gone.

In: facts. Out: one cause for all of a cluster, with the command that removes them. The operator removes the records of
a NodeSet with it, unless it is made to let go earlier, or slurmctld did not answer. Called by `cluster.py` and
`node.py`.
"""

from __future__ import annotations

from slurm_operator.api.plural import counted
from slurm_operator.build import labels
from slurm_operator.diagnose.cause import Cause, word
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, SlurmNode, host_of, label_of
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.slurm import hostlist, policy

GONE = frozenset({"DOWN", "NOT_RESPONDING"})


def why(facts: Facts, slurm: Slurm) -> Cause | None:
    """The records of a cluster that are left over; None when there are none."""
    names = left_over(facts, slurm)
    if not names:
        return None
    listed = hostlist.compress(names)
    return Cause(
        "RecordsLeftOver",
        f"Slurm still has {counted(len(names), 'node record')} of a NodeSet that is gone: {listed}",
        f"kubectl slurm -n {facts.namespace} shell -- scontrol delete nodename={word(listed)}",
    )


def left_over(facts: Facts, slurm: Slurm) -> list[str]:
    """The records that nobody will use again, and that no job holds or requires."""
    workers = (pod for pod in facts.every("Pod") if label_of(pod).get(labels.NAME) == labels.WORKER.daemon)
    hosts = {host_of(pod) for pod in workers}
    gone = [node for node in slurm.nodes.values() if node.name not in hosts and is_of_gone_nodeset(facts, node)]
    held = [job.nodes for job in slurm.jobs.values() if job.state in ("RUNNING", "SUSPENDED", "COMPLETING")]
    free = (node.name for node in gone if not any(node.name in nodes for nodes in held))
    return hostlist.in_order(name for name in free if requiring(slurm, name) is None)


def requiring(slurm: Slurm, name: str) -> SlurmJob | None:
    """The first unfinished job that must have a node: slurmctld fails it when the node's record goes."""
    jobs = (job for job in slurm.jobs.values() if name in job.required)
    return next((job for job in jobs if not policy.states_are_over(frozenset({job.state}))), None)


def is_of_gone_nodeset(facts: Facts, node: SlurmNode) -> bool:
    """Whether a record's slurmd is gone, and the NodeSet of this namespace that the record names."""
    if not node.states >= GONE or "DYNAMIC_NORM" not in node.states:
        return False
    info = read_pod_info(node.comment)
    uids = {str((each.get("metadata") or {}).get("uid", "")) for each in facts.every("NodeSet")}
    return info.get("namespace") == facts.namespace and info.get("nodeSetUID", "") not in uids
