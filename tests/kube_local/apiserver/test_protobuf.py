"""Kubernetes' protobuf, as newer clients send it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_local.apiserver import protobuf

MAGIC = b"k8s\x00"


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(version: str, kind: str, body: bytes) -> bytes:
    return MAGIC + field(1, field(1, version) + field(2, kind)) + field(2, body)


METADATA = field(1, field(1, "x") + field(2, "") + field(11, field(1, "l") + field(2, "v")))


def test_maps_bytes_and_text_are_read() -> None:
    data = field(2, field(1, "key") + field(2, b"\x00\x01"))
    found = protobuf.decode(envelope("v1", "Secret", METADATA + data + field(3, "Opaque")))
    assert found == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "x", "labels": {"l": "v"}},
        "data": {"key": "AAE="},
        "type": "Opaque",
    }


def test_pointers_keep_their_zero_and_plain_fields_do_not() -> None:
    template = field(3, field(2, field(2, field(1, "c") + field(2, ""))))
    spec = field(2, field(1, 0) + template + field(5, 0))
    found = protobuf.decode(envelope("apps/v1", "Deployment", METADATA + spec))
    assert found["spec"]["replicas"] == 0
    assert "minReadySeconds" not in found["spec"]
    assert found["spec"]["template"]["spec"]["containers"] == [{"name": "c"}]


def test_embedded_structs_belong_to_their_parent() -> None:
    volume = field(1, field(1, "v") + field(2, field(2, b"")))
    found = protobuf.decode(envelope("v1", "Pod", METADATA + field(2, volume)))
    assert found["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


SPECIAL: list[tuple[str, bytes, Any]] = [
    ("a number or text: number", field(4, field(1, 0) + field(2, 80)), ("targetPort", 80)),
    ("a number or text: text", field(4, field(1, 1) + field(3, "web")), ("targetPort", "web")),
    ("a negative number", field(3, -1), ("port", -1)),
]


@pytest.mark.parametrize(("raw", "found"), [s[1:] for s in SPECIAL], ids=[s[0] for s in SPECIAL])
def test_special_values(raw: bytes, found: Any) -> None:
    made = protobuf.decode(envelope("v1", "Service", METADATA + field(2, field(1, raw))))
    assert made["spec"]["ports"][0][found[0]] == found[1]


def test_times_are_written_as_text() -> None:
    spec = field(2, field(1, "me") + field(4, field(1, 1_700_000_000) + field(2, 5000)))
    found = protobuf.decode(envelope("coordination.k8s.io/v1", "Lease", METADATA + spec))
    assert found["spec"] == {"holderIdentity": "me", "renewTime": "2023-11-14T22:13:20.000005Z"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        MAGIC + b"\xff",
        envelope("v1", "Pod", b"\x0a\xff"),
        envelope("v1", "Pod", b"\x0a\x02\x0a\x01"),
        envelope("v1", "Pod", field(1, 7)),
        envelope("v1", "Nonsense", b""),
        envelope("v1", "Secret", field(3, b"\xff")),
    ],
    ids=["empty", "json", "cut", "cut field", "cut inside", "number", "unknown kind", "not utf-8"],
)
def test_what_is_not_protobuf_is_unreadable(data: bytes) -> None:
    with pytest.raises(protobuf.Unreadable):
        protobuf.decode(data)


@given(st.sampled_from(["Pod", "Service", "Secret", "Node", "Event"]), st.binary(max_size=60))
def test_any_bytes_are_read_or_unreadable(kind: str, body: bytes) -> None:
    try:
        found = protobuf.decode(envelope("v1", kind, body))
    except protobuf.Unreadable:
        return
    assert found["kind"] == kind


async def test_a_client_may_send_protobuf(api: Any) -> None:
    body = envelope("v1", "Secret", METADATA + field(2, field(1, "key") + field(2, b"\x00\x01")))
    path = "/api/v1/namespaces/default/secrets"
    made = await api.ok("POST", path, body, content_type=protobuf.MEDIA_TYPE)
    assert made["data"] == {"key": "AAE="}
    status = await api.fails(400, "POST", path, b"k8s\x00\xff", content_type=protobuf.MEDIA_TYPE)
    assert status["reason"] == "BadRequest"


def test_what_go_always_writes_is_filled_in() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    protobuf.fill(pod)
    assert pod["status"] == {
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}]
    }
    assert protobuf.empty("v1", "Pod")["spec"] == {"containers": None}
    assert protobuf.empty("nobody/v1", "Thing") == {"apiVersion": "nobody/v1", "kind": "Thing"}
