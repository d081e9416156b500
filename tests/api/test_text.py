"""What a string may hold before it reaches a file, a command line or a drain reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurm_operator.api import text

Rule = Callable[[str], str | None]

BREAKS = ["a\nb", "a\rb", "a\x0bb", "a\x0cb", "a\x1cb", "a\x85b", "a\u2028b", "a\u2029b", "a\n"]
CONTROL = ["a\x00b", "a\x07b", "a\x1bb", "a\x7fb", "a\ufeffb", "a\ud800b", "a\tb", "a\u00a0b", "a\u3000b"]


@pytest.mark.parametrize("value", BREAKS, ids=ascii)
def test_one_line_has_no_line_break(value: str) -> None:
    assert "must be one line" in (text.one_line(value) or "")


@pytest.mark.parametrize("value", CONTROL, ids=ascii)
def test_one_line_has_no_control_character_and_no_odd_space(value: str) -> None:
    assert "control character" in (text.one_line(value) or "")


@pytest.mark.parametrize(
    ("value", "words"),
    [("a#b", "comment"), ("a\\", "backslash"), ("a\\n", "backslash"), ("x" * 8193, "at most 8192")],
    ids=["comment", "continuation", "escape", "too long"],
)
def test_one_line_hides_nothing(value: str, words: str) -> None:
    assert words in (text.one_line(value) or "")


@pytest.mark.parametrize("value", ["", "a", "Default=YES MaxTime=1:00", "名前", "x" * 8192])
def test_one_line_takes_plain_text(value: str) -> None:
    assert text.one_line(value) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [("", "empty"), ("a b", "neither spaces"), ('a"', "nor quotes"), ("a'", "nor quotes"), ("a\nb", "one line")],
    ids=["empty", "space", "double quote", "single quote", "line break"],
)
def test_a_value_is_one_word(value: str, words: str) -> None:
    assert words in (text.config_value(value) or "")


def test_a_value_may_hold_signs_that_slurm_uses() -> None:
    assert text.config_value("jwt_key=/etc/slurm/jwt.key,a(b)[1-2]") is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a=b\nc=\x00", "line 2"),
        ("a=b\rc=d", '"\\r" in line 1'),
        ("a=b\u2028c=d", "control character"),
        ("a=b\\", "end in a backslash"),
        ("a=b\\\n", "end in a backslash"),
        ("a=b \\ \t\n\n", "end in a backslash"),
        ("a=b\n" * 300_000, "at most 1000000"),
    ],
    ids=["NUL", "lone CR", "line separator", "backslash", "backslash and line end", "backslash and spaces", "long"],
)
def test_lines_for_a_file_cannot_reach_out_of_their_place(value: str, words: str) -> None:
    assert words in (text.config_text(value) or "")


@pytest.mark.parametrize("value", ["", "a=b\nc=d\n", "a=b\r\nc=d", "a=b \\\nc", "# x\n\tIndented yes"])
def test_lines_for_a_file_may_be_lines(value: str) -> None:
    assert text.config_text(value) is None


@pytest.mark.parametrize("sign", list("'\"`$;|&<>(){}!*?~"))
def test_a_word_for_a_command_line_has_no_sign_of_the_shell(sign: str) -> None:
    assert "shell" in (text.shell_quoted(f"a{sign}b") or "")


def test_a_word_for_a_command_line_may_be_a_gres() -> None:
    assert text.shell_quoted("gpu:a100:4") is None
    assert "one line" in (text.shell_quoted("a\nb") or "")


def test_options_are_pairs() -> None:
    assert list(text.options('Weight=1  Gres=gpu:4 A="b" C==')) == [
        ("Weight", "1"),
        ("Gres", "gpu:4"),
        ("A", '"b"'),
        ("C", "="),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Weight", "not of the form"),
        ("Weight=", "not of the form"),
        ("=1", "not an option name"),
        ("1a=1", "not an option name"),
        ("a-b=1", "not an option name"),
        ('A="b', "does not enclose"),
        ('A=b"', "does not enclose"),
        ('A="b"c', "does not enclose"),
        ('A="b c"', "does not enclose"),
    ],
)
def test_a_word_that_is_no_option_is_named(line: str, words: str) -> None:
    first = next(text.options(line))
    assert isinstance(first, str)
    assert words in first


NAMES: list[tuple[Rule, list[str], list[str]]] = [
    (text.dns_label, ["a", "node-1", "1", "x" * 63], ["", "-a", "a-", "A", "a.b", "a_b", "x" * 64, "a\n", "ä"]),
    (text.dns_subdomain, ["a", "a.b-c.d", "x" * 253], ["", ".a", "a.", "a..b", "A", "x" * 254, "a\n", "a/b"]),
    (text.hostname_prefix, ["a", "gpu-", "gpu--", "gpu-a1"], ["", "-", "-a", "gpu_", "a.b", "a\n", "a-\n"]),
    (text.slurm_name, ["a", "A_b.c-1", "x" * 255], ["", "-a", "a b", "a,b", "x" * 256, "a\n", "a[1]", "é"]),
    (text.cluster_name, ["slurm_slurm", "x" * 40], ["", "x" * 41, "a/b", "a\n"]),
    (text.host, ["db", "db.example", "10.0.0.1", "fe80::1", "a_b"], ["", "a b", "a/b", ":a", "a\n", "$(a)", "x" * 254]),
    (text.file_name, ["10-a.sh", "gres.conf", "a+b"], ["", "../a", ".a", "-a", "a b", "a/b", "a\n", "x" * 254]),
    (text.user_name, ["alice", "svc$", "a.b@c", "_x"], ["", "1a", "a b", "a\n", "a$b", "x" * 257, "root;id"]),
]


@pytest.mark.parametrize(
    ("rule", "value"),
    [(rule, value) for rule, good, _ in NAMES for value in good],
    ids=lambda item: item.__name__ if callable(item) else ascii(item)[:20],
)
def test_a_good_name_passes(rule: Rule, value: str) -> None:
    assert rule(value) is None


@pytest.mark.parametrize(
    ("rule", "value"),
    [(rule, value) for rule, _, bad in NAMES for value in bad],
    ids=lambda item: item.__name__ if callable(item) else ascii(item)[:20],
)
def test_a_bad_name_is_refused_in_one_line(rule: Rule, value: str) -> None:
    problem = rule(value)
    assert problem
    assert "\n" not in problem
