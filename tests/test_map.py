"""A module's test stands where the map says: at the mirrored path, or by name in `docs/internals/where-is.md`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

SOURCE = ROOT / "src"
MAP = ROOT / "docs/internals/where-is.md"
HEADING = "## Modules that another test holds"
# A shorter module is held by whatever uses it.
LEAST_LINES = 40
_CODE = re.compile(r"`([^`]+)`")


def modules() -> list[Path]:
    found = (path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    return sorted(path for path in found if len(path.read_text().splitlines()) >= LEAST_LINES)


def name_in_map(module: Path) -> str:
    """The path as the map writes it: below `slurm_operator`, or below `src` for the packages beside it."""
    path = module.relative_to(SOURCE)
    return str(path.relative_to("slurm_operator")) if path.parts[0] == "slurm_operator" else str(path)


def mirrored(module: Path) -> Path:
    path = Path(name_in_map(module))
    return ROOT / "tests" / path.parent / f"test_{path.name}"


def held_by_others() -> dict[str, list[str]]:
    """By module, or by folder of modules: the tests that hold it."""
    section = MAP.read_text().partition(HEADING)[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {module: _CODE.findall(tests) for names, tests in rows for module in _CODE.findall(names)}


HELD = held_by_others()


@pytest.mark.parametrize("module", modules(), ids=name_in_map)
def test_a_module_has_its_test(module: Path) -> None:
    name = name_in_map(module)
    named = [each for each in HELD if each == name or (each.endswith("/") and name.startswith(each))]
    assert mirrored(module).is_file() or named, (
        f"write {mirrored(module).relative_to(ROOT)}, or name the test that holds it"
    )


@pytest.mark.parametrize("package", ["slurm_operator", "kube_runtime"])
def test_the_map_answers_a_question_with_every_module(package: str) -> None:
    """A REST version and its sisters are one answer, and an error tree is beside what raises it."""
    text = MAP.read_text().replace(MAP.read_text().partition(HEADING)[2].partition("\n## ")[0], "")
    named = set(_CODE.findall(text))
    paths = [path for path in (SOURCE / package).rglob("*.py") if path.name not in ("__init__.py", "errors.py")]
    missing = sorted(name_in_map(path) for path in paths if path.parent.name != "versions")
    assert [name for name in missing if name not in named] == []


@pytest.mark.parametrize(("name", "tests"), HELD.items(), ids=HELD.keys())
def test_what_the_map_names_is_there(name: str, tests: list[str]) -> None:
    assert (SOURCE / "slurm_operator" / name).exists() or (SOURCE / name).exists()
    assert tests
    assert all((ROOT / test).exists() for test in tests), tests


def test_no_module_is_named_that_has_its_own_test() -> None:
    """A row that is no longer needed would send its reader to the wrong place."""
    mirrors = [name_in_map(module) for module in modules() if mirrored(module).is_file()]
    assert [name for name in mirrors if name in HELD] == []
