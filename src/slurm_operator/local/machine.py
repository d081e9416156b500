"""What this machine must have for a local cluster, and a kubectl for it.

In: the cache folder and a function to report progress to. Out: nothing, or a sentence that says what to do. Called
by `cluster.py` before anything is made.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from slurm_operator.local.home import LocalError
from slurm_operator.local.image import apt
from slurm_operator.local.image.errors import ImageError
from slurm_operator.local.image.progress import Progress, Report

SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = {
    "runc": ("runc", "runs containers"),
    "conmon": ("conmon", "keeps containers and their logs while the node agent restarts"),
    "ip": ("iproute2", "makes the pods' networks"),
    "unshare": ("util-linux", "makes namespaces"),
}
MIN_FREE_BYTES = 500_000_000
# From here on kubectl speaks websockets, as this API server does.
MIN_KUBECTL_VERSION = (1, 31)
KUBECTL_SUITES = ("sid", "forky", "trixie")
KUBECTL_PACKAGE = "kubectl"


def require(data: Path, progress: Report) -> None:
    """Everything that running pods needs; installs what is missing, and says so."""
    require_root()
    _require_room(data)
    missing = [name for name in PROGRAMS if which(name) is None]
    if not missing:
        return
    packages = [PROGRAMS[name][0] for name in missing]
    why = ", ".join(f"{name} {PROGRAMS[name][1]}" for name in missing)
    if shutil.which("apt-get") is None:
        raise LocalError(
            f"{' and '.join(missing)} are not on this machine and there is no apt-get: install them ({why})"
        )
    progress(Progress(f"install {' '.join(packages)} on this machine: {why}"))
    try:
        apt.install_on_host(*packages)
    except ImageError as error:
        raise LocalError(str(error)) from error


def require_root() -> None:
    """Namespaces, mounts and a bridge are root's."""
    if sys.platform != "linux":
        raise LocalError("a local cluster runs pods in Linux namespaces: use a Linux machine, or a virtual one")
    if os.geteuid() != 0:
        raise LocalError("a local cluster makes network namespaces and mounts: run it as root, such as with sudo")


def _require_room(data: Path) -> None:
    there = next(folder for folder in (data, *data.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free < MIN_FREE_BYTES:
        raise LocalError(
            f"{free / 1e6:.0f} MB are free in {there}, and a cluster needs {MIN_FREE_BYTES / 1e6:.0f} MB: "
            "free some space, or choose another disk with --data"
        )


def which(name: str) -> str | None:
    """A program, also where only root looks."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SEARCHED}")


def free_port(wanted: int, *, must: bool) -> int:
    """The wanted port of loopback if it is free; another one, unless it must be that one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                if must:
                    raise LocalError(
                        f"port {port} of 127.0.0.1 is taken ({error.strerror}): give another --port, or 0 for any"
                    ) from error
                continue
            return int(probe.getsockname()[1])
    raise LocalError("no port of 127.0.0.1 is free")


# --- kubectl ----------------------------------------------------------------------------------------------------------


def kubectl(cache: Path, progress: Report) -> str:
    """A kubectl that this API server can speak with: of the machine, of the cache, or fetched from Debian."""
    cached = sorted(cache.glob("kubectl-*"), reverse=True)
    for path in (which("kubectl"), *(str(each) for each in cached)):
        if path and os.access(path, os.X_OK) and version_of(path) >= MIN_KUBECTL_VERSION:
            return path
    return fetch_kubectl(cache, progress)


def version_of(path: str) -> tuple[int, ...]:
    """The version that a kubectl says of itself; nothing when it does not run here."""
    try:
        done = subprocess.run(  # noqa: S603 - found by name
            [path, "version", "--client"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"v(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else ()


def fetch_kubectl(cache: Path, progress: Report) -> str:
    """kubectl out of Debian's package, of the newest suite whose kubectl runs here."""
    why = ["there is no apt-get"] if shutil.which("apt-get") is None else []
    for name in () if why else KUBECTL_SUITES:
        progress(Progress(f"fetch kubectl from Debian {name}: this machine has none that is new enough"))
        suite = apt.Suite(name, cache / "apt" / name, apt.host_mirror())
        try:
            suite.prepare()
            suite.update()
            path = _unpacked(suite, cache)
        except (OSError, subprocess.SubprocessError) as error:
            why.append(f"{name}: {error}")
            continue
        if version_of(str(path)) >= MIN_KUBECTL_VERSION:
            return str(path)
        why.append(f"{name}: its kubectl does not run here")
        path.unlink(missing_ok=True)
    needed = ".".join(map(str, MIN_KUBECTL_VERSION))
    raise LocalError(f"no kubectl {needed} or newer is available ({'; '.join(why)}): put one on the PATH")


def _unpacked(suite: apt.Suite, cache: Path) -> Path:
    environment = {**os.environ, "APT_CONFIG": str(suite.folder / "apt.conf"), "LC_ALL": "C.UTF-8"}
    target = cache / f"kubectl-{suite.name}"
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        for command in (["apt-get", "-q", "download", KUBECTL_PACKAGE], ["sh", "-c", "dpkg-deb -x ./*.deb out"]):
            subprocess.run(  # noqa: S603 - fixed commands
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True
            )
        (Path(folder) / "out" / "usr" / "bin" / "kubectl").replace(target)
    return target
