"""What Slurm's words mean for a worker: busy, drained, ours, free to go.

In: nodes and jobs as Slurm described them. Out: judgements. Pure; called by `plan/`, `status/`, `diagnose/` and, right
before a write, by `reconcile/clusters.py`. Two rules stand above all: what is not proven idle is busy, and what is not
known is not removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from kube_runtime.text import first_few, printable
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import MAX_EPOCH_SECONDS, UNLIMITED, Absent, Job, Known, Limit, Node, NodeView, Unknown

REASON_PREFIX = "slurm-operator: "
MAX_REASON_CHARACTERS = 256
# slurmctld's own reason for a node that does not respond; it is not a drain of anybody's.
NOT_RESPONDING = "Not responding"
# The reason of a node that we put back into service. Slurm may keep a reason until the next job starts there, and a
# drain that slurmctld sets itself (an epilog fails, a registration is wrong) replaces no reason but one that begins
# with these two words: with any other, that drain would look like ours.
BACK_IN_SERVICE_REASON = f"{NOT_RESPONDING} until slurmd registers: slurm-operator put it back into service"
# How slurmctld adds a reason to one that is there.
REASON_SEPARATOR = " : "
# Why a node is drained for a moment: undraining it makes slurmctld ask its slurmd to register.
REGISTRATION_REASON = "slurmd is asked to register"

QUIET_STATES = frozenset({"IDLE", "DOWN", "FUTURE"})
BUSY_STATES = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
RESERVED_STATES = frozenset({"RESERVED", "MAINTENANCE", "MAINT"})
FINISHED_STATES = frozenset(
    {
        *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
        *("OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"),
    }
)
# A job that is in one of these as well has not ended, whatever else is said of it: LAUNCH_FAILED, RECONFIG_FAIL and
# REVOKED are flags, which a job that was requeued keeps while it waits.
UNFINISHED_STATES = frozenset({"PENDING", "RUNNING", "SUSPENDED", "COMPLETING"})
ONLY_PENDING = frozenset({"PENDING"})


class Yes(msgspec.Struct, frozen=True):
    """The worker may go."""


class No(msgspec.Struct, frozen=True):
    """The worker stays, and why."""

    why: str


def is_busy(node: Node) -> bool:
    """Whether the node has work, or has not been proven to have none."""
    if node.states & BUSY_STATES or node.alloc_cpus > 0 or node.alloc_memory > 0:
        return True
    return not node.states & QUIET_STATES


def is_draining(node: Node) -> bool:
    """Whether the node takes no new jobs."""
    return "DRAIN" in node.states


def is_drained(node: Node) -> bool:
    """Whether the node takes no new jobs and has none. A suspended job does not show here: see `may_remove`."""
    return is_draining(node) and not is_busy(node)


def is_responding(node: Node) -> bool:
    """Whether the node's slurmd responds to slurmctld."""
    return "NOT_RESPONDING" not in node.states and "DOWN" not in node.states


def is_deserted(node: Node) -> bool:
    """Whether the node has no slurmd that responds, and nothing that was allocated on it."""
    return not is_responding(node) and not is_busy(node)


def may_be_forgotten(node: Node) -> bool:
    """Whether Slurm would delete this record: it has neither a slurmd nor a job, and no reservation keeps it."""
    return is_deserted(node) and node.states.isdisjoint(RESERVED_STATES)


def drain_is_ours(reason: str) -> bool:
    """Whether this program set that drain reason; only then may it lift the drain."""
    return reason.startswith(REASON_PREFIX)


def is_of_our_making(reason: str) -> bool:
    """Whether a node is DOWN only with what we wrote and what slurmctld adds to it when a slurmd falls silent."""
    first, *added = reason.split(REASON_SEPARATOR)
    return (drain_is_ours(first) or first == BACK_IN_SERVICE_REASON) and all(each == NOT_RESPONDING for each in added)


def drain_reason(text: str) -> str:
    """A reason that is recognised as ours."""
    return REASON_PREFIX + clean_reason(text.removeprefix(REASON_PREFIX))


def clean_reason(text: str) -> str:
    """Anybody's text as the reason of a drain: one printable line of bounded length, without double quotes."""
    return printable(text, 2 * MAX_REASON_CHARACTERS)[:MAX_REASON_CHARACTERS].replace('"', "'").strip()


def occupies(job: Job, node: str) -> bool:
    """Whether the job holds that node: see `holds_nodes`."""
    return holds_nodes(job) and node in job.nodes


def holds_nodes(job: Job) -> bool:
    """Whether the job holds its nodes: running, suspended, completing, in no state, or in an unknown one."""
    return not is_over(job) and job.states != ONLY_PENDING


def is_over(job: Job) -> bool:
    """Whether the job is known to have ended, and its nodes to be cleaned up."""
    return states_are_over(job.states)


def states_are_over(states: Set[str]) -> bool:
    """The same of the states alone: one of an end, and none of a life."""
    return not states.isdisjoint(FINISHED_STATES) and states.isdisjoint(UNFINISHED_STATES)


def may_remove(view: NodeView, jobs: Iterable[Job] | Unknown) -> Yes | No:
    """Whether what Slurm reports allows the worker to be removed.

    The jobs are needed beside the node: Slurm shows a node whose only job is suspended as idle.
    """
    if isinstance(view, Unknown):
        return No(f"Slurm's record of the node is not available: {view.why}")
    if isinstance(view, Absent):
        return Yes()
    if isinstance(jobs, Unknown):
        return No(f"Slurm's list of jobs is not available: {jobs.why}")
    return _may_remove_known(view, jobs)


def _may_remove_known(view: Known, jobs: Iterable[Job]) -> Yes | No:
    node = view.node
    holders = sorted(job.job_id for job in jobs if occupies(job, node.name))
    if holders:
        return No(f"node {node.name} has jobs: {first_few(holders)}")
    if is_busy(node):
        return No(f"node {node.name} is busy ({state_text(node)})")
    if not is_draining(node):
        return No(f"node {node.name} is not drained ({state_text(node)})")
    return Yes()


def state_text(node: Node) -> str:
    """The states as one word, the base state first, as `scontrol` shows them."""
    base = (QUIET_STATES | BUSY_STATES) - {"COMPLETING"}
    return "+".join(sorted(node.states, key=lambda s: (s not in base, s))) or "no state"


def jobs_by_node(jobs: Sequence[Job], names: Set[str]) -> dict[str, list[Job]]:
    """The jobs that are on each of these nodes, or were."""
    return _by_node(((job, job.nodes) for job in jobs), names)


def jobs_by_required_node(jobs: Sequence[Job], names: Set[str]) -> dict[str, list[Job]]:
    """The unfinished jobs that must have each of these nodes; one whose list cannot be read may need any of them."""
    return _by_node(((job, job.required) for job in jobs if not is_over(job)), names)


def _by_node(jobs: Iterable[tuple[Job, HostList | None]], names: Set[str]) -> dict[str, list[Job]]:
    result: dict[str, list[Job]] = {}
    # Jobs share their host lists: each of these is looked at once.
    found: dict[int, Set[str]] = {id(None): names}
    for job, hosts in jobs:
        within = found.get(id(hosts))
        if within is None:
            within = found[id(hosts)] = hosts.within(names) if hosts is not None else names
        for name in within:
            result.setdefault(name, []).append(job)
    return result


def deadlines(on_nodes: Mapping[str, Iterable[Job]]) -> dict[str, Limit]:
    """For each node that one of its jobs holds, when the last of them must be over (UNLIMITED: no end)."""
    latest: dict[str, Limit] = {}
    for name, jobs in on_nodes.items():
        for job in jobs:
            if holds_nodes(job):
                latest[name] = _later(latest.get(name), _end(job))
    return latest


def deadline(node: str, jobs: Sequence[Job]) -> Limit:
    """When the last job on that node must be over; None when it has none."""
    return deadlines(jobs_by_node(jobs, {node})).get(node)


def _end(job: Job) -> Limit:
    # A suspended job's clock stands still: nobody can say when it ends.
    if job.time_limit is None or job.time_limit == UNLIMITED or "SUSPENDED" in job.states:
        return UNLIMITED
    end = job.start_time + job.time_limit * 60
    # Beyond what a calendar can write, nobody waits for it.
    return end if end <= MAX_EPOCH_SECONDS else UNLIMITED


def _later(one: Limit, other: Limit) -> Limit:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, str) or isinstance(other, str):
        return UNLIMITED
    return max(one, other)
