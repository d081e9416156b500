"""The whole namespace: everything that is wrong in it, each cause once, the root ones first.

In: facts. Out: causes. Called by `kubectl slurm doctor` and, for its summary, by `status`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from slurm_operator.diagnose import drift, ghosts, leftovers, refusals
from slurm_operator.diagnose import job as jobs
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose import partition as partitions
from slurm_operator.diagnose import resource as resources
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmJob, name_of
from slurm_operator.diagnose.wording import title

# Codes of what is in progress: reported, but not wrong.
IN_PROGRESS = frozenset(
    {
        *("Trying", "WaitingForSlurmctld", "KeyRotation", "ScalingIn", "Deleting", "JustChanged", "Starting"),
        *("NotCreatedYet", "RolloutNotSeen", "RollingOut", "WaitingForPods", "WorkersNotReady"),
    }
)
# Each of them is looked at with all nodes; a long queue has the same few reasons.
MAX_JOBS = 200
# What others depend on comes first.
ORDER = ("Controller", "Accounting", "RestApi", "NodeSet", "LoginSet", "Token")


def examine(facts: Facts) -> list[Cause]:
    """Everything that is wrong."""
    return [cause for cause in _once(facts) if cause.wrong]


def passing(facts: Facts) -> list[Cause]:
    """What is under way: not wrong, and worth a line."""
    return [cause for cause in _once(facts) if cause.waits and cause.code in IN_PROGRESS]


def _once(facts: Facts) -> list[Cause]:
    """Each cause once, however many ways lead to it."""
    found: dict[tuple[str, str], list[Cause]] = {}
    for cause in _all(facts):
        found.setdefault((cause.code, cause.root or cause.sentence), []).append(cause)
    return [_merged(each) for each in found.values()]


def _merged(same: list[Cause]) -> Cause:
    more = len({cause.sentence for cause in same}) - 1
    others = (
        f"{more} more need{'s' if more == 1 else ''} it" if same[0].code.endswith("Missing") else f"{more} more like it"
    )
    return replace(same[0], sentence=f"{same[0].sentence} (and {others})") if more else same[0]


def _all(facts: Facts) -> Iterator[Cause]:
    for kind in ORDER:
        for resource in facts.every(kind):
            answer = resources.why(facts, kind, name_of(resource))
            if isinstance(answer, Cause):
                yield answer
    for slurm in facts.slurm.values():
        if isinstance(slurm, Slurm):
            of_nodes = list(_nodes(facts, slurm))
            yield from of_nodes
            # A job that waits for a node is not reported again if that node is reported anyway.
            reported = {each.command for each in of_nodes}
            yield from (each for each in _jobs(facts, slurm) if each.command not in reported)
    yield from refusals.examine(facts)
    yield from ghosts.examine(facts)
    for partition in facts.every("Partition"):
        answer = partitions.why(facts, name_of(partition))
        incomplete = answer if isinstance(answer, Cause) else partitions.without_nodeset(facts, partition)
        if incomplete is not None:
            yield incomplete
    yield from _drift(facts)


def _jobs(facts: Facts, slurm: Slurm) -> Iterator[Cause]:
    """Jobs that will never start as they are; those that wait for the same reason in one partition are one cause."""
    # Jobs that agree in all of these wait for the same thing: a thousand tasks of an array are judged once.
    alike: dict[tuple[str, str, int, int], list[SlurmJob]] = {}
    for job in slurm.jobs.values():
        if job.state == "PENDING":
            alike.setdefault((job.reason, job.partition, job.node_count, job.cpus), []).append(job)
    for some in islice(alike.values(), MAX_JOBS):
        answer = jobs.why(facts, some[0].id)
        if isinstance(answer, Cause) and answer.wrong:
            first = title(some[0])
            mine = first in answer.sentence
            cause = replace(answer, root=f"jobs in {some[0].partition}") if mine and not answer.root else answer
            for job in some:
                yield replace(cause, sentence=cause.sentence.replace(first, title(job), 1))


def _drift(facts: Facts) -> Iterator[Cause]:
    """What somebody changed in Slurm, and the operator was told to report."""
    for row in drift.current(facts):
        # A partition that is not up is already reported as such.
        is_reported = row.field == "State" and row.found != "UP"
        if row.state in (drift.REPORTED, drift.LEFT) and row.is_by_hand and not is_reported:
            yield drift.cause(facts, row)


def _nodes(facts: Facts, slurm: Slurm) -> Iterator[Cause]:
    """What is wrong with nodes; all records that are left over are one cause."""
    left = leftovers.why(facts, slurm)
    if left is not None:
        yield left
    alone = set(leftovers.left_over(facts, slurm))
    for name in sorted(slurm.nodes.keys() - alone):
        answer = nodes.why(facts, name)
        if isinstance(answer, Cause):
            yield answer
