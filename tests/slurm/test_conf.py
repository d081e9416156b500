"""The language of slurm.conf, as Slurm's own parser reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_operator.slurm.conf import MAX_INCLUDES, MAX_UNSAFE_LINES, Document, parse


def pairs(document: Document) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in document.entries]


def places(document: Document) -> list[tuple[str, int, int]]:
    return [(finding.code, finding.line, finding.column) for finding in document.findings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("TreeWidth=5", [("TreeWidth", "5")], id="no newline at the end"),
        pytest.param("TreeWidth = 5\r\n", [("TreeWidth", "5")], id="spaces and carriage return"),
        pytest.param("\t TreeWidth\t=\t5\n", [("TreeWidth", "5")], id="tabs"),
        pytest.param("# TreeWidth=5\n\n  \nA=1#x\n", [("A", "1")], id="comments and blank lines"),
        pytest.param('A="b c"\n', [("A", "b c")], id="quoted"),
        pytest.param('A=""\n', [("A", "")], id="empty in quotes"),
        pytest.param("A='b'\n", [("A", "'b'")], id="single quotes are text"),
        pytest.param("A=b\\#c # d\n", [("A", "b#c")], id="escaped hash"),
        pytest.param("A=b\\\\#c\n", [("A", "b\\")], id="a backslash of its own before a comment"),
        pytest.param("A=b\\cd\n", [("A", "bcd")], id="a backslash goes, what follows stays"),
        pytest.param("A=\\\n5\nB=6\n", [("A", "5"), ("B", "6")], id="continued"),
        pytest.param("A=\\  \t\n5\n", [("A", "5")], id="continued, with white space after the backslash"),
        pytest.param("A=5 \\ # why\n\nB=6\n", [("A", "5"), ("B", "6")], id="continued before a comment"),
        pytest.param("A=5 # why \\\nB=6\n", [("A", "5"), ("B", "6")], id="a comment does not continue"),
        pytest.param("A=5\\", [("A", "5")], id="continued into nothing"),
        pytest.param("A=b\\\\\nB=6\n", [("A", "b\\"), ("B", "6")], id="two backslashes do not continue"),
        pytest.param("\\\n\nA=1\n", [("A", "1")], id="a continued blank line"),
        pytest.param("a.b_1=x\n", [("a.b_1", "x")], id="dots and underscores in a key"),
    ],
)
def test_lines_are_read_as_slurm_reads_them(text: str, expected: list[tuple[str, str]]) -> None:
    document = parse(text)
    assert pairs(document) == expected
    assert document.findings == ()


def test_a_record_carries_its_other_pairs_and_their_places() -> None:
    text = '#\nPartitionName=p  Nodes=a[1-2] \\\n  Reason="x y" State=UP state=DOWN\n'
    (record,) = parse(text).entries
    assert (record.key, record.value, record.line, record.column, record.value_column) == (
        "PartitionName",
        "p",
        2,
        1,
        15,
    )
    assert [(pair.key, pair.value, pair.line, pair.column, pair.value_column) for pair in record.attributes] == [
        ("Nodes", "a[1-2]", 2, 18, 24),
        ("Reason", "x y", 3, 3, 10),
        ("State", "UP", 3, 16, 22),
        ("state", "DOWN", 3, 25, 31),
    ]
    state = record.attribute("STATE")
    assert state is not None
    assert state.value == "DOWN"
    assert record.attribute("Default") is None


def test_places_count_the_backslashes_that_are_dropped() -> None:
    document = parse("NodeSet=a\\#b Feature=\\#c Nodes=d\n")
    assert [pair.column for pair in document.entries[0].attributes] == [14, 26]


def test_the_last_value_wins_and_keys_know_no_case() -> None:
    document = parse("TreeWidth=5\nNodeName=a\ntreewidth=6\nNodeName=b\n")
    assert document.get("TREEWIDTH") == "6"
    assert document.get("KillWait") is None
    assert [entry.value for entry in document.all("nodename")] == ["a", "b"]


def test_an_operator_is_kept_beside_its_key() -> None:
    assert [entry.operator for entry in parse("A+=1\nB-=1\nC*=1\nD/=1\nE=+1\n").entries] == ["+", "-", "*", "/", ""]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        pytest.param("  garbage\n", ("NotAPair", 1, 3), id="a word"),
        pytest.param("=5\n", ("NotAPair", 1, 1), id="no key"),
        pytest.param("Tree-Width=5\n", ("NotAPair", 1, 1), id="a dash in a key"),
        pytest.param("\xa0\n", ("NotAscii", 1, 1), id="a space that is none to Slurm"),
        pytest.param("A=1\nTreeWidth=\n", ("EmptyValue", 2, 1), id="no value"),
        pytest.param("PartitionName=p Nodes=\n", ("EmptyValue", 1, 17), id="no value at the end of a record"),
        pytest.param("PartitionName=p Nodes= State=UP\n", ("EmptyValue", 1, 24), id="the next pair is swallowed"),
        pytest.param("A=1 B=2\n", ("TrailingText", 1, 5), id="two plain keys on one line"),
        pytest.param("PartitionName=p foo\n", ("TrailingText", 1, 17), id="a word in a record"),
        pytest.param("A=1 " + "x" * 99 + "\n", ("TrailingText", 1, 5), id="a long rest"),
        pytest.param('A="b\n', ("UnbalancedQuote", 1, 3), id="one quote"),
        pytest.param(" Include a\n", ("IndentedInclude", 1, 1), id="an indented include"),
        pytest.param("Include\n", ("MissingInclude", 1, 1), id="an include of nothing"),
        pytest.param("Include nofile\n", ("MissingInclude", 1, 9), id="a missing include"),
        pytest.param("A=\x01\n", ("ControlCharacter", 1, 3), id="a control character"),
        pytest.param("A=1\rB=2\n", ("ControlCharacter", 1, 4), id="a carriage return inside"),
        pytest.param("A=\ufffd\n", ("BadEncoding", 1, 3), id="a replacement character"),
        pytest.param("A=\udc80\n", ("BadEncoding", 1, 3), id="a surrogate"),
        pytest.param("\ufeffA=1\n", ("ByteOrderMark", 1, 1), id="a byte order mark"),
    ],
)
def test_what_slurm_would_refuse_or_misread_is_a_finding(text: str, finding: tuple[str, int, int]) -> None:
    document = parse(text)
    assert finding in places(document)
    assert all(found.severity == "error" for found in document.findings)
    assert all(len(found.message) < 200 for found in document.findings)


def test_quotes_do_not_protect_a_hash() -> None:
    document = parse('A="b#c"\n')
    assert ("HashInQuotes", 1, 5) in places(document)
    assert pairs(document) == [("A", '"b')]


def test_an_included_file_is_read_in_place() -> None:
    includes = {"nodes.conf": "NodeName=a\n", "c.conf": "KillWait=3\n"}
    document = parse("ClusterName=C\nInclude nodes.conf\ninclude\t/etc/slurm/%c.conf # x\nB=2\n", includes=includes)
    assert [(entry.file, entry.key) for entry in document.entries] == [
        ("slurm.conf", "ClusterName"),
        ("nodes.conf", "NodeName"),
        ("c.conf", "KillWait"),
        ("slurm.conf", "B"),
    ]
    assert document.findings == ()


def test_text_after_an_included_file_is_a_finding() -> None:
    assert places(parse("Include a B=1\n", includes={"a": ""})) == [("TrailingText", 1, 11)]


def test_an_include_circle_ends_with_a_finding_that_shows_it() -> None:
    document = parse("Include a\n", includes={"a": "X=1\nInclude b\n", "b": "Include a\nInclude slurm.conf\n"})
    assert places(document) == [("CyclicInclude", 1, 9), ("CyclicInclude", 2, 9)]
    assert "slurm.conf -> a -> b -> a" in document.findings[0].message


def test_includes_are_bounded_in_depth_and_number() -> None:
    chain = {f"f{n}": f"Include f{n + 1}\n" for n in range(20)}
    assert [finding.code for finding in parse("Include f0\n", includes=chain).findings] == ["IncludeTooDeep"]
    many = parse("Include a\n" * (MAX_INCLUDES + 2), includes={"a": "X=1\n"})
    assert [finding.code for finding in many.findings] == ["TooManyIncludes"] * 2


def test_a_finding_reads_as_one_line_for_a_person() -> None:
    (finding,) = parse("A=1\nInclude x\n", file="extra.conf").findings
    assert str(finding).startswith("extra.conf:2:9: error: included file x is missing")


def test_binary_rubbish_gives_a_bounded_number_of_findings_about_characters() -> None:
    document = parse("\x00\x01\n" * 500)
    assert sum(finding.code == "ControlCharacter" for finding in document.findings) == MAX_UNSAFE_LINES


def test_a_line_of_a_megabyte_is_read() -> None:
    assert len(parse("A=" + "x" * 1_000_000).entries[0].value) == 1_000_000
    assert len(parse("NodeName=a " + "Feature=x " * 100_000).entries[0].attributes) == 100_000
    assert len(parse("A=" + "\\x" * 500_000).entries[0].value) == 500_000


WORD = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='"#\\'), min_size=1, max_size=12)


@given(st.lists(st.tuples(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True), st.lists(WORD, max_size=3))))
def test_what_a_writer_wrote_is_read_back(written: list[tuple[str, list[str]]]) -> None:
    lines = [(key, " ".join(words)) for key, words in written if key.lower() not in {"include", "nodename"}]
    text = "".join(f'{key}="{value}"\n' for key, value in lines)
    document = parse(text, records=frozenset())
    assert pairs(document) == lines
    assert document.findings == ()


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    for finding in parse(text, includes={"a": text}).findings:
        assert finding.line >= 1
        assert finding.column >= 1


@given(st.text(alphabet='=\\#" \t\nabInclude\r', max_size=60))
def test_any_text_of_the_language_can_be_read(text: str) -> None:
    lines = text.split("\n")
    for entry in parse(text, includes={"a": "b=1"}).entries:
        if entry.file == "slurm.conf" and "\\" not in lines[entry.line - 1]:
            assert lines[entry.line - 1][entry.column - 1 :].startswith(entry.key)


def test_a_text_that_includes_nothing_is_read_once() -> None:
    """A megabyte of it was read six times in each reconcile: seconds of the event loop, for every cluster."""
    text = "NodeName=n1\nPartitionName=p Nodes=n1\n"
    assert parse(text) is parse(text, includes={"other.conf": "NodeName=n2"})


@pytest.mark.parametrize("written", ["Include other.conf", "incl\\\nude other.conf"], ids=["plain", "in two lines"])
def test_a_text_that_includes_something_is_read_with_it(written: str) -> None:
    text = f"NodeName=n1\n{written}\n"
    for name in ("n2", "n3"):
        found = parse(text, includes={"other.conf": f"NodeName={name}"})
        assert [entry.value for entry in found.all("NodeName")] == ["n1", name]
