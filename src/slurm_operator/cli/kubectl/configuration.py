"""A cluster's configuration as `kubectl slurm config` shows it: what is in force, and what is asked for beside it.

In: facts and the name of a Controller. Out: files and differences. What was in force before is shown by `history.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from slurm_operator.build.controller import NOTE, config_map
from slurm_operator.build.errors import BuildError
from slurm_operator.build.slurm_conf import FILE, keeps_partitions, slurm_conf
from slurm_operator.diagnose.facts import Facts, Object, condition_of, name_of, status_of
from slurm_operator.diagnose.forecast import refs_of

# Reasons of ConfigValid: refused before slurmctld got it, and refused by slurmctld.
BEFORE_HAND_OVER = frozenset({"LinterRefused", "SlurmdRefused"})
JUDGED = frozenset({"SlurmRefused", "RolledBack"})
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The files in force, those asked for, and what was said of them."""

    cluster: str
    hash: str
    in_force: Mapping[str, str]
    wanted: Mapping[str, str]
    verdict: str
    refused: bool


def read(facts: Facts, name: str) -> Configuration:
    """The configuration of one cluster; the only one when none is named."""
    resource = _controller(facts, name)
    title = name_of(resource)
    valid = condition_of(resource, "ConfigValid") or {}
    in_force = _files(facts, f"{title}-config")
    refused = valid.get("status") == "False"
    return Configuration(
        title,
        str((status_of(resource).get("config") or {}).get("hash", "")),
        in_force,
        _wanted(facts, title, valid, in_force),
        str(valid.get("message", "the operator has not reported on it yet")),
        refused,
    )


def _wanted(facts: Facts, name: str, valid: Object, in_force: Mapping[str, str]) -> Mapping[str, str]:
    """What is asked for: the candidate if slurmctld has got it, else what the operator would make of the resources.

    The linter and slurmd judge before anything is handed over, and an older candidate may still lie there.
    """
    candidate = _files(facts, f"{name}-config-candidate") or in_force
    reason, is_open = valid.get("reason"), valid.get("status") != "True"
    if is_open and (reason in BEFORE_HAND_OVER or (reason not in JUDGED and candidate == in_force)):
        return _built(facts, name, in_force) or candidate
    return candidate


def _built(facts: Facts, name: str, in_force: Mapping[str, str]) -> dict[str, str]:
    """The files as the operator's builders make them; none if they cannot be made."""
    refs = refs_of(facts)
    cr = refs.controllers.get(name)
    if cr is None or cr.spec.external:
        return {}
    try:
        conf = slurm_conf(cr, refs)
        data = config_map(cr, refs, conf)["data"]
    except BuildError:
        return {}
    # Whether slurmrestd changes partitions is its own to say: what is in force knows.
    text = conf.text_for(live_partitions=keeps_partitions(in_force.get(FILE, "")))
    return dict(sorted({**data, FILE: text}.items()))


def _controller(facts: Facts, name: str) -> Object:
    known = facts.every("Controller")
    if not name and len(known) == 1:
        return known[0]
    found = facts.get("Controller", name) if name else None
    if found is not None:
        return found
    if not known:
        raise click.ClickException(f"there is no Controller in namespace {facts.namespace}")
    titles = ", ".join(name_of(each) for each in known)
    wrong = f"there is no Controller {name!r}" if name else "name a Controller"
    raise click.ClickException(f"{wrong} in namespace {facts.namespace}; there is: {titles}")


def _files(facts: Facts, name: str) -> dict[str, str]:
    data = (facts.get("ConfigMap", name) or {}).get("data") or {}
    return {file: str(text) for file, text in sorted(data.items()) if file != NOTE}


def differences(found: Configuration) -> Iterator[str]:
    """What is asked for and not in force, as lines of a unified diff."""
    for file in sorted({*found.in_force, *found.wanted}):
        before, after = found.in_force.get(file, ""), found.wanted.get(file, "")
        yield from difflib.unified_diff(
            before.splitlines(), after.splitlines(), f"in force/{file}", f"asked for/{file}", n=2, lineterm=""
        )


def coloured(line: str) -> str:
    """A line of a diff as people read it."""
    return click.style(line, fg=COLOURS.get(line[:1]))
