"""The history of a NodeSet: which revision is the newest, what it is called, and which old ones may go.

In: the NodeSet and the ControllerRevisions that are there. Out: the newest hash, and actions. Two templates with one
hash are distinguished by a count of collisions, computed each time from what is there. A revision that another program
wrote in other bytes, but that means the same, is the newest one too: its workers are not recreated. Pure; used by
`plan/nodeset.py` and `reconcile/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from kube_runtime.client.objects import RawObject
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels, made_of, metadata, names, revision
from slurm_operator.plan import pod_origin
from slurm_operator.plan.actions import Action, Apply, Delete, PatchMetadata
from slurm_operator.plan.ownership import is_controlled_by, is_orphan

KEY = ("apps/v1", "ControllerRevision")
MAX_COLLISIONS = 100


def belongs(cr: NodeSet, item: RawObject) -> bool:
    """Whether a ControllerRevision is of this NodeSet: owned by it, or an orphan of its name."""
    meta = item.metadata
    return is_controlled_by(cr.metadata.uid, meta) or is_orphan(cr.name, "ControllerRevision", meta)


def collisions(cr: NodeSet, present: Iterable[RawObject]) -> int | None:
    """How often the newest hash has collided; None when never."""
    by_name = {item.metadata.name: item for item in present}
    count = cr.status.collision_count
    for _ in range(MAX_COLLISIONS):
        taken = by_name.get(names.revision(cr, revision.hash_of(cr, count)))
        if taken is None or not taken.body or _data(taken) == revision.data(cr):
            return count
        count = (count or 0) + 1
    return count


def newest(cr: NodeSet, present: Iterable[RawObject]) -> str:
    """The hash of the newest revision: its own, or that of one which means the same."""
    there = list(present)
    own = revision.hash_of(cr, collisions(cr, there))
    if any(item.metadata.name == names.revision(cr, own) for item in there):
        return own
    wanted = revision.meaning(revision.data(cr))
    same = [item for item in there if item.body and revision.meaning(_data(item)) == wanted]
    found = max(same, key=_number, default=None)
    return own if found is None else found.metadata.labels.get(labels.REVISION, own)


def _data(item: RawObject) -> Any:
    return item.content().get("data")


def _number(item: RawObject) -> int:
    return int(item.content().get("revision") or 0)


def applied(cr: NodeSet, present: Iterable[RawObject], hash_: str, *, privileged: bool) -> Apply:
    """The newest revision, with the highest number; `privileged` are the workers that it makes now."""
    by_name = {item.metadata.name: item for item in present}
    name = names.revision(cr, hash_)
    found = by_name.get(name)
    highest = max((_number(item) for other, item in by_name.items() if other != name), default=0)
    own = _number(found) if found is not None else 0
    number = own if own > highest else highest + 1
    # What a revision holds never changes, not even into other bytes of the same meaning.
    held = _data(found) if found is not None and found.body else None
    noted = pod_origin.of_revision(found).privileged if found is not None and found.body else ""
    note = made_of.hash_of(cr) if privileged else noted
    return Apply(revision.controller_revision(cr, number, hash_, held, privileged=note), found)


def history(cr: NodeSet, present: Iterable[RawObject], live: Collection[str]) -> Iterator[Action]:
    """Old revisions beyond the limit; `live` are the hashes that a worker, or the newest template, has."""
    # An orphan is adopted first.
    ours = (item for item in present if is_controlled_by(cr.metadata.uid, item.metadata))
    mine = [item for item in ours if not item.metadata.deletion_timestamp]
    old = [item for item in mine if item.metadata.name.rpartition("-")[2] not in live]
    by_age = sorted(old, key=_number)
    for item in by_age[: max(len(by_age) - cr.spec.revision_history_limit, 0)]:
        yield Delete(*KEY, item.metadata, "no worker runs it, and the history limit is reached")


def adoptions(cr: NodeSet, present: Iterable[RawObject], hash_: str) -> Iterator[Action]:
    """Orphans get their owner; the newest is applied with it anyway."""
    for item in present:
        meta = item.metadata
        owned = any(owner.controller for owner in meta.owner_references)
        if not owned and not meta.deletion_timestamp and meta.name != names.revision(cr, hash_):
            owner: Mapping[str, object] = metadata.owner(cr)
            yield PatchMetadata(*KEY, meta, owners=(owner,))
