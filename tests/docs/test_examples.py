"""What the pages show is what happens: manifests, commands, output and exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from tests.docs.compared import ANYTHING, is_as_shown
from tests.docs.pages import PROGRAM, ROOT, Page, commands, pages, play

from slurm_operator.cli.main import main

PAGES = pages()
# The page of the differential campaign is written and tested with that campaign.
OWN = [page for page in PAGES if page.path.name != "embedded-differences.md"]
PLAYED = [page for page in PAGES if any(block.language == "console" for block in page.blocks())]


@pytest.mark.parametrize("page", PLAYED, ids=[page.name for page in PLAYED])
def test_every_command_of_a_page_does_what_the_page_shows(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, result in play(page, tmp_path):
        assert result.exit_code == command.code, f"{command.line}\n{result.output}"
        if ANYTHING in command.output:
            assert is_as_shown(command.output, result.output), f"{command.line}\n{result.output}"
        elif command.output.strip():
            assert result.output == command.output, command.line


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_manifest_of_a_page_is_a_file_that_a_command_reads(page: Page) -> None:
    blocks = list(page.blocks())
    for at, block in enumerate(blocks):
        if not block.is_manifest:
            continue
        assert block.title, f'give this manifest a title="file.yaml":\n{block.text}'
        nearby = blocks if block.title.startswith("examples/") else blocks[at:]
        lines = [command.line for later in nearby if later.language == "console" for command in commands(later)]
        assert any(block.title in line or f"-f {Path(block.title).parent}" in line for line in lines), block.title


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_commands_stand_in_console_blocks_where_they_are_run(page: Page) -> None:
    for block in page.blocks():
        if block.language not in ("console", "text"):
            assert not any(line.strip().startswith(PROGRAM) for line in block.text.splitlines()), block.text


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_step_of_a_pipeline_is_run_on_the_same_page(page: Page) -> None:
    shown = [command.line for block in page.blocks() if block.language == "console" for command in commands(block)]
    for block in page.blocks():
        if block.language == "yaml":
            assert set(re.findall(rf"run: ({PROGRAM}.*)", block.text)) <= set(shown)


def test_every_example_is_shown() -> None:
    shown = {block.title for page in PAGES for block in page.blocks()}
    assert {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.yaml")} <= shown


@pytest.mark.parametrize("page", OWN, ids=[page.name for page in OWN])
def test_make_targets_that_a_page_names_exist(page: Page) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [line.removeprefix("$ ") for block in page.blocks() for line in block.text.splitlines()]
    named = [code.split() for code in [*page.inline_code(), *lines] if code.startswith("make ")]
    assert {words[1] for words in named} <= targets


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_commands_in_a_sentence_exist(page: Page) -> None:
    for code in page.inline_code():
        if code.startswith(PROGRAM):
            words = code.split()[1:]
            command: click.Command = main
            while isinstance(command, click.Group) and words:
                name = words.pop(0)
                assert name in command.commands, code
                command = command.commands[name]
            known = {option for each in command.params for option in each.opts}
            assert {word for word in words if word.startswith("-") and word != "-"} <= known, code
