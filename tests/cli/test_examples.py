"""The examples are right, and the broken ones are found out, mistake by mistake, at their lines."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_operator.cli.check import check
from slurm_operator.cli.findings import Finding
from slurm_operator.cli.main import main
from slurm_operator.cli.world import load

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
GOOD = sorted(EXAMPLES.glob("*.yaml"))
BROKEN = sorted((EXAMPLES / "broken").glob("*.yaml"))
EXPECT = re.compile(r"# expect: (.*)$")

CONTROLLER = """\
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm, namespace: slurm}
spec:
  slurmKeyRef: {name: keys, key: slurm.key}
  jwtKeyRef: {name: keys, key: jwt.key}
  persistence: {enabled: false}
  extraConf: |
"""


def names(files: list[Path]) -> list[str]:
    return [file.stem for file in files]


def expectations(file: Path) -> list[tuple[int, str]]:
    """Line and message of each planted mistake: marked on its line, or on comment lines right above it."""
    found: list[tuple[int, str]] = []
    waiting: list[str] = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        mark = EXPECT.search(line)
        if line.strip().startswith("#"):
            waiting += [mark[1]] if mark else []
            continue
        found += [(number, message) for message in waiting]
        found += [(number, mark[1])] if mark else []
        waiting = []
    return found


def findings_of(file: Path) -> list[Finding]:
    return check(load([str(file)], partial=True))


@pytest.mark.parametrize("file", GOOD, ids=names(GOOD))
def test_nothing_is_said_about_an_example(file: Path) -> None:
    # Pyxis makes containers in the worker: the operator must allow it, and check is told so.
    allowed = ["--allow-pod-features=privileged"] if file.stem == "pyxis" else []
    outcome = CliRunner().invoke(main, ["check", "--strict", *allowed, "-f", str(file)])
    assert outcome.exit_code == 0
    assert outcome.stdout == ""


@pytest.mark.parametrize("file", GOOD, ids=names(GOOD))
def test_an_example_renders_in_every_form(file: Path) -> None:
    runner = CliRunner()
    for arguments in ([], ["-o", "json"], ["--slurm-conf"]):
        outcome = runner.invoke(main, ["render", "-f", str(file), *arguments])
        assert outcome.exit_code == 0, outcome.output
        assert outcome.stdout


@pytest.mark.parametrize("file", BROKEN, ids=names(BROKEN))
def test_every_planted_mistake_is_found_at_its_line(file: Path) -> None:
    found = findings_of(file)
    missed = [
        f"{file.name}:{line}: {message}"
        for line, message in expectations(file)
        if not any(each.line == line and message in each.message for each in found)
    ]
    assert not missed, "\n".join(map(str, found))


@pytest.mark.parametrize("file", BROKEN, ids=names(BROKEN))
def test_no_error_is_reported_where_no_mistake_was_planted(file: Path) -> None:
    lines = {line for line, _ in expectations(file)}
    assert not [str(each) for each in findings_of(file) if each.severity == "error" and each.line not in lines]


@pytest.mark.parametrize("file", BROKEN, ids=names(BROKEN))
def test_no_finding_is_said_twice(file: Path) -> None:
    said = [str(each) for each in findings_of(file)]
    assert len(said) == len(set(said))


@pytest.mark.parametrize("file", BROKEN, ids=names(BROKEN))
def test_the_command_line_shows_path_and_line_and_fails(file: Path) -> None:
    outcome = CliRunner().invoke(main, ["check", "-f", str(file)])
    assert outcome.exit_code == 1
    assert all(re.match(rf"{re.escape(str(file))}:\d+: ", line) for line in outcome.stdout.splitlines())
    as_data = json.loads(CliRunner().invoke(main, ["check", "-o", "json", "-f", str(file)]).stdout)
    assert [each["line"] for each in as_data] == [each.line for each in findings_of(file)]


def test_there_are_mistakes_of_many_kinds() -> None:
    assert sum(len(expectations(file)) for file in BROKEN) >= 100
    assert len(BROKEN) >= 12


def test_a_folder_of_broken_files_is_read_to_its_end() -> None:
    found = check(load([str(EXAMPLES / "broken")], partial=True))
    assert {Path(each.file) for each in found} == set(BROKEN)


def test_ten_thousand_lines_of_extra_configuration_are_checked(tmp_path: Path) -> None:
    lines = [f"    NodeName=n{number} CPUs=4" for number in range(10_000)]
    lines[7_000] = "    NodeNme=oops CPUs=4"
    (tmp_path / "long.yaml").write_text(CONTROLLER + "\n".join(lines) + "\n")
    errors = [each for each in findings_of(tmp_path / "long.yaml") if each.severity == "error"]
    assert [each.line for each in errors] == [CONTROLLER.count("\n") + 7_001]
    assert "did you mean NodeName" in errors[0].message


@pytest.mark.parametrize("seed", range(10))
def test_binary_rubbish_is_a_finding_with_a_path(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "rubbish.yaml"
    file.write_bytes(random.Random(seed).randbytes(4096))  # noqa: S311 -- rubbish, not a secret
    outcome = CliRunner().invoke(main, ["check", "-f", str(file)])
    assert outcome.exit_code == 1
    assert outcome.stdout.startswith(f"{file}:")


@pytest.mark.parametrize("seed", range(10))
def test_an_example_with_bytes_torn_out_never_ends_in_a_traceback(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 -- reproducible damage
    for file in GOOD:
        damaged = bytearray(file.read_bytes())
        for _ in range(20):
            at = dice.randrange(len(damaged))
            damaged[at : at + dice.randrange(4)] = dice.randbytes(dice.randrange(3))
        target = tmp_path / file.name
        target.write_bytes(bytes(damaged))
        for command in ("check", "render"):
            outcome = CliRunner().invoke(main, [command, "-f", str(target)])
            assert outcome.exit_code in (0, 1), outcome.exception
            assert outcome.exception is None or isinstance(outcome.exception, SystemExit)
