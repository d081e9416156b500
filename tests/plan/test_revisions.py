"""The history of a NodeSet: one name for one template, told apart when hashes collide, and bounded."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.plan.small_cluster import Cluster

from kube_runtime.client import objects
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import labels, names, revision
from slurm_operator.plan import revisions
from slurm_operator.plan.actions import Delete, PatchMetadata


def stored(cr: NodeSet, hash_: str, number: int = 1, data: Any = None, owner: str = "nodeset") -> objects.RawObject:
    owners = [{"uid": owner, "kind": "NodeSet", "name": cr.name, "controller": True}] if owner else []
    name = names.revision(cr, hash_)
    meta = {"name": name, "namespace": "ns", "uid": name, "labels": {labels.REVISION: hash_}, "ownerReferences": owners}
    raw = {"metadata": meta, "revision": number, "data": revision.data(cr) if data is None else data}
    found: objects.RawObject = objects.decode_hook(objects.RawObject, raw)
    return found


def test_the_newest_revision_is_named_by_its_hash(cluster: Cluster) -> None:
    cr = cluster.nodeset()
    assert revisions.newest(cr, []) == revision.hash_of(cr)
    assert revisions.newest(cr, [stored(cr, revision.hash_of(cr))]) == revision.hash_of(cr)


def test_another_template_of_the_same_hash_is_counted_as_a_collision(cluster: Cluster) -> None:
    cr = cluster.nodeset()
    other = stored(cr, revision.hash_of(cr), data={"spec": {"template": "another"}})
    assert revisions.collisions(cr, [other]) == 1
    assert revisions.newest(cr, [other]) == revision.hash_of(cr, 1) != revision.hash_of(cr)


def test_a_revision_of_the_same_meaning_is_the_newest(cluster: Cluster) -> None:
    cr = cluster.nodeset()
    assert revisions.newest(cr, [stored(cr, "fromgo")]) == "fromgo"


def test_a_revision_that_is_used_again_gets_the_highest_number_and_keeps_its_data(cluster: Cluster) -> None:
    cr = cluster.nodeset()
    hash_ = revision.hash_of(cr)
    mine = stored(cr, hash_, 1)
    applied = revisions.applied(cr, [mine, stored(cr, "other", 4)], hash_, privileged=False)
    assert (applied.desired["revision"], applied.live) == (5, mine)
    assert (
        revisions.applied(cr, [stored(cr, hash_, 7), stored(cr, "other", 4)], hash_, privileged=False).desired[
            "revision"
        ]
        == 7
    )


def test_the_oldest_go_beyond_the_limit_unless_somebody_runs_them(cluster: Cluster) -> None:
    cr = cluster.nodeset(revisionHistoryLimit=1)
    present = [stored(cr, f"h{number}", number) for number in (3, 1, 2, 4)]
    gone = [action.name for action in revisions.history(cr, present, {"h1"}) if isinstance(action, Delete)]
    assert gone == [names.revision(cr, "h2"), names.revision(cr, "h3")]


def test_revisions_of_others_are_neither_deleted_nor_taken(cluster: Cluster) -> None:
    cr = cluster.nodeset(revisionHistoryLimit=0)
    foreign = stored(cr, "x", owner="somebody")
    assert list(revisions.history(cr, [foreign], ())) == []
    assert list(revisions.adoptions(cr, [foreign], "newest")) == []
    assert not revisions.belongs(cr, foreign)


def test_an_orphan_is_adopted(cluster: Cluster) -> None:
    cr = cluster.nodeset()
    (patch,) = revisions.adoptions(cr, [stored(cr, "x", owner="")], "newest")
    assert isinstance(patch, PatchMetadata)
    assert [owner["uid"] for owner in patch.owners or ()] == ["nodeset"]


def test_a_count_of_collisions_is_not_lost(cluster: Cluster) -> None:
    cr = cluster.nodeset()
    counted = msgspec.structs.replace(cr, status=msgspec.structs.replace(cr.status, collision_count=2))
    assert revisions.newest(counted, []) == revision.hash_of(cr, 2)
