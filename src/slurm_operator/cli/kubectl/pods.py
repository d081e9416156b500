"""Commands that go into pods: `shell`, `logs` and `token`.

In: what to run or whose logs to show. Out: kubectl itself, in the place of this program: terminals and streams are its
own trade. Put into the group by `main.py`.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from slurm_operator.cli.kubectl.command import KINDS, Where, answered, connected

if TYPE_CHECKING:
    from slurm_operator.build.labels import Component


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def shell(where: Where, arguments: tuple[str, ...]) -> None:
    """Open a shell in a login pod, else in slurmctld's pod; with `-- COMMAND`, run that."""
    from slurm_operator.build import labels

    pod, container = answered(_running(where, labels.LOGIN, labels.CONTROLLER))
    terminal = ["-it"] if sys.stdin.isatty() else ["-i"]
    kubectl(where, ["exec", *terminal, pod, "-c", container, "--", *(arguments or ("bash", "-l"))])


@click.command()
@click.argument("target", metavar="KIND/NAME")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs.")
@click.option("--tail", default=50, show_default=True, help="How many lines of each container.")
@click.pass_obj
def logs(where: Where, target: str, follow: bool, tail: int) -> None:
    """Show the logs of a resource's daemons."""
    from slurm_operator.build import labels
    from slurm_operator.diagnose.resource import COMPONENTS

    kind, _, name = target.partition("/")
    component = COMPONENTS.get(KINDS.get(kind, ""))
    if component is None or not name:
        known = [short for short, kind in KINDS.items() if kind in COMPONENTS]
        raise click.BadParameter(f"write KIND/NAME, with a kind of {', '.join(known)}")
    # Of pods that nobody has, kubectl says only that there are none, and succeeds.
    answered(_exists(where, KINDS[kind], name))
    chosen = labels.selector_text(component, name)
    more = ["--follow"] if follow else []
    kubectl(where, ["logs", "-l", chosen, "--all-containers", "--prefix", f"--tail={tail}", *more])


@click.command()
@click.argument("user")
@click.option("--lifetime", default=3600, show_default=True, help="Seconds.")
@click.pass_obj
def token(where: Where, user: str, lifetime: int) -> None:
    """Print a token for slurmrestd, issued by slurmctld itself."""
    from slurm_operator.build import labels

    pod, container = answered(_running(where, labels.CONTROLLER))
    claims = f"username={user}"
    kubectl(where, ["exec", pod, "-c", container, "--", "scontrol", "token", claims, f"lifespan={lifetime}"])


async def _exists(where: Where, kind: str, name: str) -> None:
    """An error if there is no such resource."""
    from kube_runtime.client.errors import Forbidden
    from slurm_operator.api.problem import did_you_mean
    from slurm_operator.reconcile.resources import OURS

    async with connected(where) as (client, namespace):
        try:
            listing = await client.list(OURS[kind].raw(), namespace)
        except Forbidden:
            # Whoever may read pods and their logs may not read our resources.
            return
    names = [each.metadata.name for each in listing.items]
    if name not in names:
        hint = did_you_mean(name, names) or f"; kubectl slurm -n {namespace} status shows what there is"
        raise click.ClickException(f"there is no {kind} {name!r} in namespace {namespace}{hint}")


async def _running(where: Where, *components: Component) -> tuple[str, str]:
    """A pod that runs of the first of these daemons that has one, and its container."""
    from kube_runtime.client.objects import PODS
    from slurm_operator.build import labels

    async with connected(where) as (client, namespace):
        for component in components:
            listing = await client.list(PODS.raw(), namespace, label_selector=f"{labels.NAME}={component.daemon}")
            for pod in listing.items:
                if pod.content().get("status", {}).get("phase") == "Running":
                    return pod.metadata.name, component.daemon
    missing = " and ".join(f"no {component.daemon} pod" for component in components)
    raise click.ClickException(f"{missing} runs in namespace {namespace}; kubectl slurm -n {namespace} doctor says why")


def kubectl(where: Where, arguments: list[str]) -> None:
    """Become kubectl."""
    program = shutil.which(os.environ.get("KUBECTL") or "kubectl")
    if program is None:
        raise click.ClickException("kubectl is not on the PATH; KUBECTL=/path/to/kubectl names another one")
    place = [f"--namespace={where.namespace}"] if where.namespace else []
    place += [f"--kubeconfig={where.kubeconfig}"] if where.kubeconfig else []
    place += [f"--context={where.context}"] if where.context else []
    os.execv(program, [program, *place, *arguments])  # noqa: S606  # no shell is wanted
