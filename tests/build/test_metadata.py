"""Children carry what their resource carries, without the marks that tools know their own objects by."""

from __future__ import annotations

import pytest
from tests.build.resources import nodeset

from slurm_operator.api.meta import Metadata
from slurm_operator.build import metadata

OWNER = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "NodeSet",
    "name": "x",
    "uid": "x-uid",
    "blockOwnerDeletion": True,
}


def test_a_child_belongs_to_its_resource() -> None:
    child = metadata.child(nodeset("x"), "x-child", {"a": "1"})
    assert child == {
        "name": "x-child",
        "namespace": "hpc",
        "labels": {"a": "1"},
        "ownerReferences": [{**OWNER, "controller": True}],
    }


def test_a_shared_object_has_owners_but_no_controller() -> None:
    assert metadata.owner(nodeset("x"), controller=False) == OWNER


def test_the_operators_labels_win_over_the_templates_and_those_over_the_resources() -> None:
    cr = nodeset("x", metadata={"labels": {"a": "cr", "b": "cr", "c": "cr"}, "annotations": {"n": "cr", "m": "cr"}})
    extra = Metadata(labels={"b": "template", "c": "template"}, annotations={"n": "template"})
    child = metadata.child(cr, "y", {"c": "ours"}, extra=extra)
    assert child["labels"] == {"a": "cr", "b": "template", "c": "ours"}
    assert child["annotations"] == {"n": "template", "m": "cr"}


@pytest.mark.parametrize(
    "key",
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "meta.helm.sh/release-name",
        "argocd.argoproj.io/instance",
        "kustomize.toolkit.fluxcd.io/name",
    ],
)
def test_marks_of_tools_stay_on_the_resource(key: str) -> None:
    cr = nodeset("x", metadata={"labels": {key: "v"}, "annotations": {key: "v"}})
    child = metadata.child(cr, "y", {})
    assert child["labels"] == {}
    assert "annotations" not in child


def test_a_pod_carries_its_template_alone() -> None:
    pod = metadata.pod(Metadata(labels={"a": "1", "b": "1"}, annotations={"n": "1"}), {"b": "2"}, {"n": "2"})
    assert pod == {"labels": {"a": "1", "b": "2"}, "annotations": {"n": "2"}}
    assert metadata.pod(Metadata(), {}, {}) == {"labels": {}, "annotations": {}}
