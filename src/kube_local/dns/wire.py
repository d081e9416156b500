"""DNS messages: bytes in, `Query` out; answers in, bytes out. Pure; called by `server`.

As little of RFC 1035 as a stub resolver needs: one question, the records A, CNAME, PTR, SOA and SRV, EDNS for the
size of an answer, truncation for those that do not fit. Names are compressed against all that was written before.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

HEADER = struct.Struct("!HHHHHH")
_TAIL = struct.Struct("!HHIH")
_PLAIN_SIZE = 512
# What one packet on any ordinary network carries.
_LARGEST_UDP = 1232
_POINTER = 0xC000
_LONGEST_NAME = 255
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_WANTED = 0x8000, 0x0400, 0x0200, 0x0100


class Kind(IntEnum):
    """The types of records that are spoken of here."""

    A = 1
    CNAME = 5
    SOA = 6
    PTR = 12
    AAAA = 28
    SRV = 33
    OPT = 41
    ANY = 255


class Code(IntEnum):
    """How an answer ends."""

    OK = 0
    MALFORMED = 1
    FAILED = 2
    NO_SUCH_NAME = 3
    NOT_IMPLEMENTED = 4


class Malformed(Exception):
    """Bytes that are no question."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question. `name` is lower case and has no dot at its end; `asked` is the name as it was written."""

    id: int
    name: str
    kind: int
    asked: str = ""
    opcode: int = 0
    recursion: bool = False
    edns: bool = False
    size: int = _PLAIN_SIZE


@dataclass(frozen=True, slots=True)
class Record:
    """One record; `value` is an address, a name, or for SRV `priority weight port target`."""

    name: str
    kind: Kind
    value: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a name has; `zone` is set when the answer is ours to give."""

    code: Code = Code.OK
    records: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()
    zone: str = ""


# --- reading ------------------------------------------------------------------------------------------------------


def read_query(data: bytes) -> Query:
    """The question in a message; `Malformed` when there is none."""
    if len(data) < HEADER.size:
        raise Malformed("shorter than a header")
    number, flags, questions, answers, authorities, extras = HEADER.unpack_from(data)
    if flags & _RESPONSE or questions != 1:
        raise Malformed("not one question")
    asked, offset = _read_name(data, HEADER.size)
    if offset + 4 > len(data):
        raise Malformed("the question is cut off")
    kind, _ = struct.unpack_from("!HH", data, offset)
    size = _edns_size(data, offset + 4, answers + authorities + extras)
    return Query(
        number,
        asked.lower(),
        kind,
        asked,
        opcode=(flags >> 11) & 15,
        recursion=bool(flags & _RECURSION_WANTED),
        edns=size is not None,
        size=max(_PLAIN_SIZE, min(size or _PLAIN_SIZE, _LARGEST_UDP)),
    )


def _read_name(data: bytes, offset: int) -> tuple[str, int]:
    """A name without compression, as every question has it."""
    labels: list[bytes] = []
    while True:
        if offset >= len(data):
            raise Malformed("a name is cut off")
        length = data[offset]
        if length == 0:
            break
        if length > 63:
            raise Malformed("a name in a question is compressed")
        labels.append(data[offset + 1 : offset + 1 + length])
        offset += 1 + length
    text = b".".join(labels)
    if len(text) > _LONGEST_NAME:
        raise Malformed("a name is too long")
    return text.decode("ascii", "replace"), offset + 1


def _edns_size(data: bytes, offset: int, records: int) -> int | None:
    """The size that the asker can take, when it says so."""
    for _ in range(records):
        if offset >= len(data):
            return None
        offset = _skip_name(data, offset)
        if offset + _TAIL.size > len(data):
            return None
        kind, size, _, length = _TAIL.unpack_from(data, offset)
        if kind == Kind.OPT:
            return int(size)
        offset += _TAIL.size + length
    return None


def _skip_name(data: bytes, offset: int) -> int:
    while offset < len(data) and data[offset]:
        if data[offset] > 63:
            return offset + 2
        offset += 1 + data[offset]
    return offset + 1


# --- writing ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    data: bytearray = field(default_factory=bytearray)
    places: dict[str, int] = field(default_factory=dict)

    def name(self, name: str) -> None:
        """A name, with a pointer to where its end was written before."""
        labels = name.rstrip(".").split(".") if name.rstrip(".") else []
        for index, label in enumerate(labels):
            rest = ".".join(labels[index:]).lower()
            place = self.places.get(rest)
            if place is not None:
                self.data += struct.pack("!H", _POINTER | place)
                return
            if len(self.data) < _POINTER - 0x8000:
                self.places[rest] = len(self.data)
            encoded = label.encode("ascii", "replace")[:63]
            self.data += bytes([len(encoded)]) + encoded
        self.data.append(0)

    def record(self, one: Record, ttl: int) -> None:
        """One record with its length."""
        self.name(one.name)
        self.data += _TAIL.pack(one.kind, 1, ttl, 0)
        start = len(self.data)
        self._value(one)
        struct.pack_into("!H", self.data, start - 2, len(self.data) - start)

    def _value(self, one: Record) -> None:
        if one.kind is Kind.A:
            self.data += ipaddress.IPv4Address(one.value).packed
        elif one.kind is Kind.SRV:
            priority, weight, port, target = one.value.split()
            self.data += struct.pack("!HHH", int(priority), int(weight), int(port))
            self.name(target)
        elif one.kind is Kind.SOA:
            self.name(f"ns.{one.value}")
            self.name(f"hostmaster.{one.value}")
            # serial, refresh, retry, expire, and how long a "no" may be kept
            self.data += struct.pack("!IIIII", 1, 1, 1, 1, 1)
        else:
            self.name(one.value)


def write_answer(query: Query, answer: Answer, *, ttl: int = 1, limit: int = 65535) -> bytes:
    """The message that answers a question; cut down to its head, and marked so, when it is longer than `limit`."""
    whole = _write(query, answer, ttl, truncated=False)
    if len(whole) <= limit:
        return whole
    return _write(query, Answer(answer.code, zone=answer.zone), ttl, truncated=True)


def _write(query: Query, answer: Answer, ttl: int, *, truncated: bool) -> bytes:
    nothing = bool(answer.zone) and not answer.records and not truncated
    authority = (Record(answer.zone, Kind.SOA, answer.zone),) if nothing else ()
    flags = _RESPONSE | (query.opcode << 11) | _AUTHORITATIVE | answer.code
    flags |= _RECURSION_WANTED if query.recursion else 0
    flags |= _TRUNCATED if truncated else 0
    writer = _Writer()
    extras = len(answer.additional) + (1 if query.edns else 0)
    writer.data += HEADER.pack(query.id, flags, 1, len(answer.records), len(authority), extras)
    writer.name(query.asked)
    writer.data += struct.pack("!HH", query.kind, 1)
    for one in (*answer.records, *authority, *answer.additional):
        writer.record(one, ttl)
    if query.edns:
        writer.data += b"\0" + _TAIL.pack(Kind.OPT, _LARGEST_UDP, 0, 0)
    return bytes(writer.data)


def write_failure(data: bytes, code: Code) -> bytes:
    """An answer to bytes that could not be read: the number of the question, and no more."""
    number = int.from_bytes(data[:2], "big") if len(data) >= 2 else 0
    return HEADER.pack(number, _RESPONSE | code, 0, 0, 0, 0)


def addresses(name: str, values: Sequence[str]) -> tuple[Record, ...]:
    """A records."""
    return tuple(Record(name, Kind.A, value) for value in values)
