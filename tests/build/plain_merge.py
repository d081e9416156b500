"""Overlays merged in the plainest way, by walking lists: what `slurm_operator.build.overlay` is held against.

In: small bases and patches. Out: the merged object. Called by tests alone; it takes time in the square of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any, Final

from kube_runtime.item_index import Field, Path
from kube_runtime.strategic_merge import MergeConflict
from slurm_operator.build.merge_keys import MERGE_KEYS

Json = dict[str, Any]
ListRule = Callable[[list[Any], list[Any], Path], list[Any]]
Same = Callable[[Any, Any], bool]

_DIRECTIVES: Final = frozenset({"$patch", "$retainKeys", "$deleteFromPrimitiveList", "$setElementOrder"})
_PLAIN_FIELD: Final = Field()


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """Apply a strategic merge patch to a pod spec as Kubernetes does."""
    return _merge_object(base, patch, "PodSpec", (), _KUBERNETES)


def merge_pod_spec(base: Mapping[str, Any], user: Mapping[str, Any]) -> Json:
    """Lay the user's pod spec over the operator's.

    Containers and init containers stay in the operator's order with the user's behind them; one with the name
    of an operator's container is merged into it by the rules of `merge_container`. Tolerations, affinity terms
    and DNS names of the operator stay and the user's are added, save exact duplicates.

    Required node affinity is the exception: Kubernetes ORs its terms, so adding ours to the user's list would
    let the pod onto nodes that one of the two forbids. Every term of the user is ANDed with every term of the
    operator instead.

    A volume that the user redefines with another source loses the old source. `null` still deletes, and an
    item `$patch: replace` still replaces the whole list: nobody writes these by accident.
    """
    return _merge_object(base, user, "PodSpec", (), _OVERLAY)


@dataclass(frozen=True, slots=True)
class _Rules:
    """What differs from plain Kubernetes; slots are `Type.field` as in the merge table."""

    lists: Mapping[str, ListRule]
    """Lists that are neither replaced nor merged by key."""
    handlers: Mapping[str, frozenset[str]]
    """Per type, fields of which one at most is set; giving any of them drops what was set before."""
    one_source: frozenset[str]
    """Types with a name and one source; giving a source drops every other one, and merges into the same."""
    base_first: frozenset[str]
    """Keyed lists that keep the base's order."""


def _merge_object(base: Mapping[str, Any], patch: Mapping[str, Any], kind: str, path: Path, rules: _Rules) -> Json:
    match patch.get("$patch", "merge"):
        case "delete":
            return {}
        case "replace":
            base = {}
        case "merge":
            base = _without_rivals(_retained(base, patch, path), patch, kind, rules)
        case other:
            raise MergeConflict(path, f"$patch is {other!r}; write delete, merge or replace")
    result: Json = {name: _copy(value) for name, value in base.items()}
    for name, value in patch.items():
        if value is None or (name not in base and _deletes(value)):
            result.pop(name, None)
        elif not _is_directive(name):
            result[name] = _merge_value(base.get(name), value, f"{kind}.{name}", (*path, name), rules)
    return _with_list_directives(result, base, patch, kind, path)


def _merge_value(base: Any, patch: Any, slot: str, path: Path, rules: _Rules) -> Any:
    if isinstance(patch, Mapping):
        kind = MERGE_KEYS.get(slot, _PLAIN_FIELD).type
        return _merge_object(base if isinstance(base, Mapping) else {}, patch, kind, path, rules)
    if isinstance(patch, list):
        return _merge_list(base if isinstance(base, list) else [], patch, slot, path, rules)
    return patch


def _merge_list(base: list[Any], patch: list[Any], slot: str, path: Path, rules: _Rules) -> list[Any]:
    field = MERGE_KEYS.get(slot, _PLAIN_FIELD)
    base, patch = _without_special_items(base, patch, field, path)
    if rule := rules.lists.get(slot):
        return rule(_copy(base), _clean(patch, field, path, rules), path)
    if field.key:
        return _merge_keyed(base, patch, slot, path, rules)
    if field.merge:
        return _in_order(_unique([*base, *patch]), patch, base, _equal)
    return _clean(patch, field, path, rules)


def _merge_keyed(base: list[Any], patch: list[Any], slot: str, path: Path, rules: _Rules) -> list[Any]:
    field = MERGE_KEYS[slot]
    same = same_item(field)
    merged: list[Any] = _copy(base)
    for index, item in enumerate(patch):
        where = (*path, index)
        at = position(merged, _keyed_item(item, field, where), same)
        if at is None:
            merged.append(_merge_object({}, item, field.type, where, rules))
        else:
            merged[at] = _merge_object(merged[at], item, field.type, where, rules)
    return merged if slot in rules.base_first else _in_order(merged, patch, base, same)


def _clean(patch: list[Any], field: Field, path: Path, rules: _Rules) -> list[Any]:
    """Return the user's items as they are, freed of nulls and directives inside them."""
    result: list[Any] = []
    for at, item in enumerate(patch):
        where = (*path, at)
        if isinstance(item, Mapping):
            result.append(_merge_object({}, item, field.type, where, rules))
        else:
            result.append(_merge_value(None, item, "", where, rules))
    return result


def _without_special_items(base: list[Any], patch: list[Any], field: Field, path: Path) -> tuple[list[Any], list[Any]]:
    """Obey the items of a list that are directives: `$patch: replace` for the list, `delete` for one item."""
    plain = [item for item in patch if not (isinstance(item, Mapping) and "$patch" in item)]
    if len(plain) == len(patch):
        return base, patch
    same = same_item(field)
    for index, item in enumerate(patch):
        directive = item.get("$patch", "") if isinstance(item, Mapping) else ""
        if directive == "replace":
            base = []
        elif directive == "delete" and field.key:
            gone = _keyed_item(item, field, (*path, index))
            base = [kept for kept in base if not same(kept, gone)]
        elif directive not in ("", "delete"):
            raise MergeConflict((*path, index), f"$patch is {directive!r}; write delete or replace")
    return base, plain


def _with_list_directives(
    result: Json, base: Mapping[str, Any], patch: Mapping[str, Any], kind: str, path: Path
) -> Json:
    for directive, value in patch.items():
        verb, _, name = directive.partition("/")
        if verb not in _DIRECTIVES or not isinstance(result.get(name), list):
            continue
        wanted = _list(value, (*path, directive))
        if verb == "$deleteFromPrimitiveList":
            result[name] = [item for item in result[name] if item not in wanted]
        else:
            same = same_item(MERGE_KEYS.get(f"{kind}.{name}", _PLAIN_FIELD))
            before = base.get(name)
            result[name] = _in_order(result[name], wanted, before if isinstance(before, list) else [], same)
    return result


def _retained(base: Mapping[str, Any], patch: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    if "$retainKeys" not in patch:
        return base
    keys = _list(patch["$retainKeys"], (*path, "$retainKeys"))
    if strays := [name for name in patch if name not in keys and not _is_directive(name)]:
        raise MergeConflict(path, f"$retainKeys leaves out {strays[0]!r}, which the same object sets")
    return {name: value for name, value in base.items() if name in keys}


def _without_rivals(base: Mapping[str, Any], patch: Mapping[str, Any], kind: str, rules: _Rules) -> Mapping[str, Any]:
    given = {name for name, value in patch.items() if value is not None and not _is_directive(name)}
    handlers = rules.handlers.get(kind, frozenset())
    if given & handlers:
        return {name: value for name, value in base.items() if name not in handlers}
    if kind in rules.one_source and given - {"name"}:
        return {name: value for name, value in base.items() if name == "name" or name in given}
    return base


def _in_order(items: list[Any], first: list[Any], base: list[Any], same: Same) -> list[Any]:
    """Order a merged list as Kubernetes does: `first` rules, the base decides where its own items go."""
    wanted = [(at, item) for item in items if (at := position(first, item, same)) is not None]
    left = [item for _, item in sorted(wanted, key=lambda pair: pair[0])]
    own = [item for item in items if position(first, item, same) is None]
    result: list[Any] = []
    while own and left:
        mine, theirs = position(base, own[0], same), position(base, left[0], same)
        goes_first = mine is not None and theirs is not None and mine < theirs
        result.append((own if goes_first else left).pop(0))
    return result + left + own


def _concatenated(base: list[Any], user: list[Any], _: Path) -> list[Any]:
    return base + user


def _united(base: list[Any], user: list[Any], _: Path) -> list[Any]:
    return base + [item for item in _unique(user) if item not in base]


def _united_by_name(base: list[Any], user: list[Any], path: Path) -> list[Any]:
    """DNS options: one line per name, and the user's value wins."""
    names = [_object(item, (*path, at)).get("name") for at, item in enumerate(user)]
    return [item for item in base if item.get("name") not in names] + user


def _both_required(base: list[Any], user: list[Any], path: Path) -> list[Any]:
    """AND two ORed lists of node selector terms: every pair, joined."""
    if not base or not user:
        return base or user
    theirs = [term for at, item in enumerate(user) if (term := _term(item, (*path, at)))]
    ours = [term for item in base if (term := _term(item, path))]
    joined = [{name: _joined(one, other, name) for name in {**other, **one}} for one, other in product(theirs, ours)]
    # No pair means that one side matches no node at all, which Kubernetes writes as one empty term.
    return _unique(joined) or [{}]


def _term(value: Any, path: Path) -> dict[str, list[Any]]:
    parts = _object(value, path)
    return {
        name: requirements
        for name in ("matchExpressions", "matchFields")
        if (requirements := _list(parts.get(name) or [], (*path, name)))
    }


def _joined(theirs: Mapping[str, list[Any]], ours: Mapping[str, list[Any]], name: str) -> list[Any]:
    return _united(_copy(ours.get(name, [])), _copy(theirs.get(name, [])), ())


def same_item(field: Field) -> Same:
    if not field.key:
        return _equal

    def same(one: Any, other: Any) -> bool:
        if not (isinstance(one, Mapping) and isinstance(other, Mapping) and field.key in one):
            return False
        return one[field.key] == other.get(field.key) and all(_agree(one, other, *key) for key in field.also)

    return same


def _agree(one: Mapping[str, Any], other: Mapping[str, Any], name: str, default: str) -> bool:
    """Say whether a second key does not tell two items apart: unknown agrees with everything."""
    mine, theirs = one.get(name) or default, other.get(name) or default
    return not mine or not theirs or mine == theirs


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)


def position(items: list[Any], wanted: Any, same: Same) -> int | None:
    return next((at for at, item in enumerate(items) if same(item, wanted)), None)


def _unique(items: Iterable[Any]) -> list[Any]:
    result: list[Any] = []
    for item in items:
        if item not in result:
            result.append(item)
    return result


def _keyed_item(item: Any, field: Field, path: Path) -> Mapping[str, Any]:
    if _object(item, path).get(field.key) is None:
        raise MergeConflict(path, f"has no {field.key}, which tells the items of this list apart; add it")
    found: Mapping[str, Any] = item
    return found


def _object(value: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise MergeConflict(path, f"must be an object, not {type(value).__name__}")
    return value


def _list(value: Any, path: Path) -> list[Any]:
    if not isinstance(value, list):
        raise MergeConflict(path, f"must be a list, not {type(value).__name__}")
    return value


def _deletes(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("$patch") == "delete"


def _is_directive(name: str) -> bool:
    return name.partition("/")[0] in _DIRECTIVES


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


_TERMS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)

_KUBERNETES: Final = _Rules({}, {}, frozenset(), frozenset())

_OVERLAY: Final = _Rules(
    lists=MappingProxyType(
        {
            "Container.args": _concatenated,
            "NodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": _united,
            "NodeSelector.nodeSelectorTerms": _both_required,
            "PodDNSConfig.nameservers": _united,
            "PodDNSConfig.options": _united_by_name,
            "PodDNSConfig.searches": _united,
            "PodSpec.tolerations": _united,
            **{f"{kind}.{terms}": _united for kind in ("PodAffinity", "PodAntiAffinity") for terms in _TERMS},
        }
    ),
    handlers=MappingProxyType(
        {
            "Probe": frozenset({"exec", "grpc", "httpGet", "tcpSocket"}),
            "LifecycleHandler": frozenset({"exec", "httpGet", "sleep", "tcpSocket"}),
        }
    ),
    one_source=frozenset({"EnvVar", "EnvVarSource", "PodResourceClaim", "Volume"}),
    base_first=frozenset({"PodSpec.containers", "PodSpec.initContainers"}),
)
