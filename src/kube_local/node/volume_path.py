"""A path within a volume, found by descriptor: a container that writes to the volume cannot swap a link in between.

In: the volume's folder and a `subPath`. Out: a descriptor of what is there, which `volumes` mounts by its number. Every
step is opened below the one before it and without following links; links are then followed here, within the volume.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kube_local.node.errors import MountFailed
from kube_local.node.paths import inner_path

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40


@contextmanager
def opened(root: Path, inner: str, *, make: bool) -> Iterator[int]:
    """A descriptor of a path within a folder; with `make`, missing folders are made with the rights of that folder."""
    inner_path(inner, "subPath")
    walk = _Walk(os.open(root, os.O_PATH | os.O_CLOEXEC), inner, make)
    try:
        yield walk.to_end()
    except OSError as error:
        raise MountFailed(f"subPath {inner!r} cannot be opened: {error.strerror}") from error
    finally:
        walk.close()


class _Walk:
    """The folders from the volume down to where the walk is; going up goes back in this list, never to the kernel."""

    def __init__(self, root: int, inner: str, make: bool) -> None:
        self._held = [root]
        self._left = deque(inner.split("/"))
        self._inner, self._make = inner, make
        self._links = 0

    def to_end(self) -> int:
        while self._left:
            part = self._left.popleft()
            if part == "..":
                self._up()
            elif part not in {"", "."}:
                self._down(part)
        return self._held[-1]

    def close(self) -> None:
        for each in self._held:
            os.close(each)
        self._held.clear()

    def _up(self) -> None:
        if len(self._held) == 1:
            raise MountFailed(f"subPath {self._inner!r} leads out of its volume")
        os.close(self._held.pop())

    def _down(self, name: str) -> None:
        found = self._open(name)
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            self._held.append(found)
            return
        try:
            self._follow(os.readlink("", dir_fd=found))
        finally:
            os.close(found)

    def _follow(self, target: str) -> None:
        self._links += 1
        if target.startswith("/") or self._links > _MAX_LINKS:
            raise MountFailed(f"subPath {self._inner!r} leads out of its volume")
        self._left.extendleft(reversed(target.split("/")))

    def _open(self, name: str) -> int:
        try:
            return os.open(name, _STEP, dir_fd=self._held[-1])
        except FileNotFoundError:
            if not self._make:
                raise MountFailed(f"subPath {self._inner!r} is not in its volume") from None
        # Whatever is there when it exists by now is looked at like anything else.
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._held[-1])
            made = os.open(name, _STEP | os.O_DIRECTORY, dir_fd=self._held[-1])
            like(made, os.fstat(self._held[0]))
            return made
        return os.open(name, _STEP, dir_fd=self._held[-1])


def like(held: int, wanted: os.stat_result) -> None:
    """Give what a descriptor names an owner and rights."""
    os.chown(_named(held), wanted.st_uid, wanted.st_gid)
    _named(held).chmod(wanted.st_mode & 0o7777)


def _named(held: int) -> Path:
    """What a descriptor names, whatever stands at its path by now; O_PATH descriptors take no fchmod."""
    return Path(f"/proc/self/fd/{held}")


def give(name: str, group: int, bits: int, folder: int | None = None) -> None:
    """Give something in a held folder to a group, with these bits; a link is given, never what it leads to."""
    held = os.open(name, _STEP, dir_fd=folder)
    try:
        mode = os.fstat(held).st_mode
        if stat.S_ISLNK(mode):
            os.chown(name, -1, group, dir_fd=folder, follow_symlinks=False)
            return
        os.chown(_named(held), -1, group)
        _named(held).chmod(mode & 0o7777 | bits)
    finally:
        os.close(held)
