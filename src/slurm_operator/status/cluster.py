"""What is said of a Controller beside its pods: its configuration, its partitions, and who runs with what.

In: a `ClusterWorld`, the plan, and its `Release`. Out: conditions and fields. Called by `reconcile/controller.py`.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kube_runtime.text import first_few
from kube_runtime.times import parse_seconds
from slurm_operator.api.controller import ConfigStatus, Controller
from slurm_operator.plan import daemons
from slurm_operator.plan.actions import Plan
from slurm_operator.plan.cluster import Release, planned_on
from slurm_operator.plan.cluster_world import ClusterWorld
from slurm_operator.plan.config import Stage
from slurm_operator.plan.daemons import Census
from slurm_operator.plan.lint import is_checked
from slurm_operator.slurm.model import Unknown
from slurm_operator.status import config, workload
from slurm_operator.status.conditions import DEGRADED, PROGRESSING, READY, ConditionDraft, no, yes

MAX_NAMED_JOBS = 10
NOT_VALID = (Stage.INVALID, Stage.REFUSED_BY_SLURMD, Stage.REFUSED, Stage.ROLLED_BACK)


def drafts(world: ClusterWorld, plan: Plan, release: Release) -> list[ConditionDraft]:
    """The conditions of a configuration and of what it waits for."""
    decision = release.config
    of_config = config.drafts(decision, world.cr.status.config, checked=is_checked(world.cr))
    found = [*of_config, *_waiting(world, plan)]
    if decision.stage in NOT_VALID:
        return [*found, yes(DEGRADED, "ConfigNotValid", of_config[0].message)]
    if release.refused_by_linter:
        return [*found, yes(DEGRADED, "ConfigNotValid", _by_reason(release.refused_by_linter))]
    if release.refused:
        return [*found, yes(DEGRADED, "RefusedBySlurm", _by_reason(release.refused))]
    poll = release.memory.poll
    if poll is not None and poll.denied:
        message = f"the operator may not read the sidecar's log on the new configuration: {poll.denied}"
        return [*found, yes(DEGRADED, "Forbidden", message)]
    return found


def fields(world: ClusterWorld, release: Release) -> dict[str, Any]:
    """`status.config`."""
    found = tuple(_daemons(world, release))
    return {"config": config.fields(release.config, world.cr.status.config, world.time, found)}


def external(cr: Controller) -> list[ConditionDraft]:
    """What a Partition says whose cluster is run by somebody else."""
    message = f"Controller {cr.name!r} is external: the operator does not change its partitions"
    return [no(READY, "External", message)]


def not_reconciled(cr: Controller, why: Iterable[ConditionDraft]) -> list[ConditionDraft]:
    """What a Partition says whose Controller is not reconciled: the same reason, and whose it is."""
    found = next(each for each in why if each.type == READY)
    return workload.failed(found.reason, f"Controller {cr.name!r} is not reconciled: {found.message}")


def _by_reason(refused: Mapping[str, str]) -> str:
    """Partitions that were not taken; their lines are left out, so nothing else would tell of them."""
    names_by_why: dict[str, list[str]] = {}
    for name, why in sorted(refused.items()):
        names_by_why.setdefault(why, []).append(name)
    return "; ".join(
        f"{'partition' if len(names) == 1 else 'partitions'} {', '.join(names)}: {why}"
        for why, names in names_by_why.items()
    )


def _waiting(world: ClusterWorld, plan: Plan) -> Iterator[ConditionDraft]:
    """Partitions that nothing asks for any more and that are still in slurm.conf, and what they wait for."""
    waits, why = plan.partitions.waits, _unanswered(world)
    if waits and why:
        names = ", ".join(sorted(waits))
        message = f"slurm.conf keeps {names} until Slurm reports no jobs in it; {why}"
        yield yes(PROGRESSING, "WaitingForSlurm", message)
    elif waits:
        held = "; ".join(f"{name}: {_jobs(numbers)}" for name, numbers in sorted(waits.items()))
        yield yes(PROGRESSING, "WaitingForJobs", f"slurm.conf keeps partitions until their jobs have ended: {held}")


def _unanswered(world: ClusterWorld) -> str:
    """Why partitions could not be planned; empty when they could."""
    listed = planned_on(world)
    return listed.why if isinstance(listed, Unknown) else ""


def _jobs(numbers: tuple[int, ...]) -> str:
    return f"jobs {first_few(numbers, MAX_NAMED_JOBS)}" if numbers else "Slurm is asked once more"


def _daemons(world: ClusterWorld, release: Release) -> Iterator[Census]:
    """Who runs with the configuration in force."""
    config_status = world.cr.status.config or ConfigStatus()
    yield _controllers(world, release)
    if world.slurm.known_nodes is not None:
        yield daemons.of_nodes(world.slurm.known_nodes, parse_seconds(config_status.last_read))
    for daemon, pods, why in world.daemon_pods:
        yield daemons.of_pods(daemon, pods, parse_seconds(config_status.last_applied), why)


def _controllers(world: ClusterWorld, release: Release) -> Census:
    pods, late = world.pods, release.config.behind
    silent = tuple(pod.name for pod in pods if not pod.reports_verdicts)
    # Where all differ from what is wanted, it is the wish that is not in force.
    behind = tuple(name for name, _ in late) if len(late) < len(pods) else ()
    return Census("slurmctld", len(pods), behind, silent, "their sidecar reports nothing" if silent else "")
