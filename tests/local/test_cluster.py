"""Applying manifests to the embedded API server, and telling how a cluster is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_local.apiserver import ApiServer
from kube_local.node.paths import Paths
from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import NAMESPACES, PODS, SECRETS
from slurm_operator.cli.local_view import as_text
from slurm_operator.local import cluster
from slurm_operator.local.cluster import Readiness
from slurm_operator.local.home import Choices, Home, LocalError, write_whole
from slurm_operator.local.parts import answers, client_of, forget_stopped
from slurm_operator.reconcile.resources import OURS

EXAMPLES = Path(__file__).parents[2] / "examples"
MINIMAL = list(yaml.safe_load_all((EXAMPLES / "minimal.yaml").read_text()))


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    """A cluster of which only the API server runs."""
    home, server = Home(tmp_path), ApiServer()
    await server.start()
    write_whole(home.kubeconfig, server.kubeconfig().encode())
    home.keep(Choices(nodes=1))
    yield home
    await server.stop()


async def test_an_example_is_applied_with_our_kinds_and_its_namespace(home: Home) -> None:
    counts = await cluster.apply(home, MINIMAL)
    assert len(counts["created"]) == 8 + len(MINIMAL)
    async with client_of(home) as client:
        assert (await client.get(OURS["NodeSet"], "compute", "slurm")).metadata.name == "compute"


async def test_applying_it_again_changes_nothing(home: Home) -> None:
    await cluster.apply(home, MINIMAL)
    assert len((await cluster.apply(home, MINIMAL))["unchanged"]) == 7 + len(MINIMAL)


async def test_what_is_set_back_is_named_and_a_namespace_is_not(home: Home) -> None:
    objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slurm"}}, *MINIMAL]
    await cluster.apply(home, objects)
    async with client_of(home) as client:
        await client.merge_patch(OURS["NodeSet"].raw(), "compute", {"spec": {"replicas": 7}}, "slurm")
    assert (await cluster.apply(home, objects))["changed"] == ["NodeSet slurm/compute"]


async def test_kinds_that_only_the_server_knows_are_applied(home: Home) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": "default"},
        "rules": [],
    }
    assert "Role default/reader" in (await cluster.apply(home, [role]))["created"]


async def test_a_kind_that_nobody_knows_is_named(home: Home) -> None:
    with pytest.raises(LocalError, match=r"Gadget x: .*local mode serves no such kind"):
        await cluster.apply(home, [{"apiVersion": "acme/v1", "kind": "Gadget", "metadata": {"name": "x"}}])


async def test_an_object_that_says_no_namespace_is_in_the_default_one(home: Home) -> None:
    await cluster.apply(home, [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}])
    async with client_of(home) as client:
        assert (await client.get(SECRETS, "key", "default")).metadata.namespace == "default"


async def test_a_refused_object_is_named_with_the_servers_reason(home: Home) -> None:
    broken = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": "broken", "namespace": "slurm"},
        "spec": {"replicas": "many"},
    }
    with pytest.raises(LocalError, match="NodeSet broken was refused"):
        await cluster.apply(home, [broken])


async def test_what_is_not_ready_is_said_after_the_wait(home: Home) -> None:
    await cluster.apply(home, MINIMAL)
    looks = Readiness(home)
    assert not await looks.look()
    assert looks.now is not None
    said = cluster.not_ready(looks.now, 0)
    assert "NodeSet slurm/compute: nothing is known of it yet" in said
    assert "apiserver does not run" in said


async def test_what_is_applied_and_being_deleted_is_found(home: Home) -> None:
    """It would be applied to an object that goes, and would go with it."""
    await cluster.apply(home, MINIMAL)
    assert await cluster.being_deleted(home, MINIMAL) == []
    async with client_of(home) as client:
        keep = {"metadata": {"finalizers": ["nodeset.slinky.slurm.net/drain"]}}
        await client.merge_patch(OURS["NodeSet"].raw(), "compute", keep, "slurm")
        await client.delete(OURS["NodeSet"], "compute", "slurm")
    assert await cluster.being_deleted(home, MINIMAL) == [("NodeSet", "slurm", "compute")]


async def test_a_pod_whose_containers_were_stopped_is_not_ready_any_more(home: Home) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "it", "namespace": "default"},
        "spec": {"containers": [{"name": "one", "image": "one"}]},
    }
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    async with client_of(home) as client:
        await client.create(PODS.raw(), body, "default")
        await client.merge_patch(PODS.raw(), "it", status, "default", subresource="status")
        await forget_stopped(client, home)
        pod = (await client.get(PODS.raw(), "it", "default")).content()
    assert [(one["status"], one["reason"]) for one in pod["status"]["conditions"]] == [("False", "LocalClusterStopped")]


async def test_without_a_login_pod_it_says_what_to_apply(home: Home) -> None:
    with pytest.raises(LocalError, match="apply a LoginSet"):
        await cluster.login_pod(home)


async def test_a_server_that_is_away_does_not_answer(tmp_path: Path) -> None:
    assert not await answers(Home(tmp_path))


async def test_a_namespace_is_not_made_where_none_is_named(home: Home) -> None:
    await cluster.apply(home, [])
    async with client_of(home) as client:
        with pytest.raises(NotFound):
            await client.get(NAMESPACES, "slurm")


def test_reset_never_removes_a_folder_of_someone_elses(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(LocalError, match="nothing was removed"):
        cluster.require_ours(Home(tmp_path))
    assert (tmp_path / "thesis.tex").exists()


CONTROLLER = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "Controller", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("version", "item", "image"),
    [
        ("24.11", CONTROLLER, "ghcr.io/slinkyproject/slurmctld:24.11"),
        ("24.11", {**CONTROLLER, "spec": {"slurmctld": {"image": "mine:1"}}}, "mine:1"),
        ("26.05", CONTROLLER, None),
        ("24.11", {**CONTROLLER, "kind": "Partition"}, None),
        ("24.11", {**CONTROLLER, "apiVersion": "example.com/v1"}, None),
        ("24.11", {**CONTROLLER, "spec": {"slurmctld": "nonsense"}}, None),
    ],
    ids=["none named", "its own", "the operator's default", "a kind without daemons", "not ours", "nonsense"],
)
def test_resources_without_an_image_get_that_of_the_chosen_slurm(
    version: str, item: dict[str, Any], image: str | None
) -> None:
    (found,) = cluster.with_images([item], version)
    container = found.get("spec", {}).get("slurmctld", {})
    assert (container.get("image") if isinstance(container, dict) else None) == image
    assert image is not None or found == item


async def test_an_agent_that_was_killed_does_not_answer_though_its_socket_is_there(home: Home) -> None:
    path = Paths.of(home.data).socket
    server = await asyncio.start_unix_server(lambda _, writer: writer.close(), path)
    async with server:
        assert (await cluster.health(home)).agent_answers
    assert path.exists()
    found = await cluster.health(home)
    assert found.answers
    assert not found.agent_answers
    assert "logs and exec do not answer yet" in as_text(found)
