"""Every guide that says what it runs on is followed on a local cluster, word by word, with real Slurm.

Needs root and an image; kubectl is the one that `slurm-operator local` brings. One cluster for each page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, pages
from tests.real.local.documents import Reader

PAGES = [page for page in pages() if page.cluster]
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-documents"),
]


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reader]:
    made = Reader(request.param, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("reader", PAGES, ids=[page.path.stem for page in PAGES], indirect=True)
def test_a_guide_can_be_followed(reader: Reader) -> None:
    for step, wrong in reader.read():
        assert not wrong, f"{reader.page.name}: $ {step.line}\n{wrong}\n{reader.type('kubectl get pods -A')[0]}"


def test_there_are_guides_to_follow() -> None:
    assert {page.path.stem for page in PAGES} >= {"first-cluster", "storage", "accounting"}


def test_a_page_names_files_that_exist() -> None:
    for page in PAGES:
        assert page.cluster is not None
        assert all((ROOT / name).exists() for name in page.cluster.files), page.name
