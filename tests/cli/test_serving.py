"""The servers beside a long-running command: secured metrics are for those whom Kubernetes lets in."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from kube_local.apiserver import ApiServer
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from slurm_operator.cli import serving
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.settings import Settings

HOST = "127.0.0.1"


@pytest.mark.parametrize(
    ("header", "status"),
    [("", 403), ("Bearer of nobody", 403), ("Basic {token}", 403), ("Bearer {token}", 200)],
    ids=["no token", "a token of nobody", "no bearer", "a token that may"],
)
async def test_secured_metrics_are_for_tokens_that_may_read_them(
    header: str, status: int, tmp_path: Path, unused_tcp_port: int
) -> None:
    server = ApiServer()
    await server.start()
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    settings = Settings(metrics=(HOST, unused_tcp_port), metrics_secure=True)
    async with Client.to(kubeconfig.find(path=str(path))) as client, AsyncExitStack() as stack:
        await serving.start(stack, settings, web.Application(), OperatorMetrics(), client)
        headers = {"Authorization": header.format(token=server.token)}
        # The certificate is its own; it keeps the token from being read.
        address = f"https://{HOST}:{unused_tcp_port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(address, headers=headers, ssl=False) as response:
            assert response.status == status
            assert ("slurm_operator_build_info" in await response.text()) is (status == 200)
    await server.stop()


async def test_a_server_is_there_only_where_it_has_a_port(tmp_path: Path, unused_tcp_port: int) -> None:
    server = ApiServer()
    await server.start()
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    async with Client.to(kubeconfig.find(path=str(path))) as client, aiohttp.ClientSession() as session:
        async with AsyncExitStack() as stack:
            settings = Settings(metrics=(HOST, unused_tcp_port))
            await serving.start(stack, settings, web.Application(), OperatorMetrics(), client)
            async with session.get(f"http://{HOST}:{unused_tcp_port}/metrics") as response:
                assert response.status == 200
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://{HOST}:{unused_tcp_port}/metrics")
    await server.stop()
