"""A Controller's turn, its last part: what has been in force for a while is kept as a revision.

In: the plan of a configuration after Slurm's word, and the caches. Out: actions, none at all while nothing changed. The
configuration in force is the one that the status names: what is only published, or only wanted, is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from kube_runtime.times import parse_seconds
from slurm_operator.api.controller import Controller
from slurm_operator.build import names
from slurm_operator.build.config_revision import Inputs, inputs
from slurm_operator.plan.actions import Action
from slurm_operator.plan.config import ConfigPlan, Files, Stage
from slurm_operator.plan.config_history import (
    KEPT_AFTER,
    KEY,
    InForce,
    is_kept,
    is_revision,
    manager_of,
    number_of,
    plan_history,
)
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import World


def kept(world: World[Controller], plan: ConfigPlan, files: Files, observer: Observer, now: str) -> tuple[Action, ...]:
    """What keeps the configuration in force, once it has been so for a while."""
    said = world.cr.status.config
    if said is None or said.hash != plan.hash or plan.stage is not Stage.APPLIED or world.frozen:
        return ()
    since, then = parse_seconds(said.last_applied), parse_seconds(now)
    present = [item for key, item in world.owned.items() if key[:2] == KEY and is_revision(item)]
    if since is None or then is None or then - since < KEPT_AFTER or is_kept(plan.hash, present):
        return ()
    made_from = inputs(world.cr, world.refs)
    in_force = InForce(plan.hash, files, made_from, said.last_applied or now)
    named = observer.in_namespace("ControllerRevision", world.cr.namespace)
    prefix = names.config_revision(world.cr, 0).removesuffix("0")
    highest = max((number_of(item) for item in named if item.metadata.name.startswith(prefix)), default=0)
    return plan_history(world.cr, in_force, present, dict(_managers(world, made_from, observer)), highest)


def _managers(world: World[Controller], made_from: Inputs, observer: Observer) -> Iterator[tuple[str, str]]:
    for key in made_from:
        kind, _, name = key.partition("/")
        found = observer.get(kind, world.cr.namespace, name)
        if found is not None:
            yield key, manager_of(found.content())
