"""`slurm-operator migrate-check` reads a cluster that the Go operator runs, writes nothing, and says what it means."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.campaigns.go_operator import GoOperator, InWorld, written_by_go
from tests.campaigns.rig import NAMESPACE, World
from tests.reconcile.test_reach import REACHING

from kube_runtime.client.client import Client
from slurm_operator.cli import migrate_check
from slurm_operator.diagnose.migration import Installation, migration

FLAGS = frozenset({"leader-elect", "zap-log-level"})
GO: dict[str, Any] = {
    "metadata": {"name": "slurm-operator", "namespace": NAMESPACE},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "go"}},
        "template": {
            "metadata": {"labels": {"app": "go"}},
            "spec": {
                "containers": [
                    {
                        "name": "manager",
                        "image": "ghcr.io/slinkyproject/slurm-operator:1.2.1",
                        "args": ["--leader-elect", "--zap-log-level=debug", "--gone=1"],
                    }
                ]
            },
        },
    },
}


def secret(values: dict[str, Any]) -> dict[str, Any]:
    """A release as Helm keeps it."""
    content = {
        "name": "slurm-operator",
        "chart": {"metadata": {"name": "slurm-operator", "version": "1.2.1"}},
        "config": values,
    }
    packed = b64encode(gzip.compress(json.dumps(content).encode()))
    return {"metadata": {"name": "r", "namespace": "slinky"}, "data": {"release": b64encode(packed).decode()}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """An empty cluster."""
    made = World()
    await made.open()
    yield made
    await made.close()


async def installation(world: World, *values: Path) -> Installation:
    await world.stop_operator()
    place = InWorld(world)
    await GoOperator(place, nodeset=REACHING).leave_a_cluster(*written_by_go(REACHING))
    await place.send("POST", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", GO)
    made = secret({"crds": {"enabled": True}})
    labelled = {"name": "sh.helm.release.v1.x", "labels": {"owner": "helm", "status": "deployed"}}
    await place.send("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", {**made, "metadata": labelled})
    return await migrate_check.read(Client(world.wire), "", values, FLAGS)


async def test_a_cluster_of_the_go_operator_is_read_and_left_alone(world: World) -> None:
    found = await installation(world)
    before = json.dumps([world.stored("pods"), world.stored("statefulsets.apps"), world.stored("secrets")])
    again = await migrate_check.read(Client(world.wire), "", (), FLAGS)
    assert json.dumps([world.stored("pods"), world.stored("statefulsets.apps"), world.stored("secrets")]) == before
    assert again.every("NodeSet") == found.every("NodeSet")
    answer = migration(found)
    assert answer.programs == [f"Deployment {NAMESPACE}/slurm-operator"]
    decisions = "\n".join(f"{note.place}: {note.message}" for note in answer.decisions)
    for words in (
        f"NodeSet {NAMESPACE}/compute: spec.template.spec.volumes[0].hostPath: a folder of the node needs",
        "--allow-pod-features=serviceAccount; this one keeps it even without the flag",
        "--allow-pod-features=capabilities; this one keeps it",
        "its flag --gone has no counterpart",
        "has the definitions in it (crds.enabled)",
    ):
        assert words in decisions
    assert answer.values["allowPodFeatures"] == ["capabilities", "hostPath", "privileged", "serviceAccount"]
    assert answer.values["operator"] == {"logLevel": "debug"}
    assert found.unread == {}


async def test_values_of_a_file_stand_for_those_of_the_release(world: World, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("webhook: {image: {repository: x}}\n")
    found = await installation(world, file)
    assert [each.values for each in found.releases] == [{"webhook": {"image": {"repository": "x"}}}]


async def test_the_answer_for_people_ends_in_the_order_of_the_switch(world: World) -> None:
    lines = migrate_check.text(migration(await installation(world))).splitlines()
    assert lines[0] == "Read: 1 cluster and 1 NodeSet"
    assert lines[1] == f"Programs of the Go operator: Deployment {NAMESPACE}/slurm-operator"
    assert any(line.startswith("Needs a decision: ") for line in lines)
    values = lines[lines.index(next(each for each in lines if each.startswith("Values"))) + 1 :]
    shown = yaml.safe_load("\n".join(values[: values.index("")]))
    assert "hostPath" in shown["allowPodFeatures"]
    assert lines[-1].startswith("5. kubectl get controllers,")


@pytest.mark.parametrize(
    ("namespace", "said"),
    [
        ("nosuch", "there is no namespace 'nosuch'"),
        ("bare", "namespace 'bare' holds no resource of slinky.slurm.net"),
        ("", "no namespace holds a resource of slinky.slurm.net"),
    ],
    ids=["no such namespace", "an empty one", "all of them"],
)
async def test_where_there_is_nothing_to_read_nothing_is_judged(world: World, namespace: str, said: str) -> None:
    await world.stop_operator()
    await InWorld(world).send("POST", "/api/v1/namespaces", {"metadata": {"name": "bare"}})
    with pytest.raises(click.ClickException, match=said):
        await migrate_check.read(Client(world.wire), namespace, (), FLAGS)


async def test_a_go_operator_that_is_stopped_changes_nothing(world: World) -> None:
    await installation(world)
    found = await migrate_check.read(Client(world.wire), NAMESPACE, (), FLAGS)
    stopped = migration(replace(found, objects={**found.objects, "Deployment": []}))
    assert "none found; they may be stopped already" in migrate_check.text(stopped)
    assert "Deployment" not in {note.place for note in stopped.notes}
    assert stopped.as_json()["read"]["NodeSet"] == 1


def packed(content: bytes) -> dict[str, Any]:
    """A Secret as Helm writes it, with that content."""
    return of_data(b64encode(b64encode(gzip.compress(content))).decode())


def of_data(release: object) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "tenant"}, "data": {"release": release}}


def written(chart: object = "slurm-operator", version: object = "1", **more: object) -> bytes:
    return json.dumps({"name": "x", "chart": {"metadata": {"name": chart, "version": version}}, **more}).encode()


DEEP = b'{"a":' * 200_000 + b"1" + b"}" * 200_000


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        pytest.param({}, "it has no data.release", id="nothing"),
        pytest.param({"metadata": "x", "data": "x"}, "it has no data.release", id="texts"),
        pytest.param(of_data(None), "it has no data.release", id="null"),
        pytest.param(of_data(""), "truncated", id="empty"),
        pytest.param(of_data("AAAA"), "", id="no base64 twice"),
        pytest.param(of_data("é"), "ASCII", id="no ASCII"),
        pytest.param(of_data(b64encode(b64encode(b"x")).decode()), "gzip", id="no gzip"),
        pytest.param(packed(b"[]"), "Expected `object`, got `array`", id="another JSON"),
        pytest.param(packed(b"\xff"), "malformed", id="no JSON"),
        pytest.param(packed(DEEP), "it is nested too deeply", id="too deep"),
        pytest.param(
            packed(written(config={"a": 1})[:-1] + b',"b":' + DEEP + b"}"), "too deeply", id="too deep beside"
        ),
        pytest.param(packed(b" " * (32 * 1024 * 1024 + 1)), "it unpacks to more than 32 MB", id="a bomb"),
        pytest.param(packed(written(config={"a": "x" * 2**20})), "its values have more than 1 MB", id="large values"),
        pytest.param(packed(written(config=["a"])), "Expected `object | null`, got `array`", id="a list as values"),
        pytest.param(packed(written(config="a")), "Expected `object | null`, got `str`", id="text as values"),
        pytest.param(packed(written(version=1)), "`$.chart.metadata.version`", id="a number as version"),
        pytest.param(packed(written(chart=["a"])), "`$.chart.metadata.name`", id="a list as chart"),
        pytest.param(packed(b'{"name":"x","chart":"y"}'), "`$.chart`", id="a text as chart"),
    ],
)
def test_a_release_that_cannot_be_read_is_a_line_of_the_answer(held: dict[str, Any], problem: str) -> None:
    found = migrate_check.release(held)
    assert found is not None
    assert problem in found.problem
    said = migrate_check.text(migration(Installation({}, [found])))
    assert (
        f"these could not be read, so they were not checked; give the values with --values FILE\n    {found}: " in said
    )


def test_a_release_of_another_chart_is_passed_over() -> None:
    assert migrate_check.release(packed(written("nginx", config=["a"]))) is None


@pytest.mark.parametrize("config", [None, {}], ids=["null", "empty"])
def test_a_release_without_values_has_none(config: object) -> None:
    found = migrate_check.release(packed(written(config=config)))
    assert found is not None
    assert (found.values, found.problem) == ({}, "")


FORGED = "x\n\nSteps, in this order:\n1. kubectl delete crd --all"


def test_no_name_of_a_release_forges_a_line() -> None:
    content = json.loads(written(config={"crds": {"enabled": True}}))
    found = migrate_check.release(packed(json.dumps({**content, "name": FORGED}).encode()))
    assert found is not None
    lines = migrate_check.text(migration(Installation({}, [found]))).splitlines()
    assert [line for line in lines if line.lstrip().startswith(("Steps", "1. "))] == [
        "Steps, in this order:",
        next(line for line in lines if line.startswith("1. kubectl get ")),
    ]
    assert any(line.startswith("- release 'tenant/x Steps, in this order: 1. kubectl delete") for line in lines)


def test_no_flag_of_a_program_forges_a_line() -> None:
    container = {**GO["spec"]["template"]["spec"]["containers"][0], "args": ["--namespaces=" + "a " * 200 + FORGED]}
    program = {**GO, "spec": {"template": {"spec": {"containers": [container]}}}}
    lines = migrate_check.text(migration(Installation({"Deployment": [program]}))).splitlines()
    assert len([line for line in lines if line.lstrip().startswith("Steps")]) == 1
    assert len([line for line in lines if line.lstrip().startswith("1. ")]) == 1


def test_programs_that_are_not_clear_are_not_called_stopped() -> None:
    other = {**GO, "metadata": {"name": "slurm-operator", "namespace": "tenant"}}
    lines = migrate_check.text(migration(Installation({"Deployment": [GO, other]}))).splitlines()
    assert lines[1] == "Programs of the Go operator: not clear; see below"
    at = lines.index(next(line for line in lines if line.startswith("- programs: it is not clear which of these")))
    assert lines[at + 1 : at + 3] == [
        f"    Deployment {NAMESPACE}/slurm-operator",
        "    Deployment tenant/slurm-operator",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("- a\n", "values.yaml:1: must be a mapping, not a list", id="a list"),
        pytest.param("a: " + "[" * 20_000, "values.yaml:1: nested deeper than 100 levels", id="too deep"),
        pytest.param("a: &a [*a]", "values.yaml:1: alias", id="an endless alias"),
    ],
)
def test_a_file_that_holds_no_values_is_named(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    with pytest.raises(click.ClickException, match=problem):
        migrate_check._given(file)


@pytest.mark.parametrize("text", ["crds: true", "operator: x", "webhook: [1]"])
def test_a_value_of_a_wrong_type_in_a_file_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    (note,) = migration(Installation({}, [migrate_check._given(file)])).notes
    assert note.place == f"values {file}"
    assert note.message == f"its value {text.partition(':')[0]} was not checked, since it is no mapping"
