"""Configurations that were in force, as `kubectl slurm config history` and `diff` show them.

In: a client, a namespace and the name of a Controller. Out: rows, one revision, or the lines in which two of them
differ. Numbers name revisions, `-` what none is kept of: the one that is refused, and one that is seconds old.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from kube_runtime.client.client import Client
from kube_runtime.client.objects import CONFIG_MAPS, CONTROLLER_REVISIONS
from kube_runtime.text import whole_number
from slurm_operator.build import labels
from slurm_operator.build.hashes import short_hash
from slurm_operator.cli.kubectl import configuration
from slurm_operator.cli.kubectl.configuration import Configuration
from slurm_operator.diagnose.facts import Facts, Object, condition_of, status_of
from slurm_operator.plan.config_history import Revision, is_revision, number_of, read
from slurm_operator.reconcile.resources import OURS

HEAD = ("REVISION", "HASH", "WHEN", "STATE", "BY", "CHANGE")


@dataclass(frozen=True, slots=True)
class History:
    """One Controller, what it runs with, and what it ran with before, the newest first."""

    resource: Object
    current: Configuration
    revisions: tuple[Revision, ...]

    @property
    def wanted(self) -> str:
        """The hash of what the resources ask for."""
        config = status_of(self.resource).get("config") or {}
        return str(config.get("candidate") or config.get("hash") or "")


async def load(client: Client, namespace: str, controller: str) -> History:
    """Everything that is kept of a Controller's configuration."""
    objects: dict[str, Mapping[str, Object]] = {}
    for resource in (OURS["Controller"], CONFIG_MAPS):
        listing = await client.list(resource.raw(), namespace)
        objects[resource.kind] = {item.metadata.name: item.content() for item in listing.items}
    facts = Facts(namespace, objects)
    current = configuration.read(facts, controller)
    kept = await client.list(CONTROLLER_REVISIONS.raw(), namespace, label_selector=labels.CONFIG_REVISION)
    owner = facts.get("Controller", current.cluster) or {}
    uid = str((owner.get("metadata") or {}).get("uid", ""))
    mine = [item for item in kept.items if is_revision(item) and _is_owned(item.metadata.owner_references, uid)]
    newest_first = sorted(mine, key=number_of, reverse=True)
    return History(owner, current, tuple(read(item.content()) for item in newest_first))


def _is_owned(owners: Sequence[object], uid: str) -> bool:
    return any(getattr(owner, "uid", "") == uid for owner in owners)


def rows(history: History) -> list[dict[str, str]]:
    """The newest first: what is refused or on its way, then what is in force, then what was."""
    return [*_not_kept(history), *_kept(history)]


def _not_kept(history: History) -> Iterator[dict[str, str]]:
    config = status_of(history.resource).get("config") or {}
    valid = condition_of(history.resource, "ConfigValid") or {}
    if config.get("candidate"):
        state = "refused" if history.current.refused else "trying"
        yield _row(
            "-", str(config["candidate"]), str(valid.get("lastTransitionTime", "")), state, "", _summary(history)
        )
    newest = history.revisions[0].hash if history.revisions else ""
    if history.current.hash and history.current.hash != newest:
        when = str(config.get("lastApplied", ""))
        yield _row("-", history.current.hash, when, "live", "", "kept once it has been in force for a few seconds")


def _summary(history: History) -> str:
    return history.current.verdict.partition(" (configuration ")[0]


def _kept(history: History) -> Iterator[dict[str, str]]:
    newest = history.revisions[0].number if history.revisions else 0
    for each in history.revisions:
        state = "live" if each.hash == history.current.hash and each.number == newest else "good"
        yield _row(str(each.number), each.hash, each.time, state, each.by, each.change)


def _row(revision: str, hash_: str, when: str, state: str, by: str, change: str) -> dict[str, str]:
    return {
        "revision": revision,
        "hash": short_hash(hash_),
        "when": when,
        "state": state,
        "by": by,
        "change": change,
    }


def parse_arguments(arguments: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """A Controller's name, if any, and revision numbers: a name that Kubernetes takes is never a number alone."""
    read = [(argument, whole_number(argument)) for argument in arguments]
    numbers = tuple(number for _, number in read if number is not None)
    names = [argument for argument, number in read if number is None]
    if len(names) > 1:
        raise click.UsageError(f"give one Controller, not {', '.join(names)}")
    return (names[0] if names else ""), numbers


def revision(history: History, number: int) -> Revision:
    """One that is kept."""
    found = next((each for each in history.revisions if each.number == number), None)
    if found is None:
        raise click.ClickException(f"{history.current.cluster} has no revision {number}; {known(history)}")
    return found


def known(history: History) -> str:
    """Which revisions there are."""
    numbers = [str(each.number) for each in reversed(history.revisions)]
    return f"it has: {', '.join(numbers)}" if numbers else "none has been kept yet"


def previous(history: History) -> Revision:
    """The newest that is not what the resources ask for now."""
    found = next((each for each in history.revisions if each.hash != history.wanted), None)
    if found is None:
        title = history.current.cluster
        raise click.ClickException(f"{title} has no other configuration to go back to; {known(history)}")
    return found


def between(history: History, numbers: Sequence[int]) -> list[str]:
    """How one revision differs from what is in force, or two from each other."""
    if len(numbers) > 2:
        raise click.UsageError("give one revision, or two")
    old = revision(history, numbers[0])
    if len(numbers) == 1:
        live = f"in force {short_hash(history.current.hash)}"
        return list(unified(old.files, history.current.in_force, f"revision {old.number}", live))
    new = revision(history, numbers[1])
    return list(unified(old.files, new.files, f"revision {old.number}", f"revision {new.number}"))


def unified(before: Mapping[str, str], after: Mapping[str, str], old: str, new: str) -> Iterator[str]:
    """Two sets of files as lines of a unified diff."""
    for file in sorted({*before, *after}):
        first, second = before.get(file, "").splitlines(), after.get(file, "").splitlines()
        yield from difflib.unified_diff(first, second, f"{old}/{file}", f"{new}/{file}", n=2, lineterm="")
