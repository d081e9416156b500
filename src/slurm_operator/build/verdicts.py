"""The verdict line of the configuration sidecar: one table, which both sides read.

In: the table below. Out: `shell`, the part of the sidecar that prints a verdict (`build/sidecar.py` joins it to the
others), and `read`, with which `plan/config.py` understands a line of the pod's log.

A change of the fields or stages is a new `VERSION`: an operator that does not know it must not guess. Version 1 carries
no number; sidecars of the release before may still print it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

VERSION = 2

APPLIED, REFUSED, ROLLED_BACK = "applied", "refused", "rolledback"
# What the sidecar calls each stage in its own code.
STAGES: Mapping[str, str] = {"APPLIED": APPLIED, "REFUSED": REFUSED, "ROLLED_BACK": ROLLED_BACK}
# No sidecar prints this: a verdict that is there, and that this operator does not understand.
UNREADABLE = "unreadable"

# A time may be negative: the node's clock went back meanwhile.
_NUMBER = r"-?[0-9]+"
MAX_VERSION_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the line: its name, what it may hold, and the variable of the sidecar that holds it."""

    name: str
    pattern: str
    variable: str
    is_quoted: bool = False
    # Whether version 1 may lack it.
    is_new: bool = False

    def with_value(self, value: str) -> str:
        """The field as it stands in the line."""
        return f'{self.name}="{value}"' if self.is_quoted else f"{self.name}={value}"


FIELDS = (
    # Of all files together.
    Field("hash", r"[0-9A-Za-z]{1,64}", "hash"),
    Field("stage", r"[a-z]{1,16}", "stage"),
    # Milliseconds: from the first look at the candidate to the verdict, and of each step.
    Field("ms", _NUMBER, "ms"),
    Field("parse", _NUMBER, "parse_ms"),
    Field("trial", _NUMBER, "trial_ms"),
    Field("reconfigure", _NUMBER, "reconfigure_ms"),
    # When slurmctld read its files, in seconds since 1970; 0 when it did not.
    Field("at", _NUMBER, "at", is_new=True),
    # One line; quotes and backslashes in it are escaped.
    Field("reason", r".*", "reason", is_quoted=True),
)
# One %s for each field, as printf and Python's % know it.
FORMAT = f"verdict version={VERSION} " + " ".join(each.with_value("%s") for each in FIELDS)

_NUMBERED = re.compile(r"verdict version=(?P<version>[0-9]+)(?: .*)?")


def _pattern(start: str, version: int) -> re.Pattern[str]:
    parts = ((each, " " + each.with_value(f"(?P<{each.name}>{each.pattern})")) for each in FIELDS)
    return re.compile(start + "".join(f"(?:{text})?" if each.is_new and version == 1 else text for each, text in parts))


_PATTERNS = {1: _pattern("verdict", 1), VERSION: _pattern(f"verdict version={VERSION}", VERSION)}


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """What one line says: its fields, or why they are not understood."""

    version: int
    values: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def read(line: str) -> VerdictLine | None:
    """What a line of the sidecar's log says; None where it is no verdict."""
    numbered = _NUMBERED.fullmatch(line)
    version = int(numbered["version"][:MAX_VERSION_DIGITS]) if numbered else 1
    if numbered and version != VERSION:
        return VerdictLine(
            version, problem=f"the sidecar's verdict has version {version}; this operator reads {VERSION}"
        )
    match = _PATTERNS[version].fullmatch(line)
    if match is None:
        return None
    if match["stage"] not in STAGES.values():
        return VerdictLine(
            version, problem=f"the sidecar's verdict has a stage that this operator lacks: {match['stage']}"
        )
    return VerdictLine(version, {name: value for name, value in match.groupdict().items() if value is not None})


def shell() -> str:
    """The sidecar's side of the table: the names of the stages, and the function that prints a verdict."""
    stages = " ".join(f"{name}={text}" for name, text in STAGES.items())
    variables = " ".join(f'"${each.variable}"' for each in FIELDS)
    return (
        "# The verdict line, version and fields as the operator reads them: made from build/verdicts.py.\n"
        f"{stages}\n"
        "\n"
        "print_verdict() {\n"
        f"  printf '{FORMAT}\\n' \\\n"
        f"    {variables}\n"
        "}\n"
    )
