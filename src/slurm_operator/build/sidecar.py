"""The configuration sidecar's program: parts with one job each, joined to one text.

In: the files of `scripts/reconfigure` and the table of `build/verdicts.py`. Out: `program`, the text that bash runs in
the `reconfigure` container; `build/controller.py` puts it into the pod template, so that a changed text makes new
controller pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from slurm_operator.build import pods, verdicts

# The generated part; the others are files.
VERDICT_LINE = "verdict_line"
# In the order in which bash reads them: settings first, and last what runs at once.
PARTS = (
    "settings",
    "clock",
    "arrival",
    VERDICT_LINE,
    "report",
    "files",
    "keys",
    "conf",
    "slurmctld",
    "trial",
    "apply",
    "candidate",
    "start",
    "main",
)


@cache
def program() -> str:
    """The whole program."""
    return joined(parts())


def parts() -> dict[str, str]:
    """The text of each part, in order."""
    return {name: verdicts.shell() if name == VERDICT_LINE else pods.script(path(name)) for name in PARTS}


def path(part: str) -> str:
    """Where a part that is a file stands, below `scripts`."""
    return f"reconfigure/{part}.sh"


def joined(texts: Mapping[str, str]) -> str:
    """Parts as one text, an empty line between two."""
    return "\n".join(f"{text.rstrip()}\n" for text in texts.values())
