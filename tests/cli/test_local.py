"""`slurm-operator local` as a person meets it: wrong use and missing clusters are sentences."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_operator.cli.invocation import Typed, program
from slurm_operator.cli.local import _next_steps
from slurm_operator.cli.main import main
from slurm_operator.local.home import Choices, Home


def local(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["local", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize("command", ["status", "kubeconfig", "logs", "kubectl", "shell"])
def test_a_cluster_that_is_not_there_is_said_to_be_missing(tmp_path: Path, command: str) -> None:
    code, said = local(command, "--data", str(tmp_path / "none"))
    assert code == 1
    assert f"local up --data={tmp_path / 'none'} makes one" in said


def test_a_reset_of_nothing_is_well(tmp_path: Path) -> None:
    assert local("reset", "--data", str(tmp_path / "none")) == (0, f"There is no cluster in {tmp_path / 'none'}.\n")


def test_nothing_to_stop_is_well(tmp_path: Path) -> None:
    """`make down` without a cluster ended with an error."""
    code, said = local("down", "--data", str(tmp_path / "none"))
    assert (code, said) == (0, f"There is no cluster in {tmp_path / 'none'}: nothing to stop.\n")


def test_without_root_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, said = local("up", "--data", str(tmp_path / "new"))
    assert code == 1
    assert "run it as root" in said
    assert not (tmp_path / "new").exists()


def test_a_manifest_that_cannot_be_read_stops_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    code, said = local("up", "--data", str(tmp_path / "new"), "-f", str(tmp_path / "bad.yaml"))
    assert code == 1
    assert "bad.yaml:1" in said
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: NodeSet\nmetadata: {name: a}\n", "bad.yaml:1: apiVersion: is required"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "bad.yaml:1: kind: is required"),
        ("apiVersion: v1\nkind: Pod\nmetadata: [a]\n", "bad.yaml:3: metadata.name: is required"),
        ("apiVersion: v1\nkind: List\nitems:\n- {kind: 5}\n", "bad.yaml:4: kind: is required, and is text"),
    ],
    ids=["no version", "no kind", "no name", "in a list"],
)
def test_what_no_server_could_be_asked_about_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    code, output = local("up", "--data", str(tmp_path / "new"), "-f", str(tmp_path / "bad.yaml"))
    assert code == 1
    assert said in output
    assert not (tmp_path / "new").exists()


def test_a_stopped_cluster_is_not_well_and_says_so_to_machines(tmp_path: Path) -> None:
    Home(tmp_path).keep(Choices())
    code, said = local("status", "--data", str(tmp_path), "-o", "json")
    assert code == 1
    found = json.loads(said)
    assert (found["healthy"], found["answers"], found["supervisor"]) == (False, False, 0)
    assert [part["running"] for part in found["parts"]] == [False] * 4


def test_a_stopped_cluster_says_how_to_start_it(tmp_path: Path) -> None:
    Home(tmp_path).keep(Choices())
    code, said = local("status", "--data", str(tmp_path))
    assert code == 1
    assert f"not running: {program()} local up --data={tmp_path} starts it" in said


def test_a_part_that_is_none_is_named_with_those_that_are(tmp_path: Path) -> None:
    Home(tmp_path).keep(Choices())
    code, said = local("logs", "kubelet", "--data", str(tmp_path))
    assert code == 1
    assert "apiserver, node, controllers, operator, supervisor" in said


def test_the_rules_for_images_name_the_file_to_change(tmp_path: Path) -> None:
    code, said = local("images", "--data", str(tmp_path))
    assert code == 0
    assert said.startswith(f"# {tmp_path}/images.yaml")
    assert "*/slurmctld*:*" in said


@pytest.mark.parametrize(
    ("name", "data", "command"),
    [
        ("demo", None, "slurm-operator local status, slurm-operator local kubectl,"),
        ("other", None, "slurm-operator local status --name=other, "),
        ("demo", "/var/a b", "slurm-operator local status '--data=/var/a b', "),
    ],
)
def test_what_comes_next_names_the_same_cluster(name: str, data: str | None, command: str) -> None:
    """`local up` printed commands that asked for another cluster."""
    steps = _next_steps(Typed(name, Path(data) if data else None))
    assert steps.replace(program(), "slurm-operator").startswith(command)
