"""sshd_config of login pods and workers.

In: extra lines of a user. Out: the text. Used by `build/loginset.py` and `build/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from slurm_operator.api import text
from slurm_operator.api.problem import Path
from slurm_operator.build.errors import InvalidSpec

FILE = "sshd_config"
INCLUDE = "Include /etc/ssh/sshd_config.d/*.conf"
SFTP = "Subsystem sftp internal-sftp"


def config(options: Sequence[str], extra: str | None, path: Path) -> str:
    """The text of sshd_config."""
    lines = ["#", "### GENERAL ###", *options, "#", "### EXTRA CONFIG ###", checked(extra, path)]
    return "\n".join(lines) + "\n"


def checked(extra: str | None, path: Path) -> str:
    """Lines of a user for a file, checked, without a line end."""
    problem = text.config_text(extra or "")
    if problem:
        raise InvalidSpec(path, problem)
    return (extra or "").replace("\r\n", "\n").rstrip("\n")
