"""sshd_config: the operator's options, then the user's lines."""

from __future__ import annotations

import pytest

from slurm_operator.build import sshd
from slurm_operator.build.errors import InvalidSpec


@pytest.mark.parametrize(
    ("extra", "end"),
    [
        pytest.param(None, "\n", id="no lines"),
        pytest.param("A b\nC d\n", "A b\nC d\n", id="lines"),
        pytest.param("A b\r\nC d\r\n\n", "A b\nC d\n", id="line ends of Windows"),
    ],
)
def test_the_lines_of_a_user_come_last(extra: str | None, end: str) -> None:
    expected = "#\n### GENERAL ###\nUsePAM yes\n#\n### EXTRA CONFIG ###\n" + end
    assert sshd.config(["UsePAM yes"], extra, ("spec", "x")) == expected


@pytest.mark.parametrize("extra", ["A \x00", "Banner \x1b[0m", "A b\\"], ids=["NUL", "escape", "open end"])
def test_text_that_is_no_configuration(extra: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        sshd.config([], extra, ("spec", "extraSshdConfig"))
    assert caught.value.path == ("spec", "extraSshdConfig")
