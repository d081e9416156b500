"""Archives of images: what a runtime reads in them is what the folders hold."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.real.kubelet.oci import OciImage, oci_archive


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "usr" / "bin").mkdir(parents=True)
    (folder / "usr" / "bin" / "tool").write_bytes(b"#!/bin/sh\n")
    (folder / "usr" / "bin" / "tool").chmod(0o4755)
    (folder / "bin").symlink_to("usr/bin")
    os.link(folder / "usr" / "bin" / "tool", folder / "usr" / "bin" / "twin")
    os.mkfifo(folder / "pipe")
    return folder


class Read:
    """An archive as a runtime reads it: from index.json down, every hash checked."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as archive:
            self.members = {each.name: _content(archive, each) for each in archive}
        self.manifests = {
            each["annotations"]["io.containerd.image.name"]: self.blob(each)
            for each in json.loads(self.members["index.json"])["manifests"]
        }

    def raw(self, descriptor: dict[str, Any]) -> bytes:
        content = self.members["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(content) == descriptor["size"]
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
        return content

    def blob(self, descriptor: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw(descriptor))
        return found

    def config(self, name: str) -> dict[str, Any]:
        return self.blob(self.manifests[name]["config"])

    def layer(self, name: str, number: int = 0) -> tarfile.TarFile:
        return tarfile.open(fileobj=io.BytesIO(self.raw(self.manifests[name]["layers"][number])))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def test_a_layer_holds_files_modes_links_and_pipes(root: Path, tmp_path: Path) -> None:
    oci_archive([OciImage(name="example/tool:1", layers=(root,))], tmp_path / "image.tar")
    with Read(tmp_path / "image.tar").layer("example/tool:1") as layer:
        members = {each.name: each for each in layer}
    assert list(members) == ["bin", "pipe", "usr", "usr/bin", "usr/bin/tool", "usr/bin/twin"]
    assert members["usr/bin/tool"].mode == 0o4755
    assert (members["bin"].issym(), members["bin"].linkname) == (True, "usr/bin")
    assert (members["usr/bin/twin"].islnk(), members["usr/bin/twin"].linkname) == (True, "usr/bin/tool")
    assert members["pipe"].isfifo()


def test_a_configuration_says_what_runs_as_whom(root: Path, tmp_path: Path) -> None:
    image = OciImage(
        name="example/tool:1",
        layers=(root,),
        entrypoint=("tool",),
        command=("run",),
        env={"PATH": "/bin"},
        user="65532:65532",
        working_dir="/srv",
    )
    oci_archive([image], tmp_path / "image.tar")
    read = Read(tmp_path / "image.tar")
    assert read.config("example/tool:1")["config"] == {
        "Entrypoint": ["tool"],
        "Cmd": ["run"],
        "Env": ["PATH=/bin"],
        "User": "65532:65532",
        "WorkingDir": "/srv",
    }
    layers = read.manifests["example/tool:1"]["layers"]
    assert read.config("example/tool:1")["rootfs"]["diff_ids"] == [each["digest"] for each in layers]


def test_images_share_a_layer(root: Path, tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    upper.mkdir()
    (upper / "more").write_text("more")
    images = [OciImage(name="a:1", layers=(root,)), OciImage(name="b:1", layers=(root, upper), user="1:1")]
    oci_archive(images, tmp_path / "image.tar")
    read = Read(tmp_path / "image.tar")
    assert read.manifests["a:1"]["layers"] == read.manifests["b:1"]["layers"][:1]
    blobs = [name for name in read.members if name.startswith("blobs/")]
    assert len(blobs) == len(["a's manifest", "b's manifest", "a's config", "b's config", "root", "upper"])


def test_the_same_files_give_the_same_archive(root: Path, tmp_path: Path) -> None:
    image = OciImage(name="a:1", layers=(root,))
    oci_archive([image], tmp_path / "one.tar")
    oci_archive([image], tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_nothing_but_the_archive_is_left(root: Path, tmp_path: Path) -> None:
    oci_archive([OciImage(name="a:1", layers=(root,))], tmp_path / "image.tar")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["image.tar", "root"]


def test_a_socket_is_left_out(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A socket's path may have 107 characters.
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    oci_archive([OciImage(name="a:1", layers=(root,))], tmp_path / "image.tar")
    with Read(tmp_path / "image.tar").layer("a:1") as layer:
        assert "socket" not in layer.getnames()
