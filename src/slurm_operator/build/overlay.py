"""Lays what the user wrote over what the operator built: dict in, new dict out, nothing mutated.

In: the base that a builder made and the container, pod spec or service spec out of the custom resource. Out:
the object to apply. Called by the builders of every kind.

The engine is the strategic merge patch of Kubernetes (merge keys in `merge_keys.py`): objects merge field by
field, keyed lists merge by item, other lists and all scalars are replaced, `null` deletes, and the directives
`$patch`, `$retainKeys`, `$deleteFromPrimitiveList` and `$setElementOrder` are obeyed and never reach the
result. Explicit `false`, `0` and `""` are values like any other: they win.

The time is linear in the size of both sides. Two things would not be, and are bounded with an error instead: how often
a list names one item, and how many pairs of required node selector terms there are.

A merged list keeps the user's order; an item that only the base has goes in front of the first shared item
that follows it in the base, else behind all items of the user. Without shared items that is: user, then base.

Over that, `_OVERLAY` holds rules for lists that carry the operator's own needs and for objects of which only
one field may be set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any, ClassVar, Final

from kube_runtime.errors import Terminal
from slurm_operator.api.problem import Path, format_path, shown
from slurm_operator.build.item_index import ItemIndex, frozen
from slurm_operator.build.merge_keys import MERGE_KEYS, Field

Json = dict[str, Any]
ListRule = Callable[[list[Any], list[Any], Path], list[Any]]

# Each pair of a required node selector term of the user and one of the operator becomes a term.
MAX_TERMS: Final = 1024
# Items of one list with the same key are merged one after the other, each at the cost of what is there already.
MAX_REPEATS: Final = 4

_TYPES: Final = frozenset(slot.partition(".")[0] for slot in MERGE_KEYS)
_DIRECTIVES: Final = frozenset({"$patch", "$retainKeys", "$deleteFromPrimitiveList", "$setElementOrder"})
_PLAIN_FIELD: Final = Field()


class OverlayConflict(Terminal):
    """The user's part does not fit over the operator's: `steps` (written: `path`) is where, `message` what to do."""

    reason: ClassVar[str] = "OverlayConflict"

    def __init__(self, steps: Path, message: str) -> None:
        super().__init__(f"{format_path(steps)}: {message}")
        self.steps = steps
        self.path = format_path(steps)
        self.message = message


def merge(base: Mapping[str, Any], patch: Mapping[str, Any], schema: str = "io.k8s.api.core.v1.PodSpec") -> Json:
    """Apply a strategic merge patch as Kubernetes does, for the type that `schema` names.

    One thing is better here: two ports with the same number stay two when their protocols differ, and two
    topology spread constraints over one key when `whenUnsatisfiable` does.
    """
    kind = schema.rpartition(".")[2]
    if kind not in _TYPES:
        raise ValueError(f"no merge keys for type {schema!r}: add it to ROOTS in tools/merge_keys.py")
    return _merge_object(base, patch, kind, (), _KUBERNETES)


def merge_container(base: Mapping[str, Any], user: Mapping[str, Any]) -> Json:
    """Lay the user's container over the operator's.

    `args` are concatenated, base first. A probe or hook keeps its handler unless the user gives one, which
    then replaces it; the numbers merge. An environment variable that the user redefines loses its old source.
    The rest is a strategic merge: `command` replaced, `env` by name, `ports` by number, mounts by path.
    """
    return _merge_object(base, user, "Container", (), _OVERLAY)


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


def merge_service_spec(base: Mapping[str, Any], user: Mapping[str, Any]) -> Json:
    """Lay the user's service spec over the operator's.

    The user's fields are taken as they are, save `externalIPs`, which is dropped: it lets a service capture
    traffic that is not its own (CVE-2020-8554). The operator's selector labels win, its ports come last.
    """
    kept = {name: _copy(value) for name, value in base.items() if user.get(name, "") is not None}
    given = _merge_object({}, user, "", (), _KUBERNETES)
    result: Json = {**kept, **given}
    result.pop("externalIPs", None)
    if selector := base.get("selector"):
        result["selector"] = {**_object(given.get("selector", {}), ("selector",)), **selector}
    if ports := base.get("ports"):
        result["ports"] = _list(given.get("ports", []), ("ports",)) + _copy(ports)
    _refuse_port_conflicts(_list(result.get("ports", []), ("ports",)))
    return result


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
            raise OverlayConflict(path, f"$patch is {shown(other)}; write delete, merge or replace")
    # What the patch sets is copied as it is merged, and only then: copies at every level would add up.
    result: Json = {name: None if _is_set(patch, name) else _copy(value) for name, value in base.items()}
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
        return _in_order(_unique([*base, *patch]), patch, base, _PLAIN_FIELD)
    return _clean(patch, field, path, rules)


def _merge_keyed(base: list[Any], patch: list[Any], slot: str, path: Path, rules: _Rules) -> list[Any]:
    field = MERGE_KEYS[slot]
    merged: list[Any] = _copy(base)
    index, times = ItemIndex(field, merged), Counter[int]()
    for number, item in enumerate(patch):
        where = (*path, number)
        found = index.find(_keyed_item(item, field, where))
        at = len(merged) if found is None else found
        times[at] += 1
        if times[at] > MAX_REPEATS:
            message = f"is the same {field.key} for the {times[at]}th time; write each item of this list once"
            raise OverlayConflict((*where, field.key), message)
        if found is None:
            merged.append({})
        merged[at] = _merge_object(merged[at], item, field.type, where, rules)
        index.put(at, merged[at])
    return merged if slot in rules.base_first else _in_order(merged, patch, base, field)


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
    gone: list[Any] = []
    for index, item in enumerate(patch):
        directive = item.get("$patch", "") if isinstance(item, Mapping) else ""
        if directive == "replace":
            base = []
        elif directive == "delete" and field.key:
            gone.append(_keyed_item(item, field, (*path, index)))
        elif directive not in ("", "delete"):
            raise OverlayConflict((*path, index), f"$patch is {shown(directive)}; write delete or replace")
    deleted = ItemIndex(field, gone)
    return [kept for kept in base if deleted.find(kept) is None] if gone else base, plain


def _with_list_directives(
    result: Json, base: Mapping[str, Any], patch: Mapping[str, Any], kind: str, path: Path
) -> Json:
    for directive, value in patch.items():
        verb, _, name = directive.partition("/")
        if verb not in _DIRECTIVES or not isinstance(result.get(name), list):
            continue
        wanted = _list(value, (*path, directive))
        if verb == "$deleteFromPrimitiveList":
            gone = {frozen(item) for item in wanted}
            result[name] = [item for item in result[name] if frozen(item) not in gone]
        else:
            field, before = MERGE_KEYS.get(f"{kind}.{name}", _PLAIN_FIELD), base.get(name)
            result[name] = _in_order(result[name], wanted, before if isinstance(before, list) else [], field)
    return result


def _retained(base: Mapping[str, Any], patch: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    if "$retainKeys" not in patch:
        return base
    keys = {name for name in _list(patch["$retainKeys"], (*path, "$retainKeys")) if isinstance(name, str)}
    if strays := [name for name in patch if name not in keys and not _is_directive(name)]:
        raise OverlayConflict(path, f"$retainKeys leaves out {strays[0][:60]!r}, which the same object sets")
    return {name: value for name, value in base.items() if name in keys}


def _without_rivals(base: Mapping[str, Any], patch: Mapping[str, Any], kind: str, rules: _Rules) -> Mapping[str, Any]:
    given = {name for name, value in patch.items() if value is not None and not _is_directive(name)}
    handlers = rules.handlers.get(kind, frozenset())
    if given & handlers:
        return {name: value for name, value in base.items() if name not in handlers}
    if kind in rules.one_source and given - {"name"}:
        return {name: value for name, value in base.items() if name == "name" or name in given}
    return base


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


def _concatenated(base: list[Any], user: list[Any], _: Path) -> list[Any]:
    return base + user


def _united(base: list[Any], user: list[Any], _: Path) -> list[Any]:
    return _unique(user, base)


def _united_by_name(base: list[Any], user: list[Any], path: Path) -> list[Any]:
    """DNS options: one line per name, and the user's value wins."""
    names = {frozen(_object(item, (*path, at)).get("name")) for at, item in enumerate(user)}
    return [item for item in base if frozen(item.get("name")) not in names] + user


def _both_required(base: list[Any], user: list[Any], path: Path) -> list[Any]:
    """AND two ORed lists of node selector terms: every pair, joined."""
    if not base or not user:
        return base or user
    theirs = [term for at, item in enumerate(user) if (term := _term(item, (*path, at)))]
    ours = [term for item in base if (term := _term(item, path))]
    if len(theirs) * len(ours) > MAX_TERMS:
        message = f"has {len(theirs)} terms, each to be joined with {len(ours)} of the operator"
        raise OverlayConflict(path, f"{message}; at most {MAX_TERMS // len(ours)} are allowed")
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


def _refuse_port_conflicts(ports: list[Any]) -> None:
    """More than one port of a service need names, and names and numbers that differ."""
    if len(ports) < 2:
        return
    seen: dict[Any, int] = {}
    for index, port in enumerate(_object(port, ("ports", at)) for at, port in enumerate(ports)):
        name, number = port.get("name"), port.get("port")
        if not name:
            raise OverlayConflict(("ports", index, "name"), "every port needs a name when there is more than one")
        protocol = port.get("protocol") or "TCP"
        for field, value in (("name", name), ("port", f"{number}/{protocol}")):
            if (field, value) in seen:
                other = format_path(("ports", seen[field, value]))
                raise OverlayConflict(("ports", index, field), f"{value} is taken by {other}; choose another {field}")
            seen[field, value] = index


def _unique(items: Iterable[Any], known: Iterable[Any] = ()) -> list[Any]:
    """Return all that is known, and behind it each other item once."""
    result = list(known)
    seen = {frozen(item) for item in result}
    for item in items:
        key = frozen(item)
        if key not in seen:
            seen.add(key)
            result.append(item)
    return result


def _keyed_item(item: Any, field: Field, path: Path) -> Mapping[str, Any]:
    if _object(item, path).get(field.key) is None:
        raise OverlayConflict(path, f"has no {field.key}, which tells the items of this list apart; add it")
    found: Mapping[str, Any] = item
    return found


def _object(value: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise OverlayConflict(path, f"must be an object, not {type(value).__name__}")
    return value


def _list(value: Any, path: Path) -> list[Any]:
    if not isinstance(value, list):
        raise OverlayConflict(path, f"must be a list, not {type(value).__name__}")
    return value


def _deletes(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("$patch") == "delete"


def _is_set(patch: Mapping[str, Any], name: str) -> bool:
    return name in patch and not _is_directive(name)


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
