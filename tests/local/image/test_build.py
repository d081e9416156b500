"""Building: what is refused before it starts, and what a failure says. The build itself is in tests/real/local."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest

from slurm_operator.local.image import apt, recipe
from slurm_operator.local.image.apt import Download, Suite
from slurm_operator.local.image.build import build, command, failure, require_room
from slurm_operator.local.image.download import Item
from slurm_operator.local.image.errors import BuildInterrupted, CannotBuild, UnknownVersion
from slurm_operator.local.image.progress import Lines, Progress

PRINT_URIS = """\
Reading package lists...
The following NEW packages will be installed:
  bash slurmd
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Need to get 1500 kB of archives.
After this operation, 1,463 MB of additional disk space will be used.
'http://m/pool/bash_5.2_amd64.deb' bash_5.2_amd64.deb 1000000 SHA256:aa
'http://m/pool/slurmd_26.05.5-1_amd64.deb' slurmd_26.05.5-1_amd64.deb 500000 SHA256:bb
"""


def quiet(progress: Progress) -> None:
    del progress


def test_what_apt_prints_is_read() -> None:
    plan = apt.parse_plan(PRINT_URIS)
    assert plan.files == ("bash_5.2_amd64.deb", "slurmd_26.05.5-1_amd64.deb")
    assert (plan.bytes, plan.unpacked) == (1_500_000, 1_463_000_000)
    assert plan.items[1] == Item(
        "http://m/pool/slurmd_26.05.5-1_amd64.deb", "slurmd_26.05.5-1_amd64.deb", 500_000, "sha256", "bb"
    )


def test_an_old_apts_weak_hash_leaves_the_download_to_apt() -> None:
    plan = apt.parse_plan("'http://m/a.deb' a.deb 10 MD5Sum:aa\n'http://m/b.deb' b.deb 10\n")
    assert [item.can_be_fetched for item in plan.items] == [False, False]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("W: x\nE: Unable to locate package a\nE: b\n", "Unable to locate package a"),
        ("Err:1 http://m sid InRelease\n", "Err:1 http://m sid InRelease"),
        ("something\n", "something"),
        ("", "no reason given"),
    ],
    ids=["error", "fetch", "other", "silence"],
)
def test_apts_own_reason_is_given(said: str, reason: str) -> None:
    assert apt.reason(said) == reason


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
    with pytest.raises(UnknownVersion, match="is no Slurm version"):
        build(version, tmp_path, quiet)


def test_no_room_is_said_with_numbers(tmp_path: Path) -> None:
    huge = Item("http://m/a.deb", "a.deb", 10**15, "sha256", "aa")
    plan = Download(names=(), items=(huge,), unpacked=10**15)
    with pytest.raises(CannotBuild, match=r"needs 2400000000 MB in .* MB are free; make room"):
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


def test_the_mirror_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(apt.MIRROR_VARIABLE, "http://mirror.example/debian/")
    assert apt.host_mirror() == "http://mirror.example/debian"


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


def test_nothing_is_fetched_twice_and_the_mirror_is_the_machines(tmp_path: Path) -> None:
    suite = Suite("sid", tmp_path, "http://mirror.example/debian")
    words = command(suite, recipe.PACKAGES, tmp_path / "root", {"users": "u", "finish": "f"})
    assert words[-3:] == ["sid", str(tmp_path / "root"), suite.source]
    assert "--skip=update" in words
    assert any(str(suite.archives) in word for word in words if word.startswith("--setup-hook="))


def test_the_recipes_hash_follows_the_version() -> None:
    assert recipe.recipe_hash("24.11") != recipe.recipe_hash("26.05")
    assert recipe.recipe_hash("24.11") == recipe.recipe_hash("24.11")


def test_the_digest_follows_recipe_and_packages() -> None:
    digests = {recipe.digest("r", {"a": "1"}), recipe.digest("r", {"a": "2"}), recipe.digest("s", {"a": "1"})}
    assert len(digests) == 3


def test_lines_say_each_step_once_and_how_far_it_is_now_and_then() -> None:
    out, now = io.StringIO(), [0.0]
    lines = Lines(out, lambda: now[0])
    for second, progress in [
        (0.0, Progress("ask")),
        (1.0, Progress("download", 0, 90e6, "bytes")),
        (2.0, Progress("download", 30e6, 90e6, "bytes")),
        (7.0, Progress("download", 60e6, 90e6, "bytes")),
        (8.0, Progress("download", 90e6, 90e6, "bytes")),
        (8.1, Progress("download", 90e6, 90e6, "bytes")),
        (9.0, Progress("install", 1, 3, "packages")),
    ]:
        now[0] = second
        lines(progress)
    assert out.getvalue().splitlines() == [
        "[  0.0 s] ask",
        "[  1.0 s] download: 0 of 90 MB",
        "[  7.0 s] download: 60 of 90 MB",
        "[  8.0 s] download: 90 of 90 MB",
        "[  9.0 s] install: 1 of 3 packages",
    ]
