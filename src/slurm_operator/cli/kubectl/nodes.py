"""Commands that drain: workers by `drain` and `undrain`, Kubernetes nodes by `cordon` and `uncordon`.

In: a name. Out: the resource changed, and with `--wait` Slurm's confirmation. Put into the group by `main.py`.
"""

from __future__ import annotations

import click

from slurm_operator.cli.kubectl.command import WAIT, Where, changing, command


@command()
@click.argument("node")
@click.option("--wait/--no-wait", default=False, help="Wait until no job runs on it any more.")
@WAIT
async def drain(where: Where, node: str, wait: bool, seconds: float) -> None:
    """Drain a worker: it gets no new jobs, and its jobs keep running."""
    await _cordon(where, node, True, wait, seconds)


@command()
@click.argument("node")
@WAIT
async def undrain(where: Where, node: str, seconds: float) -> None:
    """Let a worker take jobs again, unless somebody else has drained it."""
    await _cordon(where, node, False, True, seconds)


async def _cordon(where: Where, node: str, on: bool, wait: bool, seconds: float) -> None:
    from slurm_operator.cli.kubectl.gather import gather
    from slurm_operator.diagnose.facts import Slurm, host_of

    async with changing(where) as changes:
        pod = await changes.worker(node)
        if pod is None:
            raise click.ClickException(f"there is no worker {node!r} in namespace {changes.namespace}")
        await changes.cordon(pod, on)
        host = host_of(pod.content())
        click.echo(f"{host} will take {'no new jobs' if on else 'jobs again'}")
        if not wait:
            return

        async def so() -> bool:
            facts = await gather(changes.client, changes.namespace)
            nodes = [
                each.nodes[host] for each in facts.slurm.values() if isinstance(each, Slurm) and host in each.nodes
            ]
            drained = bool(nodes) and "DRAIN" in nodes[0].states
            return drained and not nodes[0].states & {"ALLOCATED", "MIXED", "COMPLETING"} if on else not drained

        if not await changes.wait(so, seconds):
            raise click.ClickException(f"not yet after {seconds:g} s; kubectl slurm why node/{host} says why")
        click.echo(f"Slurm confirms: {host} {'has no jobs' if on else 'takes jobs'}")


@command()
@click.argument("machine", metavar="KUBERNETES-NODE")
@click.option("--reason", default="", help="Drain reason in Slurm.")
async def cordon(where: Where, machine: str, reason: str) -> None:
    """Cordon a Kubernetes node: it gets no new pods, and its workers no new jobs."""
    await _cordon_node(where, machine, True, reason)
    click.echo(f"node {machine} is cordoned; its workers are being drained")


@command()
@click.argument("machine", metavar="KUBERNETES-NODE")
async def uncordon(where: Where, machine: str) -> None:
    """Uncordon a Kubernetes node."""
    await _cordon_node(where, machine, False, "")
    click.echo(f"node {machine} is back; its workers take jobs again")


async def _cordon_node(where: Where, machine: str, on: bool, reason: str) -> None:
    from kube_runtime.client.errors import NotFound

    async with changing(where) as changes:
        try:
            await changes.cordon_node(machine, on, reason)
        except NotFound as error:
            worker = f"kubectl slurm {'drain' if on else 'undrain'}"
            raise click.ClickException(
                f"there is no Kubernetes node {machine!r}; kubectl get nodes shows them, and a worker has {worker}"
            ) from error
