"""Jobs that Slurm counts as running though the container that their processes were in has ended.

In: the workers of a NodeSet, the jobs on their nodes, and which slurmds were asked before. Out: the slurmds to ask now.
slurmctld compares its jobs with a slurmd's own whenever that registers, and requeues or fails a batch job that the
slurmd does not have; but not in the first seconds of the job, or of slurmctld itself, and the next registration is half
an hour away. So it is made to ask for one now. What follows is Slurm's decision: a job that the slurmd has lives on,
whatever our clocks say. Pure; used by `plan/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kube_runtime.text import first_few
from slurm_operator.build.nodeset import SLURMD
from slurm_operator.plan.actions import Action, RequestRegistration
from slurm_operator.plan.drains import is_drained_by_us
from slurm_operator.plan.workers import NodeSnapshot, Worker, jobs_by_node
from slurm_operator.slurm import hostlist, policy
from slurm_operator.slurm.model import Job, Node, Unknown

# BatchStartTimeout and MessageTimeout are ten seconds each by default, so this many requests bring a decision. A job
# that is still there then is alive, or is one that Slurm does not check: requests about it become ever less frequent.
ASK_SECONDS = 10.0
ASKED_OFTEN = 6
MAX_PAUSE_SECONDS = 3600.0
# How many are asked in one reconcile: each takes no jobs until it has registered, about a second.
MAX_ASKED_NODES = 256
# Nodes that we had drained are drained again with their own reasons, one call for each; the others wait.
MAX_ASKED_REASONS = 16
# A node in any other state is left alone: a short drain might do more in Slurm, or to whoever set the state. For one
# that is RESERVED, slurmctld might choose another node, and the reservation would move.
ASKED_STATES = frozenset(
    {
        *("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "DRAIN"),
        *("PLANNED", "CLOUD", "DYNAMIC_NORM", "MAINTENANCE", "MAINT"),
    }
)


@dataclass(frozen=True, slots=True)
class Asked:
    """How often a slurmd was asked to register, and when last, in seconds since 1970."""

    times: int
    at: float

    @property
    def next_at(self) -> float:
        """When it may be asked again."""
        rarer = max(self.times - ASKED_OFTEN, 0)
        return self.at + min(ASK_SECONDS * 2.0 ** min(rarer, 16), MAX_PAUSE_SECONDS)


def ghosts(workers: Iterable[Worker], slurm: NodeSnapshot) -> dict[str, list[Job]]:
    """By node: the batch jobs that started before the container in which their script would run."""
    some = [worker for worker in workers if not worker.rival and not worker.is_terminating]
    if isinstance(slurm.jobs, Unknown):
        return {}
    on_nodes = jobs_by_node(slurm.jobs, frozenset(worker.hostname for worker in some))
    found = {
        worker.hostname: [job for job in on_nodes.get(worker.hostname, ()) if is_ghost(worker, job)] for worker in some
    }
    return {name: jobs for name, jobs in found.items() if jobs}


def is_ghost(worker: Worker, job: Job) -> bool:
    """Whether a job's script ran on this worker, in a container that has ended."""
    since = worker.container_since(SLURMD)
    # Times are whole seconds: for a job that began in the same second, a request may be needless, which does no harm.
    return since is not None and _has_script_on(worker, job) and 0 < job.start_time <= since.timestamp()


def questions(
    workers: Iterable[Worker], slurm: NodeSnapshot, asked: Mapping[str, Asked], now: float
) -> Iterator[Action]:
    """The slurmds that are asked now to register again, all in one call."""
    some = [worker for worker in workers if worker.is_ready and worker.node is not None and may_ask(worker.node)]
    found = ghosts(some, slurm)
    reasons = {worker.hostname: worker.node.reason for worker in some if worker.node and is_drained_by_us(worker.node)}
    due = _at_once(hostlist.in_order(name for name in found if _is_due(asked.get(name), now)), reasons)
    if due:
        jobs = sorted({job.job_id for name in due for job in found[name]})
        yield RequestRegistration(tuple(due), f"the processes of jobs {first_few(jobs)} may be gone")


def _is_due(asked: Asked | None, now: float) -> bool:
    return asked is None or asked.next_at <= now


def _at_once(names: Iterable[str], reasons: Mapping[str, str]) -> list[str]:
    """As many of these nodes as are asked in one reconcile; `reasons` are those of our drains."""
    chosen: list[str] = []
    kept: set[str] = set()
    for name in names:
        reason = reasons.get(name)
        if reason is None or reason in kept or len(kept) < MAX_ASKED_REASONS:
            kept |= {reason} if reason is not None else set()
            chosen.append(name)
    return chosen[:MAX_ASKED_NODES]


def remembered(
    asked: Mapping[str, Asked], actions: Iterable[Action], with_ghosts: Iterable[str], now: float
) -> dict[str, Asked]:
    """What is remembered of these questions: only of nodes that still have such a job."""
    names = {name for each in actions if isinstance(each, RequestRegistration) for name in each.nodes}
    kept = {name: asked[name] for name in with_ghosts if name in asked}
    return kept | {name: Asked(asked[name].times + 1 if name in asked else 1, now) for name in names}


def may_ask(node: Node) -> bool:
    """Whether a node may be drained and undrained for a moment, which is how Slurm is made to ask its slurmd.

    A drain of somebody else is theirs to lift; FAIL and a reboot would be lost; during a power-up a drain ends jobs.
    """
    may_lift_drain = not policy.is_draining(node) or is_drained_by_us(node)
    return may_lift_drain and node.states <= ASKED_STATES


def _has_script_on(worker: Worker, job: Job) -> bool:
    return job.batch_host == worker.hostname and policy.holds_nodes(job)
