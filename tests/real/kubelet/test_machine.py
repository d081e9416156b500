"""A machine of namespaces: it is its own, and nothing of it is left."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.real.kubelet import machine

pytestmark = pytest.mark.real_kube
WATCHED = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")


def settings() -> list[str]:
    return [Path("/proc/sys", name).read_text() for name in WATCHED]


def test_a_machine_that_stops_leaves_nothing(tmp_path: Path) -> None:
    before = settings()
    made = machine.boot(tmp_path / "machine")
    try:
        folder = made.plan.folder
        (folder / "probe.sh").write_text(
            f"echo 10 > /proc/sys/kernel/panic; ls /proc > {folder}/seen; cat /proc/self/cgroup >> {folder}/seen\n"
        )
        made.start("probe")
        machine._wait(lambda: "probe ended with code 0" in made.ended(), made.tail("boot") + made.tail("probe"))
        seen = (folder / "seen").read_text()
        assert made.cgroup not in seen, "its control group is a root to it"
        assert str(made.process.pid) not in seen.split(), "processes of the host are not seen"
    finally:
        made.stop()
    assert settings() == before
    assert not machine.cgroups_left(made.cgroup)
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert machine.link_name(made.process) not in links
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_a_machine_whose_owner_dies_is_gone(tmp_path: Path) -> None:
    made = machine.boot(tmp_path / "machine")
    try:
        assert made.process.stdin is not None
        made.process.stdin.close()
        assert made.process.wait(timeout=20) is not None
    finally:
        made.stop()
