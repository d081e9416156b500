"""Forms of values converge on the embedded API server: all of their resources are ready, and then nobody writes.

Some of each of the charts' parts here; with `FORMS=all` (`make forms`) every one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.campaigns.rig import Wire
from tests.charts.converging import Slurms, World, converge, install, world
from tests.charts.rendered_forms import groups, objects_of
from tests.charts.rendering import Object
from tests.real.kube.cluster import Cluster

from kube_local.apiserver import ApiServer
from kube_local.controllers.run import assemble
from kube_local.controllers.settings import Settings as ControllerSettings
from kube_runtime.client.client import Client
from slurm_operator.settings import Settings

FOR_EVER = 1e9
EVERY = os.environ.get("FORMS") == "all"
# As many worlds beside each other as there are workers, at least.
PARTS = 8 if EVERY else 2
# In between, every ninth form: neighbours in the file differ in one value of the same part.
STEP = 1 if EVERY else 9


def sets(chart: str) -> dict[str, list[Object]]:
    """Objects of one form of each group: the others come to the same objects."""
    return {some[0].id: objects_of(some[0]) for some in list(groups(chart).values())[::STEP]}


class Logs:
    """What `pods/log` answers: the sidecar's verdicts."""

    def __init__(self, slurms: Slurms) -> None:
        self._slurms = slurms

    async def logs(self, pod: Mapping[str, Any], _: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The log of one container."""
        yield self._slurms.printed(pod["metadata"]["namespace"]).encode()

    async def connect(self, *_: Any) -> Any:
        """Nobody runs commands in these pods."""
        raise NotImplementedError


@contextlib.asynccontextmanager
async def embedded(folder: Path, settings: Settings) -> AsyncIterator[World]:
    """The embedded API server with its controllers, nodes and our operator."""
    server, slurms = ApiServer(), Slurms()
    server.plug_in(Logs(slurms))
    await server.start()
    cluster = Cluster(folder, server.url, server.ca_pem, server.token, folder / "kubeconfig")
    chosen = ControllerSettings(folder / "volumes", node_grace_seconds=FOR_EVER, missing_node_seconds=FOR_EVER)
    stop = asyncio.Event()
    controllers = asyncio.create_task(assemble(Client(Wire(server)), chosen).run(stop))
    try:
        async with world(cluster, Client(Wire(server)), slurms, settings) as made:
            yield made
    finally:
        stop.set()
        await controllers
        await server.stop()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_form_of_values_converges(tmp_path: Path, part: int) -> None:
    mine = dict(list(sets("slurm").items())[part::PARTS])
    async with embedded(tmp_path, Settings(allowed_pod_features=None)) as here:
        found = await converge(here, mine)
    assert {name: said for name, said in found.items() if said} == {}
    assert here.kubelets.failures == []


async def test_a_form_of_values_installs_the_operator(tmp_path: Path) -> None:
    async with embedded(tmp_path, Settings()) as here:
        found = await install(here, sets("slurm-operator"))
    assert {name: said for name, said in found.items() if said} == {}
