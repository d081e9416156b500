"""A small cluster as the planners see it: a Controller, a NodeSet, pods, Slurm's word.

Made anew by the fixture `cluster` for each test of a planner, of a report, or of what a reconcile decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from kube_runtime.client import objects
from slurm_operator.api.controller import Controller
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels, revision
from slurm_operator.build.refs import Refs
from slurm_operator.plan.actions import Plan
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.plan.workers import NodeSnapshot
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import Job, Node, SlurmList, Unknown

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
READY_SINCE = "2030-01-01T11:00:00Z"
# How the reason of a drain of ours begins.
OURS = "slurm-operator: "
A = TypeVar("A")


class Cluster:
    """Makes worlds; every method returns a new value."""

    now = NOW

    def controller(self) -> Controller:
        ref = {"name": "keys", "key": "key"}
        raw = {
            "apiVersion": "slinky.slurm.net/v1beta1",
            "kind": "Controller",
            "metadata": {"name": "slurm", "namespace": "ns", "uid": "controller"},
            "spec": {"slurmKeyRef": ref, "jwtKeyRef": ref},
        }
        return msgspec.convert(raw, Controller)

    def nodeset(self, **spec: Any) -> NodeSet:
        metadata = {
            "name": "w",
            "namespace": "ns",
            "uid": "nodeset",
            "resourceVersion": "7",
            "generation": 1,
            "finalizers": [labels.DRAIN_FINALIZER],
            "annotations": spec.pop("annotations", {}),
        }
        raw = {
            "apiVersion": "slinky.slurm.net/v1beta1",
            "kind": "NodeSet",
            "metadata": metadata,
            "spec": {"controllerRef": {"name": "slurm"}, **spec},
        }
        return msgspec.convert(raw, NodeSet)

    def pod(
        self,
        name: str,
        *,
        ready: bool = True,
        phase: str = "Running",
        node: str = "k1",
        annotations: Mapping[str, str] | None = None,
        hash_: str | None = None,
        terminating: bool = False,
        owner: str = "nodeset",
        host: str | None = None,
        states: Iterable[str] = (),
        registered: str = "",
    ) -> objects.Pod:
        newest = hash_ if hash_ is not None else revision.hash_of(self.nodeset())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": READY_SINCE}
        raw = {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "creationTimestamp": "2030-01-01T10:00:00Z",
                "deletionTimestamp": "2030-01-01T11:59:00Z" if terminating else "",
                "labels": {labels.REVISION: newest, labels.INSTANCE: "w"},
                "annotations": dict(annotations or {}),
                "ownerReferences": [{"uid": owner, "kind": "NodeSet", "name": "w", "controller": True}],
            },
            "spec": {"nodeName": node, "hostname": host or name, "subdomain": "slurm-workers-slurm"},
            "status": {"phase": phase, "conditions": [condition, *self._said(states, registered)]},
        }
        return msgspec.convert(raw, objects.Pod)

    def _said(self, states: Iterable[str], registered: str) -> Iterable[dict[str, str]]:
        """What was said of a pod's Slurm node: its states, and since when it is registered, or (with a -) is not."""
        known = {"message": "Slurm has a record of its node", "lastTransitionTime": READY_SINCE}
        if registered.startswith("-"):
            known = {"message": "Slurm has no record of its node", "lastTransitionTime": registered[1:]}
        if registered or states:
            yield {"type": "SlurmNodeRegistered", "status": "False" if registered[:1] == "-" else "True", **known}
        for state in states:
            yield {"type": f"SlurmNodeState{state}", "status": "True", "lastTransitionTime": READY_SINCE}

    def kube_node(self, name: str = "k1", **fields: Any) -> objects.Node:
        raw = {"metadata": {"name": name, **fields.pop("metadata", {})}, "spec": fields}
        return msgspec.convert(raw, objects.Node)

    def slurm(self, *nodes: Node, jobs: Iterable[Job] = (), complete: bool = True) -> NodeSnapshot:
        return NodeSnapshot(SlurmList(nodes, complete, 1), tuple(jobs))

    def blind(self) -> NodeSnapshot:
        return NodeSnapshot(Unknown("no answer"), Unknown("no answer"))

    def node(self, name: str, *states: str, reason: str = "", **fields: Any) -> Node:
        info = {"namespace": "ns", "nodeSetName": "w", "nodeSetUID": "nodeset"}
        fields.setdefault("comment", json.dumps(info, separators=(",", ":")))
        return Node(name=name, states=frozenset(states or ("IDLE",)), reason=reason, **fields)

    def job(self, number: int, *nodes: str, state: str = "RUNNING", **fields: Any) -> Job:
        return Job(job_id=number, nodes=HostList.of(*nodes), states=frozenset({state}), **fields)

    def world(
        self,
        cr: NodeSet,
        pods: Iterable[objects.Pod] = (),
        slurm: NodeSnapshot | None = None,
        nodes: Iterable[objects.Node] = (),
        **fields: Any,
    ) -> NodeSetWorld:
        known = {node.metadata.name: node for node in nodes or (self.kube_node(),)}
        refs = Refs(controllers={"slurm": self.controller()}, nodesets=(cr,))
        return NodeSetWorld(
            cr=cr,
            controller=self.controller(),
            refs=refs,
            pods=tuple(pods),
            slurm=slurm if slurm is not None else self.slurm(),
            now=NOW,
            nodes=known,
            **fields,
        )


def of_type(plan: Plan, kind: type[A]) -> list[A]:
    """The actions of one type in a plan."""
    return [action for action in plan.actions if isinstance(action, kind)]
