"""Builds the real Kubernetes control plane that the tests run on, once, outside the tree.

In: `modules/go.mod` and `go.sum` (which pin every Go module), a Go toolchain, the machine's own
Debian mirror. Out: `kube-apiserver`, `kube-controller-manager`, `kube-scheduler` and `etcd` in
`~/.cache/slurm-operator/kube-tools/<version>/` (`SLURM_OPERATOR_CACHE` moves it). `make kube-tools`
runs this file; `cluster.py` and `conftest.py` ask `missing_tools` and `tool`.
"""

from __future__ import annotations

import fcntl
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
GO_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROGRAMS = (*GO_PROGRAMS, "etcd")
ETCD_AT_LEAST = (3, 5, 13)  # older ones cannot confirm progress, so no consistent lists from the cache
ETCD_SUITES = ("trixie", "sid")
DEBIAN_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class BuildError(Exception):
    """The tools cannot be had on this machine; the text says what is missing."""


def kube_version() -> str:
    """The Kubernetes version that modules/go.mod pins, as `1.36.4`."""
    found = re.search(r"^require k8s\.io/kubernetes v(\S+)", (MODULES / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{MODULES / 'go.mod'} has no line 'require k8s.io/kubernetes v…'")
    return found[1]


def tools_folder() -> Path:
    """Where the programs of the pinned version live."""
    cache = os.environ.get("SLURM_OPERATOR_CACHE") or Path.home() / ".cache" / "slurm-operator"
    return Path(cache) / "kube-tools" / kube_version()


def tool(name: str) -> Path:
    """The path of one built program, there or not."""
    return tools_folder() / name


def missing_tools() -> list[str]:
    """The names of the programs that are not built yet."""
    return [name for name in PROGRAMS if not os.access(tool(name), os.X_OK)]


def say(text: str) -> None:
    """Progress for the person who waits."""
    print(f"kube-tools: {text}", flush=True)


@contextmanager
def building_lock(folder: Path) -> Iterator[None]:
    """One build at a time, whoever asks; the others wait and then find the work done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is running, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go_environment() -> dict[str, str]:
    """Our go.sum pins every module, so the checksum database adds nothing and need not be reachable."""
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOSUMDB": "off", "GOWORK": "off"}


def go_output(go: str, *arguments: str) -> str:
    """Run a short go command in the pinned module; its own words become the error."""
    done = subprocess.run(
        [go, *arguments], cwd=MODULES, env=go_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"'go {' '.join(arguments[:2])} …' failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def version_flags(version: str) -> str:
    """Linker flags that stamp the version, as the project's own release builds do."""
    major, minor, _ = version.split(".", 2)
    stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{k}={v}" for k, v in stamps.items())


def build_go_programs(names: list[str], into: Path) -> None:
    """Compile the named programs; Go's build cache makes an interrupted build go on where it was."""
    go = shutil.which("go")
    if go is None:
        raise BuildError("no 'go' on PATH: install the Go toolchain that modules/go.mod names")
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in names]
    say("downloading modules")
    total = len(go_output(go, "list", "-deps", *packages).splitlines())
    command = [go, "build", "-v", "-p", "2", "-trimpath", "-ldflags", version_flags(kube_version())]
    say(f"compiling {', '.join(names)} (about 13 CPU minutes from nothing)")
    with subprocess.Popen(
        [*command, "-o", f"{into}/", *packages],
        cwd=MODULES,
        env=go_environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as build:
        last_lines = show_progress(build, total)
    if build.returncode:
        raise BuildError("go build failed:\n" + "\n".join(last_lines))


def show_progress(build: subprocess.Popen[str], total: int) -> list[str]:
    """Count the packages that go names as it compiles them; keep the end for an error message."""
    lines: list[str] = []
    shown = time.monotonic()
    for line in build.stderr or ():
        lines.append(line.rstrip())
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            say(f"{len(lines)} of at most {total} packages, now {lines[-1]}")
    return lines[-20:]


def debian_mirror() -> str:
    """The first archive that this machine's own apt settings name."""
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    for address in listing.stdout.splitlines():
        if address.rstrip("/").endswith("/debian"):
            return address.rstrip("/")
    raise BuildError("apt names no Debian mirror here (apt-get indextargets): put etcd >= 3.5.13 on PATH")


def download(address: str) -> bytes:
    """One file of the mirror, whole."""
    with urllib.request.urlopen(address, timeout=120) as answer:  # noqa: S310 (address comes from apt)
        content: bytes = answer.read()
        return content


def check_signature(release: bytes) -> None:
    """Debian's own keys vouch for the suite, where gpgv and the keyring are installed."""
    gpgv = shutil.which("gpgv")
    if gpgv is None or not DEBIAN_KEYRING.exists():
        say("no gpgv or no Debian keyring: signature of the suite not checked")
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(release)
        file.flush()
        done = subprocess.run(
            [gpgv, "--keyring", DEBIAN_KEYRING, file.name], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise BuildError(f"the mirror's InRelease is not signed by Debian:\n{done.stderr.strip()}")


def checked_download(address: str, sha256: str) -> bytes:
    """A file of the mirror whose hash a signed index names."""
    content = download(address)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise BuildError(f"{address} does not have the hash that its index names")
    return content


def etcd_package(mirror: str, suite: str, architecture: str) -> tuple[str, str] | None:
    """Address and hash of the suite's etcd-server, when it is new enough."""
    release = download(f"{mirror}/dists/{suite}/InRelease")
    check_signature(release)
    index = f"main/binary-{architecture}/Packages.xz"
    listed = re.search(rf"^ ([0-9a-f]{{64}}) +\d+ {re.escape(index)}$", release.decode(), re.MULTILINE)
    if listed is None:
        return None
    packages = lzma.decompress(checked_download(f"{mirror}/dists/{suite}/{index}", listed[1])).decode()
    for entry in packages.split("\n\n"):
        if entry.startswith("Package: etcd-server\n"):
            fields = dict(re.findall(r"^(\S+): (.*)$", entry, re.MULTILINE))
            numbers = tuple(int(n) for n in re.findall(r"\d+", fields["Version"])[:3])
            return (f"{mirror}/{fields['Filename']}", fields["SHA256"]) if numbers >= ETCD_AT_LEAST else None
    return None


def etcd_is_new_enough(path: str) -> bool:
    """Whether an installed etcd has what the API server wants."""
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", text)
    return found is not None and tuple(int(n) for n in found.groups()) >= ETCD_AT_LEAST


def fetch_etcd(into: Path) -> None:
    """Take the installed etcd, or unpack Debian's package without installing it."""
    installed = shutil.which("etcd")
    if installed and etcd_is_new_enough(installed):
        shutil.copy2(installed, into / "etcd")
        return
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise BuildError("no etcd >= 3.5.13 on PATH, and this is no Debian to take one from")
    architecture = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()
    mirror = debian_mirror()
    for suite in ETCD_SUITES:
        package = etcd_package(mirror, suite, architecture)
        if package is not None:
            say(f"etcd from {suite}: {package[0].rsplit('/', 1)[1]}")
            unpack_etcd(checked_download(*package), into)
            return
    raise BuildError(f"none of Debian's {', '.join(ETCD_SUITES)} has etcd-server >= 3.5.13")


def unpack_etcd(package: bytes, into: Path) -> None:
    """Only the program is wanted, not the service that the package would start."""
    archive, root = into / "etcd.deb", into / "etcd-root"
    archive.write_bytes(package)
    subprocess.run(["dpkg-deb", "-x", archive, root], check=True)
    shutil.copy2(root / "usr" / "bin" / "etcd", into / "etcd")


def build_missing() -> None:
    """Bring every missing program into the cache; each appears whole or not at all."""
    folder = tools_folder()
    with building_lock(folder):
        missing = missing_tools()
        with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as name:
            scratch = Path(name)
            if "etcd" in missing:
                fetch_etcd(scratch)
                (scratch / "etcd").replace(folder / "etcd")
            programs = [program for program in missing if program in GO_PROGRAMS]
            if programs:
                build_go_programs(programs, scratch)
            for program in programs:
                (scratch / program).replace(folder / program)


def main() -> int:
    """Build what is missing; a machine that cannot build is told so loudly and is no failure."""
    started = time.monotonic()
    try:
        build_missing()
    except (BuildError, OSError, subprocess.CalledProcessError) as problem:
        print(f"{'=' * 78}\nkube-tools: NOT BUILT: {problem}\n", file=sys.stderr)
        print(f"Tests marked real_kube will be SKIPPED.\n{'=' * 78}", file=sys.stderr)
        return 0 if shutil.which("go") is None else 1
    say(f"{', '.join(PROGRAMS)} are in {tools_folder()} ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
