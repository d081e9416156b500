"""What slurmctld's pod is asked, and what is made of its answer: JSON alone, so that no user's text counts as fact."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kube_runtime.client.client import Client
from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import ObjectMeta, RawObject, Resource
from kube_runtime.client.remote import CommandResult
from slurm_operator.build import labels
from slurm_operator.cli.kubectl.gather import Asked, ask, seen_again
from slurm_operator.diagnose.facts import Facts, Silence, Slurm
from slurm_operator.diagnose.scontrol import command

RECORDED = Path(__file__).parents[2] / "diagnose" / "recorded"
POD = {"metadata": {"name": "slurm-controller-0", "labels": labels.of_pod(labels.CONTROLLER, "slurm")}}
FACTS = Facts("ns", {"Controller": {"slurm": {"metadata": {"name": "slurm"}}}, "Pod": {"slurm-controller-0": POD}})


class Shell:
    """Runs nothing; answers as that pod would."""

    def __init__(self, **answers: CommandResult) -> None:
        self.answers = answers
        self.commands: list[list[str]] = []

    async def run(self, namespace: str, pod: str, command: list[str], **options: Any) -> CommandResult:
        assert (namespace, pod, options["container"]) == ("ns", "slurm-controller-0", "slurmctld")
        self.max_bytes = options["max_bytes"]
        self.commands.append(command)
        return self.answers[command[-2]]


def recorded(version: str) -> dict[str, CommandResult]:
    full = json.loads((RECORDED / f"{version}.json").read_text())["full"]
    return {name: CommandResult(text.encode("utf-8", "surrogateescape"), b"", 0) for name, text in full.items()}


async def asked(shell: Shell) -> Slurm | Silence:
    client: Any = shell
    found: Client = client
    return await ask(found, FACTS, "slurm")


@pytest.mark.parametrize("version", ["24.11", "26.05"])
async def test_slurm_is_asked_for_json_and_every_job_is_found(version: str) -> None:
    shell = Shell(**recorded(version))
    found = await asked(shell)
    wanted = [("scontrol", "show", name, "--json") for name in ("nodes", "jobs", "partitions")]
    assert [tuple(command[-4:]) for command in shell.commands] == wanted
    assert isinstance(found, Slurm)
    queue = json.loads((RECORDED / f"{version}.json").read_text())["queue"]
    assert sorted(found.jobs) == sorted(row[0] for row in queue)
    assert {job.state for job in found.jobs.values()} == {"PENDING", "RUNNING"}


async def test_as_many_jobs_as_slurm_keeps_do_not_silence_it() -> None:
    """10,000 is Slurm's own MaxJobCount: by submitting jobs, a user cannot hide them."""
    shell = Shell(**recorded("26.05"))
    await asked(shell)
    indented = json.dumps(json.loads(shell.answers["jobs"].stdout.decode("utf-8", "surrogateescape")), indent=2)
    assert shell.max_bytes > 2 * 10_000 * len(indented) / 24


@pytest.mark.parametrize("version", ["24.11", "26.05"])
async def test_a_slurmctld_that_is_down_is_silent(version: str) -> None:
    down = json.loads((RECORDED / f"{version}.json").read_text())["down"]
    said = {
        name: CommandResult(ran["stdout"].encode(), ran["stderr"].encode(), ran["code"]) for name, ran in down.items()
    }
    found = await asked(Shell(**said))
    assert isinstance(found, Silence)
    assert "Unable to contact slurm controller" in found.why


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (
            CommandResult(b"", b"warned\nslurm_load_jobs error: Unable to contact slurm controller\n", 1),
            "Unable to contact",
        ),
        (CommandResult(b"", b"", 127), "ended with code 127"),
        (CommandResult(b"No jobs in the system\n", b"", 1), "ended with code 1"),
        (CommandResult(b"No jobs in the system\n", b"", 0), "scontrol show jobs --json: "),
        (CommandResult(b"JobId=802 JobName=x JobState=RUNNING\n", b"", 0), "scontrol show jobs --json: "),
        (CommandResult(b'{"jobs":[{"job_id":1', b"", 0), "scontrol show jobs --json: "),
        (CommandResult(b"", b"a\x1b[2Jb\n", 1), "a [2Jb"),
    ],
    ids=["down", "no scontrol", "text and a code", "text", "a text of jobs", "cut off", "acting"],
)
async def test_what_is_not_the_list_is_silence_with_its_reason(ran: CommandResult, why: str) -> None:
    found = await asked(Shell(**{**recorded("26.05"), "jobs": ran}))
    assert isinstance(found, Silence)
    assert why in found.why
    assert found.why.isprintable()


class Rereads:
    """Knows a pod as it is now, or does not know it any more."""

    def __init__(self, pod: dict[str, Any] | None) -> None:
        self.pod = pod

    async def get(self, _: Resource[RawObject], name: str, namespace: str) -> RawObject:
        assert (namespace, name) == ("ns", "slurm-controller-0")
        if self.pod is None:
            raise NotFound("it is gone")
        return RawObject(ObjectMeta(name=name), json.dumps(self.pod).encode())


async def test_the_pod_of_a_slurmctld_that_did_not_answer_is_read_again() -> None:
    now: Any = Rereads({**POD, "status": {"phase": "Pending"}})
    found = await seen_again(now, FACTS, "slurm")
    assert found["slurm-controller-0"]["status"] == {"phase": "Pending"}
    gone: Any = Rereads(None)
    assert await seen_again(gone, FACTS, "slurm") == {}


STAND_IN = """#!/bin/sh
echo "$@"
cat "${SLURM_CONF:-none}"
cat "${SLURM_CONF%/*}/cgroup.conf"
exit 7
"""


def test_scontrol_reads_a_configuration_without_accounting(tmp_path: Path) -> None:
    conf, programs = tmp_path / "etc", tmp_path / "bin"
    conf.mkdir()
    programs.mkdir()
    (conf / "slurm.conf").write_text("ClusterName=c\n accountingstoragetype=x\nAccountingStorageHost=h\nPort=1\n")
    (conf / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    (programs / "scontrol").write_text(STAND_IN)
    (programs / "scontrol").chmod(0o755)
    places = {"PATH": f"{programs}:{os.environ['PATH']}", "SLURM_CONF": f"{conf}/slurm.conf", "TMPDIR": str(tmp_path)}
    ran = subprocess.run(command("show", "jobs", "--json"), env=places, capture_output=True, text=True, check=False)
    assert ran.stdout == "show jobs --json\nClusterName=c\nPort=1\nCgroupPlugin=disabled\n"
    assert ran.returncode == 7
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bin", "etc"]


def test_scontrol_is_asked_as_it_is_where_no_folder_can_be_made(tmp_path: Path) -> None:
    for name, text in (("mktemp", "#!/bin/sh\nexit 1\n"), ("scontrol", "#!/bin/sh\necho $SLURM_CONF $2\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_CONF": "/nosuch/slurm.conf"}
    ran = subprocess.run(command("show", "jobs", "--json"), env=places, capture_output=True, text=True, check=False)
    assert ran.stdout == "/nosuch/slurm.conf jobs\n"


async def test_whoever_waits_is_told_what_has_not_answered() -> None:
    asked, gate = Asked(), asyncio.Event()
    work = [asyncio.ensure_future(asked.of(name, gate.wait())) for name in ("slurmctld", "slurmdbd", "slurmdbd")]
    await asyncio.sleep(0)
    assert asked.text == "slurmctld, slurmdbd"
    gate.set()
    await asyncio.gather(*work)
    assert asked.text == ""
