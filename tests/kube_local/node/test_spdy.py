"""SPDY frames, as kubectl sends them within a websocket."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_local.node import spdy
from kube_local.node.spdy import BadFrame, Codec, Data, Frame, Leaving, Opened, Pinged, Reset


def test_the_header_dictionary_is_the_protocols_own() -> None:
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)


HEADERS = st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=5)


@given(st.lists(HEADERS, min_size=1, max_size=4), st.binary(max_size=200), st.integers(1, 50))
def test_frames_survive_any_cutting_and_headers_share_one_compression(
    headers: list[dict[str, str]], content: bytes, size: int
) -> None:
    client, server = Codec(), Codec()
    sent = b"".join(client.open(2 * number + 1, each) for number, each in enumerate(headers))
    sent += spdy.data(1, content) + spdy.data(1, b"", ended=True) + spdy.ping(7) + spdy.reset(1)
    found: list[Frame] = []
    for start in range(0, len(sent), size):
        found += server.feed(sent[start : start + size])
    opened = [Opened(2 * number + 1, each, False) for number, each in enumerate(headers)]
    assert found == [*opened, Data(1, content, False), Data(1, b"", True), Pinged(7), Reset(1)]


def test_replies_keep_the_compression_in_step() -> None:
    client, server = Codec(), Codec()
    assert list(client.feed(server.reply(1) + server.reply(3) + server.open(2, {"a": "b"}))) == [
        Opened(2, {"a": "b"}, False)
    ]


def test_a_goodbye_is_understood() -> None:
    assert list(Codec().feed(bytes.fromhex("8003000700000008") + bytes(8))) == [Leaving()]


@pytest.mark.parametrize(
    "sent",
    [b"no frame at all", bytes.fromhex("8002000100000000"), bytes.fromhex("800300010000000c") + b"x" * 12],
    ids=["a frame larger than any", "another version", "headers that are none"],
)
def test_what_is_not_spdy_is_refused(sent: bytes) -> None:
    with pytest.raises(BadFrame):
        list(Codec().feed(sent))
