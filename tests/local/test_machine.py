"""What a machine must have, and the sentences for one that has it not."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from slurm_operator.local import machine
from slurm_operator.local.home import LocalError
from slurm_operator.local.image import apt
from slurm_operator.local.image.progress import Progress


def silent(_: Progress) -> None:
    return None


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LocalError, match="run it as root, such as with sudo"):
        machine.require_root()


def test_without_room_it_says_how_much_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "MIN_FREE_BYTES", 1 << 62)
    with pytest.raises(LocalError, match="free some space, or choose another disk with --data"):
        machine.require(tmp_path / "not" / "there", silent)


def test_missing_programs_are_installed_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    installed: list[tuple[str, ...]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "which", lambda name: None if name in {"runc", "conmon"} else f"/bin/{name}")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(apt, "install_on_host", lambda *packages: installed.append(packages))
    machine.require(tmp_path, lambda progress: said.append(progress.step))
    assert installed == [("runc", "conmon")]
    assert "runc runs containers" in said[0]


def test_missing_programs_without_apt_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "which", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(LocalError, match="there is no apt-get: install them"):
        machine.require(tmp_path, silent)


def test_a_port_that_was_asked_for_and_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(LocalError, match=f"port {number} of 127.0.0.1 is taken"):
            machine.free_port(number, must=True)


def test_a_remembered_port_that_is_taken_gives_way_to_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        assert machine.free_port(number, must=False) not in {0, number}


def kubectl(folder: Path, version: str) -> Path:
    path = folder / "kubectl"
    path.write_text(f"#!/bin/sh\necho Client Version: {version}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "version"),
    [("v1.37.0", (1, 37)), ("v1.32.4-dispatcher", (1, 32)), ("nonsense", ())],
    ids=["plain", "with a suffix", "no version"],
)
def test_a_kubectl_is_asked_for_its_version(tmp_path: Path, said: str, version: tuple[int, ...]) -> None:
    assert machine.version_of(str(kubectl(tmp_path, said))) == version


def test_a_new_enough_kubectl_of_the_machine_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kubectl(tmp_path, "v1.33.1")
    monkeypatch.setattr(machine, "which", lambda _: str(path))
    assert machine.kubectl(tmp_path / "cache", silent) == str(path)


def test_an_old_kubectl_without_apt_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kubectl(tmp_path, "v1.20.0")
    monkeypatch.setattr(machine, "which", lambda _: str(path))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(LocalError, match=r"no kubectl 1\.31 or newer .* put one on the PATH"):
        machine.kubectl(tmp_path / "cache", silent)
