"""`kubectl slurm partition` and `drift`: partitions seen, and changed at once and for good.

In: a name and what is wanted of it. Out: the resource changed that has the partition (a Partition, or a NodeSet that
makes one), and what Slurm reports of it. Put into the group by `main.py`.
"""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kube_runtime.text import printable
from slurm_operator.cli.kubectl.command import OUTPUT, WAIT, Where, changing, command, facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm_operator.cli.kubectl.change import Changes, Done
    from slurm_operator.diagnose.cause import Cause
    from slurm_operator.diagnose.drift import ChangedBack, Drifted
    from slurm_operator.diagnose.facts import Facts
    from slurm_operator.diagnose.partition_owner import Owner

# A change that the operator is making looks like one by hand at first.
SECOND_LOOK_SECONDS = 1.0
ADOPT_SECONDS = 10.0


@click.group()
def partition() -> None:
    """Show and change partitions; changes take effect at once and last."""


@command(partition, name="list")
@OUTPUT
async def list_partitions(where: Where, output: str) -> None:
    """List all partitions, and the resource that has each."""
    from slurm_operator.cli.kubectl import view

    facts = await facts_of(where)
    rows = view.partition_rows(facts)
    if output != "text":
        click.echo(view.data([dict(row) for row in rows], output), nl=False)
    else:
        head = ["cluster", "name", "state", "nodes", "running", "pending", "object", "drift"]
        cells = [[view.known(row[key]) for key in head] for row in rows]
        click.echo(view.table([key.upper() for key in head], cells), nl=False)
    silent = _silent(facts)
    for cause in silent:
        click.echo(f"{printable(cause.sentence)}; {cause.command}", err=True)
    sys.exit(1 if silent else 0)


def _silent(facts: Facts) -> list[Cause]:
    """Why the clusters that do not answer are not known."""
    from slurm_operator.diagnose import node as nodes
    from slurm_operator.diagnose.facts import Silence, spec_of

    return [
        nodes.silent(facts, name, slurm)
        for name, slurm in facts.slurm.items()
        if isinstance(slurm, Silence) and not spec_of(facts.get("Controller", name) or {}).get("external")
    ]


def _state_command(name: str, state: str, text: str) -> None:
    @command(partition, name=name, help=text)
    @click.argument("partition_name", metavar="NAME")
    @WAIT
    async def change(where: Where, partition_name: str, seconds: float) -> None:
        await _set(where, partition_name, {"State": state}, seconds)


_state_command("drain", "DRAIN", "Accept no new jobs; those in it keep running.")
_state_command("down", "DOWN", "Accept jobs, but start none.")
_state_command("up", "UP", "Accept and run jobs.")
_state_command("inactive", "INACTIVE", "Neither accept nor start jobs.")


@command(partition, name="set")
@click.argument("partition_name", metavar="NAME")
@click.argument("options", metavar="OPTION=VALUE...", nargs=-1, required=True)
@WAIT
async def set_options(where: Where, partition_name: str, options: tuple[str, ...], seconds: float) -> None:
    """Set options such as MaxTime=2:00:00; an option without a value (QOS=) gets its default."""
    from slurm_operator.cli.kubectl.options import BadOption, parsed

    try:
        wanted = parsed(options)
    except BadOption as error:
        raise click.BadParameter(str(error)) from error
    await _set(where, partition_name, wanted, seconds)


async def _set(where: Where, name: str, options: Mapping[str, str], seconds: float) -> None:
    from slurm_operator.cli.kubectl.options import BadOption, written

    async with changing(where) as changes:
        facts = await changes.resources()
        owner = await _owner(changes, facts, name, f"set {written(options)}")
        try:
            done = await changes.set_options(facts, owner, options, seconds)
        except BadOption as error:
            raise click.ClickException(f"{owner.place}: {error}") from error
        report(await _with_cause(changes, owner, done))


async def _with_cause(changes: Changes, owner: Owner, done: Done) -> Done:
    """With what keeps the operator from it, where Slurm has not confirmed a change."""
    from slurm_operator.cli.kubectl.gather import gather
    from slurm_operator.diagnose.database import kept_from_slurm

    if done.reconciled or done.refused:
        return done
    cause = kept_from_slurm(await gather(changes.client, changes.namespace), owner.cluster)
    if cause is None:
        return done
    return replace(done, sentence=f"{done.sentence}; {cause.sentence}; {cause.command}")


async def _owner(changes: Changes, facts: Facts, name: str, change: str) -> Owner:
    """The Partition or NodeSet that has a partition; an error that says what to do if there is none."""
    from slurm_operator.diagnose.facts import spec_of
    from slurm_operator.diagnose.partition_owner import owner_of

    owner = owner_of(facts, name)
    if owner is None:
        await _raise_unowned(changes, facts, name)
    controller = facts.get("Controller", owner.cluster)
    if controller is not None and spec_of(controller).get("external"):
        raise click.ClickException(
            f"Controller {owner.cluster} is external: the operator does not change its partitions"
        )
    if owner.is_leaving:
        raise click.ClickException(f"{owner.place} is being deleted, and partition {owner.partition} with it")
    if owner.kind == "Controller":
        raise click.ClickException(
            f"partition {name} is a line in {owner.place}: {change} there, with "
            f"kubectl -n {facts.namespace} edit controller {owner.name}"
        )
    return owner


async def _raise_unowned(changes: Changes, facts: Facts, name: str) -> NoReturn:
    """Say what to do about a partition that no resource has."""
    from slurm_operator.diagnose.facts import name_of
    from slurm_operator.diagnose.partition_owner import unknown_partition

    for each in facts.every("Controller"):
        if name in await _partitions_in_slurm(changes, facts, name_of(each)):
            raise click.ClickException(
                f"no resource declares partition {name}: it was created with scontrol, or is being removed. "
                "Create a Partition with this name, and then change that"
            )
    nodeset = facts.get("NodeSet", name)
    if nodeset is not None:
        raise click.ClickException(
            f"NodeSet {name} has no partition; to create one: kubectl -n {facts.namespace} patch nodeset {name} "
            """--type=merge -p '{"spec":{"partition":{"enabled":true}}}'"""
        )
    raise click.ClickException(
        f"{unknown_partition(facts, name)}; kubectl slurm -n {facts.namespace} partition list shows all"
    )


async def _partitions_in_slurm(changes: Changes, facts: Facts, cluster: str) -> frozenset[str]:
    from kube_runtime.client.errors import KubeError
    from slurm_operator.cli.kubectl.gather import SlurmRefused
    from slurm_operator.slurm.errors import SlurmError

    try:
        return frozenset(await changes.slurm_partitions(facts, cluster))
    except (KubeError, SlurmError, SlurmRefused):
        return frozenset()


def _nodes_command(name: str, sign: str, text: str) -> None:
    @command(partition, name=name, help=text)
    @click.argument("partition_name", metavar="NAME")
    @click.argument("hosts")
    @WAIT
    async def change(where: Where, partition_name: str, hosts: str, seconds: float) -> None:
        edit = signed(sign, hosts)
        async with changing(where) as changes:
            facts = await changes.resources()
            owner = await _owner(changes, facts, partition_name, "change Nodes")
            if owner.kind == "NodeSet":
                raise click.ClickException(_all_its_nodes(facts, owner, sign, hosts))
            await _require_hosts(changes, facts, owner, hosts)
            report(await _with_cause(changes, owner, await changes.edit_nodes(owner, edit, seconds)))


_nodes_command("add-nodes", "+", "Add hosts, given as a host list such as a[0-3],b1.")
_nodes_command("remove-nodes", "-", "Remove hosts, given as a host list such as a[0-3],b1.")


def _all_its_nodes(facts: Facts, owner: Owner, sign: str, hosts: str) -> str:
    """What to do instead: the partition of a NodeSet always has all of its nodes."""
    instead = f"create a Partition with nodeSets: [{owner.name}] and nodes: '{signed(sign, hosts)}'"
    if sign == "-":
        instead += f"; to keep jobs off a node altogether: kubectl slurm -n {facts.namespace} drain NODE"
    return (
        f"partition {owner.partition} belongs to NodeSet {owner.name}: it has exactly the nodes of the NodeSet. "
        f"For other nodes, {instead}"
    )


async def _require_hosts(changes: Changes, facts: Facts, owner: Owner, hosts: str) -> None:
    """Refuse hosts that do not exist: Slurm would ignore them."""
    from kube_runtime.client.errors import KubeError
    from slurm_operator.cli.kubectl.gather import SlurmRefused
    from slurm_operator.diagnose.partition_owner import declared_sets, worker_hosts
    from slurm_operator.slurm.errors import SlurmError

    known, why = worker_hosts(facts) | declared_sets(facts, owner.cluster), ""
    try:
        known |= await changes.slurm_nodes(facts, owner.cluster)
    except (KubeError, SlurmError, SlurmRefused) as error:
        why = printable(str(error))
    problem = unknown_hosts(hosts, known, why)
    if problem:
        raise click.ClickException(f"{problem}; nothing was changed")


def unknown_hosts(hosts: str, known: frozenset[str], why: str = "") -> str:
    """The message for hosts that do not exist, empty if all do; `why` says why Slurm's nodes are not known."""
    from slurm_operator.api.problem import did_you_mean
    from slurm_operator.slurm import hostlist

    missing = [name for name in hostlist.expand(hosts) if name not in known]
    if not missing:
        return ""
    shown = hostlist.compress(missing)
    if why:
        return f"{shown} may not exist, and Slurm cannot be asked: {why}"
    return f"there is no node {shown}{did_you_mean(missing[0], known)}"


def signed(sign: str, hosts: str) -> str:
    """A host list as an edit: each item with its sign; one that Slurm cannot read is refused here."""
    from slurm_operator.cli.kubectl.change import items_of
    from slurm_operator.slurm import hostlist

    hostlist.expand(hosts)
    return ",".join(f"{sign}{item}" for item in items_of(hosts))


def report(done: Done) -> None:
    """Say how a change ended, and exit with 1 when Slurm has not confirmed it."""
    sentence = printable(done.sentence)
    if done.taken_back:
        raise click.ClickException(f"{sentence}; {printable(done.taken_back)}")
    if not done.reconciled:
        raise click.ClickException(f"Slurm has not confirmed it after {done.seconds:.1f} s: {sentence}")
    click.echo(f"in effect after {done.seconds:.2f} s: {sentence}")


@command()
@click.option("--adopt", "adopting", is_flag=True, help="Write what Slurm has now into the resources.")
@OUTPUT
async def drift(where: Where, adopting: bool, output: str) -> None:
    """Show what differs in Slurm: changed with scontrol, or refused by Slurm; and what was changed back."""
    from slurm_operator.cli.kubectl import view
    from slurm_operator.diagnose.drift import changed_back

    facts, now = await _differing(where)
    back = changed_back(facts)
    if output == "text":
        click.echo(drift_text(now, back), nl=False)
    else:
        click.echo(view.data(drift_data(now, back), output), nl=False)
    if adopting:
        await _adopt(where, facts, now)
    sys.exit(1 if now and not adopting else 0)


async def _differing(where: Where) -> tuple[Facts, list[Drifted]]:
    """What differs now and a moment later; a difference that the operator is removing is not shown."""
    from slurm_operator.diagnose.drift import current

    first = await facts_of(where)
    found = current(first)
    if not any(each.owner.kind != "Partition" for each in found):
        return first, found
    await asyncio.sleep(SECOND_LOOK_SECONDS)
    second = await facts_of(where)
    before = {(each.owner.place, each.field, each.found) for each in found}
    return second, [each for each in current(second) if (each.owner.place, each.field, each.found) in before]


def drift_text(now: list[Drifted], back: list[ChangedBack]) -> str:
    """Drift for people."""
    from slurm_operator.cli.kubectl import view
    from slurm_operator.plan.partition_events import BY_HAND

    if not now and not back:
        return "nothing has been changed by hand\n"
    text = ""
    if now:
        head = ["PARTITION", "OBJECT", "FIELD", "WANTED", "FOUND", "SINCE", "STATE"]
        cells = [list(row.values())[:-1] for row in drift_data(now, [])]
        text = view.table(head, [[cell or "-" for cell in row] for row in cells])
        if any(each.is_by_hand for each in now):
            text += f"changed by {BY_HAND}: slurmctld does not record who\n"
        text += "".join(f"{each}\n" for each in dict.fromkeys(row.refusal for row in now if row.refusal))
    if back:
        rows = [[_to_seconds(each.last) or "-", each.object, each.count, each.what] for each in back]
        text += ("\n" if now else "") + view.table(["CHANGED BACK", "OBJECT", "TIMES", "WHAT"], rows)
    return text


def _to_seconds(time: str) -> str:
    """A time of Kubernetes without its microseconds."""
    return re.sub(r"\.\d+(?=Z|$)", "", time)


def drift_data(now: list[Drifted], back: list[ChangedBack]) -> list[dict[str, Any]]:
    """Drift for machines: what differs now first, then what was changed back."""
    from slurm_operator.plan.partition_events import BY_HAND

    rows: list[dict[str, Any]] = [
        {
            "partition": each.owner.partition,
            "object": f"{each.owner.kind.lower()}/{each.owner.name}" if each.owner.kind else "",
            "field": each.field,
            "wanted": each.wanted,
            "found": each.found,
            "since": each.since,
            "state": each.state,
            "by": BY_HAND if each.is_by_hand else "",
        }
        for each in now
    ]
    return rows + [
        {"object": each.object, "state": "changed back", "last": each.last, "times": each.count, "what": each.what}
        for each in back
    ]


def adopted(options: Mapping[str, str]) -> str:
    """What was written into a resource, for people; an option without a value was taken out."""
    return ", ".join(f"{name}={value}" if value else f"no {name}" for name, value in sorted(options.items()))


async def _adopt(where: Where, facts: Facts, now: list[Drifted]) -> None:
    """Write what Slurm has into the resources."""
    from slurm_operator.diagnose.drift import adoption

    async with changing(where) as changes:
        for owner, options in adoption(now):
            if not owner.kind:
                click.echo(f"partition {owner.partition} is left as it is: create a Partition for it", err=True)
                continue
            if owner.kind == "Controller" or not options:
                click.echo(f"partition {owner.partition} is left as it is: change {owner.place} yourself", err=True)
                continue
            report(await changes.set_options(facts, owner, options, ADOPT_SECONDS))
            click.echo(f"{owner.place} now has {adopted(options)}, as Slurm has it")
