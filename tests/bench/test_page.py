"""The page on sizing is filled from runs: a figure that no run has is not in it."""

from __future__ import annotations

from pathlib import Path

from bench.scaling.page import BEGIN, END, PAGE, filled, result_of, section

LARGE = {
    "program": "slurm-operator",
    "bound_at_creation": False,
    "pods": 1000,
    "requests_per_pod": 2.0,
    "rss_mb": 100.5,
}
MANY = {"program": "slurm-operator", "clusters": 200, "nodesets": 5, "pods": 1000, "rss_mb": 90.0}


def test_the_last_result_of_an_output_counts() -> None:
    assert result_of('progress\n{"program": "a", "pods": 1}\n{"program": "b", "pods": 2}\na bar is missed')["pods"] == 2


def test_a_row_without_any_figure_is_left_out(tmp_path: Path) -> None:
    text = section([LARGE], tmp_path)
    assert "| … requests to the API server, a worker | 2.0 |" in text
    assert "partition" not in text


def test_each_size_has_a_column_in_order(tmp_path: Path) -> None:
    text = section([{**LARGE, "pods": 10_000, "bound_at_creation": True, "rss_mb": None}, LARGE], tmp_path)
    assert "|  | 1,000 workers | 10,000 workers |" in text
    assert "| largest resident set of the operator | 100.5 MB |  |" in text
    assert "bound as they are created" in text


def test_many_small_clusters_have_a_table_of_their_own(tmp_path: Path) -> None:
    assert "200 clusters, 5 NodeSets of one worker each" in section([MANY], tmp_path)


def test_a_figure_is_shown_if_its_file_is_there(tmp_path: Path) -> None:
    (tmp_path / "scale-1000-out.svg").write_text("<svg/>")
    assert section([LARGE], tmp_path).count("](figures/") == 1


def test_only_the_text_between_the_marks_is_written_anew(tmp_path: Path) -> None:
    text = filled(f"before {BEGIN} old {END} after", [LARGE], tmp_path)
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert "old" not in text


def test_the_page_has_both_marks() -> None:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
