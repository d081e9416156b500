"""Reads container logs as conmon writes them: `time stream F|P text`, one entry a line.

In: the log of one start of a container and the query of `pods/log`. Out: what kubectl prints. `access` streams it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from kube_runtime.times import parse_time

_CHUNK_BYTES = 256 * 1024
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Options:
    """Which entries, and how they are shown."""

    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None
    limit: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], now: datetime) -> Options:
        """The options of a request; what cannot be read counts as not given."""
        since = parse_time(query.get("sinceTime", ""))
        if query.get("sinceSeconds", "").isdecimal():
            since = now - timedelta(seconds=int(query["sinceSeconds"]))
        return cls(
            query.get("follow", "") in {"true", "1"},
            query.get("timestamps", "") in {"true", "1"},
            int(query["tailLines"]) if query.get("tailLines", "").isdecimal() else None,
            since,
            int(query["limitBytes"]) if query.get("limitBytes", "").isdecimal() else None,
        )


def shown(line: bytes, options: Options) -> bytes:
    """One entry as it is printed; empty when it is left out."""
    parts = line.rstrip(b"\n").split(b" ", 3)
    if len(parts) < 3:
        return b""
    moment, tag, text = parts[0], parts[2], parts[3] if len(parts) > 3 else b""
    if options.since is not None:
        # The kernel's nanoseconds are more than Python reads.
        at = parse_time(moment[:26].decode() + moment[29:].decode() if len(moment) > 29 else moment.decode())
        if at is not None and at < options.since:
            return b""
    end = b"" if tag.startswith(b"P") else b"\n"
    return (moment + b" " if options.timestamps else b"") + text + end


def past(lines: Iterable[bytes], options: Options) -> Iterator[bytes]:
    """What has been printed so far."""
    entries: Iterator[bytes] = (entry for line in lines if (entry := shown(line, options)))
    if options.tail is not None:
        entries = iter(deque(_whole(entries), maxlen=options.tail))
    yield from entries


def _whole(entries: Iterable[bytes]) -> Iterator[bytes]:
    """Entries joined to whole lines."""
    # Gathered in a list: a line of megabytes comes in thousands of parts.
    held: list[bytes] = []
    for entry in entries:
        held.append(entry)
        if entry.endswith(b"\n"):
            yield b"".join(held)
            held.clear()
    if held:
        yield b"".join(held)


async def read(log: Path, options: Options, is_over: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """The log in pieces; with `follow`, until the container has ended and all of it was read."""
    left = options.limit
    async with aclosing(_pieces(log, options, is_over)) as pieces:
        async for piece in pieces:
            if left is not None and len(piece) >= left:
                yield piece[:left]
                return
            left = None if left is None else left - len(piece)
            yield piece


async def _pieces(log: Path, options: Options, is_over: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    with closing(Follower(log)) as tailed:
        whole = await asyncio.to_thread(tailed.first)
        text = await asyncio.to_thread(lambda: b"".join(past(whole, options)))
        for start in range(0, len(text), _CHUNK_BYTES):
            yield text[start : start + _CHUNK_BYTES]
        while options.follow:
            over = is_over()
            text = b"".join(shown(line, options) for line in tailed.more())
            if text:
                yield text
            elif over:
                return
            else:
                await asyncio.sleep(_POLL_SECONDS)


@dataclass(slots=True)
class Follower:
    """Reads a log that grows and is put aside when it is full."""

    log: Path
    _file: BinaryIO | None = None
    _rest: bytes = b""

    def first(self) -> list[bytes]:
        """Every entry so far, those of the file before included."""
        before = self.log.with_suffix(".log.1")
        old = before.read_bytes().splitlines(keepends=True) if before.is_file() else []
        return [*old, *self.more()]

    def more(self) -> list[bytes]:
        """The entries since the last time."""
        text = self._read()
        if self._file is not None and self._moved():
            # All that the old file ever gets is in it: conmon has gone on to the new one.
            text += self._read()
            self._file.close()
            self._file = None
            text += self._read()
        *lines, self._rest = (self._rest + text).split(b"\n")
        return [line + b"\n" for line in lines]

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _read(self) -> bytes:
        if self._file is None:
            try:
                self._file = self.log.open("rb")
            except OSError:
                return b""
        return self._file.read()

    def _moved(self) -> bool:
        try:
            return self._file is not None and os.fstat(self._file.fileno()).st_ino != self.log.stat().st_ino
        except OSError:
            return False
