"""Forms of values: what the Go project's charts document or once had, one set of values each.

In: `forms/<chart>.yaml` (by value, its forms) and `forms/explained.yaml`. Out: sets of values with an id. Used by
`test_forms.py`, which needs no helm, and by `tests/real/helm/test_forms.py`, which has one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from tests.charts.rendering import HERE

Values = dict[str, Any]
# A login set and a node set, and all that some values are nothing without.
WITH: dict[str, Values] = {"slurm": {"nodesets": {"slinky": {}}, "loginsets": {"slinky": {}}}, "slurm-operator": {}}
HOME: Values = {"name": "home", "persistentVolumeClaim": {"claimName": "home"}}
SCRATCH: Values = {"name": "scratch", "emptyDir": {}}
BESIDE: dict[str, Values] = {
    "accounting.": {"accounting": {"enabled": True}},
    "priorityClass.": {"priorityClass": {"enabled": True}},
    "controller.externalConfig": {"controller": {"external": True}},
    "accounting.externalConfig": {"accounting": {"enabled": True, "external": True}},
    "controller.metrics.": {"controller": {"metrics": {"enabled": True}}},
    "certManager": {"webhook": {"enabled": True}},
    "loginsetDefaults.login.volumeMounts": {"loginsetDefaults": {"podSpec": {"volumes": [HOME]}}},
    "nodesetDefaults.slurmd.volumeMounts": {"nodesetDefaults": {"podSpec": {"volumes": [SCRATCH]}}},
}
# Forms that would be refused beside the others' defaults, and why.
ALONE = frozenset({"nodesets", "loginsets"})


class Form(NamedTuple):
    """One set of values."""

    id: str
    chart: str
    values: Values


class Explained(NamedTuple):
    """One that is not taken, and what is said."""

    id: str
    chart: str
    values: Values
    words: str


def forms() -> Iterator[Form]:
    """Every set that is taken."""
    for chart, with_ in WITH.items():
        table: dict[str, list[Any]] = yaml.safe_load((HERE / "forms" / f"{chart}.yaml").read_text())
        for path, given in table.items():
            for form in given:
                made = with_ if path not in ALONE else {}
                for start, beside in BESIDE.items():
                    made = _merged(made, beside) if path.startswith(start) else made
                values = _merged(made, _at(path.split("."), form))
                yield Form(f"{path}={json.dumps(form)}"[:90], chart, values)


def explained() -> list[Explained]:
    """Every set that is explained."""
    table: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "forms" / "explained.yaml").read_text())
    return [Explained(name, each["chart"], each["values"], each["words"]) for name, each in table.items()]


def _at(steps: list[str], value: Any) -> Any:
    return {steps[0]: _at(steps[1:], value)} if steps else value


def _merged(first: Values, second: Values) -> Values:
    both = {
        key: _merged(value, second[key]) if isinstance(value, dict) and isinstance(second[key], dict) else second[key]
        for key, value in first.items()
        if key in second
    }
    return {**first, **second, **both}
