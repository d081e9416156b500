"""The CEL rules on the CRDs say the same as the rules of admission."""

from __future__ import annotations

import copy
from typing import Any

import cel
import pytest

from slurm_operator.admission import rules
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.problem import errors
from slurm_operator.api.validate import decode, schema_of
from slurm_operator.build.refs import Refs

KEY = {"name": "keys", "key": "key"}
REF = {"name": "slurm"}
OUTSIDE = {"host": "ctl.example", "port": 6817}
CLAIM = {"enabled": True, "existingClaim": "state"}
STORAGE = {"storageConfig": {"host": "db", "passwordKeyRef": KEY}}


def defaulted(value: Any, schema: dict[str, Any]) -> Any:
    """A value as the API server sees it: defaults filled in where the parent is there."""
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    result = dict(value)
    for name, part in schema["properties"].items():
        if name not in result and "default" in part:
            result[name] = part["default"]
        if name in result:
            result[name] = defaulted(result[name], part)
    return result


def refused_by_cel(value: Any, schema: dict[str, Any]) -> list[str]:
    """The messages of the rules that do not hold, in this part of the resource and below."""
    found = [
        each["message"]
        for each in schema.get("x-kubernetes-validations", ())
        if not cel.evaluate(each["rule"], {"self": value})
    ]
    for name, part in schema.get("properties", {}).items():
        if isinstance(value, dict) and name in value:
            found += refused_by_cel(value[name], part)
    return found


def scheduled(**window: str) -> dict[str, Any]:
    """A NodeSet with a scheduled update."""
    return {"controllerRef": REF, "updateStrategy": {"type": "ScheduledUpdate", "scheduledUpdate": window}}


TABLE: list[tuple[str, dict[str, Any], bool]] = [
    ("Controller", {}, False),
    ("Controller", {"slurmKeyRef": KEY}, False),
    ("Controller", {"jwtKeyRef": KEY}, False),
    ("Controller", {"slurmKeyRef": KEY, "jwtKeyRef": KEY}, True),
    ("Controller", {"slurmKeyRef": KEY, "jwtHs256KeyRef": KEY}, True),
    ("Controller", {"external": True}, False),
    ("Controller", {"external": True, "externalConfig": OUTSIDE}, True),
    ("Controller", {"slurmKeyRef": KEY, "jwtKeyRef": KEY, "ha": {"enabled": True}}, False),
    ("Controller", {"slurmKeyRef": KEY, "jwtKeyRef": KEY, "ha": {"enabled": False}}, True),
    ("Controller", {"slurmKeyRef": KEY, "jwtKeyRef": KEY, "ha": {"enabled": True}, "persistence": {}}, False),
    ("Controller", {"slurmKeyRef": KEY, "jwtKeyRef": KEY, "ha": {"enabled": True}, "persistence": CLAIM}, True),
    (
        "Controller",
        {"slurmKeyRef": KEY, "jwtKeyRef": KEY, "ha": {"enabled": True}, "persistence": {**CLAIM, "enabled": False}},
        False,
    ),
    (
        "Controller",
        {"slurmKeyRef": KEY, "jwtKeyRef": KEY, "ha": {"enabled": True}, "persistence": {"existingClaim": ""}},
        False,
    ),
    ("Accounting", {**STORAGE}, False),
    ("Accounting", {**STORAGE, "slurmKeyRef": KEY, "jwtKeyRef": KEY}, True),
    ("Accounting", {**STORAGE, "slurmKeyRef": KEY, "jwtHs256KeyRef": KEY}, True),
    ("Accounting", {"external": True}, False),
    ("Accounting", {"external": True, "externalConfig": OUTSIDE}, True),
    ("Token", {"username": "alice"}, False),
    ("Token", {"username": "alice", "jwtKeyRef": KEY}, True),
    ("Token", {"username": "alice", "jwtHs256KeyRef": KEY}, True),
    ("NodeSet", {"controllerRef": REF}, True),
    ("NodeSet", {"controllerRef": REF, "updateStrategy": {"type": "ScheduledUpdate"}}, False),
    ("NodeSet", scheduled(duration="1h"), False),
    ("NodeSet", scheduled(startTime="2026-01-31T22:00:00Z"), True),
    ("NodeSet", scheduled(startTime="2026-01-31T22:00:00Z", duration="1h"), True),
]


@pytest.mark.parametrize(("kind", "spec", "allowed"), TABLE, ids=[f"{row[0]} {row[1]}"[:100] for row in TABLE])
def test_the_api_server_and_the_webhook_agree(kind: str, spec: dict[str, Any], allowed: bool) -> None:
    raw = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "one", "namespace": "slurm"}, "spec": spec}
    schema = schema_of(kind)
    by_cel = refused_by_cel(defaulted(copy.deepcopy(raw), schema), schema)
    decoded = decode(raw)
    assert decoded.resource is not None, decoded.problems
    by_rules = errors(rules.check(decoded.resource, None, Refs()))
    assert (not by_cel, not by_rules) == (allowed, allowed), (by_cel, by_rules)
    # People read the same words wherever the object is refused.
    assert set(by_cel) <= {problem.message for problem in by_rules}
