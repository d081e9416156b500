"""Keeps the parts of one local cluster running: `python -m slurm_operator.local.supervisor DATA`.

In: a data folder. Out: one process per part, started again with growing pauses when it ends; `parts.json` says how they
are. SIGTERM ends the parts in order and then the supervisor. When the supervisor itself is killed the parts go on, and
the next supervisor takes them over. Containers are not child processes here: they outlive every part.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from kube_local.node import host
from slurm_operator.local.home import PARTS, SUPERVISOR, Home, LocalError, write_whole

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 10.0
# A part that ran for so long was well: its next end is a new story.
HEALTHY_AFTER_SECONDS = 30.0
STOP_SECONDS = 8.0
LOG_BYTES = 10 * 1024 * 1024
LOOK_SECONDS = 30.0


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One part as it is now; `started` names the process together with its pid."""

    name: str
    pid: int = 0
    started: str = ""
    since: float = 0.0
    restarts: int = 0
    last_exit: str = ""

    @property
    def is_running(self) -> bool:
        """Whether that very process is alive."""
        return host.is_alive(self.pid, self.started)


def read_parts(home: Home) -> dict[str, PartRecord]:
    """What the supervisor last wrote down."""
    try:
        found = msgspec.json.decode(home.parts_file.read_bytes(), type=list[PartRecord])
    except (OSError, msgspec.MsgspecError):
        found = []
    known = {record.name: record for record in found}
    return {name: known.get(name, PartRecord(name=name)) for name in PARTS}


def pause_after(ran: float, before: float) -> float:
    """How long to wait before a part is started again."""
    return (
        FIRST_PAUSE_SECONDS
        if ran >= HEALTHY_AFTER_SECONDS
        else min(max(before * 2, FIRST_PAUSE_SECONDS), MAX_PAUSE_SECONDS)
    )


def command(part: str, home: Home) -> list[str]:
    """The command line of a part."""
    own = [sys.executable, "-m", "slurm_operator.local.parts", part, str(home.data)]
    # The operator gets a view of the file system of its own, in which names are looked up as in a pod.
    return ["unshare", "--mount", "--propagation", "private", *own] if part == "operator" else own


@dataclass(slots=True)
class Supervisor:
    """All parts of one cluster."""

    home: Home
    records: dict[str, PartRecord] = field(init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _children: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.records = read_parts(self.home)

    async def run(self) -> None:
        """Until asked to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        keeping = {part: asyncio.create_task(self._keep(part), name=part) for part in PARTS}
        trimming = asyncio.create_task(self._trim_logs())
        await self.stopping.wait()
        trimming.cancel()
        for part in reversed(PARTS):
            keeping[part].cancel()
            await asyncio.wait([keeping[part]])
            await end(self.records[part])
            if part in self._children:
                await self._children[part].wait()
            self._write(msgspec.structs.replace(self.records[part], pid=0, started=""))
        log.info("all parts have ended")

    async def _keep(self, part: str) -> None:
        pause = 0.0
        while True:
            if not self.records[part].is_running:
                await self._start(part)
            began = self.records[part].since
            how = await self._ended(part)
            pause = pause_after(time.time() - began, pause)
            log.warning("%s ended (%s): starting it again in %.1f s", part, how, pause)
            before = self.records[part]
            self._write(msgspec.structs.replace(before, last_exit=how, restarts=before.restarts + 1))
            await asyncio.sleep(pause)

    async def _start(self, part: str) -> None:
        path = self.home.log(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                *command(part, self.home), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        started = host.start_time(process.pid)
        record = msgspec.structs.replace(self.records[part], pid=process.pid, started=started, since=time.time())
        self._write(record)
        self._children[part] = process
        log.info("%s runs as %d", part, process.pid)

    async def _ended(self, part: str) -> str:
        """Wait for a part's end; it may be the child of an earlier supervisor."""
        child = self._children.get(part)
        if child is not None and child.pid == self.records[part].pid:
            code = await child.wait()
            return f"signal {-code}" if code < 0 else f"exit code {code}"
        await host.ended(self.records[part].pid)
        return "unknown"

    def _write(self, record: PartRecord) -> None:
        self.records[record.name] = record
        try:
            write_whole(self.home.parts_file, msgspec.json.encode(list(self.records.values())))
        except OSError as error:
            # A part that runs unrecorded is better than one that nobody starts again; the next change is tried again.
            log.warning("%s cannot be written: %s", self.home.parts_file, error.strerror)

    async def _trim_logs(self) -> None:
        while True:
            for part in (*PARTS, SUPERVISOR):
                trim(self.home.log(part))
            await asyncio.sleep(LOOK_SECONDS)


def trim(path: Path) -> None:
    """Move a log that has grown too long aside, without disturbing whoever appends to it."""
    aside = path.with_suffix(".1.log")
    with suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            try:
                aside.write_bytes(path.read_bytes())
            except OSError as error:
                # On a full disk what was said must go, or nothing can be said any more.
                log.warning("%s is not kept: %s", aside, error.strerror)
                aside.unlink(missing_ok=True)
            os.truncate(path, 0)


async def end(record: PartRecord) -> None:
    """End a part: politely, then not."""
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5.0)):
        if not record.is_running:
            return
        with suppress(ProcessLookupError):
            os.kill(record.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(host.ended(record.pid), seconds)


# --- seen from outside ------------------------------------------------------------------------------------------------


def supervisor_pid(home: Home) -> int:
    """The pid of the supervisor that holds the lock, or 0."""
    try:
        with home.lock_file.open("r+b") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return 0
    except FileNotFoundError:
        return 0
    except BlockingIOError:
        text = home.lock_file.read_text().strip()
        return int(text) if text.isdecimal() else 0


def detach(home: Home) -> None:
    """Start a supervisor that outlives this process and its terminal."""
    path = home.log(SUPERVISOR)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as out:
        subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "slurm_operator.local.supervisor", str(home.data)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd="/",
        )


def stop(home: Home, seconds: float = 60.0) -> bool:
    """End the supervisor and its parts; False when nothing ran."""
    pid, deadline = supervisor_pid(home), time.monotonic() + seconds
    ran = bool(pid)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    while supervisor_pid(home):
        if time.monotonic() > deadline:
            raise LocalError(f"the supervisor (pid {pid}) does not stop: see {home.log(SUPERVISOR)}, then kill it")
        time.sleep(0.05)
    # Parts of a supervisor that was killed.
    for record in reversed(read_parts(home).values()):
        ran = ran or record.is_running
        asyncio.run(end(record))
    return ran


def _lock(home: Home) -> IO[str] | None:
    home.data.mkdir(parents=True, exist_ok=True)
    handle = home.lock_file.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle


def main() -> int:
    """The supervisor process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    home = Home(Path(sys.argv[1]))
    handle = _lock(home)
    if handle is None:
        log.info("another supervisor runs already")
        return 0
    with handle:
        asyncio.run(Supervisor(home).run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
