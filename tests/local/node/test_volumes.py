"""Folders of volumes: the atomic swap, paths within volumes, what a container mounts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_operator.local.node import volumes
from slurm_operator.local.node.content import File
from slurm_operator.local.node.errors import MountFailed
from slurm_operator.local.node.paths import Paths
from slurm_operator.local.node.volumes import Referred

MakePod = Callable[..., dict[str, Any]]


def shown(folder: Path) -> dict[str, str]:
    return {
        path.name: path.read_text() for path in folder.iterdir() if not path.name.startswith("..") and path.is_file()
    }


def test_files_appear_change_and_go_with_one_link(tmp_path: Path) -> None:
    assert volumes.swap(tmp_path, {"a": File(b"1", 0o600), "d/b": File(b"1", 0o644)})
    assert shown(tmp_path) == {"a": "1"}
    assert (tmp_path / "d" / "b").read_text() == "1"
    assert (tmp_path / "a").readlink() == Path("..data/a")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    first = (tmp_path / "..data").readlink()
    assert volumes.swap(tmp_path, {"a": File(b"2", 0o600), "c": File(b"2", 0o644)})
    assert shown(tmp_path) == {"a": "2", "c": "2"}
    assert not (tmp_path / first).exists()


def test_the_same_files_again_touch_nothing(tmp_path: Path) -> None:
    files = {"a": File(b"1", 0o600)}
    volumes.swap(tmp_path, files)
    before = (tmp_path / "..data").readlink()
    assert not volumes.swap(tmp_path, files)
    assert (tmp_path / "..data").readlink() == before
    assert volumes.swap(tmp_path, {"a": File(b"1", 0o640)})


def test_readers_through_the_link_never_see_half_a_change(tmp_path: Path) -> None:
    volumes.swap(tmp_path, {name: File(b"0", 0o644) for name in "ab"})
    done, seen = threading.Event(), set()

    def read() -> None:
        while not done.is_set():
            folder = os.open(tmp_path / "..data", os.O_PATH)
            try:
                seen.add(tuple(Path(f"/proc/self/fd/{folder}/{name}").read_text() for name in "ab"))
            except FileNotFoundError:
                # Its folder was replaced and removed meanwhile: a reader opens it again.
                continue
            finally:
                os.close(folder)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 100):
        volumes.swap(tmp_path, {name: File(str(number).encode(), 0o644) for name in "ab"})
    done.set()
    reader.join()
    assert {left == right for left, right in seen} == {True}


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("/etc", "must stay within"),
        ("../x", "must stay within"),
        ("out", "leads out"),
        ("none", "is not in its volume"),
    ],
    ids=["absolute", "upwards", "through a link", "missing"],
)
def test_a_sub_path_cannot_leave_its_volume(tmp_path: Path, inner: str, text: str) -> None:
    root = tmp_path / "volume"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    with pytest.raises(MountFailed, match=text):
        volumes.sub_path(root, inner, make=False)


def test_a_missing_sub_path_is_made_with_the_rights_of_its_volume(tmp_path: Path) -> None:
    tmp_path.chmod(0o2777)
    made = volumes.sub_path(tmp_path, "a/b", make=True)
    assert [path.stat().st_mode & 0o7777 for path in (made, made.parent)] == [0o2777, 0o2777]


def test_a_container_mounts_outer_paths_first_and_its_own_files_win(
    tmp_path: Path, make_pod: MakePod, referred: Referred
) -> None:
    paths = Paths(tmp_path).pod("uid-1")
    pod = make_pod(
        volumes=[
            {"name": "run", "emptyDir": {}},
            {"name": "sock", "emptyDir": {}},
            {"name": "etc", "projected": {"sources": []}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ]
    )
    mounts = [
        {"name": "sock", "mountPath": "/run/slurmctld"},
        {"name": "run", "mountPath": "/run", "mountPropagation": "HostToContainer"},
        {"name": "etc", "mountPath": "/etc/hosts"},
        {"name": "data", "mountPath": "/var/spool/$(X)", "readOnly": True},
    ]
    binds = volumes.binds(pod, {"volumeMounts": mounts}, paths, referred, {})
    targets = [bind.target for bind in binds]
    assert targets.index("/run") < targets.index("/run/slurmctld")
    assert targets.count("/etc/hosts") == 1
    found = {bind.target: bind for bind in binds}
    assert found["/run"].propagation == "rslave"
    assert found["/etc/hosts"].read_only
    assert (found["/var/spool/$(X)"].source, found["/var/spool/$(X)"].read_only) == ("/claims/data", True)
    assert {"/etc/hostname", "/etc/resolv.conf", "/dev/shm"} <= set(targets)  # noqa: S108 - its name


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ({"persistentVolumeClaim": {"claimName": "no"}}, "is not bound to a volume on this machine"),
        ({"nfs": {"server": "x"}}, "of type nfs, which local mode cannot mount"),
    ],
    ids=["unbound claim", "nfs"],
)
def test_a_volume_without_a_folder_is_named(
    volume: dict[str, Any], text: str, tmp_path: Path, referred: Referred
) -> None:
    with pytest.raises(MountFailed, match=text):
        volumes.folder({"name": "v", **volume}, Paths(tmp_path).pod("u"), referred)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files to a group needs root")
def test_a_volume_is_given_to_the_group_once(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("x")
    volumes.own(tmp_path, 401)
    found = (tmp_path / "d" / "f").stat()
    assert (found.st_gid, found.st_mode & 0o660) == (401, 0o660)
    assert (tmp_path / "d").stat().st_mode & 0o2770 == 0o2770
    os.chown(tmp_path / "d" / "f", 0, 0)
    volumes.own(tmp_path, 401)
    assert (tmp_path / "d" / "f").stat().st_gid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files to a group needs root")
@pytest.mark.parametrize(
    ("group", "mode"), [(401, 0o2775), (None, 0o777)], ids=["with an fsGroup", "without an fsGroup"]
)
def test_a_claim_of_a_group_is_not_open_to_everybody(group: int | None, mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    volumes.own_claim(tmp_path, group)
    assert tmp_path.stat().st_mode & 0o7777 == mode


def test_no_two_versions_have_the_same_name(tmp_path: Path) -> None:
    names = []
    for number in range(50):
        volumes.swap(tmp_path, {"a": File(str(number).encode(), 0o644)})
        names.append((tmp_path / "..data").readlink())
    assert len(set(names)) == 50
