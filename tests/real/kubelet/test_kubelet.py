"""The operator's own image, installed by its manifest, runs Slurm on a real kubelet and containerd."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
from tests.real.kubelet.installed import OPERATOR, RAW, SLURM, Installed, until

from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import PODS

pytestmark = [
    pytest.mark.real_kube,
    pytest.mark.asyncio(loop_scope="session"),
    # The first test waits for the images, the node and all that is installed on it.
    pytest.mark.timeout(600),
]
WRITES = "touch /written 2>/dev/null && echo written || echo read-only; id -u; grep NoNewPrivs /proc/self/status"


async def pods(installed: Installed, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    found = await installed.kube.list(PODS.raw(), namespace, label_selector=selector)
    return [pod.content() for pod in found.items]


async def inside(installed: Installed, namespace: str, pod: str, container: str) -> list[str]:
    ran = await installed.kube.run(namespace, pod, ["sh", "-c", WRITES], container=container)
    return ran.stdout.decode().split()


async def test_operator_and_admission_run_as_shipped(installed: Installed) -> None:
    found = await pods(installed, OPERATOR)
    assert {pod["spec"]["containers"][0]["name"] for pod in found} == {"slurm-operator", "webhook"}
    for pod in found:
        container = pod["spec"]["containers"][0]["name"]
        assert await inside(installed, OPERATOR, pod["metadata"]["name"], container) == [
            *("read-only", "65532"),
            *("NoNewPrivs:", "1"),
        ]
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.parametrize(
    ("selector", "container", "user"),
    [
        pytest.param("app.kubernetes.io/name=slurmctld", "slurmctld", "401", id="slurmctld"),
        pytest.param("app.kubernetes.io/name=slurmrestd", "slurmrestd", "65534", id="slurmrestd"),
    ],
)
async def test_a_daemon_runs_without_privileges_on_a_read_only_root(
    installed: Installed, selector: str, container: str, user: str
) -> None:
    (pod,) = await pods(installed, SLURM, selector)
    found = await inside(installed, SLURM, pod["metadata"]["name"], container)
    assert found == ["read-only", user, "NoNewPrivs:", "1"]


async def test_a_job_runs_on_both_workers(installed: Installed) -> None:
    said = await installed.slurm("srun", "--nodes=2", "--immediate=30", "hostname")
    assert sorted(said.split()) == ["compute-0", "compute-1"]


async def test_a_batch_job_ends_as_it_should(installed: Installed) -> None:
    said = await installed.slurm("sbatch", "--parsable", "--wait", "--chdir=/tmp", "--output=/dev/null", "--wrap=true")
    shown = await installed.slurm("scontrol", "show", "job", said.split(";")[0].strip())
    assert "JobState=COMPLETED" in shown


async def test_a_changed_partition_shows_in_slurm(installed: Installed) -> None:
    await installed.patch("NodeSet", "compute", {"partition": {"enabled": True, "config": "Default=YES MaxTime=77"}})

    async def shows() -> bool:
        return "MaxTime=01:17:00" in await installed.slurm("scontrol", "show", "partition", "compute")

    await until(shows, "MaxTime of the partition", 30)


async def test_a_changed_slurm_conf_shows_in_slurm(installed: Installed) -> None:
    wanted = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMinJobAge=345\n"
    await installed.patch("Controller", "slurm", {"extraConf": wanted})

    async def shows() -> bool:
        found = await installed.slurm("scontrol", "show", "config")
        return any(line.split()[:3] == ["MinJobAge", "=", "345"] for line in found.splitlines())

    await until(shows, "MinJobAge", 30)

    async def applied() -> bool:
        return (await installed.condition("Controller", "slurm", "ConfigApplied"))[0] == "True"

    await until(applied, "ConfigApplied", 30)


async def test_a_configuration_that_slurm_refuses_reaches_nobody(installed: Installed) -> None:
    good = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
    await installed.patch("Controller", "slurm", {"extraConf": f"{good}SchedulerType=sched/none-such\n"})

    async def refused() -> bool:
        return (await installed.condition("Controller", "slurm", "ConfigValid"))[0] == "False"

    await until(refused, "ConfigValid", 30)
    assert "sched/none-such" not in await installed.slurm("scontrol", "show", "config")
    await installed.patch("Controller", "slurm", {"extraConf": good})

    async def valid() -> bool:
        return (await installed.condition("Controller", "slurm", "ConfigValid"))[0] == "True"

    await until(valid, "ConfigValid", 30)


async def test_a_nodeset_that_goes_while_its_partition_is_coming_leaves_slurm_in_order(installed: Installed) -> None:
    for pause in (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8):
        await installed.apply(brief("NodeSet", {"replicas": 0, "partition": {"enabled": True, "config": "MaxTime=5"}}))
        await installed.apply(brief("Partition", {"nodeSets": ["brief"], "partitionName": "short", "maxTime": "4"}))
        # The change is at another point of its way each time.
        await asyncio.sleep(pause)
        for kind in ("Partition", "NodeSet"):
            await installed.kube.delete(RAW[kind], "brief", SLURM)
        await until(lambda: is_gone(installed), "the NodeSet and its partition", 60)

    async def applied() -> bool:
        return (await installed.condition("Controller", "slurm", "ConfigApplied"))[0] == "True"

    await until(applied, "ConfigApplied", 60)
    shown = await installed.slurm("scontrol", "show", "partition")
    assert [line.split("=")[1] for line in shown.splitlines() if line.startswith("PartitionName=")] == ["compute"]


def brief(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A resource that does not stay."""
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": kind,
        "metadata": {"name": "brief", "namespace": SLURM},
        "spec": {"controllerRef": {"name": "slurm"}, **spec},
    }


async def is_gone(installed: Installed) -> bool:
    for kind in ("Partition", "NodeSet"):
        with suppress(NotFound):
            await installed.kube.get(RAW[kind], "brief", SLURM)
            return False
    return True


async def test_admission_refuses_through_the_service(installed: Installed) -> None:
    body = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": "bad", "namespace": SLURM},
        "spec": {"controllerRef": {"name": "slurm"}, "template": {"spec": {"hostNetwork": True}}},
    }
    with pytest.raises(RuntimeError, match="admission webhook"):
        await installed.apply(body)


async def test_the_kubectl_plugin_asks_slurm_in_its_pod(installed: Installed) -> None:
    where = ["--kubeconfig", str(installed.cluster.kubeconfig_path), "--namespace", SLURM]
    command = [sys.executable, "-m", "slurm_operator.cli.kubectl.main", *where, "status"]
    asked = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, complained = await asked.communicate()
    assert asked.returncode == 0, complained.decode()
    (line,) = [line.split() for line in said.decode().splitlines() if line.startswith("slurm ")]
    assert line[1:5] == ["yes", "answers", "2", "idle"]
