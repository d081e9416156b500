"""Memory is flat when nothing is added to what a process has once it is warm."""

from __future__ import annotations

import pytest
from bench.real_slurm.memory import Sample, figures, flatness, slope

WARM = 600.0


def samples(later: list[float], warm: float = 100.0) -> list[Sample]:
    """One in five seconds: ten minutes at `warm`, then these."""
    sizes = [warm] * 120 + later
    return [Sample(5.0 * number, size, 0.1 * number) for number, size in enumerate(sizes, start=1)]


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param([100.0] * 100, [], id="flat"),
        pytest.param([100.0, 114.0] * 50, [], id="up and down within the allowance"),
        pytest.param([100.0] * 50 + [116.0] + [100.0] * 49, ["116 MB after 100 MB"], id="one peak too high"),
        pytest.param([100.0 + number / 20 for number in range(100)], ["grows by 36.0 MB/h"], id="a slow leak"),
    ],
)
def test_what_comes_after_ten_minutes_is_judged(later: list[float], expected: list[str]) -> None:
    found = flatness(samples(later))
    assert found is not None
    problems = found.problems("slurmrestd")
    assert len(problems) == len(expected)
    assert all(words in problem for words, problem in zip(expected, problems, strict=True))


def test_a_large_process_may_vary_by_more() -> None:
    found = flatness(samples([1050.0] * 100, warm=1000.0))
    assert found is not None
    assert found.allowance == 60.0
    assert found.problems("slurmrestd") == []


def test_the_most_of_the_last_minute_is_what_it_has_when_warm() -> None:
    before = [Sample(WARM - 70, 500.0, 0), Sample(WARM - 50, 90.0, 0), Sample(WARM, 80.0, 0)]
    after = [Sample(WARM + 5, 85.0, 0), Sample(WARM + 10, 85.0, 0)]
    found = flatness([*before, *after])
    assert found is not None
    assert (found.warm, found.most) == (90.0, 85.0)


def test_a_run_that_ends_before_it_is_warm_is_not_judged() -> None:
    assert flatness(samples([])[:60]) is None
    assert "slurmrestd_mb_when_warm" not in figures("slurmrestd", samples([])[:60])


def test_figures_name_the_process_and_count_its_processor_time() -> None:
    found = figures("slurmctld", samples([100.0] * 10))
    assert found["slurmctld_cpu_seconds"] == 12.9
    assert found["slurmctld_mb_per_hour"] == 0.0


@pytest.mark.parametrize(
    ("points", "expected"),
    [([], 0.0), ([(1.0, 5.0)], 0.0), ([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)], 2.0), ([(1.0, 1.0), (1.0, 2.0)], 0.0)],
)
def test_the_slope_is_that_of_the_line_through_the_points(points: list[tuple[float, float]], expected: float) -> None:
    assert slope(points) == pytest.approx(expected)
