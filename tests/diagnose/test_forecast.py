"""What would happen if manifests were applied: live, in place, restarted, drained or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.diagnose.said import said

from slurm_operator.build import labels
from slurm_operator.diagnose.facts import Facts, fingerprint
from slurm_operator.diagnose.forecast import Effect, forecast

Object = dict[str, Any]
KEYS = {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}}
NODES = "NodeName=compute-0 State=ALLOCATED\nNodeName=compute-1 State=IDLE"
JOBS = "JobId=7 JobState=RUNNING Partition=compute NodeList=compute-0 EndTime=2026-11-17T00:00:00Z"


def resource(kind: str, name: str, **spec: Any) -> Object:
    owner = {} if kind == "Controller" else {"controllerRef": {"name": "slurm"}}
    place = {"name": name, "namespace": "slurm", "uid": "u"}
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": place, "spec": {**owner, **spec}}


CONTROLLER = resource("Controller", "slurm", **KEYS)
NODESET = resource("NodeSet", "compute", replicas=2, partition={"enabled": True})
PARTITION = resource("Partition", "batch", nodeSets=["compute"])


def worker(name: str) -> Object:
    return {"metadata": {"name": name, "labels": labels.of_pod(labels.WORKER, "compute")}, "spec": {"hostname": name}}


@pytest.fixture
def facts() -> Facts:
    objects: dict[str, dict[str, Object]] = {
        "Controller": {"slurm": CONTROLLER},
        "NodeSet": {"compute": NODESET},
        "Partition": {"batch": PARTITION},
        "Pod": {name: worker(name) for name in ("compute-0", "compute-1")},
    }
    return Facts("slurm", objects, {"slurm": said(NODES, JOBS, "")})


def changed(raw: Object, **spec: Any) -> Object:
    return {**raw, "spec": {**raw["spec"], **spec}}


@pytest.mark.parametrize(
    ("wanted", "ways"),
    [
        ([CONTROLLER, NODESET, PARTITION], []),
        ([changed(PARTITION, maxTime="1:00:00")], ["live"]),
        ([changed(NODESET, partition={"enabled": True, "config": "MaxTime=60"})], ["live"]),
        ([changed(CONTROLLER, extraConf="MinJobAge=600")], ["reconfigure"]),
        ([changed(CONTROLLER, inplaceReconfigure=False, extraConf="MinJobAge=600")], ["restart", "restart"]),
        ([changed(NODESET, replicas=5)], ["made"]),
        ([changed(NODESET, replicas=1)], ["drain"]),
        ([changed(NODESET, slurmd={"image": "ghcr.io/slinkyproject/slurmd:other"})], ["drain"]),
        ([changed(NODESET, slurmd={"image": "other:1"})], ["flag", "drain"]),
        ([changed(NODESET, template={"spec": {"hostPID": True}})], ["flag", "drain"]),
        ([changed(NODESET, slurmd={"image": "other:1"}, updateStrategy={"type": "OnDelete"})], ["flag", "none"]),
        ([resource("NodeSet", "gpu", replicas=1)], ["reconfigure", "made"]),
        ([changed(PARTITION, maxTime="soon")], ["refused"]),
    ],
    ids=[
        "nothing",
        "a partition",
        "a node set's own partition",
        "a line of slurm.conf",
        "the same without in-place",
        "more workers",
        "fewer workers",
        "another image",
        "an image of one's own",
        "a pod feature",
        "another image on delete",
        "a new node set",
        "a bad value",
    ],
)
def test_the_way_of_each_change(facts: Facts, wanted: list[Object], ways: list[str]) -> None:
    assert [effect.way for effect in forecast(facts, wanted)] == ways


def test_a_scale_in_names_the_jobs_that_are_waited_for_and_their_end(facts: Facts) -> None:
    (effect,) = forecast(facts, [changed(NODESET, replicas=1)])
    assert effect == Effect(
        "NodeSet compute",
        "drain",
        "1 of 2 workers is drained, and removed once idle in Slurm: compute-1",
    )


FIVE = "\n".join(f"NodeName=compute-{number} State=MIXED" for number in range(5))


def job(number: int, node: int, end: str, start: str = "2026-11-16T20:00:00Z") -> str:
    return f"JobId={number} JobState=RUNNING NodeList=compute-{node} StartTime={start} EndTime={end}"


def test_a_scale_in_waits_only_for_jobs_of_the_workers_that_the_operator_would_choose(facts: Facts) -> None:
    """It named the jobs of all workers, and the end of none, though two workers were idle."""
    endless = "JobId=30 JobState=RUNNING NodeList=compute-4 StartTime=2026-11-16T20:00:00Z"
    jobs = [job(29, 0, "2026-11-17T02:00:00Z"), endless, job(31, 2, "2026-11-16T23:00:00Z")]
    nodeset = changed(NODESET, replicas=5)
    pods = {f"compute-{number}": worker(f"compute-{number}") for number in range(5)}
    facts = replace(
        facts,
        objects={**facts.objects, "NodeSet": {"compute": nodeset}, "Pod": pods},
        slurm={"slurm": said(FIVE, "\n".join(jobs), "")},
    )
    (effect,) = forecast(facts, [changed(NODESET, replicas=2)])
    assert effect == Effect(
        "NodeSet compute",
        "drain",
        "3 of 5 workers are drained, and removed once idle in Slurm: compute-[1-3]",
        ("31",),
        "2026-11-16T23:00:00Z",
    )


def test_no_worker_is_named_while_slurm_does_not_answer(facts: Facts) -> None:
    (effect,) = forecast(replace(facts, slurm={}), [changed(NODESET, replicas=1)])
    assert "none is chosen before it does" in effect.sentence


DATABASE = {"host": "mariadb", "passwordKeyRef": {"name": "mariadb", "key": "password"}}
ACCOUNTING = {**CONTROLLER, "kind": "Accounting", "spec": {**KEYS, "storageConfig": DATABASE}}


@pytest.mark.parametrize(
    ("secrets", "given", "ways"),
    [
        ({"mariadb": {"password": fingerprint(b"x")}}, {}, []),
        ({}, {"mariadb": {"password": b"x"}}, ["made"]),
        ({"mariadb": {"password": fingerprint(b"x")}}, {"mariadb": {"password": b"x"}}, []),
        ({"mariadb": {"password": fingerprint(b"x")}}, {"a": {"b": b"new"}}, ["restart"]),
        (None, {}, []),
        ({}, {}, ["refused"]),
    ],
    ids=[
        "in the namespace",
        "only in the manifests",
        "in both, and the same",
        "another key beside it",
        "Secrets that may not be read",
        "nowhere",
    ],
)
def test_secrets_of_the_namespace_count(
    facts: Facts, secrets: dict[str, dict[str, str]] | None, given: dict[str, dict[str, bytes]], ways: list[str]
) -> None:
    """`plan` once refused an Accounting whose Secret was there."""
    here = replace(facts, objects={**facts.objects, "Accounting": {"slurm": ACCOUNTING}}, secrets=secrets)
    assert [effect.way for effect in forecast(here, [ACCOUNTING], ({}, given))] == ways
