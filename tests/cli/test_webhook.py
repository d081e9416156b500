"""`slurm-operator webhook` as a process, asked over HTTPS as an API server asks."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kube_local.apiserver import ApiServer
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.objects import CRDS, SECRETS
from slurm_operator.admission.rotation import CONFIGURATIONS, PUBLISHED
from slurm_operator.admission.server import path_of
from slurm_operator.api.crd import definitions
from slurm_operator.api.kinds import KINDS

NAME = "slurm-operator-webhook"
GOOD: dict[str, Any] = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "Controller",
    "metadata": {"name": "slurm", "namespace": "default"},
    "spec": {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}, "clusterName": "one"},
}


def configuration(port: int) -> dict[str, Any]:
    webhooks = [
        {
            "name": f"{kind.name.lower()}-v1beta1.kb.io",
            "clientConfig": {"url": f"https://127.0.0.1:{port}{path_of(kind.name)}"},
            "rules": [
                {
                    "apiGroups": ["slinky.slurm.net"],
                    "apiVersions": ["v1beta1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [kind.plural],
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
        }
        for kind in KINDS
    ]
    place = {"apiVersion": CONFIGURATIONS.api_version, "kind": CONFIGURATIONS.kind, "metadata": {"name": NAME}}
    return {**place, "webhooks": webhooks}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[tuple[Client, Path]]:
    api = ApiServer()
    await api.start()
    path = tmp_path / "kubeconfig"
    path.write_text(api.kubeconfig())
    async with Client.to(kubeconfig.find(path=str(path))) as client:
        for definition in definitions():
            await client.create(CRDS, definition)
        yield client, path
    await api.stop()


async def started(path: Path, port: int, *more: str) -> asyncio.subprocess.Process:
    arguments = ["webhook", "--kubeconfig", str(path), f"--server-addr=127.0.0.1:{port}", "--health-addr=0"]
    arguments += ["--cert-namespace=default", "--cert-hosts=127.0.0.1", *more]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "slurm_operator.cli.main", *arguments, stderr=asyncio.subprocess.PIPE
    )


async def published(client: Client) -> None:
    while True:
        found = (await client.get(CONFIGURATIONS, NAME)).content()
        if PUBLISHED in (found["metadata"].get("annotations") or {}):
            return
        await asyncio.sleep(0.05)


def scrape(port: int) -> dict[str, float]:
    """Every sample of a program, as it is written."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = [line.rpartition(" ") for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def listening(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        if b"listens on" in line:
            return
    pytest.fail("the server ended")


async def asked(client: Client, new: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the server says, asked at the address and by the authority that are published."""
    hooks = (await client.get(CONFIGURATIONS, NAME)).content()["webhooks"]
    config = next(one["clientConfig"] for one in hooks if one["name"].startswith("controller"))
    request = {
        "uid": "u",
        "operation": "UPDATE" if old else "CREATE",
        "object": new,
        "oldObject": old,
        "namespace": "default",
    }
    kind = {"group": "slinky.slurm.net", "version": "v1beta1", "kind": "Controller"}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, "kind": kind}}
    trusting = ssl.create_default_context(cadata=base64.b64decode(config["caBundle"]).decode())
    async with aiohttp.ClientSession() as session, session.post(config["url"], json=review, ssl=trusting) as answer:
        found: dict[str, Any] = (await answer.json())["response"]
        return found


@pytest.mark.timeout(60)
async def test_its_certificate_is_trusted_and_it_judges(server: tuple[Client, Path]) -> None:
    client, path = server
    port = free_port()
    await client.create(CONFIGURATIONS, configuration(port))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}}
    await client.create(SECRETS, secret, "default")

    metrics = free_port()
    process = await started(path, port, f"--metrics-addr=127.0.0.1:{metrics}")
    try:
        await listening(process)
        await published(client)
        assert (await asked(client, GOOD))["allowed"]
        refused = await asked(client, {**GOOD, "spec": {**GOOD["spec"], "clusterName": "two"}}, GOOD)
        assert not refused["allowed"]
        assert "spec.clusterName" in refused["status"]["message"]
        told = await asyncio.to_thread(scrape, metrics)
        assert told['slurm_operator_admission_reviews_total{kind="Controller",result="allowed"}'] == 1
        assert told['slurm_operator_admission_reviews_total{kind="Controller",result="refused"}'] == 1
        assert told['slurm_operator_api_requests_total{code="201",resource="secrets",verb="create"}'] == 1
        assert 89 < (told["slurm_operator_certificate_expiry_timestamp_seconds"] - time.time()) / 86400 < 91
    finally:
        process.terminate()
        assert await process.wait() == 0
