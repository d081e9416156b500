"""Where one local cluster keeps what: every name on the machine is derived from its data folder.

Used by everything in this package, by the supervisor and by `cleanup`, which finds leftovers by these names. Names and
paths out of a pod's spec become part of a path through `segment` and `inner_path` alone: nothing before the agent has
made them safe.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from kube_local.node.errors import ConfigInvalid, MountFailed

# A unix socket's address has room for 107 bytes.
_MAX_SOCKET_PATH_BYTES = 100
_MAX_NAME_BYTES = 255


def _fits(name: str) -> bool:
    """Whether the machine can have a file of this name."""
    try:
        return "\0" not in name and len(os.fsencode(name)) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def segment(name: str, what: str) -> str:
    """A name that is one folder or file, or ConfigInvalid; `what` says whose name it is."""
    if name in {"", ".", ".."} or "/" in name or not _fits(name):
        raise ConfigInvalid(f"{what} {name!r} is not a valid name: expected a DNS label such as 'data-0'")
    return name


def inner_path(path: str, what: str) -> str:
    """A relative path that stays where it begins, or MountFailed; `what` says which field it is of."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or not all(map(_fits, parts)):
        raise MountFailed(f"{what} {path!r} must stay within its volume: expected a relative path without '..'")
    return path


def file_path(path: str, what: str) -> str:
    """The path of a file in a volume that is swapped as one, or MountFailed; names that begin with '..' are its own."""
    inner_path(path, what)
    if any(part in {"", "."} for part in path.split("/")) or path.startswith(".."):
        raise MountFailed(f"{what} {path!r} is not a valid path of a file: it may not begin with '..', '.' or '/'")
    return path


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders and names of one cluster."""

    data: Path

    @classmethod
    def of(cls, data: Path) -> Paths:
        """The paths of a data folder, whichever way it is written."""
        return cls(data.resolve())

    @property
    def prefix(self) -> str:
        """Names of network namespaces, links and cgroups start with this."""
        return "slk" + hashlib.sha256(str(self.data).encode()).hexdigest()[:8]

    @property
    def bridge(self) -> str:
        """The bridge that all pods hang on."""
        return self.prefix

    @property
    def network(self) -> Path:
        """The remembered address range."""
        return self.data / "network.json"

    @property
    def pods(self) -> Path:
        """One folder per pod uid."""
        return self.data / "pods"

    @property
    def runc(self) -> Path:
        """runc's own state."""
        return self.data / "runc"

    @property
    def exits(self) -> Path:
        """One file per ended container, written by conmon."""
        return self.data / "exits"

    @property
    def socket(self) -> Path:
        """Where the agent serves logs, exec and port-forward."""
        wanted = self.data / "node.sock"
        return wanted if len(str(wanted)) <= _MAX_SOCKET_PATH_BYTES else Path(f"/run/{self.prefix}.sock")

    def pod(self, uid: str) -> PodPaths:
        """The folder of one pod."""
        return PodPaths(self.pods / segment(uid, "pod uid"), f"{self.prefix}-{uid}")


@dataclass(frozen=True, slots=True)
class PodPaths:
    """The folders and names of one pod."""

    folder: Path
    netns: str

    @property
    def netns_file(self) -> Path:
        """The network namespace, as `ip netns` keeps it."""
        return Path("/run/netns") / self.netns

    @property
    def ipc(self) -> Path:
        """The IPC namespace that the containers share."""
        return self.folder / "ns" / "ipc"

    @property
    def uts(self) -> Path:
        """The host name that the containers share."""
        return self.folder / "ns" / "uts"

    @property
    def etc(self) -> Path:
        """hosts, hostname and resolv.conf."""
        return self.folder / "etc"

    @property
    def shm(self) -> Path:
        """Shared memory of all containers."""
        return self.folder / "shm"

    @property
    def memory(self) -> Path:
        """A tmpfs for Secrets and what is made of them: they never reach the disk."""
        return self.folder / "memory"

    @property
    def volumes(self) -> Path:
        """emptyDir volumes, one folder each."""
        return self.folder / "volumes"

    def empty_dir(self, name: str) -> Path:
        """The folder of one emptyDir volume."""
        return self.volumes / segment(name, "volume name")

    def content(self, name: str) -> Path:
        """The folder of one volume that is made of API objects."""
        return self.memory / segment(name, "volume name")

    def container(self, name: str) -> Path:
        """The folder of one container."""
        return self.folder / "containers" / segment(name, "container name")

    def attempt(self, name: str, number: int) -> Path:
        """The bundle of one start of a container."""
        return self.container(name) / str(number)

    def log(self, name: str, number: int) -> Path:
        """What one start of a container printed."""
        return self.container(name) / f"{number}.log"
