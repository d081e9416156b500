"""SPDY/3.1 frames, as far as port-forwarding needs them. Pure.

In: bytes as they come, cut anywhere. Out: frames; and the bytes of frames to send. `forward` speaks it within a
websocket, as kubectl does since 1.31. There is no flow control: kubectl's library has none either.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_MAX_FRAME_BYTES = 4 * 1024 * 1024

# The names that the header compression of both sides starts with: part of the protocol.
_DICTIONARY_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    entries = (entry.replace("_", " ").encode() for entry in _DICTIONARY_WORDS.split())
    return b"".join(len(entry).to_bytes(4, "big") + entry for entry in entries) + _TEXT.encode()


DICTIONARY = _dictionary()


class BadFrame(Exception):
    """The peer does not speak SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The peer opens a stream."""

    stream: int
    headers: Mapping[str, str]
    ended: bool


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream; `ended` when there will be no more."""

    stream: int
    data: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream ends at once."""

    stream: int


@dataclass(frozen=True, slots=True)
class Pinged:
    """The peer wants the same number back."""

    number: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """The peer opens no more streams."""


Frame = Opened | Data | Reset | Pinged | Leaving


@dataclass(slots=True)
class Codec:
    """Both directions of one connection: headers are compressed over all frames."""

    _buffer: bytearray = field(default_factory=bytearray)
    _unpack: zlib._Decompress = field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))
    _pack: zlib._Compress = field(default_factory=lambda: zlib.compressobj(zdict=DICTIONARY))

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now."""
        self._buffer += data
        while len(self._buffer) >= 8:
            first, second = struct.unpack_from(">II", self._buffer)
            length = second & 0xFFFFFF
            if length > _MAX_FRAME_BYTES:
                raise BadFrame(f"a frame of {length} bytes")
            if len(self._buffer) < 8 + length:
                return
            payload = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            frame = self._frame(first, second >> 24, payload)
            if frame is not None:
                yield frame

    def _frame(self, first: int, flags: int, payload: bytes) -> Frame | None:
        if not first >> 31:
            return Data(first, payload, bool(flags & _FIN))
        if first >> 16 & 0x7FFF != _VERSION:
            raise BadFrame(f"version {first >> 16 & 0x7FFF}")
        kind = first & 0xFFFF
        if kind == SYN_STREAM:
            return Opened(_number(payload), self._headers(payload[10:]), bool(flags & _FIN))
        if kind == SYN_REPLY:
            # Only read to keep the compression in step.
            self._headers(payload[4:])
            return None
        if kind == RST_STREAM:
            return Reset(_number(payload))
        if kind == PING:
            return Pinged(struct.unpack(">I", payload[:4])[0])
        return Leaving() if kind == GOAWAY else None

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._unpack.decompress(block)
            count, at = struct.unpack_from(">I", plain)[0], 4
            fields = []
            for _ in range(2 * count):
                (length,) = struct.unpack_from(">I", plain, at)
                fields.append(plain[at + 4 : at + 4 + length].decode())
                at += 4 + length
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise BadFrame(f"headers that cannot be read: {error}") from error
        return dict(zip(fields[::2], fields[1::2], strict=True))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        plain = struct.pack(">I", len(headers))
        for text in (text for pair in headers.items() for text in pair):
            plain += struct.pack(">I", len(text.encode())) + text.encode()
        return self._pack.compress(plain) + self._pack.flush(zlib.Z_SYNC_FLUSH)

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Open a stream; only tests do, since a server does not."""
        return _control(SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._block(headers))

    def reply(self, stream: int) -> bytes:
        """Accept a stream."""
        return _control(SYN_REPLY, struct.pack(">I", stream) + self._block({}))


def _number(payload: bytes) -> int:
    number: int = struct.unpack(">I", payload[:4])[0]
    return number & 0x7FFFFFFF


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">II", 1 << 31 | _VERSION << 16 | kind, len(payload)) + payload


def data(stream: int, content: bytes, *, ended: bool = False) -> bytes:
    """Bytes of a stream."""
    return struct.pack(">II", stream, (_FIN if ended else 0) << 24 | len(content)) + content


def reset(stream: int) -> bytes:
    """End a stream at once."""
    return _control(RST_STREAM, struct.pack(">II", stream, 5))


def ping(number: int) -> bytes:
    """Answer a ping."""
    return _control(PING, struct.pack(">I", number))
