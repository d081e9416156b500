"""How the local controllers are to run. Made by whoever starts them; read by `run`."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set from outside."""

    # Folders of provisioned volumes are made in here.
    volumes: Path
    # The DNS server listens here; empty: there is none.
    dns_address: str = ""
    dns_port: int = 53
    cluster_domain: str = "cluster.local"
    # The address range of Services, which are served on their ClusterIPs; None: they are not.
    service_network: IPv4Network | None = None
    # A node whose Lease was not renewed for so long is lost.
    node_grace_seconds: float = 40.0
    # Pods of a node that no longer exists are removed after so long.
    missing_node_seconds: float = 40.0
