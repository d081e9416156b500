"""The strategic merge patch of Kubernetes: dict in, new dict out, nothing mutated.

In: a base, a patch, and `Rules` that say how the fields of a type merge. Out: the merged object, or `MergeConflict`.
Called by the operator for what users lay over its objects, and by the local API server for patches.

Objects merge field by field, keyed lists merge by item, other lists and all scalars are replaced, `null` deletes, and
the directives `$patch`, `$retainKeys`, `$deleteFromPrimitiveList` and `$setElementOrder` are obeyed and never reach the
result. Explicit `false`, `0` and `""` are values like any other: they win.

A merged list keeps the patch's order; an item that only the base has goes in front of the first shared item that
follows it in the base, else behind all items of the patch. Without shared items that is: patch, then base.

The time is linear in the size of both sides. How often a list names one item would not be, and is bounded by an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from kube_runtime.item_index import LEAVES, Field, ItemIndex, Path, frozen
from kube_runtime.text import printable, shown

Json = dict[str, Any]

# Items of one list with the same key are merged one after the other, each at the cost of what is there already.
MAX_REPEATS: Final = 4
PLAIN_FIELD: Final = Field()
_DIRECTIVES: Final = frozenset({"$patch", "$retainKeys", "$deleteFromPrimitiveList", "$setElementOrder"})


class MergeConflict(Exception):
    """The patch does not fit: `steps` is where, `message` what to do."""

    def __init__(self, steps: Path, message: str) -> None:
        super().__init__(f"{printable('.'.join(map(str, steps))) or 'the patch'}: {message}")
        self.steps = steps
        self.message = message


@dataclass(frozen=True, slots=True)
class Rules:
    """How a type merges; a type is whatever `field` knows it by."""

    field: Callable[[Any, str], Field]
    # Of the base, by what a patch gives of a type: fields of which one at most is set lose what was set before.
    kept: Callable[[Mapping[str, Any], Set[str], Any], Mapping[str, Any]] = lambda base, _given, _kind: base
    # Where there is no object, one with such a `$patch` leaves none.
    leaving_none: frozenset[str] = frozenset({"delete"})


def merge_object(base: Mapping[str, Any], patch: Mapping[str, Any], kind: Any, rules: Rules, path: Path = ()) -> Json:
    """The base with a patch of its type merged into it."""
    match patch.get("$patch", "merge"):
        case "delete":
            return {}
        case "replace":
            base = {}
        case "merge":
            given = {name for name, value in patch.items() if value is not None and not _is_directive(name)}
            base = rules.kept(_retained(base, patch, path), given, kind)
        case other:
            raise MergeConflict(path, f"$patch is {shown(other)}; write delete, merge or replace")
    # What the patch sets is copied as it is merged, and only then: copies at every level would add up.
    result: Json = {name: None if _is_set(patch, name) else copied(value) for name, value in base.items()}
    for name, value in patch.items():
        if value is None or (name not in base and _patch_of(value) in rules.leaving_none):
            result.pop(name, None)
        elif not _is_directive(name):
            result[name] = _merge_value(base.get(name), value, rules.field(kind, name), rules, (*path, name))
    return _with_list_directives(result, base, patch, kind, rules, path)


def _merge_value(base: Any, patch: Any, field: Field, rules: Rules, path: Path) -> Any:
    if isinstance(patch, Mapping):
        merged = isinstance(base, Mapping) and not field.replaced
        return merge_object(base if merged else {}, patch, field.type, rules, path)
    if isinstance(patch, list):
        return _merge_list(base if isinstance(base, list) else [], patch, field, rules, path)
    return patch


def _merge_list(base: list[Any], patch: list[Any], field: Field, rules: Rules, path: Path) -> list[Any]:
    base, patch = _without_special_items(base, patch, field, path)
    if field.rule:
        return field.rule(copied(base), _clean(patch, field, rules, path), path)
    if field.key:
        return _merge_keyed(base, patch, field, rules, path)
    if field.merge:
        return _in_order(unique([*base, *patch]), patch, base, PLAIN_FIELD)
    return _clean(patch, field, rules, path)


def _merge_keyed(base: list[Any], patch: list[Any], field: Field, rules: Rules, path: Path) -> list[Any]:
    merged: list[Any] = copied(base)
    index, times = ItemIndex(field, merged), Counter[int]()
    for number, item in enumerate(patch):
        where = (*path, number)
        found = index.find(_keyed_item(item, field, where))
        at = len(merged) if found is None else found
        times[at] += 1
        if times[at] > MAX_REPEATS:
            message = f"is the same {field.key} for the {times[at]}th time; write each item of this list once"
            raise MergeConflict((*where, field.key), message)
        if found is None:
            merged.append({})
        merged[at] = merge_object(merged[at], item, field.type, rules, where)
        index.put(at, merged[at])
    return merged if field.base_first else _in_order(merged, patch, base, field)


def _clean(patch: list[Any], field: Field, rules: Rules, path: Path) -> list[Any]:
    """The patch's items as they are, freed of nulls and directives inside them."""
    result: list[Any] = []
    for at, item in enumerate(patch):
        where = (*path, at)
        if isinstance(item, Mapping):
            result.append(merge_object({}, item, field.type, rules, where))
        else:
            result.append(_merge_value(None, item, PLAIN_FIELD, rules, where))
    return result


def _without_special_items(base: list[Any], patch: list[Any], field: Field, path: Path) -> tuple[list[Any], list[Any]]:
    """Obey the items of a list that are directives: `$patch: replace` for the list, `delete` for one item."""
    plain = [item for item in patch if not (isinstance(item, Mapping) and "$patch" in item)]
    if len(plain) == len(patch):
        return base, patch
    gone: list[Any] = []
    for index, item in enumerate(patch):
        directive = item.get("$patch", "") if isinstance(item, Mapping) else ""
        if directive == "replace":
            base = []
        elif directive == "delete" and field.key:
            gone.append(_keyed_item(item, field, (*path, index)))
        elif directive not in ("", "delete"):
            raise MergeConflict((*path, index), f"$patch is {shown(directive)}; write delete or replace")
    deleted = ItemIndex(field, gone)
    return [kept for kept in base if deleted.find(kept) is None] if gone else base, plain


def _with_list_directives(
    result: Json, base: Mapping[str, Any], patch: Mapping[str, Any], kind: Any, rules: Rules, path: Path
) -> Json:
    for directive, value in patch.items():
        verb, _, name = directive.partition("/")
        if verb not in _DIRECTIVES or not isinstance(result.get(name), list):
            continue
        wanted = as_list(value, (*path, directive))
        if verb == "$deleteFromPrimitiveList":
            gone = {frozen(item) for item in wanted}
            result[name] = [item for item in result[name] if frozen(item) not in gone]
        else:
            field, before = rules.field(kind, name), base.get(name)
            result[name] = _in_order(result[name], wanted, before if isinstance(before, list) else [], field)
    return result


def _retained(base: Mapping[str, Any], patch: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    if "$retainKeys" not in patch:
        return base
    keys = {name for name in as_list(patch["$retainKeys"], (*path, "$retainKeys")) if isinstance(name, str)}
    if strays := [name for name in patch if name not in keys and not _is_directive(name)]:
        raise MergeConflict(path, f"$retainKeys leaves out {strays[0][:60]!r}, which the same object sets")
    return {name: value for name, value in base.items() if name in keys}


def _in_order(items: list[Any], first: list[Any], base: list[Any], field: Field) -> list[Any]:
    """Order a merged list as Kubernetes does: `first` rules, the base decides where its own items go."""
    rank, before = ItemIndex(field, first), ItemIndex(field, base)
    placed = [(rank.find(item), before.find(item), item) for item in items]
    left = sorted(((at, was, item) for at, was, item in placed if at is not None), key=lambda each: each[0])
    own = [(was, item) for at, was, item in placed if at is None]
    result: list[Any] = []
    next_own = 0
    for _, theirs, item in left:
        while next_own < len(own) and theirs is not None:
            mine = own[next_own][0]
            if mine is None or mine >= theirs:
                break
            result.append(own[next_own][1])
            next_own += 1
        result.append(item)
    return result + [item for _, item in own[next_own:]]


def unique(items: Iterable[Any], known: Iterable[Any] = ()) -> list[Any]:
    """All that is known, and behind it each other item once."""
    result = list(known)
    seen = {frozen(item) for item in result}
    for item in items:
        key = frozen(item)
        if key not in seen:
            seen.add(key)
            result.append(item)
    return result


def _keyed_item(item: Any, field: Field, path: Path) -> Mapping[str, Any]:
    found = as_object(item, path)
    if found.get(field.key) is None:
        raise MergeConflict(path, f"has no {field.key}, which tells the items of this list apart; add it")
    return found


def as_object(value: Any, path: Path) -> Mapping[str, Any]:
    """The value, which must be an object."""
    if not isinstance(value, Mapping):
        raise MergeConflict(path, f"must be an object, not {type(value).__name__}")
    return value


def as_list(value: Any, path: Path) -> list[Any]:
    """The value, which must be a list."""
    if not isinstance(value, list):
        raise MergeConflict(path, f"must be a list, not {type(value).__name__}")
    return value


def copied(value: Any) -> Any:
    """A JSON value that shares nothing with the given one."""
    if isinstance(value, LEAVES):
        return value
    if isinstance(value, Mapping):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def _patch_of(value: Any) -> str:
    directive = value.get("$patch") if not isinstance(value, LEAVES) and isinstance(value, Mapping) else None
    return directive if isinstance(directive, str) else ""


def _is_set(patch: Mapping[str, Any], name: str) -> bool:
    return name in patch and not _is_directive(name)


def _is_directive(name: str) -> bool:
    return name.partition("/")[0] in _DIRECTIVES
