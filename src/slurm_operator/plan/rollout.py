"""Which workers are replaced next when their template has changed.

In: the workers that stay, and which of them are old. Out: those to condemn now, within the strategy's bounds. Pure;
used by `plan/choice.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kube_runtime.text import whole_number
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import names
from slurm_operator.plan.leaving import UPDATE
from slurm_operator.plan.workers import Worker, in_deletion_order


def to_update(cr: NodeSet, some: list[Worker], old: list[Worker], now: datetime, settled: int = 0) -> list[Worker]:
    """The workers that should go because they are old; a choice that was made is kept.

    `settled` are more workers, all available and none of them old.
    """
    match cr.spec.update_strategy.type:
        case "RollingUpdate":
            return _rolling(cr, some, old, now, settled)
        case "ScheduledUpdate":
            return [worker for worker in old if not worker.is_ready or _in_window(cr, worker)]
        case _:
            return []


def _rolling(cr: NodeSet, some: list[Worker], old: list[Worker], now: datetime, settled: int) -> list[Worker]:
    chosen = [worker for worker in old if worker.condemned == UPDATE]
    others = [worker for worker in old if worker.condemned != UPDATE]
    broken = [worker for worker in others if not worker.is_ready]
    healthy = [worker for worker in others if worker.is_ready]
    wanted = len(some) if cr.is_daemon else cr.spec.replicas
    available = _available(cr, some, old, now) + settled
    room = max_unavailable(cr, wanted) - max(wanted - available, 0)
    # Workers that are broken already cost nothing; those that were chosen have been counted.
    return [*chosen, *broken, *in_deletion_order(healthy, now)[: max(room, 0)]]


def _available(cr: NodeSet, some: Iterable[Worker], old: list[Worker], now: datetime) -> int:
    gone = {worker.name for worker in old if worker.condemned == UPDATE}
    return sum(worker.name not in gone and worker.is_available(cr.spec.min_ready_seconds, now) for worker in some)


def max_unavailable(cr: NodeSet, total: int) -> int:
    """How many workers may be missing at once; at least one, or no update would ever move."""
    value = cr.spec.update_strategy.rolling_update.max_unavailable
    if isinstance(value, int):
        return max(value, 1)
    percent = whole_number(value.rstrip("%")) or 0
    return max(-(-total * percent // 100), 1)


def _in_window(cr: NodeSet, worker: Worker) -> bool:
    node = worker.node
    return node is not None and "MAINTENANCE" in node.states and node.reservation == names.reservation(cr)
