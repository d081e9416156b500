"""conmon and runc: making, starting, ending and entering containers.

In: bundles on disk. Out: running containers that survive this process: conmon, one small process each, keeps their
output and writes down how they ended. Called by `container` and `access`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kube_local.node import host
from kube_local.node.errors import CannotRunPods, RunFailed
from kube_local.node.paths import Paths
from kube_local.node.records import ContainerRecord

LOG_BYTES = 10 * 1024 * 1024
# How often a running container is looked at besides being told, and how long its monitor may take to end after it.
LOOK_SECONDS, LINGER_SECONDS = 5.0, 2.0
_REOPEN_LOGS = "2 0 0\n"
_LOST_EXIT_CODE = 137


class _Answer(msgspec.Struct):
    data: int = -1
    message: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """A container that runc has made and conmon watches."""

    pid: int
    pid_start: str
    monitor: int
    monitor_start: str


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    code: int
    at: float
    out_of_memory: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Runtime:
    """The programs of this machine that run containers."""

    paths: Paths
    runc: str
    conmon: str

    @classmethod
    def find(cls, paths: Paths) -> Runtime:
        """The programs, or a sentence that says what to install."""
        found = {name: _which(name) for name in _PROGRAMS}
        missing = [name for name, path in found.items() if path is None]
        if missing:
            packages = " ".join(_PROGRAMS[name] for name in missing)
            raise CannotRunPods(f"{', '.join(missing)} is not on this machine: apt-get install {packages}")
        return cls(paths, found["runc"] or "", found["conmon"] or "")

    async def create(self, name: str, bundle: Path, log: Path, *, terminal: bool) -> Made:
        """Make a container out of a bundle; its process waits for `start`."""
        self.paths.exits.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        try:
            argv = self._monitor_command(name, bundle, log, terminal=terminal)
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(writing,),
                # It marks a container that ran out of memory by a file in its working folder.
                cwd=bundle,
                env={**os.environ, "_OCI_SYNCPIPE": str(writing)},
            )
            os.close(writing)
            writing = -1
            answer = await _sync(reading)
            await process.wait()
        finally:
            for handle in (reading, writing):
                if handle >= 0:
                    with suppress(OSError):
                        os.close(handle)
        if answer.data <= 0:
            raise RunFailed(answer.message.strip() or "conmon ended without a message")
        monitor = int((bundle / "monitor.pid").read_text())
        return Made(answer.data, host.start_time(answer.data), monitor, host.start_time(monitor))

    def _monitor_command(self, name: str, bundle: Path, log: Path, *, terminal: bool) -> list[str]:
        return [
            self.conmon,
            *("--api-version", "1", "-c", name, "-u", name, "-r", self.runc),
            *("--runtime-arg", f"--root={self.paths.runc}", "-b", str(bundle), "--full-attach"),
            *("-p", str(bundle / "pid"), "-P", str(bundle / "monitor.pid"), "--exit-dir", str(self.paths.exits)),
            # No limit here: conmon would throw a full log away, the agent puts it aside.
            *("-l", f"k8s-file:{log}", "--log-level", "error"),
            *(["-t"] if terminal else []),
        ]

    async def start(self, name: str) -> None:
        """Let the container's process go."""
        done = await host.run([self.runc, f"--root={self.paths.runc}", "start", name])
        if done.code != 0:
            raise RunFailed(_plain(done.message))

    async def delete(self, name: str) -> None:
        """Forget a container, ending it if it still runs."""
        if (self.paths.runc / name).exists():
            await host.run([self.runc, f"--root={self.paths.runc}", "delete", "--force", name])
        (self.paths.exits / name).unlink(missing_ok=True)

    async def wait(self, record: ContainerRecord, bundle: Path) -> Exit:
        """Wait for the end of a container.

        Its monitor writes down how it ended and ends too; one that hangs after that does not keep the pod.
        """
        exit_file = self.paths.exits / record.container_id
        while host.is_alive(record.monitor, record.monitor_start):
            lingers = exit_file.exists()
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS if lingers else LOOK_SECONDS):
                    await host.ended(record.monitor)
            if lingers:
                break
        host.kill(record.monitor, record.monitor_start)
        return self.exit_of(record, bundle)

    def exit_of(self, record: ContainerRecord, bundle: Path) -> Exit:
        """How an ended container ended."""
        file = self.paths.exits / record.container_id
        try:
            return Exit(int(file.read_text()), file.stat().st_mtime, (bundle / "oom").exists())
        except (OSError, ValueError):
            # Its monitor was killed: nobody reads its output any more, so it cannot be left running.
            send(record, signal.SIGKILL)
            return Exit(_LOST_EXIT_CODE, 0.0, lost=True)

    def exec_command(
        self, name: str, command: Sequence[str], *, terminal: bool = False, pid_file: Path | None = None
    ) -> list[str]:
        """The command line that runs a command in a container, as its user and with its variables."""
        flags = ["--tty", "--env", "TERM=xterm"] if terminal else []
        flags += ["--pid-file", str(pid_file)] if pid_file else []
        return [self.runc, f"--root={self.paths.runc}", "exec", *flags, name, *command]

    async def execute(self, name: str, command: Sequence[str], bundle: Path, seconds: float) -> host.Done | None:
        """Run a command in a container to its end; None when it took too long and was killed."""
        pid_file = new_pid_file(bundle)
        try:
            async with asyncio.timeout(seconds):
                return await host.run(self.exec_command(name, command, pid_file=pid_file), seconds=seconds + 5)
        except TimeoutError:
            end_command(pid_file)
            return None
        finally:
            forget_pid_file(pid_file)


def new_pid_file(bundle: Path) -> Path:
    """Where runc writes the process of one command; never the same twice, since a killed runc leaves a draft of it."""
    return bundle / f"exec-{os.getpid()}-{next(_numbers)}.pid"


def end_command(pid_file: Path) -> None:
    """Kill a command: killing runc alone would leave it behind."""
    with suppress(OSError, ValueError):
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def forget_pid_file(pid_file: Path) -> None:
    """Remove the file and runc's draft of it."""
    pid_file.unlink(missing_ok=True)
    pid_file.with_name(f".{pid_file.name}").unlink(missing_ok=True)


_numbers = itertools.count()
_PROGRAMS = {"runc": "runc", "conmon": "conmon", "ip": "iproute2", "unshare": "util-linux"}


def _which(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def send(record: ContainerRecord, number: int) -> None:
    """Send a signal to a container's first process, if it is still that one."""
    if host.is_alive(record.pid, record.pid_start):
        with suppress(ProcessLookupError):
            os.kill(record.pid, number)


async def _sync(handle: int) -> _Answer:
    """What conmon says when runc is done."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(handle), "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        async with asyncio.timeout(60):
            line = await reader.readline()
        return msgspec.json.decode(line, type=_Answer) if line.strip() else _Answer()
    except (TimeoutError, msgspec.MsgspecError) as error:
        return _Answer(message=f"conmon gave no answer: {error}")
    finally:
        transport.close()


def _plain(output: str) -> str:
    """runc's message without its log decoration."""
    for marker in ('level=error msg="', "msg="):
        if marker in output:
            output = output.rpartition(marker)[2].rstrip('"')
    return output.replace('\\"', '"')


def reopen_logs(bundle: Path) -> None:
    """Tell a container's monitor to go on in a fresh log file."""
    with suppress(OSError):
        handle = os.open(bundle / "ctl", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(handle, _REOPEN_LOGS.encode())
        finally:
            os.close(handle)
