"""Downloading from a real HTTP server on loopback that is slow, breaks off, lies or refuses."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from slurm_operator.local.image import download
from slurm_operator.local.image.download import DownloadFailed, Item, fetch, proxy_of

CONTENT = bytes(range(256)) * 4096
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Mirror:
    """What was asked, and how to answer."""

    port: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0
    answers: dict[str, Handler] = field(default_factory=dict)

    def item(self, name: str, content: bytes = CONTENT) -> Item:
        return Item(
            f"http://127.0.0.1:{self.port}/{name}", name, len(content), "sha256", hashlib.sha256(content).hexdigest()
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path.removeprefix("/")
        self.asked.append((name, request.headers.get("Range", "")))
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            return await self.answers.get(name, whole)(request)
        finally:
            self.busy -= 1


async def whole(request: web.Request) -> web.StreamResponse:
    """The file, or the rest of it."""
    start = request.http_range.start or 0
    return web.Response(body=CONTENT[start:], status=206 if start else 200)


async def half(request: web.Request) -> web.StreamResponse:
    """Half of it, and then the connection breaks."""
    answer = web.StreamResponse(headers={"Content-Length": str(len(CONTENT))})
    await answer.prepare(request)
    await answer.write(CONTENT[: len(CONTENT) // 2])
    assert request.transport is not None
    request.transport.close()
    return answer


def first(*answers: Handler) -> Handler:
    """One answer after the other, and then the last one for good."""
    left = list(answers)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


def status(code: int) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code)

    return answer


async def lie(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"x" * len(CONTENT))


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """A server in a thread of its own, as `fetch` has an event loop of its own."""
    monkeypatch.setattr(download, "FIRST_PAUSE_SECONDS", 0.01)
    made, ready, loop = Mirror(), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        application = web.Application()
        application.router.add_get("/{name}", made.answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        made.port = runner.addresses[0][1]
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(10)
    yield made
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


def silent(_: int) -> None:
    return None


def test_every_file_comes_and_several_at_once(mirror: Mirror, tmp_path: Path) -> None:
    gate = asyncio.Barrier(download.MAX_CONCURRENT_DOWNLOADS)

    async def together(request: web.Request) -> web.StreamResponse:
        # Only when as many as may be there are there.
        async with asyncio.timeout(10):
            await gate.wait()
        return await whole(request)

    items = [mirror.item(f"{number}.deb") for number in range(download.MAX_CONCURRENT_DOWNLOADS * 2)]
    mirror.answers = {item.name: together for item in items}
    told: list[int] = []
    fetch(items, tmp_path, told.append)
    assert all(item.is_at(tmp_path / item.name) for item in items)
    assert mirror.most_busy == download.MAX_CONCURRENT_DOWNLOADS
    assert told == sorted(told)
    assert told[-1] == len(CONTENT) * len(items)
    assert not list((tmp_path / "partial").iterdir())


def test_a_file_that_was_cut_off_goes_on_where_it_was(mirror: Mirror, tmp_path: Path) -> None:
    mirror.answers["a.deb"] = first(half, whole)
    fetch([mirror.item("a.deb")], tmp_path, silent)
    assert (tmp_path / "a.deb").read_bytes() == CONTENT
    assert mirror.asked == [("a.deb", ""), ("a.deb", f"bytes={len(CONTENT) // 2}-")]


def test_what_a_killed_download_left_is_used(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "a.deb").write_bytes(CONTENT[:1000])
    told: list[int] = []
    fetch([mirror.item("a.deb")], tmp_path, told.append)
    assert (tmp_path / "a.deb").read_bytes() == CONTENT
    assert mirror.asked == [("a.deb", "bytes=1000-")]
    assert min(told) >= 1000


def test_a_server_that_knows_no_ranges_sends_it_all_again(mirror: Mirror, tmp_path: Path) -> None:
    async def all_of_it(_: web.Request) -> web.StreamResponse:
        return web.Response(body=CONTENT)

    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "a.deb").write_bytes(b"something else")
    mirror.answers["a.deb"] = all_of_it
    fetch([mirror.item("a.deb")], tmp_path, silent)
    assert (tmp_path / "a.deb").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "left", [b"x" * 1000, b"x" * len(CONTENT), b"x" * (len(CONTENT) + 1)], ids=["half", "whole", "too long"]
)
def test_a_rotten_rest_is_thrown_away(mirror: Mirror, tmp_path: Path, left: bytes) -> None:
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "a.deb").write_bytes(left)
    fetch([mirror.item("a.deb")], tmp_path, silent)
    assert (tmp_path / "a.deb").read_bytes() == CONTENT


def test_a_mirror_that_is_busy_is_asked_again(mirror: Mirror, tmp_path: Path) -> None:
    mirror.answers["a.deb"] = first(status(503), status(502), whole)
    fetch([mirror.item("a.deb")], tmp_path, silent)
    assert (tmp_path / "a.deb").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "times", "says"),
    [
        (status(404), 1, "404"),
        (status(503), download.MAX_TRIES, "503"),
        (lie, download.MAX_TRIES, "does not match the suite's list"),
    ],
    ids=["missing", "always busy", "another file"],
)
def test_what_cannot_be_had_is_named(mirror: Mirror, tmp_path: Path, answer: Handler, times: int, says: str) -> None:
    mirror.answers["a.deb"] = answer
    with pytest.raises(DownloadFailed, match=rf"http://127.0.0.1:\d+/a.deb: .*{says}"):
        fetch([mirror.item("a.deb")], tmp_path, silent)
    assert len(mirror.asked) == times
    assert not (tmp_path / "a.deb").exists()


def test_a_mirror_that_falls_silent_is_left(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        while request.transport is not None:  # noqa: ASYNC110 - until the other side goes
            await asyncio.sleep(0.01)
        return web.Response()

    monkeypatch.setattr(download, "SILENCE_SECONDS", 0.05)
    mirror.answers["a.deb"] = never
    with pytest.raises(DownloadFailed, match=r"a\.deb: .*[Tt]imeout"):
        fetch([mirror.item("a.deb")], tmp_path, silent)


@pytest.mark.parametrize("uri", ["file:///m/a.deb", "mirror+http://m/a.deb"], ids=["file", "mirror list"])
def test_what_only_apt_knows_is_left_to_apt(tmp_path: Path, uri: str) -> None:
    with pytest.raises(DownloadFailed, match="is not fetched here"):
        fetch([Item(uri, "a.deb", 1, "sha256", "aa")], tmp_path, silent)


@pytest.mark.parametrize(
    ("settings", "proxy"),
    [
        ('Acquire::http::Proxy "http://proxy:3128";\n', "http://proxy:3128"),
        ('Acquire::https::Proxy "http://proxy:3128";\n', None),
        ('Acquire::http::Proxy::m "DIRECT";\n', None),
        ("", None),
    ],
    ids=["a proxy", "of another scheme", "of another host", "none"],
)
def test_the_proxy_is_apts(settings: str, proxy: str | None) -> None:
    assert proxy_of("http://m/debian", settings) == proxy


def test_a_full_disk_is_an_error_of_the_disk(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came out of the group of downloads as a group, which nobody caught."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        fetch([mirror.item("a"), mirror.item("b")], tmp_path, lambda _: None)
