"""Builds the real helm, 3 and 4, once, outside the tree.

In: `modules/helm3` and `modules/helm4`, which pin every Go module, and a Go toolchain. Out: `helm-<version>` in
`~/.cache/slurm-operator` (`SLURM_OPERATOR_CACHE` moves it). `make helm-tools` runs this file; `conftest.py` asks
`missing_tools` and `tools`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.real.kube.tools import BuildError, building_lock, go_environment

MODULES = Path(__file__).parent / "modules"
MAJORS = (3, 4)


def version(major: int) -> str:
    """The version that modules/helm<major>/go.mod pins, as `4.3.1`."""
    found = re.search(rf"helm\.sh/helm/v{major} v(\S+)", (MODULES / f"helm{major}" / "go.mod").read_text())
    if found is None:
        raise BuildError(f"{MODULES}/helm{major}/go.mod does not require helm.sh/helm/v{major}")
    return found[1]


def cache() -> Path:
    """Where the programs live."""
    return Path(os.environ.get("SLURM_OPERATOR_CACHE") or Path.home() / ".cache" / "slurm-operator")


def tool(major: int) -> Path:
    """The path of one helm, there or not."""
    return cache() / f"helm-{version(major)}"


def missing_tools() -> list[str]:
    """The names of those that are not built yet."""
    return [tool(major).name for major in MAJORS if not os.access(tool(major), os.X_OK)]


def link_flags(major: int) -> str:
    """What its own release build stamps: its version, and the Kubernetes that it takes for the cluster's by default."""
    package = f"helm.sh/helm/v{major}"
    stamps = {f"{package}/internal/version.version": f"v{version(major)}"}
    kubernetes = re.search(r"k8s\.io/client-go v0\.(\d+)\.", (MODULES / f"helm{major}" / "go.mod").read_text())
    if major == 3 and kubernetes:
        for place in ("pkg/chartutil", "pkg/lint/rules"):
            stamps[f"{package}/{place}.k8sVersionMajor"] = "1"
            stamps[f"{package}/{place}.k8sVersionMinor"] = kubernetes[1]
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in stamps.items())


def build(major: int, into: Path) -> None:
    """Compile one; Go's build cache makes an interrupted build go on where it was."""
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"no 'go' on PATH: install the Go toolchain that modules/helm{major}/go.mod names")
    flags = link_flags(major)
    command = [
        go,
        "build",
        "-p",
        "2",
        "-trimpath",
        "-ldflags",
        flags,
        "-o",
        str(into),
        f"helm.sh/helm/v{major}/cmd/helm",
    ]
    # It is a long build, and others work on this machine too.
    nice = shutil.which("nice")
    done = subprocess.run(
        [*([nice, "-n", "10"] if nice else []), *command],
        cwd=MODULES / f"helm{major}",
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"go build of helm {major} failed:\n{done.stderr.strip()[-2000:]}")


def build_missing() -> None:
    """Bring each missing helm into the cache; it appears whole or not at all."""
    with building_lock(cache() / "helm-build"):
        for major in MAJORS:
            if not os.access(tool(major), os.X_OK):
                print(f"helm-tools: compiling helm {version(major)} (about 4 CPU minutes from nothing)", flush=True)
                with tempfile.TemporaryDirectory(dir=cache(), prefix=".building-") as folder:
                    build(major, Path(folder) / "helm")
                    (Path(folder) / "helm").replace(tool(major))


def main() -> int:
    """Build what is missing; a machine that cannot build is told so loudly and is no failure."""
    started = time.monotonic()
    try:
        build_missing()
    except (BuildError, OSError) as problem:
        print(f"{'=' * 78}\nhelm-tools: NOT BUILT: {problem}\n", file=sys.stderr)
        print(f"Tests on the real helm will be SKIPPED.\n{'=' * 78}", file=sys.stderr)
        return 0 if shutil.which("go") is None else 1
    print(f"helm-tools: {', '.join(str(tool(major)) for major in MAJORS)} ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
