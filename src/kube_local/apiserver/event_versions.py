"""Events are one storage with two faces: core/v1 (as stored) and events.k8s.io/v1. Pure conversions."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_NEW_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_CORE_TO_NEW = {core: new for new, core in _NEW_TO_CORE.items()}


def to_core(obj: Object) -> Object:
    """An events.k8s.io/v1 event as a core/v1 event."""
    renamed = {_NEW_TO_CORE.get(key, key): value for key, value in obj.items()}
    return {**renamed, "apiVersion": "v1", "kind": "Event"}


def to_new(obj: Object) -> Object:
    """A core/v1 event as an events.k8s.io/v1 event."""
    renamed = {_CORE_TO_NEW.get(key, key): value for key, value in obj.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1", "kind": "Event"}
