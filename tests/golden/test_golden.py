"""Every golden case still becomes what its files say; `pytest tests/golden --update-golden` writes them anew."""

from __future__ import annotations

from difflib import unified_diff

import pytest
from tests.golden.cases import Case, built, cases, stray_folders

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_becomes_what_its_files_say(case: Case, update_golden: bool) -> None:
    world, rendered = built(case.documents())
    assert not [str(each) for each in [*world.findings, *rendered.findings]]
    actual = case.actual()
    if update_golden:
        _write(case, actual)
    assert case.folder.is_dir(), f"no golden files for {case.name}; run: make golden"
    expected = case.expected()
    assert sorted(expected) == sorted(actual), "files are missing or stale; run: make golden"
    for name, text in actual.items():
        assert text == expected[name], "\n" + _difference(f"{case.name}/{name}", expected[name], text)


def _write(case: Case, files: dict[str, str]) -> None:
    case.folder.mkdir(parents=True, exist_ok=True)
    for name in case.expected().keys() - files.keys():
        (case.folder / name).unlink()
    for name, text in files.items():
        (case.folder / name).write_text(text)


def _difference(name: str, expected: str, actual: str) -> str:
    lines = unified_diff(expected.splitlines(), actual.splitlines(), name, "now", lineterm="")
    return "\n".join(lines)


def test_there_are_enough_cases_and_none_outside_the_known_folders() -> None:
    assert len(CASES) >= 80
    assert not list(stray_folders())
