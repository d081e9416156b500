"""The history of a Controller's configuration: what is kept, how it is shown, and what is dropped.

In: a configuration that has been in force for a while, and the ControllerRevisions that are there. Out: the action that
keeps it, and those that take the oldest away; and, for readers, each `Revision`. A world in which nothing changed costs
one look at a label. Pure; called by `plan/cluster.py`, and by `cli/kubectl/` to read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kube_runtime.client.objects import RawObject
from kube_runtime.text import printable, whole_number
from slurm_operator.api.controller import Controller
from slurm_operator.build import labels
from slurm_operator.build.config_revision import Inputs, controller_revision
from slurm_operator.build.hashes import short_hash
from slurm_operator.build.metadata import Object
from slurm_operator.plan.actions import Action, Create, Delete

KEY = ("apps/v1", "ControllerRevision")
# So many are kept, as long as they are not larger than this together; the newest always is.
MAX_REVISIONS = 10
MAX_HISTORY_BYTES = 4 * 1024 * 1024
# Seconds in force after which a configuration is kept: of a burst of changes, the last one counts.
KEPT_AFTER_SECONDS = 5.0
MAX_CHANGE_CHARACTERS = 240
MAX_TEXT_CHARACTERS = 1000
OPERATOR = "slurm-operator"


@dataclass(frozen=True, slots=True)
class Revision:
    """One configuration that was in force."""

    number: int
    hash: str
    time: str
    change: str
    by: str
    files: Mapping[str, str]
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class InForce:
    """The configuration that Slurm runs with, and what it was made from."""

    hash: str
    files: Mapping[str, str]
    inputs: Inputs
    since: str


def is_revision(item: RawObject) -> bool:
    """Whether a ControllerRevision keeps a configuration."""
    return labels.CONFIG_REVISION in item.metadata.labels and number_of(item) > 0


def number_of(item: RawObject) -> int:
    """Its number, by its name: nothing is decoded for it."""
    return whole_number(item.metadata.name.rpartition("-")[2]) or 0


def read(content: Object) -> Revision:
    """A ControllerRevision as what it keeps."""
    # Whoever may write a ControllerRevision may have made it: what is not of the right type is not there.
    data, number = _object(content.get("data")), content.get("revision")
    texts = {key: printable(str(data.get(key) or ""), MAX_TEXT_CHARACTERS) for key in ("hash", "time", "change", "by")}
    files = {name: text for name, text in _object(data.get("files")).items() if isinstance(text, str)}
    return Revision(number if isinstance(number, int) else 0, **texts, files=files, inputs=_inputs(data))


def _inputs(data: Object) -> Inputs:
    return {key: _object(fields) for key, fields in _object(data.get("inputs")).items()}


def _object(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def is_kept(hash_: str, present: Iterable[RawObject]) -> bool:
    """Whether the newest revision is this configuration."""
    newest = max(present, key=number_of, default=None)
    return newest is not None and newest.metadata.labels.get(labels.CONFIG_REVISION) == short_hash(hash_)


def plan_history(
    cr: Controller, in_force: InForce, present: Sequence[RawObject], managers: Mapping[str, str], highest: int = 0
) -> tuple[Action, ...]:
    """Keep what is in force and take the oldest away; `managers` says by `Kind/name` who wrote a resource last.

    `highest` is the highest number that has a name, also of revisions that are not the Controller's any more.
    """
    if is_kept(in_force.hash, present):
        return ()
    newest = max(present, key=number_of, default=None)
    before = read(newest.content()) if newest is not None else None
    number = max(highest, number_of(newest) if newest is not None else 0) + 1
    changed = changes(before.inputs if before is not None else {}, in_force.inputs)
    annotations = {
        "time": in_force.since,
        "change": summary(before, in_force, changed),
        "by": ", ".join(sorted({managers[key] for key in changed if managers.get(key)})) if before is not None else "",
    }
    made = controller_revision(cr, number, in_force.hash, in_force.files, in_force.inputs, annotations)
    room = MAX_HISTORY_BYTES - sum(len(text.encode()) for text in in_force.files.values())
    return (Create(made), *_surplus(present, room))


def _surplus(present: Iterable[RawObject], room: int) -> Iterator[Action]:
    kept = 1
    for item in sorted(present, key=number_of, reverse=True):
        room -= len(item.body)
        kept += 1
        if kept > MAX_REVISIONS or room < 0:
            yield Delete(*KEY, item.metadata, "the history of configurations is full")


def changes(before: Inputs, now: Inputs) -> dict[str, tuple[str, ...]]:
    """By `Kind/name`: the fields that differ; none where the resource has come or gone."""
    found: dict[str, tuple[str, ...]] = {}
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if old is None or new is None:
            found[key] = ()
        elif old != new:
            found[key] = tuple(sorted(name for name in {*old, *new} if old.get(name) != new.get(name)))
    return found


def summary(before: Revision | None, now: InForce, changed: Mapping[str, tuple[str, ...]]) -> str:
    """What changed, in one line."""
    if before is None:
        return "the first revision that was kept"
    changes = [_change_text(key, fields, is_new=key in now.inputs) for key, fields in changed.items()]
    text = "; ".join(changes) or "no resource changed: it was the operator, Accounting or the number of nodes"
    more, less = counted(before.files, now.files)
    shown = text if len(text) <= MAX_CHANGE_CHARACTERS else f"{text[:MAX_CHANGE_CHARACTERS]} …"
    return f"{shown} (+{more} -{less} lines)"


def _change_text(key: str, fields: tuple[str, ...], *, is_new: bool) -> str:
    if fields:
        return f"{key}: {', '.join(fields)}"
    return f"{key} is new" if is_new else f"{key} is gone"


def counted(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[int, int]:
    """How many lines that say something came, and how many went."""
    old, new = _lines(before), _lines(now)
    return (new - old).total(), (old - new).total()


def _lines(files: Mapping[str, str]) -> Counter[tuple[str, str]]:
    lines = ((name, line) for name, text in files.items() for line in text.splitlines())
    return Counter((name, line) for name, line in lines if line.strip() and not line.startswith("#"))


def manager_of(content: Object) -> str:
    """Who wrote last what a resource wants, by the API server's record; empty where it has none."""
    entries = (content.get("metadata") or {}).get("managedFields") or ()
    others = [each for each in entries if not each.get("subresource") and each.get("manager") != OPERATOR]
    newest: Object = max(others, key=lambda each: str(each.get("time") or ""), default={})
    return str(newest.get("manager") or "")
