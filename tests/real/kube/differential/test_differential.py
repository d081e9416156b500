"""The embedded API server answers as the real one does; the comparison itself can be trusted.

`DIFFERENTIAL_SEQUENCES=300` makes this the full campaign (`make differential`); without it a sample runs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.real.kube.differential.accepted import RULES
from tests.real.kube.differential.campaign import both_servers, campaign
from tests.real.kube.differential.compare import judge
from tests.real.kube.differential.play import Answer, Transcript, collector_has_work
from tests.real.kube.differential.sequences import Step, sequence

PAGE = Path(__file__).parents[4] / "docs" / "internals" / "embedded-differences.md"
SEQUENCES = int(os.environ.get("DIFFERENTIAL_SEQUENCES", "20"))
FIRST_SEED = int(os.environ.get("DIFFERENTIAL_SEED", "0"))
UIDS = ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "7c9e6679-7425-40de-944b-e07fc1f90ae7")
READ = Step("GET", "/api/v1/namespaces/{ns}/configmaps/cm-a")


def config_map(uid: str, version: str, **metadata: Any) -> dict[str, Any]:
    """A small object as a server would give it."""
    head = {"name": "cm-a", "namespace": "left", "uid": uid, "resourceVersion": version}
    return {"kind": "ConfigMap", "metadata": head | metadata, "data": {"k": "v"}}


def spoken(*bodies: Any, status: int = 200) -> Transcript:
    """A transcript of nothing but these answers."""
    return Transcript("left", [Answer(status, "application/json", (), body) for body in bodies])


@pytest.mark.real_kube
@pytest.mark.timeout(3600)
async def test_embedded_server_answers_as_the_real_one(tmp_path: Path) -> None:
    async with both_servers(tmp_path, "embedded") as (reference, embedded):
        seeds = range(FIRST_SEED, FIRST_SEED + SEQUENCES)
        result = await campaign(reference, embedded, seeds)
    assert result.sequences == SEQUENCES
    assert not result.failures, "\n\n".join(result.failures.values())


@pytest.mark.real_kube
async def test_real_server_agrees_with_itself(tmp_path: Path) -> None:
    async with both_servers(tmp_path, "real") as (reference, same):
        result = await campaign(reference, same, range(10))
    assert not result.failures, "\n\n".join(result.failures.values())


def test_uids_versions_and_times_may_differ() -> None:
    left = spoken(config_map(UIDS[0], "7", creationTimestamp="2025-01-01T00:00:00Z"), config_map(UIDS[0], "9"))
    right = spoken(config_map(UIDS[1], "3", creationTimestamp="2026-02-02T00:00:00Z"), config_map(UIDS[1], "4"))
    assert not judge([READ, READ], left, right).differences


@pytest.mark.parametrize(
    ("left", "right", "path"),
    [
        pytest.param((("7", "9"),), (("7", "7"),), ".body.metadata.resourceVersion", id="a write that wrote nothing"),
        pytest.param(({"a": 1},), ({"a": 1.0},), ".body.a", id="another number type"),
        pytest.param(({"a": None},), ({},), ".body.a", id="null is not absent"),
        pytest.param(({"a": [1, 2]},), ({"a": [2, 1]},), ".body.a[0]", id="another order"),
        pytest.param(({"creationTimestamp": "2025-01-01T00:00:00Z"},), ({},), ".body.creationTimestamp", id="no time"),
    ],
)
def test_what_must_be_equal_is_told(left: tuple[Any], right: tuple[Any], path: str) -> None:
    def transcript(said: Any) -> Transcript:
        if isinstance(said, tuple):
            return spoken(*(config_map(UIDS[0], version) for version in said))
        return spoken(said)

    verdict = judge([READ, READ], transcript(left[0]), transcript(right[0]))
    assert path in [difference.path for difference in verdict.differences]


def test_another_status_code_is_told() -> None:
    verdict = judge([READ], spoken({}, status=404), spoken({}, status=410))
    assert [(each.path, each.left, each.right) for each in verdict.differences] == [(".status", 404, 410)]


def test_a_swapped_uid_is_told() -> None:
    left = spoken(config_map(UIDS[0], "7"), config_map(UIDS[0], "8"))
    right = spoken(config_map(UIDS[0], "7"), config_map(UIDS[1], "8"))
    assert judge([READ, READ], left, right).place == "step 1"


def test_sequences_are_repeatable_and_long() -> None:
    assert sequence(17) == sequence(17)
    assert {len(sequence(seed)) for seed in range(20)} == {60}
    assert sequence(1) != sequence(2)


@pytest.mark.parametrize(
    ("metadata", "work"),
    [
        pytest.param({}, False, id="plain object"),
        pytest.param({"ownerReferences": [{"uid": "gone"}]}, True, id="owner gone"),
        pytest.param({"ownerReferences": [{"uid": "me"}]}, False, id="owner there"),
        pytest.param({"deletionTimestamp": "t", "finalizers": ["orphan"]}, True, id="orphaning"),
        pytest.param({"deletionTimestamp": "t", "finalizers": ["example.com/hold"]}, False, id="held by somebody"),
        pytest.param({"deletionTimestamp": "t", "finalizers": ["foregroundDeletion"]}, True, id="foreground, alone"),
    ],
)
def test_collector_work_is_seen(metadata: dict[str, Any], work: bool) -> None:
    assert collector_has_work([{"metadata": {"uid": "me"} | metadata}]) is work


def test_page_lists_exactly_the_accepted_rules() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(rule.name for rule in RULES)
