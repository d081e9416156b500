"""Every form of values converges on a real control plane, with the admission server in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.charts.converging import Slurms, World, converge, install, world
from tests.charts.rendered_forms import groups, objects_of
from tests.charts.rendering import Object
from tests.real.helm import rbac_world
from tests.real.helm.admitting import Place, admitting
from tests.real.helm.kubelet import kubelet
from tests.real.kube.cluster import real_cluster

from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from slurm_operator.settings import Settings

pytestmark = [pytest.mark.real_kube, pytest.mark.asyncio(loop_scope="module")]

# One after the other: the operator and all that is around it share a process, which asks every cluster all the time.
PARTS = 6


def sets(chart: str) -> dict[str, list[Object]]:
    """Objects of one form of each group: the others come to the same objects."""
    return {some[0].id: objects_of(some[0]) for some in groups(chart).values()}


@pytest_asyncio.fixture(loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """A control plane of its own for each test."""
    folder = tmp_path_factory.mktemp("forms")
    async with real_cluster(folder, controllers=True, scheduler=True) as cluster, cluster.session() as http:
        await rbac_world.install(http)
        yield Place(cluster, http, folder)


@pytest_asyncio.fixture(loop_scope="module")
async def here(place: Place) -> AsyncIterator[World]:
    """Our operator on it, and nodes."""
    slurms, target = Slurms(), kubeconfig.find(path=str(place.cluster.kubeconfig_path))
    settings = Settings(allowed_pod_features=None)
    async with (
        kubelet(slurms) as port,
        Client.to(target) as client,
        world(place.cluster, client, slurms, settings, kubelet_port=port) as made,
    ):
        yield made


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
async def test_every_form_of_values_converges(place: Place, here: World, part: int) -> None:
    mine = dict(list(sets("slurm").items())[part::PARTS])
    async with admitting(place, "--allow-pod-features=all"):
        found = await converge(here, mine)
    assert {name: said for name, said in found.items() if said} == {}
    assert here.kubelets.failures == []


@pytest.mark.timeout(600)
async def test_every_form_of_values_installs_the_operator(here: World) -> None:
    found = await install(here, sets("slurm-operator"))
    assert {name: said for name, said in found.items() if said} == {}
