"""Does the live object say what we want, and do we own exactly that? Pure.

In: the object that a builder made, the live one, our field manager. Out: the differences, by path. `write` applies only
when there are any.

No schema is needed. `managedFields` of the live object tells which fields we applied last, and in doing so tells how
the server sees each list: `k:{"name":"x"}` in one that is merged by key, `v:"x"` in a set, nothing in one that is
replaced as a whole. So a difference is: a wanted field that we do not own, an owned field that we no longer want, or a
value that is not the same. Values that the server writes in another form (quantities, zeros that it leaves out) are
the same where that is certain; `write` learns the rest from the server's answer to the first apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec

# The server never counts these as anybody's.
_UNOWNED = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
)
_QUANTITY_PARENTS = frozenset({"limits", "requests", "capacity", "hard", "sizeLimit", "storage", "divisor"})
_SUFFIXES: Mapping[str, Decimal] = {
    **{unit: Decimal(1024) ** (power + 1) for power, unit in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])},
    **{
        unit: Decimal(1000) ** (power - 3)
        for power, unit in enumerate(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"])
    },
}
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)([numkMGTPE]|[KMGTPE]i)?")
_MISSING: Any = object()
_KINDS: Mapping[type, str] = {str: "a string", dict: "an object", list: "a list"}
MAX_NAMED_PATHS = 5
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """Where desired and live are not the same, and how."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why


def differences(
    desired: Mapping[str, Any], live: Mapping[str, Any], manager: str, subresource: str = ""
) -> tuple[Difference, ...]:
    """Everything that an apply would change or take over."""
    owned = owned_fields(live, manager, str(desired.get("apiVersion", "")), subresource)
    if owned is None:
        return (Difference("", "not applied by us yet"),)
    body = {key: value for key, value in desired.items() if key not in {"apiVersion", "kind"}}
    body["metadata"] = {key: value for key, value in desired.get("metadata", {}).items() if key not in _UNOWNED}
    if not body["metadata"]:
        del body["metadata"]
    return tuple(_compare_map(body, live, owned, ""))


def owned_fields(
    live: Mapping[str, Any], manager: str, api_version: str, subresource: str = ""
) -> Mapping[str, Any] | None:
    """The field tree that we applied last; None when there is none."""
    for entry in live.get("metadata", {}).get("managedFields") or ():
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and entry.get("subresource", "") == subresource
            and entry.get("apiVersion") == api_version
        ):
            fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
            return fields
    return None


def _compare(desired: Any, live: Any, owned: Mapping[str, Any], path: str) -> Iterator[Difference]:
    children = [name for name in owned if name != "."]
    if isinstance(desired, dict) and (children or not desired):
        yield from _compare_map(desired, live if isinstance(live, dict) else {}, owned, path)
    elif isinstance(desired, list) and any(name.startswith("k:") for name in children):
        yield from _compare_keyed(desired, live if isinstance(live, list) else [], owned, path)
    elif isinstance(desired, list) and any(name.startswith("v:") for name in children):
        yield from _compare_set(desired, live, owned, path)
    elif not _same(desired, live, path):
        yield Difference(path, _how(desired, live, path))


def _compare_map(
    desired: Mapping[str, Any], live: Mapping[str, Any], owned: Mapping[str, Any], path: str
) -> Iterator[Difference]:
    for name, value in desired.items():
        mine = owned.get(f"f:{name}")
        if mine is None:
            yield Difference(f"{path}.{name}", "not ours yet")
        else:
            yield from _compare(value, live.get(name, _MISSING), mine, f"{path}.{name}")
    for name in owned:
        if name.startswith("f:") and name[2:] not in desired:
            yield Difference(f"{path}.{name[2:]}", "no longer wanted")


def _compare_keyed(desired: list[Any], live: list[Any], owned: Mapping[str, Any], path: str) -> Iterator[Difference]:
    left = dict(enumerate(desired))
    places: list[tuple[int, int]] = []
    for name, mine in owned.items():
        if not name.startswith("k:"):
            continue
        keys = msgspec.json.decode(name[2:])
        wanted, actual = _find(list(left.items()), keys), _find(list(enumerate(live)), keys)
        where = f"{path}[{name[2:]}]"
        if wanted is None:
            yield Difference(where, "no longer wanted")
            continue
        item = left.pop(wanted)
        if actual is None:
            yield Difference(where, "missing")
            continue
        places.append((wanted, actual))
        # A key that has a default may be left out of what is applied.
        owned_item = {key: value for key, value in mine.items() if key[2:] in item or key[2:] not in keys}
        yield from _compare(item, live[actual], owned_item, where)
    for index in left:
        yield Difference(f"{path}[{index}]", "not ours yet")
    places.sort()
    if any(first[1] > second[1] for first, second in pairwise(places)):
        yield Difference(path, "in another order")


def _find(items: list[tuple[int, Any]], keys: Mapping[str, Any]) -> int | None:
    """The item with these keys; one that names all of them goes before one that leaves some to their defaults."""
    partial = None
    for index, item in items:
        if not isinstance(item, dict) or any(item.get(key, value) != value for key, value in keys.items()):
            continue
        if all(key in item for key in keys):
            return index
        partial = index if partial is None else partial
    return partial


def _compare_set(desired: list[Any], live: Any, owned: Mapping[str, Any], path: str) -> Iterator[Difference]:
    ours = [msgspec.json.decode(name[2:]) for name in owned if name.startswith("v:")]
    for value in desired:
        if value not in ours or not isinstance(live, list) or value not in live:
            yield Difference(f"{path}[{_named(value)}]", "not ours yet")
    for value in ours:
        if value not in desired:
            yield Difference(f"{path}[{_named(value)}]", "no longer wanted")


def _same(desired: Any, live: Any, path: str) -> bool:
    """Whether a value that we own as a whole is what we want; parts that the server added do not count."""
    if live is _MISSING:
        # We own it and it is not there: the server leaves zeros out.
        return desired in (None, False, 0, "", [], {})
    if isinstance(desired, dict) and isinstance(live, dict):
        return all(_same_key(name, desired, live, path) for name in desired)
    if isinstance(desired, list) and isinstance(live, list):
        return len(desired) == len(live) and all(
            _same(mine, theirs, path) for mine, theirs in zip(desired, live, strict=True)
        )
    if type(desired) is type(live) and desired == live:
        return True
    return _is_quantity(path) and _quantity(desired) == _quantity(live) is not None


def _is_quantity(path: str) -> bool:
    return any(part in _QUANTITY_PARENTS for part in path.rsplit(".", 2)[-2:])


def _quantity(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _QUANTITY.fullmatch(str(value))
    return None if match is None else Decimal(match[1]) * _SUFFIXES[match[2] or ""]


def _how(desired: Any, live: Any, path: str) -> str:
    """Where and by how much a live value differs; never the value itself, which may come out of a Secret."""
    match desired, live:
        case str(), str():
            return _how_text(desired, live)
        case list(), list():
            if len(desired) != len(live):
                return f"has {len(live)} items, not {len(desired)}"
            other = [at for at, pair in enumerate(zip(desired, live, strict=True)) if not _same(*pair, path)]
            return f"differs in items {_some(other)}"
        case dict(), dict():
            return f"differs in {_some([key for key in desired if not _same_key(key, desired, live, path)])}"
    return f"is {_kind(live)}, not {_kind(desired)}"


def _how_text(desired: str, live: str) -> str:
    if "\n" not in desired and "\n" not in live:
        return "has another value"
    new, old = desired.split("\n"), live.split("\n")
    shorter = min(len(new), len(old))
    first = next((at for at in range(shorter) if new[at] != old[at]), shorter)
    last = next((at for at in range(shorter - first) if new[-1 - at] != old[-1 - at]), shorter - first)
    return f"differs at line {first + 1} (-{len(old) - first - last} +{len(new) - first - last} lines)"


def _same_key(key: str, desired: Mapping[str, Any], live: Mapping[str, Any], path: str) -> bool:
    return _same(desired[key], live.get(key, _MISSING), f"{path}.{key}")


def _some(items: Sequence[object]) -> str:
    more = f" and {len(items) - MAX_NAMED_PATHS} more" if len(items) > MAX_NAMED_PATHS else ""
    return ", ".join(map(str, items[:MAX_NAMED_PATHS])) + more


def _kind(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    return _KINDS.get(type(value)) or repr(value)


def _named(value: Any) -> str:
    """An item of a set, which is a name or a number: finalizers, access modes."""
    return str(value)[:MAX_NAME_CHARACTERS] if isinstance(value, str | int | float) else _kind(value)
