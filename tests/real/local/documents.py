"""A page of the documentation, typed line by line on a local cluster of its own.

In: a page with `<!-- runs on: ... -->`, and an empty folder. Out: `Reader`, which saves the files that the page shows,
types its commands in bash, and holds what comes against what the page shows. Used by `test_documents.py`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.compared import is_as_shown
from tests.docs.pages import NOT_RUN, ROOT, RUN_BY, Block, Page

PATIENCE = 90.0
COMMAND_SECONDS = 240.0
_STEP = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
# Asked again until it shows what the page shows: what a command before has set in motion takes its time.
_LOOKS = re.compile(
    r"kubectl (-n \S+ )?(get|describe|logs|top|events)\b"
    r"|kubectl slurm (-n \S+ )?(status|why|doctor|config (show|diff|history))\b"
    r"|kubectl .* -- (su - \w+ -c ['\"]?)?"
    r"(sinfo|squeue|sacct|sacctmgr show|sreport|scontrol (show|ping)|df|ls|cat|getent|grep)\b"
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command, what the page shows of it, and the exit code that it promises."""

    line: str
    shown: str
    code: int


def steps(block: Block) -> Iterator[Step]:
    """The commands of a console block."""
    found = _STEP.findall(block.text)
    for at, (line, shown) in enumerate(found):
        if line.strip() == "echo $?":
            continue
        asked = at + 1 < len(found) and found[at + 1][0].strip() == "echo $?"
        yield Step(line, shown, int(found[at + 1][1]) if asked else 0)


class Reader:
    """Somebody who follows a page."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self.folder, self.data = page, folder / "page", folder / "cluster"
        self.folder.mkdir()
        for name in ("examples", "deploy"):
            (self.folder / name).symlink_to(ROOT / name)
        self.env = {**os.environ, "PATH": f"{self._programs(folder / 'bin')}:{os.environ['PATH']}"}

    def _programs(self, folder: Path) -> Path:
        """kubectl of the local cluster, and our own programs."""
        folder.mkdir()
        local = shlex.join([sys.executable, "-m", "slurm_operator.cli.main", "local", "kubectl"])
        # With the path as it was: `local kubectl` looks for a kubectl too, and must not find this one.
        path, data = shlex.quote(f"{folder}/own:{os.environ['PATH']}"), shlex.quote(str(self.data))
        (folder / "kubectl").write_text(f'#!/bin/sh\nPATH={path} exec {local} --data {data} -- "$@"\n')
        (folder / "own").mkdir()
        for name, module in (("slurm-operator", "cli.main"), ("own/kubectl-slurm", "cli.kubectl.main")):
            program = shlex.join([sys.executable, "-m", f"slurm_operator.{module}"])
            (folder / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        for made in (folder / "kubectl", folder / "slurm-operator", folder / "own" / "kubectl-slurm"):
            made.chmod(0o755)
        return folder

    def start(self) -> None:
        """The cluster that the page begins with."""
        wanted = self.page.cluster
        assert wanted is not None
        files = [each for name in wanted.files for each in ("-f", str(ROOT / name))]
        self._local("up", *files, "--nodes", str(wanted.nodes), "--timeout", "240")

    def stop(self) -> None:
        """Leave nothing behind."""
        self._local("reset")

    def _local(self, verb: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "slurm_operator.cli.main", "local", verb, "--data", str(self.data)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def read(self) -> Iterator[tuple[Step, str]]:
        """Follow the page from top to bottom; yields each command with what is wrong with its answer."""
        for block in self.page.blocks():
            if block.title and not block.title.startswith("examples/"):
                target = self.folder / block.title
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text)
            elif block.language == "console" and not block.note.startswith((NOT_RUN, RUN_BY)):
                for step in steps(block):
                    yield step, self._take(step)

    def _take(self, step: Step) -> str:
        deadline = time.monotonic() + PATIENCE
        while True:
            said, code = self.type(step.line)
            wrong = _wrong(step, said, code)
            if not wrong or not _LOOKS.search(step.line) or time.monotonic() > deadline:
                return wrong
            time.sleep(0.5)

    def type(self, line: str) -> tuple[str, int]:
        """One line in bash."""
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            said += f"\n(not within {COMMAND_SECONDS:g} s)"
        return said, process.returncode


def _wrong(step: Step, said: str, code: int) -> str:
    if code != step.code:
        return f"exit code {code}, not {step.code}:\n{said}"
    if step.shown.strip() and not is_as_shown(step.shown, said):
        return f"the page shows\n{step.shown}\nand this came\n{said}"
    return ""
