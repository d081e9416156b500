"""A small Slurm in one process: what slurmrestd would answer, and what slurmds, users and admins do to it.

In: calls of the scenario (`register`, `submit`, `admin_drain` …) and requests of the real client through `Line`. Out:
answers in the shape of recorded ones. Records outlive their slurmd; a job dies when the slurmd under it does.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.campaigns.partition_model import PartitionModel
from tests.slurm.replay import VERSIONS, kept_answer

from kube_runtime.clock import Clock
from slurm_operator.plan.token import read
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.errors import SlurmTimeout, SlurmUnreachable
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

OVER = frozenset({"COMPLETED", "NODE_FAIL", "CANCELLED"})
MIN_JOB_AGE = 300.0
MISSING_NODE = 2018
MISSING_JOB = 2017
MISSING_PARTITION = 2000
BUSY_PARTITION = 2075
BUSY_NODE = 2016
MISSING_RESERVATION = 2053
# What a state is called that nobody knows, and what slurmctld makes of a change to no state.
UNKNOWN_FLAG = 9207
BAD_STATE = {"24.11": 2028, "26.05": 2180}
STATES = frozenset({"DRAIN", "UNDRAIN", "RESUME", "DOWN", "IDLE"})
PING_SECONDS = 1.0
# How long slurmctld takes to notice that a slurmd that said goodbye does not answer any more.
SILENCE_SECONDS = 60.0
# So long a batch job, or slurmctld itself, is too young for a job to be missed.
MISSED_AFTER_SECONDS = 20.0
# How a refusal by slurmctld is coded.
REFUSED = {"24.11": 500, "26.05": 422}


@functools.cache
def recorded(release: str, name: str) -> Any:
    """The body of one recorded answer."""
    return kept_answer(release, name).get("json")


@dataclass
class NodeRecord:
    """What slurmctld knows of a node."""

    name: str
    base: str = "IDLE"
    flags: set[str] = field(default_factory=lambda: {"DYNAMIC_NORM"})
    reason: str = ""
    reason_by: str = ""
    comment: str = ""
    features: list[str] = field(default_factory=list)
    active_features: list[str] = field(default_factory=list)
    topology: str = ""
    # A record that was never updated is not on slurmctld's disk.
    saved: bool = False

    @property
    def takes_jobs(self) -> bool:
        """Whether the scheduler may use it."""
        return self.base == "IDLE" and not self.flags & {"DRAIN", "NOT_RESPONDING", "MAINTENANCE", "FAIL"}


@dataclass
class JobRecord:
    """What slurmctld knows of a job."""

    job_id: int
    partition: str
    seconds: float
    state: str = "PENDING"
    nodes: tuple[str, ...] = ()
    started: float = 0.0
    submitted: float = 0.0
    # Its processes are gone, and Slurm does not know it.
    ghost: bool = False

    @property
    def holds(self) -> bool:
        """Whether it occupies its nodes."""
        return self.state in ("RUNNING", "SUSPENDED")


class SlurmModel:
    """slurmctld's memory, the slurmds that live, and who uses them."""

    def __init__(self, clock: Clock, key: bytes, release: str = "26.05", cluster_name: str = "hpc_slurm") -> None:
        self.clock, self.key, self.release, self.cluster_name = clock, key, release, cluster_name
        # By Slurm's source there are settings in which the reason of a lifted drain stays until the next job.
        self.forgets_reasons = True
        self.nodes: dict[str, NodeRecord] = {}
        self.jobs: dict[int, JobRecord] = {}
        self.reservations: dict[str, dict[str, Any]] = {}
        self.live_partitions = PartitionModel(release)
        self.slurmds: set[str] = set()
        self.up = False
        self.lost: list[int] = []
        # Jobs whose partition left slurm.conf before their record did: slurmctld would not start again.
        self.orphaned: list[int] = []
        self.changes = 0
        self.reconfigures = 0
        self.changed_at = {"nodes": self._now(), "jobs": self._now(), "partitions": self._now(), "reservations": 0.0}
        self._next_job = 1

    def _now(self) -> float:
        return self.clock.now().timestamp()

    def touch(self, *what: str) -> None:
        """Something changed."""
        self.changes += 1
        for each in what:
            self.changed_at[each] = self._now()

    # What slurmds do

    def register(self, name: str, features: Iterable[str] = ()) -> None:
        """A slurmd starts, or its pod is back."""
        self.slurmds.add(name)
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = NodeRecord(name, features=sorted(features), active_features=sorted(features))
        node.flags.discard("NOT_RESPONDING")
        if node.base == "DOWN" and node.reason in ("", "Not responding"):
            node.base, node.reason = "IDLE", ""
        self.touch("nodes")
        self.schedule()

    def stop_slurmd(self, name: str, reason: str) -> None:
        """A slurmd ends in good order: it says that it is down, and its jobs are lost."""
        self.slurmds.discard(name)
        for job in self.jobs.values():
            if job.holds and name in job.nodes:
                job.state = "NODE_FAIL"
                self.lost.append(job.job_id)
        node = self.nodes.get(name)
        if node is not None and self.up:
            node.base, node.reason, node.reason_by = "DOWN", reason, "slurm"
            self.clock.call_later(SILENCE_SECONDS, functools.partial(self._miss_slurmd, name))
        self.touch("nodes", "jobs")

    def _miss_slurmd(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is not None and not self.alive(name) and "NOT_RESPONDING" not in node.flags:
            node.flags.add("NOT_RESPONDING")
            self.touch("nodes")

    def lose_contact(self, name: str) -> None:
        """slurmctld and a slurmd no longer understand each other: what ran there is lost."""
        before = self.nodes[name].reason if name in self.nodes else ""
        self.stop_slurmd(name, f"{before} : Not responding" if before else "Not responding")
        self._miss_slurmd(name)

    def restart_container(self, name: str) -> None:
        """A slurmd is killed with all that ran beside it, and is back before anybody noticed."""
        for job in self.jobs.values():
            job.ghost = job.ghost or (job.holds and name in job.nodes)
        self._miss_jobs(name)

    def _miss_jobs(self, name: str) -> None:
        """A slurmd registers: slurmctld requeues a batch job that it should have and does not."""
        missed = self._now() - MISSED_AFTER_SECONDS
        for job in self.jobs.values():
            if job.ghost and job.holds and name in job.nodes and job.started < missed:
                job.state, job.nodes, job.ghost, job.submitted = "PENDING", (), False, self._now()
                self.touch("nodes", "jobs")

    # What users and admins do

    def submit(self, seconds: float, partition: str = "compute") -> int:
        """A job of one node."""
        number, self._next_job = self._next_job, self._next_job + 1
        self.jobs[number] = JobRecord(number, partition, seconds, submitted=self._now())
        self.touch("jobs")
        self.schedule()
        return number

    def forget_all_jobs(self) -> None:
        """slurmctld comes up without its state: it counts from 1 again, and what runs it does not know."""
        self.jobs.clear()
        self._next_job = 1
        self.touch("nodes", "jobs")

    def occupy(self, number: int, node: str) -> None:
        """A job of that number runs on that node until `end`."""
        self.jobs[number] = JobRecord(number, "compute", 300.0, "RUNNING", (node,), self._now(), self._now())
        self._next_job = max(self._next_job, number + 1)
        self.touch("nodes", "jobs")

    def schedule(self) -> None:
        """Start what can start."""
        for job in self.jobs.values():
            free = next((n for n in self._free()), None)
            if job.state == "PENDING" and free is not None:
                job.state, job.nodes, job.started = "RUNNING", (free.name,), self._now()
                free.reason = ""
                self.clock.call_later(job.seconds, functools.partial(self.end, job.job_id))
                self.touch("nodes", "jobs")

    def _free(self) -> Iterable[NodeRecord]:
        held = {name for job in self.jobs.values() if job.holds for name in job.nodes}
        return (n for _, n in sorted(self.nodes.items()) if n.takes_jobs and n.name not in held and self.alive(n.name))

    def alive(self, name: str) -> bool:
        """Whether its slurmd runs."""
        return name in self.slurmds

    def end(self, job_id: int) -> None:
        """A job is done."""
        job = self.jobs.get(job_id)
        if job is not None and job.state == "RUNNING" and not job.ghost:
            job.state = "COMPLETED"
            self.touch("nodes", "jobs")
            self.clock.call_later(MIN_JOB_AGE, functools.partial(self._forget, job_id))
            self.schedule()

    def _forget(self, job_id: int) -> None:
        self.jobs.pop(job_id, None)
        self.touch("jobs")

    def cancel_pending(self, job_id: int) -> None:
        """Its user gives up waiting."""
        job = self.jobs.get(job_id)
        if job is not None and job.state == "PENDING":
            job.state = "CANCELLED"
            self.touch("jobs")
            self.clock.call_later(MIN_JOB_AGE, functools.partial(self._forget, job_id))

    def suspend(self, job_id: int) -> None:
        """A job that holds its node, which then looks idle."""
        self.jobs[job_id].state = "SUSPENDED"
        self.touch("nodes", "jobs")

    def resume_job(self, job_id: int, seconds: float) -> None:
        """A suspended job goes on."""
        self.jobs[job_id].state = "RUNNING"
        self.clock.call_later(seconds, functools.partial(self.end, job_id))
        self.touch("nodes", "jobs")

    def admin_drain(self, name: str, reason: str = "broken fan") -> None:
        """`scontrol update` by a person."""
        node = self.nodes[name]
        node.flags.add("DRAIN")
        node.reason, node.reason_by = reason, "root"
        self.touch("nodes")

    def drain_by_itself(self, name: str, reason: str = "Epilog error") -> None:
        """slurmctld drains a node: of the reasons that are there, it replaces only its own for a silent node."""
        node = self.nodes[name]
        if "DRAIN" not in node.flags:
            node.flags.add("DRAIN")
            if not node.reason or node.reason.startswith("Not responding"):
                node.reason, node.reason_by = reason, "slurm"
        self.touch("nodes")

    def refuse_registration(self, name: str, reason: str = "Low RealMemory") -> None:
        """What a slurmd registers does not fit the record."""
        self.nodes[name].flags.add("INVALID_REG")
        self.drain_by_itself(name, reason)

    def admin_resume(self, name: str) -> None:
        """The same person puts the node back."""
        node = self.nodes[name]
        node.flags.discard("DRAIN")
        node.reason = ""
        self.touch("nodes")
        self.schedule()

    def kill_controller(self) -> None:
        """kill -9 of slurmctld: what was not on disk is forgotten, and it is back at once."""
        self.nodes = {name: node for name, node in self.nodes.items() if node.saved}
        self.touch("nodes")

    def read_config(self, slurm_conf: str) -> None:
        """A reconfigure: partitions as the file names them."""
        changed, gone = self.live_partitions.read(slurm_conf)
        self.orphaned += [job.job_id for job in self.jobs.values() if job.partition in gone]
        if changed:
            self.reconfigures += 1
            self.touch("partitions")

    @property
    def partitions(self) -> dict[str, str]:
        """By partition: the nodes as they were declared."""
        return self.live_partitions.declared_nodes()

    def jobs_on(self, name: str) -> list[int]:
        """The jobs that a node holds."""
        return [job.job_id for job in self.jobs.values() if job.holds and name in job.nodes]

    # What slurmrestd answers

    def answer(self, sending: Sending, token: str) -> Reply:
        """One request."""
        _, service, version, *rest = sending.path.split("/")
        if version != VERSIONS[self.release] or service != "slurm":
            return Reply(404, "text/plain", b"Unable to find requested URL endpoint.")
        held = read(token, self.key)
        if held is None or not held.issued <= self._now() < held.ends:
            return self._unauthorized(rest[0])
        what, *name = [unquote(part) for part in rest if part]
        if (what, *name) == ("jobs", "state"):
            return self._get_job_states(sending)
        if what == "reservation" and self.release == "24.11" and sending.method != "GET":
            return self._nothing(sending)
        call: Callable[..., Reply] = getattr(self, f"_{sending.method.lower()}_{what}", self._nothing)
        return call(sending, *name)

    def _unauthorized(self, what: str) -> Reply:
        if what == "ping":
            # slurmrestd answers for itself: it could not reach slurmctld in the caller's name.
            return self._json({"pings": copy.deepcopy(recorded(self.release, "ping_refused_token")["pings"])})
        refused = {"errors": [_error(1007, "Protocol authentication error")]}
        return self._json({**refused, "jobs": [], "last_update": _number(0)} if what == "jobs" else refused, 511)

    def _get_diag(self, _: Sending) -> Reply:
        return self._json({"statistics": copy.deepcopy(recorded(self.release, "diag")["statistics"])})

    def _nothing(self, sending: Sending, *_: str) -> Reply:
        return Reply(404, "text/plain", f"Unable to find {sending.path}".encode())

    def _get_ping(self, _: Sending) -> Reply:
        return self._json({"pings": copy.deepcopy(recorded(self.release, "ping")["pings"])})

    def _get_nodes(self, sending: Sending) -> Reply:
        return self._list("nodes", sending, [self._node(node) for _, node in sorted(self.nodes.items())])

    def _get_node(self, _: Sending, name: str) -> Reply:
        node = self.nodes.get(name)
        if node is None:
            return self._json({"errors": [_error(0, "No error")]})
        return self._json({"nodes": [self._node(node)], "last_update": _number(self._now())})

    def _get_jobs(self, sending: Sending) -> Reply:
        return self._list("jobs", sending, [self._job(job) for job in self.jobs.values()])

    def _get_job_states(self, _: Sending) -> Reply:
        found = [{"job_id": str(job.job_id), "state": [job.state]} for job in self.jobs.values()]
        return self._json({"jobs": found})

    def _get_job(self, _: Sending, number: str) -> Reply:
        job = self.jobs.get(int(number))
        if job is None:
            missing = [_error(MISSING_JOB, "Invalid job id specified")]
            return self._json({"jobs": [], "errors": missing, "last_update": _number(0)}, 404)
        return self._json({"jobs": [self._job(job)], "last_update": _number(self._now())})

    def _get_partitions(self, sending: Sending) -> Reply:
        items = [self._partition(shape) for _, shape in sorted(self.live_partitions.shapes.items())]
        return self._list("partitions", sending, items)

    def _post_partitions(self, sending: Sending) -> Reply:
        if self.release == "24.11":
            return self._nothing(sending)
        for body in json.loads(sending.body or b"{}")["partitions"]:
            self.live_partitions.set(body)
        self.touch("partitions")
        return self._json({})

    def _delete_partition(self, sending: Sending, name: str) -> Reply:
        if self.release == "24.11":
            return self._nothing(sending)
        if name not in self.partitions:
            return self._json({"errors": [_error(MISSING_PARTITION, "Invalid partition name specified")]}, 422)
        if any(job.partition == name and job.state not in OVER for job in self.jobs.values()):
            return self._json({"errors": [_error(BUSY_PARTITION, "Partition is in use")]}, 422)
        del self.live_partitions.shapes[name]
        self.touch("partitions")
        return self._json({})

    def _get_reservations(self, sending: Sending) -> Reply:
        return self._list("reservations", sending, [dict(each) for each in self.reservations.values()])

    def _post_nodes(self, sending: Sending) -> Reply:
        body = json.loads(sending.body or b"{}")
        names = [name for text in body["name"] for name in hostlist.expand(text)]
        missing = [name for name in names if name not in self.nodes]
        if not STATES.issuperset(body.get("state", ())):
            unknown = [_error(UNKNOWN_FLAG, "invalid flag"), _error(BAD_STATE[self.release], "Invalid node state")]
            return self._json({"errors": unknown}, 500)
        resumed = {"UNDRAIN", "RESUME"} & set(body.get("state", ()))
        if resumed and any("INVALID_REG" in self.nodes[name].flags for name in names if name in self.nodes):
            return self._refused(BAD_STATE[self.release], "Invalid node state specified")
        for name in names:
            if name in self.nodes:
                self._update(self.nodes[name], body)
        self.touch("nodes")
        self.schedule()
        return self._refused(MISSING_NODE, "Invalid node name specified") if missing else self._json({})

    def _refused(self, number: int, text: str) -> Reply:
        return self._json({"errors": [_error(number, text)]}, REFUSED[self.release])

    def _update(self, node: NodeRecord, body: dict[str, Any]) -> None:
        node.saved = True
        node.comment = body.get("comment", node.comment)
        node.features = list(body.get("features", node.features))
        node.active_features = list(body.get("features_act", node.active_features))
        node.topology = body.get("topology_str", node.topology)
        if "reason" in body:
            node.reason, node.reason_by = body["reason"], "slurm"
        for state in body.get("state", ()):
            self._set_state(node, state)

    def _set_state(self, node: NodeRecord, state: str) -> None:
        if state == "DRAIN":
            node.flags.add("DRAIN")
        elif state in ("UNDRAIN", "RESUME"):
            node.flags.discard("DRAIN")
            if state == "RESUME" and node.base == "DOWN":
                node.base = "IDLE"
            # 24.11 forgets the reason at once only where no job runs.
            forgotten = self.forgets_reasons and not (self.release == "24.11" and self.jobs_on(node.name))
            if node.base != "DOWN" and forgotten:
                node.reason = ""
            self._ping_soon(node)
        elif state in ("DOWN", "IDLE"):
            node.base = state

    def _ping_soon(self, node: NodeRecord) -> None:
        """A node that is put back counts as silent until its slurmd has answered."""
        node.flags.add("NOT_RESPONDING")
        self.clock.call_later(PING_SECONDS, functools.partial(self._pinged, node.name))

    def _pinged(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is not None and self.alive(name):
            node.flags.discard("NOT_RESPONDING")
            if self.forgets_reasons and "DRAIN" not in node.flags and node.base != "DOWN":
                node.reason = ""
            self._miss_jobs(name)
            self.touch("nodes")
            self.schedule()

    def _delete_node(self, _: Sending, listed: str) -> Reply:
        """Every record of a host list that can go, goes; the last that cannot is the error."""
        refused = 0
        for name in hostlist.expand(listed):
            refused = MISSING_NODE if name not in self.nodes else BUSY_NODE if self.jobs_on(name) else refused
            if name in self.nodes and not self.jobs_on(name):
                del self.nodes[name]
        self.touch("nodes")
        texts = {MISSING_NODE: "Invalid node name specified", BUSY_NODE: "Requested nodes are busy"}
        return self._refused(refused, texts[refused]) if refused else self._json({})

    def _post_reservation(self, sending: Sending) -> Reply:
        body = json.loads(sending.body or b"{}")
        known = self.reservations.setdefault(
            body["name"], copy.deepcopy(recorded("26.05", "reservations"))["reservations"][0] | {"name": body["name"]}
        )
        known |= {key: body[key] for key in ("start_time",) if key in body}
        if "node_list" in body:
            known["node_list"] = hostlist.compress(body["node_list"])
        if "users" in body:
            known["users"] = ",".join(body["users"])
        if "flags" in body:
            known["flags"] = sorted({*body["flags"], "SPEC_NODES"})
        if "duration" in body:
            known["end_time"] = _number(known["start_time"]["number"] + body["duration"]["number"] * 60)
        self.touch("reservations")
        for edge in ("start_time", "end_time"):
            self.clock.call_later(known[edge]["number"] - self._now(), lambda: self.touch("nodes", "reservations"))
        return self._json({})

    def _delete_reservation(self, _: Sending, name: str) -> Reply:
        if self.reservations.pop(name, None) is None:
            return self._refused(MISSING_RESERVATION, "Requested reservation is invalid")
        self.touch("reservations")
        return self._json({})

    def _get_reconfigure(self, _: Sending) -> Reply:
        self.reconfigures += 1
        return self._json({})

    def _list(self, what: str, sending: Sending, items: list[Any]) -> Reply:
        since = dict(sending.query).get("update_time")
        if since is not None and int(since) - 1 >= int(self.changed_at[what]):
            if what == "jobs":
                return self._json({"jobs": [], "last_update": _number(0)})
            return Reply(304, "", b"")
        if self._confuses(what, since):
            return self._json({"errors": [_error(-1, "Unspecified error")]}, 500)
        return self._json({what: items, "last_update": _number(self._now())})

    def _confuses(self, what: str, since: str | None) -> bool:
        """24.11 asks for the partitions under the same condition, and fails when only the nodes have changed."""
        if self.release != "24.11" or what != "nodes" or since is None:
            return False
        return int(since) - 1 >= int(self.changed_at["partitions"])

    def meta(self) -> dict[str, Any]:
        """Who answers."""
        found: dict[str, Any] = recorded(self.release, "ping")["meta"]
        return found | {"slurm": found["slurm"] | {"cluster": self.cluster_name}}

    def _json(self, content: dict[str, Any], status: int = 200) -> Reply:
        body = {"errors": [], "warnings": [], "meta": self.meta(), **content}
        return Reply(status, "application/json", json.dumps(body).encode())

    def _node(self, node: NodeRecord) -> dict[str, Any]:
        running = any(job.state == "RUNNING" and node.name in job.nodes for job in self.jobs.values())
        base = "ALLOCATED" if running and node.base == "IDLE" else node.base
        maintained = self._in_maintenance(node.name)
        shape: dict[str, Any] = recorded(self.release, "node_busy")["nodes"][0]
        return shape | {
            "name": node.name,
            "hostname": node.name,
            "address": node.name,
            "state": [base, *sorted(node.flags | ({"MAINTENANCE", "RESERVED"} if maintained else set()))],
            "reservation": maintained,
            "reason": node.reason,
            "reason_set_by_user": node.reason_by,
            "comment": node.comment,
            "features": node.features,
            "active_features": node.active_features,
            "topology": node.topology,
            "partitions": sorted(name for name, nodes in self.partitions.items() if nodes in (*node.features, "ALL")),
            "alloc_cpus": 2 if running else 0,
            "alloc_memory": 0,
        }

    def _in_maintenance(self, name: str) -> str:
        now = self._now()
        for each in self.reservations.values():
            runs = each["start_time"]["number"] <= now < each["end_time"]["number"]
            if runs and name in hostlist.expand(each["node_list"]):
                return str(each["name"])
        return ""

    def _job(self, job: JobRecord) -> dict[str, Any]:
        shape: dict[str, Any] = recorded(self.release, "jobs")["jobs"][0]
        return shape | {
            "job_id": job.job_id,
            "job_state": [job.state],
            "partition": job.partition,
            "nodes": ",".join(job.nodes),
            "batch_host": job.nodes[0] if job.nodes else "",
            "start_time": _number(job.started),
            "end_time": _number(job.started + job.seconds),
            "submit_time": _number(job.submitted),
            "time_limit": _number(5),
        }

    def _partition(self, declared: dict[str, Any]) -> dict[str, Any]:
        shape = copy.deepcopy(declared)
        # Hosts by name are no NodeSets.
        hosts = self.nodes.keys() & set(hostlist.expand(shape["node_sets"])) if shape["node_sets"] else set[str]()
        members = [node.name for node in self.nodes.values() if shape["node_sets"] in (*node.features, "ALL")]
        if hosts:
            members, shape["node_sets"] = sorted(hosts), ""
        shape["nodes"] |= {"configured": hostlist.compress(members), "total": len(members)}
        return shape


@dataclass
class Line:
    """The client's transport to the model: `on_call` sees every request and may answer, change or refuse it."""

    model: SlurmModel
    on_call: Callable[[Sending, Callable[[], Reply]], Reply] = lambda _, go: go()
    # Calls that are taken and never answered.
    hangs: Callable[[Sending], bool] = lambda _: False

    async def send(self, sending: Sending, token: str) -> Reply:
        """One request, one reply."""
        if self.hangs(sending):
            await self.model.clock.sleep(sending.seconds)
            raise SlurmTimeout(f"no answer within {sending.seconds:g} s", call=sending.label)
        if not self.model.up:
            raise SlurmUnreachable("cannot connect to slurmrestd: Connection refused", call=sending.label)
        return self.on_call(sending, lambda: self.model.answer(sending, token))

    async def close(self) -> None:
        """There are no connections."""


def is_write(sending: Sending) -> bool:
    """Whether a request changes something."""
    return sending.method != "GET" or sending.path.endswith("/reconfigure")


def _number(value: float) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": int(value)}


def _error(number: int, text: str) -> dict[str, Any]:
    return {"description": "Failure", "error_number": number, "error": text, "source": "model"}
