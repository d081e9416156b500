"""One Slurm of the stand-in: node records that follow pods, partitions, reservations and jobs, as slurmctld keeps them.

In: what slurmds do (`register`, `lose`), what requests ask for (`update_nodes`, `delete_nodes` …), and the time. Out:
records as JSON in the form that slurmrestd prints. A record is printed once for each change of it, so that a list of
10,000 nodes costs a join. No I/O; `slurm_server.py` serves it.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.campaigns.partition_model import PartitionModel
from tests.slurm.replay import kept_answer

from slurm_operator.build.nodeset import TERMINATING
from slurm_operator.slurm import hostlist

Json = dict[str, Any]

RELEASE = "26.05"
# How long slurmctld waits for the slurmd of a node that was put back into service.
PING_SECONDS = 1.0
MISSING_NODE, MISSING_PARTITION, MISSING_RESERVATION = 2018, 2000, 2053
NOT_RESPONDING = "Not responding"
# Records of nodes stand two levels deep in slurmrestd's pretty output.
_DEEPER = b"\n    "
_FEATURES = re.compile(r"\bFeatures?=(\S+)", re.IGNORECASE)


class Refused(Exception):
    """Slurm says no, with its number."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


@functools.cache
def recorded(name: str) -> Json:
    """The body of an answer that was recorded from a real slurmrestd."""
    found: Json = kept_answer(RELEASE, name)["json"]
    return found


@functools.cache
def _bare_node() -> Json:
    node: Json = recorded("node")["nodes"][0]
    return node


@functools.cache
def _bare_job() -> Json:
    job: Json = recorded("jobs")["jobs"][0]
    return job


def number(value: float) -> Json:
    """A number as Slurm writes one that may be unset."""
    return {"set": True, "infinite": False, "number": int(value)}


def printed(item: Json, *, is_pretty: bool) -> bytes:
    """An item of a list: in slurmrestd's own form with its blanks, or without them."""
    text = msgspec.json.encode(item)
    return msgspec.json.format(text, indent=2).replace(b"\n", _DEEPER) if is_pretty else text


@dataclass(slots=True)
class NodeRecord:
    """What slurmctld knows of a node; `text` is its JSON, None when it has to be printed again."""

    name: str
    address: str = ""
    base: str = "IDLE"
    flags: set[str] = field(default_factory=lambda: {"DYNAMIC_NORM"})
    reason: str = ""
    reason_by: str = ""
    reason_at: float = 0.0
    comment: str = ""
    extra: str = ""
    topology: str = ""
    features: list[str] = field(default_factory=list)
    active_features: list[str] = field(default_factory=list)
    weight: int = 1
    started_at: float = 0.0
    cpu_load: int = 10
    text: bytes | None = None

    @property
    def is_drained(self) -> bool:
        """Whether it takes no new jobs; nothing runs on any of these."""
        return "DRAIN" in self.flags

    def shape(self, partitions: Iterable[str]) -> Json:
        """The record as JSON."""
        return _bare_node() | {
            "name": self.name,
            "hostname": self.name,
            "address": self.address,
            "state": [self.base, *sorted(self.flags)],
            "reason": self.reason,
            "reason_set_by_user": self.reason_by,
            "reason_changed_at": number(self.reason_at),
            "comment": self.comment,
            "extra": self.extra,
            "topology": self.topology,
            "features": self.features,
            "active_features": self.active_features,
            "partitions": sorted(partitions),
            "weight": self.weight,
            "boot_time": number(self.started_at),
            "slurmd_start_time": number(self.started_at),
            "last_busy": number(self.started_at),
            "cpu_load": self.cpu_load,
        }


@dataclass(slots=True)
class Slurm:
    """One cluster: its records, and when each kind of them last changed, in seconds since 1970."""

    cluster_name: str
    now: Callable[[], float]
    is_pretty: bool = True
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    jobs: list[Json] = field(default_factory=list)
    reservations: dict[str, Json] = field(default_factory=dict)
    partitions: PartitionModel = field(default_factory=lambda: PartitionModel(RELEASE))
    changed_at: dict[str, float] = field(default_factory=dict)
    # When a record was last deleted, and when each partition last changed to which time limit in minutes.
    deleted_at: float = 0.0
    partition_changes: list[tuple[float, str, int]] = field(default_factory=list)
    # Nodes that were put back, and when their slurmd is heard of.
    _pinged_at: dict[str, float] = field(default_factory=dict)
    _lists: dict[str, bytes] = field(default_factory=dict)
    # By the NodeSets that a partition names: its nodes, and how many they are.
    _members: dict[str, tuple[str, int]] = field(default_factory=dict)
    _jobs_text: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.touch("nodes", "jobs", "partitions", "reservations")

    def touch(self, *what: str) -> None:
        """Something changed: lists are printed again, and are newer."""
        for each in what:
            self.changed_at[each] = self.now()
            self._lists.pop(each, None)
        if "nodes" in what:
            # A partition shows its nodes; that is no change of the partition.
            self._lists.pop("partitions", None)
            self._members.clear()

    def is_unchanged(self, what: str, since: int) -> bool:
        """slurmctld's own rule: what changed in the second that was asked about is sent again."""
        return since - 1 >= int(self.changed_at[what])

    # What slurmds do

    def register(self, name: str, address: str, conf: str) -> None:
        """A slurmd starts with the options of its node."""
        named = _FEATURES.search(conf)
        features = named[1].split(",") if named else []
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = NodeRecord(name, features=features, active_features=list(features))
        node.address, node.started_at, node.text = address, self.now(), None
        node.flags.discard("NOT_RESPONDING")
        if node.base == "DOWN" and node.reason in ("", NOT_RESPONDING):
            node.base, node.reason = "IDLE", ""
        self.touch("nodes")

    def lose(self, name: str) -> None:
        """A slurmd is gone; its record stays."""
        node = self.nodes.get(name)
        if node is None:
            return
        node.base, node.text = "DOWN", None
        node.flags.add("NOT_RESPONDING")
        node.reason = f"{node.reason} : {NOT_RESPONDING}" if node.reason else NOT_RESPONDING
        node.reason_by, node.reason_at = node.reason_by or "slurm", self.now()
        self._pinged_at.pop(name, None)
        self.touch("nodes")

    def stop(self, name: str) -> None:
        """A slurmd's kubelet tells that it ends, as the hook of its container says."""
        if name in self.nodes:
            self.update_nodes({"name": [name], "state": ["DOWN"], "reason": TERMINATING})

    def beat(self) -> None:
        """slurmctld has asked every slurmd for its load, as it does every minute or two: all records change."""
        for node in self.nodes.values():
            node.cpu_load = 10 + (node.cpu_load * 7 + 3) % 90
            node.text = None
        if self.nodes:
            self.touch("nodes")

    def tick(self) -> None:
        """slurmds of nodes that were put back into service answer."""
        due = [name for name, at in self._pinged_at.items() if at <= self.now()]
        for name in due:
            del self._pinged_at[name]
            node = self.nodes.get(name)
            if node is not None and node.base != "DOWN":
                node.flags.discard("NOT_RESPONDING")
                node.reason = node.reason if node.is_drained else ""
                node.text = None
        if due:
            self.touch("nodes")

    # What requests change

    def update_nodes(self, body: Json) -> int:
        """Change every node of a host list that is there; refused when one is missing. Gives how many changed."""
        names = [name for text in body["name"] for name in hostlist.expand(text)]
        found = [self.nodes[name] for name in names if name in self.nodes]
        for node in found:
            self._update(node, body)
        if found:
            self.touch("nodes")
        if len(found) < len(names):
            raise Refused(MISSING_NODE, "Invalid node name specified")
        return len(found)

    def _update(self, node: NodeRecord, body: Mapping[str, Any]) -> None:
        node.text = None
        node.comment = body.get("comment", node.comment)
        node.extra = body.get("extra", node.extra)
        node.topology = body.get("topology_str", node.topology)
        node.features = list(body.get("features", node.features))
        node.active_features = list(body.get("features_act", node.active_features))
        if "reason" in body:
            node.reason, node.reason_by, node.reason_at = body["reason"], "slurm", self.now()
        for state in body.get("state", ()):
            self._set_state(node, state)

    def _set_state(self, node: NodeRecord, state: str) -> None:
        if state == "DRAIN":
            node.flags.add("DRAIN")
        elif state in ("UNDRAIN", "RESUME"):
            node.flags.discard("DRAIN")
            if state == "RESUME" and node.base == "DOWN":
                node.base = "IDLE"
            if node.base != "DOWN":
                node.reason = ""
                node.flags.add("NOT_RESPONDING")
                self._pinged_at[node.name] = self.now() + PING_SECONDS
        elif state in ("DOWN", "IDLE"):
            node.base = state

    def delete_nodes(self, listed: str) -> int:
        """Delete the records of a host list; refused when one is missing, and the others are gone all the same."""
        names = hostlist.expand(listed)
        gone = [name for name in names if self.nodes.pop(name, None) is not None]
        if gone:
            self.deleted_at = self.now()
            self.touch("nodes")
        if len(gone) < len(names):
            raise Refused(MISSING_NODE, "Invalid node name specified")
        return len(gone)

    def set_partitions(self, body: Json) -> None:
        """Create or change partitions."""
        for each in body["partitions"]:
            # A record names its partitions; a limit of one does not show in it.
            shows = each["name"] not in self.partitions.shapes or "configured" in each.get("nodes", {})
            self.partitions.set(each)
            self._note(each["name"])
            self._print_nodes_again(shows)
        self.touch("partitions")

    def read_conf(self, slurm_conf: str) -> None:
        """A reconfigure: partitions as the file names them."""
        changed, _ = self.partitions.read(slurm_conf)
        if changed:
            for name in self.partitions.shapes:
                self._note(name)
            self.touch("partitions")
            self._print_nodes_again(True)

    def _note(self, name: str) -> None:
        limit = self.partitions.shapes[name]["maximums"]["time"]
        self.partition_changes.append((self.now(), name, int(limit["number"])))

    def _print_nodes_again(self, shows: bool) -> None:
        if shows:
            for node in self.nodes.values():
                node.text = None
            self.touch("nodes")

    def delete_partition(self, name: str) -> None:
        """Delete a partition."""
        if self.partitions.shapes.pop(name, None) is None:
            raise Refused(MISSING_PARTITION, "Invalid partition name specified")
        self.touch("partitions")
        self._print_nodes_again(True)

    def set_reservation(self, body: Json) -> None:
        """Create or change a reservation."""
        bare = copy.deepcopy(recorded("reservations")["reservations"][0])
        known = self.reservations.setdefault(body["name"], bare | {"name": body["name"]})
        known |= {key: body[key] for key in ("start_time",) if key in body}
        if "node_list" in body:
            known["node_list"] = hostlist.compress(body["node_list"])
        if "users" in body:
            known["users"] = ",".join(body["users"])
        if "flags" in body:
            known["flags"] = sorted({*body["flags"], "SPEC_NODES"})
        if "duration" in body:
            known["end_time"] = number(known["start_time"]["number"] + body["duration"]["number"] * 60)
        self.touch("reservations")

    def delete_reservation(self, name: str) -> None:
        """Delete a reservation."""
        if self.reservations.pop(name, None) is None:
            raise Refused(MISSING_RESERVATION, "Requested reservation is invalid")
        self.touch("reservations")

    def submit(self, count: int) -> None:
        """Jobs that wait, so that they hold no node."""
        waiting = {"job_state": ["PENDING"], "nodes": "", "batch_host": "", "submit_time": number(self.now())}
        self.jobs = [_bare_job() | waiting | {"job_id": job_id} for job_id in range(1, count + 1)]
        self._jobs_text = [printed(job, is_pretty=self.is_pretty) for job in self.jobs]
        self.touch("jobs")

    # What responses hold

    def items(self, what: str) -> bytes:
        """The items of a list, joined."""
        found = self._lists.get(what)
        if found is None:
            found = self._lists[what] = b",\n    ".join(self._printed_items(what))
        return found

    def _printed_items(self, what: str) -> list[bytes]:
        match what:
            case "nodes":
                return [self.node_text(node) for node in self.nodes.values()]
            case "jobs":
                return self._jobs_text
            case "partitions":
                shapes = sorted(self.partitions.shapes.items())
                return [printed(self._partition(shape), is_pretty=self.is_pretty) for _, shape in shapes]
            case _:
                return [printed(each, is_pretty=self.is_pretty) for each in self.reservations.values()]

    def node_text(self, node: NodeRecord) -> bytes:
        """A record as JSON, printed at most once for each of its changes."""
        if node.text is None:
            of = (name for name, sets in self.partitions.declared_nodes().items() if sets in (*node.features, "ALL"))
            node.text = printed(node.shape(of), is_pretty=self.is_pretty)
        return node.text

    def _partition(self, declared: Json) -> Json:
        shape = copy.deepcopy(declared)
        configured, total = self._members_of(shape["node_sets"])
        shape["nodes"] |= {"configured": configured, "total": total}
        return shape

    def _members_of(self, node_sets: str) -> tuple[str, int]:
        """The nodes of a partition in the order of their names, as slurmctld keeps them, and how many they are."""
        known = self._members.get(node_sets)
        if known is None:
            sets = set(node_sets.split(","))
            members = [node.name for node in self.nodes.values() if "ALL" in sets or sets & set(node.features)]
            known = self._members[node_sets] = hostlist.compress(hostlist.in_order(members)), len(members)
        return known

    def summary(self) -> Json:
        """What the benchmark waits for, in numbers."""
        nodes = self.nodes.values()
        return {
            "nodes": len(self.nodes),
            "drained": sum(node.is_drained for node in nodes),
            "responding": sum("NOT_RESPONDING" not in node.flags for node in nodes),
            "described": sum(bool(node.comment) for node in nodes),
            "deleted_at": self.deleted_at,
            "partition_changes": self.partition_changes[-200:],
        }
