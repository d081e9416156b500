"""The trial of slurmd on a real kubelet: what breaks only workers is refused before anybody has it.

slurmctld takes every configuration here, so that only the trial pod, of the workers' own image, can refuse one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.real.kubelet.installed import SLURM, Installed, until

from kube_runtime.client.objects import CONFIG_MAPS, PODS

pytestmark = [pytest.mark.real_kube, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

LOOK_SECONDS = 0.05
# Longer than a trial may take.
PATIENCE = 120.0
BASE = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
WORKERS, TRIALS = "app.kubernetes.io/name=slurmd", "app.kubernetes.io/name=slurmd-trial"
# By name: what is added to slurm.conf, files, what the refusal names of them, and a word of slurmd's.
BREAKS_WORKERS = {
    "a spank plugin that is required and not there": (
        "",
        {"plugstack.conf": "required /usr/lib/nosuch.so\n"},
        "nosuch.so",
    ),
    "a spool folder that cannot be made": ("SlurmdSpoolDir=/proc/nosuch/slurmd\n", {}, "/proc/nosuch/slurmd"),
}


@dataclass
class Seen:
    """The trial pods that there were, each as it was last seen."""

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)


async def worker_pods(installed: Installed, selector: str = WORKERS) -> list[dict[str, Any]]:
    found = await installed.kube.list(PODS.raw(), SLURM, label_selector=selector)
    return [pod.content() for pod in found.items]


@asynccontextmanager
async def watching(installed: Installed) -> AsyncIterator[Seen]:
    """Look at trial pods all the time: one that is accepted goes at once."""
    seen = Seen()

    async def look() -> None:
        while True:
            for pod in await worker_pods(installed, TRIALS):
                seen.pods[pod["metadata"]["name"]] = pod
            await asyncio.sleep(LOOK_SECONDS)

    task = asyncio.create_task(look())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def lives(installed: Installed) -> dict[str, int]:
    """Every worker's pod, with how often its slurmd was restarted."""
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for pod in await worker_pods(installed)
    }


async def published(installed: Installed) -> dict[str, str]:
    """The configuration that daemons have."""
    found = await installed.kube.get(CONFIG_MAPS.raw(), "slurm-config", SLURM)
    data: dict[str, str] = found.content()["data"]
    return data


async def ask_for(installed: Installed, extra: str, files: dict[str, str]) -> None:
    """A user writes a configuration."""
    data = {"plugstack.conf": None, "cgroup.conf": "CgroupPlugin=disabled\n", **files}
    await installed.kube.merge_patch(CONFIG_MAPS.raw(), "slurm-files", {"data": data}, SLURM)
    await installed.patch("Controller", "slurm", {"extraConf": f"{BASE}{extra}"})


async def says(installed: Installed, reason: str, word: str) -> bool:
    """Whether ConfigValid has a reason, of a configuration that it says this of."""
    conditions = (await installed.status("Controller", "slurm")).get("conditions", ())
    found = next(each for each in conditions if each["type"] == "ConfigValid")
    return found["reason"] == reason and word in found["message"]


@pytest.mark.parametrize(("extra", "files", "word"), BREAKS_WORKERS.values(), ids=BREAKS_WORKERS)
async def test_what_breaks_only_workers_is_refused_before_anybody_has_it(
    installed: Installed, extra: str, files: dict[str, str], word: str
) -> None:
    await until(lambda: says(installed, "Tried", ""), "a configuration in force", PATIENCE)
    before, alive = await published(installed), await lives(installed)
    async with watching(installed) as seen:
        await ask_for(installed, extra, files)
        await until(lambda: says(installed, "SlurmdRefused", word), "a refusal by slurmd", PATIENCE)
    (trial,) = seen.pods.values()
    check_harmless(trial)
    assert await published(installed) == before
    await ask_for(installed, "", {})
    await until(lambda: says(installed, "Tried", ""), "the configuration before", PATIENCE)
    assert await lives(installed) == alive
    said = await installed.slurm("srun", "--nodes=2", "--immediate=30", "hostname")
    assert sorted(said.split()) == ["compute-0", "compute-1"]
    await until(lambda: are_gone(installed), "the end of the trial's pods", PATIENCE)


async def test_a_good_one_is_tried_by_slurmd_and_published(installed: Installed) -> None:
    await until(lambda: says(installed, "Tried", ""), "a configuration in force", PATIENCE)
    alive = await lives(installed)
    async with watching(installed) as seen:
        await ask_for(installed, "UnkillableStepTimeout=234\n", {"plugstack.conf": "optional /usr/lib/nosuch.so\n"})
        await until(lambda: is_in_force(installed), "UnkillableStepTimeout", PATIENCE)
        await until(lambda: says(installed, "Tried", ""), "a configuration that was tried", PATIENCE)
    assert seen.pods
    for trial in seen.pods.values():
        check_harmless(trial)
    data = await published(installed)
    assert "UnkillableStepTimeout=234" in data["slurm.conf"]
    assert data["plugstack.conf"] == "optional /usr/lib/nosuch.so\n"
    assert await lives(installed) == alive
    await ask_for(installed, "", {})
    await until(lambda: are_gone(installed), "the end of the trial's pods", PATIENCE)


async def is_in_force(installed: Installed) -> bool:
    shown = await installed.slurm("scontrol", "show", "config")
    return any(line.split()[:3] == ["UnkillableStepTimeout", "=", "234"] for line in shown.splitlines())


async def are_gone(installed: Installed) -> bool:
    return not await worker_pods(installed, TRIALS)


def check_harmless(trial: dict[str, Any]) -> None:
    """It ran where workers run, and had nothing by which it could be one."""
    assert trial["spec"].get("nodeName")
    sources = {key for volume in trial["spec"]["volumes"] for key in volume if key != "name"}
    assert sources <= {"configMap", "emptyDir", "downwardAPI"}
    assert trial["spec"]["automountServiceAccountToken"] is False
