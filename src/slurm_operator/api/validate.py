"""From a custom resource as decoded JSON or YAML to a typed Struct, or to everything that is wrong with it.

In: a mapping. Out: `Decoded`, with all findings at once, each with its path. Called by the command line, by the
admission server and by the reconcilers (when the webhook is bypassed). The schema is the one in the CRD; parts that
the CRD leaves open (containers, pod specs, service specs, claims) are held against Kubernetes' own types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from kube_runtime.text import shown
from slurm_operator.api import embedded
from slurm_operator.api.bounds import depth_problem
from slurm_operator.api.crd import object_schema
from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import API_VERSION, Resource
from slurm_operator.api.problem import FieldProblem, Path, did_you_mean, errors, limited
from slurm_operator.api.schema import Schema
from slurm_operator.api.structural import PRESERVE, UNKNOWN, structural

_MISSING = re.compile(r"Object missing required field `(\w+)`")
_MEANT = re.compile(r'did you mean "([^"]+)"')
_IDENTITY = (("metadata", "name"), ("metadata", "namespace"))
# Leaving out one field may make another one wrong: how often this is repeated.
MAX_LEFT_OUT = 8
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A resource, or none when there are errors, and what was found."""

    resource: Resource | None
    problems: tuple[FieldProblem, ...]
    # Of one that an API server holds, also with errors: a cluster does not lose the nodes of a NodeSet that is wrong.
    readable: Resource | None = None


def decode(raw: Mapping[str, Any], *, served: bool = False) -> Decoded:
    """Decode a custom resource; never raises.

    `served`: an API server holds it, which drops what its definitions do not have. A field that is not known here is
    then one of newer definitions, which are upgraded before the operator, and is ignored. In the embedded types, whose
    fields no definition lists, it is left out, as the API server would leave it out of a pod.
    """
    kind = BY_NAME.get(str(raw.get("kind")))
    if kind is None or raw.get("apiVersion") != API_VERSION:
        return Decoded(None, tuple(_wrong_kind(raw)))
    too_deep = depth_problem(raw)
    if too_deep is not None:
        return Decoded(None, (too_deep,))
    if not _is_unicode(raw):
        return Decoded(None, tuple(limited(_not_unicode(raw, ()))))
    problems = limited(_problems(kind.name, raw, _written(raw), served=served))
    wrong = bool(errors(problems))
    if wrong and not served:
        return Decoded(None, tuple(problems))
    known = embedded.without_unknown(kind.name, raw) if served else raw
    try:
        resource: Resource = msgspec.convert(without_nulls(known, schema_of(kind.name)), kind.struct)
    except (msgspec.ValidationError, OverflowError) as error:
        return Decoded(None, tuple(problems) if wrong else (*problems, _unconvertible(str(error))))
    return Decoded(None if wrong else resource, tuple(problems), resource)


def decode_part(raw: Mapping[str, Any], leave_out: Iterable[Path] = ()) -> tuple[Resource | None, tuple[Path, ...]]:
    """What can be read of a resource without the fields that are wrong, and the paths of those; never raises.

    For a caller that looks for mistakes hidden behind a wrong field. `leave_out`: fields to leave out in any case.
    """
    kind = BY_NAME.get(str(raw.get("kind")))
    if kind is None or depth_problem(raw) is not None or not _is_unicode(raw):
        return None, ()
    known: Any = without_nulls({**raw, "apiVersion": API_VERSION}, schema_of(kind.name))
    gone: list[Path] = []
    for path in leave_out:
        known = _without(known, path, gone)
    for _ in range(MAX_LEFT_OUT):
        problems = errors(limited(_problems(kind.name, known, _written(known), served=False)))
        if not problems:
            break
        for problem in problems:
            known = _without(known, problem.path, gone)
            gone += _meant(problem)
    if any(path[:2] in _IDENTITY for path in gone):
        return None, tuple(gone)
    try:
        return msgspec.convert(known, kind.struct), tuple(gone)
    except (msgspec.ValidationError, OverflowError):
        return None, tuple(gone)


def _written(raw: Mapping[str, Any]) -> dict[str, Any]:
    # An API server drops the status of what people write; only its types must fit.
    return {name: value for name, value in raw.items() if name != "status"}


def _without(value: Any, path: Path, gone: list[Path]) -> Any:
    """A value without a field: without the object around it if the field is missing there, and without the list around
    an item, since the places of the others would move."""
    gone.append(path)
    around = path
    while around and (isinstance(around[-1], int) or not _has(value, around)):
        around = around[:-1]
    return _cut(value, around) if len(around) > 1 else value


def _has(value: Any, path: Path) -> bool:
    for step in path:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return False
        elif not isinstance(value, Mapping) or step not in value:
            return False
        value = value[step]
    return True


def _cut(value: Any, path: Path) -> Any:
    """A value without the field at this path, which it has."""
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_cut(item, rest) if index == step else item for index, item in enumerate(value)]
    return {name: _cut(item, rest) if name == step else item for name, item in value.items() if rest or name != step}


def _meant(problem: FieldProblem) -> Iterator[Path]:
    """The field that was meant by one that is unknown: it is not missing, it is misspelt."""
    meant = _MEANT.search(problem.message)
    if meant is not None and problem.message.startswith(UNKNOWN):
        yield (*problem.path[:-1], meant[1])


def _problems(kind: str, raw: Mapping[str, Any], written: Mapping[str, Any], *, served: bool) -> Iterator[FieldProblem]:
    yield from (_newer(each) if served else each for each in structural(written, schema_of(kind)))
    yield from (_left_out(each) if served else each for each in embedded.problems(kind, raw))
    yield from _metadata(raw)


def _newer(problem: FieldProblem) -> FieldProblem:
    if not problem.message.startswith(UNKNOWN):
        return problem
    return replace(problem, message="is newer than this operator, which ignores it", severity="warning")


def _left_out(problem: FieldProblem) -> FieldProblem:
    if not problem.message.startswith(UNKNOWN):
        return problem
    text = f"{UNKNOWN} of Kubernetes' type, which is left out{problem.message.removeprefix(UNKNOWN)}"
    return replace(problem, message=text, severity="warning")


def _unconvertible(message: str) -> FieldProblem:
    # msgspec ends its sentence in the place: Expected `str`, got `int` - at `$.metadata.uid`
    text, _, place = message.partition(" - at `$")
    path: Path = tuple(int(index) if index else name for name, index in _STEP.findall(place))
    missing = _MISSING.fullmatch(text)
    return FieldProblem((*path, missing[1]), "is required") if missing else FieldProblem(path, text)


@cache
def schema_of(kind: str) -> Schema:
    """The structural schema of a kind."""
    return object_schema(BY_NAME[kind])


def _wrong_kind(raw: Mapping[str, Any]) -> Iterator[FieldProblem]:
    name = str(raw.get("kind"))
    if raw.get("kind") is None:
        yield FieldProblem(("kind",), "is required")
    elif name not in BY_NAME:
        yield FieldProblem(("kind",), f"unknown kind {shown(name)}{did_you_mean(name, BY_NAME)}")
    elif raw.get("apiVersion") is None:
        yield FieldProblem(("apiVersion",), f"is required; write {API_VERSION}")
    else:
        yield FieldProblem(
            ("apiVersion",), f"unknown version {shown(raw['apiVersion'])}; this operator serves {API_VERSION}"
        )


def _is_unicode(raw: object) -> bool:
    # Half a surrogate pair can be written in JSON, but no file and no message can carry it.
    try:
        msgspec.json.encode(raw)
    except UnicodeEncodeError:
        return False
    return True


def _not_unicode(value: Any, path: Path) -> Iterator[FieldProblem]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _not_unicode(str(key), (*path, str(key)))
            yield from _not_unicode(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _not_unicode(item, (*path, index))
    elif isinstance(value, str) and not _is_unicode(value):
        yield FieldProblem(path, f"{shown(value)} is not valid Unicode text")


def _metadata(raw: Mapping[str, Any]) -> Iterator[FieldProblem]:
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return
    for name in ("name", "namespace"):
        if name in metadata and not isinstance(metadata[name], str):
            yield FieldProblem(("metadata", name), f"must be a string, not {shown(metadata[name])}")
    for name in ("labels", "annotations"):
        entries = metadata.get(name)
        if entries is None:
            continue
        if not isinstance(entries, Mapping):
            yield FieldProblem(("metadata", name), "must be a mapping of strings")
            continue
        for key, value in entries.items():
            if not isinstance(value, str):
                yield FieldProblem(
                    ("metadata", name, str(key)), f"must be a string, not {shown(value)}; put it in quotes"
                )


def without_nulls(value: Any, schema: Schema) -> Any:
    """The value as a Kubernetes API server would keep it: nulls gone from the typed parts."""
    if isinstance(value, Mapping):
        if schema.get(PRESERVE):
            return value
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties") or {}
        return {
            name: without_nulls(item, properties.get(name, additional))
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list | tuple):
        items = schema.get("items", {})
        return list(value) if items.get(PRESERVE) else [without_nulls(item, items) for item in value]
    return value
