"""What the agent remembers of a pod and its containers, one small file each, replaced as a whole.

Written by `pod` and `container` before and after every step, read when the agent starts: a killed agent goes on where
it was. A record of a machine that was rebooted since is only good for counts and for how containers ended.
"""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

R = TypeVar("R")


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How one start of a container ended."""

    exit_code: int
    reason: str
    message: str = ""
    signal: int = 0
    started_at: str = ""
    finished_at: str = ""
    container_id: str = ""


class ContainerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One container: where it is, and how it ended before."""

    name: str
    # waiting -> creating -> running -> ended -> creating …
    state: str = "waiting"
    reason: str = ""
    message: str = ""
    restarts: int = 0
    container_id: str = ""
    pid: int = 0
    pid_start: str = ""
    monitor: int = 0
    monitor_start: str = ""
    boot: str = ""
    started_at: str = ""
    # The startup probe and the postStart hook have succeeded.
    started: bool = False
    hooked: bool = False
    image: str = ""
    image_id: str = ""
    ended: Ended | None = None
    last: Ended | None = None
    backoff: float = 0.0


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One pod: who it is and what it was given."""

    uid: str
    namespace: str
    name: str
    node: str
    hostname: str = ""
    ip: str = ""
    boot: str = ""
    started_at: str = ""
    # Why the whole pod has ended, when no container says so.
    reason: str = ""
    message: str = ""


def save(path: Path, record: msgspec.Struct) -> None:
    """Replace a record as one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(record))
    fresh.replace(path)


def load(path: Path, kind: type[R]) -> R | None:
    """A record, or None when there is none or it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def pod_file(folder: Path) -> Path:
    """The record of the pod in this folder."""
    return folder / "pod.json"


def container_file(folder: Path) -> Path:
    """The record of the container in this folder."""
    return folder / "container.json"


def all_pods(pods: Path) -> list[PodRecord]:
    """Every pod that has a folder."""
    if not pods.is_dir():
        return []
    found = (load(pod_file(Path(entry.path)), PodRecord) for entry in os.scandir(pods) if entry.is_dir())
    return [record for record in found if record is not None]
