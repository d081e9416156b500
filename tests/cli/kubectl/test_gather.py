"""What slurmctld's pod is asked, and what is made of its answer: JSON alone, so that no user's text counts as fact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kube_runtime.client.client import Client
from kube_runtime.client.remote import CommandResult
from slurm_operator.build import labels
from slurm_operator.cli.kubectl.gather import ask
from slurm_operator.diagnose.facts import Facts, Silence, Slurm

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
        return self.answers[command[2]]


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
    assert shell.commands == [["scontrol", "show", name, "--json"] for name in ("nodes", "jobs", "partitions")]
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
