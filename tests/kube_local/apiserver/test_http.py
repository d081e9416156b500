"""The server over HTTPS: who may enter, what a kubeconfig holds, how streams end."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from kube_local.apiserver import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}


@pytest.fixture
async def running() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    await server.start()
    yield server
    await server.stop()


def trusting(server: ApiServer) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=server.ca_pem)


def session(
    server: ApiServer, token: str | None = None, context: ssl.SSLContext | None = None
) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=context or trusting(server))
    return aiohttp.ClientSession(server.url, headers=headers, connector=connector)


async def test_the_token_opens_the_door(running: ApiServer) -> None:
    async with session(running, running.token) as http:
        async with http.post(MAPS, json={**CONFIG, "extra": 1}) as made:
            assert made.status == 201
            assert made.headers["Warning"] == '299 - "unknown field \\"extra\\""'
        async with http.get(MAPS) as listed:
            assert [item["metadata"]["name"] for item in (await listed.json())["items"]] == ["m"]


@pytest.mark.parametrize("token", [None, "wrong", ""])
async def test_nobody_else_gets_in(running: ApiServer, token: str | None) -> None:
    async with session(running, token) as http:
        async with http.get(MAPS) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")
        async with http.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")


async def test_the_kubeconfig_points_here(running: ApiServer) -> None:
    config = yaml.safe_load(running.kubeconfig())
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == running.url
    assert base64.b64decode(cluster["certificate-authority-data"]).decode() == running.ca_pem
    assert config["users"][0]["user"] == {"token": running.token}


async def test_a_watch_streams_and_ends_with_the_server() -> None:
    server = ApiServer()
    await server.start()
    async with session(server, server.token) as http, http.get(MAPS, params={"watch": "true"}) as stream:
        async with http.post(MAPS, json=CONFIG):
            pass
        async with asyncio.timeout(5):
            assert b'"type":"ADDED"' in await stream.content.readline()
        await server.stop()
        async with asyncio.timeout(5):
            assert await rest_of(stream) == b""


async def rest_of(stream: aiohttp.ClientResponse) -> bytes:
    """What is left; a connection that is cut has nothing left."""
    try:
        return await stream.content.read()
    except aiohttp.ClientError:
        return b""


async def test_a_watcher_that_leaves_is_forgotten(running: ApiServer) -> None:
    async with session(running, running.token) as http:
        stream = await http.get(MAPS, params={"watch": "true"})
        stream.close()
        async with http.post(MAPS, json=CONFIG) as made:
            assert made.status == 201


async def test_exec_needs_a_node_agent(running: ApiServer) -> None:
    async with session(running, running.token) as http, http.get("/api/v1/namespaces/default/pods/p/exec") as answer:
        assert (answer.status, "no node agent" in (await answer.json())["message"]) == (503, True)


async def test_certificates_and_objects_survive_a_restart(tmp_path: Path) -> None:
    def make() -> ApiServer:
        return ApiServer(str(tmp_path / "cluster.db"), certificates_folder=tmp_path / "pki")

    first = make()
    await first.start()
    token, authority = first.token, first.ca_pem
    async with session(first, token) as http, http.post(MAPS, json=CONFIG) as made:
        version = (await made.json())["metadata"]["resourceVersion"]
    await first.stop()
    second = make()
    await second.start()
    assert (second.token, second.ca_pem) == (token, authority)
    async with session(second, token) as http, http.get(f"{MAPS}/m") as found:
        assert (await found.json())["metadata"]["resourceVersion"] == version
    await second.stop()
    assert (tmp_path / "pki" / "server.key").stat().st_mode & 0o077 == 0


async def test_definitions_are_served_again_after_a_restart(tmp_path: Path, own_definitions: list[Any]) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    first = ApiServer(str(tmp_path / "cluster.db"))
    for definition in own_definitions:
        assert (await first.handle("POST", path, body=definition)).status == 201
    await first.stop()
    second = ApiServer(str(tmp_path / "cluster.db"))
    assert (await second.handle("GET", "/apis/slinky.slurm.net/v1beta1/nodesets")).status == 200
    await second.stop()


def test_a_server_that_was_not_started_has_no_address() -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = ApiServer().url
