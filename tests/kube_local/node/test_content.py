"""What stands in volumes that are made of API objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_local.node import content
from kube_local.node.content import File
from kube_local.node.errors import MountFailed
from kube_local.node.sources import Place
from kube_local.node.volumes import Referred

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
        ({"secret": {"secretName": "key", "items": [{"key": "TOKEN", "path": "../x"}]}}, "must stay within its volume"),
        ({"projected": {"sources": [{"clusterTrustBundle": {}}]}}, "clusterTrustBundle is not supported"),
    ],
    ids=["no object", "no key", "a path that leads out", "an unknown source"],
)
def test_a_volume_that_cannot_be_filled_says_why(
    volume: dict[str, Any], text: str, make_pod: MakePod, referred: Referred, place: Place
) -> None:
    with pytest.raises(MountFailed, match=text):
        content.files(make_pod(), {"name": "v", **volume}, referred, place)


UNSAFE = {
    "absolute": "/etc/cron.d/x",
    "upwards": "../x",
    "upwards in the middle": "a/../../x",
    "a name of the swap": "..data/x",
    "empty": "",
    "the folder itself": ".",
    "an empty part": "a//b",
    "a NUL": "a\0b",
    "a lone surrogate": "a\ud800b",
    "longer than a name can be": "x" * 256,
}


def _projected(source: dict[str, Any]) -> dict[str, Any]:
    return {"projected": {"sources": [source]}}


@pytest.mark.parametrize("path", UNSAFE.values(), ids=UNSAFE)
@pytest.mark.parametrize(
    "volume",
    [
        lambda path: _projected({"serviceAccountToken": {"path": path}}),
        lambda path: _projected({"secret": {"name": "key", "items": [{"key": "TOKEN", "path": path}]}}),
        lambda path: _projected(
            {"downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": "metadata.name"}}]}}
        ),
        lambda path: {"configMap": {"name": "conf", "items": [{"key": "a", "path": path}]}},
        lambda path: {"downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": "metadata.name"}}]}},
        lambda _: {"configMap": {"name": "hostile"}},
        lambda _: {"secret": {"secretName": "hostile"}},
    ],
    ids=["token", "projected secret", "projected field", "items", "field", "key of a map", "key of a secret"],
)
def test_no_path_or_key_leads_out_of_its_volume(
    volume: Callable[[str], dict[str, Any]], path: str, make_pod: MakePod, place: Place
) -> None:
    """T14: the token's path was not checked, nor were keys that become file names."""
    hostile = {path: b"x"}
    known = Referred({"conf": {"a": b"A"}, "hostile": hostile}, {"key": {"TOKEN": b"T"}, "hostile": hostile})
    with pytest.raises(MountFailed, match=r"must stay within its volume|is not a valid path"):
        content.files(make_pod(), {"name": "v", **volume(path)}, known, place)
