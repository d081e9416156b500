"""promtool, out of Debian's package of Prometheus, once, outside the tree.

In: a Debian with apt. Out: `promtool` in `~/.cache/slurm-operator` (`SLURM_OPERATOR_CACHE` moves it), or the one on the
PATH. `make helm-tools` runs this file; `test_alerts.py` asks `find`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def kept() -> Path:
    """Where it lives, there or not."""
    return Path(os.environ.get("SLURM_OPERATOR_CACHE") or Path.home() / ".cache" / "slurm-operator") / "promtool"


def find() -> str | None:
    """The program, if there is one."""
    return shutil.which("promtool") or (str(kept()) if os.access(kept(), os.X_OK) else None)


def fetch() -> None:
    """Take it out of the package; it appears whole or not at all."""
    kept().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept().parent, prefix=".promtool-") as folder:
        subprocess.run(["apt-get", "-q", "download", "prometheus"], cwd=folder, check=True, capture_output=True)
        (package,) = Path(folder).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(package), folder], check=True, capture_output=True)
        (Path(folder) / "usr/bin/promtool").replace(kept())


def main() -> int:
    """Bring it if it is missing; a machine that cannot is told so loudly, and is no failure."""
    try:
        if find() is None:
            fetch()
    except (OSError, subprocess.CalledProcessError) as problem:
        why = getattr(problem, "stderr", b"") or str(problem).encode()
        text = why.decode(errors="replace").strip()[-500:]
        print(f"promtool: NOT FETCHED: {text}\nThe tests of alerts on promtool will be SKIPPED.", file=sys.stderr)
        return 0
    print(f"promtool: {find()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
