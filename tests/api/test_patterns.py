"""A value that does not match is told what it should look like, never the regular expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slurm_operator.api.crd import definitions, object_schema
from slurm_operator.api.kinds import KINDS, Kind
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.patterns import DESCRIPTIONS, mismatch, with_rules
from slurm_operator.api.validate import decode

SPEC: dict[str, Any] = {"controllerRef": {"name": "slurm"}, "nodeSets": ["compute"]}


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for value in schema.values():
            yield from patterns(value)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_pattern_that_people_meet_has_words(kind: Kind) -> None:
    assert set(patterns(object_schema(kind)["properties"]["spec"])) <= set(DESCRIPTIONS)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("maxTime", "1 hour", 'spec.maxTime: "1 hour" is not a time that Slurm reads: minutes (90), hours:minutes:sec'),
        ("defaultTime", "1h", "days-hours (1-12), days-hours:minutes:seconds (2-00:00:00), or UNLIMITED"),
        ("maxNodes", "many", 'spec.maxNodes: "many" is not a number of nodes, such as 8, or UNLIMITED'),
        ("overSubscribe", "maybe", '"maybe" is not NO, EXCLUSIVE, FORCE or YES'),
        ("qos", "a b", '"a b" is not a name in Slurm: letters, digits'),
    ],
    ids=["maxTime", "defaultTime", "maxNodes", "overSubscribe", "qos"],
)
def test_a_wrong_value_is_told_with_examples(field: str, value: str, said: str) -> None:
    place = {"name": "p", "namespace": "hpc"}
    made = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "Partition", "metadata": place}
    (problem,) = decode({**made, "spec": {**SPEC, field: value}}).problems
    assert said in str(problem)
    assert "[" not in str(problem)


def test_a_definition_says_it_in_words_too() -> None:
    """An API server shows a pattern as it is, and of a rule its message."""
    found = next(each for each in definitions() if each["spec"]["names"]["kind"] == "Partition")
    spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert "pattern" not in spec["maxTime"]
    assert spec["maxTime"]["x-kubernetes-validations"][0]["message"].startswith("must be a time that Slurm reads: ")


def test_what_is_no_time_stays_a_pattern() -> None:
    assert with_rules({"items": [{"pattern": "^x$"}], "maxLength": 3}) == {
        "items": [{"pattern": "^x$"}],
        "maxLength": 3,
    }
    assert mismatch("^x$") == "does not match ^x$"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("4gb", "4Gi"), ("4 GiB", "4Gi"), ("1.5g", "1.5Gi"), ("512mb", "512Mi"), ("500 m", ""), ("many", "")],
)
def test_a_quantity_is_answered_with_the_one_that_was_meant(written: str, meant: str) -> None:
    container = {"resources": {"limits": {"memory": written}}}
    spec = {"controllerRef": {"name": "slurm"}, "slurmd": container}
    value = {"apiVersion": API_VERSION, "kind": "NodeSet", "spec": spec}
    (problem,) = decode(value).problems
    assert problem.message.startswith(f'"{written}" is not a quantity that Kubernetes reads, such as 500m')
    assert problem.message.endswith(f'; did you mean "{meant}"?' if meant else "of memory")
