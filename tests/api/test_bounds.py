"""How large a resource may be: every list, map and text of ours has a bound, and so has what Kubernetes leaves open."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from slurm_operator.admission.review import answer
from slurm_operator.api.bounds import MAX_DEPTH_LEVELS, MAX_EMBEDDED_VALUES, bounded
from slurm_operator.api.crd import object_schema
from slurm_operator.api.kinds import KINDS, Kind
from slurm_operator.api.problem import MAX_PROBLEMS, errors, format_path, limited
from slurm_operator.api.problem import FieldProblem as Problem
from slurm_operator.api.schema import Schema
from slurm_operator.api.structural import PRESERVE
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs
from slurm_operator.build.token import duration

KEYS = {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}}


def raw(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    base: dict[str, dict[str, Any]] = {
        "Controller": KEYS,
        "Token": {"username": "u", "jwtKeyRef": {"name": "a", "key": "b"}},
    }
    required = base.get(kind, {"controllerRef": {"name": "slurm"}})
    place = {"name": "x", "namespace": "slurm"}
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": place, "spec": {**required, **spec}}


def found(kind: str, spec: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in errors(decode(raw(kind, spec)).problems)]


def open_ends(schema: Schema, path: str = "spec") -> list[str]:
    """The fields of a schema that could hold any amount."""
    kind, ends = schema.get("type"), []
    if kind == "string" and not {"maxLength", "enum"} & schema.keys():
        ends.append(path)
    if kind == "array" and "maxItems" not in schema:
        ends.append(path)
    if "additionalProperties" in schema and "maxProperties" not in schema:
        ends.append(path)
    if kind == "object" and not {"properties", "additionalProperties", PRESERVE} & schema.keys():
        ends.append(path)
    inner = {**schema.get("properties", {}), "[]": schema.get("items"), "{}": schema.get("additionalProperties")}
    return ends + [end for name, each in inner.items() if each for end in open_ends(each, f"{path}.{name}")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_list_map_and_text_of_ours_has_a_bound_in_its_definition(kind: Kind) -> None:
    """T3: nothing but the size of an object bounded what a review had to look at."""
    assert open_ends(object_schema(kind)["properties"]["spec"]) == []


def test_a_bound_of_its_own_wins() -> None:
    schema = {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 5}}
    assert bounded(schema) == schema


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("Controller", {"configFileRefs": [{"name": "a"}] * 5000}, "spec.configFileRefs: has 5000 items; at most 4096"),
        (
            "Controller",
            {"ha": {"enabled": True, "backups": 10**6}},
            "spec.ha.backups: 1000000 is too large;",
        ),
        (
            "Partition",
            {"nodeSets": [f"n{at}" for at in range(20_000)]},
            "spec.nodeSets: has 20000 items; at most",
        ),
        (
            "Partition",
            {"nodeSets": ["ALL"], "tresBillingWeights": {str(at): "1" for at in range(5000)}},
            "spec.tresBillingWeights: has 5000 entries; at most 4096",
        ),
        ("Token", {"lifetime": "1" * 1000}, "spec.lifetime: is 1000 characters long; at most 64"),
        (
            "NodeSet",
            {"slurmd": {"env": [{"name": f"A{at}"} for at in range(MAX_EMBEDDED_VALUES)]}},
            f"spec.slurmd: makes the resource hold more than {MAX_EMBEDDED_VALUES} values",
        ),
        (
            "NodeSet",
            {"slurmd": {"resources": {"limits": {"cpu": "1" * 5000}}}},
            "spec.slurmd.resources.limits.cpu: is 5000 characters long; at most 64",
        ),
        (
            "NodeSet",
            {"slurmd": {"resources": {"limits": {"cpu": 10**4000}}}},
            "spec.slurmd.resources.limits.cpu: 10000000",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_too_much_is_refused_by_place_and_bound(kind: str, spec: dict[str, Any], message: str) -> None:
    assert [line[: len(message)] for line in found(kind, spec)] == [message]


@pytest.mark.parametrize("place", ["spec", "status", "metadata"])
def test_what_is_too_deep_is_refused_wherever_it_is(place: str) -> None:
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    written = {**raw("NodeSet", {}), place: deep}
    decoded = decode(written, served=True)
    assert [each.message for each in decoded.problems] == [
        f"is nested deeper than {MAX_DEPTH_LEVELS} levels; at most {MAX_DEPTH_LEVELS} are allowed"
    ]


def test_a_thousand_mistakes_make_a_short_answer() -> None:
    """An answer of megabytes would be held by the server, the API server and whoever asked."""
    written = raw("NodeSet", {"template": {"spec": {"tolerations": [1] * 5000}}})
    kind = {"group": "slinky.slurm.net", "version": "v1beta1", "kind": "NodeSet"}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": "slurm", "object": written}
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
    said = answer(body, lambda _: Refs())
    assert said.result == "refused"
    assert len(said.body) < 64_000
    assert "has more than 100 errors" in said.body.decode()


def test_errors_are_never_lost_behind_warnings() -> None:
    many = [Problem(("a",), "x", "warning")] * (3 * MAX_PROBLEMS)
    assert errors(limited([*many, Problem(("b",), "wrong")])) == [Problem(("b",), "wrong")]
    assert len(limited(many)) == MAX_PROBLEMS


def test_a_long_name_is_cut_in_a_path() -> None:
    assert len(format_path(("spec", "x" * 10_000, "y"))) < 100


@pytest.mark.parametrize(
    "spec",
    [
        {"slurmd": {"env": [{"name": f"A{at}"} for at in range(2600)]}},
        {"slurmd": {"ports": [{"containerPort": at + 1} for at in range(2600)]}},
        {"template": {"spec": {"volumes": [{"name": f"v{at}"} for at in range(2600)]}}},
        {"template": {"spec": {"hostAliases": [{"ip": f"{at}"} for at in range(2600)]}}},
        {"template": {"spec": {"containers": [{"name": f"c{at}"} for at in range(2600)]}}},
        {"updateStrategy": {"type": "OnDelete", "scheduledUpdate": {"duration": "1" * 20_000}}},
    ],
    ids=["env", "ports", "volumes", "hostAliases", "containers", "duration"],
)
def test_a_small_manifest_takes_little_time(spec: dict[str, Any]) -> None:
    """T3: 85 kB with 2,600 env entries took 12.6 s; a duration of 20,000 digits took as long."""
    kind = {"group": "slinky.slurm.net", "version": "v1beta1", "kind": "NodeSet"}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": "slurm", "object": raw("NodeSet", spec)}
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
    controller: Any = decode({**raw("Controller", {}), "metadata": {"name": "slurm"}}).resource
    start = time.process_time()
    said = answer(body, lambda _: Refs(controllers={"slurm": controller}))
    assert said.result != "failed"
    assert time.process_time() - start < 1.0


def test_a_long_duration_is_none() -> None:
    assert duration("1" * 100_000) is None
    assert duration("1h30m") == 5400
