"""Manifests in, objects with their lines out: `slurm_operator.cli.manifests`."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.yaml_text import problems, values

from slurm_operator.cli import manifests, yaml_document
from slurm_operator.cli.manifests import Manifest, parse, read, read_mapping
from slurm_operator.cli.places import Problem

pytestmark = pytest.mark.usefixtures("parser")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("# only a remark\n", [], id="a remark"),
        pytest.param("---\n---\n...\n---\n# x\n", [], id="empty documents"),
        pytest.param("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}], id="two documents"),
        pytest.param("%YAML 1.1\n---\na: 1\n", [{"a": 1}], id="a directive"),
        pytest.param("\ufeffa: 1\n", [{"a": 1}], id="a byte order mark"),
        pytest.param("a: 1\r\nb: 2\r\n", [{"a": 1, "b": 2}], id="Windows line ends"),
        pytest.param('{"a": [1, {"b": null}]}', [{"a": [1, {"b": None}]}], id="JSON"),
        pytest.param('{"a": 1}\n{"a": 2}{"a": 3}\n', [{"a": 1}, {"a": 2}, {"a": 3}], id="JSON objects in a row"),
        pytest.param('{"a": 1}\n{"a": 2}\n---\nb: 3\n', [{"a": 1}, {"a": 2}, {"b": 3}], id="JSON, then YAML"),
        pytest.param(r'{"a": "\ud83d\ude00 \\ud83d\\ude00"}', [{"a": "😀 \\ud83d\\ude00"}], id="JSON surrogates"),
        pytest.param("a: |\n  x\n  --- y\nb: >-\n  p\n  q\n", [{"a": "x\n--- y\n", "b": "p q"}], id="block scalars"),
        pytest.param("a: &x {b: 1}\nc: *x\n", [{"a": {"b": 1}, "c": {"b": 1}}], id="an alias"),
        pytest.param("a: &x 1\nc: [*x, *x]\n", [{"a": 1, "c": [1, 1]}], id="an alias of a scalar"),
        pytest.param(
            "a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n", [{"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}}],
            id="a merge key gives way to own keys",
        ),
        pytest.param("b:\n  <<: [{p: 1}, {p: 2, q: 2}]\n", [{"b": {"p": 1, "q": 2}}], id="merged objects: first wins"),
        pytest.param("a: {'<<': 1}", [{"a": {"<<": 1}}], id="a quoted merge key is text"),
        pytest.param("a: !!map {b: !!seq [1]}", [{"a": {"b": [1]}}], id="core tags of collections"),
    ],
)  # fmt: skip
def test_documents_are_read(text: str, expected: list[Any]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", ["3:1 duplicate key 'a': it is already on line 1"], id="duplicate key"),
        pytest.param('{"x": {"a": 1,\n "a": 2}}', ["2:2 duplicate key 'a': it is already on line 1"], id="in JSON"),
        pytest.param(
            "a: 1\na: 2\nb: {c: 1, c: 2}\n",
            ["2:1 duplicate key 'a': it is already on line 1", "3:11 duplicate key 'c': it is already on line 3"],
            id="every duplicate key is told",
        ),
        pytest.param("1: a\n", ["1:1 a key is read as a number: put it in quotes to make it text"], id="number as key"),
        pytest.param("x:\n  on: a\n", ["2:3 a key is read as a boolean: put it in quotes to make it text"], id="on"),
        pytest.param("~: a\n", ["1:1 a key is read as null: put it in quotes to make it text"], id="null as key"),
        pytest.param("{[a]: b}", ["1:2 a key is read as a list: put it in quotes to make it text"], id="list as key"),
        pytest.param("? {a: 1}\n: b\n", ["1:3 a key is read as an object: put it in quotes to make it text"], id="map"),
        pytest.param("- a\n", ["1:1 is a list: a manifest is an object with apiVersion and kind"], id="a list"),
        pytest.param("hello", ["1:1 is text: a manifest is an object with apiVersion and kind"], id="a word"),
        pytest.param("true", ["1:1 is a boolean: a manifest is an object with apiVersion and kind"], id="a boolean"),
        pytest.param("a: !!python/object:os.system x\n",
                     ["1:4 tag !!python/object:os.system is not allowed in a manifest: remove it"], id="a Python tag"),
        pytest.param("a: !mine [1]\n", ["1:4 tag !mine is not allowed in a manifest: remove it"], id="a foreign tag"),
        pytest.param("a: !!binary aGk=\n", ["1:4 tag !!binary is not allowed in a manifest: remove it"], id="binary"),
        pytest.param("a: !!int x\n", ["1:4 'x' is not of the type that its tag !!int says"], id="a lying tag"),
        pytest.param("a: !!int yes\n", ["1:4 'yes' is not of the type that its tag !!int says"], id="true is no int"),
        pytest.param("a: .inf\n", ["1:4 inf is not a number that Kubernetes takes: put it in quotes to make it text"],
                     id="infinity"),
        pytest.param("a: *x\n", ["1:4 alias *x has no anchor &x before it"], id="alias without anchor"),
        pytest.param("a: &x\n  b: *x\n", ["2:6 alias *x stands inside &x itself: this would never end"], id="a cycle"),
        pytest.param("a:\n  <<: 1\n", ["2:7 << takes an object, or a list of objects"], id="merge of a number"),
        pytest.param("a:\n  <<: [{b: 1}, 1]\n", ["2:16 << takes an object, or a list of objects"], id="merge of list"),
        pytest.param("a:\n\t- b\n", ["2:1 a tab cannot indent YAML: use spaces"], id="a tab"),
        pytest.param(b"a: 1\nb: \xff\n", ["2:4 byte 0xff is not UTF-8: save the file as UTF-8"], id="not UTF-8"),
        pytest.param(b"a: 1\nb: \0\n", ["2:4 NUL byte: this is not a text file"], id="NUL"),
        pytest.param("a: 1".encode("utf-16"), ["1:1 UTF-16 text: save it as UTF-8"], id="UTF-16"),
        pytest.param("a: \x07\n", ["1:4 character U+0007 is not allowed in YAML: remove it"], id="control character"),
        pytest.param(
            "kind: List\nitems: 5\n", ["2:1 items of a List must be a list, not a number"], id="a List without list"
        ),
        pytest.param(
            "kind: List\nitems:\n- a\n", ["3:3 is text: a manifest is an object with apiVersion and kind"],
            id="a List of words",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_told_with_its_place(text: str | bytes, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: [1\nb: 2\n", 2, id="an open bracket"),
        pytest.param('a: 1\nb: "x\n', 3, id="an open quote"),
        pytest.param("a: 1\n b: 2\n", 2, id="wrong indentation"),
        pytest.param("a: b: c\n", 1, id="two colons"),
        pytest.param('a: "\\ud800"\n', 1, id="half a character"),
        pytest.param('a: "\\UFFFFFFFF"\n', 1, id="a character beyond Unicode"),
        pytest.param("%YAML 1.1\na: 1\n", 2, id="a lost directive"),
    ],
)
def test_a_syntax_error_is_told_with_its_line(text: str, line: int) -> None:
    (found,) = parse(text.encode(), "f.yaml")
    assert isinstance(found, Problem)
    assert found.line == line
    assert found.message.startswith("not valid YAML: ")
    assert "\n" not in found.message


def test_a_syntax_error_says_where_the_broken_part_began() -> None:
    (message,) = problems("a: 1\nspec:\n  x: [1, 2\n  y: 3\n---\n[")[:1]
    assert "starts on line 3" in message


def test_a_broken_document_does_not_hide_the_next() -> None:
    text = "a: 1\n---\nb: [\n---\nc: 3\n---\nd: 1\nd: 2\n---\ne: 5\n"
    found = list(parse(text.encode(), "f.yaml"))
    assert [type(one) for one in found] == [Manifest, Problem, Manifest, Problem, Manifest]
    assert [one.document for one in found if isinstance(one, Manifest)] == [1, 3, 5]
    assert [one.places.line(()) for one in found if isinstance(one, Manifest)] == [1, 5, 10]


def test_what_was_wrong_before_a_syntax_error_is_told_too() -> None:
    assert [one.split(" ")[0] for one in problems("a: 1\na: 2\nb: [\n")] == ["2:1", "4:1"]


def test_a_flood_of_problems_is_cut() -> None:
    assert len(problems("a: 1\n" * 100)) == yaml_document.MAX_PROBLEMS_PER_DOCUMENT


def test_a_file_full_of_broken_documents_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_REPARSED", 1000)
    assert problems("[\n---\n" * 100)[-1].endswith("too many broken documents: fix the ones above first")


def test_a_list_is_taken_apart_and_places_follow() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- kind: A\n- kind: List\n  items:\n  - kind: B\n    x: 1\n"
    found = [one for one in parse(text.encode(), "f.yaml") if isinstance(one, Manifest)]
    assert [one.value["kind"] for one in found] == ["A", "B"]
    assert [one.places.line(("x",)) for one in found] == [4, 8]
    assert [one.document for one in found] == [1, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "{apiVersion: v1, kind: PodList, items: [{x: 1}, {kind: Other}]}",
            [{"apiVersion": "v1", "kind": "Pod", "x": 1}, {"apiVersion": "v1", "kind": "Other"}],
            id="items of a typed list get its type",
        ),
        pytest.param("{kind: List}", [], id="a List without items"),
        pytest.param("{kind: List, items: null}", [], id="a List with null"),
        pytest.param("{kind: AllowList, spec: 1}", [{"kind": "AllowList", "spec": 1}], id="a kind that ends so"),
    ],
)
def test_lists(text: str, expected: list[Any]) -> None:
    assert values(text) == expected


def test_words_in_a_typed_list_are_told() -> None:
    assert problems("kind: PodList\nitems: [a]\n")[0].startswith("2:9 is text")


def sources(*paths: str, stdin: bytes = b"") -> list[str]:
    return [str(one) if isinstance(one, Problem) else one.source for one in read(paths, io.BytesIO(stdin))]


def test_directories_are_read_in_name_order_with_all_below(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.yml", "a/b.JSON", "a.txt", ".hidden.yaml", ".git/x.yaml", "c/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a: 1")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "linked.yaml").symlink_to(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "pipe.yaml")
    found = [str(Path(source).relative_to(tmp_path)) for source in sources(str(tmp_path))]
    assert found == ["a/b.JSON", "a/z.yml", "b.yaml", "linked.yaml"]


def test_a_directory_without_manifests_is_told(tmp_path: Path) -> None:
    assert sources(str(tmp_path)) == [f"{tmp_path}: no .yaml, .yml or .json file in or below this directory"]


def test_a_broken_link_in_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "gone")
    assert sources(str(tmp_path))[0].startswith(f"{tmp_path}/a.yaml: no such file or directory")


def test_a_missing_file_says_what_to_do_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a: 1")
    gone = tmp_path / "gone.yaml"
    hint = f"{gone}: no such file or directory: check the path, or give - to read standard input"
    assert sources(str(gone), str(tmp_path / "a"), "-", stdin=b"b: 1") == [hint, str(tmp_path / "a"), "<stdin>"]


def denied(*_: object, **__: object) -> Any:
    raise PermissionError(13, "Permission denied")


def broken(*_: object, **__: object) -> Any:
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        pytest.param(denied, "permission denied: check who may read it", id="no permission"),
        pytest.param(broken, "cannot be read: Input/output error", id="a bad disk"),
    ],
)
@pytest.mark.parametrize("method", ["open", "iterdir"])
def test_unreadable_files_and_directories_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, failure: Any, message: str
) -> None:
    # Root reads everything, so the refusal has to be staged.
    target = tmp_path / "a.yaml" if method == "open" else tmp_path
    (tmp_path / "a.yaml").write_text("a: 1")
    monkeypatch.setattr(Path, method, failure)
    assert sources(str(target)) == [f"{target}: {message}"]


def test_a_path_that_cannot_exist_is_told() -> None:
    assert sources("a\0b") == ["a\0b: not a valid path"]


def test_a_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.BytesIO()
    closed.close()
    monkeypatch.setattr(sys, "stdin", None)
    told = "<stdin>: standard input is closed: pipe a manifest in, or name a file"
    assert [str(one) for one in (*read(["-"], closed), *read(["-"]))] == [told, told]


def test_a_file_that_is_too_large_is_told(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as stream:
        stream.truncate(manifests.MAX_BYTES + 1)
    assert sources(str(tmp_path / "a.yaml")) == [f"{tmp_path}/a.yaml: larger than 16 MB: split it into several files"]


def test_documents_are_handed_out_before_the_rest_is_parsed() -> None:
    stream = parse(b"a: 1\n---\n" + b"x: 1\n" * 10 + b"[", "f.yaml")
    first = next(stream)
    assert isinstance(first, Manifest)
    assert first.value == {"a": 1}


def test_import_draws_in_neither_rich_nor_click() -> None:
    script = "import sys, slurm_operator.cli.manifests; print({'rich', 'click', 'asyncio'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                         env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})  # fmt: skip
    assert ran.stdout.strip() == "set()"


YAML_TOKENS = st.sampled_from(
    ["a", "b: ", "- ", "? ", ": ", "\n", "\n  ", "[", "]", "{", "}", ",", "&a ", "*a", "!!int ", "!x ", "|\n", ">-\n",
     '"', "'", "#", "\t", "---\n", "...\n", "%YAML 1.1\n", "<<: ", "1e3", "0x1", "\\ud800", "\\", "kind: List\n",
     "items:", "é", "\u2028", "\x85", "\r", "~"]
)  # fmt: skip


@pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader], ids=["libyaml", "pure Python"])
class TestNothingRaises:
    @settings(deadline=None)
    @given(data=st.binary(max_size=200))
    def test_on_bytes(self, loader: Any, data: bytes) -> None:
        check(loader, data)

    @settings(deadline=None)
    @given(text=st.text(max_size=200))
    def test_on_text(self, loader: Any, text: str) -> None:
        check(loader, text.encode("utf-8", "surrogatepass"))

    @settings(deadline=None)
    @given(tokens=st.lists(YAML_TOKENS, max_size=40))
    def test_on_pieces_of_yaml(self, loader: Any, tokens: list[str]) -> None:
        check(loader, "".join(tokens).encode())


def check(loader: Any, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "_LOADER", loader)
        for one in parse(data, "f.yaml"):
            if isinstance(one, Manifest):
                json.dumps(one.value, allow_nan=False).encode()
            else:
                assert one.message
                assert one.line >= 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=3))
def test_json_is_read_as_json(value: dict[str, Any]) -> None:
    assert values(json.dumps({"v": value})) == [{"v": value}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", {}, id="an empty file"),
        pytest.param("# only a remark\n---\n", {}, id="empty documents"),
        pytest.param("kind: List\nitems: [1]\n", {"kind": "List", "items": [1]}, id="keys of a manifest mean nothing"),
        pytest.param("- 1\n", "FILE:1: must be a mapping, not a list", id="a list"),
        pytest.param("a: 1\n---\nb: 2\n", "FILE:3: a second document: only one is read; remove it", id="two documents"),
        pytest.param("a: 1\n---\nb: [\n", "FILE:4: not valid YAML", id="a second document that is broken"),
        pytest.param("a: " + "[" * 20_000, "FILE:1: nested deeper than 100 levels", id="too deep"),
    ],
)
def test_a_file_of_flags_or_values_holds_one_mapping(text: str, expected: object, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    found = read_mapping(file)
    if isinstance(expected, str):
        assert str(found).replace(str(file), "FILE").startswith(expected)
    else:
        assert found == expected


def test_a_file_of_values_that_is_gone_is_named(tmp_path: Path) -> None:
    assert "no such file" in str(read_mapping(tmp_path / "gone.yaml"))
