"""Where the options that say where may stand."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from slurm_operator.cli.kubectl.main import main, place_first


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ("doctor -n slurm", "-n slurm doctor"),
        ("-n slurm doctor", "-n slurm doctor"),
        ("why job/7 --namespace=slurm -o json", "--namespace=slurm why job/7 -o json"),
        ("partition drain compute -nslurm --context two", "-nslurm --context two partition drain compute"),
        ("-n slurm shell srun -n 4 hostname", "-n slurm shell srun -n 4 hostname"),
        ("shell -- srun -n 4", "shell -- srun -n 4"),
        ("why shell -n slurm", "-n slurm why shell"),
    ],
)
def test_the_namespace_is_given_before_a_command_or_after_it(typed: str, taken: str) -> None:
    assert place_first(typed.split()) == taken.split()


@pytest.mark.parametrize("typed", ["doctor -n slurm", "-n slurm doctor", "partition list --namespace slurm"])
def test_a_command_knows_its_namespace_either_way(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/kubeconfig")
    done = CliRunner().invoke(main, typed.split())
    assert "No such option" not in done.output
    assert done.exit_code == 1
