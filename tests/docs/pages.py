"""Pages of the documentation as the tests read them: blocks, links, headings, and the commands that they show.

In: README.md, the other pages at the root and docs/. Out: `Page` values, and `play`, which does what a reader would do:
save each titled block as a file and run each `slurm-operator` command in order.

Three comments say where the commands of a page are run that need more than Python:
  <!-- runs on: examples/demo; nodes: 4 -->  once on a page: a local cluster of those files (`nothing` for an empty one)
  <!-- run by: tests/real/.../test_x.py -->  before a block: that test runs it
  <!-- not run: why -->                      before a block: nobody does
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from slurm_operator.cli.main import main

ROOT = Path(__file__).parents[2]
PROGRAM = "slurm-operator "
PROMPT = "$ "
TYPED = ("console", "text")
SCRIPTS = ("shell", "sh", "bash")
NOT_RUN, RUN_BY = "not run: ", "run by: "
EXIT_CODE = "$ echo $?"

_FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
_TITLE = re.compile(r'title="([^"]+)"')
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")
_NOTE = re.compile(r"<!-- ([^>]+?) -->\s*$")
_CLUSTER = re.compile(r"^<!-- runs on: ([^;>]+?)(?:; nodes: (\d+))? -->$", re.MULTILINE)
_CONTINUED = re.compile(r"\\\n\s*")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    language: str
    title: str
    text: str
    note: str = ""

    @property
    def is_manifest(self) -> bool:
        """Whether it is a whole Kubernetes object, or several."""
        return self.language == "yaml" and re.search(r"^apiVersion:", self.text, re.MULTILINE) is not None

    @property
    def typed(self) -> list[str]:
        """The command lines that a reader types, each as one line."""
        if self.language in SCRIPTS:
            joined = _CONTINUED.sub(" ", self.text).splitlines()
            return [line for line in joined if line.strip() and not line.startswith("#")]
        if self.language not in TYPED:
            return []
        found = re.findall(r"^\$ ((?:.*\\\n)*.*)$", self.text, re.MULTILINE)
        return [_CONTINUED.sub(" ", line) for line in found]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The local cluster that a page is run on."""

    files: tuple[str, ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class Command:
    """A command, what the page shows of its output, and the exit code that the page promises."""

    line: str
    output: str
    code: int


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did."""

    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    path: Path

    @property
    def name(self) -> str:
        """The path from the root of the project."""
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        """The whole text."""
        return self.path.read_text()

    @property
    def prose(self) -> str:
        """The text without its blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self) -> Iterator[Block]:
        """The fenced blocks, in order."""
        whole = self.text
        for found in _FENCE.finditer(whole):
            indent, about, text = found.groups()
            words = about.split(maxsplit=1)
            title = _TITLE.search(about)
            note = _NOTE.search(whole, max(0, found.start() - 400), found.start())
            yield Block(
                words[0] if words else "",
                title[1] if title else "",
                text.removeprefix(indent).replace("\n" + indent, "\n"),
                note[1] if note else "",
            )

    @property
    def cluster(self) -> Wanted | None:
        """The local cluster that its commands are run on."""
        found = _CLUSTER.search(self.text)
        if found is None:
            return None
        files = () if found[1] == "nothing" else tuple(found[1].split())
        return Wanted(files, int(found[2] or 3))

    def links(self) -> list[str]:
        """The targets of all links."""
        return _LINK.findall(_INLINE.sub("", self.prose))

    def anchors(self) -> set[str]:
        """The anchors that its headings make."""
        return {slug(heading) for heading in _HEADING.findall(self.prose)}

    def inline_code(self) -> list[str]:
        """What stands between backticks."""
        return _INLINE.findall(self.prose)


def slug(heading: str) -> str:
    """A heading's anchor."""
    words = re.sub(r"[^\w\s-]", "", heading.strip().lower())
    return re.sub(r"[-\s]+", "-", words)


def pages() -> list[Page]:
    """Every page that people write or read."""
    at_root = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [Page(path) for path in [*at_root, *sorted((ROOT / "docs").rglob("*.md"))]]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Commands that nobody runs, and why."""

    page: str
    why: str
    commands: int


def left_out() -> list[LeftOut]:
    """Every block that is not run."""
    return [
        LeftOut(page.name, block.note.removeprefix(NOT_RUN), len(block.typed))
        for page in pages()
        for block in page.blocks()
        if block.note.startswith(NOT_RUN)
    ]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    parts = re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE)
    for at, part in enumerate(parts):
        line, _, output = part.partition("\n")
        if line.startswith(PROMPT + PROGRAM):
            following = parts[at + 1] if at + 1 < len(parts) else ""
            asked, _, code = following.partition("\n")
            yield Command(line.removeprefix(PROMPT), output, int(code) if asked == EXIT_CODE else 0)


def run(line: str) -> Done:
    """Run a command of ours in the current folder, and grep behind a pipe; other programs are left out."""
    own, _, filter_ = line.partition(" | ")
    own, _, source = own.partition(" < ")
    stdin = Path(source.strip()).read_bytes() if source else b""
    result = CliRunner().invoke(main, shlex.split(own)[1:], input=stdin, prog_name="slurm-operator")
    if filter_.startswith("grep "):
        found = subprocess.run(shlex.split(filter_), input=result.stdout, capture_output=True, text=True, check=True)
        return Done(result.exit_code, found.stdout)
    return Done(result.exit_code, result.output)


def play(page: Page, folder: Path) -> Iterator[tuple[Command, Done]]:
    """Save the files and run the commands of a page, in its order, in an empty folder beside the examples."""
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in page.blocks():
        if block.title:
            _save(block, folder / block.title)
        elif block.language == "console" and not block.note.startswith(NOT_RUN):
            for command in commands(block):
                yield command, run(command.line)


def _save(block: Block, target: Path) -> None:
    if block.title.startswith("examples/"):
        assert target.read_text() == block.text, f"{block.title} is shown in another version"
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(block.text)
