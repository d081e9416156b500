"""Each part is asked itself, only for what matters, and what it does not say is no fact."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.diagnose.broken import Object, cluster, pod, resource
from tests.diagnose.said import answer, said

from kube_runtime.client.errors import Unreachable
from kube_runtime.client.remote import CommandResult
from slurm_operator.build import labels
from slurm_operator.cli.kubectl.parts import Parts
from slurm_operator.diagnose.facts import Facts, Slurm, fingerprint
from slurm_operator.diagnose.limits import ASSOCIATION_COLUMNS, QOS_COLUMNS


def row(columns: tuple[str, ...], **values: str) -> bytes:
    """A line as `sacctmgr -n -P` prints it."""
    return ("|".join(values.get(column, "") for column in columns) + "\n").encode()


QOS = row(QOS_COLUMNS, Name="normal", GrpTRES="cpu=4")
ASSOCIATIONS = row(ASSOCIATION_COLUMNS, Account="physics", User="bob") + row(
    ASSOCIATION_COLUMNS, Account="physics", ParentName="root", GrpJobs="2"
)
LICENSES = answer("licenses", [{"LicenseName": "matlab", "Total": 2, "Used": 1}])
RESERVATIONS = answer("reservations", [{"name": "later", "node_list": "n0", "users": "bob", "flags": []}])


class Shell:
    """Answers as the pods would, by the word after `show`, or by the program."""

    def __init__(self, **answers: CommandResult | Exception) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def run(self, _namespace: str, pod: str, command: tuple[str, ...], **_options: Any) -> CommandResult:
        # scontrol is run by a shell.
        words = list(command)[4:] if command[0] == "sh" and "scontrol" in command else list(command)
        about = words[words.index("show") + 1] if "show" in words else words[0]
        self.asked.append(f"{pod}: {words[0]} {about}")
        given = self.answers[about]
        if isinstance(given, Exception):
            raise given
        return given

    async def list(self, _resource: Any, _namespace: str) -> Any:
        given = self.answers["secrets"]
        if isinstance(given, Exception):
            raise given
        body = {"data": {"key": b64encode(b"value").decode()}}
        item = SimpleNamespace(metadata=SimpleNamespace(name="s"), content=lambda: body)
        return SimpleNamespace(items=[item])


def good(stdout: bytes) -> CommandResult:
    return CommandResult(stdout, b"", 0)


def parts(shell: Shell, facts: Facts) -> Parts:
    client: Any = shell
    return Parts(client, facts)


def waiting(reason: str) -> Slurm:
    return said("", f"JobId=9 JobState=PENDING Reason={reason} UserId=bob(1)", "")


async def more(shell: Shell, slurm: Slurm) -> Slurm:
    found = await parts(shell, cluster()).more("slurm", slurm)
    assert isinstance(found, Slurm)
    return found


async def test_nothing_is_asked_for_that_no_job_waits_for() -> None:
    shell = Shell()
    slurm = waiting("Resources")
    assert await more(shell, slurm) is slurm
    assert shell.asked == []


async def test_limits_are_asked_for_when_one_holds_a_job() -> None:
    shell = Shell(qos=good(QOS), assoc=good(ASSOCIATIONS))
    found = (await more(shell, waiting("QOSGrpCpuLimit"))).limits
    assert found is not None
    assert found.qos["normal"]["GrpTRES"] == "cpu=4"
    assert [(row["Account"], row["User"], row["GrpJobs"]) for row in found.associations] == [
        ("physics", "bob", ""),
        ("physics", "", "2"),
    ]
    assert shell.asked == ["slurm-controller-0: sacctmgr qos", "slurm-controller-0: sacctmgr assoc"]


async def test_licenses_and_reservations_are_asked_for_where_a_job_waits_for_them() -> None:
    licenses = (await more(Shell(licenses=good(LICENSES)), waiting("Licenses"))).licenses
    assert licenses is not None
    assert (licenses["matlab"].total, licenses["matlab"].used) == (2, 1)
    reservations = (await more(Shell(reservations=good(RESERVATIONS)), waiting("Reservation"))).reservations
    assert reservations is not None
    assert reservations["later"].users == ("bob",)


@pytest.mark.parametrize(
    "given",
    [CommandResult(b"", b"no\n", 1), good(b"not JSON"), Unreachable("away", sent=False)],
    ids=["refused", "text", "away"],
)
@pytest.mark.parametrize("reason", ["QOSGrpCpuLimit", "Licenses", "Reservation"])
async def test_a_part_that_says_nothing_leaves_the_rest_as_it_is(given: Any, reason: str) -> None:
    shell = Shell(qos=given, assoc=given, licenses=given, reservations=given)
    found = await more(shell, waiting(reason))
    assert not (found.limits and found.limits.qos)
    assert (found.licenses, found.reservations) == (None, None)


ACCOUNTED: Object = resource("Controller", "slurm", {"accountingRef": {"name": "slurm"}})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (good(b"slurm\n"), ""),
        (CommandResult(b"", b"sacctmgr: error: a\nsacctmgr: error: no connection\n", 1), "no connection"),
        (CommandResult(b"", b"", 1), "sacctmgr ended with exit code 1"),
        (Unreachable("it took longer than 8 s", sent=False), "it took longer than 8 s"),
    ],
    ids=["it answers", "it says why", "it says nothing", "it hangs"],
)
async def test_slurmdbd_is_asked_for_its_database(given: Any, words: str) -> None:
    facts = cluster(ACCOUNTED, resource("Accounting", "slurm"), resource("Accounting", "unused"))
    found = await parts(Shell(cluster=given), facts).databases()
    assert list(found) == ["slurm"]
    assert words in found["slurm"]
    assert bool(found["slurm"]) == bool(words)


async def test_without_a_slurmctld_nobody_can_ask_slurmdbd() -> None:
    facts = cluster(ACCOUNTED, resource("Accounting", "slurm"), without=("slurm-controller-0",))
    assert await parts(Shell(), facts).databases() == {}


@pytest.mark.parametrize(("code", "lost"), [(0, False), (3, True), (127, False)])
async def test_a_login_pod_is_asked_for_sssd(code: int, lost: bool) -> None:
    facts = cluster(resource("LoginSet", "login"), pod("login-x", labels.LOGIN, "login"))
    found = await parts(Shell(sh=CommandResult(b"", b"", code)), facts).without_sssd()
    assert found == (frozenset({"login-x"}) if lost else frozenset())


async def test_of_a_secret_only_its_keys_and_fingerprints_are_kept() -> None:
    found = await parts(Shell(secrets=good(b"")), cluster()).secrets()
    assert found == {"s": {"key": fingerprint(b"value")}}
    assert await parts(Shell(secrets=Unreachable("forbidden", sent=False)), replace(cluster())).secrets() is None


async def test_a_slurmdbd_whose_pod_is_not_ready_is_not_waited_for() -> None:
    down = pod("slurm-accounting-0", labels.ACCOUNTING, "slurm", conditions=[])
    facts = cluster(
        resource("Controller", "slurm", {"accountingRef": {"name": "slurm"}}), resource("Accounting", "slurm"), down
    )
    shell = Shell()
    assert await parts(shell, facts).databases() == {}
    assert shell.asked == []
