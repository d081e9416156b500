"""What stands in volumes that are made of API objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurm_operator.local.node import content
from slurm_operator.local.node.content import File
from slurm_operator.local.node.errors import MountFailed
from slurm_operator.local.node.sources import Place
from slurm_operator.local.node.volumes import Referred

MakePod = Callable[..., dict[str, Any]]

VOLUMES: dict[str, tuple[dict[str, Any], dict[str, File]]] = {
    "a whole secret": (
        {"secret": {"secretName": "key"}},
        {"slurm.key": File(b"K", 0o644), "TOKEN": File(b"T", 0o644)},
    ),
    "chosen keys with modes": (
        {"configMap": {"name": "conf", "defaultMode": 0o400, "items": [{"key": "a", "path": "d/a", "mode": 0o555}]}},
        {"d/a": File(b"A", 0o555)},
    ),
    "no keys chosen": ({"configMap": {"name": "conf", "items": []}}, {}),
    "an optional one that is missing": ({"configMap": {"name": "no", "optional": True}}, {}),
    "an optional key that is missing": (
        {"configMap": {"name": "conf", "optional": True, "items": [{"key": "no", "path": "x"}]}},
        {},
    ),
    "several sources": (
        {
            "projected": {
                "defaultMode": 0o600,
                "sources": [
                    {"secret": {"name": "key", "items": [{"key": "slurm.key", "path": "slurm.key"}]}},
                    {"configMap": {"name": "conf", "items": [{"key": "a", "path": "a", "mode": 0o444}]}},
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ],
            }
        },
        {"slurm.key": File(b"K", 0o600), "a": File(b"A", 0o444), "name": File(b"w-0", 0o600)},
    ),
    "annotations": (
        {"downwardAPI": {"items": [{"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}}]}},
        {"notes": File(b'note="say \\"hi\\""', 0o644)},
    ),
}


@pytest.mark.parametrize("case", VOLUMES)
def test_a_volume_holds(case: str, make_pod: MakePod, referred: Referred, place: Place) -> None:
    volume, expected = VOLUMES[case]
    assert content.files(make_pod(), {"name": "v", **volume}, referred, place) == expected


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"secret": {"secretName": "key", "items": [{"key": "no", "path": "x"}]}}, "non-existent secret key: no"),
        ({"secret": {"secretName": "key", "items": [{"key": "TOKEN", "path": "../x"}]}}, "must stay within it"),
        ({"projected": {"sources": [{"clusterTrustBundle": {}}]}}, "clusterTrustBundle is not supported"),
    ],
    ids=["no object", "no key", "a path that leads out", "an unknown source"],
)
def test_a_volume_that_cannot_be_filled_says_why(
    volume: dict[str, Any], text: str, make_pod: MakePod, referred: Referred, place: Place
) -> None:
    with pytest.raises(MountFailed, match=text):
        content.files(make_pod(), {"name": "v", **volume}, referred, place)
