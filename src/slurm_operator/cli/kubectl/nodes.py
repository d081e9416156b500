"""Commands that drain: workers by `drain` and `undrain`, Kubernetes nodes by `cordon` and `uncordon`.

In: a name. Out: the resource changed, and with `--wait` Slurm's confirmation. Put into the group by `main.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from slurm_operator.cli.kubectl.command import WAIT, Where, changing, command

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_runtime.client.objects import RawObject
    from slurm_operator.cli.kubectl.change import Changes
    from slurm_operator.cli.waiting import Reason
    from slurm_operator.diagnose.facts import Facts


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
    from slurm_operator.diagnose.facts import host_of

    async with changing(where) as changes:
        pod = await _worker(changes, node)
        await changes.cordon(pod, on)
        host = host_of(pod.content())
        if not on:
            await _confirmed(changes, host, f"{host} accepts jobs", is_back, seconds)
            return
        # It is not drained because somebody asked for it: Slurm has to say so.
        await _confirmed(changes, host, f"{host} takes no new jobs", is_draining, seconds)
        if wait:
            await _confirmed(changes, host, f"{host} has no jobs", is_drained, seconds)


async def _confirmed(
    changes: Changes, host: str, goal: str, is_true: Callable[[Facts, str], bool], seconds: float
) -> None:
    """Wait until Slurm says that something is true of a node; an error with the cause if it does not."""
    from slurm_operator.cli.kubectl.gather import gather
    from slurm_operator.cli.waiting import UNKNOWN, until

    seen: list[Facts] = []

    async def is_so() -> bool:
        seen[:] = [await gather(changes.client, changes.namespace)]
        return is_true(seen[0], host)

    async def why() -> Reason:
        return reason_on(seen[0], host, is_true is not is_back) if seen else UNKNOWN

    waited = await until(goal, is_so, why, seconds)
    if not waited.is_so:
        raise click.ClickException(f"after {seconds:g} s still not true that {goal}: {(await why()).text}")
    click.echo(f"Slurm confirms that {goal}")


def is_back(facts: Facts, host: str) -> bool:
    """Whether Slurm has it, and not as drained."""
    from slurm_operator.diagnose.facts import Slurm

    known = any(isinstance(each, Slurm) and host in each.nodes for each in facts.slurm.values())
    return known and not has_state(facts, host, "DRAIN")


def is_draining(facts: Facts, host: str) -> bool:
    """Whether it accepts no jobs."""
    return has_state(facts, host, "DRAIN")


def has_state(facts: Facts, host: str, *states: str) -> bool:
    """Whether Slurm's node is in one of these states."""
    from slurm_operator.diagnose.facts import Slurm

    known = [each.nodes[host] for each in facts.slurm.values() if isinstance(each, Slurm) and host in each.nodes]
    return bool(known) and bool(known[0].states & set(states))


def is_drained(facts: Facts, host: str) -> bool:
    """Whether it accepts no jobs, and has none."""
    return has_state(facts, host, "DRAIN") and not has_state(facts, host, "ALLOCATED", "MIXED", "COMPLETING")


def reason_on(facts: Facts, host: str, on: bool) -> Reason:
    """Why a node is not drained yet, or not back in service: its jobs and their ends, or what is wrong with it."""
    from slurm_operator.cli.waiting import Reason, reason_of
    from slurm_operator.diagnose import node as nodes
    from slurm_operator.diagnose.facts import Slurm

    running = [
        job
        for slurm in facts.slurm.values()
        for job in (slurm.jobs.values() if isinstance(slurm, Slurm) else ())
        if host in job.nodes and job.state in ("RUNNING", "COMPLETING", "SUSPENDED")
    ]
    if on and not is_draining(facts, host):
        return _not_drained(facts, host)
    if not on or not running:
        return reason_of(nodes.why(facts, host))
    first = running[0]
    more = f", and {len(running) - 1} more" if len(running) > 1 else ""
    end = first.wants.get("EndTime", "Unknown")
    until = f", until {end} at the latest" if end != "Unknown" else ", without a time limit"
    return Reason(
        f"job {first.id} ({first.name}) of {first.user} runs on it{until}{more}",
        f"kubectl slurm -n {facts.namespace} shell -- scancel {first.id}",
    )


def _not_drained(facts: Facts, host: str) -> Reason:
    """What keeps the operator from a drain that somebody asked for."""
    from slurm_operator.cli.waiting import Reason, reason_of
    from slurm_operator.diagnose import node as nodes
    from slurm_operator.diagnose import resource as resources
    from slurm_operator.diagnose.cause import Cause
    from slurm_operator.diagnose.database import kept_from_slurm
    from slurm_operator.diagnose.facts import controller_of, name_of

    answer = nodes.why(facts, host)
    if isinstance(answer, Cause):
        return reason_of(answer)
    for each in facts.every("NodeSet"):
        if host in nodes.hosts_of(facts, each):
            cause = kept_from_slurm(facts, controller_of(each)) or resources.why(facts, "NodeSet", name_of(each))
            if isinstance(cause, Cause):
                return reason_of(cause)
    return Reason(
        "the operator has been asked to drain it, and Slurm does not show it as drained yet",
        f"kubectl slurm -n {facts.namespace} why node/{host}",
    )


async def _worker(changes: Changes, name: str) -> RawObject:
    """The pod of a Slurm node, by the name of either; an error if there is none."""
    from slurm_operator.api.problem import did_you_mean
    from slurm_operator.diagnose.facts import host_of

    pods = await changes.workers()
    found = next((pod for pod in pods if name in (pod.metadata.name, host_of(pod.content()))), None)
    if found is None:
        hint = did_you_mean(name, (host_of(pod.content()) for pod in pods))
        raise click.ClickException(f"there is no worker {name!r} in namespace {changes.namespace}{hint}")
    return found


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
    from slurm_operator.api.problem import did_you_mean

    async with changing(where) as changes:
        try:
            await changes.cordon_node(machine, on, reason)
        except NotFound as error:
            worker = f"kubectl slurm {'drain' if on else 'undrain'}"
            hint = did_you_mean(machine, await changes.machines()) or "; kubectl get nodes shows them"
            raise click.ClickException(
                f"there is no Kubernetes node {machine!r}{hint}; for a worker there is {worker}"
            ) from error
