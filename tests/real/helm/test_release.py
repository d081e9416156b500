"""Releases on a real kube-apiserver: installed, upgraded, rolled back and uninstalled, with the operator at work.

There are no kubelets, so the operator runs beside the tests: with the arguments that the chart gives it, as the
ServiceAccount that the chart makes, with the rights that the chart grants.
"""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
import yaml
from tests.charts.rendering import CHARTS
from tests.real.helm.release import DEFINITIONS, HOOKS, Json, Place, applied, eventually, gone, operating

pytestmark = [pytest.mark.real_kube, pytest.mark.asyncio(loop_scope="session")]

OURS = "/apis/slinky.slurm.net/v1beta1/namespaces/slurm"
CORE = "/api/v1/namespaces/slurm"
APPS = "/apis/apps/v1/namespaces/slurm"
MERGE = {"Content-Type": "application/merge-patch+json"}
KEPT = {"slurm-auth-slurm", "slurm-auth-jwt"}
# What Kubernetes puts into every namespace by itself.
NATIVE = {"kube-root-ca.crt"}


def reported(resource: Json | None) -> bool:
    """Whether the operator has judged the newest form of a resource."""
    if resource is None:
        return False
    status = resource.get("status") or {}
    return bool(status.get("observedGeneration") == resource["metadata"]["generation"])


VALUES: Json = {
    "nodesets": {"compute": {"replicas": 2, "partition": {"enabled": True, "configMap": {"Default": "YES"}}}},
    "loginsets": {"main": {"service": {"spec": {"type": "ClusterIP"}}}},
    "partitions": {"all": {"enabled": True, "configMap": {"Default": "NO"}}},
}


@pytest.mark.parametrize("namespaces", ["", "slurm"], ids=["everywhere", "in one namespace"])
async def test_a_cluster_lives_its_life_with_no_more_than_the_shipped_rights(place: Place, namespaces: str) -> None:
    await place.release("install", "slurm-operator-crds", "slinky", {"keep": False})
    async with place.http.post("/api/v1/namespaces", json={"metadata": {"name": "slurm"}}):
        pass
    off = {"enabled": False}
    await place.release("install", "slurm-operator", "slinky", {"webhook": off, "operator": {"namespaces": namespaces}})
    async with operating(place):
        notes = await place.release("install", "slurm", "slurm", VALUES)
        assert "wait --for=condition=Ready" in notes
        await until_all_reported(place)
        await eventually(lambda: has(place, f"{CORE}/pods", {"slurm-worker-compute-0", "slurm-worker-compute-1"}))
        assert "slurm-login-main" in await place.names(f"{APPS}/deployments")
        keys = await keys_of(place)

        await place.release("upgrade", "slurm", "slurm", {**VALUES, "nodesets": {"compute": {"replicas": 3}}})
        await eventually(lambda: has(place, f"{CORE}/pods", {"slurm-worker-compute-2"}))
        assert await keys_of(place) == keys

        await place.do("rollback", "slurm", "1", "-n", "slurm")
        await until_all_reported(place)
        assert await keys_of(place) == keys
        assert await replicas(place) == 2

        await place.do("uninstall", "slurm", "-n", "slurm")
        for kind in ("controllers", "nodesets", "partitions", "loginsets", "restapis"):
            await eventually(lambda at=kind: empty(place, f"{OURS}/{at}"))  # type: ignore[misc]  # bound
        for path in (f"{APPS}/statefulsets", f"{APPS}/deployments", f"{CORE}/services"):
            await eventually(lambda at=path: empty(place, at))  # type: ignore[misc]  # bound
        await eventually(lambda: has_only(place, f"{CORE}/secrets", KEPT))
        await eventually(lambda: has_only(place, f"{CORE}/configmaps", NATIVE))

        await place.release("install", "slurm", "slurm", {})
        assert await keys_of(place) == keys
        await place.do("uninstall", "slurm", "-n", "slurm")
        await eventually(lambda: empty(place, f"{OURS}/controllers"))
    await place.do("uninstall", "slurm-operator", "-n", "slinky")
    await place.do("uninstall", "slurm-operator-crds", "-n", "slinky")


async def until_all_reported(place: Place) -> None:
    """Until the operator has a word to say about each resource."""
    resources = {
        "controllers": "slurm",
        "restapis": "slurm",
        "nodesets": "slurm-worker-compute",
        "loginsets": "slurm-login-main",
        "partitions": "slurm-all",
    }
    for plural, name in resources.items():
        await eventually(lambda at=f"{OURS}/{plural}/{name}": is_reported(place, at))  # type: ignore[misc]  # bound


async def is_reported(place: Place, path: str) -> bool:
    """Whether a resource has a status of its newest generation."""
    return reported(await place.get(path))


async def has(place: Place, path: str, names: set[str]) -> bool:
    """Whether a collection holds these."""
    return names <= await place.names(path)


async def has_only(place: Place, path: str, names: set[str]) -> bool:
    """Whether a collection holds these and nothing else; Helm's own records aside."""
    return {name for name in await place.names(path) if not name.startswith("sh.helm.release")} == names


async def empty(place: Place, path: str) -> bool:
    """Whether a collection holds nothing."""
    return not await place.names(path)


async def replicas(place: Place) -> int:
    """How many workers are wanted."""
    nodeset = await place.get(f"{OURS}/nodesets/slurm-worker-compute")
    assert nodeset is not None
    return int(nodeset["spec"]["replicas"])


async def keys_of(place: Place) -> Json:
    """The drawn keys."""
    found = {}
    for name in KEPT:
        secret = await place.get(f"{CORE}/secrets/{name}")
        assert secret is not None, name
        found[name] = secret["data"]
    return found


async def test_an_upgrade_leaves_the_published_certificate_alone(place: Place) -> None:
    await place.release("install", "slurm-operator", "slinky", {"crds": {"enabled": True, "keep": False}})
    hooks = await place.get(f"{HOOKS}/slurm-operator-webhook")
    assert hooks is not None
    bundle = b64encode(place.cluster.ca_pem.encode()).decode()
    published = [{**each, "clientConfig": {**each["clientConfig"], "caBundle": bundle}} for each in hooks["webhooks"]]
    body = json.dumps({"webhooks": published})
    async with place.http.patch(f"{HOOKS}/slurm-operator-webhook", data=body, headers=MERGE) as answer:
        assert answer.status == 200
    changed: Json = {"crds": {"enabled": True, "keep": False}, "webhook": {"timeoutSeconds": 5, "replicas": 2}}
    await place.release("upgrade", "slurm-operator", "slinky", changed)
    after = await place.get(f"{HOOKS}/slurm-operator-webhook")
    assert after is not None
    assert {each["timeoutSeconds"] for each in after["webhooks"]} == {5}
    assert {each["clientConfig"]["caBundle"] for each in after["webhooks"]} == {bundle}
    await place.do("uninstall", "slurm-operator", "-n", "slinky")
    for name in await place.names(DEFINITIONS):
        await eventually(lambda at=name: gone(place, f"{DEFINITIONS}/{at}"))  # type: ignore[misc]  # bound


async def test_the_manifest_installs_the_same_without_helm(place: Place) -> None:
    objects = [each for each in yaml.safe_load_all((CHARTS.parent / "install.yaml").read_text()) if each]
    paths = [await applied(place, each) for each in objects]
    assert "restricted" in json.dumps(objects[0])
    for path in reversed(paths):
        async with place.http.delete(path) as answer:
            assert answer.status in {200, 202}, await answer.text()
    for path in paths:
        await eventually(lambda at=path: gone(place, at))  # type: ignore[misc]  # bound


async def test_definitions_outlive_a_release_unless_told_otherwise(place: Place) -> None:
    await place.release("install", "slurm-operator-crds", "slinky", {})
    await place.do("uninstall", "slurm-operator-crds", "-n", "slinky")
    left = {name for name in await place.names(DEFINITIONS) if name.endswith(".slinky.slurm.net")}
    assert len(left) == 7
    # The same release takes them up again, and lets them go.
    await place.release("install", "slurm-operator-crds", "slinky", {"keep": False})
    await place.do("uninstall", "slurm-operator-crds", "-n", "slinky")
    for name in left:
        await eventually(lambda at=name: gone(place, f"{DEFINITIONS}/{at}"))  # type: ignore[misc]  # bound
