"""The build of the control plane: what is pinned, where it goes, and what is said when it cannot be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.real.kube import tools


def test_every_staging_module_has_the_release_of_kubernetes() -> None:
    pinned = (tools.MODULES / "go.mod").read_text()
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", pinned, re.MULTILINE)
    assert len(replaced) > 20
    assert {(old == new, release) for old, new, release in replaced} == {
        (True, "v0." + tools.kube_version().removeprefix("1."))
    }


def test_cache_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLURM_OPERATOR_CACHE", str(tmp_path))
    assert tools.tool("etcd") == tmp_path / "kube-tools" / tools.kube_version() / "etcd"
    assert tools.missing_tools() == list(tools.PROGRAMS)


def test_version_is_stamped() -> None:
    flags = tools.version_flags("1.36.4")
    assert "version.gitVersion=v1.36.4" in flags
    assert "version.gitMinor=36" in flags


def test_machine_without_go_is_told_loudly_and_not_failed(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "etcd").write_text("#!/bin/sh\necho 'etcd Version: 3.5.21'\n")
    (programs / "etcd").chmod(0o755)
    environment = {**os.environ, "PATH": str(programs), "SLURM_OPERATOR_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, tools.__file__], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "NOT BUILT: no 'go' on PATH" in done.stderr
    assert "real_kube will be SKIPPED" in done.stderr
    assert not list((tmp_path / "cache").rglob(".building-*"))


def test_old_etcd_is_not_taken(tmp_path: Path) -> None:
    old = tmp_path / "etcd"
    old.write_text("#!/bin/sh\necho 'etcd Version: 3.4.23'\n")
    old.chmod(0o755)
    assert not tools.etcd_is_new_enough(str(old))
