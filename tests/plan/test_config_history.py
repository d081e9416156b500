"""What is kept of configurations, what goes, and how a change is told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert, json

from kube_runtime.client.objects import ObjectMeta, RawObject
from slurm_operator.api.controller import Controller
from slurm_operator.plan import config_history
from slurm_operator.plan.actions import Create, Delete
from slurm_operator.plan.config_history import InForce, changes, manager_of, plan_history, read, summary

CR = convert(
    {"kind": "Controller", "metadata": {"name": "slurm", "namespace": "hpc", "uid": "u"}, "spec": {}}, Controller
)


def in_force(hash_: str, extra: str = "", **inputs: dict[str, Any]) -> InForce:
    made_from = {"Controller/slurm": {"extraConf": extra} if extra else {}, **inputs}
    return InForce(hash_, {"slurm.conf": f"ClusterName=slurm\n{extra}\n"}, made_from, "2026-01-09T10:00:05Z")


def stored(action: object) -> RawObject:
    """What the API server makes of a revision."""
    assert isinstance(action, Create)
    return RawObject(convert(action.desired["metadata"], ObjectMeta), json.encode(action.desired))


def after(count: int) -> list[RawObject]:
    """So many configurations, one after the other, as they are kept."""
    present: list[RawObject] = []
    for number in range(count):
        made, *gone = plan_history(CR, in_force(f"{number:012}", f"A={number}"), present, {})
        names = {each.name for each in gone if isinstance(each, Delete)}
        present = [item for item in present if item.metadata.name not in names] + [stored(made)]
    return present


def test_the_newest_is_not_kept_twice_and_an_older_one_is() -> None:
    present = after(2)
    assert plan_history(CR, in_force("000000000001"), present, {}) == ()
    assert len(plan_history(CR, in_force("000000000000"), present, {})) == 1


def test_ten_are_kept() -> None:
    present = after(config_history.MAX_REVISIONS + 5)
    assert [item.metadata.name for item in present] == [f"slurm-config-{number}" for number in range(6, 16)]


def test_large_ones_push_out_more(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(after(1)[0].body)
    monkeypatch.setattr(config_history, "MAX_HISTORY_BYTES", 3 * size)
    assert [item.metadata.name for item in after(6)] == ["slurm-config-4", "slurm-config-5", "slurm-config-6"]


def test_the_newest_is_kept_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_history, "MAX_HISTORY_BYTES", 1)
    assert [item.metadata.name for item in after(3)] == ["slurm-config-3"]


def test_who_changed_what_is_written_down() -> None:
    present = after(1)
    now = in_force("other", "A=2")
    (made,) = plan_history(CR, now, present, {"Controller/slurm": "kubectl-edit", "Partition/a": "helm"})
    found = read(json.decode(stored(made).body))
    assert (found.number, found.by, found.time) == (2, "kubectl-edit", now.since)
    assert found.change == "Controller/slurm: extraConf (+1 -1 lines)"


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {}, {}),
        ({"Partition/a": {"state": "UP"}}, {"Partition/a": {"state": "DRAIN"}}, {"Partition/a": ("state",)}),
        ({}, {"Partition/a": {}}, {"Partition/a": ()}),
        (
            {"ConfigMap/f": {"x.conf": "1", "y.conf": "2"}},
            {"ConfigMap/f": {"x.conf": "1"}},
            {"ConfigMap/f": ("y.conf",)},
        ),
    ],
    ids=["nothing", "a field", "a new one", "a file that went"],
)
def test_what_differs_is_told_by_resource(before: Any, now: Any, expected: Any) -> None:
    assert changes(before, now) == expected


def test_a_change_that_no_resource_made_says_so_and_a_long_one_is_cut() -> None:
    first = read(json.decode(after(1)[0].body))
    assert summary(first, in_force("x", "A=0"), {}).startswith("no resource changed")
    many = {f"Partition/{number:04}": () for number in range(100)}
    assert len(summary(first, in_force("x", "A=0"), many)) < config_history.MAX_CHANGE_CHARACTERS + 40


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(["a"], id="a list"),
        pytest.param("text", id="a text"),
        pytest.param({"files": ["a"], "inputs": "b"}, id="parts of other types"),
        pytest.param({"files": {"slurm.conf": 7}, "inputs": {"Controller/slurm": [1]}}, id="deeper ones"),
        pytest.param({"hash": {}, "change": "\x1b[31mred" * 1000, "by": 7}, id="odd texts"),
    ],
)
def test_a_revision_that_somebody_else_made_stops_nothing(data: Any) -> None:
    """Whoever may write ControllerRevisions may write any data into one."""
    newest = after(1)[0]
    forged = RawObject(newest.metadata, json.encode({**newest.content(), "data": data, "revision": "x"}))
    made, *_ = plan_history(CR, in_force("f" * 12, "A=2"), [forged], {})
    assert isinstance(made, Create)
    found = read(forged.content())
    assert all(text.isprintable() and len(text) <= 1000 for text in (found.hash, found.time, found.change, found.by))


def test_the_last_writer_of_a_spec_is_named_and_neither_the_operator_nor_a_status() -> None:
    entries = [
        {"manager": "helm", "time": "2026-01-01T00:00:00Z"},
        {"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z"},
        {"manager": "other", "time": "2026-01-03T00:00:00Z", "subresource": "status"},
        {"manager": "slurm-operator", "time": "2026-01-04T00:00:00Z"},
    ]
    assert manager_of({"metadata": {"managedFields": entries}}) == "kubectl-edit"
    assert manager_of({}) == ""
