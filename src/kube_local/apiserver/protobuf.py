"""Reading Kubernetes' protobuf: newer clients send built-in kinds in it and do not fall back to JSON.

In: the bytes of `application/vnd.kubernetes.protobuf`. Out: the same object as plain data. Answers are always JSON,
which every client accepts. Field numbers: `protobuf_fields.json.gz`, made by tools/kubernetes_protobuf.py.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from kube_runtime.times import time_text

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."
_RUNTIME = "k8s.io.apimachinery.pkg.runtime."
_SIGN_BIT = 1 << 63

Fields = dict[str, list[str]]


class Unreadable(Exception):
    """The bytes are not the object that they claim to be."""


@cache
def _messages() -> dict[str, Fields]:
    data = files(__package__).joinpath("protobuf_fields.json.gz").read_bytes()
    found: dict[str, Fields] = json.loads(gzip.decompress(data))["messages"]
    return found


def decode(data: bytes) -> dict[str, Any]:
    """The object in an envelope."""
    if not data.startswith(_MAGIC):
        raise Unreadable("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_wire(data[len(_MAGIC) :]))
    meta = _message(_bytes(envelope.get(1, b"")), f"{_RUNTIME}TypeMeta")
    version, kind = str(meta.get("apiVersion", "")), str(meta.get("kind", ""))
    name = _message_name(version, kind)
    if name is None:
        raise Unreadable(f'no kind "{kind}" of version "{version}" can be read from protobuf here; send JSON')
    body: dict[str, Any] = _message(_bytes(envelope.get(2, b"")), name)
    return {"apiVersion": version, "kind": kind, **body}


@cache
def _empty(name: str) -> Any:
    made: dict[str, Any] = {}
    for field, kind, flags in _messages()[name].values():
        if "i" in flags:
            made.update(_empty(kind))
        elif "n" not in flags:
            continue
        elif flags != "n" or kind in _UNSET:
            made[field] = _UNSET.get(kind) if flags == "n" else None
        else:
            made[field] = _empty(kind)
    return made


def empty(version: str, kind: str) -> dict[str, Any]:
    """An object of a built-in kind in which nothing is set, as Go writes it: the ground that first owners build on."""
    name = _message_name(version, kind)
    body: dict[str, Any] = copy.deepcopy(_empty(name)) if name else {}
    return {"apiVersion": version, "kind": kind, **body}


def fill(obj: dict[str, Any]) -> None:
    """Adds what Go writes even when it is not set, such as a condition's empty message; changes the object."""
    name = _message_name(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    if name:
        _fill(obj, name)


def _fill(value: Any, name: str) -> None:
    if not isinstance(value, dict) or name in _SPECIAL:
        return
    for field, kind, flags in _messages()[name].values():
        if "i" in flags:
            _fill(value, kind)
        elif field in value:
            _fill_children(value[field], kind, flags)
        elif "n" in flags:
            value[field] = copy.copy(_UNSET.get(kind, {})) if flags == "n" else None
            _fill_children(value[field], kind, flags)


def _fill_children(value: Any, kind: str, flags: str) -> None:
    if "." not in kind:
        return
    children: Any = (value,)
    if "r" in flags:
        children = value if isinstance(value, list) else ()
    elif "m" in flags:
        children = value.values() if isinstance(value, dict) else ()
    for child in children:
        _fill(child, kind)


def _message_name(version: str, kind: str) -> str | None:
    group, _, short = version.rpartition("/")
    package = "core" if not group else group.partition(".")[0]
    candidates = (f"k8s.io.api.{package}.{short}.{kind}", f"{_META}{kind}")
    return next((name for name in candidates if name in _messages()), None)


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, form = tag >> 3, tag & 7
        if form == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if form == 2:
            size, position = _varint(data, position)
        else:
            size = {1: 8, 5: 4}.get(form, -1)
        if size < 0 or position + size > len(data):
            raise Unreadable("unexpected EOF")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise Unreadable("unexpected EOF")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise Unreadable("a number where a message was expected")


def _message(data: bytes, name: str) -> Any:
    special = _SPECIAL.get(name)
    if special:
        return special(data)
    fields = _messages().get(name)
    if fields is None:
        raise Unreadable(f"unknown message {name}")
    result: dict[str, Any] = {}
    for number, raw in _wire(data):
        field = fields.get(str(number))
        if field is not None:
            _put(result, field, raw)
    # A Go slice with a name of its own is a message with one field.
    return result.get("items", []) if set(fields) == {"1"} and fields["1"][::2] == ["items", "r"] else result


def _put(result: dict[str, Any], field: list[str], raw: int | bytes) -> None:
    name, kind, flags = field
    if "m" in flags:
        key, value = _entry(_bytes(raw), kind)
        result.setdefault(name, {})[key] = value
        return
    value = _value(raw, kind)
    if "r" in flags:
        result.setdefault(name, []).append(value)
    elif "i" in flags:
        result.update(value)
    elif "p" in flags or not _is_zero(value):
        result[name] = value


def _is_zero(value: Any) -> bool:
    # Zero and False are equal: what Go leaves out of JSON.
    return value is None or value in ({}, [], "", 0)


def _entry(data: bytes, kind: str) -> tuple[str, Any]:
    parts = dict(_wire(data))
    empty: int | bytes = b"" if kind in {"string", "bytes"} or "." in kind else 0
    return str(_value(parts.get(1, b""), "string")), _value(parts.get(2, empty), kind)


def _value(raw: int | bytes, kind: str) -> Any:
    scalar = _SCALARS.get(kind)
    return scalar(raw) if scalar else _message(_bytes(raw), kind)


def _text(raw: int | bytes) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"a string is not UTF-8: {error}") from error


def _number(raw: int | bytes) -> int:
    if not isinstance(raw, int):
        raise Unreadable("bytes where a number was expected")
    raw &= (1 << 64) - 1
    return raw - (1 << 64) if raw & _SIGN_BIT else raw


_SCALARS: dict[str, Callable[[int | bytes], Any]] = {
    "string": _text,
    "bytes": lambda raw: base64.b64encode(_bytes(raw)).decode(),
    "bool": lambda raw: bool(_number(raw)),
    "int32": _number,
    "int64": _number,
    "uint32": _number,
    "uint64": _number,
}


def _time(data: bytes) -> str | None:
    parts = dict(_wire(data))
    if not parts:
        return None
    return time_text(_moment(parts))


def _micro_time(data: bytes) -> str | None:
    parts = dict(_wire(data))
    return _moment(parts).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if parts else None


def _moment(parts: dict[int, int | bytes]) -> datetime:
    seconds, nanos = _number(parts.get(1, 0)), _number(parts.get(2, 0))
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    except (OverflowError, ValueError, OSError) as error:
        raise Unreadable(f"{seconds} seconds is no time") from error


def _quantity(data: bytes) -> str:
    return _text(dict(_wire(data)).get(1, b""))


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_wire(data))
    return _text(parts.get(3, b"")) if parts.get(1, 0) else _number(parts.get(2, 0))


def _raw_json(data: bytes) -> Any:
    raw = _bytes(dict(_wire(data)).get(1, b""))
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise Unreadable(f"embedded JSON: {error}") from error


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _raw_json,
    f"{_RUNTIME}RawExtension": _raw_json,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": _quantity,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
}
_UNSET: dict[str, Any] = {
    "string": "",
    "bool": False,
    **dict.fromkeys(("int32", "int64", "uint32", "uint64"), 0),
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "0",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": 0,
    **dict.fromkeys((f"{_META}Time", f"{_META}MicroTime", f"{_RUNTIME}RawExtension"), None),
}
