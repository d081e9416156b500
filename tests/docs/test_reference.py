"""The reference pages say what the code says."""

from __future__ import annotations

import pytest
from tests.docs.pages import Page
from tools import reference

from slurm_operator.build import labels

PAGES = reference.pages()
TEXTS = reference.TEXTS.relative_to(reference.ROOT)


@pytest.mark.parametrize("name", PAGES, ids=list(PAGES))
def test_a_page_is_not_stale(name: str) -> None:
    assert (reference.FOLDER / name).read_text() == PAGES[name], "run: make golden"


@pytest.mark.parametrize("name", PAGES, ids=list(PAGES))
def test_no_cell_has_code_within_code(name: str) -> None:
    """`images of `workerImages`` was shown as two pieces of code around a plain word."""
    rows = [line for line in PAGES[name].splitlines() if line.startswith("|")]
    odd = [cell for row in rows for cell in row.split(" | ") if "``" in cell or cell.count("`") % 2]
    assert odd == []


def test_every_finding_has_a_section() -> None:
    anchors = Page(reference.FOLDER / "linter.md").anchors()
    assert {code.lower() for code in [*reference.lint_codes(), *reference.manifest_codes()]} <= anchors


def test_every_finding_is_described_and_no_text_is_left_for_one_that_is_gone() -> None:
    texts = reference.texts()
    assert set(texts["files"]) == set(reference.lint_codes()), f"see {TEXTS}"
    assert set(texts["manifests"]) == set(reference.manifest_codes()), f"see {TEXTS}"


def test_every_label_has_a_meaning() -> None:
    constants = {name for name, value in vars(labels).items() if name.isupper() and isinstance(value, str)}
    texts = reference.texts()
    described = {*texts["labels"], *texts["annotations"], *texts["keys"]}
    assert described == constants - {"GROUP"}, f"describe it in {TEXTS}"


def test_codes_are_found_in_every_way_that_the_source_writes_them() -> None:
    found = reference.lint_codes()
    assert found["UnknownKey"] == {"error", "warning"}
    assert found["CyclicInclude"] == {"error"}
    assert found["OctalNumber"] == {"warning"}
    assert found["BadValue"] == {"error", "warning"}
    assert len(found) > 40
