"""References: found in the namespace, or an error that names the field."""

from __future__ import annotations

import pytest
from tests.build.resources import accounting, controller, nodeset, partition, refs

from kube_runtime.errors import Retryable, Terminal
from slurm_operator.api.meta import ControllerRef
from slurm_operator.api.problem import Path
from slurm_operator.build.errors import BuildError, InvalidSpec, MissingReference, UnreadableReference
from slurm_operator.build.refs import Refs


@pytest.mark.parametrize("namespace", [None, "", "hpc"], ids=["none", "empty", "its own"])
def test_a_controller_is_found(namespace: str | None) -> None:
    world = refs(controller())
    assert world.controller("hpc", ControllerRef(name="slurm", namespace=namespace)).name == "slurm"


def test_a_reference_never_leaves_the_namespace() -> None:
    with pytest.raises(InvalidSpec) as caught:
        refs(controller()).controller("hpc", ControllerRef(name="slurm", namespace="other"))
    assert caught.value.path == ("spec", "controllerRef", "namespace")
    assert isinstance(caught.value, Terminal)


def test_a_controller_that_is_missing_may_come() -> None:
    with pytest.raises(MissingReference) as caught:
        Refs().controller("hpc", ControllerRef(name="gone"))
    assert caught.value.path == ("spec", "controllerRef", "name")
    assert (caught.value.kind, caught.value.name) == ("Controller", "gone")
    assert isinstance(caught.value, Retryable)


@pytest.mark.parametrize(
    ("secret", "key", "path", "said"),
    [
        ("gone", "k", ("spec", "ref", "name"), "Secret 'gone' is not in this namespace"),
        ("slurm-key", "gone", ("spec", "ref", "key"), "Secret 'slurm-key' has no key 'gone'"),
    ],
)
def test_a_secret_or_key_that_is_missing(secret: str, key: str, path: Path, said: str) -> None:
    with pytest.raises(BuildError) as caught:
        refs().secret_value(secret, key, ("spec", "ref"))
    assert (caught.value.problem.path, caught.value.problem.message) == (path, said)


def test_data_that_is_there() -> None:
    world = refs(config_maps={"files": {"a": "b"}})
    assert world.secret_value("slurm-key", "slurm.key", ("spec",)) == b"one"
    assert world.config_map("files", ("spec",)) == {"a": "b"}


def test_a_config_map_that_is_missing() -> None:
    with pytest.raises(MissingReference, match=r"^spec\.x: ConfigMap 'gone' is not in this namespace$"):
        refs().config_map("gone", ("spec", "x"))


def test_nodesets_by_name_and_partitions_by_age() -> None:
    old, young = ({"creationTimestamp": f"202{year}-01-01T00:00:00Z"} for year in (4, 5))
    world = refs(
        nodeset("b"),
        nodeset("a"),
        nodeset("c", controllerRef={"name": "other"}),
        partition("z", metadata=old, nodeSets=["a"]),
        partition("a", metadata=young, nodeSets=["a"]),
        partition("b", metadata=young, nodeSets=["a"]),
        partition("c", controllerRef={"name": "other"}, nodeSets=["a"]),
    )
    assert [each.name for each in world.nodesets_of(controller())] == ["a", "b"]
    assert [each.name for each in world.partitions_of(controller())] == ["z", "a", "b"]


def test_accounting_is_optional() -> None:
    world = refs(accounting("books"))
    found = world.accounting_of(controller(accountingRef={"name": "books"}))
    assert found is not None
    assert found.name == "books"
    assert world.accounting_of(controller(accountingRef={"name": "gone"})) is None
    assert world.accounting_of(controller(accountingRef={})) is None
    assert world.accounting_of(controller()) is None


@pytest.mark.parametrize(
    ("unreadable", "path"),
    [
        ({("Accounting", "books"): ""}, ("spec", "accountingRef", "name")),
        ({("NodeSet", "compute"): "slurm"}, ()),
        ({("Partition", "night"): ""}, ()),
    ],
    ids=["its Accounting", "a NodeSet of it", "a Partition that may be of it"],
)
def test_what_a_cluster_is_made_of_must_be_readable(unreadable: dict[tuple[str, str], str], path: Path) -> None:
    cluster = controller(accountingRef={"name": "books"})
    with pytest.raises(UnreadableReference) as caught:
        refs(cluster, unreadable=unreadable).demand_readable(cluster)
    assert caught.value.path == path
    refs(cluster, unreadable={("NodeSet", "other"): "another"}).demand_readable(cluster)


def test_a_controller_that_cannot_be_read_is_not_missing() -> None:
    with pytest.raises(UnreadableReference):
        refs(unreadable={("Controller", "slurm"): ""}).controller("hpc", ControllerRef(name="slurm"))
