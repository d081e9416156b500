"""The bill of materials: complete, hashed, the same twice, and nothing that the program does not import."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

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
    assert needed(project()["dependencies"], set()) <= listed


@pytest.mark.parametrize("local", [False, True], ids=["the program", "local mode"])
def test_what_is_installed_to_run_it_is_what_it_imports(local: bool) -> None:
    """B7: PyJWT was in every image, and only a test imported it."""
    modules = importlib.metadata.packages_distributions()
    used = {plain(name) for module in imported(local=local) for name in modules.get(module, ())}
    declared = {plain(line) for line in project("distributions/local" if local else "")["dependencies"]}
    ours = {"slurm-operator", "slurm-operator-local"}
    assert declared - used - ours == set()
    if not local:
        assert used - declared - ours == set()


@pytest.mark.parametrize(
    ("file", "folder"), [("operator.in", ""), ("local.in", "distributions/local")], ids=["program", "local"]
)
def test_what_is_pinned_is_what_is_declared(file: str, folder: str) -> None:
    """B7: a package that leaves the declaration leaves the pins."""
    lines = (ROOT / "requirements" / file).read_text().splitlines()
    pinned = {plain(line) for line in lines if line and not line.startswith("-")}
    assert pinned == {plain(line) for line in project(folder)["dependencies"]} - {"slurm-operator"}


def project(folder: str = "") -> dict[str, Any]:
    """What a pyproject.toml declares; what is installed here may be older."""
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return found


def imported(*, local: bool) -> set[str]:
    """The top-level modules that one of the two distributions imports anywhere."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        if local is not bool({"kube_local", "local"} & {*path.relative_to(ROOT / "src").parts[:2]}):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def plain(line: str) -> str:
    """The name of a package in a line that requires it."""
    return re.split(r"[<>=!~\[ (;]", line, maxsplit=1)[0].lower().replace("_", "-")


def needed(lines: list[str], seen: set[str]) -> set[str]:
    """Every package that these need when they run, as they are installed here."""
    for line in lines:
        _, _, marker = line.partition(";")
        name = plain(line)
        if "extra" in marker or name in seen or not installed(name):
            continue
        seen.add(name)
        needed(importlib.metadata.requires(name) or [], seen)
    return seen


def installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
