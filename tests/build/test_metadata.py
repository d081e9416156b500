"""Children carry what their resource carries, without the marks that tools know their own objects by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.build.resources import accounting, controller, loginset, nodeset, refs, restapi

from slurm_operator.api.meta import Metadata
from slurm_operator.build import accounting as build_accounting
from slurm_operator.build import controller as build_controller
from slurm_operator.build import loginset as build_loginset
from slurm_operator.build import metadata
from slurm_operator.build import nodeset as build_nodeset
from slurm_operator.build import restapi as build_restapi

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


def annotated(cr: Any, **annotations: str) -> Any:
    return msgspec.structs.replace(cr, metadata=msgspec.structs.replace(cr.metadata, annotations=annotations))


PODS_OF: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "Controller": (controller(), lambda cr: build_controller.objects(cr, refs(cr))),
    "Accounting": (accounting(), lambda cr: build_accounting.objects(cr, refs())),
    "RestApi": (restapi(), lambda cr: build_restapi.objects(cr, refs(controller()))),
    "LoginSet": (loginset(), lambda cr: build_loginset.objects(cr, refs(controller()))),
}


@pytest.mark.parametrize(("cr", "objects"), PODS_OF.values(), ids=PODS_OF)
def test_one_annotation_of_a_resource_restarts_its_pods(cr: Any, objects: Callable[[Any], Any]) -> None:
    """`kubectl annotate controller NAME restart-trigger="$(date +%s)"`, as the first documents say (U14)."""

    def annotations(**given: str) -> Any:
        workload = next(each for each in objects(annotated(cr, **given)) if "template" in each.get("spec", {}))
        return workload["spec"]["template"]["metadata"]["annotations"]

    assert annotations(**{"restart-trigger": "1", "note": "x"}) == {**annotations(), "restart-trigger": "1"}
    assert annotations(note="x") == annotations()


def test_a_nodeset_is_not_restarted_by_it() -> None:
    """Nor was it by the Go operator, so a NodeSet that has it is taken over without a restart."""
    cr, plain = annotated(nodeset(), **{"restart-trigger": "1"}), nodeset()
    around = refs(controller())
    template, before = (build_nodeset.pod_template(each, controller(), around) for each in (cr, plain))
    assert template == before
