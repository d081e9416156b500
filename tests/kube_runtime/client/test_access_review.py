"""Who may read metrics: Kubernetes' own answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from kube_local.apiserver import ApiServer
from kube_runtime.client import kubeconfig
from kube_runtime.client.access_review import may_get
from kube_runtime.client.client import Client
from kube_runtime.client.credentials import Fixed
from kube_runtime.client.kubeconfig import Target


@pytest.mark.parametrize(("token", "wanted"), [("", False), ("of nobody", False), ("the server's own", True)], ids=str)
async def test_only_a_token_that_kubernetes_knows_is_let_in(token: str, wanted: bool, tmp_path: Path) -> None:
    server = ApiServer()
    await server.start()
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    async with Client.to(kubeconfig.find(path=str(path))) as client:
        assert await may_get(client, server.token if wanted else token, "/metrics") is wanted
    await server.stop()


async def test_nobody_is_let_in_when_kubernetes_cannot_be_asked() -> None:
    target = Target(server="http://127.0.0.1:9", credentials=Fixed())
    async with Client.to(target) as client:
        assert await may_get(client, "a token", "/metrics") is False
