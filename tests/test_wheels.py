"""What is in the wheels: the operator's holds no line of the Kubernetes for one machine, and works without it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OPERATOR, LOCAL = ROOT, ROOT / "distributions/local"
# Without the editable installation, which has all packages.
ALONE = """
import sys
sys.path = [sys.argv.pop(1), *(each for each in sys.path if "site-packages" in each or "python3" in each)]
from slurm_operator.cli.main import main
main(prog_name="slurm-operator")
"""

Wheels = dict[Path, tuple[set[str], Path]]


def built(project: Path, folder: Path) -> set[str]:
    """The files of a wheel, unpacked into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder / "files")  # our own
        return {name for name in opened.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    result = {}
    for project in (OPERATOR, LOCAL):
        folder = tmp_path_factory.mktemp("wheel")
        result[project] = built(project, folder), folder / "files"
    return result


def test_the_operators_wheel_holds_nothing_of_local_mode(wheels: Wheels) -> None:
    files, _ = wheels[OPERATOR]
    assert {name.partition("/")[0] for name in files} == {"slurm_operator", "kube_runtime"}
    assert not [name for name in files if name.startswith("slurm_operator/local/")]


def test_local_modes_wheel_holds_nothing_else(wheels: Wheels) -> None:
    files, _ = wheels[LOCAL]
    assert {name.partition("/")[0] for name in files} == {"slurm_operator", "kube_local"}
    assert {name.split("/")[1] for name in files if name.startswith("slurm_operator/")} == {"local"}


def test_every_module_is_in_exactly_one_wheel(wheels: Wheels) -> None:
    operator, local = wheels[OPERATOR][0], wheels[LOCAL][0]
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert operator & local == set()
    assert {name for name in operator | local if name.endswith(".py")} == source


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(["--version"], 0, "slurm-operator", id="the operator starts"),
        pytest.param(["run", "--help"], 0, "--worker-images", id="and knows its flags"),
        pytest.param(["local", "up"], 1, "pip install 'slurm-operator[local]'", id="local mode says how to get it"),
    ],
)
def test_the_operators_wheel_works_alone(wheels: Wheels, arguments: list[str], code: int, text: str) -> None:
    _, files = wheels[OPERATOR]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", "-c", ALONE, str(files), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=files)
    assert (done.returncode, text in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
