"""Who gets in: tokens that expire, keys that change, another way to the server."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.real.slurm.cluster import NODES, Cluster, eventually

from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.errors import SlurmUnauthorized
from slurm_operator.slurm.model import Known, Unknown
from slurm_operator.slurm.token import TokenSource

pytestmark = pytest.mark.real_slurm

OVER_TCP = """
import asyncio, sys
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.token import TokenSource
async def main():
    key = sys.stdin.buffer.read()
    async with SlurmClient("http://127.0.0.1:6820", TokenSource(lambda: key)) as client:
        print(*sorted(node.name for node in (await client.all_nodes()).items))
asyncio.run(main())
"""


def through(slurm: Cluster, token: TokenSource) -> SlurmClient:
    return SlurmClient(f"unix://{slurm.socket}", token)


def test_slurm_is_reached_over_tcp(slurm: Cluster) -> None:
    source = Path(__file__).parents[3] / "src"
    done = subprocess.run(
        [*slurm.enter_network(), sys.executable, "-c", OVER_TCP],
        input=slurm.jwt_key,
        capture_output=True,
        env={"PYTHONPATH": str(source)},
        timeout=60,
        check=False,
    )
    assert done.stdout.decode().split() == list(NODES), done.stderr.decode()


async def test_an_expired_token_is_told_from_a_dead_controller(slurm: Cluster) -> None:
    long_ago = TokenSource(lambda: slurm.jwt_key, now=lambda: time.time() - 7200)
    async with through(slurm, long_ago) as client:
        with pytest.raises(SlurmUnauthorized):
            await client.nodes()
        view = await client.node("n0")
        assert isinstance(view, Unknown)
        assert "token was refused" in view.why


async def test_a_token_of_another_key_is_refused(slurm: Cluster) -> None:
    async with through(slurm, TokenSource(lambda: b"x" * 32)) as client:
        with pytest.raises(SlurmUnauthorized):
            await client.nodes()


async def test_an_operator_whose_clock_is_ahead_is_let_in(slurm: Cluster) -> None:
    ahead = TokenSource(lambda: slurm.jwt_key, now=lambda: time.time() + 300)
    async with through(slurm, ahead) as client:
        assert isinstance(await client.node("n0"), Known)


async def test_a_token_that_expired_between_two_calls_is_made_anew(slurm: Cluster) -> None:
    shift = [-7200.0]
    token = TokenSource(lambda: slurm.jwt_key, now=lambda: time.time() + shift[0])
    async with through(slurm, token) as client:
        with pytest.raises(SlurmUnauthorized):
            await client.nodes()
        shift[0] = 0
        assert isinstance(await client.node("n0"), Known)


async def test_a_new_key_counts_after_a_reconfigure(slurm: Cluster) -> None:
    old, new = slurm.jwt_key, secrets.token_bytes(32)
    async with (
        through(slurm, TokenSource(lambda: old)) as with_old,
        through(slurm, TokenSource(lambda: new)) as with_new,
    ):
        slurm.write_jwt_key(new)
        assert isinstance(await with_old.node("n0"), Known)
        assert isinstance(await with_new.node("n0"), Unknown)
        await with_old.reconfigure()
        await eventually(lambda: knows(with_new))
        assert isinstance(await with_old.node("n0"), Unknown)
        slurm.write_jwt_key(old)
        await with_new.reconfigure()
        await eventually(lambda: knows(with_old))


async def test_an_operator_follows_a_new_key_without_a_restart(slurm: Cluster) -> None:
    old = slurm.jwt_key
    async with through(slurm, TokenSource(lambda: slurm.jwt_key)) as client:
        assert await knows(client)
        slurm.write_jwt_key(secrets.token_bytes(32))
        slurm.run("scontrol", "reconfigure")
        await eventually(lambda: knows(client))
        slurm.write_jwt_key(old)
        slurm.run("scontrol", "reconfigure")
        await eventually(lambda: knows(client))


async def knows(client: SlurmClient) -> bool:
    return isinstance(await client.node("n0"), Known)
