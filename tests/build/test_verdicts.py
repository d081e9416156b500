"""The verdict line as a table: what the shell prints from it, Python reads; what nobody knows is never a success."""

from __future__ import annotations

import subprocess

import pytest

from slurm_operator.build import verdicts

VALUES = {"hash": "ab12", "stage": "applied", "ms": "5", "parse": "-1", "trial": "2", "reconfigure": "3", "at": "4"}
OLD = "verdict hash=ab12 stage=applied ms=5 parse=-1 trial=2 reconfigure=3"


def printed(**values: str) -> str:
    """What the generated shell prints when the sidecar's variables hold these values."""
    given = {each.variable: values[each.name] for each in verdicts.FIELDS}
    command = ["bash", "-u", "-c", f"{verdicts.shell()}print_verdict"]
    return subprocess.run(command, env=given, check=True, capture_output=True, text=True, timeout=10).stdout


@pytest.mark.parametrize("stage", verdicts.STAGES.values())
def test_what_the_shell_prints_is_what_python_reads(stage: str) -> None:
    values = {**VALUES, "stage": stage, "reason": r"say \"no\" to 100 %s \\ $HOME"}
    line = printed(**values)
    assert line == verdicts.FORMAT % tuple(values[each.name] for each in verdicts.FIELDS) + "\n"
    assert verdicts.read(line.rstrip("\n")) == verdicts.VerdictLine(verdicts.VERSION, values)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        pytest.param(f'{OLD} at=4 reason="no"', {**VALUES, "reason": "no"}, id="of the release before"),
        pytest.param(
            f'{OLD} reason=""',
            {**{name: value for name, value in VALUES.items() if name != "at"}, "reason": ""},
            id="of one that did not tell the time",
        ),
    ],
)
def test_a_verdict_without_a_version_is_understood(line: str, values: dict[str, str]) -> None:
    assert verdicts.read(line) == verdicts.VerdictLine(1, values)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param(
            'verdict version=3 hash=ab12 stage=applied ms=5 parse=1 trial=2 reconfigure=3 at=4 reason=""',
            "has version 3; this operator reads 2",
            id="a newer version in our fields",
        ),
        pytest.param("verdict version=3 {}", "has version 3; this operator reads 2", id="a newer version in others"),
        pytest.param("verdict version=3", "has version 3; this operator reads 2", id="a newer version without any"),
        pytest.param(f"verdict version={'9' * 5000} x", f"has version {'9' * 9};", id="a version without an end"),
        pytest.param(f"verdict version=1{OLD[7:]} at=4", "has version 1;", id="a number that nobody printed"),
        pytest.param(
            f'{OLD.replace("applied", "half")} reason=""', "a stage that this operator lacks: half", id="another stage"
        ),
    ],
)
def test_what_this_operator_does_not_know_is_a_problem_and_has_no_values(line: str, problem: str) -> None:
    said = verdicts.read(line)
    assert said is not None
    assert problem in said.problem
    assert not said.values


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("", id="nothing"),
        pytest.param("[Mon] SUCCESS", id="a line for people"),
        pytest.param(f"verdict version={verdicts.VERSION} hash=ab12 stage=app", id="cut off"),
        pytest.param(f"verdict version={verdicts.VERSION}{OLD[7:]} reason=''", id="without a field"),
        pytest.param(f'x{OLD} reason=""', id="with something before it"),
        pytest.param(f'{OLD} reason=""x', id="with something after it"),
    ],
)
def test_every_other_line_is_no_verdict(line: str) -> None:
    assert verdicts.read(line) is None
