"""Which Kubernetes nodes a worker of DaemonSet mode belongs on.

In: a pod spec and nodes. Out: where one should run, where one that runs may stay, and what it is called there. Pure;
the same rules as the scheduler's: node selector, required node affinity, taints. Used by `plan/choice.py`,
`plan/nodeset.py`, `status/nodeset.py` and `diagnose/scheduling.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kube_runtime.client.objects import Node, Taint
from kube_runtime.requirement import holds
from slurm_operator.build import labels, nodeset

BLOCKING = ("NoSchedule", "NoExecute")


def daemon_worker(node: Node) -> nodeset.WorkerIdentity:
    """The worker that a Kubernetes node gets in DaemonSet mode."""
    override = node.metadata.annotations.get(labels.HOSTNAME_OVERRIDE)
    return nodeset.WorkerIdentity(node=node.metadata.name, hostname_override=override)


def should_run(spec: Mapping[str, Any], node: Node) -> bool:
    """Whether a new worker belongs on a node."""
    return _selected(spec, node) and not _repelled(spec, node, BLOCKING)


def may_stay(spec: Mapping[str, Any], node: Node) -> bool:
    """Whether a worker that runs on a node may go on: a taint that only keeps new pods away does not drive it out."""
    return _selected(spec, node) and not _repelled(spec, node, ("NoExecute",))


def _repelled(spec: Mapping[str, Any], node: Node, effects: Sequence[str]) -> bool:
    tolerations = spec.get("tolerations") or ()
    taints = (taint for taint in node.spec.taints if taint.effect in effects)
    return any(not any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    effect, key = toleration.get("effect") or "", toleration.get("key") or ""
    if effect and effect != taint.effect:
        return False
    if key and key != taint.key:
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == taint.value


def _selected(spec: Mapping[str, Any], node: Node) -> bool:
    present = node.metadata.labels
    if any(present.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _matches(term: Mapping[str, Any], node: Node) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        # An empty term selects nothing, in Kubernetes as here.
        return False
    own = {"metadata.name": node.metadata.name}
    return _all_hold(expressions, node.metadata.labels) and _all_hold(fields, own)


def _all_hold(requirements: Iterable[Mapping[str, Any]], present: Mapping[str, str]) -> bool:
    return all(
        holds(
            str(one.get("operator")), present.get(str(one.get("key"))), [str(each) for each in one.get("values") or ()]
        )
        for one in requirements
    )
