"""`cluster`: one local cluster with every kind for each Slurm version, shared by all tests of this folder.

Where a machine cannot run one (no root, no apt), every test is skipped and the run's last lines say so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.real.local.e2e.cluster import REST, CannotRun, LocalCluster

MISSING: dict[str, str] = {}
MEASURED: dict[str, dict[str, float]] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured, and what could not be tested, after everything else."""
    for version, found in MEASURED.items():
        for what, seconds in found.items():
            terminalreporter.write_line(f"Slurm {version}: {what}: {seconds:.1f} s")
    for version, why in MISSING.items():
        terminalreporter.write_line(f"NOT TESTED end to end on Slurm {version}: {why}", yellow=True, bold=True)


@pytest.fixture(scope="session", params=sorted(REST))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is ready; gone, with all its traces, when its tests are over."""
    version: str = request.param
    made = LocalCluster(tmp_path_factory.mktemp("e2e") / "cluster", version)
    try:
        made.prepare()
    except CannotRun as error:
        MISSING[version] = str(error)
        pytest.skip(f"no local cluster: {error}")
    failed = request.session.testsfailed
    try:
        made.up()
        yield made
        MEASURED[version] = made.measured
    finally:
        if sys.exc_info()[0] is not None or request.session.testsfailed > failed:
            print(made.last_words())
        made.reset()
