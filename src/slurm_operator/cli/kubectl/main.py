"""`kubectl slurm`: its commands and options, nothing else.

In: arguments. Out: an exit code; 0 is well, 1 is something wrong, 2 is wrong usage. Each command imports what it needs
when it runs.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slurm_operator import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slurm_operator.cli.kubectl.change import Changes, Done
    from slurm_operator.diagnose.cause import Answer
    from slurm_operator.diagnose.facts import Facts
    from slurm_operator.kube.client import Client

R = TypeVar("R")
A = TypeVar("A", bound="Answer")

KINDS = {
    "controller": "Controller",
    "nodeset": "NodeSet",
    "loginset": "LoginSet",
    "restapi": "RestApi",
    "accounting": "Accounting",
    "token": "Token",
}
OUTPUT = click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
SECOND_LOOK = 3.0
LIBRARY_WORDS = re.compile(r" ssl:(<[^>]*>|\w+)")
WAIT = click.option(
    "--timeout", "seconds", default=30.0, show_default=True, help="Seconds to wait for Slurm's own answer."
)


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster and namespace."""

    kubeconfig: str
    context: str
    namespace: str


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="kubectl slurm")
@click.option("--kubeconfig", default="", help="Kubeconfig file.")
@click.option("--context", "chosen", default="", help="Context within the kubeconfig.")
@click.option("-n", "--namespace", default="", help="Namespace; the context's own by default.")
@click.pass_context
def main(context: click.Context, kubeconfig: str, chosen: str, namespace: str) -> None:
    """See, explain and change Slurm clusters on Kubernetes."""
    context.obj = Where(kubeconfig, chosen, namespace)


def answered(work: Coroutine[Any, Any, R]) -> R:
    """What a coroutine comes to; an error of ours is a sentence, without the inner life of the HTTP library."""
    from slurm_operator.errors import OperatorError

    try:
        return asyncio.run(work)
    except OperatorError as error:
        raise click.ClickException(LIBRARY_WORDS.sub("", str(error))) from error


def command(group: click.Group, **options: Any) -> Callable[[Callable[..., Coroutine[Any, Any, R]]], click.Command]:
    """A command whose function is a coroutine; errors are sentences."""

    def decorate(function: Callable[..., Coroutine[Any, Any, R]]) -> click.Command:
        @click.pass_obj
        def run(where: Where, /, *arguments: Any, **given: Any) -> None:
            answered(function(where, *arguments, **given))

        return group.command(**options)(update_wrapper(run, function))

    return decorate


@asynccontextmanager
async def connected(where: Where) -> AsyncIterator[tuple[Client, str]]:
    """A client, and the namespace that is meant."""
    from slurm_operator.kube import kubeconfig
    from slurm_operator.kube.client import Client

    target = kubeconfig.find(path=where.kubeconfig, context=where.context)
    async with Client.to(target) as client:
        yield client, where.namespace or target.namespace or "default"


async def facts_of(where: Where) -> Facts:
    """Everything there is to know of a namespace."""
    from slurm_operator.cli.kubectl.gather import gather

    async with connected(where) as (client, namespace):
        facts = await gather(client, namespace)
    if not any(facts.every(kind) for kind in (*KINDS.values(), "Partition")):
        raise click.ClickException(
            f"there is no Slurm cluster in namespace {namespace}; "
            "kubectl get controllers.slinky.slurm.net -A shows where there are some"
        )
    return facts


async def judged(where: Where, look: Callable[[Facts], Sequence[A]]) -> tuple[Facts, Sequence[A]]:
    """The answers to a question; before the operator is called absent it gets a moment, for it may be about to look."""
    facts = await facts_of(where)
    found = look(facts)
    if any(getattr(each, "code", "") == "OperatorAbsent" for each in found):
        await asyncio.sleep(SECOND_LOOK)
        facts = await facts_of(where)
        found = look(facts)
    return facts, found


@asynccontextmanager
async def changing(where: Where) -> AsyncIterator[Changes]:
    """A way to change things in a namespace."""
    from slurm_operator.cli.kubectl.change import Changes

    async with connected(where) as (client, namespace):
        yield Changes(client, namespace)


# Seeing


@command(main)
@OUTPUT
async def status(where: Where, output: str) -> None:
    """Show clusters, node sets, partitions, jobs, and what is wrong, on one screen."""
    from slurm_operator.cli.kubectl import view
    from slurm_operator.diagnose.cluster import examine

    facts, causes = await judged(where, examine)
    if output == "text":
        click.echo(view.overview(facts, causes), nl=False)
    else:
        wrong = [view.answer_data(cause) for cause in causes]
        click.echo(view.data({**view.summary(facts), "wrong": wrong}, output), nl=False)
    sys.exit(1 if causes else 0)


@command(main)
@OUTPUT
async def doctor(where: Where, output: str) -> None:
    """Find everything that is wrong in a namespace, each cause once."""
    from slurm_operator.cli.kubectl import view
    from slurm_operator.diagnose.cluster import examine

    _, causes = await judged(where, examine)
    if output != "text":
        click.echo(view.data([view.answer_data(cause) for cause in causes], output), nl=False)
    else:
        for cause in causes:
            click.echo(view.answer_text(cause))
        click.echo(f"{len(causes)} found" if causes else click.style("nothing is wrong", fg="green"))
    sys.exit(1 if causes else 0)


@command(main)
@click.argument("target", metavar="[KIND/]NAME")
@OUTPUT
async def why(where: Where, target: str, output: str) -> None:
    """Say why a node, pod, job, partition or resource is not as it should be, and what to do.

    KIND is node, pod, job, partition, nodeset, controller, restapi, loginset, accounting or token; without it, the
    name says what is meant: a number is a job.
    """
    from slurm_operator.cli.kubectl import view
    from slurm_operator.diagnose.cause import Fine

    _, (answer,) = await judged(where, lambda facts: [explained(facts, target)])
    text = view.answer_text(answer) if output == "text" else view.data(view.answer_data(answer), output)
    click.echo(text, nl=False)
    sys.exit(0 if isinstance(answer, Fine) else 1)


def explained(facts: Facts, target: str) -> Answer:
    """The diagnosis of `kind/name`, or of a name of any kind."""
    from slurm_operator.diagnose import job, node, partition, resource

    kind, slash, name = target.partition("/")
    if not slash:
        kind, name = guessed(facts, target), target
    walks: dict[str, Callable[[Facts, str], Answer]] = {"node": node.why, "job": job.why, "partition": partition.why}
    if kind == "pod":
        return _pod(facts, name)
    if kind in walks:
        return walks[kind](facts, name)
    if kind in KINDS:
        return resource.why(facts, KINDS[kind], name)
    known = ", ".join(["node", "pod", "job", "partition", *KINDS])
    raise click.BadParameter(f"unknown kind {kind!r}; it is one of {known}")


def _pod(facts: Facts, name: str) -> Answer:
    from slurm_operator.build import labels
    from slurm_operator.diagnose import node, pod
    from slurm_operator.diagnose.cause import Fine, Unseen
    from slurm_operator.diagnose.facts import label_of

    found = facts.get("Pod", name)
    if found is None:
        return Unseen(
            f"there is no pod {name!r} in namespace {facts.namespace}", f"kubectl -n {facts.namespace} get pods"
        )
    if label_of(found).get(labels.NAME) == labels.WORKER.daemon:
        return node.why(facts, name)
    return pod.why(facts, name) or Fine(f"pod {name} is ready")


def guessed(facts: Facts, name: str) -> str:
    """The kind of what has this name."""
    from slurm_operator.diagnose.facts import Slurm

    if name.partition("_")[0].isdecimal():
        return "job"
    if facts.get("Pod", name) is not None:
        return "pod"
    if any(isinstance(each, Slurm) and name in each.nodes for each in facts.slurm.values()):
        return "node"
    for short, kind in KINDS.items():
        if facts.get(kind, name) is not None:
            return short
    known = facts.get("Partition", name) is not None
    in_slurm = any(isinstance(each, Slurm) and name in each.partitions for each in facts.slurm.values())
    return "partition" if known or in_slurm else "node"


@command(main)
@click.option("-f", "--filename", "paths", multiple=True, required=True, metavar="FILE|DIR|-", help="Manifests.")
@OUTPUT
async def plan(where: Where, paths: tuple[str, ...], output: str) -> None:
    """Say what would change live, restart, drain or wait, and until when, if manifests were applied."""
    from slurm_operator.cli.kubectl import view
    from slurm_operator.cli.world import load
    from slurm_operator.diagnose.forecast import forecast

    world = load(paths)
    facts = await facts_of(where)
    wanted = [each.manifest.value for each in world.loaded()]
    effects = forecast(facts, wanted)
    for finding in world.findings:
        click.secho(str(finding), fg="red", err=True)
    if output != "text":
        rows = [
            {
                "what": each.what,
                "way": each.way,
                "sentence": each.sentence,
                "jobs": list(each.jobs),
                "until": each.until,
            }
            for each in effects
        ]
        click.echo(view.data(rows, output), nl=False)
    elif effects:
        cells = [
            [each.what, each.way, each.sentence, ",".join(each.jobs) or "-", each.until or "-"] for each in effects
        ]
        click.echo(view.table(["WHAT", "WAY", "EFFECT", "WAITS FOR JOBS", "UNTIL"], cells), nl=False)
    else:
        click.echo("nothing would change")
    sys.exit(1 if world.findings or any(each.way == "refused" for each in effects) else 0)


# Nodes


@command(main)
@click.argument("node")
@click.option("--wait/--no-wait", default=False, help="Wait until no job runs on it any more.")
@WAIT
async def drain(where: Where, node: str, wait: bool, seconds: float) -> None:
    """Let a worker take no new jobs; its jobs run on."""
    await _cordon(where, node, True, wait, seconds)


@command(main)
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
        click.echo(f"{host} is to take {'no new jobs' if on else 'jobs again'}")
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
        click.echo(f"Slurm says so: {host} {'has no jobs' if on else 'takes jobs'}")


@command(main)
@click.argument("machine", metavar="KUBERNETES-NODE")
@click.option("--reason", default="", help="Becomes the reason of the drain in Slurm.")
async def cordon(where: Where, machine: str, reason: str) -> None:
    """Cordon a Kubernetes node: no pods come, and its workers take no new jobs."""
    async with changing(where) as changes:
        await changes.cordon_node(machine, True, reason)
        click.echo(f"node {machine} is cordoned; its workers are being drained")


@command(main)
@click.argument("machine", metavar="KUBERNETES-NODE")
async def uncordon(where: Where, machine: str) -> None:
    """Take a Kubernetes node back."""
    async with changing(where) as changes:
        await changes.cordon_node(machine, False, "")
        click.echo(f"node {machine} is back; its workers take jobs again")


# Partitions


@main.group()
def partition() -> None:
    """See and change partitions, at once and for good."""


@command(partition, name="list")
@OUTPUT
async def list_partitions(where: Where, output: str) -> None:
    """List every partition, of a Partition object or not."""
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
        from slurm_operator.kube.errors import NotFound

        async with changing(where) as changes:
            try:
                report(await changes.partition(partition_name, {"state": state}, seconds))
            except NotFound as error:
                by_hand = f"kubectl slurm shell -- scontrol update partitionname={partition_name} state={state.lower()}"
                raise click.ClickException(
                    f"there is no Partition {partition_name!r} in namespace {changes.namespace}; "
                    f"a partition without one is changed by {by_hand}"
                ) from error


_state_command("drain", "DRAIN", "Take no new jobs; those there run on.")
_state_command("down", "DOWN", "Take jobs, but start none.")
_state_command("up", "UP", "Take and run jobs.")
_state_command("inactive", "INACTIVE", "Neither take nor start jobs.")


@command(partition, name="add-nodes")
@click.argument("partition_name", metavar="NAME")
@click.argument("hosts")
@WAIT
async def add_nodes(where: Where, partition_name: str, hosts: str, seconds: float) -> None:
    """Add hosts, given as a host list such as a[0-3],b1."""
    async with changing(where) as changes:
        report(await changes.edit_nodes(partition_name, signed("+", hosts), seconds))


@command(partition, name="remove-nodes")
@click.argument("partition_name", metavar="NAME")
@click.argument("hosts")
@WAIT
async def remove_nodes(where: Where, partition_name: str, hosts: str, seconds: float) -> None:
    """Take hosts away, given as a host list such as a[0-3],b1."""
    async with changing(where) as changes:
        report(await changes.edit_nodes(partition_name, signed("-", hosts), seconds))


def signed(sign: str, hosts: str) -> str:
    """A host list as an edit: each item with its sign."""
    from slurm_operator.cli.kubectl.change import items_of

    return ",".join(f"{sign}{item}" for item in items_of(hosts))


def report(done: Done) -> None:
    """Say how a change ended, and exit with 1 when Slurm has not confirmed it."""
    if not done.settled:
        raise click.ClickException(f"Slurm has not confirmed it after {done.seconds:.1f} s: {done.sentence}")
    click.echo(f"in effect after {done.seconds:.2f} s: {done.sentence}")


@command(main)
@click.option("--adopt", "adopting", is_flag=True, help="Write what Slurm has now into the Partitions.")
@OUTPUT
async def drift(where: Where, adopting: bool, output: str) -> None:
    """Show what somebody changed by scontrol: field, what the Partition says, what Slurm has, since when."""
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
                click.echo(f"partition {name_of(each)} now says what Slurm has")
    sys.exit(1 if rows and not adopting else 0)


# Configuration


@main.group()
def config() -> None:
    """See what configuration is in force, and what keeps the one that is asked for from it."""


@command(config)
@click.argument("controller", required=False, default="")
@click.option("--file", "file", default="slurm.conf", show_default=True, help="Which file; `all` for each of them.")
@OUTPUT
async def show(where: Where, controller: str, file: str, output: str) -> None:
    """Print the files that slurmctld runs with."""
    from slurm_operator.cli.kubectl import configuration, view

    found = configuration.read(await facts_of(where), controller)
    chosen = found.in_force if file == "all" else {name: text for name, text in found.in_force.items() if name == file}
    if not chosen:
        known = ", ".join(found.in_force) or "none yet"
        raise click.ClickException(f"the configuration of {found.cluster} has no file {file!r}; it has: {known}")
    if output != "text":
        click.echo(view.data({"cluster": found.cluster, "hash": found.hash, "files": dict(chosen)}, output), nl=False)
        return
    for name, text in chosen.items():
        click.echo((f"### {name}\n" if file == "all" else "") + text.rstrip("\n"))


@command(config)
@click.argument("controller", required=False, default="")
@OUTPUT
async def diff(where: Where, controller: str, output: str) -> None:
    """Show what is asked for and is not in force, and why; exit code 1 when there is something."""
    from slurm_operator.cli.kubectl import configuration, view

    found = configuration.read(await facts_of(where), controller)
    lines = list(configuration.differences(found))
    if output != "text":
        row = {"cluster": found.cluster, "refused": found.refused, "verdict": found.verdict, "diff": lines}
        click.echo(view.data(row, output), nl=False)
    else:
        for line in lines:
            click.echo(configuration.coloured(line))
        if found.refused:
            click.echo(click.style("!!", fg="red") + f"  {found.verdict}")
        elif not lines:
            click.echo(click.style("ok", fg="green") + f"  {found.verdict}")
    sys.exit(1 if lines or found.refused else 0)


# The rest


@command(main)
@click.argument("target", metavar="KIND/NAME")
@click.option("--release", default="", help="Helm release that takes it over.")
@click.option("--give-back", is_flag=True, help="Take it out of its Helm release instead.")
async def adopt(where: Where, target: str, release: str, give_back: bool) -> None:
    """Hand a resource made by hand to a Helm release, without touching a pod; or take it back."""
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


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def shell(where: Where, arguments: tuple[str, ...]) -> None:
    """Open a shell in a login pod, or in slurmctld's where there is none; with `-- COMMAND`, run that."""
    pod, container = answered(_shell_pod(where))
    terminal = ["-it"] if sys.stdin.isatty() else ["-i"]
    kubectl(where, ["exec", *terminal, pod, "-c", container, "--", *(arguments or ("bash", "-l"))])


async def _shell_pod(where: Where) -> tuple[str, str]:
    from slurm_operator.build import labels
    from slurm_operator.kube.objects import PODS

    async with connected(where) as (client, namespace):
        for component in (labels.LOGIN, labels.CONTROLLER):
            listing = await client.list(PODS.raw(), namespace, label_selector=f"{labels.NAME}={component.daemon}")
            for pod in listing.items:
                if pod.content().get("status", {}).get("phase") == "Running":
                    return pod.metadata.name, component.daemon
    raise click.ClickException("no login pod and no slurmctld pod runs here; kubectl slurm doctor says why")


@main.command()
@click.argument("target", metavar="KIND/NAME")
@click.option("-f", "--follow", is_flag=True)
@click.option("--tail", default=50, show_default=True)
@click.pass_obj
def logs(where: Where, target: str, follow: bool, tail: int) -> None:
    """Show what the daemons of a resource say."""
    from slurm_operator.build import labels
    from slurm_operator.diagnose.resource import COMPONENTS

    kind, _, name = target.partition("/")
    component = COMPONENTS.get(KINDS.get(kind, ""))
    if component is None or not name:
        raise click.BadParameter(f"write KIND/NAME, with a kind of {', '.join(KINDS)}")
    chosen = labels.selector_text(component, name)
    more = ["--follow"] if follow else []
    kubectl(where, ["logs", "-l", chosen, "--all-containers", "--prefix", f"--tail={tail}", *more])


@main.command()
@click.argument("user")
@click.option("--lifetime", default=3600, show_default=True, help="Seconds.")
@click.pass_obj
def token(where: Where, user: str, lifetime: int) -> None:
    """Print a token for slurmrestd, made by slurmctld itself."""
    pod = answered(_controller_pod(where))
    said = f"username={user}"
    kubectl(where, ["exec", pod, "-c", "slurmctld", "--", "scontrol", "token", said, f"lifespan={lifetime}"])


async def _controller_pod(where: Where) -> str:
    from slurm_operator.build import labels
    from slurm_operator.kube.objects import PODS

    async with connected(where) as (client, namespace):
        chosen = f"{labels.NAME}={labels.CONTROLLER.daemon}"
        listing = await client.list(PODS.raw(), namespace, label_selector=chosen)
        if not listing.items:
            raise click.ClickException("no slurmctld pod runs here; kubectl slurm doctor says why")
        return listing.items[0].metadata.name


def kubectl(where: Where, arguments: list[str]) -> None:
    """Become kubectl: terminals and streams are its own trade."""
    program = shutil.which(os.environ.get("KUBECTL") or "kubectl")
    if program is None:
        raise click.ClickException("kubectl is not on the PATH; KUBECTL=/path/to/kubectl names another one")
    place = [f"--namespace={where.namespace}"] if where.namespace else []
    place += [f"--kubeconfig={where.kubeconfig}"] if where.kubeconfig else []
    place += [f"--context={where.context}"] if where.context else []
    os.execv(program, [program, *place, *arguments])  # noqa: S606  # no shell is wanted


@main.command()
@click.argument("kind", type=click.Choice(["bash", "zsh", "fish"]))
def completion(kind: str) -> None:
    """Print a script that completes commands in a shell."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(kind)
    if made is None:
        raise click.ClickException(f"no completion for {kind}")
    click.echo(made(main, {}, "kubectl-slurm", "_KUBECTL_SLURM_COMPLETE").source())


if __name__ == "__main__":
    main()
