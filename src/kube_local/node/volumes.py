"""The volumes of a pod on this machine: made before the first container, refreshed while it lives.

In: the pod, and what it refers to. Out: folders, and `Bind`s for the bundles of its containers. ConfigMaps, Secrets,
projected and downwardAPI volumes are swapped by one link, as a kubelet does: readers see the old set or the new one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from kube_local.node import content, environment, host
from kube_local.node.bundle import Bind
from kube_local.node.content import File
from kube_local.node.errors import MountFailed
from kube_local.node.paths import PodPaths, inner_path
from kube_local.node.sources import Lookup, Object, Place
from kube_local.node.volume_path import give, opened
from kube_runtime import quantity

_SUPPORTED = "configMap, secret, projected, downwardAPI, emptyDir, persistentVolumeClaim and hostPath"
_PROPAGATION = {"HostToContainer": "rslave", "Bidirectional": "rshared"}


@dataclass(frozen=True, slots=True)
class Referred:
    """What was read from the API for one pod: the `Lookup` of its volumes and variables."""

    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    # claim -> folder on this machine
    claims: Mapping[str, Path] = field(default_factory=dict)

    def config_map(self, name: str) -> Mapping[str, bytes] | None:
        """The files of a ConfigMap."""
        return self.config_maps.get(name)

    def secret(self, name: str) -> Mapping[str, bytes] | None:
        """The files of a Secret."""
        return self.secrets.get(name)


def prepare(pod: Object, paths: PodPaths, referred: Referred, place: Place) -> None:
    """Make every volume of the pod; doing it twice does no harm."""
    for point in (paths.memory, paths.shm):
        if not point.is_mount():
            host.tmpfs(point, "mode=1777" if point == paths.shm else "mode=755")
    for volume in _volumes(pod):
        _prepare_one(pod, volume, paths, referred, place)


def refresh(pod: Object, paths: PodPaths, referred: Referred, place: Place) -> list[str]:
    """Bring volumes made of API objects up to date; answers the names of those that changed."""
    made = [volume for volume in _volumes(pod) if _is_content(volume)]
    return [volume["name"] for volume in made if _fill(pod, volume, paths, referred, place)]


def _volumes(pod: Object) -> list[Mapping[str, Any]]:
    return list((pod.get("spec") or {}).get("volumes") or ())


def _is_content(volume: Object) -> bool:
    return any(kind in volume for kind in content.KINDS)


def _fs_group(pod: Object) -> int | None:
    group = ((pod.get("spec") or {}).get("securityContext") or {}).get("fsGroup")
    return None if group is None else int(group)


def _prepare_one(pod: Object, volume: Object, paths: PodPaths, referred: Referred, place: Place) -> None:
    if _is_content(volume):
        _fill(pod, volume, paths, referred, place)
    elif "emptyDir" in volume:
        _empty_dir(volume, paths, _fs_group(pod))
    elif "persistentVolumeClaim" in volume:
        own_claim(folder(volume, paths, referred), _fs_group(pod))
    elif "hostPath" in volume:
        _host_path(volume["hostPath"])
    else:
        raise _unsupported(volume)


def _unsupported(volume: Object) -> MountFailed:
    kind = next((key for key in volume if key != "name"), "nothing")
    return MountFailed(
        f"volume {volume.get('name')!r} is of type {kind}, which local mode cannot mount; it knows {_SUPPORTED}"
    )


def folder(volume: Object, paths: PodPaths, referred: Referred) -> Path:
    """Where a volume lives on this machine."""
    name = str(volume["name"])
    if _is_content(volume):
        return paths.content(name)
    if "persistentVolumeClaim" in volume:
        claim = str(volume["persistentVolumeClaim"]["claimName"])
        if claim not in referred.claims:
            raise MountFailed(f'persistentvolumeclaim "{claim}" is not bound to a volume on this machine')
        return referred.claims[claim]
    if "hostPath" in volume:
        return _machine_path(volume["hostPath"])
    if "emptyDir" in volume:
        return paths.empty_dir(name)
    raise _unsupported(volume)


# --- emptyDir, hostPath, claims -----------------------------------------------------------------------------------


def _empty_dir(volume: Object, paths: PodPaths, group: int | None) -> None:
    target = paths.empty_dir(str(volume["name"]))
    wanted = volume["emptyDir"] or {}
    if wanted.get("medium") == "Memory" and not target.is_mount():
        limit = quantity.parse(wanted["sizeLimit"]) if wanted.get("sizeLimit") else None
        host.tmpfs(target, f"mode=777,size={int(limit)}" if limit else "mode=777")
    elif not target.is_dir():
        target.mkdir(parents=True)
        target.chmod(0o777)
    own(target, group)


def own(target: Path, group: int | None) -> None:
    """Give a volume to the pod's fsGroup, once: whole trees are only walked when the top is not the group's yet."""
    if group is None:
        return
    found = target.stat()
    if found.st_gid == group and found.st_mode & 0o2070 == 0o2070:
        return
    # By descriptor: a container that writes to the volume may swap a folder for a link while it is walked.
    for _, folders, files, held in os.fwalk(target, follow_symlinks=False):
        for name in files:
            give(name, group, 0o660, held)
        for name in folders:
            give(name, group, 0o2770, held)
    give(str(target), group, 0o2770)


def own_claim(target: Path, group: int | None) -> None:
    """Give a claim's folder to the pod's fsGroup; nobody else writes there then, as on a disk of its own."""
    own(target, group)
    mode = target.stat().st_mode & 0o7777
    if group is not None and mode & 0o002:
        target.chmod(mode & ~0o002)


def _machine_path(wanted: Object) -> Path:
    path = Path(str(wanted["path"]))
    if not path.is_absolute() or ".." in path.parts or "\0" in str(path):
        raise MountFailed(f"hostPath {str(path)!r} is not a valid path: expected an absolute path without '..'")
    return path


def _host_path(wanted: Object) -> None:
    path, kind = _machine_path(wanted), wanted.get("type") or ""
    if kind == "DirectoryOrCreate" or (not kind and not path.exists()):
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
    elif kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    tests = {
        "Directory": path.is_dir,
        "File": path.is_file,
        "Socket": path.is_socket,
        "CharDevice": path.is_char_device,
        "BlockDevice": path.is_block_device,
    }
    if not tests.get(kind, path.exists)():
        raise MountFailed(f"hostPath {path} is not a {kind or 'path'} on this machine")


# --- volumes made of API objects ----------------------------------------------------------------------------------


def _fill(pod: Object, volume: Object, paths: PodPaths, referred: Lookup, place: Place) -> bool:
    files = content.files(pod, volume, referred, place)
    target = paths.content(str(volume["name"]))
    if not target.is_dir():
        target.mkdir(parents=True)
        target.chmod(0o777)
        if _fs_group(pod) is not None:
            give(str(target), _fs_group(pod) or 0, 0o2770)
    return swap(target, files, _fs_group(pod))


def swap(target: Path, files: Mapping[str, File], group: int | None = None) -> bool:
    """Replace the files of a folder as one; False when they are the same already."""
    link = target / "..data"
    if link.is_symlink() and _read(link) == {name: (file.data, _mode(file, group)) for name, file in files.items()}:
        return False
    fresh = _fresh_folder(target)
    for name, file in files.items():
        _write(fresh, name, file, group)
    if group is not None:
        give(str(fresh), group, 0o2750)
    before = target / link.readlink() if link.is_symlink() else None
    beside = target / "..data_tmp"
    beside.unlink(missing_ok=True)
    beside.symlink_to(fresh.name)
    beside.replace(link)
    _link_names(target, files)
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)
    return True


def _fresh_folder(target: Path) -> Path:
    """A folder of a name that was never there: whoever watches the link knows versions by their names."""
    for _ in range(1000):
        stamp = datetime.now(UTC).strftime("..%Y_%m_%d_%H_%M_%S.") + str(secrets.randbelow(10**10))
        try:
            (target / stamp).mkdir(mode=0o755)
        except FileExistsError:
            continue
        (target / stamp).chmod(0o755)
        return target / stamp
    raise MountFailed(f"no fresh folder could be made in {target}")


def _mode(file: File, group: int | None) -> int:
    return file.mode if group is None else file.mode | 0o440


def _write(fresh: Path, name: str, file: File, group: int | None) -> None:
    path = fresh / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)
    if group is not None:
        os.chown(path, -1, group)
    path.chmod(_mode(file, group))


def _read(link: Path) -> dict[str, tuple[bytes, int]]:
    root = link.resolve()
    found = {}
    for path in root.rglob("*"):
        if path.is_file():
            found[str(path.relative_to(root))] = (path.read_bytes(), path.stat().st_mode & 0o7777)
    return found


def _link_names(target: Path, files: Mapping[str, File]) -> None:
    wanted = {name.partition("/")[0] for name in files}
    for name in wanted:
        if not (target / name).is_symlink():
            (target / name).symlink_to(Path("..data") / name)
    for entry in target.iterdir():
        if entry.is_symlink() and not entry.name.startswith("..") and entry.name not in wanted:
            entry.unlink()


# --- mounts of one container --------------------------------------------------------------------------------------


def binds(
    pod: Object, container: Object, paths: PodPaths, referred: Referred, values: Mapping[str, str]
) -> tuple[Bind, ...]:
    """What a container sees of the machine, outer paths before inner ones."""
    found = {str(volume["name"]): volume for volume in _volumes(pod)}
    mounts = list(container.get("volumeMounts") or ())
    taken = {str(mount["mountPath"]).rstrip("/") for mount in mounts}
    result = [bind for bind in _pod_binds(paths) if bind.target not in taken]
    for mount in mounts:
        volume = found.get(str(mount["name"]))
        if volume is None:
            raise MountFailed(f"volumeMount {mount['name']!r} names no volume of the pod")
        result.append(_bind(mount, volume, paths, referred, values))
    return tuple(sorted(result, key=lambda bind: len(PurePosixPath(bind.target).parts)))


def _pod_binds(paths: PodPaths) -> list[Bind]:
    files = [Bind(str(paths.etc / name), f"/etc/{name}") for name in ("hosts", "hostname", "resolv.conf")]
    return [*files, Bind(str(paths.shm), "/dev/shm")]  # noqa: S108 - that is its name


def _bind(mount: Object, volume: Object, paths: PodPaths, referred: Referred, values: Mapping[str, str]) -> Bind:
    inner = environment.expand(str(mount["subPathExpr"]), values) if mount.get("subPathExpr") else mount.get("subPath")
    return Bind(
        str(folder(volume, paths, referred)),
        str(mount["mountPath"]),
        bool(mount.get("readOnly")) or _is_content(volume) or _is_read_only(volume),
        _PROPAGATION.get(mount.get("mountPropagation") or "", "rprivate"),
        inner=inner_path(str(inner or ""), "subPath"),
        make=not _is_content(volume),
    )


def _is_read_only(volume: Object) -> bool:
    return bool((volume.get("persistentVolumeClaim") or {}).get("readOnly"))


def pin(bind: Bind, place: Path) -> Bind:
    """Mount what a sub-path names now at a place of our own, by descriptor: what is checked is what the container sees.

    The runtime opens paths itself, later; in between, a container that writes to the volume could swap a link in.
    """
    if not bind.inner:
        return bind
    with opened(Path(bind.source), bind.inner, make=bind.make) as found:
        place.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISDIR(os.fstat(found).st_mode):
            place.mkdir()
        else:
            place.touch()
        host.mount(f"/proc/self/fd/{found}", place, flags=host.MS_BIND | host.MS_REC)
    # What is unmounted here later must stay mounted in the volume.
    host.mount("none", place, flags=host.MS_SLAVE | host.MS_REC)
    return replace(bind, source=str(place), inner="")
