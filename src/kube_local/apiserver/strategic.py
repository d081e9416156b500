"""Strategic merge patch: the patch that knows which lists are merged, and by which key.

In: the live object, a patch with its directives ($patch, $retainKeys, $setElementOrder, $deleteFromPrimitiveList) and
the types of a built-in kind. Out: the patched object; the given ones are never changed. Called by the patch handler.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from kube_runtime.errors import Terminal

from .schema import TypeSchema
from .type_tree import TypeNode
from .typed_values import equal

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
SET_ORDER = "$setElementOrder"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList"

Object = dict[str, Any]


class BadPatch(Terminal):
    """The patch cannot be applied; `status` is the HTTP code that kube-apiserver answers with."""

    reason: ClassVar[str] = "BadRequest"

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.status = status


def strategic_merge(live: Object, patch: Object, schema: TypeSchema) -> Object:
    """The live object with a patch merged into it. Raises BadPatch."""
    return _merge_map(copy.deepcopy(live), copy.deepcopy(patch), schema.root)


def _merge_map(original: Object, patch: Object, node: TypeNode | None) -> Object:
    if DIRECTIVE in patch:
        return _directed_map(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, node)
    for key, value in patch.items():
        name, is_deletion = _list_name(key)
        if value is None and not is_deletion:
            original.pop(name, None)
        elif name not in original or not _same_shape(original[name], value):
            if not is_deletion:
                _put(original, name, _without_nulls(value))
        elif is_deletion:
            original[name] = [item for item in original[name] if not _is_in(item, value)]
        elif isinstance(value, dict):
            original[name] = _merge_map_field(original[name], value, node, name)
        elif isinstance(value, list):
            original[name] = _merge_list_field(original[name], value, node, name)
        else:
            original[name] = value
    return original


def _directed_map(patch: Object) -> Object:
    directive = patch.pop(DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise BadPatch(f"unknown patch type: {directive} in map: {patch}")


def _list_name(key: str) -> tuple[str, bool]:
    if not key.startswith(DELETE_PRIMITIVES):
        return key, False
    prefix, slash, name = key.partition("/")
    if prefix != DELETE_PRIMITIVES or not slash:
        raise BadPatch("invalid patch format of primitive list", 400)
    return name, True


def _same_shape(one: Any, other: Any) -> bool:
    """As Go compares types; a null in the live object fits nothing."""
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool)
    return type(one) is type(other)


def _put(target: Object, key: str, value: Any) -> None:
    cleaned, keep = _without_directives(value)
    if keep:
        target[key] = cleaned
    else:
        target.pop(key, None)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> tuple[Any, bool]:
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None, False
        cleaned = {key: _without_directives(item) for key, item in value.items()}
        return {key: item for key, (item, keep) in cleaned.items() if keep}, True
    if isinstance(value, list):
        return [item for item, keep in map(_without_directives, value) if keep], True
    return value, True


# --- maps ------------------------------------------------------------------------------------------------------------


def _field(node: TypeNode | None, key: str) -> tuple[TypeNode | None, str]:
    """The type below a key, and the patch strategy that the field itself declares."""
    if node is None:
        return None, ""
    raw = (node.raw.get("properties") or {}).get(key, {})
    return node.entry(key), str(raw.get("x-kubernetes-patch-strategy", ""))


def _merge_map_field(original: Object, patch: Object, node: TypeNode | None, key: str) -> Object:
    below, strategy = _field(node, key)
    if "replace" in strategy.split(","):
        return patch
    return _merge_map(original, patch, below)


def _retain_keys(original: Object, patch: Object) -> None:
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if not isinstance(retained, list):
        raise BadPatch("invalid patch format of retainKeys", 400)
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_PRIMITIVES, SET_ORDER)) and key not in retained:
            raise BadPatch("invalid patch format of retainKeys", 400)
    for key in [key for key in original if key not in retained]:
        del original[key]


# --- lists -----------------------------------------------------------------------------------------------------------


def _list_rules(node: TypeNode | None, key: str) -> tuple[TypeNode | None, bool, str]:
    """The type of the items, whether the list is merged, and by which key (none: a list of plain values)."""
    below, strategy = _field(node, key)
    if below is None:
        return None, False, ""
    merged = "merge" in strategy.split(",")
    return below.items, merged, str(below.raw.get("x-kubernetes-patch-merge-key", ""))


def _merge_list_field(original: list[Any], patch: list[Any], node: TypeNode | None, key: str) -> list[Any]:
    items, is_merged, merge_key = _list_rules(node, key)
    if not is_merged:
        return patch
    return _merge_list(original, patch, items, merge_key)


def _merge_list(original: list[Any], patch: list[Any], items: TypeNode | None, merge_key: str) -> list[Any]:
    if not original and not patch:
        return original
    if _are_plain(original, patch):
        merged: list[Any] = []
        for item in (*original, *patch):
            if not _is_in(item, merged):
                merged.append(item)
        return _ordered(merged, patch, original, "")
    if not merge_key:
        raise BadPatch("cannot merge lists without merge key")
    original, patch = _directed_items(original, patch, merge_key)
    merged = list(original)
    for item in patch:
        at = _position(merged, item, merge_key)
        if at < 0:
            merged.append(item)
        else:
            merged[at] = _merge_map(merged[at], dict(item), items)
    return _ordered(merged, patch, original, merge_key)


def _are_plain(*lists: list[Any]) -> bool:
    """Whether the items are plain values; a list mixes neither shapes nor holds lists."""
    kinds = {type(item) for items in lists for item in items}
    if list in kinds:
        raise BadPatch("lists of lists are not supported", 422)
    if dict in kinds and len(kinds) > 1:
        raise BadPatch("list element types are not identical")
    return dict not in kinds


def _directed_items(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Items that only carry a directive: delete one, or replace all."""
    plain, replace = [], False
    for item in patch:
        directive = item.get(DIRECTIVE)
        if DIRECTIVE not in item:
            plain.append(item)
        elif directive == "delete":
            _key_of(item, merge_key)
            original = [one for one in original if not equal(one.get(merge_key), item[merge_key])]
        elif directive == "replace":
            replace = True
        else:
            raise BadPatch(f"unknown patch type: {directive} in map: {item}")
    return (plain, []) if replace else (original, plain)


def _key_of(item: Any, merge_key: str) -> Any:
    if not isinstance(item, dict) or merge_key not in item:
        raise BadPatch(f"map: {item} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _position(items: list[Any], item: Any, merge_key: str) -> int:
    """Where an item with the same key (or, without a key, the same item) stands in a list; -1 where it does not."""
    if not merge_key:
        return next((i for i, one in enumerate(items) if equal(one, item)), -1)
    key = _key_of(item, merge_key)
    return next((i for i, one in enumerate(items) if merge_key in one and equal(one[merge_key], key)), -1)


def _is_in(item: Any, items: Any) -> bool:
    return isinstance(items, list) and any(equal(item, one) for one in items)


# --- order -----------------------------------------------------------------------------------------------------------


def _ordered(merged: list[Any], patch_order: list[Any], live_order: list[Any], merge_key: str) -> list[Any]:
    """Patched items in the order of the patch, the others in theirs, woven by their places in the live list."""
    if merge_key:
        for item in merged:
            _key_of(item, merge_key)
    patched = [item for item in merged if _position(patch_order, item, merge_key) >= 0]
    patched.sort(key=lambda item: _position(patch_order, item, merge_key))
    others = [item for item in merged if _position(patch_order, item, merge_key) < 0]
    others.sort(key=lambda item: _position(live_order, item, merge_key))
    result: list[Any] = []
    while others and patched:
        left = _position(live_order, others[0], merge_key)
        right = _position(live_order, patched[0], merge_key)
        result.append((others if 0 <= left < right else patched).pop(0))
    return result + others + patched


def _merge_ordered_lists(original: Object, patch: Object, node: TypeNode | None) -> None:
    """Lists that come with their wanted order are merged first, and taken out of the patch."""
    for directive in [key for key in patch if key.startswith(SET_ORDER)]:
        order = patch.pop(directive)
        prefix, slash, key = directive.partition("/")
        if prefix != SET_ORDER or not slash:
            raise BadPatch("invalid patch format of setElementOrder list", 400)
        live, sent = original.get(key), patch.get(key)
        if not isinstance(order, list) or not isinstance(live or [], list) or not isinstance(sent or [], list):
            raise BadPatch("expected a list in setElementOrder and the list that it orders")
        items, is_merged, merge_key = _list_rules(node, key)
        _check_order(sent or [], order, merge_key)
        if live is None and sent is None:
            continue
        if not live and not sent:
            raise BadPatch("no elements in any of the given slices")
        if live is None:
            merged, _ = _without_directives(sent)
        elif sent is None:
            merged = live
        else:
            merged = _merge_list(live, sent, items, merge_key) if is_merged else sent
        original[key] = _ordered(merged, order, live or [], merge_key)
        patch.pop(key, None)


def _check_order(sent: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of a patch must appear in the order list, in that order."""
    if not sent or not order:
        return
    wanted = [item for item in sent if not (isinstance(item, dict) and DIRECTIVE in item)]
    places = [_position(order, item, merge_key) for item in wanted]
    if -1 in places or places != sorted(places):
        raise BadPatch(f"The order in patch list:\n{sent}\n doesn't match {SET_ORDER} list:\n{order}\n")
