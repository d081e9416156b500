"""Who a container runs as and what it may do: user, groups, capabilities, system calls. Pure.

In: the security contexts of pod and container, and the image's user files. Out: a `User` and parts of the bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube_local.node.errors import ConfigInvalid
from kube_local.node.sources import Object

# In the kernel's order: the place in this list is the number.
ALL_CAPABILITIES = tuple(
    f"CAP_{name}"
    for name in (  # noqa: SIM905 - forty lines of one word each say no more
        "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
        "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT "
        "SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL "
        "SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
    ).split()
)
DEFAULT_CAPABILITIES = frozenset(
    f"CAP_{name}"
    for name in (  # noqa: SIM905
        "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL "
        "AUDIT_WRITE"
    ).split()
)
# What a runtime's own profile refuses to a container without CAP_SYS_ADMIN.
_REFUSED_CALLS = (  # noqa: SIM905
    "acct add_key bpf delete_module finit_module fsconfig fsmount fsopen fspick init_module ioperm iopl kexec_load "
    "kexec_file_load keyctl lookup_dcookie mount mount_setattr move_mount open_by_handle_at open_tree perf_event_open "
    "pivot_root quotactl reboot request_key setns sethostname setdomainname settimeofday swapoff swapon umount umount2 "
    "unshare userfaultfd vhangup"
).split()


@dataclass(frozen=True, slots=True)
class User:
    """A numeric user with groups."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UserFiles:
    """/etc/passwd and /etc/group of an image."""

    passwd: str = ""
    group: str = ""


def security(pod: Object, container: Object) -> dict[str, Any]:
    """The container's security context, with what it inherits from the pod."""
    shared = (pod.get("spec") or {}).get("securityContext") or {}
    inherited = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile")
    return {
        **{key: shared[key] for key in inherited if shared.get(key) is not None},
        **(container.get("securityContext") or {}),
    }


def user(pod: Object, container: Object, image_user: str | None, files: UserFiles) -> User:
    """Who the container runs as."""
    context, shared = security(pod, container), (pod.get("spec") or {}).get("securityContext") or {}
    if context.get("runAsUser") is not None:
        found = _by_number(int(context["runAsUser"]), files)
    else:
        found = of_image(image_user or "0", files)
    gid = int(context["runAsGroup"]) if context.get("runAsGroup") is not None else found.gid
    extra = [*shared.get("supplementalGroups", ())]
    if shared.get("fsGroup") is not None:
        extra.append(shared["fsGroup"])
    if context.get("runAsNonRoot") and found.uid == 0:
        name = container.get("name", "")
        raise ConfigInvalid(f"container has runAsNonRoot and image will run as root (container: {name})")
    return User(found.uid, gid, tuple(dict.fromkeys([gid, *found.groups, *(int(group) for group in extra)])))


def of_image(text: str, files: UserFiles) -> User:
    """`401`, `slurm`, `401:401` or `slurm:slurm`."""
    name, _, group = text.partition(":")
    if name.isdecimal():
        found = _by_number(int(name), files)
    else:
        row = next((row for row in _rows(files.passwd, 7) if row[0] == name), None)
        if row is None:
            raise ConfigInvalid(f"the image's user {name!r} is not in its /etc/passwd")
        found = User(int(row[2]), int(row[3]), _groups_of(name, files))
    return User(found.uid, _group(group, files), found.groups) if group else found


def _by_number(uid: int, files: UserFiles) -> User:
    row = next((row for row in _rows(files.passwd, 7) if row[2] == str(uid)), None)
    return User(uid, int(row[3]), _groups_of(row[0], files)) if row else User(uid)


def _groups_of(name: str, files: UserFiles) -> tuple[int, ...]:
    return tuple(int(row[2]) for row in _rows(files.group, 4) if name in row[3].split(","))


def _group(text: str, files: UserFiles) -> int:
    if text.isdecimal():
        return int(text)
    row = next((row for row in _rows(files.group, 4) if row[0] == text), None)
    if row is None:
        raise ConfigInvalid(f"the image's group {text!r} is not in its /etc/group")
    return int(row[2])


def _rows(text: str, width: int) -> Iterable[list[str]]:
    rows = (line.split(":") for line in text.splitlines())
    return [row for row in rows if len(row) == width and row[2].isdecimal()]


def capabilities(context: Mapping[str, Any], allowed: frozenset[int]) -> list[str]:
    """The capabilities of a container, as far as the machine has them to give."""
    wanted = set(ALL_CAPABILITIES) if context.get("privileged") else set(DEFAULT_CAPABILITIES)
    change = context.get("capabilities") or {}
    dropped, added = _named(change.get("drop")), _named(change.get("add"))
    wanted = set() if "CAP_ALL" in dropped else wanted - dropped
    wanted = set(ALL_CAPABILITIES) if "CAP_ALL" in added else wanted | added
    return [name for number, name in enumerate(ALL_CAPABILITIES) if name in wanted and number in allowed]


def _named(names: Iterable[str] | None) -> set[str]:
    return {f"CAP_{name.upper().removeprefix('CAP_')}" for name in names or ()}


def seccomp(context: Mapping[str, Any], held: Iterable[str]) -> dict[str, Any] | None:
    """A filter of system calls where the spec asks for the runtime's own, None otherwise."""
    wanted = (context.get("seccompProfile") or {}).get("type")
    if wanted != "RuntimeDefault" or context.get("privileged") or "CAP_SYS_ADMIN" in held:
        return None
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": list(_REFUSED_CALLS), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}],
    }
