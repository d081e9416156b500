"""The supervisor with real processes in the place of the parts: kept, started again, taken over, ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from slurm_operator.local import supervisor
from slurm_operator.local.home import PARTS, Home
from slurm_operator.local.supervisor import Supervisor, pause_after, read_parts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(supervisor, "command", lambda part, _: ["sh", "-c", f"echo {part}; exec sleep 1000"])
    return Home(tmp_path)


@asynccontextmanager
async def running(home: Home) -> AsyncIterator[Supervisor]:
    """A supervisor in this process; ended with its parts."""
    one = Supervisor(home)
    task = asyncio.create_task(one.run())
    try:
        await until(lambda: all(part.is_running for part in read_parts(home).values()))
        yield one
    finally:
        one.stopping.set()
        await task


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.01)


async def test_every_part_runs_and_its_words_are_kept(home: Home) -> None:
    async with running(home):
        assert list(read_parts(home)) == list(PARTS)
        for part in PARTS:
            await until(lambda part=part: home.log(part).read_text() == f"{part}\n")  # type: ignore[misc]


@pytest.mark.parametrize("part", PARTS)
async def test_a_killed_part_is_started_again_and_the_others_are_left_alone(home: Home, part: str) -> None:
    async with running(home):
        before = read_parts(home)
        os.kill(before[part].pid, signal.SIGKILL)
        await until(lambda: read_parts(home)[part].restarts == 1 and read_parts(home)[part].is_running)
        after = read_parts(home)
        assert after[part].pid != before[part].pid
        assert after[part].last_exit == "signal 9"
        assert {name: each for name, each in after.items() if name != part} == {
            name: each for name, each in before.items() if name != part
        }


async def test_the_end_of_the_supervisor_ends_every_part(home: Home) -> None:
    async with running(home):
        before = read_parts(home)
    assert not any(part.is_running for part in before.values())
    assert all(not part.pid for part in read_parts(home).values())


async def test_a_new_supervisor_takes_over_the_parts_of_one_that_was_killed(home: Home) -> None:
    async with running(home):
        first = read_parts(home)
        heir = Supervisor(home)
        task = asyncio.create_task(heir.run())
        await asyncio.sleep(0)
        assert read_parts(home) == first
        heir.stopping.set()
        await task
    # The heir has ended what it had taken over.
    assert not any(part.is_running for part in first.values())


def test_nothing_runs_where_there_is_no_folder(tmp_path: Path) -> None:
    assert supervisor.supervisor_pid(Home(tmp_path / "none")) == 0
    assert not supervisor.stop(Home(tmp_path / "none"))


@pytest.mark.parametrize(
    ("ran", "before", "pause"),
    [(0.0, 0.0, 0.1), (0.1, 0.1, 0.2), (1.0, 8.0, 10.0), (60.0, 10.0, 0.1)],
    ids=["first", "growing", "never more than", "was well for a while"],
)
def test_pauses_grow_until_a_part_has_been_well(ran: float, before: float, pause: float) -> None:
    assert pause_after(ran, before) == pytest.approx(pause)


def test_a_long_log_is_moved_aside_under_its_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOG_BYTES", 10)
    path = tmp_path / "node.log"
    with path.open("ab") as writer:
        writer.write(b"a long line of text\n")
        writer.flush()
        supervisor.trim(path)
        writer.write(b"short\n")
    supervisor.trim(path)
    assert path.read_bytes() == b"short\n"
    assert (tmp_path / "node.1.log").read_bytes() == b"a long line of text\n"


def test_the_operator_alone_gets_a_view_of_its_own(tmp_path: Path) -> None:
    assert supervisor.command("operator", Home(tmp_path))[:2] == ["unshare", "--mount"]
    assert "unshare" not in supervisor.command("node", Home(tmp_path))
