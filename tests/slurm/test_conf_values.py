"""Kinds of values: what Slurm's own readers take, what they refuse, what they silently misread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_operator.slurm.conf_values import (
    AbsolutePath,
    Choices,
    Decimal,
    Duration,
    Hosts,
    Number,
    Pattern,
    Plugin,
    Ports,
    Seconds,
    Span,
    Text,
    ValueType,
    Version,
    YesNo,
    closest,
    parse_version,
    spans,
    to_int,
)

U16, U32, U64 = Number(16), Number(32), Number(64)
FLAGS = Choices("Alloc Contain PRIORITY>=25.05 Old<=24.11")
STATE = Choices("UP DOWN", many=False)
SELECT = Plugin("select", "cons_tres linear new>=26.05")
SUBMIT = Plugin("job_submit", "none lua throttle", many=True, bare=True, is_open=True)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Text(), "anything at all"),
        *((U16, value) for value in ("0", "65535", "0x10", "UNLIMITED", "infinite", "+5")),
        *((U32, value) for value in ("4294967295", "1k", "1K", "0x10k")),
        (U64, "18446744073709551615"),
        (Number(16, low=1, high=2), "2"),
        *((YesNo(), value) for value in ("YES", "no", "up", "DOWN", "True", "false", "1", "0")),
        *((Duration(), value) for value in ("0", "90", "90:00", "1:2:3", "1-", "1-0", "1-0:0", "7-00:00:00", "-1")),
        *((Duration(), value) for value in ("INFINITE", "unlimited")),
        *((Seconds(), value) for value in ("300", "-1", "INFINITE")),
        *((Decimal(), value) for value in ("100", "97.5", "+3", ".5", "3.")),
        *((FLAGS, value) for value in ("alloc", "Alloc,CONTAIN", "Alloc,,Contain,", "PRIORITY", "old", "")),
        (Choices("CLOUD DRAIN", separator="+"), "CLOUD+DRAIN"),
        (STATE, "up"),
        *((SELECT, value) for value in ("select/linear", "select/new")),
        *((SUBMIT, value) for value in ("lua", "job_submit/lua", "lua,throttle")),
        (Plugin("jobcomp", "none lua"), "none"),
        (Pattern("[a-z]+", "letters"), "ABC"),
        *((Ports(), value) for value in ("6817", "6817-6820", "65535")),
        *((AbsolutePath(), value) for value in ("/var/x", "")),
        *((Hosts(), value) for value in ("a", "a[1-3],b", "a,b")),
    ],
)
def test_good_values_have_no_complaint(kind: ValueType, value: str) -> None:
    assert kind.check(value, None) is None


@pytest.mark.parametrize(
    ("kind", "value", "severity", "code", "suggestion"),
    [
        *((U16, value, "error", "BadValue", None) for value in ("", "abc", "-1", "1.5", "3k", "65536", "08", "5s")),
        *((U32, value, "error", "BadValue", None) for value in ("4294967296", "1m", "9" * 5000)),
        (U16, "010", "warning", "OctalNumber", "10"),
        (Number(16, high=1), "2", "warning", "BadValue", None),
        (Number(32, low=1, refused=True), "0", "error", "BadValue", None),
        (YesNo(), "on", "error", "BadValue", "YES"),
        (YesNo(), "off", "error", "BadValue", "NO"),
        (YesNo(), "maybe", "error", "BadValue", None),
        *((Duration(), value, "error", "BadValue", None) for value in ("", "1d", "1.5", "1:2:3:4", "99999999999")),
        *((Seconds(), value, "error", "BadValue", None) for value in ("abc", "5:00", "")),
        *((Decimal(), value, "error", "BadValue", None) for value in ("", "x", "1.2.3", ".")),
        (FLAGS, "Alloc,Contian", "error", "BadValue", "Contain"),
        (STATE, "", "error", "BadValue", None),
        (STATE, "UP,DOWN", "error", "BadValue", "DOWN"),
        (Choices("a", severity="warning"), "b", "warning", "BadValue", None),
        (SELECT, "cons_tres", "error", "BadValue", "select/cons_tres"),
        (SELECT, "sched/linear", "error", "BadValue", "select/linear"),
        (SELECT, "select/cons_res", "error", "UnknownPlugin", "select/cons_tres"),
        (SELECT, "none", "error", "BadValue", "select/none"),
        (SUBMIT, "lua,trottle", "warning", "UnknownPlugin", "job_submit/throttle"),
        (Pattern("[a-z]+", "letters", severity="warning"), "1", "warning", "BadValue", None),
        *((Ports(), value, "error", "BadValue", None) for value in ("0", "70000", "6820-6817", "x", "1-", "")),
        (AbsolutePath(), "var/x", "warning", "RelativePath", None),
        (Hosts(), "a[1", "error", "BadHostList", None),
    ],
)
def test_bad_values_say_what_is_wrong(
    kind: ValueType, value: str, severity: str, code: str, suggestion: str | None
) -> None:
    complaint = kind.check(value, None)
    assert complaint is not None
    assert (complaint.severity, complaint.code, complaint.suggestion) == (severity, code, suggestion)


@pytest.mark.parametrize(
    ("kind", "value", "version", "message"),
    [
        (FLAGS, "PRIORITY", (24, 11), "PRIORITY needs Slurm 25.05 or newer, this is 24.11"),
        (FLAGS, "Old", (25, 5), "Slurm knows Old only up to 24.11, this is 25.05"),
        (SELECT, "select/new", (25, 11), "new needs Slurm 26.05 or newer, this is 25.11"),
    ],
)
def test_a_value_of_another_version_is_named_as_such(
    kind: ValueType, value: str, version: Version, message: str
) -> None:
    complaint = kind.check(value, version)
    assert complaint is not None
    assert (complaint.code, complaint.message) == ("WrongVersion", message)


def test_what_is_expected_lists_only_what_the_version_knows() -> None:
    complaint = FLAGS.check("x", (26, 5))
    assert complaint is not None
    assert complaint.expected == "Alloc, Contain, PRIORITY"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("26.05", (26, 5)),
        ("24.11.5-1", (24, 11)),
        ("v25.05", (25, 5)),
        ("slurm-25-11-2-1", (25, 11)),
        ("latest", None),
        ("26.055", None),
        ("", None),
    ],
)
def test_versions_are_read_from_the_forms_people_write(text: str, version: Version | None) -> None:
    assert parse_version(text) == version


def test_spans_carry_their_bounds() -> None:
    assert spans("a b>=25.05 c=d<=24.11") == [Span("a"), Span("b", (25, 5)), Span("c=d", None, (24, 11))]


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), ("0x1F", 31), ("017", 15), ("0", 0), ("2k", 2048), ("08", None), ("x", None)]
)
def test_numbers_are_read_as_c_reads_them(text: str, number: int | None) -> None:
    assert to_int(text) == number


def test_the_closest_word_keeps_its_spelling() -> None:
    assert closest("treewith", ["TreeWidth", "KillWait"]) == "TreeWidth"
    assert closest("xyz", ["TreeWidth"]) is None


@given(
    st.sampled_from(
        [
            U16,
            U64,
            YesNo(),
            Duration(),
            Seconds(),
            Decimal(),
            FLAGS,
            STATE,
            SELECT,
            SUBMIT,
            Ports(),
            AbsolutePath(),
            Hosts(),
        ]
    ),
    st.text(),
)
def test_no_value_makes_a_kind_raise(kind: ValueType, value: str) -> None:
    complaint = kind.check(value, (26, 5))
    assert complaint is None or complaint.message
