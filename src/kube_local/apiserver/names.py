"""The rules of names, labels, annotations, finalizers and owners that hold for every object. Pure; for `writes`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .problems import FieldProblem
from .registry import Kind

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    f"validation is '{_LABEL_VALUE}')"
)

_SUBDOMAIN_RULE = (re.compile(_SUBDOMAIN), 253, _SUBDOMAIN_TEXT)
_NAME_RULES = {
    "namespaces": (re.compile(_LABEL), 63, _LABEL_TEXT),
    "services": (re.compile(_LABEL), 63, _LABEL_TEXT),
    "statefulsets.apps": (re.compile(_LABEL), 63, _LABEL_TEXT),
}
_PATH_SEGMENT_GROUPS = frozenset({"rbac.authorization.k8s.io"})
_ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
GENERATED_SUFFIX_CHARACTERS = 5
GENERATED_BASE_LIMIT = 63 - GENERATED_SUFFIX_CHARACTERS


def check_metadata(kind: Kind, metadata: Mapping[str, Any]) -> list[FieldProblem]:
    """Everything wrong with the metadata of an object."""
    return [
        *_name(kind, metadata.get("name", "")),
        *_labels(metadata.get("labels") or {}),
        *_annotations(metadata.get("annotations") or {}),
        *_finalizers(kind, metadata.get("finalizers") or []),
        *_owners(metadata.get("ownerReferences") or []),
    ]


def check_changed_metadata(metadata: Mapping[str, Any]) -> list[FieldProblem]:
    """What the real server judges a second time on every update, and so names twice."""
    return [
        *_labels(metadata.get("labels") or {}),
        *_annotations(metadata.get("annotations") or {}),
        *_owners(metadata.get("ownerReferences") or []),
    ]


def _name(kind: Kind, name: str) -> Iterator[FieldProblem]:
    if not name:
        yield FieldProblem("metadata.name", "Required", "name or generateName is required")
        return
    if kind.group in _PATH_SEGMENT_GROUPS:
        yield from _path_segment(name)
        return
    pattern, limit, text = _NAME_RULES.get(kind.resource, _SUBDOMAIN_RULE)
    if len(name) > limit:
        yield FieldProblem("metadata.name", "Invalid", f"must be no more than {limit} characters", name)
    if not pattern.fullmatch(name):
        yield FieldProblem("metadata.name", "Invalid", text, name)


def _path_segment(name: str) -> Iterator[FieldProblem]:
    if name in {".", ".."}:
        yield FieldProblem("metadata.name", "Invalid", f"may not be '{name}'", name)
    for bad in "/%":
        if bad in name:
            yield FieldProblem("metadata.name", "Invalid", f"may not contain '{bad}'", name)


def qualified_name_problem(name: str) -> str:
    """Why a key is not `[prefix/]name`; empty when it is."""
    prefix, slash, last = name.rpartition("/")
    if slash and (not prefix or "/" in prefix or len(prefix) > 253 or not re.fullmatch(_SUBDOMAIN, prefix)):
        return f"prefix part {_SUBDOMAIN_TEXT}"
    if not last:
        return "name part must be non-empty"
    if len(last) > 63:
        return "name part must be no more than 63 characters"
    return "" if re.fullmatch(_QUALIFIED, last) else _QUALIFIED_TEXT


def _labels(labels: Mapping[str, Any]) -> Iterator[FieldProblem]:
    for key, value in labels.items():
        problem = qualified_name_problem(key)
        if problem:
            yield FieldProblem("metadata.labels", "Invalid", problem, key)
        if len(value) > 63:
            yield FieldProblem("metadata.labels", "Invalid", "must be no more than 63 characters", value)
        elif not re.fullmatch(_LABEL_VALUE, value):
            yield FieldProblem("metadata.labels", "Invalid", _LABEL_VALUE_TEXT, value)


def _annotations(annotations: Mapping[str, Any]) -> Iterator[FieldProblem]:
    for key in annotations:
        problem = qualified_name_problem(key.lower())
        if problem:
            yield FieldProblem("metadata.annotations", "Invalid", problem, key)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        detail = f"may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield FieldProblem("metadata.annotations", "TooLong", detail)


def _finalizers(kind: Kind, finalizers: list[str]) -> Iterator[FieldProblem]:
    for finalizer in finalizers:
        problem = qualified_name_problem(finalizer)
        if problem:
            yield FieldProblem("metadata.finalizers", "Invalid", problem, finalizer)
        elif _is_strict(kind) and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield FieldProblem("metadata.finalizers", "Invalid", text, finalizer)


def _is_strict(kind: Kind) -> bool:
    return not kind.custom and kind.group != "apiextensions.k8s.io"


def _owners(owners: list[dict[str, Any]]) -> Iterator[FieldProblem]:
    for index, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield FieldProblem(
                    f"metadata.ownerReferences[{index}].{key}", "Invalid", f"{key} must not be empty", ""
                )
    controllers = [owner.get("name", "") for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        text = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        yield FieldProblem("metadata.ownerReferences", "Invalid", text, owners)
