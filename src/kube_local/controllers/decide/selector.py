"""Does a selector select these labels? Pure; used by every controller that looks for pods or nodes."""

from __future__ import annotations

from collections.abc import Mapping

from kube_local.controllers.objects import LabelSelector, NodeSelectorTerm, Requirement


def holds(term: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether one requirement holds; an operator that nobody knows never does."""
    value = labels.get(term.key)
    match term.operator:
        case "In":
            return value is not None and value in term.values
        case "NotIn":
            return value not in term.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(term, value)
    return False


def _compares(term: Requirement, value: str | None) -> bool:
    try:
        have, want = int(value or ""), int(term.values[0])
    except (ValueError, IndexError):
        return False
    return have > want if term.operator == "Gt" else have < want


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; none at all selects nothing, an empty one everything."""
    if selector is None:
        return False
    plain = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return plain and all(holds(term, labels) for term in selector.match_expressions)


def selects_node(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node selector term selects a node; an empty term selects none."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(holds(one, labels) for one in term.match_expressions) and all(
        holds(one, fields) for one in term.match_fields
    )
