"""DNS messages: bytes in, `Query` out; an `Answer` in, bytes out. Pure; called by `server`.

The format itself is dnspython's. Here stands what this server says with it: it is the authority for what it answers, a
"no" comes with a start of authority, and what does not fit into a datagram is cut and marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import dns.flags
import dns.message
import dns.rrset
from dns.exception import DNSException
from dns.rcode import Rcode
from dns.rdatatype import RdataType
from dns.rrset import RRset

_TTL_SECONDS = 1
_PLAIN_BYTES = 512
# What one packet on any ordinary network carries.
_MAX_UDP_BYTES = 1232
_LARGEST_TCP_BYTES = 65535


class Malformed(Exception):
    """Bytes that are no question."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question. `name` is lower case and has no dot at its end; `message` is the whole of what was asked."""

    name: str
    kind: RdataType
    message: dns.message.Message


@dataclass(frozen=True, slots=True)
class Answer:
    """What a name has; `zone` is set when a "no" is ours to give."""

    code: Rcode = Rcode.NOERROR
    records: tuple[RRset, ...] = ()
    zone: str = ""


def record_set(name: str, kind: RdataType, values: Sequence[str]) -> tuple[RRset, ...]:
    """The records of one name and kind; none of no values. They are written in another order each time."""
    return (dns.rrset.from_text_list(f"{name}.", _TTL_SECONDS, "IN", kind, values),) if values else ()


def read_query(data: bytes) -> Query:
    """The question in a message; `Malformed` when there is none."""
    try:
        message = dns.message.from_wire(data, ignore_trailing=True)
    except (DNSException, ValueError) as error:
        raise Malformed(str(error)) from error
    if message.flags & dns.flags.QR or len(message.question) != 1:
        raise Malformed("not one question")
    (asked,) = message.question
    return Query(asked.name.to_text(omit_final_dot=True).lower(), asked.rdtype, message)


def write_answer(query: Query, answer: Answer, *, datagram: bool = False) -> bytes:
    """The message that answers a question; cut, and marked so, when it is longer than the asker can take."""
    made = dns.message.make_response(query.message, our_payload=_MAX_UDP_BYTES)
    made.flags |= dns.flags.AA
    made.set_rcode(answer.code)
    made.answer.extend(answer.records)
    if answer.zone and not answer.records:
        # Serial, refresh, retry, expire, and how long a "no" may be kept.
        authority = f"ns.{answer.zone}. hostmaster.{answer.zone}. 1 1 1 1 1"
        made.authority.extend(record_set(answer.zone, RdataType.SOA, [authority]))
    room = max(_PLAIN_BYTES, min(query.message.payload, _MAX_UDP_BYTES)) if datagram else _LARGEST_TCP_BYTES
    return made.to_wire(max_size=room, prefer_truncation=True)


def write_failure(data: bytes, code: Rcode) -> bytes:
    """An answer to bytes that could not be read: the number of the question, and no more."""
    made = dns.message.Message(int.from_bytes(data[:2], "big"))
    made.flags |= dns.flags.QR
    made.set_rcode(code)
    return made.to_wire()
