"""Commands that only look: `status`, `doctor`, `why` and `plan`.

In: facts of a namespace. Out: text, and exit code 1 when something is wrong. Put into the group by `main.py`; the
answers come from `diagnose`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from slurm_operator.cli.kubectl.command import KINDS, OUTPUT, Where, command, facts_of, judged

if TYPE_CHECKING:
    from slurm_operator.diagnose.cause import Diagnosis
    from slurm_operator.diagnose.facts import Facts

EXPLAINED = ("node", "pod", "job", "partition", *KINDS)


@command()
@OUTPUT
async def status(where: Where, output: str) -> None:
    """Show clusters, NodeSets, partitions, jobs, problems and what is in progress on one screen."""
    from slurm_operator.cli.kubectl import view
    from slurm_operator.diagnose.cluster import examine, passing

    facts, causes = await judged(where, examine)
    under_way = passing(facts)
    if output == "text":
        click.echo(view.overview(facts, causes, under_way), nl=False)
    else:
        lists = {"wrong": causes, "inProgress": under_way}
        answers = {name: [view.answer_data(cause) for cause in some] for name, some in lists.items()}
        click.echo(view.data({**view.summary(facts), **answers}, output), nl=False)
    sys.exit(1 if causes else 0)


@command()
@OUTPUT
async def doctor(where: Where, output: str) -> None:
    """Find all problems in a namespace, each cause once, and what is in progress; exit code 1 if something is wrong."""
    from slurm_operator.cli.kubectl import view
    from slurm_operator.diagnose.cluster import examine, passing

    facts, causes = await judged(where, examine)
    listed = [*causes, *passing(facts)]
    if output != "text":
        click.echo(view.data([view.answer_data(cause) for cause in listed], output), nl=False)
    else:
        for cause in listed:
            click.echo(view.answer_text(cause))
        click.echo(f"{len(causes)} found" if causes else click.style("nothing is wrong", fg="green"))
    sys.exit(1 if causes else 0)


@command()
@click.argument("target", metavar="[KIND/]NAME")
@OUTPUT
async def why(where: Where, target: str, output: str) -> None:
    """Explain why a node, pod, job, partition or resource is not as it should be, and what to do.

    KIND is node, pod, job, partition, nodeset, controller, restapi, loginset, accounting or token; without it, the
    kind is guessed from the name: 57 is a job, 9_3 a task of an array, 12+1 a component of a heterogeneous job. The
    exit code is 1 if something is wrong, and 0 if it is merely waiting, or is as somebody asked for.
    """
    from slurm_operator.cli.kubectl import view

    kind, slash, name = target.partition("/")
    if slash and (kind not in EXPLAINED or not name):
        raise click.BadParameter(f"{target!r} is not KIND/NAME with a kind of {', '.join(EXPLAINED)}")
    _, (answer,) = await judged(where, lambda facts: [explained(facts, target)])
    text = view.answer_text(answer) if output == "text" else view.data(view.answer_data(answer), output)
    click.echo(text, nl=False)
    sys.exit(0 if view.is_well(answer) else 1)


def explained(facts: Facts, target: str) -> Diagnosis:
    """The diagnosis of `kind/name`, with a kind of `EXPLAINED`, or of a name of any kind."""
    from slurm_operator.diagnose import job, node, partition, resource

    kind, slash, name = target.partition("/")
    if not slash:
        kind, name = guessed(facts, target), target
    walks: dict[str, Callable[[Facts, str], Diagnosis]] = {"node": node.why, "job": job.why, "partition": partition.why}
    if kind == "pod":
        return _pod(facts, name)
    return walks[kind](facts, name) if kind in walks else resource.why(facts, KINDS[kind], name)


def _pod(facts: Facts, name: str) -> Diagnosis:
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

    if re.fullmatch(r"[0-9]+(?:[_+][0-9]+)?", name):
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


@command()
@click.option("-f", "--filename", "paths", multiple=True, required=True, metavar="FILE|DIR|-", help="Manifests.")
@OUTPUT
async def plan(where: Where, paths: tuple[str, ...], output: str) -> None:
    """Show what would change live, restart, drain or wait, and until when, if manifests were applied.

    What the operator would refuse is found by the rules of `slurm-operator check`; then the exit code is 1.
    """
    from slurm_operator.cli.kubectl import planning, view
    from slurm_operator.cli.world import is_manifest, load

    world = load(paths)
    if not any(is_manifest(each.value) for each in world.manifests):
        unread = "".join(f"{each}\n" for each in world.findings)
        raise click.ClickException(f"{unread}nothing to plan: there is no manifest in {', '.join(paths)}")
    found = planning.planned(await facts_of(where), world)
    effects = found.effects
    for finding in found.findings:
        # An error on a resource is among the effects.
        if finding.severity == "warning" or not finding.object:
            click.secho(str(finding), fg="red" if finding.severity == "error" else "yellow", err=True)
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
    elif not found.is_refused:
        click.echo("nothing would change")
    sys.exit(1 if found.is_refused else 0)
