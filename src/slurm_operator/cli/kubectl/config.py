"""`kubectl slurm config`: the configuration in force, what is asked for beside it, and the ones before it.

In: the name of a Controller, where there are several, and numbers of revisions. Out: files and differences, found by
`configuration.py` and `history.py`; the way back is planned and gone by `rollback.py`. Put into the group by `main.py`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kube_runtime.text import printable, printable_lines
from slurm_operator.cli.kubectl.command import OUTPUT, WAIT, Where, changing, command, connected, facts_of

if TYPE_CHECKING:
    from slurm_operator.cli.kubectl.rollback import Rollback


@click.group()
def config() -> None:
    """Show the configuration in force and what was refused, and go back to an earlier one."""


@command(config)
@click.argument("controller", required=False, default="")
@click.option("--file", "file", default="slurm.conf", show_default=True, help="Which file; `all` for every file.")
@click.option("--revision", "number", type=int, default=None, help="An earlier revision; `config history` lists them.")
@OUTPUT
async def show(where: Where, controller: str, file: str, number: int | None, output: str) -> None:
    """Print the files that slurmctld runs with, or ran with."""
    from slurm_operator.cli.kubectl import configuration, view
    from slurm_operator.cli.kubectl import history as kept

    if number is None:
        found = configuration.read(await facts_of(where), controller)
        cluster, hash_, files = found.cluster, found.hash, found.in_force
    else:
        async with connected(where) as (client, namespace):
            read = await kept.load(client, namespace, controller)
        chosen_one = kept.revision(read, number)
        cluster, hash_, files = read.current.cluster, chosen_one.hash, chosen_one.files
    chosen = files if file == "all" else {name: text for name, text in files.items() if name == file}
    if not chosen:
        known = ", ".join(files) or "none yet"
        raise click.ClickException(f"the configuration of {cluster} has no file {file!r}; it has: {known}")
    if output != "text":
        click.echo(view.data({"cluster": cluster, "hash": hash_, "files": dict(chosen)}, output), nl=False)
        return
    for name, text in chosen.items():
        click.echo((f"### {name}\n" if file == "all" else "") + printable_lines(text.rstrip("\n")))


@command(config)
@click.argument("arguments", metavar="[CONTROLLER] [REVISION [REVISION]]", nargs=-1)
@OUTPUT
async def diff(where: Where, arguments: tuple[str, ...], output: str) -> None:
    """Show what is requested but not in force, and why; exit code 1 when there is a difference.

    With a revision: how it differs from what is in force; with two: how they differ.
    """
    from slurm_operator.cli.kubectl import configuration, view
    from slurm_operator.cli.kubectl import history as kept

    controller, numbers = kept.parse_arguments(arguments)
    if numbers:
        async with connected(where) as (client, namespace):
            lines = kept.between(await kept.load(client, namespace, controller), numbers)
        refused, verdict, row = False, "they are the same", {"revisions": list(numbers), "diff": lines}
    else:
        found = configuration.read(await facts_of(where), controller)
        lines, refused, verdict = list(configuration.differences(found)), found.refused, found.verdict
        row = {"cluster": found.cluster, "refused": refused, "verdict": verdict, "diff": lines}
    if output != "text":
        click.echo(view.data(row, output), nl=False)
    else:
        verdict = printable(verdict, view.MAX_CELL_CHARACTERS)
        for line in lines:
            click.echo(configuration.coloured(printable_lines(line)))
        if refused:
            click.echo(click.style("!!", fg="red") + f"  {verdict}")
        elif not lines:
            click.echo(click.style("ok", fg="green") + f"  {verdict}")
        elif not numbers:
            click.echo(click.style("..", fg="yellow") + f"  {verdict}")
    sys.exit(1 if lines or refused else 0)


@command(config)
@click.argument("controller", required=False, default="")
@OUTPUT
async def history(where: Where, controller: str, output: str) -> None:
    """List the configurations that were in force, the newest first."""
    from slurm_operator.cli.kubectl import history as kept
    from slurm_operator.cli.kubectl import view

    async with connected(where) as (client, namespace):
        rows = kept.rows(await kept.load(client, namespace, controller))
    if output != "text":
        click.echo(view.data(rows, output), nl=False)
        return
    shown = ([row[name.lower()] for name in kept.HEAD] for row in rows)
    click.echo(view.table(kept.HEAD, shown) if rows else "none has been kept yet\n", nl=False)


@command(config)
@click.argument("arguments", metavar="[CONTROLLER] [REVISION]", nargs=-1)
@click.option("--dry-run", "only_show", is_flag=True, help="Show what would be written, and write nothing.")
@WAIT
async def rollback(where: Where, arguments: tuple[str, ...], only_show: bool, seconds: float) -> None:
    """Write the resources back to an earlier configuration, and wait until slurmctld runs with it.

    Without a revision: the newest one that differs from what is requested now.
    """
    from slurm_operator.cli.kubectl import history as kept
    from slurm_operator.cli.kubectl import rollback as back
    from slurm_operator.cli.kubectl.partitions import report

    controller, numbers = kept.parse_arguments(arguments)
    if len(numbers) > 1:
        raise click.UsageError("give one revision")
    async with changing(where) as changes:
        found = await kept.load(changes.client, changes.namespace, controller)
        chosen = kept.revision(found, numbers[0]) if numbers else kept.previous(found)
        title = found.current.cluster
        plan = back.plan_rollback(chosen, await back.read_now(changes, title))
        _show_plan(plan)
        if only_show or not plan.steps or plan.refused:
            sys.exit(1 if plan.refused else 0)
        report(await back.carry_out(changes, plan, title, seconds))


def _show_plan(plan: Rollback) -> None:
    number = plan.revision.number
    for sentence in plan.refused:
        click.echo(click.style("!!", fg="red") + f"  {sentence}")
    if plan.refused:
        click.echo("nothing was changed")
        return
    click.echo(
        f"back to revision {number} of {plan.revision.time}:"
        if plan.steps
        else f"everything is already as in revision {number}"
    )
    for step in plan.steps:
        click.echo(f"  {step}")
        if step.keeper:
            click.echo(f"    {step.keeper} manages it, and will write its own version again: change it there too")
    for sentence in plan.left:
        click.echo(f"  {sentence}")
