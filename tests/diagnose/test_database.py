"""slurmdbd runs on when its database goes away; sacctmgr says so, and the way to the database is walked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.diagnose.broken import Object, cluster, condition, crashed, pod, resource

from slurm_operator.build import labels
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause, Fine
from slurm_operator.diagnose.facts import Facts, Silence

# Recorded from sacctmgr while MariaDB was gone.
SAID = "sacctmgr: error: slurm_persist_conn_open_without_init: failed to open persistent connection"
CHOSEN = {"app": "mariadb"}
SERVICE = {"kind": "Service", "metadata": {"name": "mariadb"}, "spec": {"selector": CHOSEN}}
ACCOUNTING = resource("Accounting", "slurm", {"storageConfig": {"host": "mariadb"}})
SLURMDBD = pod("slurm-accounting-0", labels.ACCOUNTING, "slurm")
LOG = ("slurm-accounting-0", "slurmdbd")


def database(**status: Any) -> Object:
    made = pod("mariadb-0", labels.ACCOUNTING, "x", **status)
    made["metadata"]["labels"] = CHOSEN
    return made


def owner(replicas: int) -> Object:
    spec = {"replicas": replicas, "template": {"metadata": {"labels": CHOSEN}}}
    return {"kind": "StatefulSet", "metadata": {"name": "mariadb"}, "spec": spec}


def asked(*objects: Object, said: str = SAID, **more: Any) -> Facts:
    return replace(cluster(ACCOUNTING, SLURMDBD, *objects, **more), databases={"slurm": said})


WAITING = {
    "name": "mariadb",
    "image": "mariadb:0",
    "ready": False,
    "state": {"waiting": {"reason": "ImagePullBackOff"}},
}
CASES: dict[str, tuple[Facts, str, str, str]] = {
    "a database that is scaled to nothing": (
        asked(SERVICE, owner(0)),
        "DatabaseDown",
        "StatefulSet mariadb is scaled to 0",
        "kubectl -n slurm scale statefulset mariadb --replicas=1",
    ),
    "a database without a pod": (
        asked(SERVICE, owner(1)),
        "DatabaseDown",
        "no pod is behind Service mariadb",
        "kubectl -n slurm get pods,statefulsets,deployments -l app=mariadb",
    ),
    "a host that is not there": (
        asked(resource("Accounting", "slurm", {"storageConfig": {"host": "nosuch"}}), SERVICE),
        "DatabaseHostMissing",
        "'nosuch' is no Service of namespace slurm",
        "get services",
    ),
    "a database whose image is not there": (
        asked(SERVICE, database(phase="Pending", conditions=[], containerStatuses=[WAITING])),
        "ImageNotPulled",
        "mariadb:0",
        "describe pod mariadb-0",
    ),
    "a database that ends, seen from a slurmdbd that ends": (
        asked(
            SERVICE,
            crashed("slurm-accounting-0", labels.ACCOUNTING, "slurm"),
            {**database(), "status": crashed("x", labels.ACCOUNTING, "x")["status"]},
        ),
        "ContainerFails",
        "mariadb-0",
        "logs mariadb-0",
    ),
    "a password that is refused": (
        asked(
            SERVICE, database(), logs={LOG: ("error: mysql_real_connect failed: 1045 Access denied for user 'slurm'",)}
        ),
        "DatabaseUnreachable",
        "Access denied for user 'slurm'",
        "logs accounting/slurm",
    ),
    "a database elsewhere": (
        asked(resource("Accounting", "slurm", {"storageConfig": {"host": "db.example.com"}}), SERVICE),
        "AccountingSilent",
        SAID,
        "logs accounting/slurm",
    ),
    "a slurmdbd whose image is not there": (
        asked(
            SERVICE,
            owner(0),
            pod(
                "slurm-accounting-0",
                labels.ACCOUNTING,
                "slurm",
                phase="Pending",
                conditions=[],
                containerStatuses=[WAITING],
            ),
        ),
        "ImageNotPulled",
        "mariadb:0",
        "describe pod slurm-accounting-0",
    ),
}


@pytest.mark.parametrize(("facts", "code", "words", "command"), CASES.values(), ids=CASES)
def test_the_way_to_the_database_is_walked(facts: Facts, code: str, words: str, command: str) -> None:
    found = explained(facts, "accounting/slurm")
    assert isinstance(found, Cause), found
    assert found.code == code, found
    assert words in found.sentence
    assert command in found.command
    assert found.wrong


def test_a_slurmdbd_that_answers_is_well() -> None:
    assert isinstance(explained(asked(SERVICE, owner(0), said=""), "accounting/slurm"), Fine)


def test_a_slurmdbd_that_nobody_could_ask_is_judged_by_its_pod() -> None:
    assert isinstance(explained(cluster(ACCOUNTING, SLURMDBD, SERVICE, owner(0)), "accounting/slurm"), Fine)


def test_a_directory_that_nobody_serves_is_found() -> None:
    login = pod("login-x", labels.LOGIN, "login")
    facts = cluster(resource("LoginSet", "login", {}, condition("Ready", "True")), login)
    assert isinstance(explained(facts, "loginset/login"), Fine)
    found = explained(replace(facts, without_sssd=frozenset({"login-x"})), "loginset/login")
    assert isinstance(found, Cause)
    assert (found.code, found.command) == ("SssdNotRunning", "kubectl -n slurm logs login-x -c login --tail=50")


NO_LIST = "scontrol show partitions --json: Slurmdb query failed: Unable to connect to database (Slurm error 7000)"


@pytest.mark.parametrize(
    ("objects", "code", "sentence"),
    [
        ((SERVICE, owner(0)), "DatabaseDown", "StatefulSet mariadb is scaled to 0"),
        ((), "DatabaseUnreachable", "without it scontrol lists nothing of 'slurm'"),
    ],
    ids=["one that is seen", "one outside of the namespace"],
)
@pytest.mark.parametrize("target", ["job/7", "partition/compute", "node/compute-0"])
def test_a_scontrol_that_wants_the_database_is_no_silence_of_slurmctld(
    target: str, objects: tuple[Object, ...], code: str, sentence: str
) -> None:
    user = resource("Controller", "slurm", {"accountingRef": {"name": "slurm" if objects else "elsewhere"}})
    answer = explained(asked(user, *objects, slurm=Silence(NO_LIST)), target)
    assert isinstance(answer, Cause)
    assert answer.code == code
    assert sentence in answer.sentence


def test_a_slurmctld_that_does_not_answer_is_silent_whatever_its_database_does() -> None:
    answer = explained(asked(SERVICE, owner(0), slurm=Silence("scontrol has waited 20 s for it")), "job/7")
    assert isinstance(answer, Cause)
    assert answer.code == "SlurmSilent"


@pytest.mark.parametrize(
    ("silence", "code"),
    [("scontrol has waited 20 s for it", ""), (NO_LIST, "DatabaseDown")],
    ids=["slurmctld hangs, and sacctmgr beside it", "slurmctld wants the database too"],
)
def test_a_sacctmgr_that_fails_beside_a_silent_slurmctld_says_nothing_of_the_database(silence: str, code: str) -> None:
    user = resource("Controller", "slurm", {"accountingRef": {"name": "slurm"}})
    answer = explained(asked(user, SERVICE, owner(0), slurm=Silence(silence)), "accounting/slurm")
    assert (answer.code if isinstance(answer, Cause) else "") == code
