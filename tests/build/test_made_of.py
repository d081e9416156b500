"""The hash of what a resource says of its pods changes with anything that it says, and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build.resources import controller, nodeset

from slurm_operator.build import labels, made_of


@pytest.mark.parametrize(
    "change",
    [
        {"slurmd": {"image": "other"}},
        {"logfile": {"image": "other"}},
        {"template": {"spec": {"automountServiceAccountToken": None}}},
        {"template": {"metadata": {"annotations": {"a": "b"}}}},
        {"volumeClaimTemplates": [{"metadata": {"name": "a"}, "spec": {"accessModes": []}}]},
        {"ssh": {"extraSshdConfig": "PermitRootLogin yes"}},
    ],
    ids=["an image", "a sidecar", "a null", "an annotation", "a claim", "an sshd option"],
)
def test_everything_that_is_said_of_pods_counts(change: dict[str, Any]) -> None:
    assert made_of.hash_of(nodeset(**change)) != made_of.hash_of(nodeset())


def test_what_is_said_beside_the_pods_does_not_count() -> None:
    beside = nodeset("other", metadata={"annotations": {"a": "b"}}, replicas=7, minReadySeconds=3)
    assert made_of.hash_of(beside) == made_of.hash_of(nodeset())
    assert made_of.hash_of(nodeset(template={"spec": {}}, slurmd={})) == made_of.hash_of(nodeset())


def test_a_workload_carries_its_own_note_and_not_the_users() -> None:
    forged = {labels.PODS_HASH: "mine", labels.PRIVILEGED_PODS_HASH: "mine", "a": "b"}
    cr = controller(metadata={"annotations": forged}, template={"metadata": {"annotations": forged}})
    assert made_of.workload(cr, "x", {})["annotations"] == {"a": "b", labels.PODS_HASH: made_of.hash_of(cr)}
