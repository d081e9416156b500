"""The judge: what must hold after every single event, whatever is broken meanwhile.

In: every write before it is sent, every answer of Slurm, every line of the log. Out: `violations`. It compares what the
operator does with the truth of the models, which the operator cannot see.
"""

from __future__ import annotations

import json
import logging
import re
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tools.condition_places import Place, derived

from kube_runtime.client.requests import Request
from kube_runtime.client.write import Write
from slurm_operator.build import labels
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.policy import BACK_IN_SERVICE_REASON, drain_is_ours
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

if TYPE_CHECKING:
    from tests.campaigns.rig import World

CANARY = "canary-7f3a"
REASON = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")


@cache
def documented() -> set[Place]:
    """On which conditions of which kinds the reference says that a reason may stand."""
    return derived()


class Judge:
    """Watches one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.violations: list[str] = []
        self.read_at: dict[str, float] = {}
        self.replies: dict[str, list[tuple[float, Reply]]] = {}
        self.keys_drawn = 0
        self.expect_loss = False
        # Nodes that somebody drained since the operator last looked at them.
        self.unseen: set[str] = set()
        self.just_drained = False

    def violation(self, which: str, what: str) -> None:
        """Something that must never happen."""
        self.violations.append(f"{which}: {what}")

    # Kubernetes

    def request(self, request: Request) -> None:
        """I7: nothing is asked of one object in another namespace."""
        parts = request.path.split("/")
        if "namespaces" in parts:
            place = parts[parts.index("namespaces") + 1]
            if place not in ("hpc", "default"):
                self.violation("I7", f"{request.method} {request.path}")

    def before(self, write: Write) -> None:
        """Judge a write that is about to be sent."""
        if write.namespace != "hpc":
            self.violation("I7", f"{write.verb} {write.resource.kind} in namespace {write.namespace!r}")
        if write.verb == "delete":
            self._delete(write)
        if write.verb == "patch" and write.resource.kind != "Event" and not _uid(write):
            self.violation("I3", f"{write.verb} {write.resource.kind} {write.name} without a uid")

    def _delete(self, write: Write) -> None:
        kind = write.resource.kind
        if kind == "PersistentVolumeClaim":
            self.violation("I6", f"claim {write.name} is deleted")
        live = self._live(write)
        if not write.body.get("uid"):
            self.violation("I3", f"delete {kind} {write.name} without a uid")
        if live is None:
            return
        owners = live["metadata"].get("ownerReferences") or ()
        if not any(owner["apiVersion"].startswith("slinky.slurm.net/") and owner.get("controller") for owner in owners):
            self.violation("I3", f"{kind} {write.name} is not ours to delete")
        if kind == "Pod" and live["metadata"]["uid"] == write.body["uid"]:
            if _is_trial(live):
                self._trial_goes(live)
            else:
                self._worker_goes(live)

    def _live(self, write: Write) -> Any:
        plural = (
            write.resource.plural if not write.resource.group else f"{write.resource.plural}.{write.resource.group}"
        )
        row = self.world.server.store.get(plural, write.namespace, write.name)
        return None if row is None else row.load()

    def _trial_goes(self, pod: Any) -> None:
        """I1: what tried a configuration was never a worker."""
        if pod["spec"]["hostname"] in self.world.slurm.nodes:
            self.violation("I1", f"trial {pod['metadata']['name']} was a node of Slurm")

    def _worker_goes(self, pod: Any) -> None:
        """I1 and I2: by Slurm's word of this very moment, and never below what must stay."""
        name, slurm = pod["spec"]["hostname"], self.world.slurm
        owner = next(each["name"] for each in pod["metadata"]["ownerReferences"] if each.get("controller"))
        cr = self.world.custom("NodeSet", owner)
        if cr["metadata"].get("annotations", {}).get(labels.FORCE_DELETE) != "true":
            jobs = slurm.jobs_on(name)
            if jobs:
                self.violation("I1", f"pod {name} goes with jobs {jobs}")
            node = slurm.nodes.get(name)
            over = (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")
            if node is not None and not over and "DRAIN" not in node.flags:
                self.violation("I1", f"pod {name} goes undrained ({node.base} {sorted(node.flags)})")
            now = self.world.clock.monotonic()
            for ways in (("GET nodes", f"GET node/{name}"), ("GET jobs", "GET jobs/state")):
                if not any(self.read_at.get(way) == now for way in ways):
                    self.violation("I1", f"pod {name} goes without an answer to {ways[0]}")
        self._enough_stay(cr, pod)

    def _enough_stay(self, cr: Any, pod: Any) -> None:
        node = self.world.slurm.nodes.get(pod["spec"]["hostname"])
        # Written on its pod, or in the reason of its drain.
        is_update = pod["metadata"].get("annotations", {}).get(labels.CONDEMNED) == "update"
        is_update = is_update or (node is not None and node.reason.endswith("pending termination for update"))
        scheduled = (cr["spec"].get("updateStrategy") or {}).get("type") == "ScheduledUpdate"
        if cr["metadata"].get("deletionTimestamp") or scheduled or not is_update or not _is_ready(pod):
            return
        stay = sum(_is_ready(each) for each in self.world.pods(cr["metadata"]["name"]).values()) - 1
        wanted = cr["spec"].get("replicas", 1)
        allowed = -(-wanted // 4)
        if stay < wanted - allowed:
            self.violation("I2", f"{stay} ready workers would stay of {wanted}")

    def after(self, write: Write) -> None:
        """I9: what is written as a status obeys the conventions."""
        if write.verb == "apply" and write.subresource == "status" and write.resource.group.startswith("slinky"):
            live = self._live(write)
            if live is not None:
                self._conditions(write.resource.kind, live)

    def _conditions(self, kind: str, live: Any) -> None:
        name, generation = live["metadata"]["name"], live["metadata"]["generation"]
        seen = live["status"].get("observedGeneration", 0)
        for each in live["status"].get("conditions") or ():
            if not REASON.match(each.get("reason", "")) or each["status"] not in ("True", "False", "Unknown"):
                self.violation("I9", f"{name}: condition {each}")
            if (kind, each["type"], each.get("reason")) not in documented():
                self.violation("I9", f"{kind} {name}: {each['type']} with {each.get('reason')} is not in the reference")
            if each.get("observedGeneration", 0) > generation:
                self.violation("I9", f"{name}: {each['type']} speaks of a generation to come")
            if each["type"] == "Ready" and each["status"] == "True" and seen > generation:
                self.violation("I9", f"{name} is Ready for generation {seen} of {generation}")

    def host_keys_drawn(self) -> None:
        """I5: keys are drawn when there are none, and at no other time."""
        self.keys_drawn += 1
        held = self.world.stored("secrets", "login-ssh-host-keys")
        if held is not None:
            self.violation("I5", "ssh host keys are drawn although there are some")

    # Slurm

    def slurm_read(self, sending: Sending, reply: Reply) -> None:
        """Remember when Slurm last gave a usable answer."""
        if sending.label == "GET nodes" and not self.just_drained:
            self.unseen.clear()
        self.just_drained = False
        asked = sending.label
        if asked == "GET node":
            name = unquote(sending.path.rpartition("/")[2])
            asked = f"GET node/{name}"
            self.unseen.discard(name)
        if reply.status in (200, 304):
            self.read_at[asked] = self.world.clock.monotonic()
        else:
            self.read_at.pop(asked, None)

    def remember(self, sending: Sending, reply: Reply) -> None:
        """Old answers, for the fault that brings them again."""
        if sending.method == "GET" and reply.status == 200:
            self.replies.setdefault(sending.label, []).append((self.world.clock.monotonic(), reply))

    def slurm_write(self, sending: Sending) -> None:
        """I4: drains of others are theirs."""
        if sending.method == "DELETE" and "/node/" in sending.path:
            for name in hostlist.expand(unquote(sending.path.rpartition("/")[2])):
                if self.world.slurm.alive(name):
                    self.violation("I4", f"the record of {name} is deleted under its slurmd")
                if self.world.slurm.jobs_on(name):
                    self.violation("I4", f"the record of {name} is deleted under its jobs")
        if sending.label != "POST nodes":
            return
        body = json.loads(sending.body or b"{}")
        states = body.get("state") or ()
        for name in (name for text in body["name"] for name in hostlist.expand(text)):
            if name in self.unseen:
                # Slurm knows no preconditions: who drains between the last look and the write is overwritten.
                continue
            node = self.world.slurm.nodes.get(name)
            foreign = node is not None and node.reason and not _is_ours(node.reason)
            drained = node is not None and (node.flags & {"DRAIN", "FAIL"} or node.base == "DOWN")
            if (
                foreign
                and drained
                and node is not None
                and node.reason != "Not responding"
                and (states or "reason" in body)
            ):
                self.violation("I4", f"{list(states)} of {name}, which somebody else drained: {node.reason}")

    # Log and rest

    def said(self, record: logging.LogRecord) -> None:
        """I10 and I11: no secret, and nothing that nobody expected."""
        text = record.getMessage()
        if CANARY in text:
            self.violation("I10", f"a secret in the log: {text[:80]}")
        if record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else ""
            self.violation("I11", f"{text[:200]} {error!r}"[:400])

    def at_rest(self) -> None:
        """What must hold whenever the world is quiet."""
        if self.world.slurm.lost and not self.expect_loss:
            self.violation("I1", f"jobs {self.world.slurm.lost} were lost")
        if self.world.slurm.orphaned and not self.expect_loss:
            self.violation("I1", f"the partition of jobs {self.world.slurm.orphaned} left slurm.conf before them")
        for hash_ in self.world.cluster.sidecar.untold:
            self.violation("I11", f"no slurmctld pod was told of configuration {hash_[:12]}; its kubelet found it late")
        for row in self.world.server.store.rows("configmaps", "hpc"):
            if CANARY in json.dumps(row.load()):
                self.violation("I10", f"a secret in ConfigMap {row.name}")
        for resource in ("events", "pods", "nodesets.slinky.slurm.net", "statefulsets.apps"):
            for row in self.world.server.store.rows(resource, "hpc"):
                if CANARY in json.dumps(row.load()):
                    self.violation("I10", f"a secret in {resource} {row.name}")


def _uid(write: Write) -> str:
    return str((write.body.get("metadata") or {}).get("uid") or "")


def _is_ready(pod: Any) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _is_trial(pod: Any) -> bool:
    """Whether a pod is a Controller's own, and so of a slurmd that only tried a configuration."""
    owner = next(each for each in pod["metadata"]["ownerReferences"] if each.get("controller"))
    return bool(owner["kind"] == "Controller")


def _is_ours(reason: str) -> bool:
    """Whether we wrote a reason: for a drain, or for a node that we put back into service."""
    return drain_is_ours(reason) or reason == BACK_IN_SERVICE_REASON
