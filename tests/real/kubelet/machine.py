"""A Kubernetes machine of one node: real control plane, kubelet, kube-proxy and containerd, in namespaces of its own.

    async with machine(folder, archives) as cluster: ...

In: the programs of `tools.py`, an empty folder, archives of images. Out: a `Cluster` (URL, CA, token, kubeconfig) whose
node is Ready and has those images; pods are reached at their addresses. Called by the `kubelet` fixture and by
`bench/config_latency.py`. Everything lives in one tree of processes with its own network, mounts, process numbers and
control groups: it ends with this process, however that ends, and leaves nothing on the machine.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import aiohttp
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.real.kube.cluster import Cluster, ClusterError, is_ready, write_kubeconfig
from tests.real.kubelet import settings, tools
from tests.real.kubelet.settings import NODE, SERVICES, Plan

from kube_local.node import host, network

ROOT = Path(__file__).resolve().parents[3]
BOOT = Path(__file__).with_name("boot.sh")
START_SECONDS = 120.0
# To the scheduler a group is one process, whatever is in it, and this one is a whole machine.
SHARE = {"cpu.shares": "20480", "cpu.weight": "2000"}
# Own everything; the first program is one that buries the dead.
NAMESPACES = ("--net", "--mount", "--cgroup", "--uts", "--ipc", "--propagation=private")


@dataclass(slots=True)
class Machine:
    """The tree of processes, and the way to start more in it."""

    plan: Plan
    process: subprocess.Popen[bytes]
    cgroup: str

    def start(self, *names: str) -> None:
        """Start programs whose scripts are in the folder."""
        self._input.write("".join(f"{name}\n" for name in names).encode())
        self._input.flush()

    @property
    def _input(self) -> IO[bytes]:
        if self.process.stdin is None:
            raise ClusterError("the machine was started without an input")
        return self.process.stdin

    def check(self) -> None:
        """Raise when a program has ended that should not have."""
        if self.process.poll() is not None:
            raise ClusterError(f"the machine ended:\n{self.tail('boot')}")
        for line in self.ended():
            name, _, code = line.partition(" ended with code ")
            if (name, code) != ("images", "0"):
                raise ClusterError(f"{line}:\n{self.tail(name)}")

    def ended(self) -> list[str]:
        """What has ended so far."""
        with suppress(FileNotFoundError):
            return (self.plan.folder / "ended").read_text().splitlines()
        return []

    def tail(self, name: str) -> str:
        """The end of a program's log."""
        with suppress(FileNotFoundError):
            lines = (self.plan.folder / f"{name}.log").read_text(errors="replace").splitlines()
            return "\n".join(lines[-20:])
        return "(no log)"

    def stop(self) -> None:
        """Kill the first process, and so every other; then take away its link and its control groups."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        # The kernel takes its time to give up a network, and the link with it.
        host.run_now(["ip", "link", "del", link_name(self.process)])
        deadline = time.monotonic() + 20
        while cgroups_left(self.cgroup) and time.monotonic() < deadline:
            host.remove_cgroups(self.cgroup)
            time.sleep(0.05)


def link_name(process: subprocess.Popen[bytes]) -> str:
    """This machine's end of the link."""
    return f"sok{process.pid}"


def cgroups_left(name: str) -> bool:
    """Whether the kernel still holds a group: its processes may take a moment to be gone."""
    return any((root / name).is_dir() for root in host.cgroup_roots())


def make_cgroups(name: str) -> None:
    """One group in each hierarchy; a new cpuset has neither CPUs nor memory until it is told."""
    for root in host.cgroup_roots():
        (root / name).mkdir(exist_ok=True)
        for setting, value in SHARE.items():
            if (root / name / setting).exists():
                (root / name / setting).write_text(value)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (root / setting).exists() and not (root / name / setting).read_text().strip():
                (root / name / setting).write_text((root / setting).read_text())


def command(plan: Plan, cgroup: str) -> list[str]:
    """Join the groups, take namespaces, then be the parent of the first process in them."""
    joins = "".join(f"echo $$ > {root / cgroup / 'cgroup.procs'}\n" for root in host.cgroup_roots())
    init = plan.debian / "usr" / "bin" / "catatonit"
    boot = f"{init} -- sh {BOOT} {plan.folder}"
    forked = f"unshare --pid --fork --kill-child --mount-proc {boot}"
    return ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-ec", f"{joins}exec unshare {' '.join(NAMESPACES)} {forked}"]


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two machines, or a machine and a local cluster, must not take the same range."""
    handle = os.open("/run", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def connect(plan: Plan, process: subprocess.Popen[bytes]) -> None:
    """A link between this machine and that one, and a route to its pods; both go when its network goes."""
    name, pid = link_name(process), process.pid
    _wait(lambda: _network(pid) != _network(os.getpid()), "the machine has no network of its own")
    inside = f"""link set lo up
addr add {plan.node}/{plan.link.prefixlen} dev eth0
link set eth0 up
route add default via {plan.host}
"""
    outside = f"""link add {name} type veth peer name eth0 netns {pid}
addr add {plan.host}/{plan.link.prefixlen} dev {name}
link set {name} up
route add {plan.pods} via {plan.node}
"""
    _batch(["ip", "-batch", "-"], outside)
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    _batch([*enter, "ip", "-batch", "-"], inside)
    _batch([*enter, "sh"], "echo 1 > /proc/sys/net/ipv4/ip_forward")


def _network(pid: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    return ""


def _wait(good: Callable[[], bool], otherwise: str, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not good():
        if time.monotonic() > deadline:
            raise ClusterError(otherwise)
        time.sleep(0.01)


def _batch(argv: list[str], text: str) -> None:
    done = subprocess.run(argv, input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(argv)} failed: {done.stderr.decode().strip()}")


def boot(folder: Path) -> Machine:
    """Namespaces, control groups and a network; nothing of Kubernetes runs yet."""
    folder.mkdir(parents=True, exist_ok=True)
    with one_at_a_time():
        subnet = network.free_range(network.taken_ranges())
        plan = Plan(folder, tools.node_folder(), subnet, *(secrets.token_hex(16) for _ in range(3)))
        cgroup = f"slurm-kubelet-{secrets.token_hex(4)}"
        make_cgroups(cgroup)
        with (folder / "boot.log").open("wb") as log:
            process = subprocess.Popen(command(plan, cgroup), stdin=subprocess.PIPE, stdout=log, stderr=log)
        made = Machine(plan, process, cgroup)
        try:
            connect(plan, process)
        except BaseException:
            made.stop()
            raise
    return made


def write_credentials(plan: Plan) -> str:
    """Certificates and keys of the control plane; gives back the CA."""
    ca = trustme.CA()
    first = SERVICES[1]
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1"]
    served = ca.issue_cert(*names, str(plan.node), str(first))
    client = ca.issue_cert("kube-apiserver", common_name="kube-apiserver", organization_name="system:masters")
    for name, issued in {"server": served, "kubelet-client": client}.items():
        issued.private_key_pem.write_to_path(plan.folder / f"{name}.key")
        (plan.folder / f"{name}.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    ca.cert_pem.write_to_path(plan.folder / "ca.crt")
    key = ec.generate_private_key(ec.SECP256R1())
    old = serialization.PrivateFormat.TraditionalOpenSSL
    plain = key.private_bytes(serialization.Encoding.PEM, old, serialization.NoEncryption())
    (plan.folder / "accounts.key").write_bytes(plain)
    return ca.cert_pem.bytes().decode()


def write_files(plan: Plan, archives: Sequence[Path]) -> str:
    """Settings, scripts and kubeconfigs; gives back the CA."""
    python = ["env", f"PYTHONPATH={ROOT}:{ROOT / 'src'}", sys.executable]
    for name, content in settings.files(plan).items():
        (plan.folder / name).parent.mkdir(exist_ok=True)
        (plan.folder / name).write_text(content)
    for name, content in settings.scripts(plan, python, list(archives)).items():
        (plan.folder / f"{name}.sh").write_text(content)
    ca_pem = write_credentials(plan)
    for name, token in {"admin": plan.admin, "kubelet": plan.kubelet, "kube-proxy": plan.proxy}.items():
        write_kubeconfig(plan.kubeconfig(name), plan.url, plan.folder / "ca.crt", token)
    for number in range(settings.VOLUMES):
        (plan.folder / "files/var/lib/volumes" / str(number)).mkdir(parents=True)
    return ca_pem


@asynccontextmanager
async def machine(folder: Path, archives: Sequence[Path]) -> AsyncIterator[tuple[Cluster, Machine]]:
    """A cluster whose one node is Ready when entered, and of which nothing is left afterwards."""
    if lacking := tools.missing():
        raise ClusterError(f"this machine lacks {', '.join(lacking)}; run 'make kubelet-tools'")
    made = boot(folder)
    try:
        ca_pem = write_files(made.plan, archives)
        cluster = Cluster(folder, made.plan.url, ca_pem, made.plan.admin, made.plan.kubeconfig("admin"))
        made.start("etcd", "kube-apiserver", "containerd", "images")
        async with asyncio.timeout(START_SECONDS), cluster.session() as http:
            await until(made, lambda: is_ready(http), "no kube-apiserver")
            await administer(http)
            made.start("kube-controller-manager", "kube-scheduler", "dns")
            await until(made, lambda: imported(made), "the images were not taken in")
            made.start("kubelet", "kube-proxy")
            await until(made, lambda: node_ready(http), "the node is not Ready")
        yield cluster, made
    finally:
        made.stop()


async def until(made: Machine, good: Callable[[], Any], otherwise: str) -> None:
    """Look every 50 ms; a program that ended ends the wait at once."""
    try:
        while not await good():
            made.check()
            await asyncio.sleep(0.05)
    except TimeoutError:
        raise ClusterError(otherwise) from None


async def imported(made: Machine) -> bool:
    """Whether containerd has every image."""
    return "images ended with code 0" in made.ended()


async def node_ready(http: aiohttp.ClientSession) -> bool:
    """Whether the kubelet says so, and the scheduler may use the node."""
    async with http.get(f"/api/v1/nodes/{NODE}") as answer:
        if answer.status != 200:
            return False
        node = await answer.json()
    ready = [each["status"] for each in node["status"].get("conditions", ()) if each["type"] == "Ready"]
    return ready == ["True"] and not node["spec"].get("taints")


async def administer(http: aiohttp.ClientSession) -> None:
    """kube-proxy's rights, and storage."""
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    # A role that every cluster has; its binding comes with an installer.
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-proxy"}
    binding = {**kind, "metadata": {"name": "kube-proxy"}, "roleRef": role, "subjects": [user]}
    paths = {
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
        "PersistentVolume": "/api/v1/persistentvolumes",
    }
    for body in (binding, *settings.objects()):
        async with http.post(paths[str(body["kind"])], json=body) as answer:
            if answer.status != 201:
                raise ClusterError(f"{body['kind']}: {await answer.text()}")
