"""Reading container logs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kube_local.node import logs, rotation
from kube_local.node.logs import Options

NOW = datetime(2026, 1, 1, 0, 1, 0, tzinfo=UTC)


def entry(second: int, text: str, tag: str = "F", stream: str = "stdout") -> str:
    return f"2026-01-01T00:00:{second:02}.123456789+00:00 {stream} {tag} {text}\n"


LOG = entry(1, "one") + entry(2, "tw", "P") + entry(2, "o") + entry(40, "three  words") + entry(50, "", stream="stderr")

CASES = [
    ({}, "one\ntwo\nthree  words\n\n"),
    ({"tailLines": "2"}, "three  words\n\n"),
    ({"tailLines": "3"}, "two\nthree  words\n\n"),
    ({"tailLines": "0"}, ""),
    ({"sinceSeconds": "30"}, "three  words\n\n"),
    ({"sinceTime": "2026-01-01T00:00:45Z"}, "\n"),
    ({"limitBytes": "5"}, "one\nt"),
    ({"timestamps": "true", "tailLines": "1"}, "2026-01-01T00:00:50.123456789+00:00 \n"),
    ({"tailLines": "many"}, "one\ntwo\nthree  words\n\n"),
]


@pytest.mark.parametrize(("query", "expected"), CASES, ids=[str(case[0]) for case in CASES])
async def test_a_log_is_shown_as_asked_for(query: dict[str, str], expected: str, tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text(LOG)
    assert await _read(tmp_path, Options.of(query, NOW)) == expected


async def _read(folder: Path, options: Options) -> str:
    return b"".join([piece async for piece in logs.read(folder / "0.log", options, lambda: True)]).decode()


async def test_what_was_put_aside_comes_first(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text(entry(1, "old"))
    assert rotation.rotate(tmp_path / "0.log", tmp_path, limit=10)
    assert not rotation.rotate(tmp_path / "0.log", tmp_path, limit=10)
    (tmp_path / "0.log").write_text(entry(2, "new"))
    assert not rotation.rotate(tmp_path / "0.log", tmp_path, limit=1000)
    assert await _read(tmp_path, Options()) == "old\nnew\n"


async def test_no_log_is_an_empty_log(tmp_path: Path) -> None:
    assert await _read(tmp_path, Options(follow=True)) == ""


async def test_following_goes_on_over_a_rotation_and_ends_with_the_container(tmp_path: Path) -> None:
    log, over = tmp_path / "0.log", False
    log.write_text(entry(1, "one"))
    reading = logs.read(log, Options(follow=True), lambda: over)
    seen = [await anext(reading)]
    with log.open("a") as old:
        old.write(entry(2, "two"))
        old.flush()
        seen.append(await anext(reading))
        rotation.rotate(log, tmp_path, limit=1)
        old.write(entry(3, "three"))
    log.write_text(entry(4, "four"))
    over = True
    async with asyncio.timeout(10):
        seen += [piece async for piece in reading]
    assert b"".join(seen) == b"one\ntwo\nthree\nfour\n"
