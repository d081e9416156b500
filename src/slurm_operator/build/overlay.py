"""Lays what the user wrote over what the operator built: dict in, new dict out, nothing mutated.

In: the base that a builder made and the container, pod spec or service spec out of the custom resource. Out:
the object to apply, or `MergeConflict`. Called by the builders of every kind.

The engine is the strategic merge patch of Kubernetes, `kube_runtime/strategic_merge.py`, with the keys of
`merge_keys.py`. Over that, there are rules here for lists that carry the operator's own needs and for objects of which
only one field may be set. One of them would take time in the square of its list, and is bounded by an error instead:
how many pairs of required node selector terms there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import product
from typing import Any, Final

from kube_runtime.item_index import Field, ListRule, frozen
from kube_runtime.strategic_merge import (
    PLAIN_FIELD,
    Json,
    MergeConflict,
    Rules,
    as_list,
    as_object,
    copied,
    merge_object,
    unique,
)
from slurm_operator.api.problem import Path, format_path
from slurm_operator.build.merge_keys import MERGE_KEYS

# Each pair of a required node selector term of the user and one of the operator becomes a term.
MAX_TERMS: Final = 1024


def merge_container(base: Mapping[str, Any], user: Mapping[str, Any]) -> Json:
    """Lay the user's container over the operator's.

    `args` are concatenated, base first. A probe or hook keeps its handler unless the user gives one, which
    then replaces it; the numbers merge. An environment variable that the user redefines loses its old source.
    The rest is a strategic merge: `command` replaced, `env` by name, `ports` by number, mounts by path.
    """
    return merge_object(base, user, "Container", _OVERLAY)


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
    return merge_object(base, user, "PodSpec", _OVERLAY)


def merge_service_spec(base: Mapping[str, Any], user: Mapping[str, Any]) -> Json:
    """Lay the user's service spec over the operator's.

    The user's fields are taken as they are, save `externalIPs`, which is dropped: it lets a service capture
    traffic that is not its own (CVE-2020-8554). The operator's selector labels win, its ports come last.
    """
    kept = {name: copied(value) for name, value in base.items() if user.get(name, "") is not None}
    given = merge_object({}, user, "", _AS_WRITTEN)
    result: Json = {**kept, **given}
    result.pop("externalIPs", None)
    if selector := base.get("selector"):
        result["selector"] = {**as_object(given.get("selector", {}), ("selector",)), **selector}
    if ports := base.get("ports"):
        result["ports"] = as_list(given.get("ports", []), ("ports",)) + copied(ports)
    _refuse_port_conflicts(as_list(result.get("ports", []), ("ports",)))
    return result


def _concatenated(base: list[Any], user: list[Any], _: Path) -> list[Any]:
    return base + user


def _united(base: list[Any], user: list[Any], _: Path) -> list[Any]:
    return unique(user, base)


def _united_by_name(base: list[Any], user: list[Any], path: Path) -> list[Any]:
    """DNS options: one line per name, and the user's value wins."""
    names = {frozen(as_object(item, (*path, at)).get("name")) for at, item in enumerate(user)}
    return [item for item in base if frozen(item.get("name")) not in names] + user


def _both_required(base: list[Any], user: list[Any], path: Path) -> list[Any]:
    """AND two ORed lists of node selector terms: every pair, joined."""
    if not base or not user:
        return base or user
    theirs = [term for at, item in enumerate(user) if (term := _term(item, (*path, at)))]
    ours = [term for item in base if (term := _term(item, path))]
    if len(theirs) * len(ours) > MAX_TERMS:
        message = f"has {len(theirs)} terms, each to be joined with {len(ours)} of the operator"
        raise MergeConflict(path, f"{message}; at most {MAX_TERMS // len(ours)} are allowed")
    joined = [{name: _joined(one, other, name) for name in {**other, **one}} for one, other in product(theirs, ours)]
    # No pair means that one side matches no node at all, which Kubernetes writes as one empty term.
    return unique(joined) or [{}]


def _term(value: Any, path: Path) -> dict[str, list[Any]]:
    parts = as_object(value, path)
    return {
        name: requirements
        for name in ("matchExpressions", "matchFields")
        if (requirements := as_list(parts.get(name) or [], (*path, name)))
    }


def _joined(theirs: Mapping[str, list[Any]], ours: Mapping[str, list[Any]], name: str) -> list[Any]:
    return _united(copied(ours.get(name, [])), copied(theirs.get(name, [])), ())


def _refuse_port_conflicts(ports: list[Any]) -> None:
    """More than one port of a service need names, and names and numbers that differ."""
    if len(ports) < 2:
        return
    seen: dict[Any, int] = {}
    for index, port in enumerate(as_object(port, ("ports", at)) for at, port in enumerate(ports)):
        name, number = port.get("name"), port.get("port")
        if not name:
            raise MergeConflict(("ports", index, "name"), "every port needs a name when there is more than one")
        protocol = port.get("protocol") or "TCP"
        for field, value in (("name", name), ("port", f"{number}/{protocol}")):
            if (field, value) in seen:
                other = format_path(("ports", seen[field, value]))
                raise MergeConflict(("ports", index, field), f"{value} is taken by {other}; choose another {field}")
            seen[field, value] = index


def _field(kind: str, name: str) -> Field:
    return _FIELDS.get(f"{kind}.{name}", PLAIN_FIELD)


def _without_rivals(base: Mapping[str, Any], given: Set[str], kind: str) -> Mapping[str, Any]:
    handlers = _HANDLERS.get(kind, frozenset())
    if given & handlers:
        return {name: value for name, value in base.items() if name not in handlers}
    if kind in _ONE_SOURCE and given - {"name"}:
        return {name: value for name, value in base.items() if name == "name" or name in given}
    return base


_TERMS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
# Lists that are neither replaced nor merged by key; slots are `Type.field` as in the merge table.
_LISTS: Final[Mapping[str, ListRule]] = {
    "Container.args": _concatenated,
    "NodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": _united,
    "NodeSelector.nodeSelectorTerms": _both_required,
    "PodDNSConfig.nameservers": _united,
    "PodDNSConfig.options": _united_by_name,
    "PodDNSConfig.searches": _united,
    "PodSpec.tolerations": _united,
    **{f"{kind}.{terms}": _united for kind in ("PodAffinity", "PodAntiAffinity") for terms in _TERMS},
}
# Keyed lists that keep the operator's order.
_BASE_FIRST: Final = ("PodSpec.containers", "PodSpec.initContainers")
# By type, fields of which one at most is set; giving any of them drops what was set before.
_HANDLERS: Final[Mapping[str, frozenset[str]]] = {
    "Probe": frozenset({"exec", "grpc", "httpGet", "tcpSocket"}),
    "LifecycleHandler": frozenset({"exec", "httpGet", "sleep", "tcpSocket"}),
}
# Types with a name and one source; giving a source drops every other one, and merges into the same.
_ONE_SOURCE: Final = frozenset({"EnvVar", "EnvVarSource", "PodResourceClaim", "Volume"})

_FIELDS: Final[Mapping[str, Field]] = {
    **MERGE_KEYS,
    **{slot: MERGE_KEYS.get(slot, PLAIN_FIELD)._replace(rule=rule) for slot, rule in _LISTS.items()},
    **{slot: MERGE_KEYS[slot]._replace(base_first=True) for slot in _BASE_FIRST},
}
_OVERLAY: Final = Rules(_field, _without_rivals)
_AS_WRITTEN: Final = Rules(lambda _kind, _name: PLAIN_FIELD)
