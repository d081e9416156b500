"""Root file systems as an OCI image archive, which any container runtime takes in: `ctr images import`, `podman load`.

In: images by name, each of layers (folders of files) and what its configuration says. Out: one tar file in the OCI
layout. A layer that several images share is in it once. The same files give the same archive, byte for byte, so a
runtime knows what it has already. Called by the tests on a real kubelet.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

_CHUNK_BYTES = 1 << 20
_LAYOUT = "application/vnd.oci.image."
# Read by containerd and by podman.
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class OciImage(msgspec.Struct, frozen=True, kw_only=True):
    """One image: its full name, its layers from the lowest up, and what runs in it."""

    name: str
    layers: tuple[Path, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    user: str = "0:0"
    working_dir: str = "/"
    labels: Mapping[str, str] = {}


class Blob(msgspec.Struct, frozen=True):
    """A piece of content, named by its hash; large ones lie in a file."""

    media_type: str
    digest: str
    size: int
    content: bytes | Path

    def descriptor(self, **more: Any) -> dict[str, Any]:
        """How another piece names it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size, **more}


def oci_archive(images: Sequence[OciImage], target: Path) -> None:
    """Write an archive with these images; the layers lie beside it while it is written."""
    layers: dict[Path, Blob] = {}
    try:
        for folder in dict.fromkeys(layer for image in images for layer in image.layers):
            layers[folder] = layer_blob(folder, target.with_name(f"{target.name}.layer-{len(layers)}"))
        _write(images, layers, target)
    finally:
        for blob in layers.values():
            if isinstance(blob.content, Path):
                blob.content.unlink(missing_ok=True)


def _write(images: Sequence[OciImage], layers: Mapping[Path, Blob], target: Path) -> None:
    blobs = {blob.digest: blob for blob in layers.values()}
    manifests = []
    for image in images:
        config = _json("config.v1+json", config_of(image, [layers[folder].digest for folder in image.layers]))
        manifest = _json("manifest.v1+json", _manifest(config, [layers[folder] for folder in image.layers]))
        blobs |= {config.digest: config, manifest.digest: manifest}
        manifests.append(manifest.descriptor(annotations=dict.fromkeys(_NAMES, image.name)))
    index = {"schemaVersion": 2, "mediaType": f"{_LAYOUT}index.v1+json", "manifests": manifests}
    with tarfile.open(target, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for digest, blob in sorted(blobs.items()):
            _add(archive, f"blobs/{digest.replace(':', '/')}", blob.content)
        _add(archive, "index.json", msgspec.json.encode(index))


def config_of(image: OciImage, diff_ids: Sequence[str]) -> dict[str, Any]:
    """What a runtime reads before it starts a container."""
    config = {
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.command),
        "Env": [f"{name}={value}" for name, value in image.env.items()],
        "User": image.user,
        "WorkingDir": image.working_dir,
        "Labels": dict(image.labels),
    }
    return {
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {key: value for key, value in config.items() if value},
        "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
    }


def _manifest(config: Blob, layers: Sequence[Blob]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": f"{_LAYOUT}manifest.v1+json",
        "config": config.descriptor(),
        "layers": [layer.descriptor() for layer in layers],
    }


def _json(kind: str, value: dict[str, Any]) -> Blob:
    content = msgspec.json.encode(value)
    return Blob(f"{_LAYOUT}{kind}", f"sha256:{hashlib.sha256(content).hexdigest()}", len(content), content)


def _add(archive: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    member = tarfile.TarInfo(name)
    member.mode = 0o644
    if isinstance(content, Path):
        member.size = content.stat().st_size
        with content.open("rb") as file:
            archive.addfile(member, file)
    else:
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


# --- layers -----------------------------------------------------------------------------------------------------------


class _Hashing(io.RawIOBase):
    """Passes on what is written, and remembers its hash."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self._file.write(data)


def layer_blob(folder: Path, target: Path) -> Blob:
    """A folder as a layer; what cannot be in an image (sockets, whatever runs) is left out."""
    with target.open("wb") as file:
        hashing = _Hashing(file)
        with tarfile.open(mode="w|", fileobj=hashing, format=tarfile.PAX_FORMAT, bufsize=_CHUNK_BYTES) as archive:
            _add_tree(archive, folder)
    return Blob(f"{_LAYOUT}layer.v1.tar", f"sha256:{hashing.hash.hexdigest()}", hashing.size, target)


def _add_tree(archive: tarfile.TarFile, folder: Path) -> None:
    linked: dict[tuple[int, int], str] = {}
    for path in _files(folder):
        member = _member(path, str(path.relative_to(folder)), linked)
        if member.isreg():
            with path.open("rb") as content:
                archive.addfile(member, content)
        else:
            archive.addfile(member)


def _files(folder: Path) -> Iterator[Path]:
    """Everything below a folder, in an order that is always the same."""
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))


def _member(path: Path, name: str, linked: dict[tuple[int, int], str]) -> tarfile.TarInfo:
    found = path.lstat()
    member = tarfile.TarInfo(name)
    member.mode, member.uid, member.gid = stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    # Whole seconds: a fraction would need a further header for each file.
    member.mtime = int(found.st_mtime)
    if stat.S_ISDIR(found.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(found.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)  # noqa: PTH115 - a Path would mend the text
    elif stat.S_ISREG(found.st_mode):
        _as_file(member, found, name, linked)
    else:
        member.type = {stat.S_IFCHR: tarfile.CHRTYPE, stat.S_IFBLK: tarfile.BLKTYPE}.get(
            stat.S_IFMT(found.st_mode), tarfile.FIFOTYPE
        )
        member.devmajor, member.devminor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return member


def _as_file(member: tarfile.TarInfo, found: os.stat_result, name: str, linked: dict[tuple[int, int], str]) -> None:
    """A file with several names is in it once."""
    first = linked.setdefault((found.st_dev, found.st_ino), name)
    if first == name:
        member.size = found.st_size
    else:
        member.type, member.linkname = tarfile.LNKTYPE, first
