"""What `local up` waits for, and what it prints meanwhile.

In: a cluster, and the objects that were applied. Out: nothing, once they are ready; an error with every reason after
the timeout. Called by `cli/local.py`; the reasons are those of `kubectl slurm why`, with commands that run as printed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from slurm_operator.api.plural import counted
from slurm_operator.cli.invocation import Typed
from slurm_operator.cli.kubectl.gather import gather
from slurm_operator.cli.local_view import Lines
from slurm_operator.cli.waiting import UNKNOWN, Reason, reason_of, until
from slurm_operator.diagnose import pod as pods
from slurm_operator.diagnose import resource as resources
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.cluster import ORDER
from slurm_operator.diagnose.facts import Facts
from slurm_operator.local import cluster
from slurm_operator.local.cluster import Health, Readiness
from slurm_operator.local.home import Home, LocalError
from slurm_operator.local.parts import client_of
from slurm_operator.local.readiness import Key, State

# What every start looks like for a while: no news while it lasts no longer than this.
OF_A_START = frozenset({"ClaimNotBound", "ControllerUnreachable", "NameNotResolved", "ProbeFails"})
EARLY_SECONDS = 40.0
# Nothing was seen yet, or nothing that could be waited for.
AT_FIRST = Reason("the API server and the node agent are starting")


def until_ready(home: Home, applied: Collection[Key] | None, typed: Typed, seconds: float) -> None:
    """Wait until everything that was applied is ready; if nothing was, until everything is."""
    lines, looks, began = Lines(typed=typed), Readiness(home, applied), time.monotonic()

    async def is_so() -> bool:
        ready = await looks.look()
        if looks.now is not None and not sys.stderr.isatty():
            lines(looks.now)
        return ready

    async def why() -> Reason:
        is_early = time.monotonic() - began < EARLY_SECONDS
        return typed_reason(await _why(home, looks.now, is_early), typed) if looks.now is not None else AT_FIRST

    what = "everything is ready" if applied is None else "what was applied is ready"
    waited = asyncio.run(until(what, is_so, why, seconds))
    if looks.now is not None and not waited.is_so:
        raise LocalError(_with_reason(cluster.not_ready(looks.now, seconds), waited.reason))
    if looks.now is not None and sys.stderr.isatty():
        lines.print_leftovers(looks.now)


def until_gone(home: Home, objects: Sequence[dict[str, Any]], typed: Typed, seconds: float) -> None:
    """Wait until objects that are being deleted are gone: applying them now would not keep them."""
    left: list[Key] = asyncio.run(cluster.being_deleted(home, objects))
    if not left:
        return

    async def is_so() -> bool:
        left[:] = await cluster.being_deleted(home, objects)
        return not left

    async def why() -> Reason:
        states = [State(kind=kind, namespace=space, name=name, ready=False) for kind, space, name in left]
        return typed_reason(await _first_cause(home, states), typed)

    titles = " and ".join(f"{kind} {name}" for kind, _, name in left)
    waited = asyncio.run(until(f"{titles} is gone, since it is being deleted", is_so, why, seconds))
    if not waited.is_so:
        raise LocalError(_with_reason(f"{titles} is still being deleted after {seconds:g} s", waited.reason))


def _with_reason(text: str, reason: Reason) -> str:
    return text if reason == UNKNOWN or reason.sentence in text else f"{text}\n  {reason.text}"


def typed_reason(reason: Reason, typed: Typed) -> Reason:
    """A reason whose commands run as printed."""
    command = typed.kubectl(reason.command) if reason.command else ""
    return replace(reason, sentence=typed.text(reason.sentence), command=command)


async def _why(home: Home, now: Health, is_early: bool) -> Reason:
    """The first cause of what is not ready, and how much is not ready."""
    if now.problems:
        return Reason(now.problems[0])
    stopped = next((part for part in now.parts if not part.is_running), None)
    if stopped is not None:
        return Reason(f"{stopped.name} is not running ({stopped.last_exit or 'it is starting'})")
    if not now.waited_for:
        return AT_FIRST
    first = await _first_cause(home, now.waited_for, is_early)
    share = f"{len(now.waited_for)} of {counted(sum(not each.left_out for each in now.objects), 'object')} not ready"
    return Reason(first.sentence, first.command, progress=share)


async def _first_cause(home: Home, states: Sequence[State], is_early: bool = False) -> Reason:
    """Why the first of them, of what others depend on, is not ready."""
    ranks = {kind: rank for rank, kind in enumerate(ORDER)}
    first = min(states, key=lambda each: (ranks.get(each.kind, len(ranks)), each.kind == "Node"))
    if not first.namespace:
        return Reason(f"{first.title}: {first.message}")
    async with client_of(home) as client:
        facts = await gather(client, first.namespace)
    return _cause(facts, first, is_early)


def _cause(facts: Facts, first: State, is_early: bool) -> Reason:
    describe = f"kubectl -n {first.namespace} describe {first.kind.lower()} {first.name}"
    found = pods.why(facts, first.name) if first.kind == "Pod" else None
    if first.kind in ORDER:
        answer = resources.why(facts, first.kind, first.name)
        found = answer if isinstance(answer, Cause) else None
    if found is not None and is_early and found.code in OF_A_START:
        found = None
    return reason_of(found) if found is not None else Reason(f"{first.title}: {first.message}", describe)
