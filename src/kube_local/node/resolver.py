"""/etc/hosts, /etc/hostname and /etc/resolv.conf of a pod. Pure.

In: the pod and its address. Out: file contents. `pod` writes them, `volumes` mounts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kube_local.node.errors import ConfigInvalid
from kube_local.node.sources import Object

DOMAIN = "cluster.local"
_HOST_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?")
_MAX_SEARCH_DOMAINS = 32


def hostname(pod: Object) -> str:
    """The pod's host name: its own, or its name up to what a host name can hold."""
    spec = pod.get("spec") or {}
    name = str(spec.get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")
    if not _HOST_NAME.fullmatch(name):
        # It becomes an argument of a command of the machine, which would take "-F…" for an option.
        raise ConfigInvalid(f"host name {name!r} is not valid: expected letters, digits, '-' and '.'")
    return name


def long_name(pod: Object) -> str:
    """The name with its domain, which only pods with a subdomain have."""
    subdomain = (pod.get("spec") or {}).get("subdomain")
    if not subdomain:
        return ""
    return f"{hostname(pod)}.{subdomain}.{pod['metadata']['namespace']}.svc.{DOMAIN}"


def hosts(pod: Object, address: str) -> str:
    """/etc/hosts."""
    own = [name for name in (long_name(pod), hostname(pod)) if name]
    lines = ["# Kubernetes-managed hosts file.", "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    if address:
        lines.append("\t".join((address, *own)))
    aliases = (pod.get("spec") or {}).get("hostAliases") or ()
    lines += ["\t".join((alias["ip"], *(alias.get("hostnames") or ()))) for alias in aliases]
    return "\n".join(lines) + "\n"


def resolv_conf(pod: Object, name_server: str, of_host: str) -> str:
    """/etc/resolv.conf by the pod's dnsPolicy and dnsConfig."""
    spec = pod.get("spec") or {}
    extra = spec.get("dnsConfig") or {}
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "Default" or (policy == "ClusterFirst" and spec.get("hostNetwork")):
        return of_host
    servers, searches, options = _base(pod, name_server) if policy != "None" else ([], [], {})
    servers = _unique([*servers, *(extra.get("nameservers") or ())])
    searches = _unique([*searches, *(extra.get("searches") or ())])[:_MAX_SEARCH_DOMAINS]
    options |= {option["name"]: option.get("value") for option in extra.get("options") or ()}
    lines = [f"nameserver {server}" for server in servers[:3]]
    lines += [f"search {' '.join(searches)}"] if searches else []
    settings = [name if value is None else f"{name}:{value}" for name, value in options.items()]
    lines += [f"options {' '.join(settings)}"] if settings else []
    return "\n".join(lines) + "\n"


def _base(pod: Object, name_server: str) -> tuple[list[str], list[str], dict[str, str | None]]:
    namespace = pod["metadata"]["namespace"]
    return [name_server], [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN], {"ndots": "5"}


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
