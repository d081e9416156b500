"""How `kubectl slurm` shows things: tables for people, colour on a terminal, JSON and YAML for machines.

In: facts and answers. Out: text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import yaml

from kube_runtime.text import printable
from slurm_operator.api.plural import counted
from slurm_operator.diagnose.cause import Cause, Diagnosis, Fine
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Slurm,
    SlurmPartition,
    condition_of,
    controller_of,
    name_of,
    spec_of,
    status_of,
)
from slurm_operator.diagnose.node import hosts_of
from slurm_operator.diagnose.partition_owner import Owner, owner_of, owners

MAX_CELL_CHARACTERS = 2048
_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,20}m)")
_ACTING = re.compile(r"[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
UNKNOWN = "?"
OF_SLURM = ("slurmIdle", "slurmAllocated", "slurmDrain", "slurmDown")
COLUMNS = {
    **dict.fromkeys(("invalid_reg", "down", "fail", "not_responding"), "slurmDown"),
    "drain": "slurmDrain",
    **dict.fromkeys(("mixed", "allocated", "completing"), "slurmAllocated"),
    "idle": "slurmIdle",
}
BAD = frozenset({"DOWN", "FAIL", "NOT_RESPONDING", "INVALID_REG"})


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns under a head, as kubectl prints them."""
    cells = [list(head), *([_cell(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(click.unstyle(row[index])) for row in cells) for index in range(len(head))]
    lines = []
    for row in cells:
        padded = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True)]
        lines.append("   ".join(padded).rstrip())
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A cell: colours that were put there stay, nothing else of it acts on a terminal."""
    parts = _COLOUR.split(text)
    return "".join(part if index % 2 else _one_line(part) for index, part in enumerate(parts))


def _one_line(text: str) -> str:
    # The spaces at its ends are between a colour and the next word.
    inner = printable(text, MAX_CELL_CHARACTERS)
    return text if text.strip(" ") == inner else inner


def data(value: object, output: str) -> str:
    """A value for machines; what would act on a terminal is escaped."""
    if output == "json":
        written = json.dumps(value, indent=2, ensure_ascii=False)
        return _ACTING.sub(lambda found: json.dumps(found[0])[1:-1], written) + "\n"
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return yaml.safe_dump(value, sort_keys=False) if _ACTING.search(text) else text


def answer_text(answer: Diagnosis) -> str:
    """A diagnosis for people: the way down, the sentence, the command."""
    sentence = printable(answer.sentence, MAX_CELL_CHARACTERS)
    if isinstance(answer, Fine):
        return click.style("ok", fg="green") + f"  {sentence}\n"
    lines = []
    if isinstance(answer, Cause):
        lines = [f"{'  ' * depth}{printable(step, MAX_CELL_CHARACTERS)}" for depth, step in enumerate(answer.trail)]
    mark = click.style("..", fg="yellow") if is_well(answer) else click.style("!!", fg="red")
    command = click.style(printable(answer.command, MAX_CELL_CHARACTERS), bold=True)
    return "\n".join([*lines, f"{mark}  {sentence}", f"    {command}"]) + "\n"


def is_well(answer: Diagnosis) -> bool:
    """Whether nobody has to act: it is fine, in progress, or as somebody asked for."""
    return isinstance(answer, Fine) or (isinstance(answer, Cause) and not answer.wrong)


def answer_data(answer: Diagnosis) -> dict[str, Any]:
    """A diagnosis for machines."""
    if isinstance(answer, Cause):
        return {
            "ok": is_well(answer),
            "code": answer.code,
            "sentence": answer.sentence,
            "command": answer.command,
            "trail": list(answer.trail),
        }
    if isinstance(answer, Fine):
        return {"ok": True, "sentence": answer.sentence}
    return {"ok": False, "code": "NotFound", "sentence": answer.sentence, "command": answer.command}


def ready(resource: Object) -> str:
    """A resource's readiness in a word."""
    condition = condition_of(resource, "Ready") or {}
    status = str(condition.get("status", "-"))
    if status == "True":
        return click.style("yes", fg="green")
    if status == "-":
        return status
    return click.style(str(condition.get("reason") or status), fg="yellow" if status == "Unknown" else "red")


def summary(facts: Facts) -> dict[str, Any]:
    """One namespace for machines."""
    return {
        "namespace": facts.namespace,
        "clusters": [
            {
                "name": name_of(each),
                "ready": _status(each),
                "config": status_of(each).get("configHash"),
                **_slurm(facts.slurm_of(name_of(each))),
            }
            for each in facts.every("Controller")
        ],
        "nodeSets": [
            {"name": name_of(each), "ready": _status(each), **_counts(facts, each)} for each in facts.every("NodeSet")
        ],
        "partitions": [dict(row) for row in partition_rows(facts)],
    }


def _status(resource: Object) -> str:
    return str((condition_of(resource, "Ready") or {}).get("status", "Unknown"))


def _slurm(slurm: object) -> dict[str, Any]:
    if not isinstance(slurm, Slurm):
        return {"slurm": getattr(slurm, "why", "unknown")}
    jobs = Counter(job.state for job in slurm.jobs.values())
    states = Counter(_main_state(node.states) for node in slurm.nodes.values())
    return {"slurm": "answers", "nodes": dict(states), "jobs": dict(jobs)}


def _main_state(states: frozenset[str]) -> str:
    """A node's state in one word, the worst first."""
    for state in ("INVALID_REG", "DOWN", "FAIL", "NOT_RESPONDING", "DRAIN", "MIXED", "ALLOCATED", "COMPLETING", "IDLE"):
        if state in states:
            return state.lower()
    return "+".join(sorted(states)).lower()


def _counts(facts: Facts, nodeset: Object) -> dict[str, Any]:
    status = status_of(nodeset)
    found = {name: status.get(name) or 0 for name in ("replicas", "readyReplicas", *OF_SLURM)}
    if (condition_of(nodeset, "SlurmReachable") or {}).get("status") in ("False", "Unknown"):
        # Its counts of Slurm's nodes are from the last time that Slurm answered.
        found |= dict.fromkeys(OF_SLURM)
    slurm = facts.slurm_of(controller_of(nodeset))
    if isinstance(slurm, Slurm):
        found |= _columns(slurm, hosts_of(facts, nodeset))
    return {"desired": spec_of(nodeset).get("replicas"), **found}


def _columns(slurm: Slurm, hosts: Iterable[str]) -> dict[str, int]:
    """How many nodes are in each column: each in one, though Slurm calls a drained node idle too."""
    states = Counter(COLUMNS.get(_main_state(slurm.nodes[host].states)) for host in hosts if host in slurm.nodes)
    return {column: states[column] for column in OF_SLURM}


def partition_rows(facts: Facts) -> list[Mapping[str, Any]]:
    """Every partition, of a resource or not."""
    # Of several that claim one name, the one that has it is shown.
    titles = {each.partition for each in owners(facts)}
    claimed = {title: owner for title in titles if (owner := owner_of(facts, title)) is not None}
    rows: list[Mapping[str, Any]] = []
    for cluster, slurm in sorted(facts.slurm.items()):
        known = slurm.partitions if isinstance(slurm, Slurm) else {}
        mine = {title: owner for title, owner in claimed.items() if owner.cluster == cluster}
        for title in sorted({*known, *mine}):
            found, owner = known.get(title), mine.get(title)
            rows.append(
                {
                    "cluster": cluster,
                    "name": title,
                    **_partition_counts(slurm, title, found),
                    "object": _object(owner) if owner is not None else "",
                    "drift": len(status_of(owner.resource).get("drift") or ()) if owner is not None else 0,
                }
            )
    return rows


def _partition_counts(slurm: object, title: str, found: SlurmPartition | None) -> dict[str, Any]:
    """Its state, nodes and jobs; None where Slurm does not answer, for 0 would be a fact."""
    if not isinstance(slurm, Slurm):
        return dict.fromkeys(("state", "nodes", "running", "pending"))
    jobs = Counter(job.state for job in slurm.jobs.values() if job.partition == title)
    return {
        "state": found.state if found else "-",
        "nodes": len(found.nodes) if found else 0,
        "running": jobs["RUNNING"],
        "pending": jobs["PENDING"],
    }


def known(value: object) -> str:
    """A cell of a table; an unknown value is neither 0 nor empty."""
    return UNKNOWN if value is None else str(value) or "-"


def _object(owner: Owner) -> str:
    return f"{owner.kind.lower()}/{owner.name}"


def overview(facts: Facts, causes: Sequence[Cause], under_way: Sequence[Cause] = ()) -> str:
    """One screen: clusters, node sets, partitions, jobs, what is wrong, and what is in progress."""
    last = _wrong(causes) + _in_progress(under_way)
    parts = [_clusters(facts), _nodesets(facts), _partitions(facts), _others(facts), last]
    return "\n".join(part for part in parts if part)


def _clusters(facts: Facts) -> str:
    rows = []
    for each in facts.every("Controller"):
        summary = _slurm(facts.slurm_of(name_of(each)))
        nodes = ", ".join(f"{count} {_coloured(state)}" for state, count in sorted(summary.get("nodes", {}).items()))
        jobs = ", ".join(f"{count} {state.lower()}" for state, count in sorted(summary.get("jobs", {}).items()))
        answers = (
            click.style("answers", fg="green") if summary["slurm"] == "answers" else click.style("silent", fg="red")
        )
        empty = "-" if summary["slurm"] == "answers" else UNKNOWN
        rows.append([name_of(each), ready(each), answers, nodes or empty, jobs or empty])
    return table(["CLUSTER", "READY", "SLURM", "NODES", "JOBS"], rows) if rows else "there is no Controller here\n"


def _coloured(state: str) -> str:
    colour = {"idle": "green", "mixed": "cyan", "allocated": "cyan", "drain": "yellow"}.get(state)
    return click.style(state, fg=colour or ("red" if state.upper() in BAD else None))


def _nodesets(facts: Facts) -> str:
    rows = [
        [
            name_of(each),
            ready(each),
            _pods(counts),
            *(known(counts[key]) for key in OF_SLURM),
        ]
        for each in facts.every("NodeSet")
        for counts in [_counts(facts, each)]
    ]
    return table(["NODESET", "READY", "PODS", "IDLE", "ALLOCATED", "DRAIN", "DOWN"], rows) if rows else ""


def _pods(counts: Mapping[str, Any]) -> str:
    """How many of the desired pods are ready; those that will be removed are counted separately."""
    desired = counts["desired"] if counts["desired"] is not None else counts["replicas"]
    leaving = max(counts["replicas"] - desired, 0)
    ready = min(counts["readyReplicas"], desired)
    return f"{ready}/{desired}" + (f" (+{leaving} leaving)" if leaving else "")


def _partitions(facts: Facts) -> str:
    rows = [
        [
            row["name"],
            _state(known(row["state"])),
            *(known(row[key]) for key in ("nodes", "running", "pending", "object")),
        ]
        for row in partition_rows(facts)
    ]
    return table(["PARTITION", "STATE", "NODES", "RUNNING", "PENDING", "OBJECT"], rows) if rows else ""


def _state(state: str) -> str:
    return click.style(state, fg={"UP": "green", "-": "red"}.get(state, "yellow"))


def _others(facts: Facts) -> str:
    rows = [
        [f"{kind.lower()}/{name_of(each)}", ready(each)]
        for kind in ("Accounting", "RestApi", "LoginSet", "Token")
        for each in facts.every(kind)
    ]
    return table(["OTHER", "READY"], rows) if rows else ""


def _wrong(causes: Sequence[Cause]) -> str:
    if not causes:
        return click.style("nothing is wrong", fg="green") + "\n"
    return _listed(click.style(counted(len(causes), "problem"), fg="red"), causes, "")


def _in_progress(under_way: Sequence[Cause]) -> str:
    """The same mark as `doctor` has for it."""
    mark = click.style("..", fg="yellow")
    return _listed(f"{len(under_way)} in progress", under_way, f"{mark} ") if under_way else ""


def _listed(head: str, causes: Sequence[Cause], mark: str) -> str:
    lines = [head]
    for cause in causes:
        command = click.style(printable(cause.command, MAX_CELL_CHARACTERS), bold=True)
        lines += [f"  {mark}{printable(cause.sentence, MAX_CELL_CHARACTERS)}", f"    {command}"]
    return "\n".join(lines) + "\n"
