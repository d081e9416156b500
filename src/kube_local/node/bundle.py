"""The OCI bundle of a container: what runc is told. Pure.

In: a `Plan` of everything that was looked up. Out: config.json as a dictionary. Rlimits and oomScoreAdj are left out on
purpose: a machine without CAP_SYS_RESOURCE refuses them. Called by `container`; goldens in
tests/kube_local/node hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kube_local.node import identity
from kube_local.node.identity import User
from kube_local.node.sources import Object
from kube_runtime import quantity

OCI_VERSION = "1.0.2"
_MASKED = ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list")
_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")


class ResolvedImage(Protocol):
    """A root file system that stands for an image, with what its image would say."""

    @property
    def rootfs(self) -> Path: ...
    @property
    def digest(self) -> str: ...
    @property
    def entrypoint(self) -> Sequence[str]: ...
    @property
    def command(self) -> Sequence[str]: ...
    @property
    def working_dir(self) -> str: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def user(self) -> str | None: ...
    @property
    def note(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Bind:
    """A path of the machine that the container sees; with `inner`, what is there within `source` (`volumes.pin`)."""

    source: str
    target: str
    read_only: bool = False
    propagation: str = "rprivate"
    inner: str = ""
    # Whether what `inner` names is made when it is missing.
    make: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """A device file that a privileged container gets."""

    path: str
    kind: str
    major: int
    minor: int
    mode: int = 0o666
    gid: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """One container, with everything looked up."""

    pod: Object
    container: Object
    rootfs: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    user: User
    working_dir: str = "/"
    binds: tuple[Bind, ...] = ()
    # kind of namespace -> file; a kind that is missing is the host's, an empty file means a new one.
    namespaces: Mapping[str, str] = field(default_factory=dict)
    cgroup: str = ""
    allowed: frozenset[int] = frozenset()
    devices: tuple[Device, ...] = ()
    # The controllers that this machine has; a limit of another one cannot be kept.
    controllers: frozenset[str] = frozenset({"cpu", "memory"})


def config(plan: Plan) -> dict[str, Any]:
    """config.json."""
    context = identity.security(plan.pod, plan.container)
    return {
        "ociVersion": OCI_VERSION,
        "process": _process(plan, context),
        "root": {"path": plan.rootfs, "readonly": bool(context.get("readOnlyRootFilesystem"))},
        "mounts": [*_system_mounts(context), *_bind_mounts(plan.binds)],
        "linux": _linux(plan, context),
    }


def _process(plan: Plan, context: Mapping[str, Any]) -> dict[str, Any]:
    held = identity.capabilities(context, plan.allowed)
    sets = ("bounding", "effective", "permitted")
    return {
        "terminal": bool(plan.container.get("tty")),
        "user": {"uid": plan.user.uid, "gid": plan.user.gid, "additionalGids": list(plan.user.groups)},
        "args": list(plan.args),
        "env": [f"{name}={value}" for name, value in plan.env.items()],
        "cwd": plan.working_dir,
        "capabilities": dict.fromkeys(sets, held),
        "noNewPrivileges": context.get("allowPrivilegeEscalation") is False and not context.get("privileged"),
    }


def _system_mounts(context: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    plain = ["nosuid", "noexec", "nodev"]
    system = [*plain, "rw" if context.get("privileged") else "ro"]
    yield _mount("/proc", "proc", "proc", plain)
    yield _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"])
    terminals = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]
    yield _mount("/dev/pts", "devpts", "devpts", terminals)
    yield _mount("/dev/mqueue", "mqueue", "mqueue", plain)
    yield _mount("/sys", "sysfs", "sysfs", system)
    yield _mount("/sys/fs/cgroup", "cgroup", "cgroup", [*system, "relatime"])


def _mount(target: str, kind: str, source: str, options: list[str]) -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": source, "options": options}


def _bind_mounts(binds: Sequence[Bind]) -> Iterator[dict[str, Any]]:
    for bind in binds:
        options = ["rbind", bind.propagation, "ro" if bind.read_only else "rw"]
        yield {"destination": bind.target, "type": "bind", "source": bind.source, "options": options}


def _linux(plan: Plan, context: Mapping[str, Any]) -> dict[str, Any]:
    privileged = bool(context.get("privileged"))
    result: dict[str, Any] = {
        "namespaces": [
            {"type": kind, "path": path} if path else {"type": kind} for kind, path in plan.namespaces.items()
        ],
        "resources": {
            key: value
            for key, value in resources(plan.container, privileged=privileged).items()
            if key in plan.controllers or key == "devices"
        },
    }
    if plan.cgroup:
        result["cgroupsPath"] = plan.cgroup
    if privileged:
        result["devices"] = [_device(device) for device in plan.devices]
    else:
        result["maskedPaths"] = [*(f"/proc/{name}" for name in _MASKED), "/sys/firmware"]
        result["readonlyPaths"] = [f"/proc/{name}" for name in _READ_ONLY]
    refused = identity.seccomp(context, identity.capabilities(context, plan.allowed))
    return {**result, "seccomp": refused} if refused else result


def _device(device: Device) -> dict[str, Any]:
    return {
        "path": device.path,
        "type": device.kind,
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode,
        "uid": 0,
        "gid": device.gid,
    }


def resources(container: Object, *, privileged: bool) -> dict[str, Any]:
    """Limits for the container's cgroup, as a kubelet computes them."""
    given = container.get("resources") or {}
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    result: dict[str, Any] = {"devices": [{"allow": privileged, "access": "rwm"}]}
    memory = quantity.parse(limits["memory"]) if "memory" in limits else None
    if memory:
        result["memory"] = {"limit": int(memory)}
    share = requests.get("cpu", limits.get("cpu"))
    cpu: dict[str, int] = {}
    if share is not None:
        cpu["shares"] = max(2, int((quantity.parse(share) or 0) * 1024))
    if "cpu" in limits:
        cpu |= {"quota": max(1000, int((quantity.parse(limits["cpu"]) or 0) * 100_000)), "period": 100_000}
    return {**result, "cpu": cpu} if cpu else result
