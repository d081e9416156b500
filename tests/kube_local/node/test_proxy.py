"""The API server's end of logs and streams, against an agent's socket that answers, refuses, or is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kube_local.apiserver.errors import ApiError
from kube_local.node.paths import Paths
from kube_local.node.proxy import NodePodAccess, default_container

POD: dict[str, Any] = {
    "metadata": {"name": "p", "uid": "u"},
    "spec": {"containers": [{"name": "main"}, {"name": "other"}]},
}


async def answer(request: web.Request) -> web.Response:
    if "previous" in request.query:
        raise web.HTTPBadRequest(text=f"no previous {request.match_info['container']}")
    return web.Response(text=f"{request.match_info['container']} {request.query_string}\n")


@pytest.fixture
async def data(tmp_path: Path) -> AsyncIterator[Path]:
    """The data folder of a cluster whose agent serves logs."""
    app = web.Application()
    app.add_routes([web.get("/log/u/{container}", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(Paths.of(tmp_path).socket)).start()
    yield tmp_path
    await runner.cleanup()


async def said(data: Path, **options: str) -> bytes:
    return b"".join([piece async for piece in NodePodAccess(data).logs(POD, options)])


async def test_a_log_is_handed_on_with_what_was_asked_for(data: Path) -> None:
    assert await said(data, container="other", tailLines="2") == b"other tailLines=2\n"


async def test_without_a_name_it_is_the_first_container(data: Path) -> None:
    assert await said(data) == b"main \n"


async def test_a_log_that_is_not_there_is_refused_before_anything_is_sent(data: Path) -> None:
    with pytest.raises(ApiError, match="no previous main") as refused:
        await anext(NodePodAccess(data).logs(POD, {"previous": "true"}))
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


async def test_an_agent_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="the node agent does not answer") as refused:
        await anext(NodePodAccess(tmp_path).logs(POD, {}))
    assert refused.value.code == 503


@pytest.mark.parametrize(
    ("annotation", "expected"), [("other", "other"), ("gone", "main"), (None, "main")], ids=["named", "wrong", "none"]
)
def test_the_default_container_is_the_one_that_the_pod_names(annotation: str | None, expected: str) -> None:
    noted = {"kubectl.kubernetes.io/default-container": annotation} if annotation else {}
    assert default_container({**POD, "metadata": {"annotations": noted}}) == expected
