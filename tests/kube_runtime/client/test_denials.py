"""Rights that are missing are told once, counted while they are missing, and told again when they are back."""

from __future__ import annotations

import logging

import pytest

from kube_runtime.client import requests
from kube_runtime.client.client import Call
from kube_runtime.client.denials import Denials
from kube_runtime.client.missing_right import MissingRight
from kube_runtime.client.objects import CONFIG_MAPS, PODS
from kube_runtime.client.requests import Request

BODY = {"metadata": {"name": "a", "namespace": "n"}}
APPLY = requests.apply(CONFIG_MAPS, "n", "a", BODY, field_manager="m")
OWNER = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "a", "blockOwnerDeletion": True}
OWNED = {"metadata": {"name": "a", "namespace": "n", "ownerReferences": [OWNER]}}


def right(verb: str, resource: str = "configmaps", namespace: str = "n", **more: str) -> MissingRight:
    return MissingRight(more.get("group", ""), resource, verb, more.get("part", ""), namespace, user="op")


def refused(missing: MissingRight, request: Request = APPLY) -> Call:
    return Call(request, 403, 0.0, missing)


def names(denials: Denials) -> list[tuple[str, ...]]:
    return [labels for labels, value in denials.samples() if value == 1.0]


def test_a_right_is_told_once_and_counted_while_it_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    denials = Denials()
    for _ in range(3):
        denials.note(refused(right("patch")))
    assert names(denials) == [("patch", "configmaps", "n")]
    assert [record.message for record in caplog.records] == [
        (
            'a right is missing: "kubectl auth can-i patch configmaps -n n --as=op" says no; '
            "the shipped roles grant it: apply them again, and look for a missing binding"
        )
    ]


@pytest.mark.parametrize(
    ("missing", "call", "back"),
    [
        (right("patch"), Call(APPLY, 200, 0.0), True),
        (right("create"), Call(APPLY, 200, 0.0), False),
        (right("create"), Call(APPLY, 201, 0.0), True),
        (right("patch"), Call(APPLY, 409, 0.0), False),
        (right("patch", namespace="other"), Call(APPLY, 200, 0.0), False),
        (right("patch", namespace=""), Call(APPLY, 200, 0.0), True),
        (right("list", "pods", ""), Call(requests.list_page(PODS), 200, 0.0), True),
        (right("watch", "pods", ""), Call(requests.list_page(PODS), 200, 0.0), False),
        (
            right("update", "nodesets", group="slinky.slurm.net", part="finalizers"),
            Call(requests.apply(CONFIG_MAPS, "n", "a", OWNED, field_manager="m"), 200, 0.0),
            True,
        ),
    ],
    ids=[
        "the same went well",
        "an apply that changed is no create",
        "an apply that created is one",
        "a conflict shows nothing",
        "another namespace shows nothing",
        "one namespace shows it for all",
        "a list went well",
        "a list is no watch",
        "an owner was blocked",
    ],
)
def test_a_right_is_there_again_when_a_request_shows_it(missing: MissingRight, call: Call, back: bool) -> None:
    denials = Denials()
    denials.note(refused(missing))
    denials.note(call)
    assert names(denials) == ([] if back else [next(denials.samples())[0]])


def test_a_review_tells_what_nobody_has_needed_yet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    denials = Denials()
    denials.note(refused(right("patch")))
    everywhere = [right("patch", namespace=""), right("delete", namespace="")]
    denials.review(everywhere)
    assert names(denials) == [("delete", "configmaps", ""), ("patch", "configmaps", "n")]
    denials.review([])
    assert names(denials) == []
    assert sum("there again" in record.message for record in caplog.records) == 2
