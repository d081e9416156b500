"""Objects walked beside their types: check, list the fields, compare, merge, take fields out.

In: JSON values and `TypeNode`s. Out: values and `FieldSet`s. These are the five walks of Kubernetes' structured merge;
`apply` strings them together. A place where nothing is said is ABSENT; null is a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from .field_sets import FieldSet, Path, element_text, item_by_keys, item_by_value
from .field_sets import field as field_element
from .type_tree import TypeNode


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(slots=True)
class Comparison:
    """How one object became another; no field is in more than one of the three sets."""

    removed: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    added: FieldSet = field(default_factory=FieldSet)


class ItemWithoutIdentity(Exception):
    """A list item that cannot be told from its neighbours."""


def equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, and true is no number."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return all(equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        return all(equal(one, other) for one, other in zip(left, right, strict=True))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def item_element(node: TypeNode, item: Any) -> str:
    """The path element of one item of a set or a keyed list."""
    if node.list_type == "set":
        return _set_item(item)
    if item is None:
        raise ItemWithoutIdentity("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise ItemWithoutIdentity("associative list with keys may not have non-map elements")
    keys = {key: item[key] if key in item else node.key_defaults[key] for key in _known_keys(node, item)}
    if not keys:
        listed = "[" + " ".join(f'"{key}"' for key in node.list_keys) + "]"
        raise ItemWithoutIdentity(
            f"associative list with keys has an element that omits all key fields {listed} "
            "(and doesn't have default values for any key fields)"
        )
    return item_by_keys(keys)


def _known_keys(node: TypeNode, item: dict[str, Any]) -> Iterable[str]:
    return (key for key in node.list_keys if key in item or key in node.key_defaults)


def _set_item(item: Any) -> str:
    if isinstance(item, dict):
        raise ItemWithoutIdentity("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise ItemWithoutIdentity("not supported: associative list with lists as elements")
    if item is None:
        raise ItemWithoutIdentity("associative list without keys has an element that's an explicit null")
    return item_by_value(item)


# --- check ---------------------------------------------------------------------------------------------------------


def type_problems(node: TypeNode, value: Any, *, allow_duplicates: bool, path: str = "") -> list[str]:
    """What keeps a value from being of a type, each with its path; values are not judged, only shapes."""
    shape = node.shape_for(value)
    if value is None:
        return []
    if shape == "scalar":
        problem = _scalar_problem(node.scalar, value)
        return [_at(path, problem)] if problem else []
    if shape == "map":
        return _map_problems(node, value, allow_duplicates, path)
    return _list_problems(node, value, allow_duplicates, path)


def _at(path: str, problem: str) -> str:
    return f"{path}: {problem}" if path else problem


def _scalar_problem(scalar: str | None, value: Any) -> str:
    if scalar == "numeric" and (isinstance(value, bool) or not isinstance(value, int | float)):
        return f"expected numeric (int or float), got {_go_type(value)}"
    if scalar == "string" and not isinstance(value, str):
        return f"expected string, got {_go_value(value)}"
    if scalar == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got {_go_value(value)}"
    if scalar == "untyped" and isinstance(value, dict | list):
        return f"expected any scalar, got {_go_value(value)}"
    return ""


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", int: "int64", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}
    return names.get(type(value), type(value).__name__)


def _go_value(value: Any) -> str:
    if isinstance(value, str):
        return element_text(item_by_value(value))[2:-1]
    return "&value.valueUnstructured{Value:" + repr(value) + "}"


def _map_problems(node: TypeNode, value: Any, allow_duplicates: bool, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [_at(path, f"expected map, got {_go_value(value)}")]
    problems: list[str] = []
    for key, item in value.items():
        below = node.entry(key)
        if below is None:
            problems.append(_at(f"{path}.{key}", "field not declared in schema"))
        else:
            problems += type_problems(below, item, allow_duplicates=allow_duplicates, path=f"{path}.{key}")
    return problems


def _list_problems(node: TypeNode, value: Any, allow_duplicates: bool, path: str) -> list[str]:
    if not isinstance(value, list):
        return [_at(path, f"expected list, got {_go_value(value)}")]
    problems: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if node.list_type != "atomic":
            try:
                element = item_element(node, item)
            except ItemWithoutIdentity as error:
                return [*problems, _at(path, f"element {index}: {error}")]
            if element in seen and not allow_duplicates:
                problems.append(_at(path, f"duplicate entries for key {element_text(element)}"))
            seen.add(element)
        problems += type_problems(
            node.items, item, allow_duplicates=allow_duplicates, path=path + element_text(element)
        )
    return problems


# --- fields --------------------------------------------------------------------------------------------------------


def field_set(node: TypeNode, value: Any) -> FieldSet:
    """Every leaf field and list item that a value names."""
    result = FieldSet()
    _collect(node, value, (), result)
    return result


def _collect(node: TypeNode, value: Any, path: Path, into: FieldSet) -> None:
    shape = node.shape_for(value)
    if shape == "map" and not node.is_atomic_map:
        if isinstance(value, dict):
            _collect_map(node, value, path, into)
    elif shape == "list" and node.list_type != "atomic":
        if isinstance(value, list):
            _collect_items(node, value, path, into)
    else:
        into.insert(path)


def _collect_map(node: TypeNode, value: dict[str, Any], path: Path, into: FieldSet) -> None:
    for key, item in value.items():
        below = (*path, field_element(key))
        entry = node.entry(key)
        if entry is not None:
            _collect(entry, item, below, into)
        if item is None or item == {} or key not in node.fields:
            into.insert(below)


def _collect_items(node: TypeNode, items: list[Any], path: Path, into: FieldSet) -> None:
    elements = [_element_or_none(node, item) for item in items]
    counts = Counter(elements)
    for element, item in zip(elements, items, strict=True):
        if element is None:
            continue
        if counts[element] == 1:
            _collect(node.items, item, (*path, element), into)
        into.insert((*path, element))


def _element_or_none(node: TypeNode, item: Any) -> str | None:
    try:
        return item_element(node, item)
    except ItemWithoutIdentity:
        return None


# --- compare -------------------------------------------------------------------------------------------------------


def compare(node: TypeNode, old: Any, new: Any) -> Comparison:
    """What was removed, changed and added between two values of one type."""
    result = Comparison()
    if old is not ABSENT or new is not ABSENT:
        _compare(node, old, new, (), result)
    return result


def _compare(node: TypeNode, old: Any, new: Any, path: Path, into: Comparison) -> None:
    in_leaf = False
    for shape in _shapes(node, old, new):
        in_leaf = _compare_as(node, shape, old, new, path, into)
    if not in_leaf:
        if old is ABSENT:
            into.added.insert(path)
        elif new is ABSENT:
            into.removed.insert(path)


def _shapes(node: TypeNode, old: Any, new: Any) -> tuple[str, ...]:
    """The shape to walk, or both where the two sides differ; an absent side takes the other's shape."""
    if new is ABSENT:
        return (node.shape_for(old),)
    if old is ABSENT or node.shape_for(old) == node.shape_for(new):
        return (node.shape_for(new),)
    return (node.shape_for(old), node.shape_for(new))


def _compare_as(node: TypeNode, shape: str, old: Any, new: Any, path: Path, into: Comparison) -> bool:
    if shape == "map" and not node.is_atomic_map:
        old_map, new_map = _map_or_empty(old), _map_or_empty(new)
        if old_map or new_map:
            _compare_maps(node, old_map, new_map, path, into)
            return False
    if shape == "list" and node.list_type != "atomic":
        old_list, new_list = _list_or_empty(old), _list_or_empty(new)
        if old_list or new_list:
            _compare_lists(node, old_list, new_list, path, into)
            return False
    _compare_leaf(old, new, path, into)
    return True


def _map_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _compare_leaf(old: Any, new: Any, path: Path, into: Comparison) -> None:
    if old is ABSENT:
        into.added.insert(path)
    elif new is ABSENT:
        into.removed.insert(path)
    elif not equal(old, new):
        into.modified.insert(path)


def _compare_maps(node: TypeNode, old: dict[str, Any], new: dict[str, Any], path: Path, into: Comparison) -> None:
    for key in old.keys() | new.keys():
        entry = node.entry(key)
        if entry is not None:
            below = (*path, field_element(key))
            _compare(entry, old.get(key, ABSENT), new.get(key, ABSENT), below, into)


def _compare_lists(node: TypeNode, old: list[Any], new: list[Any], path: Path, into: Comparison) -> None:
    old_items, new_items = _grouped(node, old), _grouped(node, new)
    for element in {**old_items, **new_items}:
        before, after = old_items.get(element, []), new_items.get(element, [])
        below = (*path, element)
        if len(before) <= 1 and len(after) <= 1:
            _compare(node.items, _single(before), _single(after), below, into)
        elif len(before) >= 2 and len(after) >= 2:
            if not equal(before, after):
                into.modified.insert(below)
        elif len(before) >= 2:
            if after:
                _compare(node.items, ABSENT, after[0], below, into)
            into.removed.insert(below)
        else:
            if before:
                _compare(node.items, before[0], ABSENT, below, into)
            into.added.insert(below)


def _grouped(node: TypeNode, items: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        element = _element_or_none(node, item)
        if element is not None:
            groups.setdefault(element, []).append(item)
    return groups


def _single(items: list[Any]) -> Any:
    return items[0] if items else ABSENT


# --- merge ---------------------------------------------------------------------------------------------------------


def merge(node: TypeNode, live: Any, applied: Any) -> Any:
    """The live value with the applied one laid over it; nothing is removed by this."""
    if live is ABSENT and applied is ABSENT:
        return ABSENT
    shape = _shapes(node, live, applied)[-1]
    if shape == "map" and not node.is_atomic_map:
        old, new = _map_or_empty(live), _map_or_empty(applied)
        if old or new:
            return _merge_maps(node, old, new)
    if shape == "list" and node.list_type != "atomic":
        old_items, new_items = _list_or_empty(live), _list_or_empty(applied)
        if old_items or new_items:
            return _merge_lists(node, old_items, new_items) or ABSENT
    return live if applied is ABSENT else applied


def _merge_maps(node: TypeNode, live: dict[str, Any], applied: dict[str, Any]) -> Any:
    result: dict[str, Any] = {}
    for key in {**live, **applied}:
        entry = node.entry(key)
        old, new = live.get(key, ABSENT), applied.get(key, ABSENT)
        merged = merge(entry, old, new) if entry is not None else (old if new is ABSENT else new)
        if merged is not ABSENT:
            result[key] = merged
    return result or ABSENT


def _merge_lists(node: TypeNode, live: list[Any], applied: list[Any]) -> list[Any]:
    """Items in the order of the applied list, with the live ones that it does not name kept at their places."""
    new = {item_element(node, item): item for item in applied}
    old = _grouped(node, live)
    order = [(element, item) for item in live if (element := _element_or_none(node, item)) is not None]
    shared = [element for element in new if element in old]
    waiting = list(new)
    result: list[Any] = []
    merged: set[str] = set()

    def take(element: str) -> None:
        twins = old.get(element, [])
        # Twins in the live list are not merged into the applied item: nobody could say with which one.
        before = ABSENT if not twins else twins[0] if len(twins) == 1 else None
        _append(result, merge(node.items, before, new[element]))
        merged.add(element)
        if shared and shared[0] == element:
            shared.pop(0)

    position = 0
    while position < len(order) or waiting:
        if position < len(order):
            element, item = order[position]
            if waiting and element == waiting[0]:
                take(waiting.pop(0))
                position += 1
                continue
            if waiting and element in new and shared and shared[0] != element:
                position += 1
                continue
            if element not in new:
                _append(result, merge(node.items, item, ABSENT))
                position += 1
                continue
            if element in merged:
                position += 1
        if waiting:
            take(waiting.pop(0))
    return result


def _append(items: list[Any], item: Any) -> None:
    if item is not ABSENT:
        items.append(item)


# --- remove --------------------------------------------------------------------------------------------------------


def remove(node: TypeNode, value: Any, unwanted: FieldSet) -> Any:
    """The value without the given fields and items; a container that loses everything becomes null."""
    shape = node.shape_for(value)
    if shape == "scalar":
        return value
    if shape == "list":
        if not isinstance(value, list) or not value or node.list_type == "atomic":
            return None
        return _remove_items(node, value, unwanted) or None
    if not isinstance(value, dict) or not value or node.is_atomic_map:
        return None
    return _remove_entries(node, value, unwanted) or None


def _remove_items(node: TypeNode, items: list[Any], unwanted: FieldSet) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        element = _element_or_none(node, item)
        if element is None or element in unwanted.members:
            continue
        below = unwanted.children.get(element)
        kept.append(remove(node.items, item, below) if below else item)
    return kept


def _remove_entries(node: TypeNode, entries: dict[str, Any], unwanted: FieldSet) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, item in entries.items():
        element = field_element(key)
        if element in unwanted.members:
            continue
        below, entry = unwanted.children.get(element), node.entry(key)
        kept[key] = remove(entry, item, below) if below and entry is not None else item
    return kept


# --- sets beside types -----------------------------------------------------------------------------------------------


def with_named_parents(node: TypeNode | None, fields: FieldSet) -> FieldSet:
    """The set with every named field above a member made a member too; entries of free maps are left as they are."""
    members = set(fields.members)
    children: dict[str, FieldSet] = {}
    for element, below in fields.children.items():
        child: TypeNode | None = None
        if node is not None and element[0] == "f" and node.is_map:
            child = node.entry(element[2:])
            if element[2:] in node.fields:
                members.add(element)
        elif node is not None and element[0] == "k" and node.is_list:
            child = node.items
        children[element] = with_named_parents(child, below)
    return FieldSet(members, children)
