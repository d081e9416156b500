"""Builds an image: a Debian root file system with one version of Slurm and the entry points of its daemons.

In: a Slurm version, a cache folder, and a function to report progress to. Out: an `Image`. Called by
`slurm-operator local` and by tests. An image that is there and whose recipe has not changed is used without asking the
mirror. A build that ends early leaves its downloads and nothing else that anyone would take for an image.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import TextIO

from slurm_operator.local.image import apt, recipe, store
from slurm_operator.local.image.apt import Download, Suite
from slurm_operator.local.image.errors import BuildInterrupted, CannotBuild, UnknownVersion
from slurm_operator.local.image.progress import Progress, Report
from slurm_operator.local.image.store import Image

_VERSION = re.compile(r"\d{2}\.\d{2}")
# A build works with this much more than it leaves behind.
ROOM_FACTOR = 1.2
# Less than any image needs: said before the mirror is asked, whose lists would not fit either.
MIN_FREE_BYTES = 600_000_000


def build(version: str, cache: Path, progress: Report, *, refresh: bool = False) -> Image:
    """The image of that version; `refresh` asks the mirror whether newer packages make a newer image."""
    if not _VERSION.fullmatch(version):
        raise UnknownVersion(f"{version!r} is not a Slurm version: give two numbers, such as {recipe.DEFAULT_VERSION}")
    found = store.find(version, cache)
    if found and not refresh:
        return found
    require_host(progress)
    with store.lock(cache, lambda: progress(Progress("wait for another build, which is under way"))) as held:
        # Someone else may have built it while this one waited.
        found = store.find(version, cache)
        return found if found and not refresh else _build(version, cache, progress, held)


def require_host(progress: Report) -> None:
    """Everything that building needs on this machine; installs what is missing, and says so."""
    if os.geteuid() != 0:
        raise CannotBuild("building an image needs root: run it with sudo")
    if shutil.which("apt-get") is None:
        raise CannotBuild("building an image needs apt-get: it takes Slurm from Debian's packages (Debian or Ubuntu)")
    missing = [] if shutil.which("mmdebstrap") else ["mmdebstrap"]
    missing += [] if apt.KEYRING.exists() else ["debian-archive-keyring"]
    if missing:
        progress(Progress(f"install {' and '.join(missing)} on this machine: they make Debian root file systems"))
        apt.install_on_host(*missing)


def _build(version: str, cache: Path, progress: Report, held: int) -> Image:
    start = time.monotonic()
    _require_free(MIN_FREE_BYTES, cache)
    suite, packages, download = _choose(_suites(version, cache, progress), progress)
    require_room(download, cache)
    suite.fetch(download, progress)
    unfinished = store.images_folder(cache) / f"slurm-{version}{store.UNFINISHED}"
    store.remove_tree(unfinished)
    try:
        _bootstrap(suite, packages, download, unfinished, progress, held)
        image = _describe(version, suite, unfinished, start)
        same = next((each for each in store.list_images(cache) if each.path == image.path), None)
        return same or store.put(image, unfinished)
    finally:
        store.remove_tree(unfinished)


def _suites(version: str, cache: Path, progress: Report) -> list[tuple[Suite, tuple[str, ...]]]:
    """The suites with that Slurm and what each lacks; no further than one that lacks nothing."""
    mirror, had = apt.host_mirror(), []
    found: list[tuple[Suite, tuple[str, ...]]] = []
    for name in recipe.suites(version):
        suite = Suite(name, cache / "apt" / name, mirror)
        progress(Progress(f"ask {mirror} for Slurm {version} in Debian {name}"))
        suite.prepare()
        suite.update()
        candidate = suite.candidate("slurmctld")
        had.append(f"{name} has {candidate or 'none'}")
        if candidate and candidate.startswith(f"{version}."):
            found.append((suite, suite.lacks(recipe.OPTIONAL)))
            if not found[-1][1]:
                break
    if not found:
        raise UnknownVersion(f"Debian has no Slurm {version} on {mirror}: {', '.join(had)}")
    return found


def _choose(suites: list[tuple[Suite, tuple[str, ...]]], progress: Report) -> tuple[Suite, tuple[str, ...], Download]:
    """The suite that lacks the fewest packages and can install the others."""
    refused: list[str] = []
    for suite, lacking in sorted(suites, key=lambda each: len(each[1])):
        packages = (*recipe.PACKAGES, *(name for name in recipe.OPTIONAL if name not in lacking))
        try:
            download = suite.plan(packages)
        except CannotBuild as error:
            refused.append(str(error))
            continue
        if lacking:
            progress(Progress(f"go on without {', '.join(lacking)}, which Debian {suite.name} lacks"))
        return suite, packages, download
    raise CannotBuild("; ".join(refused))


def require_room(download: Download, cache: Path) -> None:
    """Refuse before anything is written when the disk has no room."""
    _require_free(int((download.bytes + download.unpacked) * ROOM_FACTOR), cache)


def _require_free(needed: int, cache: Path) -> None:
    free = shutil.disk_usage(cache).free
    if free < needed:
        raise CannotBuild(
            f"not enough disk space: an image needs {needed / 1e6:.0f} MB in {cache} and {free / 1e6:.0f} MB are free; "
            "free some space, or choose another disk with SLURM_OPERATOR_CACHE"
        )


def _bootstrap(
    suite: Suite, packages: tuple[str, ...], download: Download, target: Path, progress: Report, held: int
) -> None:
    target.mkdir(parents=True)
    log = target.with_suffix(".log")
    total = len(download.files)
    step = f"install {total} packages"
    with _hooks(target) as hooks, log.open("w") as out:
        process = subprocess.Popen(  # noqa: S603
            command(suite, packages, target, hooks),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            # The lock lives as long as anything that writes here, also when this process is killed.
            pass_fds=(held,),
        )
        with process:
            _follow(process.stdout or (), out, lambda done: progress(Progress(step, done, total, "packages")), total)
    if process.returncode != 0:
        raise BuildInterrupted(failure(process.returncode, log))
    progress(Progress(step, total, total, "packages"))
    log.unlink()


def _follow(lines: Iterable[str], log: TextIO, report: Callable[[float], None], total: int) -> None:
    """Keep what dpkg prints, and tell how far it is: each package is unpacked and then set up."""
    half_steps = 0
    for line in lines:
        log.write(line)
        log.flush()
        if line.startswith(("Unpacking ", "Setting up ")):
            half_steps += 1
            # One short of the total: the end is only reported when it is reached.
            report(min(half_steps // 2, total - 1))


def failure(code: int, log: Path) -> str:
    """Why mmdebstrap failed, and where it says more."""
    if code < 0:
        return f"mmdebstrap was killed (signal {-code}); the downloads are kept, run it again"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "dpkg: error", "Err:"))]
    return f"mmdebstrap failed ({(errors or lines or ['no reason given'])[0]}); see {log}"


@contextmanager
def _hooks(target: Path) -> Iterator[dict[str, str]]:
    """The shell commands that mmdebstrap calls, each with the root file system as $1."""
    users = target.with_suffix(".users.sh")
    finish = target.with_suffix(".finish.sh")
    users.write_text(recipe.users_script())
    finish.write_text(recipe.FINISH)
    try:
        with as_file(files(__package__).joinpath("files")) as folder:
            yield {"users": f'sh {users} "$1"', "finish": f"FILES='{folder}' sh {finish} \"$1\""}
    finally:
        users.unlink(missing_ok=True)
        finish.unlink(missing_ok=True)


def command(suite: Suite, packages: tuple[str, ...], target: Path, hooks: dict[str, str]) -> list[str]:
    """The command line of mmdebstrap; packages and lists that are there are linked in, not fetched again."""
    seed = (
        'mkdir -p "$1/var/cache/apt/archives/partial" "$1/var/lib/apt/lists/partial"'
        f' && cp -al {suite.archives}/*.deb "$1/var/cache/apt/archives/"'
        f' && cp -a {suite.lists}/*_* "$1/var/lib/apt/lists/"'
    )
    return [
        "mmdebstrap",
        "--verbose",
        "--mode=root",
        "--variant=apt",
        "--format=directory",
        "--skip=update",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=Acquire::Languages "none"',
        *(f"--aptopt={line.rstrip(';')}" for line in apt.host_settings().splitlines()),
        *(f"--dpkgopt={option}" for option in recipe.DPKG_OPTIONS),
        f"--setup-hook={seed}",
        f"--essential-hook={hooks['users']}",
        f"--customize-hook={hooks['finish']}",
        f"--include={','.join(packages)}",
        suite.name,
        str(target),
        suite.source,
    ]


def _describe(version: str, suite: Suite, root: Path, start: float) -> Image:
    packages = _packages(root)
    chosen = recipe.recipe_hash(version)
    digest = recipe.digest(chosen, packages)
    return Image(
        path=root.with_name(f"slurm-{version}-{digest[:12]}"),
        version=version,
        digest=f"sha256:{digest}",
        recipe=chosen,
        suite=suite.name,
        packages=packages,
        bytes=_size(root),
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - start, 1),
    )


def _packages(root: Path) -> dict[str, str]:
    result = subprocess.run(  # noqa: S603
        ["dpkg-query", f"--root={root}", "--show", "--showformat", "${Package}\t${Version}\n"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(sorted(line.split("\t", 1) for line in result.splitlines()))


def _size(root: Path) -> int:
    """Bytes on disk; a file with several names counts once."""
    seen: dict[int, int] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            found = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - ten thousand times
            seen[found.st_ino] = found.st_blocks * 512
    return sum(seen.values())
