"""Building: what is refused before it starts, and what a failure says. The build itself is in tests/real/local."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from slurm_operator.local.image import apt
from slurm_operator.local.image.apt import Download, Suite
from slurm_operator.local.image.build import build, failure, require_room
from slurm_operator.local.image.download import Item
from slurm_operator.local.image.errors import BuildInterrupted, CannotBuild, UnknownVersion
from slurm_operator.local.image.progress import Progress


def quiet(progress: Progress) -> None:
    del progress


def test_no_root_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotBuild, match="needs root"):
        build("26.05", tmp_path, quiet)


def test_no_apt_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotBuild, match="needs apt-get"):
        build("26.05", tmp_path, quiet)


@pytest.mark.parametrize("version", ["26", "26.5", "latest", "", "26.05.1", "../x"])
def test_what_is_no_version_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(UnknownVersion, match="is not a Slurm version"):
        build(version, tmp_path, quiet)


def test_no_room_is_said_with_numbers(tmp_path: Path) -> None:
    huge = Item("http://m/a.deb", "a.deb", 10**15, "sha256", "aa")
    plan = Download(names=(), items=(huge,), unpacked=10**15)
    with pytest.raises(CannotBuild, match=r"needs 2400000000 MB in .* MB are free; free some space"):
        require_room(plan, tmp_path)


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt")
def test_a_broken_mirror_is_named(tmp_path: Path) -> None:
    # Nobody listens on port 1.
    suite = Suite("sid", tmp_path / "sid", "http://127.0.0.1:1/debian")
    suite.prepare()
    conf = suite.folder / "apt.conf"
    conf.write_text(apt.settings(suite.folder).replace('Acquire::Retries "3"', 'Acquire::Retries "0"'))
    with pytest.raises(BuildInterrupted, match=r"the mirror http://127.0.0.1:1/debian does not give Debian sid: .*"):
        suite.update()


@pytest.mark.parametrize(
    ("code", "log", "says"),
    [
        (-9, "", "mmdebstrap was killed (signal 9); the downloads are kept, run it again"),
        (1, "I: x\nE: no space\n", "mmdebstrap failed (E: no space); see "),
        (1, "", "mmdebstrap failed (no reason given); see "),
    ],
    ids=["killed", "error", "silence"],
)
def test_a_failed_bootstrap_says_why(tmp_path: Path, code: int, log: str, says: str) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    assert failure(code, path).startswith(says)
