"""Where one local cluster lives: its data folder, the files in it, and the few choices that outlast a restart.

In: a name or a folder. Out: paths and `Choices`. Used by the supervisor, by every part and by `slurm-operator local`;
what the node agent keeps in the same folder is named by `node/paths.py`.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from kube_runtime.errors import Terminal
from slurm_operator.local.image import recipe

DEFAULT_NAME = "demo"
# In the order in which they are started; they are stopped the other way round.
PARTS = ("apiserver", "node", "controllers", "operator")
SUPERVISOR = "supervisor"

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


class LocalError(Terminal):
    """A local cluster cannot do what was asked; the text says what to do."""

    reason: ClassVar[str] = "LocalCluster"


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` was asked for; kept, so that the next `up` without options means the same."""

    name: str = DEFAULT_NAME
    slurm: str = recipe.DEFAULT_VERSION
    nodes: int = 3
    port: int = 0
    cache: str = ""


@dataclass(frozen=True, slots=True)
class Home:
    """The data folder of one cluster."""

    data: Path

    @classmethod
    def of(cls, name: str, data: Path | None) -> "Home":
        """The folder that was given, or the one of that name."""
        if not _NAME.fullmatch(name):
            raise LocalError(f"{name!r} is not a valid cluster name: use lower case letters, digits and dashes")
        return cls((data or default_folder(name)).resolve())

    @property
    def choices_file(self) -> Path:
        """What `up` was asked for."""
        return self.data / "local.json"

    @property
    def lock_file(self) -> Path:
        """Held by the supervisor while it lives; holds its pid."""
        return self.data / "supervisor.lock"

    @property
    def parts_file(self) -> Path:
        """What the supervisor last knew of its parts."""
        return self.data / "parts.json"

    @property
    def kubeconfig(self) -> Path:
        """How to reach the API server."""
        return self.data / "kubeconfig"

    @property
    def store(self) -> Path:
        """Everything that the API server knows."""
        return self.data / "cluster.db"

    @property
    def certificates(self) -> Path:
        """The API server's certificates and token."""
        return self.data / "pki"

    @property
    def volumes(self) -> Path:
        """The folders behind claims."""
        return self.data / "volumes"

    @property
    def rules(self) -> Path:
        """What image names stand for."""
        return self.data / "images.yaml"

    def log(self, part: str) -> Path:
        """What a part printed."""
        return self.data / "logs" / f"{part}.log"

    def choices(self) -> Choices | None:
        """The choices of the last `up`; None where there never was one."""
        try:
            return msgspec.json.decode(self.choices_file.read_bytes(), type=Choices)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise LocalError(f"{self.choices_file} cannot be read ({error}): fix it, or reset the cluster") from error

    def keep(self, choices: Choices) -> None:
        """Remember the choices."""
        write_whole(self.choices_file, msgspec.json.format(msgspec.json.encode(choices), indent=1))

    def require(self) -> Choices:
        """The choices of a cluster that must be there."""
        choices = self.choices()
        if choices is None:
            raise LocalError(f"there is no local cluster in {self.data}: slurm-operator local up makes one")
        return choices


def default_folder(name: str) -> Path:
    """Where the cluster of that name is kept."""
    chosen = os.environ.get("XDG_DATA_HOME")
    base = Path(chosen) if chosen else Path.home() / ".local" / "share"
    return base / "slurm-operator" / "local" / name


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file as one: whoever reads it sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode)
    fresh.write_bytes(content)
    fresh.replace(path)
