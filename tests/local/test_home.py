"""The data folder of a local cluster: where it is, and what it remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_operator.local.home import Choices, Home, LocalError, default_folder, write_whole


def test_a_name_leads_to_a_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Home.of("demo", None).data == tmp_path / "slurm-operator" / "local" / "demo"
    assert default_folder("other") != default_folder("demo")


def test_a_folder_that_is_given_wins_over_the_name(tmp_path: Path) -> None:
    assert Home.of("demo", tmp_path / "a" / ".." / "b").data == tmp_path / "b"


@pytest.mark.parametrize("name", ["", "Demo", "../etc", "a/b", "-a", "a" * 40], ids=repr)
def test_a_name_that_could_be_a_path_is_refused(name: str) -> None:
    with pytest.raises(LocalError, match="is not a valid cluster name"):
        Home.of(name, None)


def test_choices_outlast_a_restart(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.choices() is None
    home.keep(Choices(nodes=7, port=1234))
    assert home.choices() == Choices(nodes=7, port=1234)


def test_broken_choices_say_what_to_do(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.choices_file.write_text("{")
    with pytest.raises(LocalError, match="fix it, or reset the cluster"):
        home.choices()


def test_a_cluster_that_must_be_there_and_is_not_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="local up makes one"):
        Home(tmp_path).require()


def test_a_file_is_replaced_as_one_and_is_nobody_elses(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "kubeconfig"
    write_whole(target, b"old")
    write_whole(target, b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["kubeconfig"]
