"""Starts and stops a real Kubernetes control plane on loopback, for one test session or campaign.

In: the programs that `tools.py` built and a scratch folder. Out: a `Cluster`: URL, CA, admin token and
kubeconfig. Callers: the `real_kube` fixture, the differential campaign, the benchmarks.
Every process dies with its cluster, and with the process that started it.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.real.kube.tools import missing_tools, tool

START_SECONDS = 60.0


class ClusterError(Exception):
    """A part of the control plane did not come up; the text ends with its log."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running control plane, and how to reach it as its administrator."""

    folder: Path
    url: str
    ca_pem: str
    token: str
    kubeconfig_path: Path

    def ssl_context(self) -> ssl.SSLContext:
        """TLS that trusts this cluster's CA alone."""
        return ssl.create_default_context(cadata=self.ca_pem)

    def session(self) -> aiohttp.ClientSession:
        """An HTTP session that speaks as the administrator."""
        headers = {"Authorization": f"Bearer {self.token}"}
        connector = aiohttp.TCPConnector(ssl=self.ssl_context(), limit=0)
        return aiohttp.ClientSession(self.url, headers=headers, connector=connector)


@dataclass(slots=True)
class Processes:
    """The children of one cluster, in the order in which they were started."""

    logs: Path
    running: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list)

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start one program; the kernel ends it should this process die without a word."""
        setpriv = shutil.which("setpriv")
        guard = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        with (self.logs / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [*guard, str(tool(name)), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.running.append((name, child))

    def check(self) -> None:
        """Raise when a child has ended by itself."""
        for name, child in self.running:
            if child.poll() is not None:
                raise ClusterError(f"{name} ended with code {child.returncode}:\n{self.tail(name)}")

    def tail(self, name: str) -> str:
        """The end of one program's log."""
        return "\n".join((self.logs / f"{name}.log").read_text(errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        """At once and for certain: none of them has anything worth a slow goodbye."""
        for _, child in reversed(self.running):
            child.kill()
        for _, child in self.running:
            child.wait()
        self.running.clear()


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for each in sockets:
        each.close()
    return ports


def write_credentials(folder: Path, token: str) -> str:
    """Certificates, service account key and token file for the API server; gives back the CA."""
    folder.mkdir(parents=True, exist_ok=True)
    ca = trustme.CA()
    served = ca.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
    served.private_key_pem.write_to_path(folder / "server.key")
    (folder / "server.crt").write_bytes(b"".join(blob.bytes() for blob in served.cert_chain_pems))
    ca.cert_pem.write_to_path(folder / "ca.crt")
    key = ec.generate_private_key(ec.SECP256R1())
    (folder / "accounts.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    return ca.cert_pem.bytes().decode()


def write_kubeconfig(path: Path, url: str, ca: Path, token: str) -> None:
    """A kubeconfig for people, clients and the other control plane programs."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    path.chmod(0o600)


def etcd_arguments(folder: Path, client_port: int, peer_port: int) -> list[str]:
    """One member, no fsync: its data is as short-lived as the tests."""
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def apiserver_arguments(folder: Path, port: int, etcd_port: int, authorization: str, extra: Sequence[str]) -> list[str]:
    """Loopback only; no endpoint of its own, since Kubernetes refuses loopback addresses in one."""
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--advertise-address=192.0.2.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        f"--cert-dir={folder}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        f"--authorization-mode={authorization}",
        "--allow-privileged=true",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1000",
        "--profiling=false",
        *extra,
    ]


def client_arguments(folder: Path, kubeconfig: Path) -> list[str]:
    """What controller-manager and scheduler have in common; the raised limits keep them out of the way."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder}",
        "--profiling=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
    ]


def controller_arguments(folder: Path, shared: Sequence[str], extra: Sequence[str]) -> list[str]:
    """Fake nodes send no heartbeats, so a silent node stays a good node here."""
    account_key = f"--service-account-private-key-file={folder / 'accounts.key'}"
    return [*shared, account_key, "--node-monitor-grace-period=24h", *extra]


async def wait_ready(cluster: Cluster, processes: Processes) -> None:
    """Poll /readyz until it says ok; a dead child ends the wait at once."""
    try:
        async with asyncio.timeout(START_SECONDS), cluster.session() as http:
            while not await is_ready(http):
                processes.check()
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise ClusterError(
            f"no kube-apiserver after {START_SECONDS:.0f} s:\n{processes.tail('kube-apiserver')}"
        ) from None


async def is_ready(http: aiohttp.ClientSession) -> bool:
    """One question; a refused connection is a plain no."""
    try:
        async with http.get("/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def real_cluster(
    folder: Path,
    *,
    controllers: bool = False,
    scheduler: bool = False,
    authorization: str = "RBAC",
    apiserver_flags: Sequence[str] = (),
    controller_flags: Sequence[str] = (),
) -> AsyncIterator[Cluster]:
    """A control plane in `folder` (keys, data, logs) that is ready when entered and gone when left.

    Without `controllers` nobody makes service accounts, so the admission plugin that asks for them is off.
    """
    if missing := missing_tools():
        raise ClusterError(f"not built: {', '.join(missing)}; run 'make kube-tools'")
    token = secrets.token_hex(16)
    ca_pem = write_credentials(folder, token)
    etcd_port, peer_port, port, controllers_port, scheduler_port = free_ports(5)
    url, kubeconfig = f"https://127.0.0.1:{port}", folder / "kubeconfig"
    write_kubeconfig(kubeconfig, url, folder / "ca.crt", token)
    cluster = Cluster(folder, url, ca_pem, token, kubeconfig)
    plugins = () if controllers else ("--disable-admission-plugins=ServiceAccount",)
    processes = Processes(folder)
    try:
        processes.start("etcd", etcd_arguments(folder, etcd_port, peer_port))
        flags = (*plugins, *apiserver_flags)
        processes.start("kube-apiserver", apiserver_arguments(folder, port, etcd_port, authorization, flags))
        await wait_ready(cluster, processes)
        shared = client_arguments(folder, kubeconfig)
        if controllers:
            flags = (f"--secure-port={controllers_port}", *controller_flags)
            processes.start("kube-controller-manager", controller_arguments(folder, shared, flags))
        if scheduler:
            processes.start("kube-scheduler", [*shared, f"--secure-port={scheduler_port}"])
        yield cluster
    finally:
        processes.stop()
