"""Whether a requirement of a label or node selector holds: one rule for servers, schedulers and the operator. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def holds(operator: str, value: str | None, values: Sequence[str]) -> bool:
    """Whether a label of this value (None: there is none) meets an operator with its values; an unknown one never."""
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        (wanted,) = values
        difference = int(value or "") - int(wanted)
    except ValueError:
        return False
    return difference > 0 if operator == "Gt" else difference < 0
