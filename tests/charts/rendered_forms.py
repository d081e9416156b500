"""What each form of values comes to, kept as its difference to a chart's first form.

In: `forms/rendered/<chart>.yaml`, which `make golden` writes with the real helm. Out: the objects of a form, without a
helm. Used by `test_forms.py`, by `tests/charts/test_converging.py` and, on a real API server, by those in
`tests/real/helm`; `tests/real/helm/test_forms.py` keeps the file true to both helms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.charts.forms import Form, forms
from tests.charts.rendering import HERE, Object, normal, place

CHARTS = ("slurm", "slurm-operator")
# By kind, namespace and name.
Objects = dict[str, Object]
Render = Callable[[Form], str]


class Change(NamedTuple):
    """One place that differs, and what is there; nothing where it is gone."""

    at: tuple[str, ...]
    value: tuple[Any, ...]


def kept(chart: str) -> Path:
    """Where the renderings of a chart are."""
    return HERE / "forms" / "rendered" / f"{chart}.yaml"


def objects_of(form: Form) -> list[Object]:
    """The objects that helm makes of a form."""
    found = _kept(form.chart)
    changes = [Change(tuple(each["at"]), tuple(each["is"])) for each in found["forms"][form.id]]
    return sorted(_changed(found["first"], changes).values(), key=place)


def own(rendered: str) -> list[Object]:
    """Helm's output in the form of what is kept: without our definitions, which are the files in deploy/crds."""
    return [each for each in normal(rendered) if each["kind"] != "CustomResourceDefinition"]


def groups(chart: str) -> dict[str, list[Form]]:
    """The forms of a chart by what they come to: those that come to the same are under one key."""
    found: dict[str, list[Form]] = {}
    for form in forms():
        if form.chart == chart:
            found.setdefault(json.dumps(_kept(chart)["forms"][form.id]), []).append(form)
    return found


def write(chart: str, render: Render) -> int:
    """Render every form of a chart anew."""
    mine = [form for form in forms() if form.chart == chart]
    made = {form.id: _named(own(render(form))) for form in mine}
    first = made[mine[0].id]
    content = {
        "first": first,
        "forms": {
            name: [{"at": list(each.at), "is": list(each.value)} for each in differences(first, after)]
            for name, after in made.items()
        },
    }
    kept(chart).parent.mkdir(exist_ok=True)
    kept(chart).write_text(yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))
    return len(mine)


def differences(before: Mapping[str, Any], after: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[Change]:
    """Where two objects differ; lists are compared whole."""
    for key in [*before, *(key for key in after if key not in before)]:
        here = (*at, key)
        if key not in after:
            yield Change(here, ())
        elif key not in before:
            yield Change(here, (after[key],))
        elif isinstance(before[key], dict) and isinstance(after[key], dict):
            yield from differences(before[key], after[key], here)
        elif _text(before[key]) != _text(after[key]):
            yield Change(here, (after[key],))


def _text(value: Any) -> str:
    # 1, 1.0 and true are not the same here.
    return json.dumps(value, sort_keys=True)


def _changed(before: Mapping[str, Any], changes: list[Change]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(before))
    for change in changes:
        inner = made
        for step in change.at[:-1]:
            inner = inner[step]
        if change.value:
            inner[change.at[-1]] = change.value[0]
        else:
            del inner[change.at[-1]]
    return made


def _named(objects: list[Object]) -> Objects:
    found: Objects = {}
    for each in objects:
        name = f"{each['kind']} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}"
        assert name not in found, name
        found[name] = each
    return found


@cache
def _kept(chart: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(kept(chart).read_text(), yaml.CSafeLoader)
    return found


class _Dumper(yaml.SafeDumper):
    """One difference to a line."""


def _short(dumper: yaml.SafeDumper, value: dict[str, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=value.keys() == {"at", "is"})


_Dumper.add_representer(dict, _short)
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]  # of the same values twice
