"""The few system calls and commands of the machine that this package needs.

In: paths and argument lists. Out: effects, or one of `errors` with what the machine said.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kube_local.node.errors import CommandFailed, MountFailed

MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 4096, 16384, 1 << 19
_MNT_DETACH = 2
_EINVAL, _ENOENT = 22, 2
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def message(self) -> str:
        """The last of what it printed, for people."""
        text = (self.err or self.out).decode("utf-8", "replace").strip()
        return text[-800:] or f"exit code {self.code}"


async def run(
    argv: Sequence[str], *, stdin: bytes | None = None, seconds: float = 30.0, env: Mapping[str, str] | None = None
) -> Done:
    """Run a command of the machine to its end."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(stdin)
    except TimeoutError as error:
        raise CommandFailed(f"{argv[0]} did not end within {seconds:g} s: {' '.join(argv[:6])}") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Done(process.returncode or 0, out, err)


def run_now(argv: Sequence[str], *, seconds: float = 30.0) -> Done:
    """The same without an event loop: for setting up and for cleaning up."""
    done = subprocess.run(  # noqa: S603 - argument lists of our own, no shell
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    code = _libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(options) or None)
    if code != 0:
        number = ctypes.get_errno()
        raise MountFailed(f"cannot mount {kind or source} on {target}: {os.strerror(number)}")


def unmount(target: Path) -> None:
    """umount(2), lazily; nothing happens when nothing is mounted there."""
    code = _libc.umount2(os.fsencode(target), _MNT_DETACH)
    number = ctypes.get_errno() if code != 0 else 0
    if number not in {0, _EINVAL, _ENOENT}:
        raise MountFailed(f"cannot unmount {target}: {os.strerror(number)}")


def tmpfs(target: Path, options: str = "") -> None:
    """A file system in memory."""
    target.mkdir(parents=True, exist_ok=True)
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)


def overlay(lower: Path, folder: Path) -> None:
    """A writable root, `folder/root`, over a root file system that stays as it is."""
    layers = folder / "layers"
    try:
        _overlay(lower, layers, folder / "root")
    except MountFailed:
        # The data folder may lie on an overlay itself, which cannot carry another one: take memory.
        tmpfs(layers)
        _overlay(lower, layers, folder / "root")


def _overlay(lower: Path, layers: Path, root: Path) -> None:
    for part in (layers / "upper", layers / "work", root):
        part.mkdir(parents=True, exist_ok=True)
    named = {"lowerdir": lower, "upperdir": layers / "upper", "workdir": layers / "work"}
    options = ",".join(f"{key}={_escaped(path)}" for key, path in named.items())
    try:
        # Nobody needs a container's layer after a crash of the machine, so it need not be synced.
        mount("overlay", root, "overlay", 0, f"{options},volatile")
    except MountFailed:
        mount("overlay", root, "overlay", 0, options)


def _escaped(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def mounts_under(folder: Path) -> list[Path]:
    """Every mount point in a folder, the deepest first."""
    points = (_unescaped(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines())
    within = [Path(point) for point in points if point == str(folder) or point.startswith(f"{folder}/")]
    return within[::-1]


def _unescaped(point: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, char)
    return point


def remove_tree(folder: Path) -> None:
    """Delete a folder, never through a mount."""
    for point in mounts_under(folder):
        unmount(point)
    shutil.rmtree(folder, ignore_errors=True)


def start_time(pid: int) -> str:
    """When a process started, in ticks since boot: with the pid it names one process. Empty when there is none."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] in {"Z", "X"} else after_name[19]


def is_alive(pid: int, started: str) -> bool:
    """Whether that very process still runs."""
    return bool(pid) and bool(started) and start_time(pid) == started


def kill(pid: int, started: str) -> None:
    """kill -9 of that very process, if it still runs."""
    if is_alive(pid, started):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def boot_id() -> str:
    """Changes with every boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def capabilities() -> frozenset[int]:
    """The numbers of the capabilities that this machine lets us hand on."""
    lines = Path("/proc/self/status").read_text().splitlines()
    bounding = int(next(line.split()[1] for line in lines if line.startswith("CapBnd:")), 16)
    return frozenset(number for number in range(64) if bounding >> number & 1)


async def ended(pid: int) -> None:
    """Wait for the end of a process that need not be our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def is_unified() -> bool:
    """Whether this machine has cgroup v2 alone."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def cgroup_roots() -> list[Path]:
    """Every hierarchy of this machine: one for each controller with v1, one in all with v2."""
    base = Path("/sys/fs/cgroup")
    if is_unified():
        return [base]
    return sorted(path for path in base.glob("*") if path.is_dir() and not path.is_symlink())


def controllers() -> frozenset[str]:
    """The cgroup controllers that can be used here."""
    if is_unified():
        return frozenset(Path("/sys/fs/cgroup/cgroup.controllers").read_text().split())
    return frozenset(name for path in cgroup_roots() for name in path.name.split(","))


def remove_cgroups(name: str) -> None:
    """Take a group and those below it out of every hierarchy; one that still has processes stays."""
    for root in cgroup_roots():
        if (root / name).is_dir():
            for parent, _, _ in os.walk(root / name, topdown=False):
                with suppress(OSError):
                    Path(parent).rmdir()
