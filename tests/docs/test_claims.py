"""A claim of a page that names the test which holds it names one that exists."""

from __future__ import annotations

import re

import pytest
from tests.docs.pages import ROOT, Page, pages

_TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
CLAIMING = [page for page in pages() if any(_TEST.fullmatch(code) for code in page.inline_code())]


@pytest.mark.parametrize("page", CLAIMING, ids=[page.name for page in CLAIMING])
def test_every_test_that_holds_a_claim_exists(page: Page) -> None:
    named = [found for code in page.inline_code() if (found := _TEST.fullmatch(code))]
    for found in named:
        source = ROOT / found[1]
        assert source.is_file(), found[0]
        assert re.search(rf"^\s*(async )?def {found[2]}\(", source.read_text(), re.MULTILINE), found[0]


def test_each_part_of_the_security_guide_names_what_holds_it() -> None:
    page = Page(ROOT / "docs/guides/security.md")
    parts = re.split(r"^## ", page.text, flags=re.MULTILINE)[1:]
    silent = [part.splitlines()[0] for part in parts if not _TEST.search(part)]
    assert silent == ["What it does not protect against"]
