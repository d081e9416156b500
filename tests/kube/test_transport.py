"""The seam: client, cache and writer run on any transport, with no socket in sight."""

from __future__ import annotations

import asyncio

import pytest
from tests.kube.conftest import embedded_server
from tests.kube.in_process import InProcess

from slurm_operator.kube.cache import Cache
from slurm_operator.kube.client import Client
from slurm_operator.kube.errors import TimedOut
from slurm_operator.kube.objects import CONFIG_MAPS
from slurm_operator.kube.requests import Request
from slurm_operator.kube.write import Effect, Writer

BODY = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
    "data": {"v": "1"},
}


async def test_cache_and_writer_run_in_one_process_without_a_socket() -> None:
    async with Client(InProcess(embedded_server())) as client:
        cache = Cache(client, CONFIG_MAPS.raw(), "default")
        task = asyncio.create_task(cache.run())
        async with asyncio.timeout(10):
            await cache.wait_synced()
            writer = Writer(client)
            made = await writer.apply(BODY, cache.get("default", "a"))
            await cache.wait_for(made.object.metadata.resource_version)
        again = await writer.apply(BODY, cache.get("default", "a"))
        assert (made.effect, again.effect) == (Effect.CREATED, Effect.UNCHANGED)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_lost_after_the_write_is_found_done_the_next_time() -> None:
    """The write that timed out after it was applied: no twin, no second write."""
    server = embedded_server()
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.what)

    async with Client(InProcess(server, note)) as client:

        async def after(_: object, __: object) -> None:
            raise TimedOut("the answer was lost", sent=True)

        with pytest.raises(TimedOut):
            await Writer(client, after=after).apply(BODY)
        again = await Writer(client).apply(BODY)
    assert again.effect is Effect.UNCHANGED
    assert asked == ["get configmaps default/a", "apply configmaps default/a", "get configmaps default/a"]
