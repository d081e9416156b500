"""A cluster that the Go operator ran, with rights over its nodes, on a real control plane with our admission server.

Its NodeSet has a hostPath, a capability and an account, which this operator allows to nobody as it is installed. It is
taken over without a restart, scaled and rolled; nothing more is allowed to it than it had.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from tests.campaigns.go_operator import GoOperator, written_by_go
from tests.charts.converging import Slurms, World, complaints, until, world
from tests.charts.rendering import Object
from tests.real.helm import rbac_world
from tests.real.helm.admitting import Place, admitting
from tests.real.helm.kubelet import kubelet
from tests.real.kube.cluster import real_cluster
from tests.reconcile.test_reach import REACHING

from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.clock import SystemClock
from slurm_operator.settings import Settings

pytestmark = [pytest.mark.real_kube, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

SPACE = "hpc"
CORE, APPS = f"/api/v1/namespaces/{SPACE}", f"/apis/apps/v1/namespaces/{SPACE}"
NODESET = f"/apis/slinky.slurm.net/v1beta1/namespaces/{SPACE}/nodesets/compute"
SECRETS = {"slurm-key": "slurm.key", "jwt-key": "jwt.key", "database": "password", "sssd": "sssd.conf"}
KEY = b"x" * 40
MERGE = {"Content-Type": "application/merge-patch+json"}
OURS = f"/apis/slinky.slurm.net/v1beta1/namespaces/{SPACE}"
TEMPLATES = {
    "Controller": (f"{OURS}/controllers/slurm", "slurmctld"),
    "Accounting": (f"{OURS}/accountings/books", "slurmdbd"),
    "RestApi": (f"{OURS}/restapis/slurm", "slurmrestd"),
    "LoginSet": (f"{OURS}/loginsets/login", "login"),
}
NEWER = "ghcr.io/slinkyproject/slurmd:26.05.1-ubuntu26.04"


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Where the Go operator writes."""

    here: World
    namespace: str = SPACE
    node: str = "fake-"

    async def create(self, kind: str, name: str, spec: Mapping[str, Any]) -> Any:
        """One of our resources."""
        body = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
        path = f"/apis/slinky.slurm.net/v1beta1/namespaces/{SPACE}/{kind.lower()}s"
        return await self.send("POST", path, body)

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """A write of the Go operator's field manager."""
        return await asked(self.here, method, f"{path}?fieldManager=manager", dict(body))

    async def secret(self, name: str) -> Mapping[str, bytes]:
        """What a Secret holds."""
        held = await asked(self.here, "GET", f"{CORE}/secrets/{name}")
        return {key: b64decode(value) for key, value in held["data"].items()}

    def now(self) -> float:
        """The time."""
        return SystemClock().now().timestamp()

    def started(self, name: str) -> None:
        """The pretended kubelets register it."""


async def asked(here: World, method: str, path: str, body: Any = None) -> Object:
    """A request that must succeed."""
    status, answer = await here.call(method, path, body, **(MERGE if method == "PATCH" else {}))
    assert status < 300, f"{method} {path}: {answer}"
    return answer


@pytest_asyncio.fixture(loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """A control plane."""
    folder = tmp_path_factory.mktemp("takeover")
    async with real_cluster(folder, controllers=True, scheduler=True) as cluster, cluster.session() as http:
        await rbac_world.install(http)
        yield Place(cluster, http, folder)


async def pods(here: World) -> dict[str, Object]:
    """Every pod that is not going."""
    found = (await asked(here, "GET", f"{CORE}/pods"))["items"]
    return {each["metadata"]["name"]: each for each in found if not each["metadata"].get("deletionTimestamp")}


async def daemons(here: World) -> dict[str, Any]:
    """Every pod by its uid, and every pod template."""
    found: dict[str, Any] = {name: each["metadata"]["uid"] for name, each in (await pods(here)).items()}
    for plural in ("statefulsets", "deployments"):
        items = (await asked(here, "GET", f"{APPS}/{plural}"))["items"]
        found |= {f"{plural} {each['metadata']['name']}": each["spec"]["template"] for each in items}
    return found


async def workers(here: World) -> dict[str, Object]:
    """The workers that run."""
    return {
        name: each
        for name, each in (await pods(here)).items()
        if each["metadata"]["labels"]["app.kubernetes.io/name"] == "slurmd" and each["status"]["phase"] == "Running"
    }


async def is_at_rest(here: World, replicas: int, image: str) -> bool:
    """Whether so many workers of this image are ready, and nothing is left to do."""
    nodeset, found = await asked(here, "GET", NODESET), await workers(here)
    images = {each["spec"]["containers"][0]["image"] for each in found.values()}
    said = [each for each in complaints("NodeSet", nodeset) if "PodFeaturesKept" not in each]
    return not said and len(found) == replicas == nodeset["status"].get("readyReplicas") and images == {image}


async def test_it_is_taken_over_without_a_restart_scaled_and_rolled(place: Place) -> None:
    slurms, start = Slurms(), asyncio.Event()
    target = kubeconfig.find(path=str(place.cluster.kubeconfig_path))
    async with (
        kubelet(slurms) as port,
        Client.to(target) as client,
        world(place.cluster, client, slurms, Settings(), kubelet_port=port, start=start) as here,
    ):
        await go_leaves(here)
        before = await daemons(here)
        old = {name: each["metadata"]["uid"] for name, each in (await workers(here)).items()}
        assert len(old) == 2
        async with admitting(place):
            start.set()
            await until(lambda: is_at_rest(here, 2, REACHING["slurmd"]["image"]))
            assert await daemons(here) == before
            conditions = (await asked(here, "GET", NODESET))["status"]["conditions"]
            (kept,) = (each for each in conditions if each["type"] == "PodFeaturesKept")
            assert "--allow-pod-features=capabilities,hostPath,privileged,serviceAccount" in kept["message"]

            await asked(here, "PATCH", NODESET, {"spec": {"replicas": 3}})
            await until(lambda: is_at_rest(here, 3, REACHING["slurmd"]["image"]))
            now = await workers(here)
            assert old.items() < {name: each["metadata"]["uid"] for name, each in now.items()}.items()
            check_features(now["compute-2"])

            await asked(here, "PATCH", NODESET, {"spec": {"slurmd": {"image": NEWER}}})
            await until(lambda: is_at_rest(here, 3, NEWER))
            now = await workers(here)
            assert not set(old.values()) & {each["metadata"]["uid"] for each in now.values()}
            for each in now.values():
                check_features(each)

            for kind, (path, daemon) in TEMPLATES.items():
                await asked(here, "PATCH", path, {"spec": {daemon: {"env": [{"name": "NEW", "value": kind}]}}})
            # A server would refuse a volume that has Go's source and ours.
            await until(lambda: have_changed(here))

            more = {"spec": {"template": {"spec": {"hostPID": True}}}}
            status, answer = await here.call("PATCH", NODESET, more, **MERGE)
            assert status == 422
            assert "admission webhook" in answer["message"]
            assert "hostPID" in answer["message"]


async def have_changed(here: World) -> bool:
    """Whether the pods of every daemon run with what was changed, and their resources are well."""
    for kind, (path, daemon) in TEMPLATES.items():
        if list(complaints(kind, await asked(here, "GET", path))):
            return False
        found = [each for each in (await pods(here)).values() if f"NEW={kind}" in variables(each, daemon)]
        if not found or any(each["status"]["phase"] != "Running" for each in found):
            return False
    return True


def variables(pod: Object, container: str) -> set[str]:
    """The literal environment of a container."""
    found = (each for each in pod["spec"]["containers"] if each["name"] == container)
    return {f"{each['name']}={each.get('value')}" for one in found for each in one.get("env", ())}


async def go_leaves(here: World) -> None:
    """The Go operator was here, and is gone."""
    await asked(here, "POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
    accounts = f"{CORE}/serviceaccounts"

    async def has_account() -> bool:
        return (await here.call("GET", f"{accounts}/default"))[0] == 200

    await until(has_account)
    await asked(here, "POST", accounts, {"metadata": {"name": "dcgm"}})
    for name, key in SECRETS.items():
        await asked(here, "POST", f"{CORE}/secrets", {"metadata": {"name": name}, "stringData": {key: KEY.decode()}})
    here.slurms.add(SPACE, KEY)
    await GoOperator(LeftBehind(here), nodeset=REACHING).leave_a_cluster(*written_by_go(REACHING))

    async def is_up() -> bool:
        found = await pods(here)
        return len(found) == 6 and all(each["status"]["phase"] == "Running" for each in found.values())

    await until(is_up)


def check_features(pod: Object) -> None:
    """A new worker has what the old ones had."""
    spec, slurmd = pod["spec"], pod["spec"]["containers"][0]
    assert spec["serviceAccountName"] == "dcgm"
    assert {"name": "infiniband", "hostPath": {"path": "/dev/infiniband", "type": ""}} in spec["volumes"]
    assert "IPC_LOCK" in slurmd["securityContext"]["capabilities"]["add"]
