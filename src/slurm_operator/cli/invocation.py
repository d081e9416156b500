"""Commands that can be copied and run as printed: with the path of this program if the shell would not find it.

In: text that mentions `slurm-operator local …` or kubectl. Out: the same text with the commands for this machine and
cluster. Used by `cli/local.py`, `cli/local_wait.py` and the demo; texts elsewhere use the plain name.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path

NAME = "slurm-operator"
DEFAULT_CLUSTER = "demo"
# In the environment of `local kubectl`: the command that starts its cluster, for what is run by it.
LOCAL_UP = "SLURM_OPERATOR_LOCAL_UP"
_COMMAND = re.compile(rf"(?<![\w/.-]){NAME} local\b(?: ([a-z]+))?")
# Commands on one cluster, which take --name and --data.
_OF_CLUSTER = frozenset({"up", "down", "reset", "status", "logs", "kubeconfig", "kubectl", "shell", "images"})


def program() -> str:
    """This program, as the user can type it in the current folder."""
    mine = Path(sysconfig.get_path("scripts")) / NAME
    by_sudo = os.environ.get("SUDO_UID", "0") != "0"
    found = shutil.which(NAME)
    if not mine.exists() or (found and not by_sudo and Path(found).resolve() == mine.resolve()):
        return NAME
    here = Path.cwd()
    shown = mine.relative_to(here) if mine.is_relative_to(here) else mine
    # sudo has its own PATH, and a user who needed sudo needs it again.
    return f"{'sudo ' if by_sudo else ''}{shlex.quote(str(shown))}"


@dataclass(frozen=True, slots=True)
class Typed:
    """How to type commands for one local cluster."""

    name: str = DEFAULT_CLUSTER
    data: Path | None = None

    @property
    def options(self) -> list[str]:
        """The options that select this cluster; none for the default one."""
        chosen = [f"--name={self.name}"] if self.name != DEFAULT_CLUSTER else []
        return [*chosen, *([f"--data={self.data}"] if self.data is not None else [])]

    def local(self, verb: str, *arguments: str) -> str:
        """`slurm-operator local VERB …` on this cluster."""
        return " ".join([program(), "local", shlex.join([verb, *self.options, *arguments])])

    def text(self, text: str) -> str:
        """A text with its commands made runnable."""
        return _COMMAND.sub(self._command, text)

    def _command(self, found: re.Match[str]) -> str:
        verb = found[1] or ""
        if verb in _OF_CLUSTER:
            return self.local(verb)
        return f"{program()} local" + (f" {verb}" if verb else "")

    def kubectl(self, command: str) -> str:
        """A kubectl command for this cluster; any other command stays as it is."""
        program_name, _, rest = command.partition(" ")
        return f"{self.local('kubectl')} {rest}" if program_name == "kubectl" else self.text(command)
