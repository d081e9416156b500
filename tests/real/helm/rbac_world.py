"""A Slurm cluster of every kind on a real control plane, run by an operator with no more than its shipped roles.

In: deploy/install.yaml, fake nodes, a small Slurm. Out: `World`: the operator in a process of its own, which is started
again as a kubelet would, and what an administrator can do and see. Used by the tests of roles.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import yaml
from tests.campaigns.slurm_model import SlurmModel
from tests.real.kube.cluster import Cluster, free_ports
from tests.real.kube.fake_nodes import fake_nodes
from tests.real.kube.gateway import Gateway, gateway, slurmds, slurmrestd

from kube_runtime.clock import SystemClock

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
INSTALL = [each for each in yaml.safe_load_all((ROOT / "deploy" / "install.yaml").read_text()) if each]
GROUP = "slinky.slurm.net"
OURS = f"/apis/{GROUP}/v1beta1/namespaces/slurm"
CORE, APPS = "/api/v1/namespaces/slurm", "/apis/apps/v1/namespaces/slurm"
POLICY = "/apis/policy/v1/namespaces/slurm"
MONITORS = "/apis/monitoring.coreos.com/v1/namespaces/slurm/servicemonitors"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}
PATIENCE = 60.0
USER = "system:serviceaccount:slinky:slurm-operator"
JWT = b"j" * 48
NAMES = {
    "controllers": "slurm",
    "accountings": "books",
    "restapis": "slurm",
    "loginsets": "login",
    "nodesets": "compute",
    "partitions": "all",
    "tokens": "ci",
}


class Right(NamedTuple):
    """One verb on one resource, and the role that gives it."""

    role: str
    group: str
    resource: str
    verb: str
    # The one object that it is for, where it is for one.
    name: str = ""

    @property
    def can_i(self) -> str:
        """How kubectl would be asked for it."""
        plain, _, part = self.resource.partition("/")
        kind = f"{plain}.{self.group}" if self.group else plain
        named = f"{kind}/{self.name}" if self.name else kind
        return f"kubectl auth can-i {self.verb} {named}" + (f" --subresource={part}" if part else "")

    @property
    def key(self) -> tuple[str, str]:
        """What a way of touching it is found by."""
        return self.resource, self.verb


def roles(account: str = "slurm-operator") -> dict[str, Json]:
    """The roles of one of our accounts, by their path."""
    found = {}
    for each in INSTALL:
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == account:
            found[f"{RBAC}/clusterroles/{account}"] = each
        if each["kind"] == "Role" and each["metadata"]["name"] == f"{account}-own":
            found[f"{RBAC}/namespaces/slinky/roles/{account}-own"] = each
    return found


def single(role: Json) -> Iterator[Json]:
    """The rules of a role, one for each verb on each resource."""
    for rule in role["rules"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield {**rule, "resources": [resource], "verbs": [verb]}


def rights(account: str = "slurm-operator") -> list[Right]:
    """Every right that an account is shipped with."""
    return [
        Right(
            path, rule["apiGroups"][0], rule["resources"][0], rule["verbs"][0], (rule.get("resourceNames") or [""])[0]
        )
        for path, role in roles(account).items()
        for rule in single(role)
    ]


def rules_without(right: Right, account: str = "slurm-operator") -> list[Json]:
    """The rules of a right's role, but for that one."""
    key = (right.group, right.resource, right.verb)
    every = single(roles(account)[right.role])
    return [each for each in every if (each["apiGroups"][0], each["resources"][0], each["verbs"][0]) != key]


@dataclass(slots=True)
class Process:
    """The operator, started again when it ends, as a kubelet would."""

    arguments: list[str]
    log: Path
    ended: list[int] = field(default_factory=list)
    child: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """For ever."""
        with self.log.open("a") as output:
            while True:
                self.child = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "slurm_operator.cli.main", *self.arguments, stdout=output, stderr=output
                )
                try:
                    self.ended.append(await self.child.wait())
                except asyncio.CancelledError:
                    self.child.terminate()
                    await self.child.wait()
                    raise

    async def restart(self) -> None:
        """End this life; the next begins at once."""
        assert self.child is not None
        before = len(self.ended)
        self.child.terminate()
        await eventually(lambda: asyncio.sleep(0, len(self.ended) > before))
        assert self.ended.pop() == 0


@dataclass(slots=True)
class World:
    """A Slurm cluster of every kind, and its operator."""

    http: aiohttp.ClientSession
    way: Gateway
    slurm: SlurmModel
    process: Process
    metrics: str

    async def call(self, method: str, path: str, body: Any = None, headers: Json | None = None) -> Json:
        """One request as the administrator."""
        async with self.http.request(method, path, json=body, headers=headers) as answer:
            assert answer.status < 300, f"{method} {path}: {await answer.text()}"
            return dict(await answer.json())

    async def get(self, path: str) -> Json | None:
        """An object, if it is there."""
        async with self.http.get(path) as answer:
            return dict(await answer.json()) if answer.status == 200 else None

    async def patch(self, path: str, body: Json) -> Json:
        """Merge something into an object."""
        return await self.call("PATCH", path, body, MERGE)

    async def delete(self, path: str) -> None:
        """Delete an object; its dependents go in the background."""
        await self.call("DELETE", path)

    async def resources(self) -> dict[str, Json]:
        """Every resource of ours."""
        found = {plural: await self.get(f"{OURS}/{plural}/{name}") for plural, name in NAMES.items()}
        return {plural: each for plural, each in found.items() if each is not None}

    async def unwell(self) -> list[str]:
        """What is not as it should be."""
        found = await self.resources()
        said = [
            f"{plural} {each['type']}={each['status']} {each['reason']}: {each['message']}"
            for plural, value in found.items()
            for each in conditions(value)
            if each["reason"] == "Forbidden" or (each["type"] == "Ready" and each["status"] != "True")
        ]
        silent = [plural for plural, value in found.items() if not conditions(value)]
        missing = NAMES.keys() - found.keys()
        return [*said, *silent, *missing, *await self._pods_missing(found)]

    async def _pods_missing(self, found: dict[str, Json]) -> list[str]:
        spec, status = found["nodesets"]["spec"], found["nodesets"].get("status") or {}
        return [] if status.get("readyReplicas") == spec["replicas"] == status.get("replicas") else ["workers"]

    async def until_well(self) -> None:
        """Until everything is Ready and nobody speaks of rights."""
        found: list[str] = []

        async def is_well() -> bool:
            nonlocal found
            found = await self.unwell()
            return not found

        try:
            await eventually(is_well)
        except TimeoutError:
            pytest.fail(f"not well again: {found}\n{self.process.log.read_text()[-3000:]}")

    async def scrape(self) -> str:
        """The operator's metrics; empty while it is starting."""
        try:
            async with self.http.get(self.metrics) as answer:
                return await answer.text()
        except aiohttp.ClientError:
            return ""


def conditions(value: Json) -> list[Json]:
    """The conditions of a resource."""
    return list((value.get("status") or {}).get("conditions") or ())


async def eventually(holds: Callable[[], Awaitable[object]], seconds: float = PATIENCE) -> None:
    """Ask again and again, for a limited time, until something holds."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110  # a server is polled, there is no event
            await asyncio.sleep(0.2)


# Making the world


def secret(name: str, key: str, value: bytes) -> Json:
    """A Secret of one entry."""
    return {"metadata": {"name": name}, "data": {key: b64encode(value).decode()}}


def resources() -> Iterator[tuple[str, Json]]:
    """One of every kind."""
    ref = {"controllerRef": {"name": "slurm"}}
    jwt = {"jwtKeyRef": {"name": "jwt-key", "key": "jwt.key"}}
    keys = {"slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"}, **jwt}
    monitor = {"enabled": True, "serviceMonitor": {"enabled": True}}
    room = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = {
        "volumeClaimTemplates": [{"metadata": {"name": "scratch"}, "spec": room}],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
    }
    storage = {"host": "mariadb", "passwordKeyRef": {"name": "database", "key": "password"}}
    specs: dict[str, Json] = {
        "controllers": {**keys, "accountingRef": {"name": "books"}, "metrics": monitor, "persistence": room},
        "accountings": {**keys, "storageConfig": storage},
        "restapis": ref,
        "loginsets": {**ref, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}},
        "nodesets": {**ref, "replicas": 2, "revisionHistoryLimit": 0, **claims},
        "partitions": {**ref, "nodeSets": ["compute"]},
        "tokens": {"username": "alice", **jwt},
    }
    kinds = {each["spec"]["names"]["plural"]: each["spec"]["names"]["kind"] for each in definitions()}
    for plural, spec in specs.items():
        meta = {"apiVersion": f"{GROUP}/v1beta1", "kind": kinds[plural], "metadata": {"name": NAMES[plural]}}
        yield f"{OURS}/{plural}", {**meta, "spec": spec}


def definitions() -> list[Json]:
    """Our CustomResourceDefinitions."""
    return [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml"))]


def monitor_definition() -> Json:
    """As much of the Prometheus operator as is needed here."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "servicemonitors", "singular": "servicemonitor", "kind": "ServiceMonitor", "listKind": "SMList"}
    return {
        "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def install(http: aiohttp.ClientSession) -> None:
    """What deploy/install.yaml has, but for the pods and the admission server."""
    paths = {
        "Namespace": "/api/v1/namespaces",
        "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "ServiceAccount": "/api/v1/namespaces/slinky/serviceaccounts",
        "ClusterRole": f"{RBAC}/clusterroles",
        "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
        "Role": f"{RBAC}/namespaces/slinky/roles",
        "RoleBinding": f"{RBAC}/namespaces/slinky/rolebindings",
    }
    rest = [each for each in INSTALL if each["kind"] in paths and each["kind"] != "CustomResourceDefinition"]
    objects = [(paths[each["kind"]], each) for each in [*definitions(), *rest]]
    objects += [
        (paths["CustomResourceDefinition"], monitor_definition()),
        (paths["Namespace"], {"metadata": {"name": "slurm"}}),
    ]
    for path, body in objects:
        await post(http, path, body)
    for plural in (*NAMES, "x"):
        await eventually(lambda at=plural: is_served(http, at))  # type: ignore[misc]  # bound


async def is_served(http: aiohttp.ClientSession, plural: str) -> bool:
    """Whether a kind can be asked for."""
    async with http.get(MONITORS if plural == "x" else f"{OURS}/{plural}") as answer:
        return answer.status == 200


async def post(http: aiohttp.ClientSession, path: str, body: Json) -> None:
    """Create something, once its namespace is ready."""
    async with http.post(path, json=body) as answer:
        assert answer.status in {201, 409}, f"{path}: {await answer.text()}"


async def make_cluster(http: aiohttp.ClientSession) -> None:
    """Secrets, volumes and a resource of every kind."""
    for name, key, value in (
        ("slurm-key", "slurm.key", b"s" * 48),
        ("jwt-key", "jwt.key", JWT),
        ("database", "password", b"secret"),
        ("sssd", "sssd.conf", b"[sssd]\n"),
    ):
        await post(http, f"{CORE}/secrets", secret(name, key, value))
    for number in range(16):
        spec = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}}
        await post(http, "/api/v1/persistentvolumes", {"metadata": {"name": f"volume-{number}"}, "spec": spec})
    accounts = "/api/v1/namespaces/slurm/serviceaccounts/default"

    async def has_account() -> bool:
        async with http.get(accounts) as answer:
            return answer.status == 200

    await eventually(has_account)
    for path, body in resources():
        await post(http, path, body)


async def token(http: aiohttp.ClientSession, account: str = "slurm-operator") -> str:
    """A token of one of our ServiceAccounts."""
    path = f"/api/v1/namespaces/slinky/serviceaccounts/{account}/token"
    async with http.post(path, json={"spec": {"expirationSeconds": 7200}}) as answer:
        return str((await answer.json())["status"]["token"])


def kubeconfig(folder: Path, server: str, held: str, ca: str = "") -> Path:
    """How a program reaches the API server with a token."""
    path = folder / "kubeconfig-of-ours"
    cluster = {"server": server} | ({"certificate-authority": ca} if ca else {})
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "op",
        "clusters": [{"name": "op", "cluster": cluster}],
        "users": [{"name": "op", "user": {"token": held}}],
        "contexts": [{"name": "op", "context": {"cluster": "op", "user": "op"}}],
    }
    path.write_text(yaml.safe_dump(content))
    path.chmod(0o600)
    return path


def arguments_of(name: str) -> list[str]:
    """The command line that the manifest gives to a program."""
    found = (each for each in INSTALL if each["kind"] == "Deployment" and each["metadata"]["name"] == name)
    return list(next(found)["spec"]["template"]["spec"]["containers"][0]["args"])


@contextlib.asynccontextmanager
async def operated(cluster: Cluster, folder: Path) -> AsyncIterator[World]:
    """The operator's whole world on a control plane."""
    model = SlurmModel(SystemClock(), JWT, cluster_name="slurm_slurm")
    model.up = True
    async with (
        cluster.session() as http,
        gateway(cluster) as (way, server),
        slurmrestd(model) as restapi,
        fake_nodes(cluster, 6),
    ):
        await install(http)
        await make_cluster(http)
        (port,) = free_ports(1)
        arguments = [
            *arguments_of("slurm-operator"),
            f"--kubeconfig={kubeconfig(folder, server, await token(http))}",
            f"--restapi-address={restapi}",
            f"--metrics-addr=127.0.0.1:{port}",
            "--health-addr=0",
        ]
        process = Process(arguments, folder / "operator.log")
        beside = [asyncio.create_task(process.run()), asyncio.create_task(slurmds(http, model, "slurm-config"))]
        made = World(http, way, model, process, f"http://127.0.0.1:{port}/metrics")
        try:
            await made.until_well()
            yield made
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
