"""Who the claims of a NodeSet's workers go with.

In: workers of one frozen `NodeSetWorld`. Out: patches of owners. Pure; used by `plan/nodeset.py`, and by
`plan/settled.py` to see whether one is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kube_runtime.client.objects import RawObject
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import claims, nodeset
from slurm_operator.build.metadata import Object
from slurm_operator.plan.actions import Action, PatchMetadata
from slurm_operator.plan.leaving import SCALE_IN
from slurm_operator.plan.objects import Identity, identity
from slurm_operator.plan.ownership import is_claim_of
from slurm_operator.plan.workers import Worker
from slurm_operator.slurm import policy

if TYPE_CHECKING:
    from slurm_operator.plan.nodeset_world import NodeSetWorld


def claim_owners(world: NodeSetWorld, some: Iterable[Worker]) -> Iterator[Action]:
    """Who each claim goes with; set before its pod goes, taken back when the pod stays after all."""
    for worker in some:
        if worker.is_terminating:
            continue
        leaves = world.choice.why(worker) == SCALE_IN and isinstance(worker.may_remove, policy.Yes)
        pod: Object = {"metadata": {"name": worker.name, "uid": worker.pod.metadata.uid}}
        wanted = claims.owners(world.cr, pod, scaled_in=leaves)
        for claim in claims.claims(world.cr, claim_identity(world.cr, worker)):
            found = world.live.get(identity(claim))
            # A claim that was not made for this worker is somebody's data, though the worker may use it.
            if found is not None and is_claim_of(world.cr.name, found.metadata):
                yield from _set_owners(world.cr, worker, identity(claim), found, wanted)


def claim_identity(cr: NodeSet, worker: Worker) -> str:
    """What a worker's claims are named for."""
    return nodeset.WorkerIdentity(worker.ordinal).identity(cr) if worker.ordinal is not None else worker.hostname


def _set_owners(cr: NodeSet, worker: Worker, key: Identity, found: RawObject, wanted: list[Object]) -> Iterator[Action]:
    """Make these the claim's owners, beside those that are not of ours."""
    present = found.metadata.owner_references
    names_of_our_owners = (("NodeSet", cr.name), ("Pod", worker.name))
    ours = {
        each.uid for each in present if each.uid == cr.metadata.uid or (each.kind, each.name) in names_of_our_owners
    }
    if ours == {owner["uid"] for owner in wanted}:
        return
    references = found.content()["metadata"].get("ownerReferences") or ()
    others = [each for each in references if each.get("uid") not in ours]
    yield PatchMetadata(*key[:2], found.metadata, owners=(*others, *wanted))
