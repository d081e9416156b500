"""Batch jobs that Slurm counts as running though their processes are gone, or may never have come.

In: the workers of a NodeSet, the jobs on their nodes, when slurmctld started, and which slurmds were asked before. Out:
the slurmds to ask now. A job is in doubt when the container of its script is younger than the job, or when slurmctld or
slurmd was replaced within a minute of its start, as at every reconfigure: the launch may have been lost.
slurmctld compares its jobs with a slurmd's own whenever that registers, and requeues or fails a batch job that the
slurmd does not have; but not in the first seconds of the job, or of slurmctld itself, and the next registration is half
an hour away. So it is made to ask for one now. What follows is Slurm's decision: a job that the slurmd has lives on,
whatever our clocks say. Pure; used by `plan/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slurm_operator.build.nodeset import SLURMD
from slurm_operator.plan.actions import Action, RequestRegistration
from slurm_operator.plan.drains import is_drained_by_us
from slurm_operator.plan.workers import NodeSnapshot, Worker, jobs_by_node
from slurm_operator.slurm import hostlist, policy
from slurm_operator.slurm.model import Job, Node, Unknown

# BatchStartTimeout and MessageTimeout are ten seconds each unless somebody changed them: so many questions bring an
# answer. A job that is still there lives, or is none that Slurm would miss: it is asked about ever more rarely.
ASK_SECONDS = 10.0
ASKED_OFTEN = 6
MAX_PAUSE_SECONDS = 3600.0
# How many are asked in one reconcile: each takes no jobs until it has registered, about a second.
MAX_ASKED_NODES = 256
# A node in any other state is left alone: a short drain might mean more than that to Slurm, or to who set the state.
ASKED_STATES = frozenset(
    {
        *("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "DRAIN"),
        *("PLANNED", "CLOUD", "DYNAMIC_NORM", *policy.RESERVED_STATES),
    }
)
# How far apart the starts of a job and of a daemon may be for the launch to be in doubt: on a busy machine slurmd takes
# long to come back.
LAUNCH_DOUBT_SECONDS = 60.0
# How long after the later of the two slurmd is asked: once the 20 s are over in which Slurm misses no job, and again in
# case an answer was lost or BatchStartTimeout is longer. Then the launch is in doubt no more.
LAUNCH_CHECK_SECONDS = (25.0, 60.0, 300.0)


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


@dataclass(frozen=True, slots=True)
class Doubts:
    """The doubtful jobs on the nodes of some workers."""

    # By node: batch jobs that began before the container did in which their script would run.
    ghosts: Mapping[str, list[Job]]
    # By node: batch jobs whose launch may have been lost; and when the last of these, or of the daemons, started.
    launches: Mapping[str, list[Job]]
    launched_at: Mapping[str, float]

    def due(self, asked: Mapping[str, Asked], now: float) -> Iterator[str]:
        """The nodes whose slurmd is to be asked now."""
        for name in self.ghosts:
            if name not in asked or asked[name].next_at <= now:
                yield name
        for name, since in self.launched_at.items():
            last = asked[name].at if name in asked else 0.0
            if any(last < since + wait <= now for wait in LAUNCH_CHECK_SECONDS):
                yield name

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes that have such a job."""
        return frozenset(self.ghosts) | frozenset(self.launches)


NO_DOUBTS = Doubts({}, {}, {})


def doubts(workers: Iterable[Worker], slurm: NodeSnapshot, slurmctld_starts: Iterable[float]) -> Doubts:
    """What is doubtful on these workers; nothing while the jobs are unknown."""
    some = [worker for worker in workers if not worker.rival and not worker.is_terminating]
    if isinstance(slurm.jobs, Unknown):
        return NO_DOUBTS
    on_nodes = jobs_by_node(slurm.jobs, frozenset(worker.hostname for worker in some))
    starts = tuple(slurmctld_starts)
    ghosts: dict[str, list[Job]] = {}
    launches: dict[str, list[Job]] = {}
    launched_at: dict[str, float] = {}
    for worker in some:
        scripts = [job for job in on_nodes.get(worker.hostname, ()) if _has_script_on(worker, job)]
        if gone := [job for job in scripts if is_ghost(worker, job)]:
            ghosts[worker.hostname] = gone
        known = (*starts, float(worker.node.slurmd_start_time)) if worker.node is not None else starts
        if pairs := [(job, at) for job in scripts for at in known if _is_launch_in_doubt(job, at)]:
            launches[worker.hostname] = list({job.job_id: job for job, _ in pairs}.values())
            launched_at[worker.hostname] = max(max(job.start_time, at) for job, at in pairs)
    return Doubts(ghosts, launches, launched_at)


def is_ghost(worker: Worker, job: Job) -> bool:
    """Whether a job's script ran on this worker, in a container that has ended."""
    since = worker.container_since(SLURMD)
    # To the second: a job that began in the same one is asked about in vain at worst.
    return since is not None and _has_script_on(worker, job) and 0 < job.start_time <= since.timestamp()


def questions(
    workers: Iterable[Worker],
    slurm: NodeSnapshot,
    asked: Mapping[str, Asked],
    now: float,
    slurmctld_starts: Iterable[float] = (),
) -> Iterator[Action]:
    """The slurmds that are asked now to register again, all in one call."""
    some = [worker for worker in workers if worker.is_ready and worker.node is not None and may_ask(worker.node)]
    found = doubts(some, slurm, slurmctld_starts)
    due = hostlist.in_order(set(found.due(asked, now)))[:MAX_ASKED_NODES]
    if due:
        jobs = {job.job_id for name in due for job in (*found.ghosts.get(name, ()), *found.launches.get(name, ()))}
        gone = any(name in found.ghosts for name in due)
        why = "the processes of jobs {} may be gone" if gone else "jobs {} began when Slurm's daemons were replaced"
        yield RequestRegistration(tuple(due), why.format(_some(sorted(jobs))))


def remembered(
    asked: Mapping[str, Asked], actions: Iterable[Action], doubtful: Iterable[str], now: float
) -> dict[str, Asked]:
    """What is remembered of these questions: only of nodes that still have such a job."""
    names = {name for each in actions if isinstance(each, RequestRegistration) for name in each.nodes}
    kept = {name: asked[name] for name in doubtful if name in asked}
    return kept | {name: Asked(asked[name].times + 1 if name in asked else 1, now) for name in names}


def may_ask(node: Node) -> bool:
    """Whether a node may be drained and undrained for a moment, which is how Slurm is made to ask its slurmd.

    Whoever else drained it is to lift that; FAIL and a reboot would go with it; at a power-up a drain ends jobs.
    """
    drain_is_nobody_elses = not policy.is_draining(node) or is_drained_by_us(node)
    return drain_is_nobody_elses and node.states <= ASKED_STATES


def _has_script_on(worker: Worker, job: Job) -> bool:
    return job.batch_host == worker.hostname and policy.holds_nodes(job)


def _is_launch_in_doubt(job: Job, daemon_start: float) -> bool:
    """Whether a daemon started so near to a job that its launch may be lost; Slurm itself waits for CONFIGURING."""
    near = abs(job.start_time - daemon_start) <= LAUNCH_DOUBT_SECONDS
    return near and job.start_time > 0 < daemon_start and "CONFIGURING" not in job.states


def _some(job_ids: list[int], max_shown: int = 5) -> str:
    shown = ", ".join(map(str, job_ids[:max_shown]))
    return shown if len(job_ids) <= max_shown else f"{shown} and {len(job_ids) - max_shown} more"
