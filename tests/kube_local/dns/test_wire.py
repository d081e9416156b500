"""What the server says, as dnspython's client reads it."""

from __future__ import annotations

import struct

import dns.flags
import dns.message
import pytest
from dns.rcode import Rcode
from dns.rdatatype import RdataType
from hypothesis import given
from hypothesis import strategies as st

from kube_local.dns.server import respond
from kube_local.dns.wire import Answer, Malformed, Query, read_query, record_set, write_answer

NAME = "web.ns.svc.cluster.local"


def question(name: str = NAME, kind: RdataType = RdataType.A, payload: int = 0) -> bytes:
    return dns.message.make_query(name, kind, payload=payload or None).to_wire()


def addresses(count: int) -> Answer:
    return Answer(records=record_set(NAME, RdataType.A, [f"10.0.0.{n}" for n in range(count)]))


def test_a_question_is_read_in_lower_case() -> None:
    query = read_query(question("Web.NS.svc.cluster.local"))
    assert (query.name, query.kind) == (NAME, RdataType.A)


def test_an_answer_repeats_the_question_as_it_was_asked_and_is_ours_to_give() -> None:
    asked = question("Web.NS.svc.cluster.local")
    said = dns.message.from_wire(write_answer(read_query(asked), addresses(2)))
    assert dns.message.from_wire(asked).is_response(said)
    assert said.flags == dns.flags.QR | dns.flags.AA | dns.flags.RD
    assert said.question[0].name.to_text() == "Web.NS.svc.cluster.local."
    assert {one.to_text() for one in said.answer[0]} == {"10.0.0.0", "10.0.0.1"}
    assert said.answer[0].ttl == 1


def test_addresses_come_in_another_order_each_time() -> None:
    query = read_query(question())
    assert len({write_answer(query, addresses(50)) for _ in range(5)}) > 1


def test_nothing_comes_with_a_start_of_authority() -> None:
    query = read_query(question(kind=RdataType.AAAA))
    said = dns.message.from_wire(write_answer(query, Answer(Rcode.NXDOMAIN, zone="cluster.local")))
    assert said.rcode() == Rcode.NXDOMAIN
    (authority,) = said.authority
    assert (authority.name.to_text(), authority.rdtype, authority.ttl) == ("cluster.local.", RdataType.SOA, 1)


@pytest.mark.parametrize(
    ("payload", "most", "cut"), [(0, 512, True), (4096, 1232, False)], ids=["plain", "large packets"]
)
def test_what_does_not_fit_is_cut_and_marked(payload: int, most: int, cut: bool) -> None:
    query = read_query(question(payload=payload))
    data = write_answer(query, addresses(60), datagram=True)
    assert len(data) <= most
    assert bool(dns.message.from_wire(data).flags & dns.flags.TC) is cut
    assert len(write_answer(query, addresses(60))) > 900


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 11, question()[:-3], question()[:14], struct.pack("!HHHHHH", 1, 0x8000, 1, 0, 0, 0)],
    ids=["nothing", "no header", "cut question", "cut name", "an answer"],
)
def test_bytes_that_are_no_question_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_query(data)


class _Nobody:
    def answer(self, query: Query) -> Answer:
        return Answer(Rcode.NOERROR if query.name == "known" else Rcode.NXDOMAIN)


@given(st.binary(max_size=600))
def test_no_bytes_bring_the_server_down(data: bytes) -> None:
    said = respond(_Nobody(), data, datagram=True)
    assert len(said) >= 12
    assert said[2] & 0x80


@given(st.binary(max_size=80), st.integers(0, 15))
def test_no_question_with_strange_parts_brings_it_down(tail: bytes, opcode: int) -> None:
    said = respond(_Nobody(), struct.pack("!HHHHHH", 7, opcode << 11, 1, 0, 0, 1) + tail, datagram=True)
    assert said[:2] == b"\0\x07"
