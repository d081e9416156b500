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
GO = {
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


@pytest.mark.parametrize(
    "data",
    [None, "", "AAAA", b64encode(b64encode(gzip.compress(b"[]"))).decode(), b64encode(b64encode(b"x")).decode()],
    ids=["nothing", "empty", "no base64 twice", "another JSON", "no gzip"],
)
def test_a_secret_that_is_no_release_is_passed_over(data: str | None) -> None:
    assert migrate_check.release({"metadata": {"name": "a", "namespace": "b"}, "data": {"release": data}}) is None


def test_a_file_that_holds_no_values_is_named(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("- a\n")
    with pytest.raises(click.ClickException, match="must be a mapping, like the values of any chart"):
        migrate_check._given(file)
