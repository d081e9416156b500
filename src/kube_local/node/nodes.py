"""The virtual nodes of this machine as API objects: Node, its status, its Lease. Pure.

In: names and what the machine has. Out: bodies for server-side apply. `agent` sends them.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kube_local import __version__

PODS_PER_NODE = 110
LEASE_SECONDS = 40
LEASE_NAMESPACE = "kube-node-lease"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def names(count: int) -> tuple[str, ...]:
    """local-0, local-1 …"""
    return tuple(f"local-{number}" for number in range(count))


def capacity() -> dict[str, str]:
    """What each virtual node has: the whole machine, since they share it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory // 1024}Ki",
        "pods": str(PODS_PER_NODE),
        "ephemeral-storage": "100Gi",
    }


def node(name: str) -> dict[str, Any]:
    """A Node with the labels that every node has."""
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
    }
    return {"metadata": {"name": name, "labels": labels}}


def node_status(
    name: str, address: str, has: Mapping[str, str], now: str, before: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The status of a healthy node."""
    known = {one["type"]: one for one in before}
    wanted = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "the machine has memory left"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "the machine has room on disk"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "the machine has process ids left"),
        ("Ready", "True", "KubeletReady", "the node agent runs pods"),
    )
    conditions = [
        {
            "type": kind,
            "status": value,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": _since(known.get(kind), value, now),
        }
        for kind, value, reason, message in wanted
    ]
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    status = {"capacity": dict(has), "allocatable": dict(has), "conditions": conditions, "addresses": addresses}
    return {"metadata": {"name": name}, "status": {**status, "nodeInfo": _info()}}


def _since(before: Mapping[str, Any] | None, value: str, now: str) -> str:
    same = before is not None and before.get("status") == value
    return str(before["lastTransitionTime"]) if before is not None and same else now


def _info() -> dict[str, str]:
    machine = Path("/etc/machine-id")
    return {
        "machineID": machine.read_text().strip() if machine.is_file() else "",
        "systemUUID": "",
        "bootID": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "kernelVersion": platform.release(),
        "osImage": "local mode",
        "containerRuntimeVersion": "runc://local",
        "kubeletVersion": f"v{__version__}-local",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
    }


def lease(name: str, now: str) -> dict[str, Any]:
    """The heartbeat of a node."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
    return {"metadata": {"name": name, "namespace": LEASE_NAMESPACE}, "spec": spec}
