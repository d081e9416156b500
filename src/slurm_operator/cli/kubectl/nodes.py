"""Commands that drain: workers by `drain` and `undrain`, Kubernetes nodes by `cordon` and `uncordon`.

In: a name. Out: the resource changed, and what Slurm confirms of it: nothing is claimed before it was observed. Put
into the group by `main.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from slurm_operator.cli.kubectl.command import WAIT, Where, changing, command

if TYPE_CHECKING:
    from kube_runtime.client.objects import RawObject
    from slurm_operator.cli.kubectl.change import Changes
    from slurm_operator.cli.waiting import Reason
    from slurm_operator.diagnose.facts import Facts, SlurmNode

NO_JOBS = "has no jobs"
NO_NEW_JOBS = "takes no new jobs"


@command()
@click.argument("node")
@click.option("--wait/--no-wait", default=False, help="Wait until no job runs on it any more.")
@WAIT
async def drain(where: Where, node: str, wait: bool, seconds: float) -> None:
    """Drain a worker: it gets no new jobs, and its jobs keep running."""
    await _drain(where, node, wait, seconds)


@command()
@click.argument("node")
@WAIT
async def undrain(where: Where, node: str, seconds: float) -> None:
    """Let a worker take jobs again, unless somebody else has drained it."""
    await _undrain(where, node, seconds)


async def _drain(where: Where, node: str, wait: bool, seconds: float) -> None:
    async with changing(where) as changes:
        pod = await _worker(changes, node)
        watch = await _Watch.of(changes, pod)
        before = foreign_drain(watch.facts, watch.host)
        await changes.cordon(pod, True)
        # The operator does not drain what is down; it does once it is back.
        await watch.until(NO_NEW_JOBS, lambda facts: has_state(facts, watch.host, "DRAIN", "DOWN"), seconds)
        down = drained_later(watch.facts, watch.host)
        if down is not None:
            click.echo(down)
            return
        if before is not None:
            click.echo(f"it was drained before: {before.text}; undrain will not lift that", err=True)
        if wait:
            await watch.until(NO_JOBS, lambda facts: is_drained(facts, watch.host), seconds)


async def _undrain(where: Where, node: str, seconds: float) -> None:
    async with changing(where) as changes:
        pod = await _worker(changes, node)
        watch = await _Watch.of(changes, pod)
        await changes.cordon(pod, False)
        watch.gives_up = obstacle
        await watch.until("accepts jobs", lambda facts: accepts_jobs(facts, watch.host), seconds)


@dataclass(slots=True)
class _Watch:
    """What Slurm says of one worker, until it says what was asked for, or what will not pass."""

    changes: Changes
    host: str
    facts: Facts
    # Why there is no point in waiting any longer; asked of everything that was read.
    gives_up: Callable[[Facts, str], str | None] = lambda _facts, _host: None

    @classmethod
    async def of(cls, changes: Changes, pod: RawObject) -> _Watch:
        """What is known before anything is changed."""
        from slurm_operator.cli.kubectl.gather import gather
        from slurm_operator.diagnose.facts import host_of

        return cls(changes, host_of(pod.content()), await gather(changes.client, changes.namespace))

    async def until(self, goal: str, is_so: Callable[[Facts], bool], seconds: float) -> None:
        """Wait until something is true of the worker, and say so; an error that tells why if it is not."""
        from slurm_operator.cli.kubectl.gather import gather
        from slurm_operator.cli.waiting import until

        async def is_over() -> bool:
            if self.gives_up(self.facts, self.host) is None and not is_so(self.facts):
                self.facts = await gather(self.changes.client, self.changes.namespace)
            return is_so(self.facts) or self.gives_up(self.facts, self.host) is not None

        async def why() -> Reason:
            return reason_on(self.facts, self.host, goal)

        await until(f"{self.host} {goal}", is_over, why, seconds)
        in_the_way = self.gives_up(self.facts, self.host)
        if in_the_way is not None:
            raise click.ClickException(f"{self.host} {in_the_way}")
        if not is_so(self.facts):
            text = f"after {seconds:g} s still not true that {self.host} {goal}: {(await why()).text}"
            raise click.ClickException(text)
        click.echo(f"Slurm confirms that {self.host} {goal}")


def node_of(facts: Facts, host: str) -> SlurmNode | None:
    """Slurm's node; None if Slurm does not have it, or does not answer."""
    from slurm_operator.diagnose.facts import Slurm

    known = (each.nodes[host] for each in facts.slurm.values() if isinstance(each, Slurm) and host in each.nodes)
    return next(known, None)


def has_state(facts: Facts, host: str, *states: str) -> bool:
    """Whether Slurm's node is in one of these states."""
    node = node_of(facts, host)
    return node is not None and bool(node.states & set(states))


def accepts_jobs(facts: Facts, host: str) -> bool:
    """Whether Slurm has the node, and neither drains it nor counts it as down."""
    return node_of(facts, host) is not None and not has_state(facts, host, "DRAIN", "DOWN", "NOT_RESPONDING")


def foreign_drain(facts: Facts, host: str) -> Reason | None:
    """Who drained a worker, if not the operator, and the command that lifts it."""
    from slurm_operator.cli.waiting import Reason
    from slurm_operator.diagnose import node as nodes
    from slurm_operator.slurm import policy

    node = node_of(facts, host)
    if node is None or "DRAIN" not in node.states or policy.drain_is_ours(node.reason):
        return None
    if nodes.SLURM_DRAINS.match(node.reason):
        sentence = f"Slurm itself drained it: {node.reason}; resume it once that is fixed"
    else:
        who = f"user {node.reason_by}" if node.reason_by else "somebody"
        sentence = f"{who} drained it: {node.reason or 'no reason was given'}"
    return Reason(sentence, f"kubectl slurm -n {facts.namespace} shell -- scontrol update nodename={host} state=resume")


def obstacle(facts: Facts, host: str) -> str | None:
    """What keeps a worker from jobs however long one waits; its own cordon is lifted."""
    drain = lasting_drain(facts, host)
    if drain is not None:
        return f"stays drained: {drain.text}"
    down = lasting_down(facts, host)
    return f"is no longer cordoned, and stays DOWN: {down.text}" if down is not None else None


def lasting_down(facts: Facts, host: str) -> Reason | None:
    """Who set a worker down, and the command that resumes it; None if its slurmd may bring it back by itself."""
    from slurm_operator.cli.waiting import reason_of
    from slurm_operator.diagnose import node as nodes
    from slurm_operator.diagnose.cause import Cause

    found = nodes.why(facts, host) if has_state(facts, host, "DOWN") else None
    return reason_of(found) if isinstance(found, Cause) and found.code in ("SetDown", "Restarted") else None


def drained_later(facts: Facts, host: str) -> str | None:
    """What a drain of a worker comes to that is down: it takes no jobs anyway; None for any other."""
    node = node_of(facts, host)
    if node is None or "DOWN" not in node.states or "DRAIN" in node.states:
        return None
    by = f" by {node.reason_by}" if node.reason_by else ""
    reason = f"set down{by}: {node.reason}" if node.reason else "no reason was given"
    return (
        f"{host} is DOWN ({reason}); it will be drained when it is back; "
        f"kubectl slurm -n {facts.namespace} undrain {host} undoes that"
    )


def lasting_drain(facts: Facts, host: str) -> Reason | None:
    """What keeps a worker drained that is not cordoned itself: somebody's drain, or its Kubernetes node."""
    from slurm_operator.cli.waiting import reason_of
    from slurm_operator.diagnose import node as nodes
    from slurm_operator.diagnose.cause import Cause

    found = nodes.why(facts, host) if has_state(facts, host, "DRAIN") else None
    if isinstance(found, Cause) and found.code == "KubernetesNodeCordoned":
        return reason_of(found)
    return foreign_drain(facts, host)


def is_drained(facts: Facts, host: str) -> bool:
    """Whether it accepts no jobs, and has none."""
    return has_state(facts, host, "DRAIN") and not has_state(facts, host, "ALLOCATED", "MIXED", "COMPLETING")


def reason_on(facts: Facts, host: str, goal: str) -> Reason:
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
    if goal == NO_NEW_JOBS and not has_state(facts, host, "DRAIN"):
        return _not_drained(facts, host)
    if goal != NO_JOBS or not running:
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
    click.echo(f"node {machine} is cordoned; the operator drains its workers")


@command()
@click.argument("machine", metavar="KUBERNETES-NODE")
async def uncordon(where: Where, machine: str) -> None:
    """Uncordon a Kubernetes node."""
    await _cordon_node(where, machine, False, "")
    click.echo(f"node {machine} takes pods again; the operator lifts its own drain of the workers there, no other")


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
