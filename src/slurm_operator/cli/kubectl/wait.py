"""`kubectl slurm wait`: waits until a resource, or everything in a namespace, is ready; says why not every few seconds.

In: a namespace, and what to wait for. Out: exit code 0 once it is ready, 1 with the first cause after the timeout.
Registered by `main.py`; mentioned in the notes of the charts.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kube_runtime.text import printable
from slurm_operator.cli.kubectl.command import KINDS, Where, command, facts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_operator.cli.waiting import Reason
    from slurm_operator.diagnose.cause import Diagnosis
    from slurm_operator.diagnose.facts import Facts

WAITED_FOR = ("partition", *KINDS)
MAX_SENTENCE_CHARACTERS = 2048
# What is under way while everything is ready: it is told, and not waited for.
NOT_WAITED_FOR = frozenset({"PodGone", "WaitingForJobs", "WaitingForSlurm"})


@command()
@click.argument("target", metavar="[KIND/NAME]", required=False, default="")
@click.option("--timeout", "seconds", default=600.0, show_default=True, help="Seconds to wait.")
async def wait(where: Where, target: str, seconds: float) -> None:
    """Wait until a resource, or everything in the namespace, is ready, and say why it is not yet.

    What is under way counts as not ready: a start, an update, a scale-in, a deletion, the rotation of a key.
    """
    from slurm_operator.cli.waiting import until

    kind, slash, name = target.partition("/")
    if target and (not slash or not name or kind not in WAITED_FOR):
        raise click.BadParameter(f"{target!r} is not KIND/NAME with a kind of {', '.join(WAITED_FOR)}")
    left: list[Diagnosis] = []
    place: list[str] = [where.namespace]
    goes_on: list[Diagnosis] = []

    async def is_so() -> bool:
        facts = await facts_of(where)
        place[:] = [facts.namespace]
        left[:], goes_on[:] = in_the_way(facts, target), not_waited_for(facts, target)
        return not left

    async def why() -> Reason:
        return first_of(left, place[0])

    what = f"{target} is ready" if target else "everything is ready"
    waited = await until(what, is_so, why, seconds)
    if waited.is_so:
        click.echo(f"{what} ({waited.seconds:.1f} s)")
        for cause in goes_on:
            click.echo(f"not waited for: {printable(cause.sentence, MAX_SENTENCE_CHARACTERS)}")
        return
    click.echo(f"not ready after {seconds:g} s: {first_of(left, place[0]).text}", err=True)
    sys.exit(1)


def in_the_way(facts: Facts, target: str) -> list[Diagnosis]:
    """What keeps the target, or everything, from being ready."""
    from slurm_operator.cli.kubectl.explain import explained
    from slurm_operator.diagnose.cause import Fine
    from slurm_operator.diagnose.cluster import examine, passing

    if not target:
        # What is under way ends by itself, but nothing is ready before that.
        return [*examine(facts), *(cause for cause in passing(facts) if not _goes_on(cause))]
    answer = explained(facts, target)
    return [] if isinstance(answer, Fine) or _goes_on(answer) else [answer]


def not_waited_for(facts: Facts, target: str) -> list[Diagnosis]:
    """What is under way although the target, or everything, is ready."""
    from slurm_operator.cli.kubectl.explain import explained
    from slurm_operator.diagnose.cluster import passing

    return [each for each in ([explained(facts, target)] if target else passing(facts)) if _goes_on(each)]


def _goes_on(answer: Diagnosis) -> bool:
    from slurm_operator.diagnose.cause import Cause

    return isinstance(answer, Cause) and answer.waits and answer.code in NOT_WAITED_FOR


def first_of(left: Sequence[Diagnosis], namespace: str) -> Reason:
    """The first cause, and how many more there are."""
    from slurm_operator.cli.waiting import UNKNOWN, Reason, reason_of

    if not left:
        return UNKNOWN
    first = reason_of(left[0])
    more = f" (and {len(left) - 1} more: kubectl slurm -n {namespace} doctor)" if len(left) > 1 else ""
    return Reason(f"{first.sentence}{more}", first.command)
