"""`installed`: the operator and Slurm on a real kubelet, once for the session; a loud word where that cannot be had.

In: what `make kubelet-tools` brings, and root. Tests are skipped, with the reason in the run's last lines, without it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.real.kubelet import images, tools
from tests.real.kubelet.installed import Installed, install
from tests.real.kubelet.machine import machine

MEASURED: dict[str, float] = {}
NEEDS_MACHINE = pytest.StashKey[int]()


def lacking() -> list[str]:
    """What keeps a node from running here."""
    return [*tools.missing(), *([] if os.geteuid() == 0 else ["root"])]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs a machine that cannot be had."""
    found = lacking()
    wanting = [item for item in items if found and item.get_closest_marker("real_kube")]
    for item in wanting:
        item.add_marker(pytest.mark.skip(reason=f"no real kubelet, for lack of {', '.join(found)}"))
    config.stash[NEEDS_MACHINE] = len(wanting)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was measured, and what could not be tested, after everything else."""
    for what, seconds in MEASURED.items():
        terminalreporter.write_line(f"{what}: {seconds:.1f} s")
    if skipped := config.stash.get(NEEDS_MACHINE, 0):
        terminalreporter.section("REAL KUBELET NOT TESTED", sep="!", red=True)
        terminalreporter.write_line(f"{skipped} tests need {', '.join(lacking())}: run 'make kubelet-tools' as root.")


@pytest.fixture(scope="session")
def archives() -> Iterator[list[Path]]:
    """The images as archives; made outside the event loop, since downloads run one of their own."""
    started = time.monotonic()
    with images.archives() as made:
        MEASURED["images written"] = time.monotonic() - started
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, archives: list[Path]
) -> AsyncIterator[Installed]:
    """Everything ready; gone, with all its traces, when its tests are over."""
    folder = tmp_path_factory.mktemp("kubelet") / "machine"
    started = time.monotonic()
    async with machine(folder, archives) as (cluster, made):
        MEASURED["node ready"] = time.monotonic() - started
        failed = request.session.testsfailed
        try:
            async with install(cluster) as ready:
                MEASURED.update(ready.took)
                yield ready
        finally:
            if sys.exc_info()[0] is not None or request.session.testsfailed > failed:
                for name in ("boot", "containerd", "kubelet", "kube-proxy", "dns"):
                    print(f"--- {name}\n{made.tail(name)}")
