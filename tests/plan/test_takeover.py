"""Which pod templates of another program stay, and from when on they are ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kube_runtime.client.objects import RawObject, decode_hook
from slurm_operator.build import labels
from slurm_operator.build.metadata import Object
from slurm_operator.plan.objects import identity
from slurm_operator.plan.takeover import kept

OURS = {"manager": "slurm-operator", "operation": "Apply", "apiVersion": "apps/v1"}


def made(image: str = "ours", replicas: int = 1, hashes: Mapping[str, str] | None = None) -> Object:
    template = {
        "metadata": {"annotations": dict(hashes or {})},
        "spec": {"containers": [{"name": "x", "image": image}]},
    }
    spec = {"replicas": replicas, "serviceName": "x", "selector": {"matchLabels": {}}, "template": template}
    meta = {"name": "x", "namespace": "ns", "labels": {"a": "b"}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}


def config(text: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": {"f": text}}


def live(
    value: Object, annotations: Mapping[str, str] | None = None, *, applied: Mapping[str, Any] | None = None
) -> RawObject:
    fields = [{**OURS, "fieldsV1": {"f:spec": dict(applied)}}] if applied is not None else []
    written = [{"manager": "manager", "operation": "Update", "fieldsV1": {"f:spec": {"f:template": {}}}}, *fields]
    meta = {**value["metadata"], "annotations": dict(annotations or {}), "managedFields": written}
    found: RawObject = decode_hook(RawObject, {**value, "metadata": meta})
    return found


def taken(wanted: Object, there: RawObject, *others: Object) -> Object:
    return kept([wanted], {identity(wanted): there}, [*others, wanted])[0]


def remembered(wanted: Object, there: RawObject, *others: Object) -> dict[str, str]:
    found: dict[str, str] = taken(wanted, there, *others)["metadata"]["annotations"]
    return found


def test_a_template_that_nobody_applied_stays_and_ours_is_remembered() -> None:
    result = taken(made(), live(made("theirs")))
    assert result["spec"] == {"replicas": 1}
    assert result["metadata"]["labels"] == {"a": "b"}
    assert len(result["metadata"]["annotations"][labels.TAKEN_OVER]) == 64


def test_it_stays_while_we_would_make_the_same() -> None:
    first = remembered(made(), live(made("theirs")))
    again = taken(made(replicas=3), live(made("theirs"), first, applied={"f:replicas": {}}))
    assert again["spec"] == {"replicas": 3}
    assert again["metadata"]["annotations"] == first


def test_it_is_ours_when_we_would_make_another() -> None:
    first = remembered(made(), live(made("theirs")))
    result = taken(made("newer"), live(made("theirs"), first, applied={"f:replicas": {}}))
    assert result["spec"]["template"] == made("newer")["spec"]["template"]
    assert "annotations" not in result["metadata"]


def test_what_can_be_set_only_once_is_not_repeated_when_it_is_not_ours() -> None:
    ours = live(made(), applied={"f:template": {}, "f:replicas": {}})
    assert taken(made("newer"), ours)["spec"].keys() == {"replicas", "template"}
    whole = live(made(), applied={"f:template": {}, "f:serviceName": {}, "f:selector": {}})
    assert taken(made("newer"), whole) == made("newer")


@pytest.mark.parametrize(
    ("before", "now", "stays"),
    [
        pytest.param("one", "one", True, id="the same Secret"),
        pytest.param("one", "two", False, id="another Secret"),
        pytest.param("", "two", True, id="one that did not say"),
        pytest.param("one", "", True, id="a Secret that is gone"),
    ],
)
@pytest.mark.parametrize("hash_", [labels.SLURM_KEY_HASH, labels.JWT_KEY_HASH, labels.SSSD_CONF_HASH])
def test_data_that_has_changed_since_reaches_the_daemon(hash_: str, before: str, now: str, stays: bool) -> None:
    result = taken(made(hashes={hash_: now}), live(made("theirs", hashes={hash_: before} if before else {})))
    assert ("template" not in result["spec"]) is stays


@pytest.mark.parametrize("has_sidecar", [False, True], ids=["restarts for it", "has a sidecar"])
def test_a_new_configuration_counts_where_only_a_restart_brings_it(has_sidecar: bool) -> None:
    theirs = made("theirs") if has_sidecar else made("theirs", hashes={labels.CONFIG_HASH: "x"})
    first = remembered(made(), live(theirs), config("one"))
    result = taken(made(), live(theirs, first), config("two"))
    assert ("template" not in result["spec"]) is has_sidecar


def test_other_objects_and_new_ones_are_applied_as_they_are() -> None:
    assert kept([config("one"), made()], {}, []) == [config("one"), made()]
    there = {identity(config("one")): live(config("old"))}
    assert kept([config("one")], there, []) == [config("one")]
