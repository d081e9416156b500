"""Random lives of a NodeSet: what its plans do takes effect, and anything else happens in between.

In: a seed. Out: a `History` whose `world` is what the next reconcile would see. Objects that have not changed stay the
same objects, as in the caches of the operator. Used by `test_histories.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec
from tests.plan.small_cluster import OURS, Cluster

from kube_runtime.client import objects
from kube_runtime.times import time_text
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels
from slurm_operator.plan.actions import (
    Action,
    Create,
    Delete,
    DeleteNodes,
    Drain,
    PatchMetadata,
    PatchPodConditions,
    Plan,
    Undrain,
    UpdateNodes,
)
from slurm_operator.plan.duplicates import Rival
from slurm_operator.plan.keys import KeyState
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.slurm import policy
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import Job, Node, SlurmList, Unknown

BASES = ("IDLE", "ALLOCATED", "MIXED", "DOWN")
FLAGS = ("DRAIN", "NOT_RESPONDING", "COMPLETING", "INVALID_REG", "MAINTENANCE")
KUBE_NODES = ("k1", "k2", "k3")


class History:
    """One NodeSet, its pods, its Slurm, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.cluster = Cluster()
        self.now: datetime = self.cluster.now
        self.spec: dict[str, Any] = {"replicas": self.random.randint(1, 8), "minReadySeconds": 0}
        self.pods: dict[str, objects.Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[int, Job] = {}
        self.kube_nodes = {name: self.cluster.kube_node(name) for name in KUBE_NODES}
        self.key = KeyState()
        self.blind: str = ""
        self.deleting = False
        self.rivals: tuple[Rival, ...] = ()
        self._listed: tuple[Job, ...] = ()
        self._made = 0

    # What is seen

    def world(self) -> NodeSetWorld:
        cr = self._cr()
        whole = self.cluster.world(cr, self.pods.values(), self._snapshot(), self.kube_nodes.values())
        return replace(whole, now=self.now, key=self.key, deleting=self.deleting, rivals=self.rivals)

    def _cr(self) -> NodeSet:
        return self.cluster.nodeset(**self.spec)

    def _snapshot(self) -> NodeSnapshot:
        jobs = tuple(self.jobs.values())
        if len(jobs) != len(self._listed) or any(a is not b for a, b in zip(jobs, self._listed, strict=True)):
            self._listed = jobs
        nodes = SlurmList(tuple(self.nodes.values()), self.blind != "half", 1)
        no_answer = Unknown("no answer")
        return NodeSnapshot(
            no_answer if self.blind == "all" else nodes, no_answer if self.blind in ("all", "jobs") else self._listed
        )

    # What a plan does

    def carry_out(self, plan: Plan) -> None:
        for action in plan.actions:
            # Now and then something is cut off.
            if self.random.random() < 0.95:
                self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Create(desired={"kind": "Pod", "metadata": {"name": name}}):
                self._create(name, action.desired)
            case Delete(kind="Pod"):
                self.pods.pop(action.name, None)
                self._change_node(action.name, states=frozenset({"DOWN", "NOT_RESPONDING"}))
            case PatchMetadata(kind="Pod") if action.name in self.pods:
                self._patch(action)
            case PatchPodConditions() if action.seen.name in self.pods:
                self._set_conditions(action)
            case Drain(nodes=names, reason=why):
                for name in names:
                    self._flag(name, "DRAIN", True, OURS + why)
            case Undrain(nodes=names):
                for name in names:
                    self._flag(name, "DRAIN", False, policy.BACK_IN_SERVICE_REASON)
            case UpdateNodes(nodes=names, changes=changes):
                for name in names:
                    self._update(name, dict(changes))
            case DeleteNodes(nodes=names):
                for name in names:
                    self.nodes.pop(name, None)

    def _create(self, name: str, desired: Any) -> None:
        self._made += 1
        made = self.cluster.pod(
            name,
            ready=False,
            phase="Pending",
            node=self.random.choice(KUBE_NODES),
            annotations=desired["metadata"].get("annotations"),
            hash_=desired["metadata"]["labels"][labels.REVISION],
        )
        meta = msgspec.structs.replace(
            made.metadata, uid=f"uid-{name}-{self._made}", labels=desired["metadata"]["labels"]
        )
        self.pods[name] = msgspec.structs.replace(made, metadata=meta)

    def _patch(self, action: PatchMetadata) -> None:
        pod = self.pods[action.name]
        found = {
            field: {
                k: v for k, v in {**getattr(pod.metadata, field), **getattr(action, field)}.items() if v is not None
            }
            for field in ("labels", "annotations")
        }
        self._change_meta(action.name, **found)

    def _set_conditions(self, action: PatchPodConditions) -> None:
        pod = self.pods[action.seen.name]
        others = [each for each in pod.status.conditions if not each.type.startswith("SlurmNode")]
        said = msgspec.convert([dict(each) for each in action.conditions], list[objects.Condition])
        self._change_status(action.seen.name, conditions=(*others, *said))

    # Changes, each to an object that was not there before

    def _change_meta(self, name: str, **fields: Any) -> None:
        pod = self.pods[name]
        self.pods[name] = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields))

    def _change_status(self, name: str, **fields: Any) -> None:
        pod = self.pods[name]
        self.pods[name] = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, **fields))

    def _change_node(self, name: str, **fields: Any) -> None:
        if name in self.nodes:
            self.nodes[name] = msgspec.structs.replace(self.nodes[name], **fields)

    def _flag(self, name: str, flag: str, on: bool, reason: str) -> None:
        if name in self.nodes:
            states = self.nodes[name].states
            self._change_node(name, states=states | {flag} if on else states - {flag}, reason=reason)

    def _update(self, name: str, changes: dict[str, object]) -> None:
        if changes.pop("state", None) == "RESUME":
            self._change_node(name, states=frozenset({"IDLE"}))
        self._change_node(name, **changes)

    # What else happens

    def happen(self) -> None:
        """One thing that nobody asked for, and often that workers come up."""
        for name in list(self.pods):
            for _ in range(self.random.randint(0, 3)):
                self._come_up(name)
        if self.random.random() < 0.6:
            self.blind = ""
        if self.random.random() < 0.3:
            self.key, self.deleting = KeyState(), False
        if self.random.random() < 0.7:
            self.random.choice(self._events())()
        self.now += timedelta(seconds=self.random.choice((0, 1, 5, 40, 700)))

    def _come_up(self, name: str) -> None:
        pod = self.pods[name]
        if pod.status.phase == "Pending":
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": time_text(self.now)}
            self._change_status(name, phase="Running", conditions=(msgspec.convert(ready, objects.Condition),))
        elif name not in self.nodes and not pod.metadata.deletion_timestamp:
            self.nodes[name] = self.cluster.node(name, comment=self.random.choice(("", "a person's note")))
        elif "DOWN" in self.nodes.get(name, Node(name="")).states and self.random.random() < 0.5:
            self._change_node(name, states=frozenset({"IDLE"}))

    def _events(self) -> tuple[Callable[[], None], ...]:
        return (
            *(self._job_starts, self._job_ends, self._job_changes, self._node_changes, self._node_vanishes),
            *(self._pod_is_touched, self._pod_fails, self._pod_is_deleted, self._cordon, self._kube_node_changes),
            *(self._scale, self._scale, self._template, self._blind, self._key_changes, self._min_ready),
            *(self._rival, self._stranger, self._delete, self._nothing),
        )

    def _any(self, of: Iterable[str]) -> str | None:
        found = sorted(of)
        return self.random.choice(found) if found else None

    def _job_starts(self) -> None:
        number, names = len(self.jobs) + 1 + self.random.randint(0, 1000), sorted(self.nodes)
        some = self.random.sample(names, min(len(names), self.random.randint(0, 3)))
        self.jobs[number] = Job(
            job_id=number,
            nodes=HostList.of(*some),
            states=frozenset({self.random.choice(("RUNNING", "RUNNING", "SUSPENDED", "PENDING"))}),
            batch_host=some[0] if some else "",
            start_time=int((self.now - timedelta(seconds=self.random.choice((1, 4000, 90000)))).timestamp()),
            time_limit=self.random.choice((None, 5, 60, "UNLIMITED")),
        )
        for name in some:
            self._change_node(name, states=frozenset({"ALLOCATED"}) | (self.nodes[name].states & set(FLAGS)))

    def _job_ends(self) -> None:
        if self.jobs:
            job = self.jobs.pop(self.random.choice(sorted(self.jobs)))
            for name in job.nodes:
                self._change_node(name, states=frozenset({"IDLE"}))

    def _job_changes(self) -> None:
        if self.jobs:
            number = self.random.choice(sorted(self.jobs))
            self.jobs[number] = msgspec.structs.replace(self.jobs[number], time_limit=self.random.randint(1, 500))

    def _node_changes(self) -> None:
        if name := self._any(self.nodes):
            flags = {flag for flag in FLAGS if self.random.random() < 0.25}
            reason = self.random.choice(("", "a person", OURS + "was drained", policy.NOT_RESPONDING))
            states = frozenset({self.random.choice(BASES), *flags})
            at = int(self.now.timestamp()) - self.random.choice((0, 3, 100))
            self._change_node(name, states=states, reason=reason, reason_at=at)

    def _node_vanishes(self) -> None:
        for name in sorted(self.nodes) if self.random.random() < 0.2 else [self._any(self.nodes)]:
            self.nodes.pop(name or "", None)

    def _pod_is_touched(self) -> None:
        if name := self._any(self.pods):
            change = self.random.choice(
                (
                    {labels.POD_CORDON: "true"},
                    {labels.CONDEMNED: "scale-in"},
                    {labels.POD_DEADLINE: "2031-01-01T00:00:00Z"},
                    {"x": "y"},
                    {labels.SLURM_KEY_HASH: "old"},
                )
            )
            kept = {k: v for k, v in self.pods[name].metadata.annotations.items() if k != labels.POD_CORDON}
            self._change_meta(name, annotations={**kept, **change})

    def _pod_fails(self) -> None:
        if name := self._any(self.pods):
            self._change_status(name, phase=self.random.choice(("Failed", "Pending", "Running")), conditions=())

    def _pod_is_deleted(self) -> None:
        if name := self._any(self.pods):
            if self.random.random() < 0.5:
                del self.pods[name]
            else:
                self._change_meta(name, deletion_timestamp=time_text(self.now + timedelta(seconds=30)))

    def _cordon(self) -> None:
        name = self.random.choice(KUBE_NODES)
        node = self.kube_nodes[name]
        is_off = not node.spec.unschedulable
        self.kube_nodes[name] = msgspec.structs.replace(
            node, spec=msgspec.structs.replace(node.spec, unschedulable=is_off)
        )

    def _kube_node_changes(self) -> None:
        name = self.random.choice(KUBE_NODES)
        notes = self.random.choice(({}, {labels.FEATURES: "gpu,big"}, {labels.TOPOLOGY: "default:s1"}))
        self.kube_nodes[name] = self.cluster.kube_node(name, metadata={"annotations": notes})

    def _scale(self) -> None:
        self.spec["replicas"] = self.random.randint(0, 9)

    def _template(self) -> None:
        image = self.random.choice(("slurmd:1", "slurmd:2"))
        self.spec["slurmd"] = {"image": {"repository": image.split(":")[0], "tag": image.split(":")[1]}}

    def _min_ready(self) -> None:
        self.spec["minReadySeconds"] = self.random.choice((0, 30))

    def _blind(self) -> None:
        self.blind = self.random.choice(("all", "jobs", "half"))

    def _key_changes(self) -> None:
        self.key = self.random.choice((KeyState(), KeyState("a", "a"), KeyState("a", "b"), KeyState("b", "b", False)))

    def _rival(self) -> None:
        other = msgspec.structs.replace(self._cr(), metadata=msgspec.structs.replace(self._cr().metadata, uid="other"))
        held = frozenset(self.random.sample(sorted(self.pods), min(len(self.pods), 1)))
        self.rivals = self.random.choice(((), (Rival(other, held, only_held=True),)))

    def _stranger(self) -> None:
        if name := self._any(self.nodes):
            info = {"namespace": "ns", "nodeSetName": "x", "nodeSetUID": self.random.choice(("other", "nodeset"))}
            self._change_node(name, comment=json.dumps(info))

    def _delete(self) -> None:
        self.deleting = self.random.random() < 0.1

    def _nothing(self) -> None:
        pass
