"""Why a job waits for another one: which one, in which state it is, and what has to happen to it.

In: facts, a job that is pending, and its cluster. Out: a cause, or None where its dependency is not understood. Used by
`diagnose/waiting.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, clock
from slurm_operator.diagnose.room import ON_NODES
from slurm_operator.diagnose.wording import code_of, in_shell, plain, title, why_job

# afterok:7(unfulfilled), afterany:8_*, singleton
_ONE = re.compile(r"(?P<kind>[a-z]+)(?::(?P<job>\d+)(?P<task>_[\d*]+)?(?:\+\d+)?)?(?:\((?P<state>\w+)\))?")
KINDS = {
    "after": "has started",
    "afterany": "has ended",
    "afterok": "has ended well",
    "afternotok": "has failed",
    "aftercorr": "has ended well in the same task",
    "afterburstbuffer": "has left the burst buffer",
    "expand": "gives it its nodes",
    "singleton": "of the same name and user has ended",
}
SINGLETON = "singleton"
NEVER = "DependencyNeverSatisfied"


@dataclass(frozen=True, slots=True)
class _Link:
    kind: str
    job: str
    task: str


def dependency(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """The first job that it waits for."""
    for link in _links(job.wants.get("Dependency", "")):
        other = _other(link, job, slurm)
        if link.kind == SINGLETON and other is None:
            continue
        return _waits_for(facts, job, link, other)
    return None


def _links(text: str) -> Iterator[_Link]:
    for part in re.split("[,?]", text):
        found = _ONE.fullmatch(part.strip())
        if found is not None and found["kind"] in KINDS and found["state"] != "fulfilled":
            yield _Link(found["kind"], found["job"] or "", found["task"] or "")


def _other(link: _Link, job: SlurmJob, slurm: Slurm) -> SlurmJob | None:
    if link.kind == SINGLETON:
        same = (each for each in slurm.jobs.values() if each.id != job.id and _is_same(each, job))
        return min(same, key=lambda each: int(each.id), default=None)
    tasks = (each for each in slurm.jobs.values() if each.array == link.job and f"_{each.tasks}" == link.task)
    return next(tasks, None) or slurm.jobs.get(link.job)


def _is_same(other: SlurmJob, job: SlurmJob) -> bool:
    unfinished = other.state in ON_NODES or other.state == "PENDING"
    return unfinished and (other.name, other.user) == (job.name, job.user) and int(other.id) < int(job.id)


def _waits_for(facts: Facts, job: SlurmJob, link: _Link, other: SlurmJob | None) -> Cause:
    if other is None:
        text = f"it waits until job {link.job}{link.task} {KINDS[link.kind]}, and Slurm no longer has that job"
        gone = in_shell(facts, job, "scontrol update jobid={id} dependency=")
        return plain(facts, job, text, command=gone, waits=False)
    end = f" until {clock(facts, other.end)} at the latest" if other.state in ON_NODES and other.end else ""
    text = f"it waits until {title(other)} {KINDS[link.kind]}; that one is {other.state}{end}"
    if code_of(job) == NEVER:
        return plain(facts, job, f"{text}, so it will never start")
    return plain(facts, job, text, command=why_job(facts, other))
