"""Hostile answers at the door: the real client over a transport that replays bytes.

In: a recorded or modelled answer with one place of it mutated. Out: violations. The client must give model values or a
SlurmError, cheaply, and no mutation may set a worker free that the honest answer keeps.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zlib import crc32

import msgspec
from tests.campaigns.hostile_points import OutOfTime, at_most, peak_bytes, traced
from tests.campaigns.hostile_values import VALUES, HostileValue, Path, hollow, paths, repeated, shown
from tests.campaigns.slurm_model import SlurmModel
from tests.slurm.replay import RECORDED, VERSIONS, kept_answer

from kube_runtime.clock import VirtualClock
from slurm_operator.slurm import hostlist, policy
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import SlurmError
from slurm_operator.slurm.model import Job, JobState, Known, Node, SlurmList, Unknown, view
from slurm_operator.slurm.requests import JobSubmission, PartitionChange, ReservationChange
from slurm_operator.slurm.token import TokenSource, mint
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

KEY = b"k" * 32
# One answer may cost this much; the honest ones take a thousandth of it.
CPU_SECONDS = 0.25
MEMORY_BYTES = 48 * 2**20
HARD_SECONDS = 4.0
AMPLIFIED = 40
# One of so many points is tried, most of them in the model's answers, where lives depend on them.
SHARE_LIVE = 2
SHARE_READ = 24
SHARE_UNREAD = 200
# What the operator reads of an answer, by its last step.
READ = frozenset(
    {
        *("meta", "slurm", "release", "cluster", "errors", "warnings", "last_update", "description", "error"),
        *("error_number", "set", "infinite", "number", "nodes", "jobs", "partitions", "reservations"),
        *("pings", "slurm_conf", "statistics", "status", "code", "message", "job_id"),
        *("name", "state", "reason", "reason_set_by_user", "features", "active_features", "comment", "extra"),
        *("topology", "cpus", "alloc_cpus", "real_memory", "alloc_memory", "gres", "gres_used", "address"),
        *("hostname", "port", "reservation", "weight", "last_busy", "boot_time", "slurmd_start_time"),
        *("version", "job_state", "user_name", "account", "partition", "state_reason", "start_time"),
        *("end_time", "time_limit", "resv_name", "admin_comment", "configured", "total"),
        *("allowed_allocation", "allowed", "deny", "assigned", "billing_weights", "time", "job"),
        *("partition_memory_per_cpu", "partition_memory_per_node", "exclusive", "oversubscribe"),
        *("cpus_per_node", "cpus_per_socket", "over_time_limit", "tier", "job_factor", "accounts", "groups"),
        *("tres", "defaults", "maximums", "minimums", "priority", "alternate", "grace_time", "node_sets"),
        *("flags", "preempt_mode", "node_list", "users", "responding", "primary", "latency", "pinged"),
        *("server_thread_count", "agent_queue_size"),
        *("dbd_agent_queue_size", "jobs_running", "jobs_pending", "jobs_submitted", "jobs_completed"),
        *("req_time_start"),
    }
)

Call = Callable[[SlurmClient], Awaitable[Any]]


def _submission(client: SlurmClient) -> Awaitable[Any]:
    return client.submit(JobSubmission(script="#!/bin/sh\n", name="a"))


# By method and path below the version: what the client is asked for.
CALLS: dict[str, Call] = {
    "GET nodes": lambda client: client.nodes(),
    "GET nodes?": lambda client: client.nodes(since=1),
    "GET jobs": lambda client: client.jobs(),
    "GET jobs?": lambda client: client.jobs(since=1),
    "GET jobs/state": lambda client: client.job_states(),
    "GET partitions": lambda client: client.partitions(),
    "GET partitions?": lambda client: client.partitions(since=1),
    "GET reservations": lambda client: client.reservations(),
    "GET reservations?": lambda client: client.reservations(since=1),
    "GET node": lambda client: client.node("n0"),
    "GET job": lambda client: client.job(1),
    "GET ping": lambda client: client.ping(),
    "GET diag": lambda client: client.diag(),
    "GET conf": lambda client: client.conf(),
    "GET reconfigure": lambda client: client.reconfigure(),
    "POST nodes": lambda client: client.drain(("n0",), "a"),
    "DELETE node": lambda client: client.delete_node("n0"),
    "POST partitions": lambda client: client.set_partition(PartitionChange(name="live")),
    "DELETE partition": lambda client: client.delete_partition("live"),
    "POST reservation": lambda client: client.set_reservation(ReservationChange(name="r1")),
    "DELETE reservation": lambda client: client.delete_reservation("r1"),
    "POST job": _submission,
    "DELETE job": lambda client: client.cancel(1),
}


@dataclass(frozen=True, slots=True)
class Recording:
    """One honest answer, and the call that it answers."""

    release: str
    name: str
    call: str
    status: int
    content_type: str
    document: Any


@dataclass(frozen=True, slots=True)
class DoorPoint:
    """One mutation of one answer."""

    recording: Recording
    path: Path
    value: HostileValue
    times: int = 1

    @property
    def name(self) -> str:
        """What replays it."""
        many = f"-x{self.times}" if self.times > 1 else ""
        where = f"{self.recording.release}/{self.recording.name}"
        return f"R7/{where}/{shown(self.path)}/{self.value.name}{many}"

    def body(self) -> bytes:
        """The hostile answer."""
        if self.times > 1:
            return repeated(self.recording.document, self.path, self.value, self.times)
        return hollow(self.recording.document, self.path).filled(self.value)


@cache
def recordings(release: str) -> tuple[Recording, ...]:
    """Every recorded answer in JSON, and what the model of Slurm answers in the midst of a scale-in."""
    found = []
    for file in sorted((RECORDED / release).glob("*.json")):
        kept = kept_answer(release, file.stem)
        call = _call(kept["method"], kept["path"])
        if "json" in kept and call in CALLS:
            found.append(Recording(release, file.stem, call, kept["status"], kept["content_type"], kept["json"]))
    return (*found, *modelled(release))


def _call(method: str, path: str) -> str:
    resource, _, query = path.partition("?")
    _, _, _, what, *more = resource.split("/")
    what = "jobs/state" if (what, *more) == ("jobs", "state") else what
    return f"{method} {what}{'?' if query else ''}"


@cache
def modelled(release: str) -> tuple[Recording, ...]:
    """Answers about nodes of every kind: free, busy, draining, drained, drained under a suspended job."""
    model = slurm_in_use(release)
    names = {"live-nodes": "nodes", "live-jobs": "jobs", "live-job-states": "jobs/state", "live-job": "job/1"}
    found = []
    for name, below in names.items():
        path = f"/slurm/{VERSIONS[release]}/{below}"
        call = _call("GET", path)
        now = int(model.clock.now().timestamp())
        reply = model.answer(
            Sending(method="GET", path=path, label=call), mint(KEY, user="a", now=now, life=9, token_id="a")
        )
        found.append(Recording(release, name, call, reply.status, reply.content_type, json.loads(reply.body)))
    return tuple(found)


def slurm_in_use(release: str) -> SlurmModel:
    """n0 is idle, n1 busy, n2 busy and draining, n3 drained under a suspended job, n4 drained and idle."""
    model = SlurmModel(VirtualClock(start=1000.0), KEY, release)
    for number in range(5):
        model.register(f"n{number}")
    for number in (1, 2, 3):
        model.occupy(number, f"n{number}")
    model.suspend(3)
    for number in (2, 3, 4):
        model.admin_drain(f"n{number}", f"{policy.REASON_PREFIX}scale-in")
    return model


def points(release: str) -> Iterator[DoorPoint]:
    """Every place of every answer with every value; bombs also in forty items at once."""
    for recording in recordings(release):
        for path in paths(recording.document):
            for value in VALUES:
                yield DoorPoint(recording, path, value)
                if value.is_bomb and any(isinstance(step, int) for step in path):
                    yield DoorPoint(recording, path, value, AMPLIFIED)


def usual(release: str) -> Iterator[DoorPoint]:
    """All values where the operator reads; one of so many where it reads nothing, or the same elsewhere."""
    for point in points(release):
        if crc32(point.name.encode()) % _share(point) == 0:
            yield point


def _share(point: DoorPoint) -> int:
    if point.path and isinstance(point.path[-1], str) and point.path[-1] not in READ:
        return SHARE_UNREAD
    return SHARE_LIVE if point.recording.name.startswith("live-") else SHARE_READ


@dataclass
class Replaying:
    """A transport with one prepared answer; the version is found by an honest ping."""

    release: str
    call: str
    reply: Reply
    honest_ping: Reply
    asked: int = 0
    calls: list[str] = field(default_factory=list)

    async def send(self, sending: Sending, token: str) -> Reply:  # noqa: ARG002
        """One request, one reply."""
        if f"/{VERSIONS[self.release]}/" not in sending.path:
            return Reply(404, "text/plain", b"Unable to find requested URL endpoint.")
        self.calls.append(sending.label)
        return self.reply if _call(sending.method, sending.path) == self.call.rstrip("?") else self.honest_ping

    async def close(self) -> None:
        """There are no connections."""


@cache
def _ping(release: str, cluster: str) -> Reply:
    """An honest ping of the cluster that gave the recording: any other one's answer would not even be read."""
    found = next(each for each in recordings(release) if each.name == "ping")
    meta = found.document["meta"]
    named = {**found.document, "meta": {**meta, "slurm": {**meta["slurm"], "cluster": cluster}}}
    return Reply(found.status, found.content_type, json.dumps(named).encode())


def _cluster_of(document: Any) -> str:
    meta = document.get("meta") if isinstance(document, dict) else None
    return str(((meta or {}).get("slurm") or {}).get("cluster") or "")


def asked(recording: Recording, body: bytes) -> Awaitable[Any]:
    """What the client makes of an answer."""
    reply = Reply(recording.status, recording.content_type, body)
    ping = _ping(recording.release, _cluster_of(recording.document))
    transport = Replaying(recording.release, recording.call, reply, ping)
    client = SlurmClient("http://slurmrestd:6820", TokenSource(lambda: KEY), transport=transport)
    return CALLS[recording.call](client)


def attempt(point: DoorPoint, loop: asyncio.AbstractEventLoop) -> list[str]:
    """What is wrong with what the client makes of it."""
    body, began, peak = point.body(), time.process_time(), peak_bytes()
    wrong: list[str] = []
    try:
        with at_most(HARD_SECONDS):
            found = loop.run_until_complete(asked(point.recording, body))
            _use(found)
            wrong += freed(point, found)
    except SlurmError as error:
        wrong += _said(str(error))
    except (Exception, OutOfTime) as error:
        wrong.append(f"door: {traced(error)}")
    spent, grown = time.process_time() - began, peak_bytes() - peak
    if spent > CPU_SECONDS:
        wrong.append(f"door: {len(body)} bytes cost {spent:.2f} s of CPU")
    if grown > MEMORY_BYTES + 8 * len(body):
        wrong.append(f"door: {len(body)} bytes cost {grown >> 20} MiB")
    return wrong


def _said(text: str) -> list[str]:
    if len(text) > 2000 or not text.isprintable():
        return [f"door: an error that no condition can show: {text[:80]!r}"]
    return []


def _use(found: Any) -> None:
    """What the rest of the program does with values: write them, compare them, count with them."""
    msgspec.json.encode(found, enc_hook=str)
    items = found.items if isinstance(found, SlurmList) else (found,)
    jobs = [each for each in items if isinstance(each, Job)]
    policy.deadlines(policy.jobs_by_node(jobs, frozenset({"n0", "n1"})))
    for each in items:
        if isinstance(each, Node):
            policy.state_text(each), policy.is_drained(each), policy.drain_is_ours(each.reason)
    if isinstance(found, SlurmList):
        hash(items)


# Safety


def freed(point: DoorPoint, found: Any) -> list[str]:
    """The workers and jobs that a mutation lets go although the honest answer holds them."""
    what = point.recording.name
    if not isinstance(found, SlurmList) or _is_a_lie(point):
        return []
    if what == "live-job-states":
        return _lost_states(_honest(point.recording.release)[1], found)
    if what not in ("live-nodes", "live-jobs"):
        return []
    nodes, jobs = _honest(point.recording.release)
    now_nodes = found if what == "live-nodes" else nodes
    now_jobs = found if what == "live-jobs" else jobs
    return [*_free(nodes, jobs, now_nodes, now_jobs), *_vanished(jobs, now_jobs)]


def _free(
    nodes: SlurmList[Node], jobs: SlurmList[Job], now_nodes: SlurmList[Node], now_jobs: SlurmList[Job]
) -> list[str]:
    wrong = []
    for node in nodes.items:
        before = policy.may_remove(Known(node), jobs.items)
        seen = view(node.name, now_nodes)
        if isinstance(before, policy.No) and isinstance(seen, Known):
            word = now_jobs.items if now_jobs.complete else Unknown("incomplete")
            if isinstance(policy.may_remove(seen, word), policy.Yes):
                wrong.append(f"I1: {node.name} may go, although {before.why}")
    return wrong


def _lost_states(jobs: SlurmList[Job], states: SlurmList[JobState]) -> list[str]:
    """Jobs that hold nodes, and that a complete list of states lacks or calls ended."""
    if not states.complete:
        return []
    alive = {each.job_id for each in states.items if not policy.states_are_over(each.states)}
    gone = [job.job_id for job in jobs.items if not policy.is_over(job) and job.job_id not in alive]
    return [f"I1: unfinished jobs {gone} have left a list of states that is called complete"] if gone else []


def _vanished(jobs: SlurmList[Job], now_jobs: SlurmList[Job]) -> list[str]:
    here = {job.job_id for job in now_jobs.items}
    gone = [job.job_id for job in jobs.items if not policy.is_over(job) and job.job_id not in here]
    return (
        [f"I1: unfinished jobs {gone} have left a list that is called complete"] if gone and now_jobs.complete else []
    )


@cache
def _honest(release: str) -> tuple[SlurmList[Node], SlurmList[Job]]:
    found = []
    for recording in modelled(release)[:2]:
        loop = asyncio.new_event_loop()
        found.append(loop.run_until_complete(asked(recording, json.dumps(recording.document).encode())))
        loop.close()
    return found[0], found[1]


def _is_a_lie(point: DoorPoint) -> bool:
    """Whether it is a well-formed answer that says something else: no door can tell it from the truth."""
    try:
        value = json.loads(point.value.raw)
    except (ValueError, RecursionError):
        return False
    match point.path:
        case ("jobs" | "nodes",):
            return bool(value == [])
        case ("jobs", int(), "job_id"):
            # In a list of states, an id is text.
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return is_number or (isinstance(value, str) and value.isdigit())
        case ("jobs", int(), "nodes"):
            return is_host_list(point.value)
        case ("nodes", int(), "name"):
            return isinstance(value, str)
        case _:
            return False


def is_host_list(value: HostileValue) -> bool:
    """Whether it is a text that names nodes, or none."""
    try:
        text = json.loads(value.raw)
        return isinstance(text, str) and hostlist.count(text) >= 0
    except (ValueError, RecursionError, hostlist.HostListError):
        return False
