"""The whole namespace: everything that is wrong in it, each cause once, the root ones first.

In: facts. Out: causes. Called by `kubectl slurm doctor` and, for its summary, by `status`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from kube_runtime.text import first_few
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
        *("GoingAway", "PodIsEnding", "NotScheduledYet", "AskedToRegister", "PodGone"),
        *("WaitingForSlurm", "WaitingForJobs"),
    }
)
# Those that tell of a NodeSet what its leaving workers would tell one by one.
OF_LEAVING_WORKERS = frozenset({"ScalingIn", "Deleting"})
# Each of them is looked at with all nodes; a long queue has the same few reasons.
MAX_JOBS = 200
# Of the places where a cause was seen, so many are named.
MAX_PLACES = 3
# What others depend on comes first.
ORDER = ("Controller", "Accounting", "RestApi", "NodeSet", "LoginSet", "Token")


def examine(facts: Facts) -> list[Cause]:
    """Everything that is wrong."""
    return [cause for cause in _once(facts) if cause.wrong]


def passing(facts: Facts) -> list[Cause]:
    """What is under way: not wrong, and worth a line."""
    found = [cause for cause in _once(facts) if cause.waits and cause.code in IN_PROGRESS]
    told = {cause.root for cause in found if cause.code in OF_LEAVING_WORKERS}
    return [cause for cause in found if cause.code != "GoingAway" or cause.root not in told]


def _once(facts: Facts) -> list[Cause]:
    """Each cause once, however many ways lead to it."""
    found: dict[tuple[str, str], list[Cause]] = {}
    for cause in _all(facts):
        found.setdefault((cause.code, cause.root or cause.sentence), []).append(cause)
    return [merged(each) for each in found.values()]


def merged(same: list[Cause]) -> Cause:
    """The first of them, and where else it was seen, as far as its sentence does not say so."""
    first = same[0]
    others = {cause.sentence: cause.seen_at for cause in same if cause.sentence != first.sentence}
    if first.code.endswith("Missing"):
        count = len(others)
        more = f"and {count} more need{'s' if count == 1 else ''} it" if others else ""
    else:
        places = [place for place in dict.fromkeys(others.values()) if not _is_named(first, place)]
        more = f"also seen at {first_few(places, MAX_PLACES)}" if places else ""
    return replace(first, sentence=f"{first.sentence} ({more})") if more else first


def _is_named(cause: Cause, place: str) -> bool:
    """Whether a place is the one of the cause, or stands in its sentence."""
    _, _, name = place.rpartition(" ")
    # As a whole word: compute-1 is not compute-12.
    word = rf"(?<![\w.-]){re.escape(place if place.startswith('job ') else name)}(?![\w-])"
    return place in ("", cause.seen_at) or re.search(word, cause.sentence) is not None


def _all(facts: Facts) -> Iterator[Cause]:
    of_resources: list[Cause] = []
    for kind in ORDER:
        for resource in facts.every(kind):
            answer = resources.why(facts, kind, name_of(resource))
            if isinstance(answer, Cause):
                of_resources.append(replace(answer, seen_at=f"{kind} {name_of(resource)}"))
    yield from of_resources
    for slurm in facts.slurm.values():
        if isinstance(slurm, Slurm):
            of_nodes = list(_nodes(facts, slurm))
            yield from of_nodes
            # A job that waits for a node is not reported again if that node is reported anyway, nor a job that a
            # resource waits for.
            reported = {each.command for each in of_nodes}
            roots = {(each.code, each.root) for each in (*of_resources, *of_nodes) if each.root}
            jobs_left = (each for each in _jobs(facts, slurm) if each.command not in reported)
            yield from (each for each in jobs_left if (each.code, each.root) not in roots)
    yield from refusals.examine(facts)
    yield from ghosts.examine(facts)
    for partition in facts.every("Partition"):
        answer = partitions.why(facts, name_of(partition))
        if isinstance(answer, Cause):
            yield replace(answer, seen_at=f"Partition {name_of(partition)}")
    yield from (cause for _, cause in drift.causes(facts))


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
                own = cause.sentence.replace(first, title(job), 1)
                yield replace(cause, sentence=own, seen_at=title(job))


def _nodes(facts: Facts, slurm: Slurm) -> Iterator[Cause]:
    """What is wrong with nodes; all records that are left over are one cause."""
    left = leftovers.why(facts, slurm)
    if left is not None:
        yield left
    alone = set(leftovers.left_over(facts, slurm))
    for name in sorted(slurm.nodes.keys() - alone):
        answer = nodes.why(facts, name)
        if isinstance(answer, Cause):
            yield replace(answer, seen_at=f"node {name}")
