"""What apt prints, and what it gives as its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_operator.local.image import apt, recipe
from slurm_operator.local.image.apt import Suite
from slurm_operator.local.image.build import command
from slurm_operator.local.image.download import Item

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


def test_the_mirror_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(apt.MIRROR_VARIABLE, "http://mirror.example/debian/")
    assert apt.host_mirror() == "http://mirror.example/debian"


def test_nothing_is_fetched_twice_and_the_mirror_is_the_machines(tmp_path: Path) -> None:
    suite = Suite("sid", tmp_path, "http://mirror.example/debian")
    words = command(suite, recipe.PACKAGES, tmp_path / "root", {"users": "u", "finish": "f"})
    assert words[-3:] == ["sid", str(tmp_path / "root"), suite.source]
    assert "--skip=update" in words
    assert any(str(suite.archives) in word for word in words if word.startswith("--setup-hook="))
