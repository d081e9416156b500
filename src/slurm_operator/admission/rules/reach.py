"""How far a user's pod template may reach: out of its pod, into the node or into others' rights, only where allowed.

In: a resource and what the operator's flag `--allow-pod-features` lets in. Out: one problem for each reach. Called by
`rules.check`, so that the webhook, the reconcilers and the command line give the same answer. What the operator itself
puts into a worker (a privileged slurmd that manages cgroups) is not the user's reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slurm_operator.api.embedded import EMBEDDED
from slurm_operator.api.meta import Resource
from slurm_operator.api.pod_features import (
    CAPABILITIES,
    HOST_NAMESPACES,
    HOST_PATH,
    HOST_PORTS,
    PRIVILEGED,
    SERVICE_ACCOUNT,
    SYSCTLS,
)
from slurm_operator.api.problem import FieldProblem, Path, shown

HARMLESS_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})
# What Kubernetes itself calls safe; a pod's own namespaces hold them.
SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_syncookies",
    }
)
Found = tuple[str, Path, str]


def check(new: Resource, allowed: frozenset[str] | None) -> Iterator[FieldProblem]:
    """Every reach that is not allowed; None allows all."""
    if allowed is None:
        return
    for feature, path, said in _reaches(new):
        if feature not in allowed:
            yield FieldProblem(
                path,
                f"{said} is not allowed here; the operator's flag --allow-pod-features={feature} would allow it",
            )


def _reaches(new: Resource) -> Iterator[Found]:
    for steps, shape in EMBEDDED[type(new).__name__]:
        value = _at(getattr(new, "spec", None), steps)
        path: Path = ("spec", *steps)
        if not isinstance(value, Mapping):
            continue
        if shape == "Container":
            yield from _container(value, path)
        elif shape == "PodSpec":
            yield from _pod(value, path)


def _at(value: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else getattr(value, step, None)
    return value


def _pod(spec: Mapping[str, Any], path: Path) -> Iterator[Found]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield HOST_NAMESPACES, (*path, name), "sharing the node's namespaces"
    for name in ("serviceAccountName", "serviceAccount"):
        if spec.get(name):
            yield SERVICE_ACCOUNT, (*path, name), f"running as the service account {shown(spec[name])}"
    if spec.get("automountServiceAccountToken"):
        yield SERVICE_ACCOUNT, (*path, "automountServiceAccountToken"), "a service account's token in the pod"
    yield from _volumes(spec, path)
    for index, each in _items(spec.get("securityContext") or {}, "sysctls"):
        if each.get("name") not in SAFE_SYSCTLS:
            place = (*path, "securityContext", "sysctls", index)
            yield SYSCTLS, place, f"the sysctl {shown(each.get('name'))}"
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in _items(spec, name):
            yield from _container(container, (*path, name, index))


def _volumes(spec: Mapping[str, Any], path: Path) -> Iterator[Found]:
    for index, volume in _items(spec, "volumes"):
        place: Path = (*path, "volumes", index)
        if volume.get("hostPath") is not None:
            yield HOST_PATH, (*place, "hostPath"), "a folder of the node"
        for at, source in _items(volume.get("projected") or {}, "sources"):
            if source.get("serviceAccountToken") is not None:
                token = (*place, "projected", "sources", at, "serviceAccountToken")
                yield SERVICE_ACCOUNT, token, "a service account's token in the pod"


def _container(container: Mapping[str, Any], path: Path) -> Iterator[Found]:
    security = container.get("securityContext")
    security = security if isinstance(security, Mapping) else {}
    place: Path = (*path, "securityContext")
    if security.get("privileged"):
        yield PRIVILEGED, (*place, "privileged"), "a privileged container"
    if security.get("procMount") not in (None, "Default"):
        yield PRIVILEGED, (*place, "procMount"), "an unmasked /proc"
    added = (security.get("capabilities") or {}).get("add") or ()
    for index, name in enumerate(added):
        if str(name) not in HARMLESS_CAPABILITIES:
            yield CAPABILITIES, (*place, "capabilities", "add", index), f"the capability {shown(name)}"
    for index, port in _items(container, "ports"):
        if port.get("hostPort"):
            yield HOST_PORTS, (*path, "ports", index, "hostPort"), "a port of the node"


def _items(value: Mapping[str, Any], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, item in enumerate(value.get(name) or ()):
        if isinstance(item, Mapping):
            yield index, item
