"""One wrong field of an object, in the words of kube-apiserver.

Made by `validation`, `cel_rules` and `schema`; shown by the write handlers as causes of an Invalid status.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

Reason = Literal[
    "Required",
    "Invalid",
    "NotSupported",
    "TypeInvalid",
    "Duplicate",
    "Forbidden",
    "TooLong",
    "TooMany",
    "NotFound",
    "InternalError",
]
ROOT: Final = "<nil>"
_MESSAGES = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "NotSupported": "Unsupported value",
    "TypeInvalid": "Invalid value",
    "Duplicate": "Duplicate value",
    "Forbidden": "Forbidden",
    "TooLong": "Too long",
    "TooMany": "Too many",
    "NotFound": "Not found",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE = frozenset({"Required", "Forbidden", "TooLong", "InternalError"})
# Rules in CEL are not tried on an object that has one of these.
BLOCKING = frozenset({"NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"})


class _Omitted:
    def __repr__(self) -> str:
        return "OMITTED"


OMITTED: Final = _Omitted()


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """`path` is the field ("<nil>" for the whole object), `message` the detail; `bad_value` may be OMITTED."""

    path: str
    reason: Reason
    message: str = ""
    bad_value: Any = ""

    @property
    def cause(self) -> str:
        """The machine-readable reason of a status cause."""
        return self.reason if self.reason == "InternalError" else f"FieldValue{self.reason}"

    @property
    def body(self) -> str:
        """The problem without its path: `Invalid value: 7: must be less than 5`."""
        parts = [_MESSAGES[self.reason]]
        if self.reason not in _WITHOUT_VALUE and self.bad_value is not OMITTED:
            parts.append(shown(self.bad_value))
        if self.message:
            parts.append(self.message)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def shown(value: Any) -> str:
    """A value as Go prints it in a field error."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
