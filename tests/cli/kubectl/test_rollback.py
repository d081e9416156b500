"""What a rollback writes back, what it leaves, and what keeps it from writing anything."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.kubectl.kept import config_map, kept, namespace, resource

from slurm_operator.cli.kubectl.rollback import Now, merge_patch, outcome, plan_rollback

REF = {"controllerRef": {"name": "slurm"}}


def partition(**spec: Any) -> dict[str, Any]:
    return resource("Partition", "short", {**REF, "nodeSets": ["compute"], **spec})


def nodeset(config: str | None = None) -> dict[str, Any]:
    asked = {"enabled": True, **({"config": config} if config else {})}
    return resource("NodeSet", "compute", {**REF, "replicas": 1, "partition": asked})


def test_nothing_is_written_where_all_is_as_it_was() -> None:
    now = namespace(nodeset(), partition(maxTime="1:00:00"))
    plan = plan_rollback(kept(now), now)
    assert (plan.steps, plan.left, plan.refused) == ((), (), ())


def test_every_resource_gets_its_own_fields_back_and_the_controller_comes_last() -> None:
    then = namespace(nodeset("MaxTime=60"), partition(maxTime="1:00:00", state="DRAIN"))
    changed = {"files": config_map("files", {"gres.conf": "Name=tpu\n", "new.conf": "x\n"})}
    now = namespace(nodeset(), partition(maxTime="2:00:00", graceTime=7), files=changed, extra="A=2")
    plan = plan_rollback(kept(then), now)
    assert [(step.kind, step.patch) for step in plan.steps] == [
        ("ConfigMap", {"data": {"new.conf": None, "gres.conf": "Name=gpu\n"}}),
        ("NodeSet", {"spec": {"partition": {"config": "MaxTime=60"}}}),
        ("Partition", {"spec": {"graceTime": None, "maxTime": "1:00:00", "state": "DRAIN"}}),
        ("Controller", {"spec": {"extraConf": "A=1"}}),
    ]
    assert {step.resource_version for step in plan.steps} == {"7", "9"}


def test_objects_that_came_or_went_are_named_and_left() -> None:
    then = namespace(nodeset())
    now = namespace(partition())
    plan = plan_rollback(kept(then), now)
    assert plan.steps == ()
    assert plan.left[0] == "NodeSet compute has been deleted since, and is not recreated"
    assert plan.left[1].startswith("Partition short has been created since, and stays; to remove it: kubectl delete ")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "ConfigMap files, which revision 1 names, has been deleted"),
        ({"files": config_map("files", {"gres.conf": "x"}, immutable=True)}, "ConfigMap files is immutable"),
    ],
    ids=["gone", "immutable"],
)
def test_what_could_not_be_built_keeps_all_of_it_from_being_written(files: dict[str, Any], sentence: str) -> None:
    plan = plan_rollback(kept(namespace()), namespace(files=files, extra="A=2"))
    assert plan.refused[0].startswith(sentence)


@pytest.mark.parametrize(
    ("metadata", "keeper"),
    [
        ({"annotations": {"meta.helm.sh/release-name": "prod"}}, "Helm release prod"),
        ({"managedFields": [{"manager": "argocd-controller"}]}, "argocd-controller"),
        ({"managedFields": [{"manager": "kubectl-edit"}]}, ""),
    ],
    ids=["Helm", "Argo CD", "a person"],
)
def test_who_writes_its_own_text_again_is_named(metadata: dict[str, Any], keeper: str) -> None:
    then, now = namespace(), namespace(extra="A=2")
    controller = now.objects["Controller"]["slurm"]
    changed = {**controller, "metadata": {**controller["metadata"], **metadata}}
    plan = plan_rollback(kept(then), Now("slurm", {**now.objects, "Controller": {"slurm": changed}}))
    assert [step.keeper for step in plan.steps] == [keeper]


@pytest.mark.parametrize(
    ("then", "now", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2, "b": 3}, {"a": 1, "b": None}),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, {"a": {"y": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1]}),
        ({"a": {"x": 1}}, {}, {"a": {"x": 1}}),
    ],
    ids=["the same", "changed and added", "nested", "lists are whole", "taken away"],
)
def test_a_merge_patch_makes_one_of_the_other(then: dict[str, Any], now: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_patch(then, now) == patch


def said(config: dict[str, Any], valid: str = "True", generation: int = 3, seen: int = 3) -> dict[str, Any]:
    conditions = [{"type": "ConfigValid", "status": valid, "message": "slurm.conf:3: no"}]
    status = {"config": config, "conditions": conditions, "observedGeneration": seen}
    return {"metadata": {"generation": generation}, "status": status}


@pytest.mark.parametrize(
    ("controller", "passed", "expected"),
    [
        (said({"hash": "aaa"}), 0.3, True),
        (said({"hash": "bbb"}), 0.3, None),
        (said({"hash": "bbb", "candidate": "aaa"}), 9.0, None),
        (said({"hash": "bbb"}, seen=2), 9.0, None),
        (said({"hash": "bbb", "candidate": "ccc"}, valid="False"), 9.0, False),
        (said({"hash": "ccc"}), 9.0, True),
    ],
    ids=["the very one", "not yet", "on its way", "not looked at", "refused", "another one, settled"],
)
def test_a_rollback_is_over_when_slurm_says_so(
    controller: dict[str, Any], passed: float, expected: bool | None
) -> None:
    done = outcome(controller, kept(namespace()), passed)
    assert (done.reconciled if done is not None else None) is expected
