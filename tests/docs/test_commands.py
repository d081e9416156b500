"""Every command of a page could be typed as it stands, and is run somewhere; what is not, says why and is counted."""

from __future__ import annotations

import re

import pytest
from tests.docs.command_lines import Files, problems
from tests.docs.pages import NOT_RUN, PROGRAM, ROOT, RUN_BY, Block, Page, left_out, pages

from slurm_operator.local.home import Choices

# Written by tools/reference.py out of the programs' own help.
PAGES = [page for page in pages() if page.path.parent.name != "reference"]
NOTES = (NOT_RUN, RUN_BY)
# Commands that need no cluster: `test_examples.py` runs them.
PLAYED = ("check", "render", "crds")
SENTENCES = ("kubectl ", "helm ", "make ", PROGRAM)
# A sentence may name the beginning of a command, and a file that the reader has.
UNFINISHED = re.compile(r"needs|is missing|no command $|requires an argument|there is no file")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_command_names_what_exists(page: Page) -> None:
    files = Files({block.title for block in page.blocks()})
    for block in page.blocks():
        for line in block.typed:
            assert problems(line, files) == [], line


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_commands_in_a_sentence_name_what_exists(page: Page) -> None:
    for code in page.inline_code():
        if code.startswith(SENTENCES) and "…" not in code:
            found = [each for each in problems(code, Files()) if not UNFINISHED.search(each)]
            assert found == [], code


def open_commands(block: Block) -> list[str]:
    """The commands of a block that need more than Python."""
    played = re.compile(rf"{PROGRAM}({'|'.join(PLAYED)})\b|echo \$\?|(sudo )?make |\. ")
    return [line for line in block.typed if not (block.language == "console" and played.match(line))]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_command_is_run_or_says_why_not(page: Page) -> None:
    for block in page.blocks():
        if block.note.startswith(NOTES) or (page.cluster and block.language == "console"):
            continue
        assert open_commands(block) == [], "put <!-- run by: FILE --> or <!-- not run: WHY --> before the block"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_test_that_is_named_exists(page: Page) -> None:
    for block in page.blocks():
        if block.note.startswith(RUN_BY):
            assert (ROOT / block.note.removeprefix(RUN_BY)).is_file(), block.note


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_that_needs_more_nodes_than_there_are_says_so_to_its_readers(page: Page) -> None:
    """The storage guide said it in a comment that no reader sees (U14)."""
    needed = re.search(r"<!-- runs on: [^;]+; nodes: (\d+) -->", page.text)
    if needed is not None and int(needed[1]) > Choices().nodes:
        assert f"--nodes {needed[1]}" in page.prose


def test_what_is_not_run_says_why() -> None:
    assert all(len(each.why) > 10 for each in left_out())


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("slurm-operator chek -f examples/demo", "slurm-operator has no command chek"),
        ("slurm-operator check -f nowhere.yaml", "there is no file nowhere.yaml"),
        ("slurm-operator check --strickt -f examples/demo", "slurm-operator check: No such option '--strickt'"),
        ("sudo slurm-operator local shel", "slurm-operator local has no command shel"),
        ("slurm-operator local kubectl get nodesetz", "kubectl knows no kind nodesetz"),
        ("kubectl slurm -n slurm statu", "kubectl slurm has no command statu"),
        ("kubectl slurm why", "kubectl slurm why needs [KIND/]NAME"),
        ("kubectl -n slurm slurm status", "flags of kubectl slurm stand behind slurm"),
        ("kubectl gett pods", "kubectl has no verb gett"),
        ("kubectl get nodesetz -n slurm", "kubectl knows no kind nodesetz"),
        ("kubectl get pods --alll", "kubectl: --alll is not a flag that the pages use"),
        ("kubectl apply -f nowhere.yaml", "there is no file nowhere.yaml"),
        ("kubectl exec compute-0", "kubectl exec needs a command behind --"),
        ("helm install slurm deploy/charts/slurn", "there is no chart deploy/charts/slurn"),
        (
            "helm upgrade slurm deploy/charts/slurm --set contoller.external=true",
            "has no value contoller.external=true",
        ),
        ("make tests", "make has no target tests"),
        ("echo $(kubectl gett pods)", "kubectl has no verb gett"),
        ("frobnicate --now", "frobnicate is not a program that the pages use"),
    ],
    ids=str,
)
def test_a_slip_of_the_pen_is_found(line: str, complaint: str) -> None:
    assert any(complaint in each for each in problems(line, Files()))
