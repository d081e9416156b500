"""Every kubectl command of the documents that users follow, typed on one local cluster with real Slurm.

The table is `seeds/commands.yaml`: what is run, what a user wants to see. The tests run in its order on one cluster,
and a few of them build on those before. Needs root and an image; kubectl is the one that `slurm-operator local` brings.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

SEEDS = Path(__file__).parent / "seeds"
# Workers of the node set in the documents do not share a Kubernetes node with others.
NODES = 12
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-seeds"),
]


class Later(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the command has set in motion, and how that is seen."""

    run: str
    shows: list[str]


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table."""

    id: str
    run: str
    user: str
    source: list[str] = []
    shows: list[str] = []
    code: int = 0
    first: str = ""
    follow: bool = False
    later: Later | None = None
    terminal: bool = False
    types: str = ""
    skip: str = ""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table."""

    names: dict[str, str]
    commands: list[Command]
    everyday: list[Command]

    def filled(self, text: str) -> str:
        """A command with this cluster's names; longer names are replaced first."""
        for name in sorted(self.names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w])", self.names[name], text)
        return text


TABLE = msgspec.convert(yaml.safe_load((SEEDS / "commands.yaml").read_text()), Table)


def cases(commands: list[Command]) -> list[Any]:
    return [
        pytest.param(one, id=one.id, marks=[pytest.mark.skip(reason=one.skip)] if one.skip else []) for one in commands
    ]


class Shell:
    """A folder to type commands in, where `kubectl` is the one of the local cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "cluster"
        shim = folder / "bin" / "kubectl"
        shim.parent.mkdir()
        local = shlex.join([sys.executable, "-m", "slurm_operator.cli.main", "local", "kubectl"])
        # With the path as it was: `local kubectl` looks for a kubectl too, and must not find this one.
        path, data = shlex.quote(os.environ["PATH"]), shlex.quote(str(self.data))
        shim.write_text(f'#!/bin/sh\nPATH={path} exec {local} --data {data} -- "$@"\n')
        shim.chmod(0o755)
        for manifest in SEEDS.glob("*.yaml"):
            shutil.copy(manifest, folder)
        self.env = {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}"}

    def local(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "slurm_operator.cli.main", "local", arguments[0], "--data", str(self.data)]
        done = subprocess.run([*command, *arguments[1:]], capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, line: str, seconds: float = 120.0) -> tuple[str, int]:
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
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # The whole line: what is left of a pipe would keep its end open.
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            said += f"\n(not within {seconds:g} s)"
        return said, process.returncode

    def follow(self, line: str, patterns: list[str]) -> str:
        """What is printed until every pattern was seen."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {line}"], cwd=self.folder, env=self.env, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = ""
        # Silence is an answer too: reading ends with the process.
        late = threading.Timer(100, process.kill)
        late.start()
        try:
            for each in process.stdout:
                said += each
                if not missing(patterns, said):
                    break
        finally:
            late.cancel()
            process.terminate()
            process.wait(20)
            process.stdout.close()
        return said

    def terminal(self, line: str, types: str) -> tuple[str, int]:
        """Run on a terminal of its own; answers what stands on it."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self.folder,
            env=self.env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            os.write(ours, types.encode())
            said = b"".join(screen(ours))
        finally:
            os.close(ours)
        return said.decode().replace("\r\n", "\n"), process.wait(30)


def screen(handle: int) -> Iterator[bytes]:
    """What comes on a terminal until nobody is left on it."""
    while True:
        try:
            data = os.read(handle, 4096)
        except OSError:
            return
        if not data:
            return
        yield data


def missing(patterns: list[str], said: str) -> list[str]:
    return [pattern for pattern in patterns if not re.search(pattern, said, re.MULTILINE)]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    made = Shell(tmp_path_factory.mktemp("seeds"))
    try:
        made.local("up", "-f", str(SEEDS / "cluster.yaml"), "--nodes", str(NODES), "--timeout", "180")
        said, code = made.run("kubectl config set-context --current --namespace=slurm")
        assert code == 0, said
        yield made
    finally:
        made.local("reset")


@pytest.mark.parametrize("command", cases(TABLE.commands))
def test_a_command_of_the_documents_does_what_its_reader_expects(shell: Shell, command: Command) -> None:
    does_as_expected(shell, command)


@pytest.mark.parametrize("command", cases(TABLE.everyday))
def test_an_everyday_command_does_what_its_user_expects(shell: Shell, command: Command) -> None:
    does_as_expected(shell, command)


def does_as_expected(shell: Shell, command: Command) -> None:
    if command.first:
        said, code = shell.run(command.first)
        assert code == 0, said
    line = TABLE.filled(command.run)
    if command.follow:
        said, code = shell.follow(line, command.shows), command.code
    elif command.terminal:
        said, code = shell.terminal(line, command.types)
    else:
        said, code = shell.run(line)
    assert (missing(command.shows, said), code) == ([], command.code), f"$ {line}\n{said}"
    if command.later is not None:
        until_shown(shell, command.later)


def until_shown(shell: Shell, later: Later, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while missing(later.shows, said := shell.run(later.run)[0]):
        assert time.monotonic() < deadline, f"$ {later.run}\n{said}"
        time.sleep(0.2)
