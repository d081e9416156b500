"""Why no Kubernetes node takes a pod: judged by the nodes that it may go to at all, then by the scheduler's words.

In: facts, a pod, and what the scheduler said. Out: a code and the rest of a sentence. Used by `diagnose/pod.py`. The
scheduler counts every node of the cluster; a taint on a node that the pod never asked for is not the cause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kube_runtime.client.objects import Node, NodeSpec
from slurm_operator.diagnose.facts import Facts, Object, spec_of
from slurm_operator.plan import placement

CORDON_TAINT = "node.kubernetes.io/unschedulable"
NO_LABELS = ("NoNodeFits", "no node has the labels that its nodeSelector or affinity requires")
CORDONED = ("NodesCordoned", "every node that it may run on is cordoned: {names}")
COMMANDS = {
    "NoNodeFits": "kubectl get nodes --show-labels",
    "NodesCordoned": "kubectl get nodes",
    "Tainted": "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key",
    "NotEnoughRoom": "kubectl describe nodes",
    "NodesTaken": "kubectl get nodes",
}
TAINTED = ("Tainted", "every node that it may run on has a taint that it does not tolerate: {names}")


def reading(facts: Facts, pod: Object, message: str) -> tuple[str, str]:
    """The code and the sentence's end."""
    return _by_nodes(facts, spec_of(pod)) or _by_message(message)


def command(code: str, text: str) -> str:
    """What shows why those nodes do not take it, or changes that; empty where only the pod's events say more."""
    if code == CORDONED[0] and ": " in text:
        return f"kubectl uncordon {text.rpartition(': ')[2].partition(',')[0]}"
    return COMMANDS.get(code, "")


def _by_nodes(facts: Facts, spec: Mapping[str, Any]) -> tuple[str, str] | None:
    nodes = [msgspec.convert(each, Node, strict=False) for each in facts.every("Node")]
    if not nodes:
        return None
    bare = [(node, msgspec.structs.replace(node, spec=NodeSpec())) for node in nodes]
    asked = [node for node, clean in bare if placement.should_run(spec, clean)]
    if not asked:
        return NO_LABELS
    names = ", ".join(node.metadata.name for node in asked)
    repelled = [node for node in asked if not placement.should_run(spec, node) or node.spec.unschedulable]
    if len(repelled) < len(asked):
        return None
    code, text = CORDONED if all(_is_only_cordoned(node) for node in repelled) else TAINTED
    return code, text.format(names=names)


def _is_only_cordoned(node: Node) -> bool:
    return node.spec.unschedulable and all(taint.key == CORDON_TAINT for taint in node.spec.taints)


def _by_message(message: str) -> tuple[str, str]:
    lower = message.lower()
    for part, code, text in (
        ("insufficient", "NotEnoughRoom", "no node has enough free " + _lacking(message)),
        ("volume node affinity", "VolumeElsewhere", "one of its volumes is bound to a node that cannot run it"),
        ("anti-affinity", "NodesTaken", "each node already has such a pod, and only one per node is allowed"),
        ("taint", "Tainted", "the nodes have taints that the pod does not tolerate"),
        ("unschedulable", "NodesCordoned", "the nodes are cordoned"),
        ("node affinity", *NO_LABELS),
        ("node selector", *NO_LABELS),
    ):
        if part in lower:
            return code, text
    return "Unschedulable", message or "no reason is given"


def _lacking(message: str) -> str:
    found = re.findall(r"Insufficient ([\w./-]+)", message)
    return " and ".join(dict.fromkeys(found)) or "resources"
