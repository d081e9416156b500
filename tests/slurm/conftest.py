"""Fixtures of the client's tests: a replaying server for each recorded release, and a client on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.slurm.replay import KEY, VERSIONS, Replay

from slurm_operator.slurm.client import Observation, Seconds, SlurmClient
from slurm_operator.slurm.token import TokenSource


@pytest.fixture(params=sorted(VERSIONS))
def replay(request: pytest.FixtureRequest) -> Replay:
    """A replaying server's script for each recorded release; a healthy ping is in it."""
    script = Replay(request.param)
    script.on("GET /ping", "ping")
    return script


@pytest.fixture
async def server(replay: Replay) -> AsyncIterator[TestServer]:
    """The replaying server, on loopback."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", replay.handle)
    running = TestServer(app)
    await running.start_server()
    yield running
    await running.close()


@pytest.fixture
def observed() -> list[Observation]:
    """What the client reported to metrics."""
    return []


@pytest.fixture
def clock() -> list[float]:
    """The client's monotonic clock, moved by hand: `clock[0] += 5`."""
    return [1000.0]


@pytest.fixture
async def client(server: TestServer, observed: list[Observation], clock: list[float]) -> AsyncIterator[SlurmClient]:
    """A client of the replaying server."""
    async with SlurmClient(
        str(server.make_url("")).rstrip("/"),
        TokenSource(lambda: KEY),
        observe=observed.append,
        monotonic=lambda: clock[0],
        seconds=Seconds(ping=2, call=2, large=2, diagnosis=1, patience=0.2),
    ) as made:
        yield made
