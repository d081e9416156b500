"""Claims of workers: their names, and who they go with under each retention policy."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build.resources import nodeset

from slurm_operator.build import claims

TEMPLATE: dict[str, Any] = {
    "metadata": {"name": "scratch", "labels": {"tier": "fast", "app.kubernetes.io/name": "mine"}},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}
POD = {"metadata": {"name": "x-2", "uid": "pod-uid"}}
POD_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "x-2", "uid": "pod-uid", "blockOwnerDeletion": True}
NODESET_OWNER = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "NodeSet",
    "name": "x",
    "uid": "x-uid",
    "blockOwnerDeletion": True,
}


@pytest.mark.parametrize(
    ("deleted", "scaled", "scaled_in", "owners"),
    [
        pytest.param("Retain", "Retain", False, [], id="keep always"),
        pytest.param("Retain", "Retain", True, [], id="keep always, also at scale-in"),
        pytest.param("Delete", "Retain", False, [NODESET_OWNER], id="goes with the NodeSet"),
        pytest.param("Delete", "Retain", True, [NODESET_OWNER], id="goes with the NodeSet, kept at scale-in"),
        pytest.param("Retain", "Delete", False, [], id="kept while its worker stays"),
        pytest.param("Retain", "Delete", True, [POD_OWNER], id="goes with the worker that is scaled in"),
        pytest.param("Delete", "Delete", False, [NODESET_OWNER], id="both: goes with the NodeSet"),
        pytest.param("Delete", "Delete", True, [POD_OWNER], id="both: goes with the worker that is scaled in"),
    ],
)
def test_who_a_claim_goes_with(deleted: str, scaled: str, scaled_in: bool, owners: list[Any]) -> None:
    cr = nodeset("x", persistentVolumeClaimRetentionPolicy={"whenDeleted": deleted, "whenScaled": scaled})
    assert claims.owners(cr, POD, scaled_in=scaled_in) == owners


def test_a_claim_is_kept_by_default() -> None:
    assert claims.owners(nodeset("x"), POD, scaled_in=True) == []


def test_a_claim_is_named_for_template_nodeset_and_worker() -> None:
    bare = {"metadata": {"name": "cache", "annotations": {"n": "1"}}}
    first, second = claims.claims(nodeset("x", volumeClaimTemplates=[TEMPLATE, bare]), "07")
    assert first["metadata"] == {
        "name": "scratch-x-07",
        "namespace": "hpc",
        "labels": {
            "tier": "fast",
            "app.kubernetes.io/name": "slurmd",
            "app.kubernetes.io/instance": "x",
            "app.kubernetes.io/component": "worker",
        },
    }
    assert first["spec"] == TEMPLATE["spec"]
    assert (second["metadata"]["name"], second["metadata"]["annotations"]) == ("cache-x-07", {"n": "1"})
    assert second["spec"] == {}


def test_a_claim_takes_the_place_of_a_volume_of_its_name() -> None:
    cr = nodeset("x", volumeClaimTemplates=[TEMPLATE])
    others = [{"name": "scratch", "emptyDir": {}}, {"name": "home", "emptyDir": {}}]
    assert claims.volumes(cr, "0", others) == [
        {"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch-x-0"}},
        {"name": "home", "emptyDir": {}},
    ]
    assert claims.volumes(nodeset("x"), "0", others) == others
