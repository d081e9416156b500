"""From a request's body to an object of the right kind: identity, shape of the metadata, unknown fields, defaults.

Called by `writes` for every body and after every patch.
"""

from __future__ import annotations

import json
from typing import Any

from . import errors, protobuf
from .problems import FieldProblem
from .registry import Kind
from .request import Request, Target, decode_body, encode
from .state import State

Object = dict[str, Any]

_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_GO_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_TEXT_MAPS = ("labels", "annotations")
_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion")


def read_object(state: State, request: Request, target: Target) -> Object:
    """The object that the client sent, pruned and defaulted."""
    if not request.body:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {target.kind.kind}): couldn't get version/kind; "
            "json parse error: unexpected end of JSON input (<empty>)"
        )
    body = decode_body(request, expected=target.kind.kind)
    return normalize(state, request, target, body)


def normalize(state: State, request: Request, target: Target, body: Any) -> Object:
    """Checks that `body` is an object of the target's kind and place; drops what the kind does not have."""
    check_identity(state, target.kind, body)
    _check_unknown(state, request, target.kind, body)
    check_place(target, body["metadata"])
    return complete(state, target.kind, body)


def check_identity(state: State, kind: Kind, body: Any) -> None:
    """The object is of the kind, and has metadata that can be read."""
    _check_kind(state, kind, body)
    if body.get("metadata") is None:
        body["metadata"] = {}
    check_metadata_shape(kind, body)
    problem = state.schema(kind).decode_problem(body)
    if problem:
        raise errors.bad_request(f"{_handled_as(kind)}: {problem}")


def complete(state: State, kind: Kind, obj: Object) -> Object:
    """Pruned to the fields of the kind, with its defaults."""
    schema = state.schema(kind)
    made: Object = schema.default(schema.prune(obj))
    if not kind.custom:
        protobuf.fill(made)
    return made


def _check_kind(state: State, kind: Kind, body: Any) -> None:
    if not isinstance(body, dict):
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; "
            f"json parse error: json: cannot unmarshal {_JSON_NAMES.get(type(body), 'null')} into Go value of type "
            f"{_GO_TYPE_META} ({encode(body).hex()})"
        )
    version, name = body.get("apiVersion"), body.get("kind")
    if version in {None, ""} and name in {None, ""} and not kind.custom:
        # Typed clients leave both out; the path says them.
        body["apiVersion"], body["kind"] = kind.api_version, kind.kind
        return
    if kind.custom and version == kind.api_version and name and isinstance(name, str):
        return  # another kind of the same version is one of the problems that validation lists
    if name != kind.kind or version != kind.api_version:
        raise errors.bad_request(_wrong_identity(state, kind, str(version or ""), str(name or "")))


def _wrong_identity(state: State, kind: Kind, version: str, name: str) -> str:
    if not name:
        return "Object 'Kind' is missing"
    if kind.custom or state.registry.by_kind(version, name):
        return f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
    return (
        f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind.kind}: '
        f'no kind "{name}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
    )


def check_metadata_shape(kind: Kind, body: Object) -> None:
    """The metadata must have the types of ObjectMeta: everything after relies on them."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise _unmarshal(kind, metadata, "metadata", "v1.ObjectMeta")
    for key in _TEXTS:
        if metadata.get(key) is None:
            metadata.pop(key, None)
        elif not isinstance(metadata[key], str):
            raise _unmarshal(kind, metadata[key], f"metadata.{key}", "string")
    for key in _TEXT_MAPS:
        value = metadata.get(key)
        if value is None:
            metadata.pop(key, None)
        elif not isinstance(value, dict):
            raise _unmarshal(kind, value, f"metadata.{key}", "map[string]string")
        else:
            _check_text_map(kind, key, value)
    _check_lists(kind, metadata)


def _check_text_map(kind: Kind, key: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if value is None:
            values[name] = ""
        elif not isinstance(value, str):
            raise _unmarshal(kind, value, f"metadata.{key}", "string")


def _check_lists(kind: Kind, metadata: Object) -> None:
    for key, wanted, name in (
        ("finalizers", str, "string"),
        ("ownerReferences", dict, "v1.OwnerReference"),
        ("managedFields", dict, "v1.ManagedFieldsEntry"),
    ):
        value = metadata.get(key)
        if value is None:
            metadata.pop(key, None)
        elif not isinstance(value, list) or not all(isinstance(item, wanted) for item in value):
            raise _unmarshal(kind, value, f"metadata.{key}", f"[]{name}")


def _unmarshal(kind: Kind, value: Any, path: str, wanted: str) -> errors.ApiError:
    found = _JSON_NAMES.get(type(value), "null")
    text = f"json: cannot unmarshal {found} into Go struct field {kind.kind}.{path} of type {wanted}"
    return errors.bad_request(f"{_handled_as(kind)}: {text}")


def _handled_as(kind: Kind) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'


def check_place(target: Target, metadata: Object) -> None:
    """Name and namespace are those of the path, or not set."""
    if not target.kind.namespaced:
        metadata.pop("namespace", None)
    elif metadata.get("namespace") not in {None, "", target.namespace}:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    else:
        metadata["namespace"] = target.namespace
    if not target.name:
        return
    if metadata.get("name", target.name) != target.name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    metadata["name"] = target.name


def _check_unknown(state: State, request: Request, kind: Kind, body: Object) -> None:
    mode = request.query.get("fieldValidation") or "Warn"
    if mode == "Ignore":
        return
    found = [f'unknown field "{path}"' for path in state.schema(kind).unknown_fields(body)]
    if found and mode == "Strict":
        text = f"strict decoding error: {', '.join(found)}"
        if request.method == "PATCH":
            problem = FieldProblem("patch", "Invalid", text, json.dumps(body, separators=(",", ":"), sort_keys=True))
            raise errors.invalid("", "", "", [problem])
        raise errors.bad_request(f"{_handled_as(kind)}: {text}")
    request.warnings.extend(found)
