"""What a user may not put into a worker's container while that one is privileged: code of their own.

In: a NodeSet and its namespace, with the images that the administrator trusts. Out: rows of `reach_table.py` with the
place of each reach. Called by `reach.py`. slurmd is privileged while it manages cgroups, without anybody having asked
for it; so its image, commands, loader and system folders are the administrator's, not those of who writes a NodeSet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import Any, Final

from slurm_operator.admission.rules.reach_table import Row, row_of
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import Path
from slurm_operator.build import images, nodeset, pods
from slurm_operator.build.loginset import SSH_VOLUME, SSSD_VOLUME
from slurm_operator.build.refs import Refs

Reach = tuple[Row, Path, Any]

# Jobs with MPI want it large.
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  # the folder that everybody has
SYSTEM_FOLDERS: Final = re.compile(r"/(bin|boot|dev|etc|lib[^/]*|proc|root|run|sbin|sys|usr|var)(/.*)?")
# What a loader, a shell, an interpreter, Slurm itself or a library that its daemons load takes code or configuration
# from: hwloc, PMIx, UCX and HDF5 load plugins of any folder, and an address of D-Bus may be a program to run.
# fmt: off
LOADER_NAMES: Final = (
    "ENV", "GCONV_PATH", "GLIBC_TUNABLES", "HOME", "HOSTALIASES", "IFS", "LOCPATH", "NLSPATH", "PATH", "SHELL",
    "SHELLOPTS", "TMPDIR",
)
LOADER_PREFIXES: Final = (
    "AMD_", "BASH", "CUDA_", "CURL_", "DBUS_", "FI_", "GIO_", "GSSAPI_", "GSS_", "HDF5_", "HWLOC_", "IBV_",
    "JAVA", "JDK_", "KRB5_", "LD_", "LUA", "MUNGE", "NODE_", "NSS_", "NVML_", "OMPI_", "ONEAPI_", "OPAL_",
    "OPENSSL_", "ORTE_", "P11_", "PAM_", "PERL", "PMIX_", "PMI_", "PRTE_", "PYTHON", "RDMAV_", "ROCM_", "RSMI_",
    "RUBY", "SACK", "SASL_", "SLURM", "SSL_", "SSS_", "TCL", "UCC_", "UCS_", "UCT_", "UCX_", "XDG_", "ZE_",
)
# What a user may say to a worker's sshd: who logs in and how the line is kept, nothing that names a program, a file or
# root.
SSHD_OPTIONS: Final = frozenset(
    {
        "acceptenv", "allowagentforwarding", "allowgroups", "allowstreamlocalforwarding", "allowtcpforwarding",
        "allowusers", "authenticationmethods", "ciphers", "clientalivecountmax", "clientaliveinterval",
        "compression", "denygroups", "denyusers", "disableforwarding", "gatewayports", "gssapiauthentication",
        "gssapicleanupcredentials", "hostkeyalgorithms", "ipqos", "kbdinteractiveauthentication",
        "kerberosauthentication", "kexalgorithms", "logingracetime", "loglevel", "logverbose", "macs", "match",
        "maxauthtries", "maxsessions", "maxstartups", "passwordauthentication", "permitlisten", "permitopen",
        "permittty", "persourcemaxstartups", "persourcenetblocksize", "printlastlog", "printmotd",
        "pubkeyacceptedalgorithms", "pubkeyauthentication", "rekeylimit", "requiredrsasize", "syslogfacility",
        "tcpkeepalive", "usedns", "versionaddendum", "x11displayoffset", "x11forwarding", "x11uselocalhost",
    }
)
# fmt: on
OWN_VOLUMES: Final = frozenset({pods.ETC_VOLUME, pods.LOG_VOLUME, SSH_VOLUME, SSSD_VOLUME})
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def reaches(cr: NodeSet, refs: Refs) -> Iterator[Reach]:
    """Everything of the user's that would run in a privileged slurmd."""
    if not nodeset.is_privileged(cr, refs):
        return
    for path, container in nodeset.slurmd_overlays(cr):
        yield from _commands(container, path, refs.worker_images)
        yield from _environment(container, path)
        yield from _mounts(container, path)
    yield from ((row_of("logfile.command"), path, None) for path in nodeset.own_log_commands(cr))
    yield from _volumes(cr)
    yield from _shared_processes(cr)
    yield from _sshd(cr)


def _commands(container: Mapping[str, Any], path: Path, trusted: tuple[str, ...]) -> Iterator[Reach]:
    image = container.get("image")
    if image and not images.is_trusted(str(image), trusted):
        yield row_of("slurmd.image"), (*path, "image"), image
    for name in ("command", "args"):
        if container.get(name):
            yield row_of(f"slurmd.{name}"), (*path, name), None
    for name in _PROBES:
        if _has_command(container.get(name)):
            yield row_of("slurmd.*Probe.exec"), (*path, name, "exec"), None
    hooks = container.get("lifecycle")
    for name, hook in hooks.items() if isinstance(hooks, Mapping) else ():
        if _has_command(hook):
            yield row_of("slurmd.lifecycle.*.exec"), (*path, "lifecycle", name, "exec"), None


def _has_command(handler: Any) -> bool:
    return isinstance(handler, Mapping) and bool(handler.get("exec"))


def _environment(container: Mapping[str, Any], path: Path) -> Iterator[Reach]:
    for index, entry in _items(container, "env"):
        if is_loader_name(str(entry.get("name"))):
            yield row_of("slurmd.env[*].name"), (*path, "env", index, "name"), entry.get("name")
    for index, source in _items(container, "envFrom"):
        prefix = str(source.get("prefix") or "")
        # With the prefix `L` a key `D_PRELOAD` would do, with `GCONV_` a key `PATH`.
        known = any(each.startswith(prefix) for each in (*LOADER_NAMES, *LOADER_PREFIXES))
        if "_" not in prefix or known or prefix.startswith(LOADER_PREFIXES):
            yield row_of("slurmd.envFrom[*]"), (*path, "envFrom", index), None


def is_loader_name(name: str) -> bool:
    """Whether programs load code or configuration from an environment variable of this name."""
    return name in LOADER_NAMES or name.startswith(LOADER_PREFIXES)


def is_system_folder(path: str) -> bool:
    """Whether programs or their configuration are at a path."""
    folder = _folder(path)
    return folder == "/" or (bool(SYSTEM_FOLDERS.fullmatch(folder)) and folder != SHARED_MEMORY)


def _folder(path: str) -> str:
    return normpath("/" + path.lstrip("/"))


def _mounts(container: Mapping[str, Any], path: Path) -> Iterator[Reach]:
    for index, mount in _items(container, "volumeMounts"):
        if is_system_folder(str(mount.get("mountPath"))):
            place = (*path, "volumeMounts", index, "mountPath")
            yield row_of("slurmd.volumeMounts[*].mountPath"), place, _folder(str(mount.get("mountPath")))
    for index, _ in _items(container, "volumeDevices"):
        yield row_of("slurmd.volumeDevices[*]"), (*path, "volumeDevices", index), None


def _volumes(cr: NodeSet) -> Iterator[Reach]:
    row = row_of("pod.volumes[*].name of the operator's")
    for index, volume in _items(cr.spec.template.spec, "volumes"):
        if volume.get("name") in OWN_VOLUMES:
            yield row, ("spec", "template", "spec", "volumes", index, "name"), volume.get("name")
    for index, claim in enumerate(cr.spec.volume_claim_templates or ()):
        name = (claim.get("metadata") or {}).get("name")
        if name in OWN_VOLUMES:
            yield row, ("spec", "volumeClaimTemplates", index, "metadata", "name"), name


def _shared_processes(cr: NodeSet) -> Iterator[Reach]:
    """Root of another container reaches slurmd's files by /proc/PID/root of any job there."""
    if cr.spec.template.spec.get("shareProcessNamespace"):
        place = ("spec", "template", "spec", "shareProcessNamespace")
        yield row_of("pod.shareProcessNamespace of a privileged worker"), place, None


def _sshd(cr: NodeSet) -> Iterator[Reach]:
    """Lines for the sshd beside slurmd, which runs as root: AuthorizedKeysCommand, PermitRootLogin, Include ..."""
    if not cr.spec.ssh.enabled:
        return
    for line in (cr.spec.ssh.extra_sshd_config or "").splitlines():
        option = re.split(r"[\s=]", line.strip(), maxsplit=1)[0]
        if option and not option.startswith("#") and option.lower() not in SSHD_OPTIONS:
            yield row_of("ssh.extraSshdConfig"), ("spec", "ssh", "extraSshdConfig"), option


def _items(value: Mapping[str, Any], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, item in enumerate(value.get(name) or ()):
        if isinstance(item, Mapping):
            yield index, item
