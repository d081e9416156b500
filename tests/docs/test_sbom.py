"""The bill of materials: complete, hashed, and the same twice."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_same_file_gives_the_same_bill(sbom: ModuleType) -> None:
    text = (ROOT / "requirements" / "operator.txt").read_text()
    assert sbom.document(text, "1") == sbom.document(text, "1")
    assert sbom.document(text, "1")["serialNumber"] != sbom.document(text, "2")["serialNumber"]


def test_every_component_has_a_hash(sbom: ModuleType) -> None:
    listed = sbom.components((ROOT / "requirements" / "operator.txt").read_text())
    assert len(listed) >= 8
    assert all(each["externalReferences"][0]["hashes"] for each in listed)


def test_it_holds_everything_that_the_program_needs(sbom: ModuleType) -> None:
    listed = {each["name"] for each in sbom.components((ROOT / "requirements" / "operator.txt").read_text())}
    assert needed("slurm-operator", set()) <= listed


def needed(package: str, seen: set[str]) -> set[str]:
    """Every package that one needs when it runs, as it is installed here."""
    for line in importlib.metadata.requires(package) or []:
        name, _, marker = line.partition(";")
        plain = re.split(r"[<>=!~\[ (]", name, maxsplit=1)[0].lower().replace("_", "-")
        if "extra" in marker or plain in seen or not installed(plain):
            continue
        seen.add(plain)
        needed(plain, seen)
    return seen


def installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
