"""Files as a world: which resources there are, what they may refer to, what could not be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_operator.cli.check import check
from slurm_operator.cli.world import World, load

Write = Callable[..., str]

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: slurm}\n"
CONTROLLER = "apiVersion: slinky.slurm.net/v1beta1\nkind: Controller\nmetadata: {name: slurm, namespace: slurm}\n"


def messages(world: World) -> list[str]:
    """What was found, without the file."""
    return [str(finding).partition(": ")[2] for finding in world.findings]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("data: {key: c2VjcmV0}\n", b"secret"),
        ("data:\n  key: |\n    c2Vj\n    cmV0\n", b"secret"),
        ("stringData: {key: secret}\n", b"secret"),
        ("data: {key: b2xk}\nstringData: {key: secret}\n", b"secret"),
        ("data: {key: ''}\n", b""),
    ],
    ids=["base64", "base64 over lines", "plain", "plain wins", "empty"],
)
def test_a_secret_is_read_as_kubernetes_reads_it(write: Write, data: str, value: bytes) -> None:
    world = load([write(SECRET + data)])
    assert messages(world) == []
    assert world.refs("slurm").secrets == {"keys": {"key": value}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("data: {key: 'c2 Vj'}\n", "data.key: is not base64; plain text belongs in stringData"),
        ("data: {key: 5}\n", "data.key: must be a string; put it in quotes"),
        ("data: [a]\n", "data: must be a mapping"),
        ("stringData: {key: true}\n", "stringData.key: must be a string; put it in quotes"),
    ],
)
def test_a_secret_that_kubernetes_would_refuse_is_found(write: Write, data: str, message: str) -> None:
    world = load([write(SECRET + data)])
    assert messages(world) == [message]
    assert world.refs("slurm").secrets["keys"] == {}


def test_a_resource_without_a_namespace_is_in_the_default_one(write: Write) -> None:
    text = CONTROLLER.replace(", namespace: slurm", "")
    world = load([write(text)])
    assert list(world.namespaces) == ["default"]
    assert [each.resource.namespace for each in world.loaded()] == ["default"]


def test_namespaces_do_not_see_each_other(write: Write) -> None:
    world = load([write(CONTROLLER + "---\n" + CONTROLLER.replace("namespace: slurm", "namespace: other"))])
    assert [name for name in world.namespaces if "slurm" in world.refs(name).controllers] == ["slurm", "other"]
    assert len(world.refs("other").controllers) == 1


@pytest.mark.parametrize("text", [SECRET, CONTROLLER], ids=["Secret", "Controller"])
def test_a_twin_is_found_where_it_stands_and_says_where_the_first_is(write: Write, text: str) -> None:
    path = write(text + "---\n" + text)
    (found,) = load([path]).findings
    assert found.line == 7
    assert f"is defined twice; first in {path}:3" in found.message


def test_a_broken_resource_is_remembered_by_its_name(write: Write) -> None:
    world = load([write(CONTROLLER + "spec: 5\n")])
    assert world.broken == {("slurm", "Controller", "slurm")}
    assert list(world.loaded()) == []


def test_resources_come_in_an_order_that_the_files_do_not_decide(write: Write) -> None:
    token = CONTROLLER.replace("kind: Controller", "kind: Token") + "spec: {username: a}\n"
    other = CONTROLLER.replace("name: slurm,", "name: a,")
    forth = load([write("---\n".join([token, CONTROLLER, other]))])
    back = load([write("---\n".join([other, CONTROLLER, token]))])
    names = [(type(each.resource).__name__, each.resource.name) for each in forth.loaded()]
    assert names == [("Controller", "a"), ("Controller", "slurm"), ("Token", "slurm")]
    assert names == [(type(each.resource).__name__, each.resource.name) for each in back.loaded()]


@pytest.mark.parametrize(
    ("metadata", "node", "override"),
    [
        ("{name: a}", "a", None),
        ("{name: a, annotations: {nodeset.slinky.slurm.net/hostname-override: b}}", "a", "b"),
        ("{name: a, annotations: [x]}", "a", None),
        ("[]", "None", None),
    ],
    ids=["name", "override", "odd annotations", "odd metadata"],
)
def test_nodes_become_workers_of_daemon_mode(write: Write, metadata: str, node: str, override: str | None) -> None:
    world = load([write(f"apiVersion: v1\nkind: Node\nmetadata: {metadata}\n")])
    assert [(each.node, each.hostname_override) for each in world.nodes] == [(node, override)]


def test_objects_of_other_kinds_are_left_alone(write: Write) -> None:
    world = load([write("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n")])
    assert (world.documents, world.findings, world.namespaces) == (1, [], {})


def test_a_claim_in_the_files_is_held_against_the_controllers_that_share_it(tmp_path: Path) -> None:
    example = (Path(__file__).parents[2] / "examples" / "ha.yaml").read_text()
    file = tmp_path / "ha.yaml"
    file.write_text(example.replace("accessModes: [ReadWriteMany]", "accessModes: [ReadWriteOnce]"))
    world = load((str(file),))
    assert [str(each) for each in check(world, None) if "backup controllers need ReadWriteMany" in str(each)]
    file.write_text(example)
    assert not [each for each in check(load((str(file),)), None) if "backup controllers" in str(each)]
