"""Folders of volumes: the atomic swap, paths within volumes, what a container mounts."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kube_local.node import host, volumes
from kube_local.node.bundle import Bind
from kube_local.node.content import File
from kube_local.node.errors import ConfigInvalid, MountFailed
from kube_local.node.paths import Paths
from kube_local.node.volume_path import opened
from kube_local.node.volumes import Referred

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
            # A folder that was replaced and removed meanwhile, even between the link and it, is opened again.
            with contextlib.suppress(FileNotFoundError):
                folder = os.open(tmp_path / "..data", os.O_PATH)
                try:
                    seen.add(tuple(Path(f"/proc/self/fd/{folder}/{name}").read_text() for name in "ab"))
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
    with pytest.raises(MountFailed, match=text), opened(root, inner, make=False):
        pass


def test_a_missing_sub_path_is_made_with_the_rights_of_its_volume(tmp_path: Path) -> None:
    tmp_path.chmod(0o2777)
    with opened(tmp_path, "a/b", make=True) as found:
        assert os.path.samestat(os.fstat(found), (tmp_path / "a" / "b").stat())
    made = tmp_path / "a" / "b"
    assert [path.stat().st_mode & 0o7777 for path in (made, made.parent)] == [0o2777, 0o2777]


def test_links_within_a_volume_are_followed(tmp_path: Path) -> None:
    volumes.swap(tmp_path, {"d/a": File(b"1", 0o600)})
    (tmp_path / "up").symlink_to("d/../d/a")
    for inner in ("d/a", "up"):
        with opened(tmp_path, inner, make=False) as found:
            assert os.path.samestat(os.fstat(found), (tmp_path / "d" / "a").stat())


@pytest.mark.parametrize("target", ["../..", "/etc", "loop"], ids=["upwards", "absolute", "itself"])
def test_a_link_cannot_lead_out_of_its_volume(tmp_path: Path, target: str) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "loop").symlink_to(target)
    with pytest.raises(MountFailed, match="leads out"), opened(tmp_path / "v", "loop", make=True):
        pass


@pytest.mark.parametrize("step", ["at the mount", "while it is walked"])
def test_a_link_that_a_container_swaps_in_is_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """T18: what was checked is what is mounted, whatever stands at that path a moment later."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (volume / "work" / "deep").mkdir(parents=True)
    (outside / "deep").mkdir(parents=True)
    honest = (volume / "work" / "deep").stat()
    mounted: list[os.stat_result] = []

    def swap() -> None:
        if not (volume / "work").is_symlink():
            (volume / "work").rename(volume / "away")
            (volume / "work").symlink_to(outside)

    def mount(source: str, *_: object, flags: int = 0) -> None:
        if flags & host.MS_BIND:
            swap()
            mounted.append(Path(source).stat())

    real_open = os.open

    def open_and_swap(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        found = real_open(path, flags, mode, dir_fd=dir_fd)
        if path == "work":
            swap()
        return found

    monkeypatch.setattr(host, "mount", mount)
    if step == "while it is walked":
        monkeypatch.setattr(os, "open", open_and_swap)
    bind = volumes.pin(Bind(str(volume), "/x", inner="work/deep", make=True), tmp_path / "pinned" / "0")
    assert bind == Bind(str(tmp_path / "pinned" / "0"), "/x", make=True)
    assert [os.path.samestat(found, honest) for found in mounted] == [True]
    assert list((outside / "deep").iterdir()) == []


def test_a_folder_swapped_for_a_link_is_not_given_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T18: rights are set by descriptor as well."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (volume / "d").mkdir(parents=True)
    outside.mkdir(mode=0o700)
    real = os.fstat

    def swapped(held: int) -> os.stat_result:
        found = real(held)
        if (
            (volume / "d").is_dir()
            and not (volume / "d").is_symlink()
            and Path(f"/proc/self/fd/{held}").readlink().name == "d"
        ):
            (volume / "d").rename(volume / "e")
            (volume / "d").symlink_to(outside)
        return found

    monkeypatch.setattr(os, "fstat", swapped)
    volumes.own(volume, 4242)
    assert outside.stat().st_mode & 0o7777 == 0o700
    assert outside.stat().st_gid != 4242


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ".", "", "a\0", "x" * 300])
@pytest.mark.parametrize("kind", ["emptyDir", "configMap"])
def test_the_name_of_a_volume_is_one_folder(tmp_path: Path, referred: Referred, name: str, kind: str) -> None:
    """T14: nobody before the agent checks it."""
    volume = {"name": name, kind: {"name": "conf"}}
    with pytest.raises(ConfigInvalid, match="volume name"):
        volumes.folder(volume, Paths(tmp_path).pod("uid-1"), referred)


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ""])
def test_the_name_of_a_container_is_one_folder(tmp_path: Path, name: str) -> None:
    """T14: its records, logs and bundles are kept under it."""
    paths = Paths(tmp_path).pod("uid-1")
    for place in (paths.container, lambda each: paths.log(each, 0), lambda each: paths.attempt(each, 0)):
        with pytest.raises(ConfigInvalid, match="container name"):
            place(name)


@pytest.mark.parametrize("path", ["etc", "/a/../../etc", "/a\0b"])
def test_a_host_path_is_absolute_and_plain(tmp_path: Path, referred: Referred, path: str) -> None:
    with pytest.raises(MountFailed, match="expected an absolute path"):
        volumes.folder({"name": "v", "hostPath": {"path": path}}, Paths(tmp_path).pod("uid-1"), referred)


@pytest.mark.parametrize("mount", [{"subPath": "../x"}, {"subPathExpr": "$(WHERE)"}], ids=["plain", "by a variable"])
def test_a_sub_path_that_leads_out_is_refused_before_anything_is_made(
    tmp_path: Path, make_pod: MakePod, referred: Referred, mount: dict[str, str]
) -> None:
    pod = make_pod(volumes=[{"name": "v", "emptyDir": {}}])
    container = {"volumeMounts": [{"name": "v", "mountPath": "/v", **mount}]}
    with pytest.raises(MountFailed, match="must stay within its volume"):
        volumes.binds(pod, container, Paths(tmp_path).pod("uid-1"), referred, {"WHERE": "a/../../b"})


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
