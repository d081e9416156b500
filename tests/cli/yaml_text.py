"""The objects of a YAML text, or what is wrong with it: for the tests of everything that reads manifests."""

from __future__ import annotations

from typing import Any

from slurm_operator.cli.manifests import Manifest, parse
from slurm_operator.cli.places import Problem


def values(text: str | bytes) -> list[Any]:
    """The objects of a text that has no problems."""
    found = list(parse(text.encode() if isinstance(text, str) else text, "f.yaml"))
    assert all(isinstance(one, Manifest) for one in found), found
    return [one.value for one in found if isinstance(one, Manifest)]


def problems(text: str | bytes) -> list[str]:
    """The problems of a text that gives no object, as `line:column message`."""
    found = list(parse(text.encode() if isinstance(text, str) else text, "f.yaml"))
    assert all(isinstance(one, Problem) for one in found), found
    return [f"{one.line}:{one.column} {one.message}" for one in found if isinstance(one, Problem)]
