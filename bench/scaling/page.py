"""Fills the tables of the page on sizing from runs, so that no figure in it was typed.

    python -m bench.scaling.page RESULT…     each the output of `bench/scale.py -o json`, the last line of which counts

In: results of one large cluster, one column for each size, and of many small clusters. Out: `docs/concepts/sizing.md`
with the text between its marks written anew; SVG figures are shown where `--plots docs/concepts/figures` put them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.scaling.objects import Json

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "concepts" / "sizing.md"
BEGIN, END = "<!-- figures: python -m bench.scaling.page -->", "<!-- end of figures -->"
FIGURES = {
    "out": "Pods that exist and are Ready over time, operator and bare client",
    "in": "Pods that are left over time, operator and bare client",
    "config": "How many of the changes of a partition are in effect after how long",
}
# What a row says, and of what; {name} is a figure of the run. A row whose figures no run has is left out.
ROWS = (
    ("0 to all workers: all exist", "{seconds_until_all_exist} s, {exist_ratio} times as long as a bare client"),
    ("… all Ready", "{seconds_until_all_ready} s, {ready_ratio} times as long as a bare client"),
    ("… the status says so", "{seconds_until_status_says_ready} s"),
    ("… requests to the API server, a worker", "{requests_per_pod}"),
    ("… writes to slurmrestd, a worker", "{slurm_writes_per_pod}"),
    ("… CPU of the operator", "{cpu_seconds} s"),
    ("memory of the operator with all workers", "{rss_mb_after} MB"),
    ("two minutes of rest: CPU of the operator", "{idle_cpu_seconds} s"),
    ("… writes to the API server", "{idle_writes}"),
    ("… requests to slurmrestd", "{idle_slurm_requests}, {idle_slurm_megabytes} MB"),
    ("a partition is changed: in effect after", "{config_p50_seconds} s (p50), {config_p99_seconds} s (p99)"),
    ("… the same with 10 workers", "{config_of_few_p50_seconds} s (p50), {config_of_few_p99_seconds} s (p99)"),
    (
        "another operator takes over: works after",
        "{leader_seconds} s, {leader_cpu_seconds} s of CPU, {leader_requests} requests",
    ),
    ("all nodes are cordoned: all workers drained after", "{drain_all_seconds} s"),
    (
        "all but a tenth go, drained first",
        "{in_seconds} s, {in_ratio} times as long as a bare client, which drains nothing",
    ),
    ("… requests to the API server, a worker", "{in_requests_per_pod}"),
    ("… the last record is gone after the last pod", "{in_records_seconds_after_pods} s"),
    ("roll of 200 workers, 25 % at a time", "{roll_seconds} s"),
    ("… requests to the API server, a worker", "{roll_requests_per_pod}"),
    ("largest resident set of the operator", "{rss_mb} MB"),
)
MANY_ROWS = (
    ("all are up after", "{out_seconds} s, {out_cpu_seconds} s of CPU, {out_requests} requests to the API server"),
    ("two minutes of rest: CPU of the operator", "{idle_cpu_seconds} s"),
    ("… writes to the API server", "{idle_writes}"),
    ("… requests to slurmrestd, of all together", "{idle_slurm_requests}, {idle_slurm_megabytes} MB"),
    ("a partition of one is changed: in effect after", "{change_p50_seconds} s (p50), {change_p99_seconds} s (p99)"),
    ("… the same with one cluster alone", "{alone_p50_seconds} s (p50), {alone_p99_seconds} s (p99)"),
    ("largest resident set of the operator", "{rss_mb} MB"),
)


def result_of(text: str) -> Json:
    """The result in the output of a run."""
    lines = [line for line in text.splitlines() if line.startswith('{"program"')]
    found: Json = json.loads(lines[-1])
    return found


def table(first: str, titles: Sequence[str], results: Sequence[Json], rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A column for each result; a row that none of them has is left out."""
    yield f"| {first} | {' | '.join(titles)} |"
    yield "|---" * (len(titles) + 1) + "|"
    for label, text in rows:
        cells = [_cell(text, result) for result in results]
        if any(cells):
            yield f"| {label} | {' | '.join(cells)} |"


def _cell(text: str, result: Json) -> str:
    known = {name: value for name, value in result.items() if value is not None}
    try:
        return text.format_map(known)
    except KeyError:
        return ""


def section(results: Sequence[Json], figures: Path) -> str:
    """All between the marks."""
    large = sorted((each for each in results if "clusters" not in each), key=lambda each: int(each["pods"]))
    many = [each for each in results if "clusters" in each]
    lines: list[str] = []
    if large:
        titles = [f"{each['pods']:,} workers" for each in large]
        lines += ["## One large cluster", "", *table("", titles, large, ROWS), ""]
        if any(each["bound_at_creation"] for each in large):
            lines += ["Above 2,000 workers pods are bound as they are created: on two cores no scheduler keeps up.", ""]
        for each in large:
            lines += _images(each["pods"], figures)
    if many:
        titles = [f"{each['clusters']} clusters, {each['nodesets']} NodeSets of one worker each" for each in many]
        lines += ["## Many small clusters", "", *table("", titles, many, MANY_ROWS), ""]
    return "\n".join(lines).rstrip("\n")


def _images(pods: int, figures: Path) -> Iterator[str]:
    for name, words in FIGURES.items():
        if (figures / f"scale-{pods}-{name}.svg").is_file():
            yield f"![{pods:,} workers: {words}](figures/scale-{pods}-{name}.svg)"
            yield ""


def filled(page: str, results: Sequence[Json], figures: Path) -> str:
    """The page with the text between its marks written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{section(results, figures)}\n\n{END}{after}"


def main() -> None:
    """Read the results and write the page."""
    results = [result_of(Path(name).read_text()) for name in sys.argv[1:]]
    PAGE.write_text(filled(PAGE.read_text(), results, PAGE.parent / "figures"))


if __name__ == "__main__":
    main()
