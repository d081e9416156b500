"""The objects that a resource owns, against what is there: applied, left alone, or pruned.

In: an `OwnedWorld` and what is to be applied. Out: a plan. Pod templates of another program are kept
(`plan/takeover.py`) and nothing restarts while a key waits (`plan/keys.py`). Called by `reconcile/owned.py` and
`plan/cluster.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kube_runtime.client.objects import RawObject
from slurm_operator.build.metadata import Object
from slurm_operator.plan import keys, takeover
from slurm_operator.plan.actions import Action, Apply, Plan
from slurm_operator.plan.config_history import KEY as HISTORY
from slurm_operator.plan.objects import Identity, identity, plan_objects

Live = Mapping[Identity, RawObject]


@dataclass(frozen=True, slots=True)
class OwnedWorld:
    """What a resource asks for, and what is there."""

    # What was built; what is applied of it now may lag behind.
    built: Sequence[Object]
    # The objects that have the names of what is applied, and those that the resource controls.
    live: Live = field(default_factory=dict)
    owned: Live = field(default_factory=dict)
    # Why a new key goes round, so that no daemon may read its files again; empty when none does.
    waits_for_key: str = ""


def plan_owned(world: OwnedWorld, desired: Sequence[Object]) -> Plan:
    """Apply what is desired and prune the rest; what must not restart is left alone."""
    wanted = takeover.kept(desired, world.live, world.built)
    left_alone = {identity(value) for value in wanted if world.waits_for_key and value["kind"] in keys.FROZEN}
    # One that is not there yet has nothing to lose.
    left_alone &= world.live.keys()
    applied = [value for value in keys.with_known_hashes(wanted, world.live) if identity(value) not in left_alone]
    plan = plan_objects(applied, world.live, world.owned, keep=frozenset(_made_once(world.owned) | left_alone))
    return replace(plan, stages=tuple(_with_takeovers(plan)))


def _with_takeovers(plan: Plan) -> Iterator[tuple[Action, ...]]:
    """The stages, each after what its pod template needs."""
    for stage in plan.stages:
        taken = (takeover.taken(each.desired, each.live) for each in stage if isinstance(each, Apply))
        if before := tuple(each for each in taken if each is not None):
            yield before
        yield stage


def _made_once(owned: Live) -> set[Identity]:
    """What is made once and then kept; the history of a Controller is made and thinned out by its own rules."""
    history = {key for key in owned if key[:2] == HISTORY}
    return history | {key for key in owned.keys() - history if _is_immutable(owned[key])}


def _is_immutable(item: RawObject) -> bool:
    return item.content().get("immutable") is True
