"""A cluster with a helm: releases of our charts, manifests, and what is there.

In: a control plane and one helm. Out: `Place`, and questions about what stands in the cluster. Used by the tests of
releases.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from tests.charts.rendering import CHARTS
from tests.real.helm.command import Helm
from tests.real.kube.cluster import Cluster, write_kubeconfig

Json = dict[str, Any]
PATIENCE = 120
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Place:
    """A fresh cluster, with a helm."""

    cluster: Cluster
    http: aiohttp.ClientSession
    helm: Helm
    folder: Path

    async def get(self, path: str) -> Json | None:
        """One object or list."""
        async with self.http.get(path) as answer:
            return None if answer.status == 404 else dict(await answer.json())

    async def names(self, path: str) -> set[str]:
        """What a collection holds."""
        found = await self.get(path)
        return {each["metadata"]["name"] for each in found["items"]} if found else set()

    async def do(self, *arguments: str) -> str:
        """Run helm without holding up the others."""
        return (await asyncio.to_thread(self.helm.run, *arguments)).stdout

    async def release(self, verb: str, chart: str, namespace: str, values: Json, charts: Path = CHARTS) -> str:
        """Install or upgrade a chart."""
        file = self.folder / f"{chart}.yaml"
        file.write_text(yaml.safe_dump(values))
        make = ("--create-namespace",) if verb == "install" else ()
        return await self.do(verb, chart, str(charts / chart), "-n", namespace, "-f", str(file), *make)

    async def token(self, account: str) -> str:
        """A token of a ServiceAccount of ours."""
        path = f"/api/v1/namespaces/slinky/serviceaccounts/{account}/token"
        async with self.http.post(path, json={"spec": {"expirationSeconds": 3600}}) as answer:
            return str((await answer.json())["status"]["token"])


async def eventually(check: Callable[[], Awaitable[object]]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(PATIENCE):
        while not await check():  # noqa: ASYNC110  # a server is polled, there is no event
            await asyncio.sleep(0.1)


async def gone(place: Place, path: str) -> bool:
    """Whether something is there no longer."""
    return await place.get(path) is None


async def footprint(place: Place) -> set[str]:
    """Everything that we could leave behind outside of namespaces."""
    paths = (f"{ROLES}/clusterroles", f"{ROLES}/clusterrolebindings", HOOKS, DEFINITIONS)
    return {f"{path} {name}" for path in paths for name in await place.names(path)}


@asynccontextmanager
async def operating(place: Place, *further: str, source: Path | None = None) -> AsyncIterator[Path]:
    """The operator as its Deployment would run it, out of this tree or another's `src`; gives its log."""
    deployment = await place.get("/apis/apps/v1/namespaces/slinky/deployments/slurm-operator")
    assert deployment is not None
    pod = deployment["spec"]["template"]["spec"]
    kubeconfig, log = place.folder / "operator.kubeconfig", place.folder / "operator.log"
    ca = place.folder / "ca.crt"
    ca.write_text(place.cluster.ca_pem)
    write_kubeconfig(kubeconfig, place.cluster.url, ca, await place.token(pod["serviceAccountName"]))
    arguments = [*pod["containers"][0]["args"], "--kubeconfig", str(kubeconfig), *further]
    environment = {**os.environ, "PYTHONPATH": str(source)} if source else None
    with log.open("w") as output:
        child = subprocess.Popen(  # noqa: ASYNC220  # it only starts here
            [sys.executable, "-m", "slurm_operator.cli.main", *arguments, "--health-addr=0", "--metrics-addr=0"],
            stdout=output,
            stderr=output,
            env=environment,
        )
    try:
        yield log
        assert child.poll() is None, log.read_text()[-3000:]
    finally:
        child.terminate()
        await asyncio.to_thread(child.wait, 30)
    assert "orbidden" not in log.read_text()
    assert "can-i" not in log.read_text()


async def applied(place: Place, value: Json) -> str:
    """`kubectl apply --server-side` of one object; where it then is."""
    group, _, version = value["apiVersion"].rpartition("/")
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    served = await place.get(base)
    assert served is not None
    (plural,) = (
        each["name"] for each in served["resources"] if each["kind"] == value["kind"] and "/" not in each["name"]
    )
    namespace = value["metadata"].get("namespace")
    where = f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"
    path = f"{where}/{value['metadata']['name']}"
    headers = {"Content-Type": "application/apply-patch+yaml"}
    async with place.http.patch(f"{path}?fieldManager=test", data=json.dumps(value), headers=headers) as answer:
        assert answer.status in {200, 201}, await answer.text()
    return path
