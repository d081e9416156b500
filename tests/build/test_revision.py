"""Revisions hash as the Go operator's do, so that a cluster which it ran is taken over without one restart.

`revisions.json` was written by a Go program: the types of k8s.io/api, encoding/json, hash/fnv and the safe encoding of
apimachinery, over the specs that stand beside each result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.build.resources import nodeset

from kube_runtime import go_hash
from slurm_operator.build import labels, made_of, revision
from slurm_operator.build.metadata import Object

VECTORS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "revisions.json").read_text())


@pytest.mark.parametrize("vector", VECTORS.values(), ids=list(VECTORS))
def test_the_bytes_and_the_hash_are_those_of_go(vector: dict[str, Any]) -> None:
    cr = nodeset(**vector["spec"])
    assert go_hash.go_json(revision.data(cr)) == vector["json"]
    assert revision.hash_of(cr, vector["collisions"]) == vector["hash"]


@pytest.mark.parametrize(
    ("data", "number"),
    [(b"", 2166136261), (b"a", 84696446), (b"foobar", 837857890), (b"The quick brown fox", 3410114052)],
)
def test_fnv_1_of_go(data: bytes, number: int) -> None:
    assert go_hash.fnv32(data) == number


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("", ""),
        ("2166136261", "65bb57b6b5"),
        ("84696446", "d8bfb88b"),
        ("foobar", "4ffwvj"),
        ("The quick brown fox", "f62hhm7x9hwjfpdh4fq"),
    ],
)
def test_safe_encoding_of_apimachinery(text: str, encoded: str) -> None:
    assert go_hash.safe_encode(text) == encoded


def test_a_nodeset_without_collisions_hashes_as_one_with_none() -> None:
    assert revision.hash_of(nodeset(), None) == revision.hash_of(nodeset(), 0) != revision.hash_of(nodeset(), 1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"replicas": 7}, id="replicas"),
        pytest.param({"partition": {"enabled": True}}, id="partition"),
        pytest.param({"scalingMode": "DaemonSet"}, id="scaling mode"),
        pytest.param({"updateStrategy": {"type": "OnDelete"}}, id="update strategy"),
        pytest.param({"volumeClaimTemplates": [{"metadata": {"name": "x"}}]}, id="claims"),
        pytest.param({"minReadySeconds": 7, "revisionHistoryLimit": 7, "pinToNode": True}, id="pace"),
        pytest.param({"logfile": {}, "ssh": {"enabled": False}}, id="empty parts"),
    ],
)
def test_what_makes_no_worker_new(change: dict[str, Any]) -> None:
    assert revision.hash_of(nodeset(**change)) == revision.hash_of(nodeset())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"slurmd": {"image": "x"}}, id="image"),
        pytest.param({"template": {"metadata": {"labels": {"a": "b"}}}}, id="label"),
        pytest.param({"template": {"spec": {"nodeSelector": {"a": "b"}}}}, id="pod"),
        pytest.param({"extraConf": "Weight=1"}, id="node options"),
        pytest.param({"ordinalPadding": 1}, id="padding"),
        pytest.param({"oversubscribeNode": True}, id="oversubscription"),
        pytest.param({"ssh": {"enabled": False, "extraSshdConfig": "A b"}}, id="ssh"),
        pytest.param({"logfile": {"image": "x"}}, id="log sidecar"),
        pytest.param({"slurmd": {"securityContext": {"privileged": False}}}, id="an explicit false"),
    ],
)
def test_what_makes_a_worker_new(change: dict[str, Any]) -> None:
    assert revision.hash_of(nodeset(**change)) != revision.hash_of(nodeset())


def test_nulls_make_no_worker_new() -> None:
    spec: dict[str, Any] = {"nodeSelector": None, "tolerations": None, "overhead": {"cpu": None}}
    assert revision.hash_of(nodeset(template={"spec": spec})) == revision.hash_of(nodeset())


def test_the_object_carries_hash_number_and_data() -> None:
    forged = {labels.PODS_HASH: "mine", labels.PRIVILEGED_PODS_HASH: "mine"}
    carried = {"annotations": {"n": "1", **forged}}
    cr = nodeset("x", template={"metadata": {"labels": {"tier": "fast"}}}, metadata=carried)
    built: Object = revision.controller_revision(cr, 4, revision.hash_of(cr, 2))
    hash_ = revision.hash_of(cr, 2)
    assert built["metadata"]["name"] == f"x-{hash_}"
    assert built["metadata"]["labels"] == {
        "tier": "fast",
        "app.kubernetes.io/name": "slurmd",
        "app.kubernetes.io/instance": "x",
        "app.kubernetes.io/component": "worker",
        "controller.kubernetes.io/hash": hash_,
    }
    assert built["metadata"]["annotations"] == {"n": "1", labels.PODS_HASH: made_of.hash_of(cr)}
    assert built["revision"] == 4
    assert built["data"] == revision.data(cr)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param({"extraConf": "", "taints": [], "logfile": None}, True, id="empty fields"),
        pytest.param({"slurmd": {"resources": {"limits": {"cpu": "2000m"}}}}, True, id="a quantity in another form"),
        pytest.param({"slurmd": {"resources": {"limits": {"cpu": "3"}}}}, False, id="another quantity"),
        pytest.param(
            {"slurmd": {"tty": False, "resources": {"limits": {"cpu": 2}}}}, False, id="a false that was said"
        ),
        pytest.param({"ordinalPadding": 3}, False, id="another value"),
    ],
)
def test_two_revisions_mean_the_same_when_only_their_bytes_differ(other: Object, same: bool) -> None:
    one: Object = {"spec": {"ordinalPadding": 0, "slurmd": {"name": "", "resources": {"limits": {"cpu": "2"}}}}}
    two = {"spec": {**one["spec"], **other}}
    assert (revision.meaning(one) == revision.meaning(two)) is same
