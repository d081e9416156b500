"""Fields of updates become those of our applies, below one path and nowhere else."""

from __future__ import annotations

from typing import Any

from kube_runtime.client.field_owners import taken

PATH = ("spec", "template")
VOLUMES: dict[str, Any] = {"f:volumes": {'k:{"name":"etc"}': {".": {}, "f:projected": {}}}}
THEIRS: dict[str, Any] = {
    "manager": "manager",
    "operation": "Update",
    "apiVersion": "apps/v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:selector": {}, "f:template": VOLUMES}},
}
OURS = {**THEIRS, "manager": "us", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
STATUS = {**THEIRS, "subresource": "status", "fieldsV1": {"f:status": {"f:replicas": {}}}}


def test_what_an_update_has_set_there_is_ours_and_the_rest_stays_theirs() -> None:
    found = taken([OURS, THEIRS, STATUS], PATH, "us", "apps/v1")
    assert found == [
        {**OURS, "fieldsV1": {"f:spec": {"f:replicas": {}, "f:template": VOLUMES}}},
        {**THEIRS, "fieldsV1": {"f:spec": {"f:selector": {}}}},
        STATUS,
    ]


def test_who_has_applied_nothing_yet_gets_an_entry() -> None:
    found = taken([THEIRS], PATH, "us", "apps/v1")
    assert found is not None
    assert [(each["manager"], each["operation"]) for each in found] == [("us", "Apply"), ("manager", "Update")]


def test_who_owned_nothing_else_has_no_entry_left() -> None:
    alone = {**THEIRS, "fieldsV1": {"f:spec": {"f:template": VOLUMES}}}
    found = taken([alone], PATH, "us", "apps/v1")
    assert found is not None
    assert [each["manager"] for each in found] == ["us"]


def test_fields_of_several_are_united() -> None:
    more: dict[str, Any] = {"f:volumes": {'k:{"name":"home"}': {".": {}}}, "f:hostname": {}}
    other = {**THEIRS, "manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:template": more}}}
    found = taken([THEIRS, other], PATH, "us", "apps/v1")
    assert found is not None
    assert found[0]["fieldsV1"]["f:spec"]["f:template"] == {
        "f:volumes": {**VOLUMES["f:volumes"], 'k:{"name":"home"}': {".": {}}},
        "f:hostname": {},
    }


def test_where_no_update_owns_anything_nothing_is_written() -> None:
    assert taken([OURS, STATUS], PATH, "us", "apps/v1") is None
    assert taken([], PATH, "us", "apps/v1") is None
