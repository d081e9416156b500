"""Brings what a real Kubernetes node needs into the cache, once: kubelet, kube-proxy, containerd, CNI plugins, nft.

In: the Go modules that `tests/real/kube/modules` pins, the machine's Debian mirror. Out: programs beside the control
plane's in `~/.cache/slurm-operator/kube-tools/<version>/`: two built by Go, the others in `node/`, unpacked out of
Debian's packages and installed nowhere. `make kubelet-tools` runs this file; `conftest.py` asks `missing` and
`machine.py` asks `node_folder`. runc is the machine's own, as in local mode.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.real.kube import tools as kube

from slurm_operator.local.image import apt, download
from slurm_operator.local.image.errors import CannotBuild
from slurm_operator.local.image.store import default_cache

GO_PROGRAMS = ("kubelet", "kube-proxy")
# containerd 2 is in no stable Debian yet; these three need nothing but a libc of 2.34.
SUITE = "forky"
PACKAGES = ("containerd", "containernetworking-plugins", "catatonit")
# Linked to libraries, so out of the machine's own suite.
HOST_PACKAGES = ("nftables",)
UNPACKED = (
    "usr/bin/containerd",
    "usr/bin/containerd-shim-runc-v2",
    "usr/bin/ctr",
    "usr/bin/catatonit",
    "usr/lib/cni/ptp",
    "nft",
)
ON_THE_MACHINE = ("runc", "ip", "unshare", "nsenter", "setpriv", "mount")
# nft finds the libraries of its own package.
NFT = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
libraries=$(echo "$here"/usr/lib/*-linux-gnu | tr ' ' :)
LD_LIBRARY_PATH=$libraries exec "$here/usr/sbin/nft" "$@"
"""


def node_folder() -> Path:
    """Where Debian's packages are unpacked."""
    return kube.tools_folder() / "node"


def missing() -> list[str]:
    """What a node lacks here, by name; nothing when it can run."""
    lacking = kube.missing_tools()
    lacking += [name for name in GO_PROGRAMS if not os.access(kube.tool(name), os.X_OK)]
    lacking += [Path(name).name for name in UNPACKED if not os.access(node_folder() / name, os.X_OK)]
    return lacking + [name for name in ON_THE_MACHINE if shutil.which(name) is None]


def say(text: str) -> None:
    """Progress for the person who waits."""
    print(f"kubelet-tools: {text}", flush=True)


def listed(command: Sequence[str], settings: Path | None) -> tuple[download.Item, ...]:
    """What apt would download, with hashes out of its signed index."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **({"APT_CONFIG": str(settings)} if settings else {})}
    strong = ("-o", "Acquire::ForceHash=SHA256", "--print-uris")
    done = subprocess.run(
        ["apt-get", "-y", *strong, *command], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise kube.BuildError(f"apt does not find {' '.join(command[1:])}: {apt.reason(done.stderr)}")
    return apt.parse_plan(done.stdout).items


def debian_items() -> tuple[download.Item, ...]:
    """The packages of a node; those of the machine's own suite only where it has none installed."""
    suite = apt.Suite(SUITE, default_cache() / "apt" / f"node-{SUITE}", apt.host_mirror())
    suite.prepare()
    suite.update()
    found = listed(("download", *PACKAGES), suite.folder / "apt.conf")
    return found if shutil.which("nft") else (*found, *listed(("install", *HOST_PACKAGES), None))


def unpack_debian(into: Path) -> None:
    """Fetch and unpack; nothing of it is installed or started."""
    items = debian_items()
    say(f"{', '.join(item.name for item in items)}")
    proxy = download.proxy_of(apt.host_mirror(), apt.host_settings())
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".debs-") as folder:
        download.fetch(items, Path(folder), lambda _: None, proxy=proxy)
        for item in items:
            subprocess.run(["dpkg-deb", "-x", Path(folder) / item.name, into], check=True)
    installed = shutil.which("nft")
    if installed:
        (into / "nft").symlink_to(installed)
    else:
        (into / "nft").write_text(NFT)
        (into / "nft").chmod(0o755)


def build_missing() -> None:
    """Everything that is not there yet; each part appears whole or not at all."""
    kube.build_missing()
    folder = kube.tools_folder()
    with kube.building_lock(folder), tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as name:
        scratch = Path(name)
        lacking = missing()
        if any(Path(each).name in lacking for each in UNPACKED):
            (scratch / "node").mkdir()
            unpack_debian(scratch / "node")
            shutil.rmtree(node_folder(), ignore_errors=True)
            (scratch / "node").rename(node_folder())
        programs = [each for each in GO_PROGRAMS if each in lacking]
        if programs:
            kube.build_go_programs(programs, scratch)
        for program in programs:
            (scratch / program).replace(folder / program)


def main() -> int:
    """Build what is missing; a machine that cannot build is told so loudly and is no failure."""
    started = time.monotonic()
    # It is a long build, and others work on this machine too.
    os.nice(10)
    try:
        build_missing()
    except (kube.BuildError, CannotBuild, download.DownloadFailed, OSError, subprocess.CalledProcessError) as problem:
        print(f"{'=' * 78}\nkubelet-tools: NOT BUILT: {problem}\n", file=sys.stderr)
        print(f"Tests on a real kubelet will be SKIPPED.\n{'=' * 78}", file=sys.stderr)
        return 0 if shutil.which("go") is None else 1
    lacking = missing()
    say(f"the machine lacks {', '.join(lacking)}" if lacking else f"all is in {kube.tools_folder()}")
    say(f"{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
