"""A large array is walked item by item, in bounded memory (T11)."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_operator.slurm import items as module
from slurm_operator.slurm.items import ItemTooLarge, ListStream, items


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every array were large."""
    monkeypatch.setattr(module, "SMALL_ARRAY_BYTES", 0)
    monkeypatch.setattr(module, "WINDOW_BYTES", 8)
    monkeypatch.setattr(module, "MAX_ITEM_BYTES", 4096)


def decoded(array: bytes) -> list[Any]:
    return [json.loads(bytes(memoryview(each))) for each in items(array)]


ODD = [
    [],
    [1, 2.5, -3e7, True, None],
    ["a", 'quote " and \\ backslash', "close ] } , bracket", "ünïcödé 😀"],
    [{"a": [1, {"b": "]}"}]}, {}, [], [[]]],
    [123456789012345678901234567890],
]


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("value", ODD, ids=["empty", "scalars", "texts", "nested", "long number"])
@pytest.mark.parametrize("separators", [(",", ":"), (" ,\n ", " : ")], ids=["compact", "spaced"])
def test_every_item_is_found_whatever_the_window_cuts(value: list[Any], separators: tuple[str, str]) -> None:
    for ascii_only in (True, False):
        array = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()
        assert decoded(array) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=8), st.integers(2, 40))
def test_the_walk_finds_what_a_decoder_finds(value: list[Any], window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALL_ARRAY_BYTES", 0)
        patch.setattr(module, "WINDOW_BYTES", window)
        assert decoded(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.usefixtures("small_windows")
def test_an_item_that_is_too_large_is_told() -> None:
    with pytest.raises(ItemTooLarge):
        list(items(b'["' + b"x" * 10_000 + b'","y"]'))


@pytest.mark.parametrize("array", [b"{}", b"null", b"7", b""], ids=["object", "null", "number", "nothing"])
def test_what_is_no_list_is_told(array: bytes) -> None:
    with pytest.raises(ValueError, match="list"):
        list(items(array))


def test_thirty_million_items_cost_as_much_memory_as_are_taken() -> None:
    array = b"[" + b"0," * (16 * 1024 * 1024) + b"0]"

    def taken() -> Iterator[int]:
        for each in itertools.islice(items(array), 100_000):
            yield len(bytes(memoryview(each)))

    tracemalloc.start()
    try:
        assert sum(taken()) == 100_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 1024 * 1024


class Taken(list[Any]):
    """The items that a stream handed over."""

    def stream(self) -> ListStream:
        return ListStream("jobs", lambda item: self.append(json.loads(item)))


@given(st.lists(JSON, max_size=6), st.dictionaries(st.sampled_from(["meta", "errors", "x"]), JSON), st.integers(1, 9))
def test_a_stream_finds_what_a_decoder_finds(value: list[Any], rest: dict[str, Any], size: int) -> None:
    body = json.dumps({"first": 1, "jobs": value, **rest}, ensure_ascii=False).encode()
    found = Taken()
    stream = found.stream()
    for start in range(0, len(body), size):
        stream.feed(body[start : start + size])
    assert json.loads(stream.close()) == {"first": 1, "jobs": [], **rest}
    assert found == value


@pytest.mark.parametrize(
    "body",
    [b"[]", b'{"jobs":[1,2]', b'{"jobs":[],"jobs":[]}', b'{"jobs":[1]} x', b'{"jobs":[1', b"", b"7 "],
    ids=["no object", "not closed", "twice", "something behind", "cut in the list", "nothing", "a number"],
)
def test_a_stream_that_is_no_object_with_a_list_is_told(body: bytes) -> None:
    def read() -> None:
        stream = Taken().stream()
        stream.feed(body)
        stream.close()

    with pytest.raises(ValueError, match=r"object|twice"):
        read()


def test_an_endless_item_or_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ITEM_BYTES", 100)
    monkeypatch.setattr(module, "MAX_REST_BYTES", 100)
    for body in (b'{"jobs":["' + b"x" * 200, b'{"jobs":[],"x":"' + b"y" * 90 + b'","z":"' + b"y" * 90 + b'",'):
        stream = Taken().stream()
        with pytest.raises(ItemTooLarge):
            stream.feed(body)


def test_an_item_that_comes_in_many_pieces_is_not_read_from_its_beginning_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads, whole = 0, ListStream._read

    def counted(stream: ListStream) -> None:
        nonlocal reads
        reads += 1
        whole(stream)

    monkeypatch.setattr(ListStream, "_read", counted)
    found: list[bytes] = []
    stream = ListStream("jobs", found.append)
    body = b'{"jobs": ["' + b"x" * 1_000_000 + b'"]}'
    for at in range(0, len(body), 1000):
        stream.feed(body[at : at + 1000])
    assert stream.close() == b'{"jobs":[]}'
    assert len(found) == 1
    assert reads < 20


def test_white_space_without_end_is_not_kept() -> None:
    stream = ListStream("jobs", lambda _: None)
    for _ in range(100):
        stream.feed(b" \n\t\r" * 250_000)
    assert len(stream._buffer) == 0


def test_keys_beside_the_list_are_bounded_too() -> None:
    """Each key added up all before it: a million of them, which are few bytes, took a decoder for hours."""
    stream = Taken().stream()
    many = b",".join(b'"%x":1' % number for number in range(50_000))
    with pytest.raises(ItemTooLarge):
        stream.feed(b'{"jobs":[],' + many)
