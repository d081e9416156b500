"""A dead slurmctld is found by a ping, not asked in vain, and asked again soon."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.slurm.replay import Replay

from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import (
    SlurmError,
    SlurmUnreachable,
)
from slurm_operator.slurm.model import SlurmList


async def test_a_dead_controller_is_found_by_ping_and_not_asked(
    client: SlurmClient, replay: Replay, clock: list[float]
) -> None:
    replay.on("GET /ping", "ping_controller_down")
    replay.on("GET /diag", "nodes_controller_down")
    replay.on("GET /nodes", "nodes")
    for _ in range(5):
        with pytest.raises(SlurmUnreachable):
            await client.nodes()
    assert "GET /nodes" not in replay.seen
    assert replay.seen.count("GET /ping") <= 3
    replay.on("GET /ping", "ping")
    with pytest.raises(SlurmUnreachable, match="not asked again"):
        await client.nodes()
    clock[0] += 1.5
    assert isinstance(await client.nodes(), SlurmList)


async def test_the_pause_of_the_breaker_grows_and_is_bounded(
    client: SlurmClient, replay: Replay, clock: list[float]
) -> None:
    replay.on("GET /ping", "ping_controller_down")
    replay.on("GET /diag", "nodes_controller_down")
    pauses = []
    for _ in range(8):
        with pytest.raises(SlurmUnreachable):
            await client.nodes()
        began = clock[0]
        asked = len(replay.seen)
        while len(replay.seen) == asked:
            clock[0] += 0.25
            with pytest.raises(SlurmUnreachable):
                await client.nodes()
        pauses.append(clock[0] - began)
    assert pauses[0] < pauses[1] < pauses[-1]
    assert max(pauses) <= 10.25


async def test_a_recent_answer_saves_the_ping(client: SlurmClient, replay: Replay, clock: list[float]) -> None:
    replay.on("GET /nodes", "nodes")
    await client.nodes()
    pings = replay.seen.count("GET /ping")
    await client.nodes()
    assert replay.seen.count("GET /ping") == pings
    clock[0] += 46.0
    await client.nodes()
    assert replay.seen.count("GET /ping") == pings + 1


async def test_whoever_looks_every_five_seconds_pings_once_a_minute(
    client: SlurmClient, replay: Replay, clock: list[float]
) -> None:
    replay.on("GET /nodes", "nodes")
    await client.nodes()
    pings = replay.seen.count("GET /ping")
    for _ in range(12):
        clock[0] += 5.0
        await client.nodes()
    assert replay.seen.count("GET /ping") == pings + 1


async def test_a_change_goes_out_right_after_a_ping(client: SlurmClient, replay: Replay, clock: list[float]) -> None:
    replay.on("GET /nodes", "nodes")
    await client.nodes()
    clock[0] += 1.1
    await client.nodes()
    before = len(replay.seen)
    with suppress(SlurmError):
        await client.reconfigure()
    assert replay.seen[before - 1 : before + 2] == ["GET /nodes", "GET /ping", "GET /reconfigure"]
