"""Does a selector select these labels? Pure; used by every controller that looks for pods or nodes."""

from __future__ import annotations

from collections.abc import Mapping

from kube_local.controllers.objects import LabelSelector, NodeSelectorTerm, Requirement
from kube_runtime import requirement


def _holds(term: Requirement, labels: Mapping[str, str]) -> bool:
    return requirement.holds(term.operator, labels.get(term.key), term.values)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; none at all selects nothing, an empty one everything."""
    if selector is None:
        return False
    plain = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return plain and all(_holds(term, labels) for term in selector.match_expressions)


def selects_node(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node selector term selects a node; an empty term selects none."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(_holds(one, labels) for one in term.match_expressions) and all(
        _holds(one, fields) for one in term.match_fields
    )
