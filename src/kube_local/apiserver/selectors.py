"""Label and field selectors: text or LabelSelector object in, predicate out.

Called by `reads` and `watch` for every row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kube_runtime.requirement import holds

from .errors import ApiError, bad_request
from .registry import Kind
from .store import Row

_TOKEN = re.compile(r"\s*(?P<token>==|!=|[!=<>(),]|[^\s!=<>(),]+)")
_SYMBOLS = frozenset({"==", "!=", "!", "=", "<", ">", "(", ")", ","})
_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)")
_FIELD_TERM = re.compile(r"(?P<field>[^=!,]+?)(?P<op>==|!=|=)(?P<value>(?:\\.|[^\\,])*)$")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term: `op` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    op: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when the labels meet the term; `NotIn` also meets labels without the key."""
        return holds(self.op, labels.get(self.key), self.values)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All terms must hold; no terms match everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when every term holds."""
        return all(requirement.matches(labels) for requirement in self.requirements)


_OPS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}


class _Parser:
    """The grammar of label selectors, with the words that the real server complains in."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def parse(self) -> Iterator[Requirement]:
        while self._peek():
            yield self._requirement()
            symbol = self._take()
            if symbol and symbol != ",":
                raise _unreadable(f"found '{symbol}', expected: ',' or 'end of string'")
            if symbol and not self._peek():
                raise _unreadable("found '', expected: identifier after ','")

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        symbol = self._peek()
        self._next += 1
        return symbol

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!" and bool(self._take())
        key = self._take()
        if not key or key in _SYMBOLS:
            raise bad_request(f"found '{key}', expected: !, identifier, or 'end of string'")
        if absent or self._peek() in {"", ","}:
            return Requirement(key, "DoesNotExist" if absent else "Exists")
        operator = self._take()
        if operator in {"in", "notin"}:
            return Requirement(key, "In" if operator == "in" else "NotIn", self._set())
        if operator not in _OPS:
            raise _unreadable(f"found '{operator}', expected: {_OPERATORS}")
        value = "" if self._peek() in {"", ","} else self._take()
        if value in _SYMBOLS:
            raise _unreadable(f"found '{value}', expected: identifier")
        return Requirement(key, _OPS[operator], (value,))

    def _set(self) -> tuple[str, ...]:
        symbol = self._take()
        if symbol != "(":
            raise _unreadable(f"found '{symbol}' expected: '('")
        values: list[str] = [""]
        while (symbol := self._take()) != ")":
            if symbol == ",":
                values.append("")
            elif not symbol or symbol in _SYMBOLS or values[-1]:
                raise _unreadable(f"found '{symbol}', expected: ',', or ')'")
            else:
                values[-1] = symbol
        return tuple(values)


def _unreadable(what: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {what}")


def parse_labels(text: str) -> LabelSelector:
    """A selector as in `labelSelector=`."""
    found = tuple(_Parser(text).parse())
    for requirement in found:
        _check(requirement)
    return LabelSelector(found)


def _check(requirement: Requirement) -> None:
    if not _NAME.fullmatch(requirement.key.rpartition("/")[2]):
        raise bad_request(
            f'unable to parse requirement: key: Invalid value: "{requirement.key}": '
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character"
        )
    for value in requirement.values:
        if value and (len(value) > 63 or not _NAME.fullmatch(value)):
            raise bad_request(
                f'unable to parse requirement: values[0][{requirement.key}]: Invalid value: "{value}": '
                "a valid label must be an empty string or consist of at most 63 alphanumeric characters, "
                "'-', '_' or '.', and must start and end with an alphanumeric character"
            )


def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """A selector as in `spec.selector`: matchLabels and matchExpressions."""
    if not selector:
        return LabelSelector()
    terms = [Requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [
        Requirement(term["key"], term["operator"], tuple(term.get("values") or ()))
        for term in selector.get("matchExpressions") or ()
    ]
    return LabelSelector(tuple(terms))


def label_selector_text(selector: Mapping[str, Any] | None) -> str:
    """The text form of a LabelSelector object, as `Scale.status.selector` carries it."""
    if not selector:
        return ""
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        values = ",".join(sorted(term.get("values") or ()))
        terms.append(
            {
                "In": f"{term['key']} in ({values})",
                "NotIn": f"{term['key']} notin ({values})",
                "Exists": term["key"],
                "DoesNotExist": f"!{term['key']}",
            }[term["operator"]]
        )
    return ",".join(terms)


_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_KIND_FIELDS: dict[str, frozenset[str]] = {
    "pods": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        }
    ),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase"}),
    "secrets": frozenset({"type"}),
    "services": frozenset({"spec.clusterIP", "spec.type"}),
    "replicasets.apps": frozenset({"status.replicas"}),
    "events": frozenset(
        {*(f"involvedObject.{name}" for name in _INVOLVED), "reason", "reportingComponent", "source", "type"}
        | {*(f"regarding.{name}" for name in _INVOLVED), "reportingController"}
    ),
}
_BOOLEAN_FIELDS = frozenset({"spec.unschedulable", "spec.hostNetwork"})
_EVENT_ALIASES = {"reportingController": "reportingComponent", "source": "source.component"}


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """`path` equals, or does not equal, `value`."""

    path: str
    equal: bool
    value: str

    def matches(self, row: Row, load: Callable[[], dict[str, Any]]) -> bool:
        """Names and namespaces are read from the row; other fields decode the object."""
        if self.path == "metadata.name":
            found = row.name
        elif self.path == "metadata.namespace":
            found = row.namespace
        else:
            found = _field(load(), self.path)
        return (found == self.value) == self.equal


def _field(obj: Mapping[str, Any], path: str) -> str:
    path = _EVENT_ALIASES.get(path, path)
    if path.startswith("regarding."):
        path = f"involvedObject.{path.removeprefix('regarding.')}"
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if path in _BOOLEAN_FIELDS:
        return "true" if value else "false"
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, row: Row) -> bool:
        """True when every term holds."""
        return all(term.matches(row, row.load) for term in self.terms)


def parse_fields(text: str, kind: Kind) -> FieldSelector:
    """A selector as in `fieldSelector=`; only fields that the kind can be selected by."""
    terms: list[FieldTerm] = []
    for part in re.split(r"(?<!\\),", text) if text else ():
        if not part.strip():
            continue
        match = _FIELD_TERM.match(part.strip())
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        _check_field(match["field"], kind)
        value = re.sub(r"\\(.)", r"\1", match["value"])
        terms.append(FieldTerm(match["field"], match["op"] != "!=", value))
    return FieldSelector(tuple(terms))


def _check_field(path: str, kind: Kind) -> None:
    if path in _METADATA_FIELDS or path in _KIND_FIELDS.get(kind.resource, ()):
        return
    selectable: Sequence[Mapping[str, str]] = (kind.crd_version or {}).get("selectableFields") or ()
    if any(one.get("jsonPath", "").lstrip(".") == path for one in selectable):
        return
    if kind.custom or kind.resource in _KIND_FIELDS:
        raise bad_request(f"field label not supported: {path}")
    raise bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels and fields of one request."""

    labels: LabelSelector = LabelSelector()
    fields: FieldSelector = FieldSelector()

    @property
    def names_one(self) -> bool:
        """Whether only one name can match, so that a list is a look-up."""
        return any(term.path == "metadata.name" and term.equal for term in self.fields.terms)

    @property
    def empty(self) -> bool:
        """Matches everything."""
        return not self.labels.requirements and not self.fields.terms

    def matches(self, row: Row) -> bool:
        """True when the row is selected."""
        return self.labels.matches(row.labels) and self.fields.matches(row)


def from_query(query: Mapping[str, str], kind: Kind, name: str = "") -> Selector:
    """The selector of a list or watch request; `name` narrows it to one object."""
    fields = parse_fields(query.get("fieldSelector", ""), kind)
    if name:
        fields = FieldSelector((*fields.terms, FieldTerm("metadata.name", equal=True, value=name)))
    return Selector(parse_labels(query.get("labelSelector", "")), fields)
