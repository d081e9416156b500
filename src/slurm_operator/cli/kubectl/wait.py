"""`kubectl slurm wait`: waits until a resource, or everything in a namespace, is ready; says why not every few seconds.

In: a namespace, and what to wait for. Out: exit code 0 once it is ready, 1 with the first cause after the timeout.
Registered by `main.py`; mentioned in the notes of the charts.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from slurm_operator.cli.kubectl.command import KINDS, Where, command, facts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_operator.cli.waiting import Reason
    from slurm_operator.diagnose.cause import Diagnosis
    from slurm_operator.diagnose.facts import Facts

WAITED_FOR = ("partition", *KINDS)


@command()
@click.argument("target", metavar="[KIND/NAME]", required=False, default="")
@click.option("--timeout", "seconds", default=600.0, show_default=True, help="Seconds to wait.")
async def wait(where: Where, target: str, seconds: float) -> None:
    """Wait until a resource, or everything in the namespace, is ready, and say why it is not yet."""
    from slurm_operator.cli.waiting import until

    kind, slash, name = target.partition("/")
    if target and (not slash or not name or kind not in WAITED_FOR):
        raise click.BadParameter(f"{target!r} is not KIND/NAME with a kind of {', '.join(WAITED_FOR)}")
    left: list[Diagnosis] = []
    place = [where.namespace]

    async def is_so() -> bool:
        facts = await facts_of(where)
        place[:] = [facts.namespace]
        left[:] = in_the_way(facts, target)
        return not left

    async def why() -> Reason:
        return first_of(left, place[0])

    what = f"{target} is ready" if target else "everything is ready"
    waited = await until(what, is_so, why, seconds)
    if waited.is_so:
        click.echo(f"{what} ({waited.seconds:.1f} s)")
        return
    click.echo(f"not ready after {seconds:g} s: {first_of(left, place[0]).text}", err=True)
    sys.exit(1)


def in_the_way(facts: Facts, target: str) -> list[Diagnosis]:
    """What keeps the target, or everything, from being ready."""
    from slurm_operator.cli.kubectl.explain import explained
    from slurm_operator.diagnose.cause import Fine
    from slurm_operator.diagnose.cluster import examine, passing

    if not target:
        # What is being deleted is not ready, and has to be applied again once it is gone.
        return [*examine(facts), *(cause for cause in passing(facts) if cause.code == "Deleting")]
    answer = explained(facts, target)
    return [] if isinstance(answer, Fine) else [answer]


def first_of(left: Sequence[Diagnosis], namespace: str) -> Reason:
    """The first cause, and how many more there are."""
    from slurm_operator.cli.waiting import UNKNOWN, Reason, reason_of

    if not left:
        return UNKNOWN
    first = reason_of(left[0])
    more = f" (and {len(left) - 1} more: kubectl slurm -n {namespace} doctor)" if len(left) > 1 else ""
    return Reason(f"{first.sentence}{more}", first.command)
