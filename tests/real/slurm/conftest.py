"""Fixtures of the real Slurm suite: `slurm`, one cluster per version for the whole run, and `client` on it.

Where this machine cannot have a real Slurm (no root, no Debian, no network), every test is skipped and the run's last
lines say so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.real.slurm import rootfs
from tests.real.slurm.cluster import Cluster, require_namespaces

from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.token import TokenSource

MISSING: dict[str, str] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    """After everything else that a run prints."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    for version, why in MISSING.items():
        reporter.write_line(f"NOT TESTED on real Slurm {version}: {why}", yellow=True, bold=True)


@pytest.fixture(scope="session", params=sorted(rootfs.SUITES))
def slurm(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster of that version, with accounting; ended with the run, or before the next version starts."""
    version: str = request.param
    try:
        root = rootfs.provide(version)
        require_namespaces()
    except rootfs.CannotProvision as missing:
        MISSING[version] = str(missing)
        pytest.skip(f"no real Slurm {version}: {missing}")
    cluster = Cluster(version, root, accounting=True)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
async def client(slurm: Cluster) -> AsyncIterator[SlurmClient]:
    """A client through the unix socket, as user slurm; the cluster is quiet again after the test."""
    token = TokenSource(lambda: slurm.jwt_key)
    async with SlurmClient(f"unix://{slurm.socket}", token) as made:
        yield made
    slurm.quiet()
