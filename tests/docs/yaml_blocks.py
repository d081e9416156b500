"""What a YAML block of a page is, and what is wrong with it.

In: a block. Out: manifests (whole objects), values of a chart, the spec of one of our kinds, or something of another
program that the pages know; anything else is a fault. Used by `test_yaml.py` and, with the real helm, by
`tests/real/helm/test_documents.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any

import jsonschema
import yaml
from tests.docs.pages import ROOT, Block, Page, pages

from slurm_operator.api.kinds import KINDS

CHARTS = ("slurm", "slurm-operator", "slurm-operator-crds")

Json = dict[str, Any]


class Form(Enum):
    """What a block may be."""

    MANIFEST = auto()
    VALUES = auto()
    SPEC = auto()
    SCALED_OBJECT = auto()
    WORKFLOW = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Shown:
    """One block on its page."""

    page: Page
    number: int
    block: Block

    def __str__(self) -> str:
        return f"{self.page.name}:{self.number}"

    @property
    def content(self) -> Any:
        """Its only document."""
        return yaml.safe_load(self.block.text)

    @property
    def form(self) -> Form:
        """What it is."""
        if self.block.is_manifest:
            return Form.MANIFEST
        content = self.content
        if not isinstance(content, dict):
            return Form.UNKNOWN
        if set(content) == {"spec"}:
            return Form.SCALED_OBJECT if "scaleTargetRef" in content["spec"] else Form.SPEC
        if "jobs" in content:
            return Form.WORKFLOW
        return Form.VALUES if charts_of(content) else Form.UNKNOWN


def shown() -> list[Shown]:
    """Every YAML block of the pages that people write."""
    return [
        Shown(page, number, block)
        for page in pages()
        if page.path.parent.name != "reference"
        for number, block in enumerate(each for each in page.blocks() if each.language == "yaml")
    ]


@cache
def _schema(chart: str) -> Json:
    schema: Json = json.loads((ROOT / "deploy/charts" / chart / "values.schema.json").read_text())
    return schema


def charts_of(values: Json) -> list[str]:
    """The charts that have all of these values."""
    return [chart for chart in CHARTS if values and set(values) <= set(_schema(chart)["properties"])]


def takers(values: Json) -> list[str]:
    """The charts whose schema takes these values."""
    return [chart for chart in charts_of(values) if not any(_errors(chart, values))]


def values_problems(values: Json) -> list[str]:
    """What the chart's own schema says of values; of the chart that takes them best."""
    found = [[_said(error) for error in _errors(chart, values)] for chart in charts_of(values)]
    return min(found, key=len)


def _errors(chart: str, values: Json) -> Iterator[jsonschema.ValidationError]:
    validator = jsonschema.validators.validator_for(_schema(chart))
    yield from validator(_schema(chart)).iter_errors(values)


def _said(error: jsonschema.ValidationError) -> str:
    return f"{'.'.join(str(each) for each in error.absolute_path)}: {error.message}"


@cache
def _spec_schema(plural: str) -> Json:
    crd = yaml.safe_load((ROOT / "deploy/crds" / f"{plural}.yaml").read_text())
    schema: Json = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    # A part of a spec leaves out what the whole must have.
    return {key: value for key, value in schema.items() if key not in ("required", "x-kubernetes-validations")}


def spec_problems(spec: Json) -> list[str]:
    """What the definition of a kind says of a part of its spec; of the kind that takes it best."""
    plurals = [kind.plural for kind in KINDS if set(spec) <= set(_spec_schema(kind.plural)["properties"])]
    found = [[_said(each) for each in _validator(plural).iter_errors(spec)] for plural in plurals]
    return min(found, key=len, default=[f"no kind has all of {', '.join(spec)}"])


def _validator(plural: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(_spec_schema(plural))
