"""Root file systems with Debian's Slurm, one per version, built once and kept outside the tree.

In: a Slurm version ("24.11" or "26.05") and the machine's own apt settings, from which the mirror is taken.
Out: the path of a root file system that is complete and never changed again. Called by `cluster.py`.
The folder's name carries a hash of the recipe, so that a changed recipe builds a new one beside the old.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUITES = {"24.11": "trixie", "26.05": "sid"}
PACKAGES = (
    "slurmctld",
    "slurmd",
    "slurmrestd",
    "slurm-client",
    "slurm-wlm-jwt-plugin",
    "slurmdbd",
    "slurm-wlm-mysql-plugin",
    "mariadb-server",
    "mount",
    "iproute2",
    "procps",
)
APT_OPTIONS = ('Apt::Install-Recommends "false"', 'Acquire::Check-Valid-Until "false"')
LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
HOOKS = (
    'chroot "$1" useradd -u 1000 -s /bin/bash alice; chroot "$1" useradd -r restd',
    # A name look-up that fails is retried for ten seconds by Debian's Slurm: files only, no name server.
    (
        'printf "127.0.0.1 localhost\\n" > "$1"/etc/hosts; : > "$1"/etc/resolv.conf;'
        ' sed -i "s/^hosts:.*/hosts: files/" "$1"/etc/nsswitch.conf; : > "$1"/etc/slurm/plugstack.conf'
    ),
    'rm -rf "$1"/etc/apt/sources.list* "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*',
)
BUILD_SECONDS = 900


class CannotProvision(Exception):
    """This machine cannot have a real Slurm; the text says what is missing."""


def cache_folder() -> Path:
    """Where root file systems are kept: SLURM_OPERATOR_CACHE, or the user's cache folder."""
    chosen = os.environ.get("SLURM_OPERATOR_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "slurm-operator"


def provide(version: str) -> Path:
    """The root file system of that version, built now if it is not there yet."""
    target = cache_folder() / "rootfs" / f"slurm-{version}-{recipe_hash(version)}"
    if target.is_dir():
        return target
    _require_builder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_suffix(target.suffix + ".lock")):
        if not target.is_dir():
            _build(version, target)
    return target


def recipe_hash(version: str) -> str:
    """Changes whenever the recipe of that version does."""
    recipe = (SUITES[version], PACKAGES, APT_OPTIONS, LEFT_OUT, HOOKS)
    return hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]


def _build(version: str, target: Path) -> None:
    unfinished = target.with_name(target.name + ".building")
    _remove(unfinished)
    log = target.with_name(target.name + ".log")
    if (code := _run_logged(_command(SUITES[version], unfinished, _mirror()), log)) != 0:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        _remove(unfinished)
        raise CannotProvision(f"mmdebstrap failed ({code}) for Slurm {version}: {last}; see {log}")
    _check_version(unfinished, version)
    unfinished.rename(target)


def _run_logged(command: list[str], log: Path) -> int:
    with log.open("wb") as out:
        try:
            return subprocess.run(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=BUILD_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            out.write(f"not done within {BUILD_SECONDS} s\n".encode())
            return -1


def _command(suite: str, target: Path, mirror: str) -> list[str]:
    return [
        "nice",
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=apt",
        *(f"--aptopt={option}" for option in APT_OPTIONS),
        *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
        *(f"--customize-hook={hook}" for hook in HOOKS),
        f"--include={','.join(PACKAGES)}",
        suite,
        str(target),
        mirror,
    ]


def _check_version(root: Path, version: str) -> None:
    said = subprocess.run(
        ["chroot", str(root), "slurmctld", "-V"], capture_output=True, text=True, timeout=30, check=False
    ).stdout
    if version not in said:
        _remove(root)
        raise CannotProvision(f"Debian {SUITES[version]} has {said.strip() or 'no Slurm'}, not {version}")


def _mirror() -> str:
    """The first Debian mirror that this machine's apt uses."""
    said = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout.split()
    if not said:
        raise CannotProvision("apt knows no Debian mirror: run apt-get update with a Debian source first")
    return said[0]


def _require_builder() -> None:
    if os.geteuid() != 0:
        raise CannotProvision("building a root file system needs root")
    if shutil.which("apt-get") is None:
        raise CannotProvision("this machine has no apt: Slurm is taken from Debian's packages")
    if shutil.which("mmdebstrap") is None:
        _apt("update")
        _apt("install", "--no-install-recommends", "mmdebstrap")
    if shutil.which("mmdebstrap") is None:
        raise CannotProvision("mmdebstrap is missing and could not be installed with apt-get")


def _apt(*arguments: str) -> None:
    subprocess.run(
        ["apt-get", "-qq", "-y", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=False,
    )


def _remove(folder: Path) -> None:
    """A build that was cut off may have left mounts inside: never delete through them."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in sorted((m for m in mounted if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=True, timeout=30)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
