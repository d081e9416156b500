"""Host lists: what Slurm expands, what it prints, what is refused and where."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_operator.slurm.hostlist import MAX_NAMES, HostList, HostListError, compress, count, edit, expand, ranges

NAMES = st.lists(st.from_regex(r"[a-z]{0,2}[0-9]{0,4}[a-z-]{0,1}[0-9]{0,20}", fullmatch=True).filter(bool), max_size=20)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("login", ["login"], id="one name"),
        pytest.param("a,b", ["a", "b"], id="two names"),
        pytest.param(",a,, b\tc,\n", ["a", "b", "c"], id="empty items and white space separate"),
        pytest.param("n[1-3,7]r[0-1]", [f"n{n}r{r}" for n in (1, 2, 3, 7) for r in (0, 1)], id="two brackets"),
        pytest.param("a[001-3]", ["a001", "a002", "a003"], id="padding of the first number"),
        pytest.param("a[9-010]", ["a9", "a10"], id="padding of the last number does not count"),
        pytest.param("a[1,2,5-6]x", ["a1x", "a2x", "a5x", "a6x"], id="text after a bracket"),
        pytest.param("[1-2]", ["1", "2"], id="only a bracket"),
        pytest.param("a[1-2][3-4]", ["a13", "a14", "a23", "a24"], id="brackets side by side"),
        pytest.param("a[1-3],a2", ["a1", "a2", "a3", "a2"], id="duplicates stay"),
        pytest.param("x[100000000000-100000000001]", ["x100000000000", "x100000000001"], id="large numbers"),
    ],
)
def test_expand_gives_the_names_that_scontrol_show_hostnames_prints(text: str, names: list[str]) -> None:
    assert expand(text) == names
    assert count(text) == len(names)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        pytest.param("a[1", 2, "never closed", id="open bracket"),
        pytest.param("b,a]", 4, "without '['", id="closing bracket alone"),
        pytest.param("a[[1]]", 2, "never closed", id="bracket in a bracket"),
        pytest.param("a[]", 3, "is not a number", id="empty bracket"),
        pytest.param("a[1,x]", 5, "'x' is not a number", id="a word in a bracket"),
        pytest.param("a[1-]", 3, "is not a number", id="range without an end"),
        pytest.param("a[1-2-3]", 3, "is not a number", id="range with two dashes"),
        pytest.param("a[1,3-2]", 5, "runs backwards", id="backwards"),
        pytest.param("z,a[0-99999999]", 3, f"more than {MAX_NAMES}", id="too many names"),
        pytest.param("a[0-999][0-999]", 1, f"more than {MAX_NAMES}", id="too many by multiplication"),
        pytest.param("a" + "[0-999999999999999999]" * 200, 1, f"more than {MAX_NAMES}", id="bomb"),
    ],
)
def test_a_malformed_list_is_an_error_that_names_the_column(text: str, column: int, problem: str) -> None:
    with pytest.raises(HostListError, match=f"column {column}: ") as caught:
        expand(text)
    assert caught.value.column == column
    assert problem in caught.value.problem
    assert len(str(caught.value)) < 250
    with pytest.raises(HostListError):
        count(text)


def test_the_limit_counts_all_items_together() -> None:
    assert len(expand("a[1-6],b[1-4]", limit=10)) == 10
    with pytest.raises(HostListError, match="more than 10"):
        expand("a[1-6],b[1-5]", limit=10)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("a3 a1 a2", "a[3,1-2]"),
        ("a1 b1 a2", "a1,b1,a2"),
        ("a01 a02 a3", "a[01-02,3]"),
        ("a9 a10 a11", "a[9-11]"),
        ("a09 a10 a11", "a[09-11]"),
        ("a099 a100 a101", "a[099-101]"),
        ("a1 a1 a2", "a[1,1-2]"),
        ("n1r0 n1r1 n2r0 n2r1", "n1r[0-1],n2r[0-1]"),
        ("a b", "a,b"),
        ("a a", "a,a"),
        ("1 2 3", "[1-3]"),
        ("a1b a2b", "a1b,a2b"),
        ("a1 a3 a5 a6", "a[1,3,5-6]"),
        ("a0 a00 a000", "a[0,00,000]"),
        ("a1 a2 a4 b a5", "a[1-2,4],b,a5"),
        ("", ""),
    ],
)
def test_compress_writes_what_scontrol_show_hostlist_prints(names: str, text: str) -> None:
    assert compress(names.split()) == text


@given(NAMES)
def test_expanding_what_was_compressed_gives_the_same_names(names: list[str]) -> None:
    assert expand(compress(names)) == names


@given(st.text(max_size=40))
def test_any_text_is_a_list_or_a_host_list_error(text: str) -> None:
    column = 1
    try:
        names = expand(text, limit=1000)
    except HostListError as error:
        column = error.column
    else:
        assert len(names) == count(text, limit=1000)
    assert 1 <= column <= len(text) + 1


@pytest.mark.parametrize(
    ("change", "after"),
    [
        pytest.param("+a[1-2],-b3", ["a1", "a2"], id="add and remove"),
        pytest.param("-a1,+a1", ["b3", "a1"], id="in the order written"),
        pytest.param("-nosuch", ["a1", "b3"], id="removing what is not there"),
        pytest.param("c[1-2],c1", ["c1", "c2"], id="no sign replaces"),
        pytest.param("", [], id="an empty change replaces with nothing"),
    ],
)
def test_edit_applies_signs(change: str, after: list[str]) -> None:
    assert edit(["a1", "b3", "a1"], change) == after


@pytest.mark.parametrize(
    ("change", "column"),
    [
        pytest.param("+a,b", 4, id="a sign is missing"),
        pytest.param("+,a", 2, id="a name is missing"),
        pytest.param("-[x]", 3, id="malformed"),
    ],
)
def test_a_malformed_edit_names_the_column(change: str, column: int) -> None:
    with pytest.raises(HostListError) as caught:
        edit([], change)
    assert caught.value.column == column


LISTS = st.sampled_from(
    ["n[0-9]", "n[00-12]", "n[8-11]", "n[0-3][0-3]", "[1-3]0[0-1]", "a,b[1,3,5-6]x", "n[1-3],n2", "", "n[007-8],n[7-8]"]
)


@given(LISTS, st.from_regex(r"[abn]?[0-9]{0,4}x?", fullmatch=True))
def test_a_compressed_list_has_exactly_the_names_that_it_expands_to(text: str, name: str) -> None:
    hosts = HostList(text)
    assert (name in hosts) == (name in expand(text))
    assert list(hosts) == expand(text)
    assert len(hosts) == hosts.count == count(text)


@given(LISTS, st.frozensets(st.from_regex(r"[abn]?[0-9]{1,3}x?", fullmatch=True), max_size=30))
def test_the_names_within_a_set_are_the_same_by_either_way(text: str, known: frozenset[str]) -> None:
    assert HostList(text).within(known) == known & frozenset(expand(text))


def test_a_compressed_list_is_its_text() -> None:
    assert HostList("n[0-1]") == HostList("n[0-1]")
    assert hash(HostList("n[0-1]")) == hash(HostList("n[0-1]"))
    assert HostList("n[0-1]") != HostList("n[0,1]")
    assert HostList.of("n0", "n1", "m") == HostList("n[0-1],m")
    assert not HostList()
    assert 7 not in HostList("n7")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("n[0-100000]", id="too many names in a range"),
        pytest.param("n[" + "1," * 100_000 + "1]", id="too many numbers in a bracket"),
        pytest.param("n" * 300 + "[0-99999]", id="a name that would be copied a hundred thousand times"),
        pytest.param("[1]" * 300, id="too many brackets in a name"),
        pytest.param("n[" + "x" * 1_000_000 + "]", id="a megabyte that is no number"),
    ],
)
def test_a_list_above_its_budget_is_refused_with_a_short_error(text: str) -> None:
    with pytest.raises(HostListError) as raised:
        HostList(text)
    assert len(str(raised.value)) < 300


def test_a_large_list_is_asked_without_being_expanded() -> None:
    """T11: forty of these cost 4.1 s and 282 MiB when each was expanded."""
    tracemalloc.start()
    lists = [HostList(f"n[{number}-{number + 99_000}]") for number in range(40)]
    known = frozenset(f"n{number}" for number in range(100))
    assert all("n98999" in each and "n99999999" not in each for each in lists)
    assert sum(len(each.within(known)) for each in lists) == sum(100 - number for number in range(40))
    _, max_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max_bytes < 500_000


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        pytest.param(["x1", "x0", "x2"], ["x[0-2]"], id="one range"),
        pytest.param(["x10", "x8", "x9"], ["x[8-10]"], id="over a power of ten"),
        pytest.param(["x08", "x09", "x10"], ["x[08-10]"], id="padded"),
        pytest.param(["x9", "x010"], ["x9", "x010"], id="of two paddings"),
        pytest.param(["c-1", "c-3", "d-2"], ["c-1", "c-3", "d-2"], id="with gaps"),
        pytest.param(["a", "b"], ["a", "b"], id="without numbers"),
        pytest.param([], [], id="none"),
    ],
)
def test_ranges_hold_no_comma(names: list[str], texts: list[str]) -> None:
    assert [compress(each) for each in ranges(names)] == texts
