"""Characters that only look like ASCII are named, with their column and what to write instead."""

from __future__ import annotations

import unicodedata

import pytest

from slurm_operator.slurm import conf_ascii
from slurm_operator.slurm.conf_lint import lint


@pytest.mark.parametrize(
    ("text", "column", "severity", "message"),
    [
        pytest.param(
            "TaskPlugin=\u201ctask/none\u201d\n",
            12,
            "error",
            "TaskPlugin: \u201c U+201C (left double quotation mark) in column 12 is not ASCII, and Slurm takes it"
            ' literally (expected ")',
            id="a quotation mark",
        ),
        pytest.param(
            "PartitionName=a\u00a0Nodes=ALL\n",
            15,
            "error",
            "PartitionName: U+00A0 (no-break space) in column 16 is not ASCII, and Slurm takes it literally"
            " (expected a plain space)",
            id="a space",
        ),
        pytest.param(
            "PartitionName=a Nodes=ALL MaxTime=1\u201300:00:00\n",
            35,
            "error",
            "MaxTime: \u2013 U+2013 (en dash) in column 36 is not ASCII, and Slurm takes it literally (expected -)",
            id="a dash in a time",
        ),
        pytest.param(
            "DownNodes=a Reason=\uff08disk\uff09\n",
            20,
            "warning",
            "Reason: \uff08 U+FF08 (fullwidth left parenthesis) in column 20 is not ASCII, and Slurm takes it literally"
            " (expected ()",
            id="a bracket in a text",
        ),
        pytest.param(
            "TreeWidth\uff1d4\n",
            10,
            "error",
            "\uff1d U+FF1D (fullwidth equals sign) in column 10 is not ASCII, and Slurm cannot read the line"
            " (expected =)",
            id="an equals sign",
        ),
        pytest.param(
            "PartitionName=a Nodes=ALL\u200b \u200bState=UP\n",
            23,
            "error",
            "Nodes: U+200B (zero width space) in column 26 is not ASCII, and Slurm takes it literally"
            " (expected nothing in its place)",
            id="a space without width",
        ),
        pytest.param(
            "Gr\u00f6\u00dfe=4\n",
            3,
            "error",
            "\u00f6 U+00F6 (latin small letter o with diaeresis) in column 3 is not ASCII, and Slurm cannot read the"
            " line (expected an ASCII character)",
            id="a letter in a key",
        ),
    ],
)
def test_a_character_is_named_with_its_column_and_the_one_to_use(
    text: str, column: int, severity: str, message: str
) -> None:
    found = [each for each in lint({"slurm.conf": text}) if each.code == "NotAscii"]
    assert (found[0].column, found[0].severity, found[0].without_place) == (column, severity, message)


@pytest.mark.parametrize(
    "text",
    ["# \u201cnotes\u201d \u2013 and more\nTreeWidth=4  # \u201cfour\u201d\n", "DownNodes=a Reason=\u78c1\u789f\n"],
    ids=["a comment", "letters in a text"],
)
def test_comments_and_letters_of_a_text_are_let_be(text: str) -> None:
    assert lint({"slurm.conf": text}) == []


def test_every_lookalike_is_unlike_ascii_and_has_a_name() -> None:
    for odd, plain in conf_ascii.LOOKALIKES.items():
        assert not odd.isascii()
        assert plain.isascii()
        assert unicodedata.name(odd)
