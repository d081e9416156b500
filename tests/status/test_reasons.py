"""Every reason that a condition can have is explained in docs/reference/conditions.md, and nothing else is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import condition_places

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "slurm_operator"
PAGE = ROOT / "docs" / "reference" / "conditions.md"
# Where a reason stands among the arguments of what makes a condition.
MAKERS = {"yes": 1, "no": 1, "unknown": 1, "failed": 0, "_waiting": 0, "_going": 0}
# These never reach a resource of ours: the one-machine Kubernetes, and the command line.
ELSEWHERE = ("local", "cli", "admission")


def files() -> list[Path]:
    ours = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in ELSEWHERE]
    # A refusal of the API server or of the loop becomes a condition as it is.
    return [*ours, *(ROOT / "src" / "kube_runtime").rglob("*.py")]


def in_conditions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            place = MAKERS.get(name)
            if place is not None and len(node.args) > place and isinstance(node.args[place], ast.Constant):
                yield str(node.args[place].value)  # type: ignore[attr-defined]  # it is a Constant


def in_errors(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                target = line.target if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [None])[0]
                value = getattr(line, "value", None)
                if isinstance(target, ast.Name) and target.id == "reason" and isinstance(value, ast.Constant):
                    yield str(value.value)


def of_partitions() -> Iterator[str]:
    tree = ast.parse((SOURCE / "build" / "partition.py").read_text())
    for node in tree.body:
        value = node.value.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) else ""
        if isinstance(value, str) and re.fullmatch(r"([A-Z][a-z]+)+", value):
            yield value


def used() -> set[str]:
    trees = [ast.parse(path.read_text()) for path in files()]
    found = {reason for tree in trees for reason in (*in_conditions(tree), *in_errors(tree))}
    found.discard("None")
    return {each for each in {*found, *of_partitions()} if re.fullmatch(r"[A-Z][A-Za-z]+", each)}


def explained() -> list[str]:
    return re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)


def test_every_reason_has_its_section() -> None:
    assert len(used()) > 40
    assert sorted(used() - set(explained())) == []


def test_no_section_speaks_of_a_reason_that_nobody_gives() -> None:
    assert sorted(set(explained()) - used()) == []


@pytest.mark.parametrize("reason", explained())
def test_a_section_says_something(reason: str) -> None:
    body = PAGE.read_text().split(f"### {reason}\n")[1].split("\n#")[0]
    said = [line for line in body.splitlines() if not line.startswith("*On ")]
    assert len(" ".join(said).split()) > 4


def test_the_page_says_on_which_conditions_of_which_kinds_a_reason_stands() -> None:
    assert condition_places.stamped(PAGE.read_text()) == PAGE.read_text(), "run: make golden"


def test_every_reason_that_the_source_gives_has_its_place() -> None:
    """And what is found there by reading is what the calls say: a few that can be told at a glance."""
    places = condition_places.derived()
    assert {reason for _, _, reason in places} == used()
    assert {("NodeSet", "Ready", "DuplicateHostname"), ("Token", "Degraded", "KeyChanged")} <= places
    assert {kind for kind, type_, _ in places if type_ == "ConfigValid"} == {"Controller"}
    assert ("Partition", "Progressing", "Settled") not in places


@pytest.mark.parametrize(
    ("places", "sentence"),
    [
        ([("NodeSet", "Ready", "X")], "*On Ready of NodeSet.*"),
        ([("NodeSet", "Ready", "X"), ("Token", "Ready", "X")], "*On Ready of NodeSet and Token.*"),
        (
            [("Token", "Degraded", "X"), ("Token", "Ready", "X"), ("NodeSet", "Ready", "X")],
            "*On Ready of NodeSet and Token; on Degraded of Token.*",
        ),
        ([(kind, "Ready", "X") for kind in condition_places.ALL], "*On Ready of every kind.*"),
        (
            [(kind, "Ready", "X") for kind in condition_places.ALL if kind != "Token"],
            "*On Ready of every kind but Token.*",
        ),
    ],
    ids=["one", "two kinds", "two types", "every kind", "all but one"],
)
def test_places_are_said_in_words(places: list[condition_places.Place], sentence: str) -> None:
    assert condition_places.sentence("X", places) == sentence
