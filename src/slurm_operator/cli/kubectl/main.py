"""`kubectl slurm`: the commands that there are, put together.

In: arguments. Out: an exit code; 0 is well, 1 is something wrong, 2 is wrong usage. Each command imports what it needs
when it runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import click

from slurm_operator import __version__
from slurm_operator.cli.kubectl import config, explain, nodes, partitions, pods, wait
from slurm_operator.cli.kubectl.command import KINDS, Where, changing, command

PLACE = ("--kubeconfig", "--context", "--namespace", "-n")


class Commands(click.Group):
    """The commands, with the options that say where: before a command or after it, as kubectl takes them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Arguments as click wants them."""
        return super().parse_args(ctx, place_first(args))


def place_first(arguments: Iterable[str]) -> list[str]:
    """The options that say where go first; what `shell` runs, and what follows `--`, is somebody else's."""
    first: list[str] = []
    rest: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--" or (argument == "shell" and not rest):
            rest += [argument, *remaining]
        elif argument in PLACE:
            first += [argument, *islice(remaining, 1)]
        elif argument.startswith(tuple(f"{each}=" for each in PLACE)) or (
            argument.startswith("-n") and len(argument) > 2
        ):
            first.append(argument)
        else:
            rest.append(argument)
    return first + rest


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="kubectl slurm")
@click.option("--kubeconfig", default="", help="Kubeconfig file.")
@click.option("--context", "chosen", default="", help="Context within the kubeconfig.")
@click.option("-n", "--namespace", default="", help="Namespace; the context's own by default.")
@click.pass_context
def main(context: click.Context, kubeconfig: str, chosen: str, namespace: str) -> None:
    """See, explain and change Slurm clusters on Kubernetes."""
    context.obj = Where(kubeconfig, chosen, namespace)


@command(main)
@click.argument("target", metavar="KIND/NAME")
@click.option("--release", default="", help="Helm release that takes it over.")
@click.option("--give-back", is_flag=True, help="Take it out of its Helm release instead.")
async def adopt(where: Where, target: str, release: str, give_back: bool) -> None:
    """Hand a resource over to a Helm release, without touching a pod; or take it back."""
    kind, _, name = target.partition("/")
    known = {**KINDS, "partition": "Partition"}
    if kind not in known or not name:
        raise click.BadParameter(f"write KIND/NAME, with a kind of {', '.join(known)}")
    if bool(release) == give_back:
        raise click.UsageError("give either --release NAME or --give-back")
    async with changing(where) as changes:
        await changes.adopt(known[kind], name, release)
        click.echo(
            f"{target} belongs to Helm release {release}: put the same settings into its values, then helm upgrade"
            if release
            else f"{target} is yours again; Helm leaves it alone"
        )


@main.command()
@click.argument("kind", type=click.Choice(["bash", "zsh", "fish"]))
def completion(kind: str) -> None:
    """Print a script that completes commands in a shell."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(kind)
    if made is None:
        raise click.ClickException(f"no completion for {kind}")
    click.echo(made(main, {}, "kubectl-slurm", "_KUBECTL_SLURM_COMPLETE").source())


for each in (explain.status, explain.doctor, explain.why, explain.plan, wait.wait):
    main.add_command(each)
for each in (nodes.drain, nodes.undrain, nodes.cordon, nodes.uncordon):
    main.add_command(each)
for each in (partitions.partition, partitions.drift, config.config, pods.shell, pods.logs, pods.token):
    main.add_command(each)


if __name__ == "__main__":
    main()
