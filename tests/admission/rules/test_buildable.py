"""What no rule refuses can be built: what cannot is refused at its field."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.admission.rules.resources import check, namespace, resource, said

from slurm_operator.api.problem import Path


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("Controller", {("spec", "slurmctld"): {"env": [{"$patch": "x", "name": "A"}]}}, "spec.slurmctld.env[0]: "),
        ("NodeSet", {("spec", "slurmd"): {"resources": {"$patch": "x"}}}, "spec.slurmd.resources: "),
        ("NodeSet", {("spec", "template"): {"spec": {"affinity": {"$patch": "x"}}}}, "spec.template.spec.affinity: "),
        ("LoginSet", {("spec", "initconf"): {"resources": {"$patch": "x"}}}, "spec.initconf.resources: "),
        (
            "LoginSet",
            {("spec", "service"): {"spec": {"ports": [{"name": "login", "port": 1}]}}},
            "spec.service.spec.po",
        ),
        ("RestApi", {("spec", "slurmrestd"): {"resources": {"$patch": "x"}}}, "spec.slurmrestd.resources: "),
        ("Accounting", {("spec", "slurmdbd"): {"resources": {"$patch": "x"}}}, "spec.slurmdbd.resources: "),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_an_overlay_that_does_not_fit_is_refused_before_it_is_built(
    kind: str, changes: dict[Path, Any], expected: str
) -> None:
    found = said(check(kind, changes))
    assert len(found) == 1
    assert found[0].startswith(expected), found


def test_another_resource_of_the_namespace_answers_for_itself() -> None:
    broken: Any = resource("NodeSet", {("spec", "template"): {"spec": {"hostname": "a b"}}})
    assert check("Controller", refs=dataclasses.replace(namespace(), nodesets=(broken,))) == []
