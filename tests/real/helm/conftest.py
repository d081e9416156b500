"""Both helms for the tests, and a loud word where they cannot be had.

In: the cache that `make helm-tools` fills. Out: `helm`, once for each version; tests that use it are skipped, with a
reason, when it is not built. `cluster` is a real control plane for the whole session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from tests.real.helm.command import Helm
from tests.real.helm.release import Place, eventually, footprint, gone
from tests.real.helm.tools import MAJORS, missing_tools
from tests.real.kube.cluster import Cluster, real_cluster
from tests.real.kube.tools import missing_tools as missing_kube_tools

SKIPPED = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs programs that are not built."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    skipped = 0
    for item in here:
        missing = missing_tools()
        if item.get_closest_marker("real_kube"):
            missing = [*missing, *missing_kube_tools()]
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"not built: {', '.join(missing)} (make helm-tools kube-tools)"))
            skipped += 1
    config.stash[SKIPPED] = skipped


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A suite that could not use the real helm says so in its last lines."""
    if skipped := config.stash.get(SKIPPED, 0):
        terminalreporter.section("REAL HELM NOT TESTED", sep="!", red=True)
        terminalreporter.write_line(
            f"{skipped} tests need programs that are not built: run 'make helm-tools kube-tools'."
        )


@pytest.fixture(params=MAJORS, ids=[f"helm{major}" for major in MAJORS])
def helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    """One version of helm."""
    return Helm(request.param, tmp_path)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """One control plane with controllers for the session."""
    async with real_cluster(tmp_path_factory.mktemp("helm"), controllers=True, scheduler=True) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def place(cluster: Cluster, helm: Helm, tmp_path: Path) -> AsyncIterator[Place]:
    """The cluster as it is before anything is installed, which is also how a test must leave it."""
    mine = Helm(helm.major, helm.home, cluster.kubeconfig_path)
    async with cluster.session() as http:
        here = Place(cluster, http, mine, tmp_path)
        before = await footprint(here)
        yield here
        for namespace in ("slurm", "slinky"):
            async with http.delete(f"/api/v1/namespaces/{namespace}"):
                pass
            await eventually(lambda at=namespace: gone(here, f"/api/v1/namespaces/{at}"))  # type: ignore[misc]  # bound
        # A definition goes after its last resource has, a moment after the helm that asked for it.
        with suppress(TimeoutError):
            await eventually(partial(_is_as_before, here, before))
        assert await footprint(here) == before


async def _is_as_before(here: Place, before: set[str]) -> bool:
    return await footprint(here) == before
