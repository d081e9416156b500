"""Where one local cluster keeps what: every name on the machine is derived from its data folder.

Used by everything in this package, by the supervisor and by `cleanup`, which finds leftovers by these names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

# A unix socket's address has room for 107 bytes.
_LONGEST_SOCKET = 100


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
        """Where the agent serves logs, exec, attach and port-forward."""
        wanted = self.data / "node.sock"
        return wanted if len(str(wanted)) <= _LONGEST_SOCKET else Path(f"/run/{self.prefix}.sock")

    def pod(self, uid: str) -> PodPaths:
        """The folder of one pod."""
        return PodPaths(self.pods / uid, f"{self.prefix}-{uid}")


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

    def container(self, name: str) -> Path:
        """The folder of one container."""
        return self.folder / "containers" / name

    def attempt(self, name: str, number: int) -> Path:
        """The bundle of one start of a container."""
        return self.container(name) / str(number)

    def log(self, name: str, number: int) -> Path:
        """What one start of a container printed."""
        return self.container(name) / f"{number}.log"
