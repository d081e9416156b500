"""What every command of `kubectl slurm` is made of: which cluster it asks, how it ends, which options it has.

In: a click context. Out: a command whose function is a coroutine, a client, the facts of a namespace. Used by the
modules of this folder that hold commands; `main.py` puts these together.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slurm_operator.cli.invocation import LOCAL_UP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kube_runtime.client.client import Client
    from slurm_operator.cli.kubectl.change import Changes
    from slurm_operator.cli.kubectl.gather import Asked
    from slurm_operator.diagnose.cause import Diagnosis
    from slurm_operator.diagnose.facts import Facts

R = TypeVar("R")
A = TypeVar("A", bound="Diagnosis")

KINDS = {
    "controller": "Controller",
    "nodeset": "NodeSet",
    "loginset": "LoginSet",
    "restapi": "RestApi",
    "accounting": "Accounting",
    "token": "Token",
}
OUTPUT = click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
SECOND_LOOK_SECONDS = 3.0
# If an answer takes longer, say what is waited for.
SLOW_SECONDS = 3.0
NO_KINDS = "the API server does not know the kinds of slinky.slurm.net: install the operator and its definitions first"
WAIT = click.option(
    "--timeout", "seconds", default=30.0, show_default=True, help="Seconds to wait for Slurm to confirm."
)


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster and namespace."""

    kubeconfig: str
    context: str
    namespace: str


def answered(work: Coroutine[Any, Any, R]) -> R:
    """What a coroutine comes to; an error of ours is a sentence that says what to do."""
    from kube_runtime.client.errors import NotFound, Unauthorized, Unreachable
    from kube_runtime.errors import OperatorError

    try:
        return asyncio.run(work)
    except Unreachable as error:
        raise click.ClickException(f"{error}; {_how_to_reach()}") from error
    except Unauthorized as error:
        raise click.ClickException(f"{error}; log in again: the credentials of the kubeconfig are refused") from error
    except NotFound as error:
        # Of a kind that it does not serve, an API server says nothing but the number.
        unknown = not error.status.reason
        raise click.ClickException(NO_KINDS if unknown else str(error)) from error
    except OperatorError as error:
        raise click.ClickException(str(error)) from error


def _how_to_reach() -> str:
    up = os.environ.get(LOCAL_UP)
    if up:
        return f"start the cluster, if it is not running, with {up}"
    return "kubectl cluster-info says whether the API server can be reached"


def command(
    group: click.Group | None = None, **options: Any
) -> Callable[[Callable[..., Coroutine[Any, Any, R]]], click.Command]:
    """A command whose function is a coroutine, of this group or still of none; errors are sentences."""
    make = group.command if group is not None else click.command

    def decorate(function: Callable[..., Coroutine[Any, Any, R]]) -> click.Command:
        @click.pass_obj
        def run(where: Where, /, *arguments: Any, **given: Any) -> None:
            answered(function(where, *arguments, **given))

        made: click.Command = make(**options)(update_wrapper(run, function))
        return made

    return decorate


@asynccontextmanager
async def connected(where: Where) -> AsyncIterator[tuple[Client, str]]:
    """A client, and the namespace that is meant."""
    from kube_runtime.client import kubeconfig
    from kube_runtime.client.client import Client
    from slurm_operator.program import USER_AGENT

    target = kubeconfig.find(path=where.kubeconfig, context=where.context)
    async with Client.to(target, user_agent=USER_AGENT) as client:
        yield client, where.namespace or target.namespace or "default"


async def facts_of(where: Where) -> Facts:
    """Everything there is to know of a namespace."""
    from slurm_operator.cli.kubectl.gather import Asked, gather

    async with connected(where) as (client, namespace):
        asked = Asked()
        printing = asyncio.ensure_future(_print_waits(asked))
        try:
            facts = await gather(client, namespace, asked)
        finally:
            printing.cancel()
        if not any(facts.every(kind) for kind in (*KINDS.values(), "Partition")):
            elsewhere = await _elsewhere(client)
            raise click.ClickException(f"there is no Slurm cluster in namespace {namespace}; {elsewhere}")
    return facts


async def _print_waits(asked: Asked) -> None:
    """Say what is waited for, when it takes long."""
    while True:
        await asyncio.sleep(SLOW_SECONDS)
        if asked.text:
            click.echo(f"waiting for {asked.text} ...", err=True)


async def _elsewhere(client: Client) -> str:
    """Where there are clusters: the option to give if there is one place, or the command that shows them."""
    from kube_runtime.client.errors import KubeError
    from slurm_operator.reconcile.resources import OURS

    try:
        found = (await client.list(OURS["Controller"].raw(), "")).items
    except KubeError:
        # Whoever may read one namespace may not read all of them.
        found = ()
    namespaces = sorted({each.metadata.namespace for each in found})
    if len(namespaces) == 1:
        return f"namespace {namespaces[0]} has one: use kubectl slurm -n {namespaces[0]}"
    return "kubectl get controllers.slinky.slurm.net -A shows where there are some"


async def judged(where: Where, look: Callable[[Facts], Sequence[A]]) -> tuple[Facts, Sequence[A]]:
    """The answers to a question; before the operator is called absent it gets a moment, for it may be about to look."""
    facts = await facts_of(where)
    found = look(facts)
    if any(getattr(each, "code", "") == "OperatorAbsent" for each in found):
        await asyncio.sleep(SECOND_LOOK_SECONDS)
        facts = await facts_of(where)
        found = look(facts)
    return facts, found


@asynccontextmanager
async def changing(where: Where) -> AsyncIterator[Changes]:
    """A way to change things in a namespace."""
    from slurm_operator.cli.kubectl.change import Changes

    async with connected(where) as (client, namespace):
        yield Changes(client, namespace)
