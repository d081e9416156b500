"""Commands that are printed run as they stand there: with the program's path, and for this very cluster."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from slurm_operator.cli.invocation import Typed, program

SCRIPTS = Path(sysconfig.get_path("scripts"))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that finds nothing of ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("SUDO_UID", raising=False)


def test_a_program_that_the_shell_finds_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{SCRIPTS}:/usr/bin")
    assert program() == "slurm-operator"


def test_one_that_it_does_not_find_is_called_by_its_path() -> None:
    """`slurm-operator local shell` after the demo was "command not found"."""
    assert program() == str(SCRIPTS / "slurm-operator")
    assert Path(program()).exists()


def test_from_the_checkout_the_path_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCRIPTS.parent)
    assert program() == f"{SCRIPTS.name}/slurm-operator"


def test_whoever_came_by_sudo_comes_by_sudo_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{SCRIPTS}:/usr/bin")
    monkeypatch.setenv("SUDO_UID", "1000")
    assert program() == f"sudo {SCRIPTS / 'slurm-operator'}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see slurm-operator local status", "see P local status --name=lab"),
        ("slurm-operator local kubectl logs -n a b", "P local kubectl --name=lab logs -n a b"),
        ("slurm-operator local image build --slurm 26.05", "P local image build --slurm 26.05"),
        ("run slurm-operator local", "run P local"),
        ("the deployment of slurm-operator localises", "the deployment of slurm-operator localises"),
        ("my/slurm-operator local up", "my/slurm-operator local up"),
        ("nothing to type", "nothing to type"),
    ],
)
def test_commands_in_a_text(text: str, expected: str) -> None:
    assert Typed("lab").text(text) == expected.replace("P", program())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kubectl -n slurm describe pod a", "P local kubectl --data=/d -n slurm describe pod a"),
        ("kubectl slurm -n slurm why job/5", "P local kubectl --data=/d slurm -n slurm why job/5"),
        ("slurm-operator local status", "P local status --data=/d"),
        ("helm list", "helm list"),
    ],
)
def test_kubectl_goes_to_this_cluster(command: str, expected: str) -> None:
    assert Typed(data=Path("/d")).kubectl(command) == expected.replace("P", program())
