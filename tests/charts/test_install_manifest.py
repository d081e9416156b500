"""deploy/install.yaml against what it is made from, as far as that can be told without helm."""

from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DEFINITIONS = {path.stem: path for path in sorted((DEPLOY / "crds").glob("*.yaml"))}
STALE = "deploy/install.yaml is stale: make golden"


def installed(kind: str) -> dict[str, Any]:
    everything = yaml.safe_load_all((DEPLOY / "install.yaml").read_text())
    return {each["metadata"]["name"]: each for each in everything if each and each["kind"] == kind}


@pytest.mark.parametrize("path", DEFINITIONS.values(), ids=DEFINITIONS)
def test_the_install_manifest_has_the_newest_definition(path: Path) -> None:
    definition = yaml.safe_load(path.read_text())
    assert installed("CustomResourceDefinition")[definition["metadata"]["name"]]["spec"] == definition["spec"], STALE


def test_the_install_manifest_has_no_definition_that_is_gone() -> None:
    names = {yaml.safe_load(path.read_text())["metadata"]["name"] for path in DEFINITIONS.values()}
    assert installed("CustomResourceDefinition").keys() == names, STALE
