"""How large a resource may be: the bounds that its definition carries, and those that no definition can.

In: schemas, and resources as decoded JSON. Out: schemas in which every list, map and text has a bound, and findings
that name place and bound. Called by `api/crd.py` and `api/validate.py`, so that an API server, the admission server
and the operator refuse the same. Kubernetes itself bounds an object (1.5 MB) and its annotations (256 KiB), not lists.
"""

from __future__ import annotations

from collections.abc import Iterable

from kube_runtime import nesting
from kube_runtime.nesting import is_nested_deeper
from kube_runtime.quantity import MAX_NUMBER_CHARACTERS
from slurm_operator.api.problem import FieldProblem, Path
from slurm_operator.api.schema import Schema

MAX_ITEMS = 4096
MAX_ENTRIES = 4096
MAX_TEXT_CHARACTERS = 65_536
# The most that Kubernetes lets all annotations of an object have together.
MAX_ENTRY_CHARACTERS = 262_144
MAX_DEPTH_LEVELS = 64
# Mappings, lists and plain values in the containers, pod specs, service specs and claims of one resource. A large one
# has some hundreds; each costs about fifteen microseconds to check and merge.
MAX_EMBEDDED_VALUES = 8_192

_INT_OR_STRING = "x-kubernetes-int-or-string"


def bounded(schema: Schema) -> Schema:
    """The same schema with a bound on whatever has none of its own."""
    result = {**_default_bound(schema), **schema}
    if "properties" in schema:
        result["properties"] = {name: bounded(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        result["items"] = bounded(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = {**_entry_bound(schema["additionalProperties"])}
    return result


def _default_bound(schema: Schema) -> Schema:
    if schema.get(_INT_OR_STRING):
        return {"maxLength": MAX_NUMBER_CHARACTERS}
    match schema.get("type"):
        case "array":
            return {"maxItems": MAX_ITEMS}
        case "string" if "enum" not in schema:
            return {"maxLength": MAX_TEXT_CHARACTERS}
        case "object" if "additionalProperties" in schema:
            return {"maxProperties": MAX_ENTRIES}
    return {}


def _entry_bound(schema: Schema) -> Schema:
    return {"maxLength": MAX_ENTRY_CHARACTERS, **schema} if schema.get("type") == "string" else bounded(schema)


def depth_problem(value: object) -> FieldProblem | None:
    """What to say of a value that is nested too deeply to be walked by any of us."""
    # The resource itself is no level.
    if not is_nested_deeper(value, MAX_DEPTH_LEVELS + 1):
        return None
    return FieldProblem((), f"is nested deeper than {MAX_DEPTH_LEVELS} levels; at most {MAX_DEPTH_LEVELS} are allowed")


def size_problem(parts: Iterable[tuple[Path, object]]) -> FieldProblem | None:
    """The first of these parts, if there is one, with which they hold too many values together."""
    count = 0
    for path, part in parts:
        level = [part]
        while level:
            count += sum(len(nesting.parts(each)) for each in level)
            if count > MAX_EMBEDDED_VALUES:
                message = f"makes the resource hold more than {MAX_EMBEDDED_VALUES} values"
                return FieldProblem(path, f"{message} of containers, pods, services and claims; write fewer")
            level = [inner for each in level for inner in nesting.parts(each)]
    return None
