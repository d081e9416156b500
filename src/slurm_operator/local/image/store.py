"""The cache of images: which there are, and how one gets in as a whole or not at all.

In: a cache folder. Out: `Image`s. Called by `build.py` and `rules.py`.
A root file system lies at images/slurm-<version>-<digest>, its description beside it with the ending .json. The
description is written last, so what has one is complete.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from slurm_operator.local.image.errors import CannotBuild
from slurm_operator.local.image.recipe import recipe_hash

UNFINISHED = ".building"


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A root file system that never changes again."""

    path: Path
    version: str
    digest: str
    recipe: str
    suite: str
    packages: dict[str, str]
    bytes: int
    built: str
    seconds: float

    @property
    def current(self) -> bool:
        """Whether this program would build it the same way."""
        return self.recipe == recipe_hash(self.version)


def default_cache() -> Path:
    """Where images are kept: SLURM_OPERATOR_CACHE, or the user's cache folder."""
    chosen = os.environ.get("SLURM_OPERATOR_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "slurm-operator"


def images_folder(cache: Path) -> Path:
    """Where the root file systems lie."""
    return cache / "images"


def list_images(cache: Path) -> list[Image]:
    """Every complete image, the newest first."""
    found = [_read(path) for path in images_folder(cache).glob("*.json")]
    return sorted((image for image in found if image is not None), key=lambda image: image.built, reverse=True)


def find(version: str, cache: Path) -> Image | None:
    """The newest image of that version that this program would build the same way today."""
    return next((image for image in list_images(cache) if image.version == version and image.current), None)


def put(image: Image, unfinished: Path) -> Image:
    """Take a finished root file system in."""
    if image.path.exists():
        # Left by a build that ended between the two steps below.
        remove_tree(image.path)
    unfinished.rename(image.path)
    temporary = _description(image.path).with_suffix(".new")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(image, enc_hook=str), indent=1))
    temporary.rename(_description(image.path))
    return image


def remove_tree(folder: Path) -> None:
    """Delete a root file system; a build that was cut off may have left mounts inside: never delete through them."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in sorted((each for each in mounted if each.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=True, timeout=30)  # noqa: S603, S607 - root's own PATH
    if folder.exists():
        shutil.rmtree(folder)


@contextmanager
def lock(cache: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """One build at a time; the next says that it waits, and then may find its work done. Gives the file's number."""
    path = images_folder(cache) / "build.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    except OSError as error:
        raise CannotBuild(f"the cache {cache} cannot be written: {error.strerror}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle.fileno()


def _description(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _read(path: Path) -> Image | None:
    try:
        image = msgspec.json.decode(path.read_bytes(), type=Image, dec_hook=lambda _, text: Path(text))
    except (OSError, msgspec.DecodeError):
        return None
    # The cache may have been moved; the description stays beside its file system.
    image = msgspec.structs.replace(image, path=path.with_suffix(""))
    return image if image.path.is_dir() else None
