"""Charts, cases and their golden outputs.

A case is `values/<chart>/<case>.yaml`; its output is `golden/<chart>/<case>.yaml`: the objects that helm makes of it,
in an order and a form that do not depend on helm's version, with drawn keys masked. Used by the tests here, which need
no helm, and by those in `tests/real/helm`, which have one.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "deploy" / "charts"
HERE = Path(__file__).parent
NAMES = ("slurm-operator-crds", "slurm-operator", "slurm")
# Stands for a key that is drawn anew whenever there is no cluster to ask for the one that it has.
DRAWN = b64encode(b"drawn once, and kept from then on").decode()
NAMESPACE = {"slurm": "slurm", "slurm-operator": "slinky", "slurm-operator-crds": "slinky"}

Object = dict[str, Any]


def cases() -> list[tuple[str, str]]:
    """Every chart with every case of it."""
    return [
        (chart, path.stem)
        for chart in ("slurm-operator", "slurm")
        for path in sorted((HERE / "values" / chart).glob("*.yaml"))
    ]


def values_of(chart: str, case: str) -> Path:
    """The values of a case."""
    return HERE / "values" / chart / f"{case}.yaml"


def golden_of(chart: str, case: str) -> Path:
    """What a case should come to."""
    return HERE / "golden" / chart / f"{case}.yaml"


def golden(chart: str, case: str) -> list[Object]:
    """The objects of a case."""
    return [each for each in yaml.safe_load_all(golden_of(chart, case).read_text()) if each]


def normal(rendered: str) -> list[Object]:
    """Helm's output as objects in a fixed order, without what is drawn anew each time."""
    objects = [each for each in yaml.safe_load_all(rendered) if each]
    return sorted((_masked(each) for each in objects), key=place)


def _masked(value: Object) -> Object:
    if value["kind"] != "Secret" or not value.get("immutable"):
        return value
    return {**value, "data": dict.fromkeys(value["data"], DRAWN)}


def place(value: Object) -> tuple[str, str, str, str]:
    """What objects are sorted by."""
    metadata = value["metadata"]
    return value["kind"], metadata.get("namespace", ""), metadata["name"], value["apiVersion"]


class _Dumper(yaml.SafeDumper):
    """Texts of several lines are shown as such."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def written(objects: list[Object]) -> str:
    """Objects as a golden file."""
    return "".join(
        "---\n" + yaml.dump(each, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True) for each in objects
    )
