"""Programs that slurm.conf names below /etc/slurm: each daemon must find its own."""

from __future__ import annotations

import pytest

from slurm_operator.slurm.conf_lint import lint

WHOLE = "ClusterName=c\nProctrackType=proctrack/linuxproc\n"


def found(line: str, *names: str) -> list[tuple[str, str]]:
    """Severity and message of every program that is missing; `names` are files of ConfigMaps."""
    files = {"slurm.conf": f"{WHOLE}{line}\n", **dict.fromkeys(names, "#!/bin/sh\n")}
    judged = (each for each in lint(files, version="26.05", complete=True) if each.code == "MissingProgram")
    return [(each.severity, each.without_place) for each in judged]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "Prolog=/etc/slurm/a.sh",
            "Prolog: workers have no /etc/slurm/a.sh; add a.sh to a ConfigMap in prologScriptRefs",
        ),
        ("Epilog=a.sh", "Epilog: no ConfigMap of the Controller holds a.sh; add it to one in epilogScriptRefs"),
        ("TaskProlog=/etc/slurm/a.sh", "TaskProlog: workers have no /etc/slurm/a.sh: put it into the image of slurmd"),
        ("HealthCheckProgram=/etc/slurm/a.sh", "HealthCheckProgram: workers have no /etc/slurm/a.sh"),
        ("UnkillableStepProgram=/etc/slurm/a.sh", "UnkillableStepProgram: workers have no"),
        ('RebootProgram="/etc/slurm/a.sh -f"', "RebootProgram: workers have no /etc/slurm/a.sh:"),
        (
            "PrologSlurmctld=/etc/slurm/a.sh",
            "PrologSlurmctld: no ConfigMap of the Controller holds a.sh; add it to one in",
        ),
        (
            "MailProg=/etc/slurm/a.sh",
            "MailProg: no ConfigMap of the Controller holds a.sh; add it to one in configFileRefs",
        ),
        ("ResumeProgram=/etc/slurm/sub/a.sh", "ResumeProgram: no ConfigMap of the Controller holds sub/a.sh"),
        ("Prolog=prolog.d-*", "Prolog: no ConfigMap of the Controller holds prolog.d-*"),
        ("EpilogSlurmctld=/etc/slurm/*.py", "EpilogSlurmctld: no ConfigMap of the Controller holds *.py"),
    ],
    ids=lambda text: text.partition("=")[0],
)
def test_a_program_that_no_config_map_holds_is_an_error(line: str, said: str) -> None:
    ((severity, message),) = found(line, "other.sh")
    assert severity == "error"
    assert message.startswith(said)


def test_a_program_of_workers_is_named_without_a_folder() -> None:
    ((severity, message),) = found("Prolog=/etc/slurm/a.sh", "a.sh")
    assert severity == "error"
    assert message.endswith("slurmctld sends them a.sh if it is named without a folder; did you mean Prolog=a.sh?")


def test_a_login_pod_may_mount_its_own() -> None:
    assert [severity for severity, _ in found("SrunProlog=/etc/slurm/a.sh", "a.sh")] == ["warning"]


@pytest.mark.parametrize(
    "line",
    [
        "Prolog=a.sh",
        "Prolog=*.sh",
        "Epilog=/opt/site/epilog",
        "TaskProlog=/opt/site/task",
        "PrologSlurmctld=/etc/slurm/a.sh",
        "EpilogSlurmctld=/etc/slurm/[ab].sh",
        "MailProg=/usr/bin/mail",
        "StateSaveLocation=/etc/slurm/state",
    ],
)
def test_a_program_that_is_there_or_in_the_image_is_fine(line: str) -> None:
    assert found(line, "a.sh") == []


def test_lines_without_their_files_are_not_judged() -> None:
    files = {"slurm.conf": f"{WHOLE}Prolog=/etc/slurm/a.sh\n"}
    assert "MissingProgram" not in {each.code for each in lint(files, version="26.05")}
