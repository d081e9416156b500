"""Why no Kubernetes node takes a pod: judged by the nodes that it may go to at all, then by the scheduler's words.

In: facts, a pod, and what the scheduler said. Out: a code and the rest of a sentence. Used by `diagnose/pod.py`. The
scheduler counts every node of the cluster; a taint on a node that the pod never asked for is not the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from kube_runtime import quantity
from kube_runtime.client.objects import Node, NodeSpec
from slurm_operator.diagnose.facts import Facts, Object, spec_of, status_of
from slurm_operator.plan import placement

CORDON_TAINT = "node.kubernetes.io/unschedulable"
NO_ROOM = "NotEnoughRoom"
NO_LABELS = ("NoNodeFits", "no node has the labels that its nodeSelector or affinity requires")
CORDONED = ("NodesCordoned", "every node that it may run on is cordoned: {names}")
COMMANDS = {
    "NoNodeFits": "kubectl get nodes --show-labels",
    "NodesCordoned": "kubectl get nodes",
    "Tainted": "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key",
    NO_ROOM: "kubectl describe nodes",
    "NodesTaken": "kubectl get nodes",
}
TAINTED = ("Tainted", "every node that it may run on has a taint that it does not tolerate: {names}")


def reading(facts: Facts, pod: Object, message: str) -> tuple[str, str]:
    """The code and the sentence's end."""
    code, text = _by_nodes(facts, spec_of(pod)) or _by_message(message)
    return code, text + (_by_how_much(facts, spec_of(pod), message) if code == NO_ROOM else "")


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
    if all(_is_only_cordoned(node) for node in repelled):
        return CORDONED[0], CORDONED[1].format(names=names)
    return TAINTED[0], TAINTED[1].format(names=", ".join(map(_with_taints, asked)))


def _with_taints(node: Node) -> str:
    taints = (f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in node.spec.taints)
    return f"{node.metadata.name} ({' '.join(taints)})"


def _is_only_cordoned(node: Node) -> bool:
    return node.spec.unschedulable and all(taint.key == CORDON_TAINT for taint in node.spec.taints)


def _by_message(message: str) -> tuple[str, str]:
    lower = message.lower()
    for part, code, text in (
        ("insufficient", NO_ROOM, "no node has enough free " + _lacking(message)),
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
    found = re.findall(r"Insufficient ([\w./-]*\w)", message)
    return " and ".join(dict.fromkeys(found)) or "resources"


def _by_how_much(facts: Facts, spec: Mapping[str, Any], message: str) -> str:
    """What it asks for beside what the largest node has at all, for each resource that is short."""
    requests = []
    for resource in dict.fromkeys(re.findall(r"Insufficient ([\w./-]*\w)", message)):
        asked = sum(_requests(spec, resource), Fraction())
        offers = [_amount((status_of(each).get("allocatable") or {}).get(resource)) for each in facts.every("Node")]
        if asked and offers:
            has = f"the largest node has {_written(max(offers))} in all"
            requests.append(f"{_written(asked)} of {resource}, and {has}")
    return f": it asks for {'; '.join(requests)}" if requests else ""


def _requests(spec: Mapping[str, Any], resource: str) -> Iterator[Fraction]:
    for container in spec.get("containers") or ():
        yield _amount(((container.get("resources") or {}).get("requests") or {}).get(resource))


def _amount(text: str | int | float | None) -> Fraction:
    return (quantity.parse(text) if text is not None else None) or Fraction()


def _written(value: Fraction) -> str:
    """A quantity for people, to one decimal place: 900Ti, 7.8Gi, 64, 0.5."""
    scales = [(1024**power, f"{letter}i") for power, letter in enumerate("KMGTPE", start=1)]
    size, unit = max((each for each in scales if value >= each[0]), default=(1, ""))
    return f"{float(value / size):.1f}".removesuffix(".0") + unit
