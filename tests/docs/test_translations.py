"""A translated page says the same as its original: the same files, the same commands, the same answers."""

from __future__ import annotations

import re

import pytest
from tests.docs.pages import ROOT, Page

TRANSLATED = {"docs/zh-TW/quick-start.md": "docs/guides/quick-start.md"}


def headings(page: Page) -> list[int]:
    """The levels of a page's headings, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", page.prose, re.MULTILINE)]


@pytest.mark.parametrize(("translation", "original"), TRANSLATED.items(), ids=list(TRANSLATED))
def test_a_translation_has_every_block_of_its_original(translation: str, original: str) -> None:
    assert list(Page(ROOT / translation).blocks()) == list(Page(ROOT / original).blocks())


@pytest.mark.parametrize(("translation", "original"), TRANSLATED.items(), ids=list(TRANSLATED))
def test_a_translation_is_cut_into_the_same_parts(translation: str, original: str) -> None:
    assert headings(Page(ROOT / translation)) == headings(Page(ROOT / original))
