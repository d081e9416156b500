"""Debian's packages for another suite, through apt with settings of its own.

In: a suite and the machine's apt settings, from which mirror and proxies are taken. Out: which version the suite has,
which packages an image needs and how big they are, and those packages on disk. Called by `build.py`.
What was downloaded stays in the cache, also in part, so the next try goes on where this one ended.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_operator.local.image import download as http
from slurm_operator.local.image.errors import BuildInterrupted, CannotBuild
from slurm_operator.local.image.progress import Progress, Report

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "SLURM_OPERATOR_DEBIAN_MIRROR"

_URI = re.compile(
    r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+)(?: (?P<algorithm>\w+):(?P<digest>[0-9a-f]+))?", re.MULTILINE
)
_UNPACKED = re.compile(r"After this operation, ([\d.,]+) ([kMG]?B) of additional disk space")
_CANDIDATE = re.compile(r"Candidate: (?:\d+:)?(\S+)")
Share = Callable[[float], None]
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, slots=True)
class Download:
    """Everything that an image needs from the mirror."""

    names: tuple[str, ...]
    items: tuple[http.Item, ...]
    unpacked: int

    @property
    def files(self) -> tuple[str, ...]:
        """What they are called on disk."""
        return tuple(item.name for item in self.items)

    @property
    def bytes(self) -> int:
        """How much that is to download."""
        return sum(item.size for item in self.items)


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite of Debian, with its lists and archives in a folder of the cache."""

    name: str
    folder: Path
    mirror: str

    @property
    def source(self) -> str:
        """The line of sources.list."""
        return f"deb [signed-by={KEYRING}] {self.mirror} {self.name} main"

    @property
    def lists(self) -> Path:
        """Where apt keeps what the suite has."""
        return self.folder / "lists"

    @property
    def archives(self) -> Path:
        """Where apt keeps the packages."""
        return self.folder / "archives"

    def prepare(self) -> None:
        """Write apt's settings."""
        for folder in (self.lists / "partial", self.archives / "partial", self.folder / "none"):
            folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        (self.folder / "sources.list").write_text(self.source + "\n")
        (self.folder / "apt.conf").write_text(settings(self.folder) + host_settings())

    def update(self) -> None:
        """Fetch what the suite has."""
        done = self._run("apt-get", "-q", "update", "--error-on=any")
        if done.returncode != 0:
            raise BuildInterrupted(f"the mirror {self.mirror} does not give Debian {self.name}: {reason(done.stderr)}")

    def candidate(self, package: str) -> str | None:
        """The version that the suite has."""
        found = _CANDIDATE.search(self._run("apt-cache", "policy", package).stdout)
        return found[1] if found and found[1] != "(none)" else None

    def lacks(self, packages: tuple[str, ...]) -> tuple[str, ...]:
        """Those packages that the suite does not have."""
        output = self._run("apt-cache", "policy", *packages).stdout
        return tuple(name for name in packages if f"\n{name}:\n" not in f"\n{output}")

    def plan(self, packages: tuple[str, ...]) -> Download:
        """What these packages need on an empty machine."""
        wanted = ("?essential", "apt", *packages)
        # Without the archives: apt names only what it lacks.
        nothing = f"Dir::Cache::archives={self.folder}/none"
        strong = "Acquire::ForceHash=SHA256"
        done = self._run("apt-get", "-y", "-q", "-o", nothing, "-o", strong, "--print-uris", "install", *wanted)
        if done.returncode != 0:
            raise CannotBuild(f"Debian {self.name} cannot install these packages: {reason(done.stderr)}")
        return replace(parse_plan(done.stdout), names=wanted)

    def fetch(self, download: Download, report: Report) -> None:
        """Download what is not there yet; files that are no longer wanted go."""
        for path in self.archives.glob("*.deb"):
            if path.name not in download.files:
                path.unlink()
        rest = [item for item in download.items if not self._has(item)]
        there = download.bytes - sum(item.size for item in rest)
        step = f"download {len(download.files)} packages of Debian {self.name}"

        def add_progress(more: float) -> None:
            report(Progress(step, there + more, download.bytes, "bytes"))

        add_progress(0)
        try:
            http.fetch(rest, self.archives, add_progress, proxy=http.proxy_of(self.mirror, self._settings()))
        except http.DownloadFailed:
            # apt knows more ways than one: other schemes, passwords, a proxy that is found by a program.
            self._fetch_by_apt(download, lambda share: add_progress(share * (download.bytes - there)))
        except OSError as error:
            raise BuildInterrupted(
                f"{self.archives} cannot be written ({error.strerror}); free space and run it again"
            ) from error
        add_progress(download.bytes - there)

    def _has(self, item: http.Item) -> bool:
        """Whether a package is there as it should be; one that a crash or a bad disk damaged is downloaded again."""
        path = self.archives / item.name
        if item.can_be_fetched and path.exists() and not item.is_at(path):
            path.unlink()
        return path.exists()

    def _settings(self) -> str:
        return (self.folder / "apt.conf").read_text()

    def _fetch_by_apt(self, download: Download, share: Share) -> None:
        code, output = self._download(download.names, share)
        if code != 0:
            why = reason(output) if code > 0 else f"apt-get was killed by signal {-code}"
            raise BuildInterrupted(
                f"downloading from {self.mirror} ended early ({why}); the downloads are kept: run it again to continue"
            )

    def _download(self, names: tuple[str, ...], share: Share) -> tuple[int, str]:
        read, write = os.pipe()
        try:
            process = subprocess.Popen(  # noqa: S603
                ["apt-get", "-y", "-q", "-o", f"APT::Status-Fd={write}", "--download-only", "install", *names],  # noqa: S607
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(write,),
            )
        finally:
            os.close(write)
        reader = threading.Thread(target=_read_status, args=(read, share))
        reader.start()
        _, output = process.communicate()
        reader.join()
        return process.returncode, output.decode(errors="replace")

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603
            command,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C.UTF-8"}


def _read_status(pipe: int, share: Share) -> None:
    """Lines such as dlstatus:3:41.5:Retrieving file 3 of 12."""
    with os.fdopen(pipe, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            kind, _, rest = line.partition(":")
            percent = rest.split(":")[1:2]
            if kind == "dlstatus" and percent:
                share(float(percent[0]) / 100)


def parse_plan(output: str) -> Download:
    """What apt-get --print-uris says."""
    items = tuple(
        http.Item(
            uri=match["uri"],
            name=match["file"],
            size=int(match["size"]),
            algorithm=(match["algorithm"] or "").lower(),
            digest=match["digest"] or "",
        )
        for match in _URI.finditer(output)
    )
    unpacked = _UNPACKED.search(output)
    size = float(unpacked[1].replace(",", "")) * _UNITS[unpacked[2]] if unpacked else 0.0
    return Download(names=(), items=items, unpacked=int(size))


def settings(folder: Path) -> str:
    """The apt.conf that keeps this apt away from the machine's own packages."""
    values = {
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": f"{folder}/none",
        "Dir::Etc::sourcelist": f"{folder}/sources.list",
        "Dir::Etc::sourceparts": f"{folder}/none",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": f"{folder}/none",
        "Dir::State": str(folder),
        "Dir::State::lists": f"{folder}/lists",
        "Dir::State::status": f"{folder}/status",
        "Dir::Cache": str(folder),
        "Dir::Cache::archives": f"{folder}/archives",
        "Dir::Log": str(folder),
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
        "APT::Keep-Downloaded-Packages": "true",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Retries": "3",
    }
    return "".join(f'{key} "{value}";\n' for key, value in values.items())


def host_settings() -> str:
    """The machine's proxies and certificates."""
    output = _ask("apt-config", "dump")
    kept = re.compile(r"^Acquire::(https?|ftp)::\S+ ", re.IGNORECASE)
    return "".join(line + "\n" for line in output.splitlines() if kept.match(line) and not line.endswith(' "";'))


def host_mirror() -> str:
    """The Debian mirror of this machine, out of its own apt settings or a variable."""
    chosen = os.environ.get(MIRROR_VARIABLE)
    if chosen:
        return chosen.rstrip("/")
    found = _debian_sources()
    if not found:
        # A new machine has sources but no lists yet, and only the lists say which of them is Debian's.
        _ask("apt-get", "-qq", "update")
        found = _debian_sources()
    if not found:
        raise CannotBuild(f"apt on this machine has no Debian source; name a Debian mirror in {MIRROR_VARIABLE}")
    return found[0]


def _debian_sources() -> list[str]:
    output = _ask("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian").split()
    return [site.rstrip("/") for site in output if not site.rstrip("/").endswith("-security")]


def install_on_host(*packages: str) -> None:
    """Install Debian packages on this machine."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    for command in (("update",), ("install", "--no-install-recommends", *packages)):
        done = subprocess.run(  # noqa: S603
            ["apt-get", "-qq", "-y", *command],  # noqa: S607
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        # A broken source of someone else's packages must not stop this: only the installation counts.
        if command[0] == "install" and done.returncode != 0:
            raise CannotBuild(
                f"apt-get could not install {' '.join(packages)} ({reason(done.stderr)}); install it by hand"
            )


def reason(output: str) -> str:
    """The first error that apt names, as one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "Err:"))]
    return (errors or lines or ["no reason given"])[0].removeprefix("E:").strip()


def _ask(*command: str) -> str:
    return subprocess.run(  # noqa: S603
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    ).stdout
