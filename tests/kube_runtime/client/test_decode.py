"""From bytes to objects: whatever a server sends, the outcome is an object or an error of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube_runtime.client import fault_server as say

from kube_runtime.client import errors
from kube_runtime.client.decode import (
    UnreadableEvent,
    decode_event,
    decode_object,
    decode_page,
    decode_status,
    split_lines,
)
from kube_runtime.client.objects import (
    CONFIG_MAPS,
    PODS,
    ConfigMap,
    RawObject,
)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "metadata", "items", "status", "type", "object", "name", "spec", "data", "code"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)

BYTES = st.binary(max_size=50) | ANYTHING.map(msgspec.json.encode)


@given(BYTES)
def test_no_bytes_make_the_decoders_stumble(body: bytes) -> None:
    for attempt in (
        lambda: decode_object(body, ConfigMap, "get"),
        lambda: decode_object(body, RawObject, "get"),
        lambda: decode_page(body, PODS, "list"),
        lambda: decode_page(body, PODS.raw(), "list"),
        lambda: decode_event(body, PODS, "watch"),
        lambda: decode_event(body, PODS.raw(), "watch"),
        lambda: decode_status(body, "delete"),
    ):
        with suppress(errors.KubeError):
            attempt()


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=6), st.integers(1, 7))
async def test_lines_are_the_same_wherever_the_stream_is_cut(lines: list[bytes], size: int) -> None:
    text = b"".join(line + b"\n" for line in lines)

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    assert [line async for line in split_lines(chunks(), "watch")] == [line for line in lines if line]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"kind": "Status", "status": "Success"}, None, id="a Status of success"),
        pytest.param(say.config_map("a", 1), None, id="the object that is going"),
        pytest.param(say.status(409, "Conflict"), errors.Conflict, id="a failure in a 200"),
        pytest.param({"kind": "Status", "status": "Failure", "code": "x"}, errors.BadAnswer, id="a broken failure"),
        pytest.param([], errors.BadAnswer, id="no object"),
    ],
)
def test_a_delete_is_answered_by_a_status_or_an_object(body: Any, expected: type[Exception] | None) -> None:
    encoded = msgspec.json.encode(body)
    if expected is None:
        decode_status(encoded, "delete")
    else:
        with pytest.raises(expected):
            decode_status(encoded, "delete")


def _nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


DEEP = [200, 1_500, 9_000]


@pytest.mark.parametrize("levels", DEEP)
@pytest.mark.parametrize("place", [b"spec", b"unknown"])
def test_one_object_nested_too_deeply_hides_no_other(levels: int, place: bytes) -> None:
    """A user's manifest reaches 10,000 levels where the schema lets unknown fields through."""
    deep = b'{"metadata":{"name":"deep","namespace":"ns","uid":"u"},"%b":%b}' % (place, _nested(levels))
    strange = rb'{"metadata":{"name":"a","namespace":"ns"},"data":{"k":"[[{{\"[["}}'
    body = b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"5"},"items":[%b,%b]}' % (deep, strange)
    page = decode_page(body, CONFIG_MAPS.raw(), "list")
    assert [item.metadata.name for item in page.items] == ["a"]
    assert [(item.metadata.name, item.metadata.uid) for item in page.unreadable] == [("deep", "u")]
    assert "nested deeper than 128 levels" in page.unreadable[0].why


@pytest.mark.parametrize("levels", DEEP)
def test_an_event_of_an_object_nested_too_deeply_does_not_end_the_watch(levels: int) -> None:
    body = b'{"metadata":{"name":"deep","namespace":"ns","resourceVersion":"7"},"spec":%b}' % _nested(levels)
    event = decode_event(b'{"type":"MODIFIED","object":%b}' % body, CONFIG_MAPS.raw(), "watch")
    assert isinstance(event, UnreadableEvent)
    assert (event.object.metadata.name, event.object.metadata.resource_version) == ("deep", "7")


@pytest.mark.parametrize("levels", DEEP[1:])
def test_an_answer_nested_too_deeply_is_a_bad_one(levels: int) -> None:
    with pytest.raises(errors.BadAnswer):
        decode_object(b'{"kind":"ConfigMap","metadata":{"name":"a"},"x":%b}' % _nested(levels), ConfigMap, "get")


@pytest.mark.parametrize("field", ["labels", "annotations", "ownerReferences", "finalizers", "generation"])
def test_an_object_with_odd_metadata_is_known_by_its_name(field: str) -> None:
    odd = {"metadata": {"name": "odd", "namespace": "ns", "uid": "u", "resourceVersion": "3", field: {"x": [5]}}}
    body = msgspec.json.encode({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [odd]})
    page = decode_page(body, PODS.raw(), "list")
    found = page.unreadable[0].metadata
    assert (found.namespace, found.name, found.uid, found.resource_version) == ("ns", "odd", "u", "3")


@pytest.mark.parametrize("item", [b"7", b"null", b'{"metadata":5}', b'{"metadata":{"name":5}}'])
def test_a_list_with_something_nameless_is_no_list(item: bytes) -> None:
    """Nobody could tell what is absent from it."""
    with pytest.raises(errors.BadAnswer, match="without a name"):
        decode_page(b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[%b]}' % item, PODS.raw(), "list")


@pytest.mark.parametrize("part", ["spec", "status", "data"])
@pytest.mark.parametrize("value", [7, "x", [1], True], ids=repr)
def test_an_object_whose_parts_are_no_objects_is_unreadable_by_name(part: str, value: Any) -> None:
    """R9: whoever read its fields met an error that nobody foresaw."""
    good = {"metadata": {"name": "a"}, part: {}}
    items = [good, {"metadata": {"name": "b"}, part: value}, {"metadata": {"name": "c"}, part: None}]
    body = {"kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": items}
    page = decode_page(msgspec.json.encode(body), CONFIG_MAPS.raw(), "list")
    assert [item.metadata.name for item in page.items] == ["a", "c"]
    (spoilt,) = page.unreadable
    assert (spoilt.metadata.name, f"its {part} is not an object" in spoilt.why) == ("b", True)
