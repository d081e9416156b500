"""Rights are what the programs use: nothing is missing, and nothing is given that nobody asks for."""

from __future__ import annotations

import asyncio

import pytest
from tests.charts import traced
from tools import rbac

from kube_runtime.client.rights import Right
from slurm_operator import rights
from slurm_operator.reconcile.resources import OURS

# Given for a way of acting that no scenario here takes.
NOT_PLAYED: dict[traced.Used, str] = {}


def given(table: tuple[Right, ...]) -> set[traced.Used]:
    """Every single right of a table."""
    return {(right.group, resource, verb) for right in table for resource in right.resources for verb in right.verbs}


def test_the_operator_has_exactly_the_rights_that_it_uses() -> None:
    used: dict[traced.Used, str] = {}
    for name in traced.LIVES:
        for right, why in asyncio.run(traced.used(name)).items():
            used.setdefault(right, why)
    shipped = given(rights.OPERATOR)
    missing = {right: why for right, why in used.items() if right not in shipped}
    assert missing == {}, "add it to src/kube_runtime/client/rights.py, then run: make golden"
    assert shipped - set(used) == set(NOT_PLAYED), "take it from src/kube_runtime/client/rights.py"


# Without the right to make these, who is to say so?
BLAMED = {
    ("", "configmaps", "create"): "Controller",
    ("", "secrets", "create"): "Accounting",
    ("", "services", "create"): "RestApi",
    ("", "pods", "create"): "NodeSet",
    ("", "persistentvolumeclaims", "create"): "NodeSet",
    ("apps", "controllerrevisions", "create"): "NodeSet",
    ("apps", "deployments", "create"): "LoginSet",
    ("apps", "statefulsets", "create"): "Controller",
    ("policy", "poddisruptionbudgets", "create"): "NodeSet",
}


@pytest.mark.parametrize("right", BLAMED, ids=["-".join(part or "core" for part in right[:2]) for right in BLAMED])
def test_a_missing_right_is_a_condition_and_not_a_crash(right: traced.Used) -> None:
    conditions = asyncio.run(traced.denied(right))
    words = {each["type"]: (each["status"], each["reason"], each["message"]) for each in conditions[BLAMED[right]]}
    status, reason, message = words["Ready"]
    assert (status, reason) == ("Unknown", "Forbidden")
    assert right[1] in message


def test_the_admission_server_has_exactly_the_rights_that_it_uses() -> None:
    used = asyncio.run(traced.used_by_webhook())
    reviews = given(rights.REVIEWS)
    assert set(used) == given(rights.WEBHOOK) - reviews


def test_every_kind_of_ours_is_in_the_table() -> None:
    assert set(rights.OURS) == {resource.plural for resource in OURS.values()}


@pytest.mark.parametrize("role", rbac.ROLES)
def test_a_right_is_given_once(role: str) -> None:
    single = [
        (right.group, resource, verb, right.names)
        for right in rbac.ROLES[role]
        for resource in right.resources
        for verb in right.verbs
    ]
    assert len(single) == len(set(single))


def test_a_request_takes_the_right_that_kubernetes_would_ask_for() -> None:
    from kube_runtime.client import requests
    from kube_runtime.client.objects import CONFIG_MAPS, PODS

    body = {"metadata": {"name": "a"}}
    apply = requests.apply(CONFIG_MAPS, "n", "a", body, field_manager="m")
    assert traced.rights_of(apply) == {("", "configmaps", "patch"), ("", "configmaps", "create")}
    status = requests.apply(PODS, "n", "a", body, field_manager="m", subresource="status")
    assert traced.rights_of(status) == {("", "pods/status", "patch")}
    assert traced.rights_of(requests.watch(PODS, resource_version="1", seconds=1)) == {("", "pods", "watch")}
    assert traced.rights_of(requests.list_page(PODS, "n")) == {("", "pods", "list")}
