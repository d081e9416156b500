"""The admission server as its Deployment runs it, called by a real kube-apiserver.

In: a control plane with what deploy/install.yaml has. Out: `admitting`: the server in a process of its own, while the
block lasts. Used by the tests of its role and by those of the forms of values.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from tests.real.helm.rbac_world import INSTALL, MERGE, Json, Process, arguments_of, eventually, kubeconfig, token
from tests.real.kube.cluster import Cluster, free_ports

WEBHOOK = "slurm-operator-webhook"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class Place:
    """A control plane with our definitions, roles and resources, and nobody at work."""

    cluster: Cluster
    http: aiohttp.ClientSession
    folder: Path

    async def call(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        """One request as the administrator."""
        headers = MERGE if method == "PATCH" else {}
        async with self.http.request(method, path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def kubeconfig(self, account: str) -> Path:
        """How an account of ours comes in."""
        held = await token(self.http, account)
        return kubeconfig(self.folder, self.cluster.url, held, str(self.cluster.folder / "ca.crt"))


@contextlib.asynccontextmanager
async def admitting(place: Place, *further: str) -> AsyncIterator[Process]:
    """The admission server as its Deployment runs it, with further flags, called by the API server."""
    serving, health = free_ports(2)
    (found,) = (each for each in INSTALL if each["kind"] == "ValidatingWebhookConfiguration")
    hooks = copy.deepcopy(found)
    for hook in hooks["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{serving}{path}"}
    await place.call("POST", HOOKS, hooks)
    arguments = [
        *arguments_of(WEBHOOK),
        f"--kubeconfig={await place.kubeconfig(WEBHOOK)}",
        f"--server-addr=127.0.0.1:{serving}",
        f"--health-addr=127.0.0.1:{health}",
        "--cert-hosts=127.0.0.1",
        *further,
    ]
    process = Process(arguments, place.folder / "webhook.log")
    task = asyncio.create_task(process.run())

    async def is_ready() -> bool:
        try:
            async with place.http.get(f"http://127.0.0.1:{health}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    try:
        await eventually(is_ready)
        yield process
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await place.call("DELETE", f"{HOOKS}/{hooks['metadata']['name']}")
