"""What reaches a terminal or a program: nothing in it acts, and JSON is JSON."""

from __future__ import annotations

import json

import click
import pytest
import yaml

from slurm_operator.cli.kubectl import view
from slurm_operator.diagnose.cause import Cause, Fine, Unseen

ODD = {
    "an escape sequence": "a\x1b[2J\x1b]0;x\x07b",
    "control characters": "a\x00\x08\x7f\x85b",
    "line breaks": "a\r\nb\u2028c",
    "bidi overrides": "a\u202eb\u2066c\u200f",
    "half a surrogate": "a\ud800b",
    "a byte order mark": "\ufeffa",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_diagnosis_on_a_terminal_is_only_text(text: str) -> None:
    for answer in (Cause("C", text, text, (text, text)), Fine(text), Unseen(text, text)):
        shown = click.unstyle(view.answer_text(answer))
        assert all(line.isprintable() for line in shown.rstrip("\n").split("\n"))
        shown.encode()


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_cell_keeps_its_own_colour_and_nothing_else(text: str) -> None:
    own = click.style("ok", fg="green")
    shown = view.table(["A", "B"], [[text, f"1 {own}"]])
    assert own in shown
    lines = click.unstyle(shown).rstrip("\n").split("\n")
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_data_for_machines_is_valid_and_does_not_act(text: str, output: str) -> None:
    written = view.data({"name": text, "é": "é"}, output)
    assert written.encode()
    assert all(line.isprintable() for line in written.split("\n"))
    read = json.loads(written) if output == "json" else yaml.safe_load(written)
    assert read == {"name": text, "é": "é"}


def test_what_is_endless_is_cut() -> None:
    assert len(view.answer_text(Fine("x" * 1_000_000))) < 3000
