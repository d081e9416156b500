"""The parts of the sidecar's program: how they are joined, and what single functions of them make of a text."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.build.resources import controller, refs

from slurm_operator.build import controller as build
from slurm_operator.build import sidecar, verdicts
from slurm_operator.plan.config import content_hash, last_verdict

FOLDER = Path(sidecar.__file__).parent / "scripts" / "reconfigure"
# A folder of files as the container has it at /etc/slurm.
LIVE = "live"


def run(folder: Path, call: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Call functions of the program, all of which but its loop is loaded."""
    loaded = sidecar.joined({name: part for name, part in sidecar.parts().items() if name != "main"})
    command = ["bash", "-c", f"{loaded}\n{call}", "sidecar", *arguments]
    given = {"PATH": os.environ["PATH"], "SLURM_CONF_DIR": str(folder / LIVE)}
    return subprocess.run(command, env=given, input=text, capture_output=True, text=True, check=False, timeout=20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / LIVE).mkdir()
    return tmp_path


def test_parts_are_joined_in_order_with_an_empty_line_between_two() -> None:
    assert sidecar.joined({"b": "one\n\n", "a": "two"}) == "one\n\ntwo\n"


def test_every_part_is_used_once_and_says_what_it_is_for() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted({*sidecar.PARTS} - {sidecar.VERDICT_LINE})
    assert len(set(sidecar.PARTS)) == len(sidecar.PARTS)
    texts = list(sidecar.parts().values())
    assert all(text.startswith("# ") for text in texts[1:])
    assert [text.startswith("#!") for text in texts] == [True, *[False] * (len(texts) - 1)]


def test_the_whole_is_bash_and_what_the_container_runs() -> None:
    subprocess.run(["bash", "-n", "-c", sidecar.program()], check=True, timeout=20)
    cr = controller()
    workload = next(each for each in build.objects(cr, refs(cr)) if each["kind"] == "StatefulSet")
    first = workload["spec"]["template"]["spec"]["initContainers"][0]
    assert (first["name"], first["command"]) == ("reconfigure", ["tini", "-g", "--", "bash", "-c", sidecar.program()])
    assert verdicts.shell() in sidecar.program()


def test_only_the_last_part_does_anything_but_define(folder: Path) -> None:
    ended = run(folder, "true")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not list((folder / LIVE).iterdir())


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="none"),
        pytest.param({"slurm.conf": "a\n", "cgroup.conf": "", "Z.conf": "x", "a b": "y"}, id="several"),
        pytest.param({"slurm.conf": "a\n", ".candidate": "check=on\n"}, id="a note, which does not count"),
    ],
)
def test_both_sides_hash_a_set_of_files_alike(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / LIVE / name).write_text(text)
    assert run(folder, 'hash_of "$1"; printf %s "$hash"', str(folder / LIVE)).stdout == content_hash(files)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", "", id="not there"),
        pytest.param("MaxNodeCount=5", "5", id="without a line's end"),
        pytest.param("MaxNodeCount=5\n maxnodecount = 7 # more\n", "7", id="the last one, spelled freely"),
        pytest.param("#MaxNodeCount=5\nXMaxNodeCount=6\n", "", id="a comment and another key"),
    ],
)
def test_a_setting_is_read_as_slurm_reads_it(folder: Path, text: str, value: str) -> None:
    (folder / LIVE / "slurm.conf").write_text(text)
    assert run(folder, 'setting "$1" MaxNodeCount; printf %s "$value"', str(folder / LIVE)).stdout == value


@pytest.mark.parametrize(
    ("files", "why"),
    [
        pytest.param({"slurm.conf": "A=1\n"}, "", id="no other file"),
        pytest.param({"slurm.conf": "Include nodes.conf # mine\n", "nodes.conf": ""}, "", id="an included file"),
        pytest.param({"slurm.conf": "include LIVE/nodes.conf\n", "nodes.conf": ""}, "", id="one by its place in force"),
        pytest.param({"slurm.conf": "include parts/*.conf\n"}, "", id="a pattern"),
        pytest.param({"slurm.conf": "#include nodes.conf\n"}, "", id="a comment"),
        pytest.param(
            {"slurm.conf": "include nodes.conf\n"}, "included file nodes.conf is missing", id="a missing file"
        ),
        pytest.param(
            {"slurm.conf": "include LIVE/nodes.conf\n"},
            "included file nodes.conf is missing",
            id="a missing file by its place",
        ),
        pytest.param(
            {"slurm.conf": "include /nowhere/nodes.conf\n"}, "included file nodes.conf is missing", id="one elsewhere"
        ),
        pytest.param(
            {"slurm.conf": "TopologyPlugin=topology/tree\n"},
            "TopologyPlugin=topology/tree needs topology.conf, which is missing",
            id="a topology without its file",
        ),
        pytest.param({"slurm.conf": "TopologyPlugin=topology/block\n", "topology.yaml": ""}, "", id="with its file"),
        pytest.param({"slurm.conf": "TopologyPlugin=topology/flat\n"}, "", id="one that needs none"),
    ],
)
def test_a_set_is_whole_when_no_file_is_missing(folder: Path, files: dict[str, str], why: str) -> None:
    new = folder / "new"
    new.mkdir()
    for name, text in files.items():
        (new / name).write_text(text.replace("LIVE", str(folder / LIVE)))
    ended = run(folder, 'is_whole "$1"; code=$?; printf %s "$why"; exit $code', str(new))
    assert (ended.stdout, ended.returncode) == (why, int(bool(why)))


SAID = """\
[2026-01-01T00:00:00.000] error: Configured MailProg is invalid
slurmctld: error: Could not open node state file /x: No such file
scontrol: error: LIVE/..trial/etc/slurm.conf line 7: bad
scontrol: error: LIVE/..trial/etc/slurm.conf line 7: bad
slurmctld: debug: all is well
slurmctld: fatal: Unable to process configuration file
slurmctld: fatal: Invalid node name
"""


def test_of_slurms_words_only_complaints_about_the_files_are_kept(folder: Path) -> None:
    ended = run(folder, "complaints", text=SAID.replace("LIVE", str(folder / LIVE)))
    assert ended.stdout == "fatal: Invalid node name;error: slurm.conf line 7: bad\n"


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("", id="none"),
        pytest.param('say "no" \\ twice \\" and 100% $HOME `id` %s', id="quotes, backslashes, signs of printf"),
        pytest.param("it's an error: é", id="other letters"),
    ],
)
def test_a_reason_comes_to_the_operator_as_it_was(folder: Path, reason: str) -> None:
    call = 'now_ms; verdict "$REFUSED" abc "$now" "$1"'
    found = last_verdict(run(folder, call, reason).stdout.splitlines())
    assert found is not None
    assert (found.hash, found.stage, found.reason) == ("abc", verdicts.REFUSED, reason)


def test_a_reason_of_several_lines_becomes_one(folder: Path) -> None:
    (line,) = run(folder, 'verdict "$REFUSED" abc 0 "$1"', "a\nverdict hash=b\r\tc").stdout.splitlines()
    found = last_verdict([line])
    assert found is not None
    assert found.reason == "a verdict hash=b c"
