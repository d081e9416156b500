"""The network of one cluster: a bridge on the host, and per pod a network namespace on it.

In: the data folder, which remembers the address range. Out: a `Network`; `attach` and `detach` of pods by one shell
call each. `ensure` is also called by the supervisor, since the DNS server listens on the bridge's address.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kube_local.node import host
from kube_local.node.errors import CannotRunPods, CommandFailed, SandboxFailed
from kube_local.node.paths import Paths, PodPaths

RANGE = ipaddress.IPv4Network("10.240.0.0/12")
# Each range of pods has a range of Services at the same offset in here. Not 10.96.0.0/12: a Kubernetes on this machine
# may use that without a route by which it would be noticed.
SERVICE_RANGE = ipaddress.IPv4Network("10.224.0.0/12")
PREFIX_LENGTH = 20
# Past this many pods the kernel's table of neighbours overflows with its default size.
MANY_PODS = 60
_THRESHOLDS = {"gc_thresh1": 8192, "gc_thresh2": 16384, "gc_thresh3": 32768}
_NEIGHBOURS = Path("/proc/sys/net/ipv4/neigh/default")


class Network(msgspec.Struct, frozen=True):
    """The bridge of one cluster and its addresses."""

    bridge: str
    subnet: str
    # Kernel settings as they were before this cluster changed them.
    before: dict[str, str] = {}

    @property
    def gateway(self) -> str:
        """The bridge's own address: the DNS server, and the host as pods see it."""
        return str(next(ipaddress.IPv4Network(self.subnet).hosts()))

    @property
    def services(self) -> ipaddress.IPv4Network:
        """The addresses of Services."""
        return services_of(ipaddress.IPv4Network(self.subnet))

    @property
    def prefix_length(self) -> int:
        """The length of the mask."""
        return ipaddress.IPv4Network(self.subnet).prefixlen


def services_of(pods: ipaddress.IPv4Network) -> ipaddress.IPv4Network:
    """The range of Services that belongs to a range of pods."""
    offset = int(pods.network_address) - int(RANGE.network_address)
    return ipaddress.IPv4Network((int(SERVICE_RANGE.network_address) + offset, pods.prefixlen))


def ensure(data: Path) -> Network:
    """The cluster's network, made if it is not there; the same range again after a reboot."""
    paths = Paths.of(data)
    paths.data.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time():
        # Read under the lock: the supervisor and the agent may come here at once, for one and the same cluster.
        network = load(data)
        if network is None:
            network = Network(paths.bridge, str(free_range(taken_ranges())))
            _save(paths, network)
        _make_bridge(network)
    return network


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two clusters that start at once must not take the same range."""
    # A lock on a folder leaves no file behind.
    handle = os.open("/run", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def load(data: Path) -> Network | None:
    """The remembered network."""
    try:
        return msgspec.json.decode(Paths.of(data).network.read_bytes(), type=Network)
    except (OSError, msgspec.MsgspecError):
        return None


def _save(paths: Paths, network: Network) -> None:
    fresh = paths.network.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(network))
    fresh.replace(paths.network)


def free_range(taken: Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """The first range that overlaps none that the machine already uses."""
    used = list(taken)
    for candidate in RANGE.subnets(new_prefix=PREFIX_LENGTH):
        both = (candidate, services_of(candidate))
        if not any(mine.overlaps(other) for mine in both for other in used):
            return candidate
    raise CannotRunPods(f"every /{PREFIX_LENGTH} in {RANGE} is in use on this machine: reset a local cluster first")


def taken_ranges() -> list[ipaddress.IPv4Network]:
    """What the machine's routes already lead to; a default route takes nothing."""
    routes = _ip("-o", "-4", "route", "show", "table", "all")
    found = []
    for line in routes.splitlines():
        addresses = [field for field in line.split()[:2] if field[:1].isdigit()]
        if addresses:
            found.append(ipaddress.IPv4Network(addresses[0], strict=False))
    return found


def _make_bridge(network: Network) -> None:
    address = f"{network.gateway}/{network.prefix_length}"
    have = host.run_now(["ip", "-o", "-4", "addr", "show", "dev", network.bridge])
    if have.code != 0:
        _ip("link", "add", network.bridge, "type", "bridge")
        # Without a pod on it a bridge has no carrier, and names could not be served before the first pod.
        _ip("link", "set", network.bridge, "addrgenmode", "none")
    if address.encode() not in have.out:
        _ip("addr", "replace", address, "dev", network.bridge)
    _ip("link", "set", network.bridge, "up")
    # This machine answers on the addresses of Services; the route disappears with the bridge.
    _ip("route", "replace", "local", str(network.services), "dev", network.bridge)


def _ip(*arguments: str) -> str:
    done = host.run_now(["ip", *arguments])
    if done.code != 0:
        raise CommandFailed(f"ip {' '.join(arguments)} failed: {done.message}")
    return done.out.decode()


def remove(data: Path) -> None:
    """Take the bridge away and put the kernel's settings back."""
    paths, network = Paths.of(data), load(data)
    host.run_now(["ip", "link", "del", paths.bridge])
    for name, value in (network.before if network else {}).items():
        (_NEIGHBOURS / name).write_text(value)
    paths.network.unlink(missing_ok=True)


def make_room(data: Path, pods: int) -> None:
    """Let the kernel remember the addresses of many pods; `remove` puts the old sizes back."""
    network = load(data)
    if pods <= MANY_PODS or network is None or network.before:
        return
    before = {name: (_NEIGHBOURS / name).read_text().strip() for name in _THRESHOLDS}
    if all(int(before[name]) >= wanted for name, wanted in _THRESHOLDS.items()):
        return
    _save(Paths.of(data), msgspec.structs.replace(network, before=before))
    for name, value in _THRESHOLDS.items():
        (_NEIGHBOURS / name).write_text(str(value))


def mac(address: str) -> str:
    """A MAC made of the address: who gets a used address again is not mistaken for its predecessor."""
    return "0a:58:" + ":".join(f"{byte:02x}" for byte in ipaddress.IPv4Address(address).packed)


def link(network: Network, address: str) -> str:
    """The name of the host's end of a pod's link: 15 characters, all that the kernel takes."""
    offset = int(ipaddress.IPv4Address(address)) - int(ipaddress.IPv4Network(network.subnet).network_address)
    return f"{network.bridge}p{offset:03x}"


def attach_script(network: Network, pod: PodPaths, address: str, hostname: str) -> str:
    """One shell script that makes a pod's namespaces and its link; without an address it shares the host's network."""
    ipc, uts = shlex.quote(str(pod.ipc)), shlex.quote(str(pod.uts))
    # The link is made meanwhile.
    shared = f"""set -e
: > {ipc}; : > {uts}
unshare --ipc={ipc} --uts={uts} hostname {shlex.quote(hostname)} &
shared=$!
"""
    return f"{shared}{_link_script(network, pod, address) if address else ''}wait $shared\n"


def _link_script(network: Network, pod: PodPaths, address: str) -> str:
    outside = link(network, address)
    return f"""ip netns add {pod.netns}
ip -batch - <<END
link add {outside} type veth peer name eth0 address {mac(address)} netns {pod.netns}
link set {outside} addrgenmode none
link set {outside} master {network.bridge} up
END
ip -n {pod.netns} -batch - <<END
link set lo up
link set eth0 addrgenmode none
addr add {address}/{network.prefix_length} dev eth0
link set eth0 up
route add default via {network.gateway}
END
"""


async def attach(network: Network, pod: PodPaths, address: str, hostname: str) -> None:
    """Give a pod its namespaces and its address."""
    pod.ipc.parent.mkdir(parents=True, exist_ok=True)
    done = await host.run(["sh", "-c", attach_script(network, pod, address, hostname)])
    if done.code != 0:
        await detach(network, pod, address)
        raise SandboxFailed(f"the pod's network could not be made: {done.message}")


async def detach(network: Network, pod: PodPaths, address: str) -> None:
    """Take a pod's namespaces and link away; nothing happens to what is gone already."""
    for file in (pod.ipc, pod.uts):
        host.unmount(file)
        file.unlink(missing_ok=True)
    if not address and not pod.netns_file.exists():
        return
    outside = f"ip link del {link(network, address)} 2>/dev/null; " if address else ""
    await host.run(["sh", "-c", f"{outside}ip netns del {pod.netns} 2>/dev/null; true"])


@dataclass(slots=True)
class Addresses:
    """Hands out addresses in a circle, so that a used one rests as long as possible."""

    network: Network
    used: set[str] = field(default_factory=set)
    _next: int = 0

    def take(self) -> str:
        """A free address."""
        pool = ipaddress.IPv4Network(self.network.subnet)
        size = pool.num_addresses - 3
        for _ in range(size):
            # .0 is the network, .1 the bridge, the last one the broadcast address.
            candidate = str(pool[2 + self._next % size])
            self._next += 1
            if candidate not in self.used:
                self.used.add(candidate)
                return candidate
        raise SandboxFailed(f"no address is left in {self.network.subnet}")

    def give_back(self, address: str) -> None:
        """The pod of this address is gone."""
        self.used.discard(address)
