"""Links lead somewhere, decisions stay short, and named files exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
import yaml
from tests.docs.pages import ROOT, Page, pages

PAGES = pages()
DECISIONS = [page for page in PAGES if page.path.parent.name == "decisions"]
WHERE_IS = Page(ROOT / "docs/internals/where-is.md")
MAX_DECISION_LINES = 60
_PATH = re.compile(r"[\w./-]+/[\w.-]*|[\w-]+\.(py|md|toml|yml|yaml)")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_to_a_page_and_a_heading(page: Page) -> None:
    for link in page.links():
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        assert target.exists(), link
        assert not anchor or anchor in Page(target).anchors(), link


@pytest.mark.parametrize("page", DECISIONS, ids=[page.path.stem for page in DECISIONS])
def test_a_decision_is_short_and_says_how_we_would_notice_that_it_was_wrong(page: Page) -> None:
    assert len(page.text.splitlines()) <= MAX_DECISION_LINES
    headings = re.findall(r"^## (.*)$", page.text, re.MULTILINE)
    assert headings[:4] == ["Context", "Choice", "Refused", "How we would notice that it was wrong"]
    # Of a decision whose alarm has rung.
    assert headings[4:] in ([], ["What came of it"])


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(page.path.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_where_is_names_only_files_that_exist() -> None:
    named = [code for code in WHERE_IS.inline_code() if _PATH.fullmatch(code)]
    folders = (ROOT, ROOT / "src", ROOT / "src/slurm_operator")
    missing = [code for code in named if not any((folder / code).exists() for folder in folders)]
    assert len(named) > 60
    assert not missing


def test_where_is_knows_every_package() -> None:
    source = ROOT / "src"
    packages = {path.parent.name for path in (source / "slurm_operator").glob("*/__init__.py")}
    packages |= {str(path.parent.relative_to(source)) for path in source.glob("kube_*/*/__init__.py")}
    named = [code for code in WHERE_IS.inline_code() if "/" in code]
    assert not {package for package in packages if not any(code.startswith(f"{package}/") for code in named)}


def test_the_walk_of_a_field_is_short_and_never_comes_back_to_a_package() -> None:
    walk = (ROOT / "docs/internals/lifecycle.md").read_text().partition("## A walk")[2].partition("\n## ")[0]
    files = re.findall(r"^\| `([\w/]+\.py)` \|", walk, re.MULTILINE)
    assert 0 < len(files) <= 12
    assert all((ROOT / "src/slurm_operator" / file).exists() for file in files)
    packages = [package for package, _ in groupby(file.partition("/")[0] for file in files)]
    assert len(packages) == len(set(packages))


def test_every_page_is_in_the_navigation() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = {item for entry in config["nav"] for item in (entry if isinstance(entry, str) else _items(entry)).split()}
    assert listed == {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}


def _items(entry: dict[str, list[str]]) -> str:
    return " ".join(item for items in entry.values() for item in items)


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    # The notice is about the future of the theme, and not about these pages.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not _fetched(tmp_path / "site")


def _fetched(site: Path) -> list[str]:
    """What a reader's browser would load from elsewhere."""
    tag = re.compile(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?(https?://[^\" >]+)")
    return [address for path in site.rglob("*.html") for address in tag.findall(path.read_text())]
