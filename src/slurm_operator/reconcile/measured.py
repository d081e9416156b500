"""Feeds `Metrics` with what the operator does and with the state of its resources.

In: calls through both doors, and the statuses in the caches. Out: samples. Wired by `cli/run.py` and, for its calls to
Kubernetes, by `cli/webhook.py`. Statuses are read from the caches at each scrape; no server is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from kube_runtime.client.client import Call
from kube_runtime.client.objects import RawObject
from kube_runtime.loop.metrics import Sample
from kube_runtime.times import parse_seconds
from slurm_operator.api.kinds import KINDS
from slurm_operator.metrics import CONDITION, CONDITION_CHANGED, WORKERS, OperatorMetrics
from slurm_operator.reconcile.observe import Observer
from slurm_operator.slurm.client import Observation

# The label of a request that got no answer.
NO_ANSWER = "none"
STATES = {
    "desired": "desired",
    "replicas": "present",
    "readyReplicas": "ready",
    "availableReplicas": "available",
    "updatedReplicas": "updated",
    "slurmIdle": "idle",
    "slurmAllocated": "allocated",
    "slurmDown": "down",
    "slurmDrain": "drain",
}

Items = Iterable[tuple[str, RawObject]]
T = TypeVar("T")


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str = ""
    last_transition_time: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Resource(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class _Config(msgspec.Struct, frozen=True):
    hash: str = ""
    milliseconds: int | None = None


class _LastApply(msgspec.Struct, frozen=True):
    way: str = ""
    milliseconds: int = 0
    time: str = ""


class _Applied(msgspec.Struct, frozen=True, rename="camel"):
    config: _Config = _Config()
    last_apply: _LastApply = _LastApply()


class _Changing(msgspec.Struct, frozen=True):
    status: _Applied = _Applied()


def kube_calls(metrics: OperatorMetrics) -> Callable[[Call], None]:
    """For `Client.report`."""

    def report(call: Call) -> None:
        verb, resource = call.request.what.replace("discovery of", "discovery").split()[:2]
        code = str(call.code) if call.code else NO_ANSWER
        metrics.api_request(verb, resource, code, None if call.request.stream else call.seconds)

    return report


def slurm_calls(metrics: OperatorMetrics) -> Callable[[Observation], None]:
    """For a SlurmClient's `observe`."""

    def observe(seen: Observation) -> None:
        method, _, endpoint = seen.call.partition(" ")
        metrics.slurm_request(method, endpoint, seen.outcome, seen.seconds)

    return observe


def measure(metrics: OperatorMetrics, observer: Observer, leading: Callable[[], bool]) -> None:
    """Show what the caches know, and time what comes into force; a standby times nothing twice."""
    metrics.watch_leadership(leading)
    metrics.watch(CONDITION, lambda: conditions(_resources(observer)))
    metrics.watch(CONDITION_CHANGED, lambda: condition_times(_resources(observer)))
    metrics.watch(WORKERS, lambda: workers(item for kind, item in _resources(observer) if kind == "NodeSet"))
    for cache in (*observer.raw.get("Controller", ()), *observer.raw.get("Partition", ())):
        cache.on_change(_timed(metrics, leading))


def _resources(observer: Observer) -> Iterator[tuple[str, RawObject]]:
    for kind in KINDS:
        for cache in observer.raw.get(kind.name, ()):
            yield from ((kind.name, item) for item in cache.items())


def conditions(items: Items) -> Iterator[Sample]:
    """Every condition of these resources, each of a kind."""
    for place, each in _conditions(items):
        yield (*place, each.type, each.status, each.reason), 1.0


def condition_times(items: Items) -> Iterator[Sample]:
    """When they changed."""
    for place, each in _conditions(items):
        changed = parse_seconds(each.last_transition_time)
        if changed is not None:
            yield (*place, each.type), changed


def _conditions(items: Items) -> Iterator[tuple[tuple[str, str, str], _Condition]]:
    for kind, item in items:
        place = (kind, item.metadata.namespace, item.metadata.name)
        yield from ((place, each) for each in _read(item, _Resource).status.conditions)


def workers(nodesets: Iterable[RawObject]) -> Iterator[Sample]:
    """How many workers each NodeSet has, by state."""
    for item in nodesets:
        status = item.content().get("status")
        if isinstance(status, dict):
            for field, state in STATES.items():
                yield (item.metadata.namespace, item.metadata.name, state), float(status.get(field) or 0)


def _timed(
    metrics: OperatorMetrics, leading: Callable[[], bool]
) -> Callable[[RawObject | None, RawObject | None], None]:
    def changed(old: RawObject | None, new: RawObject | None) -> None:
        # What was there before this process is not its work.
        if old is not None and new is not None and leading():
            for method, milliseconds in came_into_force(old, new):
                metrics.config_applied(method, milliseconds / 1000)

    return changed


def came_into_force(old: RawObject, new: RawObject) -> Iterator[tuple[str, int]]:
    """The way and the milliseconds of what this change of a Controller's or Partition's status tells of."""
    before, now = _read(old, _Changing).status, _read(new, _Changing).status
    if now.config.hash != before.config.hash and now.config.milliseconds is not None:
        yield "reconfigure", now.config.milliseconds
    # A partition that came by a reconfigure came with the Controller's configuration.
    if now.last_apply != before.last_apply and now.last_apply.way == "Live":
        yield "live", now.last_apply.milliseconds


def _read(item: RawObject, wanted: type[T]) -> T:
    """What a status says; one that another operator left in another form says nothing."""
    try:
        return msgspec.json.decode(item.body, type=wanted)
    except msgspec.MsgspecError:
        return wanted()
