"""The real control plane as a session fixture, and a loud word where it cannot be had.

In: the cache that `make kube-tools` fills. Out: `real_kube`, one cluster with controllers for the whole
session; tests that use it carry the marker `real_kube` and are skipped, with a reason, when it is absent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.real.kube.cluster import Cluster, real_cluster
from tests.real.kube.tools import missing_tools

SKIPPED = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs programs that are not built."""
    missing = missing_tools()
    wanting = [item for item in items if missing and item.get_closest_marker("real_kube")]
    for item in wanting:
        item.add_marker(pytest.mark.skip(reason=f"not built: {', '.join(missing)} (make kube-tools)"))
    config.stash[SKIPPED] = len(wanting)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A suite that could not use the real server says so in its last lines."""
    if skipped := config.stash.get(SKIPPED, 0):
        terminalreporter.section("REAL KUBE-APISERVER NOT TESTED", sep="!", red=True)
        terminalreporter.write_line(
            f"{skipped} tests need {', '.join(missing_tools())}, which are not built: run 'make kube-tools'."
        )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_kube(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """One control plane with controllers and scheduler for the session."""
    folder = tmp_path_factory.mktemp("real-kube")
    async with real_cluster(folder, controllers=True, scheduler=True) as cluster:
        yield cluster
