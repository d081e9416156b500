"""From the charts and the operator of the last commit to those of this tree and back, with a Slurm cluster at work.

In: the last commit that touched deploy/ (its charts, its manifest, its source), fake nodes, a small Slurm. Out: no pod
goes, keys stay, definitions are the new ones; and when all is uninstalled, exactly what is kept on purpose is left.
Where there is no such commit (a shallow clone, a tarball) these tests are skipped, and say so.
"""

from __future__ import annotations

import asyncio
import io
import subprocess
import tarfile
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.campaigns.slurm_model import SlurmModel
from tests.charts.rendering import CHARTS, ROOT
from tests.real.helm.release import DEFINITIONS, Json, Place, applied, eventually, gone, operating
from tests.real.kube.fake_nodes import fake_nodes
from tests.real.kube.gateway import slurmds, slurmrestd

from kube_runtime.clock import SystemClock

pytestmark = [pytest.mark.real_kube, pytest.mark.asyncio(loop_scope="session")]

OURS = "/apis/slinky.slurm.net/v1beta1/namespaces/slurm"
CORE = "/api/v1/namespaces/slurm"
WEBHOOK_OFF: Json = {"webhook": {"enabled": False}}
VALUES: Json = {
    "nodesets": {"compute": {"replicas": 2, "partition": {"enabled": True, "configMap": {"Default": "YES"}}}},
    "loginsets": {"main": {"service": {"spec": {"type": "ClusterIP"}}}},
    "partitions": {"all": {"enabled": True, "configMap": {"Default": "NO"}}},
    "controller": {"persistence": {"resources": {"requests": {"storage": "1Gi"}}}},
}
# What comes and goes by itself: heartbeats, records of what happened, and what Kubernetes derives from other objects.
PASSING = {
    "events",
    "leases",
    "endpoints",
    "endpointslices",
    "componentstatuses",
    "apiservices",
    "nodes",
    "ipaddresses",
}
# Left on purpose: the keys and slurmctld's state outlive a release, and with the definitions would go every cluster.
KEPT = {
    "persistentvolumeclaims slurm/statesave-slurm-controller-0",
    "secrets slurm/slurm-auth-jwt",
    "secrets slurm/slurm-auth-slurm",
    *(
        f"customresourcedefinitions {plural}.slinky.slurm.net"
        for plural in ("accountings", "controllers", "loginsets", "nodesets", "partitions", "restapis", "tokens")
    ),
}
# helm made these with --create-namespace, and does not take them away.
NAMESPACES = {"namespaces slinky", "namespaces slurm"}
# What Kubernetes puts into every namespace by itself, a while after it is there.
NATIVE = ("/kube-root-ca.crt", "/default")


def git(*arguments: str) -> bytes:
    """What git says; nothing where there is no history."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as it was at the last commit that changed what is deployed."""
    touched = git("log", "-2", "--format=%H", "--", "deploy").decode().split()
    changed = bool(git("status", "--porcelain", "--", "deploy"))
    commit = next(iter(touched if changed else touched[1:]), "")
    archive = git("archive", commit, "deploy", "src") if commit else b""
    if not archive:
        pytest.skip("UPGRADE NOT TESTED: this checkout has no earlier commit that touched deploy/ (shallow, or no git)")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder


async def everything(place: Place) -> set[str]:
    """Every object of every kind that the server has."""
    found: set[str] = set()
    groups = (await place.get("/apis") or {})["groups"]
    bases = ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups)]
    for base in bases:
        for kind in (await place.get(base) or {}).get("resources", ()):
            if "/" in kind["name"] or "list" not in kind["verbs"] or kind["name"] in PASSING:
                continue
            for each in (await place.get(f"{base}/{kind['name']}") or {}).get("items", ()):
                meta = each["metadata"]
                where = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
                found.add(f"{kind['name']} {where}")
    return {each for each in found if not each.endswith(NATIVE)}


async def pods(place: Place) -> dict[str, str]:
    """Every pod of the cluster, by name, with the uid that tells it from a successor."""
    items = (await place.get(f"{CORE}/pods") or {})["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in items}


async def templates(place: Place) -> dict[str, Json]:
    """The pod template of every workload; Kubernetes replaces its pods when it changes."""
    found: dict[str, Json] = {}
    for plural in ("statefulsets", "deployments"):
        items = (await place.get(f"/apis/apps/v1/namespaces/slurm/{plural}") or {})["items"]
        found |= {each["metadata"]["name"]: each["spec"]["template"] for each in items}
    return found


def without_sidecar(template: Json) -> Json:
    """A template without the sidecar's script, which is part of the operator."""
    spec = template["spec"]
    kept = {
        part: [each for each in spec.get(part) or () if each["name"] != "reconfigure"]
        for part in ("containers", "initContainers")
    }
    return {**template, "spec": {**spec, **kept}}


async def same_pods(place: Place, before: dict[str, str], workloads: dict[str, Json]) -> None:
    """Nobody went, but slurmctld where the new operator has another sidecar for it: jobs do not notice that."""
    now = await templates(place)
    changed = {name for name, template in workloads.items() if now[name] != template}
    assert changed <= {"slurm-controller"}
    for name in changed:
        assert without_sidecar(now[name]) == without_sidecar(workloads[name])
    lost = before.items() - (await pods(place)).items()
    assert {name for name, _ in lost} <= {"slurm-controller-0" for _ in changed}


async def keys(place: Place) -> list[Json]:
    """The drawn keys."""
    found = [await place.get(f"{CORE}/secrets/slurm-auth-{name}") for name in ("slurm", "jwt")]
    return [each["data"] for each in found if each]


async def ready(place: Place, workers: int) -> bool:
    """Whether every resource is Ready, with so many workers that run."""
    for plural, name in (("controllers", "slurm"), ("restapis", "slurm"), ("nodesets", "slurm-worker-compute")):
        found = await place.get(f"{OURS}/{plural}/{name}") or {}
        status = found.get("status") or {}
        words = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        if not seen or words.get("Ready") != "True":
            return False
        if plural == "nodesets" and status.get("readyReplicas") != workers:
            return False
    return True


@asynccontextmanager
async def working(place: Place, model: SlurmModel, address: str, source: Path | None = None) -> AsyncIterator[None]:
    """An operator at work on a cluster whose Slurm answers."""
    async with operating(place, f"--restapi-address={address}", source=source):
        beside = asyncio.create_task(slurmds(place.http, model, "slurm-config"))
        try:
            yield
        finally:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)


async def scaled(place: Place, workers: int) -> None:
    """Another worker: whoever makes it has looked at everything before."""
    body = {"spec": {"replicas": workers}}
    headers = {"Content-Type": "application/merge-patch+json"}
    path = f"{OURS}/nodesets/slurm-worker-compute"
    async with place.http.patch(path, json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
    await eventually(lambda: ready(place, workers))
    items = (await place.get(f"{CORE}/pods?labelSelector=app.kubernetes.io%2Fname%3Dslurmd") or {})["items"]
    assert len(items) == workers


@asynccontextmanager
async def nodes(place: Place) -> AsyncIterator[None]:
    """Nodes that run pods, and are gone afterwards: nobody would end a pod on them."""
    async with fake_nodes(place.cluster, 6) as made:
        try:
            yield
        finally:
            for name in made.names:
                async with place.http.delete(f"/api/v1/nodes/{name}"):
                    pass


async def volumes(place: Place) -> set[str]:
    """Room for slurmctld's state; there is nobody who makes volumes here."""
    spec = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}}
    body = {"metadata": {"name": "state"}, "spec": spec}
    async with place.http.post("/api/v1/persistentvolumes", json=body) as answer:
        assert answer.status == 201, await answer.text()
    return {"persistentvolumes state"}


async def test_a_live_cluster_is_upgraded_and_rolled_back_without_a_restart(place: Place, before: Path) -> None:
    old, at_first = before / "deploy" / "charts", await everything(place)
    model = SlurmModel(SystemClock(), b"", cluster_name="slurm_slurm")
    model.up = True
    made = await volumes(place)
    async with slurmrestd(model) as address, nodes(place):
        await place.release("install", "slurm-operator-crds", "slinky", {}, old)
        await place.release("install", "slurm-operator", "slinky", WEBHOOK_OFF, old)
        await place.release("install", "slurm", "slurm", VALUES, old)
        drawn = await keys(place)
        model.key = b64decode(drawn[1]["jwt.key"])
        async with working(place, model, address, before / "src"):
            await eventually(lambda: ready(place, 2))
            await eventually(lambda: has_pods(place, 5))
        first, workloads = await pods(place), await templates(place)

        await place.release("upgrade", "slurm-operator-crds", "slinky", {})
        await place.release("upgrade", "slurm-operator", "slinky", WEBHOOK_OFF)
        await place.release("upgrade", "slurm", "slurm", VALUES)
        await are_current(place)
        async with working(place, model, address):
            await eventually(lambda: ready(place, 2))
            await scaled(place, 3)
            await scaled(place, 2)
            await same_pods(place, first, workloads)
        assert await keys(place) == drawn

        second, workloads = await pods(place), await templates(place)
        await place.do("rollback", "slurm", "1", "-n", "slurm")
        await place.do("rollback", "slurm-operator", "1", "-n", "slinky")
        async with working(place, model, address, before / "src"):
            await eventually(lambda: ready(place, 2))
            await scaled(place, 3)
            await same_pods(place, second, workloads)
            assert await keys(place) == drawn

            await place.do("uninstall", "slurm", "-n", "slurm")
            for kind in ("controllers", "nodesets", "partitions", "loginsets", "restapis"):
                await eventually(lambda at=kind: is_empty(place, f"{OURS}/{at}"))  # type: ignore[misc]  # bound
            await eventually(lambda: is_empty(place, f"{CORE}/pods"))
    await place.do("uninstall", "slurm-operator", "-n", "slinky")
    await place.do("uninstall", "slurm-operator-crds", "-n", "slinky")
    await left_is(place, at_first, KEPT | NAMESPACES | made)
    await clear(place, made)


async def has_pods(place: Place, number: int) -> bool:
    """Whether all of slurmctld, slurmrestd, two workers and a login pod are there."""
    return len(await pods(place)) >= number


async def is_empty(place: Place, path: str) -> bool:
    """Whether a collection holds nothing."""
    return not await place.names(path)


def definitions() -> list[Json]:
    """Our definitions as they are in this tree."""
    return [yaml.safe_load(file.read_text()) for file in sorted((CHARTS.parent / "crds").glob("*.yaml"))]


async def are_current(place: Place) -> None:
    """Whether the served definitions are those of this tree: every version's schema, word for word."""
    for wanted in definitions():
        found = await place.get(f"{DEFINITIONS}/{wanted['metadata']['name']}")
        assert found is not None
        for mine, theirs in zip(wanted["spec"]["versions"], found["spec"]["versions"], strict=True):
            assert rounded(mine["schema"]) == rounded(theirs["schema"]), wanted["metadata"]["name"]


def rounded(value: Any) -> Any:
    """A schema with its numbers as the server keeps them."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


async def left_is(place: Place, at_first: set[str], kept: set[str]) -> None:
    """Until what is there is what was there and what is kept, and nothing else."""
    extra: set[str] = set()

    async def is_so() -> bool:
        nonlocal extra
        extra = await everything(place) - at_first
        return extra == kept

    try:
        await eventually(is_so)
    except TimeoutError:
        pytest.fail(f"left behind: {sorted(extra - kept)}; missing: {sorted(kept - extra)}")


async def clear(place: Place, made: set[str]) -> None:
    """Take away what is kept, for the next test."""
    paths = [f"{DEFINITIONS}/{name.partition(' ')[2]}" for name in KEPT if name.startswith("customresource")]
    paths += [f"/api/v1/{name.replace(' ', '/')}" for name in made]
    paths += [f"{CORE}/persistentvolumeclaims/statesave-slurm-controller-0"]
    for path in sorted(paths):
        async with place.http.delete(path):
            pass
    for path in paths:
        await eventually(lambda at=path: gone(place, at))  # type: ignore[misc]  # bound


async def test_the_manifest_is_upgraded_in_place_and_leaves_nothing(place: Place, before: Path) -> None:
    if place.helm.major != 3:
        pytest.skip("the manifest needs no helm: once is enough")
    at_first, paths = await everything(place), list[str]()
    for folder in (before / "deploy", CHARTS.parent):
        objects = [each for each in yaml.safe_load_all((folder / "install.yaml").read_text()) if each]
        paths = [await applied(place, each) for each in objects]
    await are_current(place)
    for path in reversed(paths):
        async with place.http.delete(path) as answer:
            assert answer.status in {200, 202}, await answer.text()
    await left_is(place, at_first, set())
