"""Resources that every rule lets in, to be changed in one place; used by the tests of the rules."""

from __future__ import annotations

import copy
import re
from typing import Any

from slurm_operator.admission import rules
from slurm_operator.api.meta import API_VERSION, Resource
from slurm_operator.api.problem import FieldProblem, Path, format_path
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs

Raw = dict[str, Any]
KEY = {"name": "keys", "key": "key"}
# `SecretKeySelector(name='a', …)`: a value as only its programmer writes it.
PYTHON = re.compile(r"[A-Z]\w+\(\w+=")

SPECS: dict[str, Raw] = {
    "Controller": {"slurmKeyRef": KEY, "jwtKeyRef": KEY},
    "NodeSet": {"controllerRef": {"name": "slurm"}},
    "LoginSet": {"controllerRef": {"name": "slurm"}, "sssdConfRef": KEY},
    "RestApi": {"controllerRef": {"name": "slurm"}},
    "Accounting": {
        "slurmKeyRef": KEY,
        "jwtKeyRef": KEY,
        "storageConfig": {"host": "db", "username": "slurm", "passwordKeyRef": KEY},
    },
    "Token": {"username": "alice", "jwtKeyRef": KEY},
    "Partition": {"controllerRef": {"name": "slurm"}, "nodeSets": ["compute"]},
}


def raw(kind: str, changes: dict[Path, Any] | None = None) -> Raw:
    """A good resource with some fields set; None takes a field away."""
    result: Raw = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": "one", "namespace": "slurm", "uid": "0"},
        "spec": copy.deepcopy(SPECS[kind]),
    }
    for path, value in (changes or {}).items():
        holder = result
        for step in path[:-1]:
            holder = holder.setdefault(step, {})  # type: ignore[arg-type]  # a step of a mapping is a string
        if value is None:
            holder.pop(str(path[-1]), None)
        else:
            holder[str(path[-1])] = value
    return result


def resource(kind: str, changes: dict[Path, Any] | None = None) -> Resource:
    """The same, decoded."""
    decoded = decode(raw(kind, changes))
    assert decoded.resource is not None, decoded.problems
    return decoded.resource


def namespace(**more: Any) -> Refs:
    """What is around a resource: a Controller, keys and ConfigMaps."""
    controller: Any = resource("Controller", {("metadata", "name"): "slurm"})
    return Refs(
        controllers={"slurm": controller},
        secrets={"keys": {"key": b"secret"}},
        config_maps={"scripts": {"10-a.sh": ""}, "files": {"gres.conf": ""}, **more},
    )


def check(
    kind: str, changes: dict[Path, Any] | None = None, old: dict[Path, Any] | None = None, refs: Refs | None = None
) -> list[FieldProblem]:
    """What the rules say of a changed resource, new or instead of an old one."""
    before = None if old is None else resource(kind, old)
    return rules.check(resource(kind, changes), before, refs or namespace())


def said(problems: list[FieldProblem]) -> list[str]:
    """Problems as lines, warnings marked; none speaks Python."""
    lines = [
        f"{'warning: ' * (each.severity == 'warning')}{format_path(each.path)}: {each.message}" for each in problems
    ]
    assert not [line for line in lines if PYTHON.search(line)]
    return lines
