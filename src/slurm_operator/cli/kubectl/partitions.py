"""`kubectl slurm partition` and `drift`: partitions seen, and changed at once and for good.

In: a name and what is wanted of it. Out: the Partition changed, and what Slurm reports of it. Put into the group by
`main.py`.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from kube_runtime.text import printable
from slurm_operator.cli.kubectl.command import OUTPUT, WAIT, Where, changing, command, facts_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slurm_operator.cli.kubectl.change import Done


@click.group()
def partition() -> None:
    """Show and change partitions; changes take effect at once and last."""


@command(partition, name="list")
@OUTPUT
async def list_partitions(where: Where, output: str) -> None:
    """List all partitions, with or without a Partition resource."""
    from slurm_operator.cli.kubectl import view

    rows = view.partition_rows(await facts_of(where))
    if output != "text":
        click.echo(view.data([dict(row) for row in rows], output), nl=False)
        return
    head = ["cluster", "name", "state", "nodes", "running", "pending", "object", "drift"]
    cells = [[row[key] if row[key] != "" else "-" for key in head] for row in rows]
    click.echo(view.table([key.upper() for key in head], cells), nl=False)


def _state_command(name: str, state: str, text: str) -> None:
    @command(partition, name=name, help=text)
    @click.argument("partition_name", metavar="NAME")
    @WAIT
    async def change(where: Where, partition_name: str, seconds: float) -> None:
        by_hand = f"kubectl slurm shell -- scontrol update partitionname={partition_name} state={state.lower()}"
        async with changing(where) as changes, named(partition_name, changes.namespace, by_hand):
            report(await changes.partition(partition_name, {"state": state}, seconds))


_state_command("drain", "DRAIN", "Accept no new jobs; those in it keep running.")
_state_command("down", "DOWN", "Accept jobs, but start none.")
_state_command("up", "UP", "Accept and run jobs.")
_state_command("inactive", "INACTIVE", "Neither accept nor start jobs.")


def _nodes_command(name: str, sign: str, text: str) -> None:
    @command(partition, name=name, help=text)
    @click.argument("partition_name", metavar="NAME")
    @click.argument("hosts")
    @WAIT
    async def change(where: Where, partition_name: str, hosts: str, seconds: float) -> None:
        edit = signed(sign, hosts)
        async with changing(where) as changes, named(partition_name, changes.namespace):
            report(await changes.edit_nodes(partition_name, edit, seconds))


_nodes_command("add-nodes", "+", "Add hosts, given as a host list such as a[0-3],b1.")
_nodes_command("remove-nodes", "-", "Remove hosts, given as a host list such as a[0-3],b1.")


def signed(sign: str, hosts: str) -> str:
    """A host list as an edit: each item with its sign; one that Slurm cannot read is refused here."""
    from slurm_operator.cli.kubectl.change import items_of
    from slurm_operator.slurm import hostlist

    hostlist.expand(hosts)
    return ",".join(f"{sign}{item}" for item in items_of(hosts))


@asynccontextmanager
async def named(partition_name: str, namespace: str, by_hand: str = "") -> AsyncIterator[None]:
    """Say of a Partition that is not there what can be done instead."""
    from kube_runtime.client.errors import NotFound

    try:
        yield
    except NotFound as error:
        hint = (
            f"a partition without such a resource is changed with {by_hand}"
            if by_hand
            else "kubectl slurm partition list shows all"
        )
        raise click.ClickException(
            f"there is no Partition {partition_name!r} in namespace {namespace}; {hint}"
        ) from error


def report(done: Done) -> None:
    """Say how a change ended, and exit with 1 when Slurm has not confirmed it."""
    sentence = printable(done.sentence)
    if not done.reconciled:
        raise click.ClickException(f"Slurm has not confirmed it after {done.seconds:.1f} s: {sentence}")
    click.echo(f"in effect after {done.seconds:.2f} s: {sentence}")


@command()
@click.option("--adopt", "adopting", is_flag=True, help="Write what Slurm has now into the Partitions.")
@OUTPUT
async def drift(where: Where, adopting: bool, output: str) -> None:
    """Show what somebody changed with scontrol: field, value of the Partition, value in Slurm, since when."""
    from slurm_operator.cli.kubectl import view
    from slurm_operator.cli.kubectl.change import drift_patch
    from slurm_operator.diagnose.facts import name_of, status_of

    facts = await facts_of(where)
    changed = [each for each in facts.every("Partition") if status_of(each).get("drift")]
    rows = [{"partition": name_of(each), **row} for each in changed for row in status_of(each)["drift"]]
    if output != "text":
        click.echo(view.data(rows, output), nl=False)
    elif rows:
        head = ["partition", "field", "wanted", "found", "since"]
        click.echo(
            view.table([key.upper() for key in head], [[row.get(key, "-") for key in head] for row in rows]), nl=False
        )
    else:
        click.echo("nothing has been changed by hand")
    if adopting:
        async with changing(where) as changes:
            for each in changed:
                await changes.partition(name_of(each), drift_patch(each), 10.0)
                click.echo(f"partition {name_of(each)} now matches Slurm")
    sys.exit(1 if rows and not adopting else 0)
