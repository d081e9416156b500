"""Worker pods as the planners see them: identity, health, age, and the order in which they would be removed.

In: pods and what Slurm reports on their nodes. Out: `Worker` values and sorts. Pure; used by every planner of a
NodeSet, its reconcile and its status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from kube_runtime.client.objects import Pod
from kube_runtime.text import whole_number
from kube_runtime.times import parse_time
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels
from slurm_operator.plan.leaving import drained_for
from slurm_operator.slurm import policy
from slurm_operator.slurm.decision import EVERYTHING, Decision
from slurm_operator.slurm.model import (
    Absent,
    Job,
    Known,
    Limit,
    Node,
    NodeView,
    Reservation,
    SlurmList,
    Unknown,
    absence,
)
from slurm_operator.slurm.requests import Feature
from slurm_operator.slurm.vanished import DOUBT_SECONDS, is_plausible

# An int32, as Kubernetes reads it: int() refuses thousands of digits.
_COST = re.compile(r"-?(?:0|[1-9][0-9]{0,9})")
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

# The pod condition that says whether Slurm has a record of the worker's node, and since when.
REGISTERED = "SlurmNodeRegistered"
# What that condition says of a node that Slurm had, and has no more.
NO_LONGER_REGISTERED = "Slurm no longer has a record of its node"
# How long a ready worker may be unknown to Slurm. A slurmctld that was killed may have forgotten a node that it had not
# written down yet, although the slurmd lives and works: such a worker is given time.
REGISTRATION_GRACE_SECONDS = 30.0


NOT_ASKED = Unknown("Slurm was not asked")
# What stands for the look before the first one.
READ_ONCE = Unknown("Slurm's jobs and nodes have been read once; they are read again before anything is removed")
NO_NODES: SlurmList[Node] = SlurmList((), complete=True)


@dataclass(frozen=True)
class NodeSnapshot:
    """What Slurm reports on nodes and jobs in this reconcile, or why it does not."""

    nodes: SlurmList[Node] | Unknown
    jobs: tuple[Job, ...] | Unknown
    reservations: SlurmList[Reservation] | Unknown = NOT_ASKED
    offers: frozenset[Feature] = frozenset()
    # Nodes that the list lacks and whose absence Slurm confirmed when asked by name; None: the list alone counts.
    absent: frozenset[str] | None = None
    # The jobs of the look before this one: what ends a partition's life must be missing twice.
    jobs_before: tuple[Job, ...] | Unknown = ()
    # The nodes of that look: a record that is missing only once may have been lost by an incomplete list.
    nodes_before: SlurmList[Node] | Unknown = NO_NODES
    # What was read for this very reconcile. Anything else in it is good enough to report, not to decide who goes.
    fresh: Decision = EVERYTHING
    # When its nodes were read, and then its jobs, by the monotonic clock: a long list of jobs takes half a minute.
    nodes_read_at: float = float("inf")
    jobs_read_at: float = float("inf")

    def view(self, name: str) -> NodeView:
        """What Slurm says about one node."""
        if isinstance(self.nodes, Unknown):
            return self.nodes
        node = self.by_name.get(name)
        return Known(node) if node is not None else absence(name, self.nodes)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Slurm's nodes by name; none when they are unknown."""
        return {node.name: node for node in self.nodes.items} if isinstance(self.nodes, SlurmList) else {}

    @property
    def is_blind(self) -> bool:
        """Whether Slurm has not said enough to choose anybody by."""
        return isinstance(self.nodes, Unknown) or isinstance(self.jobs, Unknown)

    @property
    def lacks_only_jobs(self) -> bool:
        """Whether nodes were read but jobs were not; a decision may depend on more jobs than can be read."""
        return isinstance(self.nodes, SlurmList) and isinstance(self.jobs, Unknown)

    def about(self, name: str, on_nodes: Mapping[str, Sequence[Job]]) -> NodeSnapshot:
        """The same with the jobs of one node alone: a thousand workers need not look at a thousand jobs each."""
        return self if isinstance(self.jobs, Unknown) else replace(self, jobs=tuple(on_nodes.get(name, ())))


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a node that Slurm's list lacks may still be at work."""

    text: str
    # Whether all that is open is that Slurm, asked for the node by name, says so too.
    awaits_confirmation: bool = False


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker pod and its Slurm node."""

    pod: Pod
    ordinal: int | None
    hostname: str
    view: NodeView
    may_remove: policy.Yes | policy.No
    deadline: Limit
    # Why its node, which Slurm's list lacks, may still be at work; None when it is not, or when the list has it.
    absence_doubt: Doubt | None = None
    # Who else has its host name, and so its node record; empty when nobody has.
    rival: str = ""
    # Why it goes, as the drain of its node says; empty when it says nothing of the kind.
    drained_for: str = ""

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.pod.metadata.name

    @property
    def node(self) -> Node | None:
        """The Slurm node, when Slurm described it."""
        return self.view.node if isinstance(self.view, Known) else None

    @property
    def condemned(self) -> str:
        """Why it was chosen to go; empty when it was not."""
        return self.mark or self.drained_for

    @property
    def mark(self) -> str:
        """The same, as it is written on its pod."""
        return self.pod.metadata.annotations.get(labels.CONDEMNED, "")

    @property
    def is_terminating(self) -> bool:
        """Whether Kubernetes is already taking it down."""
        return bool(self.pod.metadata.deletion_timestamp)

    @property
    def is_over(self) -> bool:
        """Whether its containers have ended for good."""
        return self.pod.status.phase in ("Failed", "Succeeded")

    @property
    def is_ready(self) -> bool:
        """Whether it runs and is ready."""
        return self.pod.status.phase == "Running" and self.ready_since is not None

    @property
    def ready_since(self) -> datetime | None:
        """Since when it has been ready."""
        for condition in self.pod.status.conditions:
            if condition.type == "Ready" and condition.status == "True":
                return parse_time(condition.last_transition_time)
        return None

    def container_since(self, name: str) -> datetime | None:
        """When one of its containers started, so no process in it is older; None if it is not running."""
        return container_since(self.pod, name)

    def is_available(self, min_ready_seconds: int, now: datetime) -> bool:
        """Whether it has been ready for long enough."""
        since = self.ready_since
        return self.is_ready and since is not None and (now - since).total_seconds() >= min_ready_seconds

    def unregistered_since(self, now: datetime) -> datetime | None:
        """Since when a ready worker has been unknown to Slurm; None while it is known, or is not ready."""
        since = self.ready_since
        if not isinstance(self.view, Absent) or since is None:
            return None
        for condition in self.pod.status.conditions:
            if condition.type == REGISTERED:
                lost = parse_time(condition.last_transition_time)
                # It was known a moment ago: the loss begins now.
                return max(since, lost or now) if condition.status == "False" else now
        return since

    @property
    def awaits_confirmation(self) -> bool:
        """Whether Slurm's list lacks its node, and all that is open is whether Slurm says so when asked by name."""
        return self.absence_doubt is not None and self.absence_doubt.awaits_confirmation

    def may_still_register(self, now: datetime) -> bool:
        """Whether Slurm lacks its node, but not for long."""
        lost = self.unregistered_since(now)
        return lost is not None and (now - lost).total_seconds() < REGISTRATION_GRACE_SECONDS

    def was_lost_within(self, seconds: float, now: datetime) -> bool:
        """Whether Slurm had its node, and has not been without it for longer than that."""
        if not isinstance(self.view, Absent):
            return False
        for condition in self.pod.status.conditions:
            if condition.type == REGISTERED:
                since = parse_time(condition.last_transition_time) or now
                is_recent = condition.message == NO_LONGER_REGISTERED and (now - since).total_seconds() < seconds
                return condition.status == "True" or is_recent
        return False

    @property
    def is_cordoned_by_user(self) -> bool:
        """Whether somebody asked for its node to be drained."""
        annotations = self.pod.metadata.annotations
        return "true" in (annotations.get(labels.POD_CORDON), annotations.get(labels.OLD_POD_CORDON))

    @property
    def revision(self) -> str:
        """The revision that it was made from."""
        return self.pod.metadata.labels.get(labels.REVISION, "")

    @property
    def cost(self) -> int:
        """What its deletion costs, as a user put it."""
        written = self.pod.metadata.annotations.get(labels.POD_DELETION_COST, "")
        return int(written) if _COST.fullmatch(written) and abs(int(written)) < 2**31 else 0


def workers(cr: NodeSet, pods: Iterable[Pod], slurm: NodeSnapshot, now: datetime, settled: int = 0) -> list[Worker]:
    """The workers of a NodeSet, by name; `settled` are more of them, all registered."""
    known = list(pods)
    hostnames = {hostname_of(cr, pod) for pod in known}
    on_nodes = jobs_by_node(slurm.jobs, hostnames)
    ends = policy.deadlines(on_nodes)
    result = [_worker(cr, pod, slurm, ends) for pod in known]
    in_bulk = lost_in_bulk(result, now, settled)
    judged = (_judged(worker, slurm.about(worker.hostname, on_nodes), in_bulk, now) for worker in result)
    return sorted(judged, key=lambda worker: (worker.ordinal if worker.ordinal is not None else -1, worker.name))


def jobs_by_node(jobs: Sequence[Job] | Unknown, names: Set[str]) -> dict[str, list[Job]]:
    """The jobs that name each of these nodes."""
    return {} if isinstance(jobs, Unknown) else policy.jobs_by_node(jobs, names)


def _worker(cr: NodeSet, pod: Pod, slurm: NodeSnapshot, ends: Mapping[str, Limit]) -> Worker:
    hostname = hostname_of(cr, pod)
    seen = slurm.view(hostname)
    other = other_cluster_of(cr, pod)
    if other:
        # This cluster's word, its silence too, is about other nodes.
        seen = Unknown(f"pod {pod.metadata.name} is a worker of Controller {other!r}")
    why = drained_for(seen.node, f"{cr.namespace}/{cr.name}") if isinstance(seen, Known) else ""
    not_judged = policy.No("not judged yet")
    return Worker(pod, ordinal_of(cr, pod), hostname, seen, not_judged, ends.get(hostname), drained_for=why)


def _judged(worker: Worker, slurm: NodeSnapshot, in_bulk: Set[str], now: datetime) -> Worker:
    if isinstance(worker.view, Absent):
        worker = replace(worker, absence_doubt=absence_in_doubt(worker.hostname, slurm, in_bulk))
    return replace(worker, may_remove=_may_remove(worker, slurm, now))


def _may_remove(worker: Worker, slurm: NodeSnapshot, now: datetime) -> policy.Yes | policy.No:
    if not isinstance(worker.view, Absent):
        return policy.may_remove(worker.view, slurm.jobs)
    if worker.absence_doubt is not None:
        return policy.No(worker.absence_doubt.text)
    if worker.may_still_register(now):
        return policy.No(f"node {worker.hostname} is not registered in Slurm, but its slurmd may still register")
    return policy.Yes()


def lost_in_bulk(some: Iterable[Worker], now: datetime, settled: int = 0) -> frozenset[str]:
    """The nodes that Slurm had and has lost a moment ago, where these are too many to be believed at once.

    `settled` are more workers, all registered.
    """
    registered = [worker for worker in some if worker.node is not None or worker.was_lost_within(DOUBT_SECONDS, now)]
    lost = [worker.hostname for worker in registered if worker.node is None]
    return frozenset() if is_plausible(len(lost), len(registered) + settled) else frozenset(lost)


def absence_in_doubt(hostname: str, slurm: NodeSnapshot, in_bulk: Set[str] = frozenset()) -> Doubt | None:
    """Why a node that Slurm's list lacks may still be at work; None when it is not."""
    if hostname in in_bulk:
        seconds = f"{DOUBT_SECONDS:g} s"
        return Doubt(f"Slurm has lost node {hostname} and many others at once; this is believed after {seconds}")
    if isinstance(slurm.jobs, Unknown):
        return Doubt(f"Slurm's list of jobs is not available: {slurm.jobs.why}")
    # Before anybody asks: while a job is there, the answer is of no use.
    holders = [job.job_id for job in slurm.jobs if policy.occupies(job, hostname)]
    if holders:
        return Doubt(f"Slurm has no record of node {hostname}, but job {holders[0]} runs on it")
    if slurm.absent is None or hostname in slurm.absent:
        return None
    return Doubt(f"Slurm's list lacks node {hostname}; asking for it by name", awaits_confirmation=True)


def container_since(pod: Pod, name: str) -> datetime | None:
    """Since when a container of a pod runs; None while it does not."""
    for status in pod.status.container_statuses:
        if status.name == name and status.state.running is not None:
            return parse_time(status.state.running.started_at)
    return None


def other_cluster_of(cr: NodeSet, pod: Pod) -> str:
    """The Controller that a pod was made for, when it is not the one that the NodeSet names now; else empty."""
    made_for = pod.metadata.labels.get(labels.CLUSTER, "")
    return made_for if made_for != cr.spec.controller_ref.name else ""


def hostname_of(cr: NodeSet, pod: Pod) -> str:
    """The Slurm node name of a pod."""
    if pod.spec.host_network and not cr.is_daemon:
        return pod.spec.node_name
    return pod.spec.hostname or pod.metadata.labels.get(labels.POD_HOSTNAME, "") or pod.metadata.name


def ordinal_of(cr: NodeSet, pod: Pod) -> int | None:
    """The number in a pod's name, in StatefulSet mode."""
    prefix, _, number = pod.metadata.name.rpartition("-")
    return whole_number(number) if prefix == cr.name else None


def in_deletion_order(some: Iterable[Worker], now: datetime) -> list[Worker]:
    """The workers that would go first, first."""
    return sorted(some, key=lambda worker: _deletion_key(worker, now))


def _deletion_key(worker: Worker, now: datetime) -> tuple[object, ...]:
    since = worker.ready_since
    return (
        bool(worker.pod.spec.node_name),
        _PHASES.get(worker.pod.status.phase, 2),
        worker.is_ready,
        worker.cost,
        _deadline_key(worker.deadline),
        not worker.is_cordoned_by_user,
        -(worker.ordinal if worker.ordinal is not None else 0),
        (now - since).total_seconds() if since else -1.0,
        -(parse_time(worker.pod.metadata.creation_timestamp) or _LONG_AGO).timestamp(),
    )


def _deadline_key(deadline: Limit) -> float:
    if deadline is None:
        return 0.0
    return float(deadline) if isinstance(deadline, int) else float("inf")
