"""DNS messages byte by byte; the other end is a reader of this file's own."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_local.dns.server import respond
from kube_local.dns.wire import (
    Answer,
    Code,
    Kind,
    Malformed,
    Query,
    Record,
    addresses,
    read_query,
    write_answer,
)


def encode(name: str) -> bytes:
    return b"".join(bytes([len(one)]) + one.encode() for one in name.split(".") if one) + b"\0"


def question(name: str, kind: int = Kind.A, *, number: int = 7, edns: int = 0) -> bytes:
    head = struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 1 if edns else 0)
    extra = b"\0" + struct.pack("!HHIH", Kind.OPT, edns, 0, 0) if edns else b""
    return head + encode(name) + struct.pack("!HH", kind, 1) + extra


def read_name(data: bytes, offset: int) -> tuple[str, int]:
    labels, end = [], -1
    while data[offset]:
        if data[offset] >= 0xC0:
            end = end if end >= 0 else offset + 2
            offset = struct.unpack_from("!H", data, offset)[0] & 0x3FFF
            continue
        labels.append(data[offset + 1 : offset + 1 + data[offset]].decode())
        offset += 1 + data[offset]
    return ".".join(labels), end if end >= 0 else offset + 1


def read_records(data: bytes) -> list[tuple[str, int, int, bytes]]:
    counts = struct.unpack_from("!HHHHHH", data)[2:]
    _, offset = read_name(data, 12)
    offset += 4
    found = []
    for _ in range(sum(counts[1:])):
        name, offset = read_name(data, offset)
        kind, _, ttl, length = struct.unpack_from("!HHIH", data, offset)
        found.append((name, kind, ttl, data[offset + 10 : offset + 10 + length]))
        offset += 10 + length
    assert offset == len(data)
    return found


def test_a_question_is_read_in_lower_case_and_remembers_how_it_was_asked() -> None:
    query = read_query(question("Web.NS.svc.cluster.local", edns=1400))
    assert query == Query(7, "web.ns.svc.cluster.local", Kind.A, "Web.NS.svc.cluster.local", 0, True, True, 1232)


def test_an_answer_repeats_the_question_and_points_back_to_its_name() -> None:
    query = read_query(question("web.ns.svc.cluster.local"))
    data = write_answer(query, Answer(records=addresses(query.name, ["10.0.0.1", "10.0.0.2"])))
    assert data[:2] == b"\0\x07"
    assert struct.unpack_from("!H", data, 2)[0] == 0x8500  # an answer, ours to give, recursion was wished for
    assert read_records(data) == [
        ("web.ns.svc.cluster.local", 1, 1, bytes([10, 0, 0, 1])),
        ("web.ns.svc.cluster.local", 1, 1, bytes([10, 0, 0, 2])),
    ]
    assert len(data) == 12 + 26 + 4 + 2 * 16


def test_names_in_records_are_compressed_and_read_back() -> None:
    query = read_query(question("_rest._tcp.web.ns.svc.cluster.local", Kind.SRV))
    target = "web-0.web.ns.svc.cluster.local"
    srv = Record(query.name, Kind.SRV, f"0 100 6820 {target}")
    data = write_answer(query, Answer(records=(srv,), additional=(Record(target, Kind.A, "10.0.0.1"),)))
    found = read_records(data)
    assert found[0][3][:6] == struct.pack("!HHH", 0, 100, 6820)
    assert found[1][:2] == (target, 1)


def test_nothing_comes_with_a_start_of_authority() -> None:
    query = read_query(question("web.ns.svc.cluster.local", Kind.AAAA))
    data = write_answer(query, Answer(Code.NO_SUCH_NAME, zone="cluster.local"))
    assert struct.unpack_from("!H", data, 2)[0] & 15 == 3
    ((name, kind, ttl, _),) = read_records(data)
    assert (name, kind, ttl) == ("cluster.local", Kind.SOA, 1)


@pytest.mark.parametrize(("edns", "cut"), [(0, True), (1232, False)], ids=["plain", "large packets"])
def test_what_does_not_fit_is_cut_and_marked(edns: int, cut: bool) -> None:
    query = read_query(question("web.ns.svc.cluster.local", edns=edns))
    answer = Answer(records=addresses(query.name, [f"10.0.0.{n}" for n in range(60)]))
    data = write_answer(query, answer, limit=query.size)
    assert len(data) <= query.size
    assert bool(struct.unpack_from("!H", data, 2)[0] & 0x0200) is cut
    assert len(write_answer(query, answer)) > 900


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 11, question("a.b")[:-3], question("a.b")[:14], struct.pack("!HHHHHH", 1, 0x8000, 1, 0, 0, 0)],
    ids=["nothing", "no header", "cut question", "cut name", "an answer"],
)
def test_bytes_that_are_no_question_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_query(data)


class _Nobody:
    def answer(self, query: Query) -> Answer:
        return Answer(Code.OK if query.name == "known" else Code.NO_SUCH_NAME)


@given(st.binary(max_size=600))
def test_no_bytes_bring_the_server_down(data: bytes) -> None:
    said = respond(_Nobody(), data, datagram=True)
    assert len(said) >= 12
    assert said[2] & 0x80
