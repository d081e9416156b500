"""Many files at once over HTTP, each checked by its hash, each going on where it was cut off.

In: `Item`s (address, name, size, hash), a folder, and a function to report the number of bytes to. Out: the files,
or `DownloadFailed`. Called by `apt.py`, which knows what to fetch. apt itself asks a mirror for one file after the
other, which takes minutes where each answer is slow to begin.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

MAX_CONCURRENT_DOWNLOADS = 8
MAX_TRIES = 4
FIRST_PAUSE_SECONDS = 0.5
# No answer, or no further byte, for so long: the connection is dead.
CONNECT_SECONDS, SILENCE_SECONDS = 15.0, 30.0
CHUNK_BYTES = 256 * 1024
REPORT_SECONDS = 0.1
HASHES = ("sha256", "sha512")
SCHEMES = ("http", "https")

OnBytes = Callable[[int], None]


class DownloadFailed(Exception):
    """A file cannot be had this way; the text says which one and why."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file and how to know it."""

    uri: str
    name: str
    size: int
    algorithm: str
    digest: str

    @property
    def can_be_fetched(self) -> bool:
        """Whether this module knows how."""
        return urlsplit(self.uri).scheme in SCHEMES and self.algorithm in HASHES

    def is_at(self, path: Path) -> bool:
        """Whether that is the whole file."""
        try:
            if path.stat().st_size != self.size:
                return False
            with path.open("rb") as content:
                return hashlib.file_digest(content, self.algorithm).hexdigest() == self.digest
        except FileNotFoundError:
            return False


def proxy_of(uri: str, settings: str) -> str | None:
    """The proxy that apt's settings name for an address; None asks the environment."""
    scheme = urlsplit(uri).scheme
    for line in settings.splitlines():
        key, _, value = line.rstrip(";").partition(" ")
        if key.lower() == f"acquire::{scheme}::proxy":
            return value.strip('"') or None
    return None


def fetch(items: Sequence[Item], folder: Path, on_bytes: OnBytes, *, proxy: str | None = None) -> None:
    """Everything that is named; what was begun earlier is finished."""
    strange = next((item for item in items if not item.can_be_fetched), None)
    if strange is not None:
        raise DownloadFailed(f"{strange.uri} is not fetched here")
    (folder / "partial").mkdir(parents=True, exist_ok=True)
    asyncio.run(_Fetch(folder, on_bytes, proxy).run(items))


@dataclass(slots=True)
class _Fetch:
    folder: Path
    on_bytes: OnBytes
    proxy: str | None
    _there: dict[str, int] = field(default_factory=dict)
    _last: float = 0.0

    async def run(self, items: Sequence[Item]) -> None:
        # The biggest first, so that none is left to come alone at the end.
        waiting = iter(sorted(items, key=lambda item: -item.size))
        self._there = {item.name: _size(self._partial(item)) for item in items}
        wait = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        connector = aiohttp.TCPConnector(limit=MAX_CONCURRENT_DOWNLOADS)
        async with aiohttp.ClientSession(
            timeout=wait, connector=connector, trust_env=True, auto_decompress=False
        ) as session:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(MAX_CONCURRENT_DOWNLOADS, len(items))):
                        group.create_task(self._work(session, waiting))
            except* (DownloadFailed, OSError) as failures:
                raise failures.exceptions[0] from None
        self._report(force=True)

    async def _work(self, session: aiohttp.ClientSession, waiting: Iterator[Item]) -> None:
        for item in waiting:
            await self._one(session, item)

    async def _one(self, session: aiohttp.ClientSession, item: Item) -> None:
        for attempt in range(MAX_TRIES):
            try:
                await self._try(session, item)
            except (aiohttp.ClientError, TimeoutError, DownloadFailed) as error:
                # An answer such as 404 will be the same in a second.
                final = isinstance(error, aiohttp.ClientResponseError) and 400 <= error.status < 500
                if final or attempt == MAX_TRIES - 1:
                    raise DownloadFailed(f"{item.uri}: {str(error) or type(error).__name__}") from error
                await asyncio.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
            else:
                return

    async def _try(self, session: aiohttp.ClientSession, item: Item) -> None:
        partial = self._partial(item)
        there = _size(partial)
        if there != item.size:
            await self._receive(session, item, partial, there if there < item.size else 0)
        if not item.is_at(partial):
            # Nothing of it can be trusted: start over.
            partial.unlink(missing_ok=True)
            raise DownloadFailed("the download does not match the suite's list")
        os.replace(partial, self.folder / item.name)  # noqa: PTH105 - one step, as in apt

    async def _receive(self, session: aiohttp.ClientSession, item: Item, partial: Path, there: int) -> None:
        headers = {"Range": f"bytes={there}-"} if there else {}
        async with session.get(URL(item.uri, encoded=True), headers=headers, proxy=self.proxy) as answer:
            answer.raise_for_status()
            if answer.status != 206:
                there = 0
            with partial.open("r+b" if there else "wb") as out:
                out.seek(there)
                async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
                    out.write(chunk)
                    there += len(chunk)
                    self._there[item.name] = there
                    self._report()

    def _partial(self, item: Item) -> Path:
        # apt's own place: it goes on with the same file.
        return self.folder / "partial" / item.name

    def _report(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._last >= REPORT_SECONDS:
            self._last = now
            self.on_bytes(sum(self._there.values()))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
