"""Who owns replicas after scaling: each row was seen on a real kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.apiserver.scale_owners import owners_after_scaling

REPLICAS: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
SIZE: dict[str, Any] = {"f:spec": {".": {}, "f:size": {}}}
BOTH: dict[str, Any] = {"f:spec": {".": {}, "f:size": {}, "f:replicas": {}}}
CAROL = {"manager": "carol", "apiVersion": "v1"}


def entry(manager: str, fields: Any, *, operation: str = "Update", time: str = "t1", sub: str = "") -> dict[str, Any]:
    made = {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return made | ({"time": time} if time else {}) | ({"subresource": sub} if sub else {})


CAROL_SCALES = entry("carol", REPLICAS, time="", sub="scale")


@pytest.mark.parametrize(
    ("entries", "before", "after", "expected"),
    [
        pytest.param([entry("bob", BOTH)], 1, 5, [CAROL_SCALES, entry("bob", SIZE)], id="ownership is taken over"),
        pytest.param([entry("bob", SIZE)], 1, 5, [entry("bob", SIZE)], id="nobody owned it, nobody will"),
        pytest.param([entry("bob", BOTH)], 1, 0, [entry("bob", SIZE)], id="to zero: all lose it"),
        pytest.param([entry("bob", BOTH)], 0, 2, [CAROL_SCALES, entry("bob", SIZE)], id="from zero: taken over"),
        pytest.param(
            [entry("bob", REPLICAS, time=""), entry("bob", SIZE)],
            0,
            2,
            [entry("bob", SIZE)],
            id="a split one is lost",
        ),
        pytest.param([entry("bob", REPLICAS)], 1, 0, [], id="an entry with nothing left goes"),
        pytest.param(
            [entry("bob", BOTH)],
            3,
            3,
            [entry("bob", REPLICAS, time=""), entry("bob", SIZE)],
            id="unchanged: an updater's entry is split",
        ),
        pytest.param(
            [entry("alice", BOTH, operation="Apply")],
            3,
            3,
            [entry("alice", BOTH, operation="Apply")],
            id="unchanged: an applier's entry stays whole",
        ),
        pytest.param([CAROL_SCALES], 4, 5, [CAROL_SCALES], id="scaling again changes nothing"),
        pytest.param(
            [entry("eve", REPLICAS, time="", sub="scale"), entry("bob", SIZE)],
            4,
            5,
            [CAROL_SCALES, entry("bob", SIZE)],
            id="one scaler follows another",
        ),
    ],
)
def test_owners(entries: list[Any], before: int, after: int, expected: list[Any]) -> None:
    assert owners_after_scaling(entries, ("spec", "replicas"), before, after, CAROL) == expected
