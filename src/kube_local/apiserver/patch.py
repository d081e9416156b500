"""JSON patch (RFC 6902) and merge patch (RFC 7386) on decoded JSON. Pure; called by `writes`.

A patch that does not fit raises `PatchFailed`; neither function changes its input.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class PatchFailed(Exception):
    """The patch cannot be applied to this object: names the operation and the path."""


class PatchMalformed(Exception):
    """The patch is not a patch."""


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` after a merge patch: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """`target` after all operations, or an error and no change."""
    if not isinstance(operations, Sequence) or isinstance(operations, str | bytes):
        found = {dict: "object", str: "string", bool: "bool", int: "number", float: "number"}.get(
            type(operations), "null"
        )
        raise PatchMalformed(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        )
    document = {"root": copy.deepcopy(target)}
    for operation in operations:
        _apply(document, operation)
    return document["root"]


def _apply(document: dict[str, Any], operation: Any) -> None:
    if not isinstance(operation, Mapping):
        raise PatchMalformed("each operation of a JSON patch is an object with op and path")
    act = _OPERATIONS.get(str(operation.get("op")))
    if act is None or not isinstance(operation.get("path"), str):
        raise PatchFailed(f"unexpected kind: {operation.get('op')}")
    act(document, operation)


def _tokens(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise PatchFailed(f"the path {pointer!r} does not start with /")
    return ["root", *(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])]


def _parent(document: Any, pointer: str) -> tuple[Any, str]:
    *way, last = _tokens(pointer)
    node = document
    for token in way:
        node = _child(node, token, pointer)
    if not isinstance(node, dict | list):
        raise PatchFailed(f"{pointer}: the parent is neither an object nor a list")
    return node, last


def _child(node: Any, token: str, pointer: str) -> Any:
    if isinstance(node, dict):
        if token in node:
            return node[token]
    elif isinstance(node, list):
        return node[_index(node, token, pointer)]
    raise PatchFailed(f"{pointer}: there is no {token!r}")


def _index(node: list[Any], token: str, pointer: str, *, room: int = 0) -> int:
    if not token.isdigit() or (len(token) > 1 and token[0] == "0"):
        raise PatchFailed(f"{pointer}: {token!r} is no index")
    index = int(token)
    if index >= len(node) + room:
        raise PatchFailed(f"{pointer}: index {index} is out of bounds")
    return index


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchFailed(f"{operation['op']} {operation['path']} has no value")
    return copy.deepcopy(operation["value"])


def _insert(document: dict[str, Any], pointer: str, value: Any) -> None:
    node, last = _parent(document, pointer)
    if isinstance(node, dict):
        node[last] = value
    elif last == "-":
        node.append(value)
    else:
        node.insert(_index(node, last, pointer, room=1), value)


def _take(document: dict[str, Any], pointer: str) -> Any:
    node, last = _parent(document, pointer)
    found = _child(node, last, pointer)
    if isinstance(node, dict):
        del node[last]
    else:
        del node[int(last)]
    return found


def _read(document: dict[str, Any], pointer: str) -> Any:
    node, last = _parent(document, pointer)
    return node.get(last) if isinstance(node, dict) else _child(node, last, pointer)


def _add(document: dict[str, Any], operation: Mapping[str, Any]) -> None:
    _insert(document, operation["path"], _value(operation))


def _remove(document: dict[str, Any], operation: Mapping[str, Any]) -> None:
    _take(document, operation["path"])


def _replace(document: dict[str, Any], operation: Mapping[str, Any]) -> None:
    pointer = operation["path"]
    node, last = _parent(document, pointer)
    if isinstance(node, list):
        _index(node, last, pointer)
    # As the Go servers do: a key that is not there can be replaced, and copied as null.
    value = _value(operation)
    if isinstance(node, dict):
        node[last] = value
    else:
        node[int(last)] = value


def _source(operation: Mapping[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise PatchFailed(f"{operation['op']} {operation['path']} has no from")
    return source


def _move(document: dict[str, Any], operation: Mapping[str, Any]) -> None:
    source, pointer = _source(operation), operation["path"]
    if pointer.startswith(f"{source}/"):
        raise PatchFailed(f"{pointer}: cannot move {source} into itself")
    _insert(document, pointer, _take(document, source))


def _copy(document: dict[str, Any], operation: Mapping[str, Any]) -> None:
    _insert(document, operation["path"], copy.deepcopy(_read(document, _source(operation))))


def _test(document: dict[str, Any], operation: Mapping[str, Any]) -> None:
    pointer = operation["path"]
    expected = operation.get("value")
    try:
        found = _read(document, pointer)
    except PatchFailed:
        # As the Go servers do: a missing value passes a test for null.
        found = None
    if not _same(found, expected):
        raise PatchFailed(f"testing value {pointer} failed")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


_OPERATIONS: dict[str, Callable[[dict[str, Any], Mapping[str, Any]], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
