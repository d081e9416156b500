"""From a changed object to the keys of those who care: mapping functions, and sources that come and go.

A cache is a `Source`. `Watch` ties one to a controller with a mapping, which is a pure function from an object
to keys: of itself, of its owner, or of whoever else it concerns (`reconcile/triggers.py`). `ChangeWatch` takes one from
both, old and new, for sources that many share and of which each cares for something else.
`SourceSet` runs sources as tasks and starts and stops them with the custom resource definitions they need.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kube_runtime.backoff import Backoff
from kube_runtime.clock import Clock, SystemClock
from kube_runtime.loop.metrics import Metrics
from kube_runtime.loop.queue import Key
from kube_runtime.metadata import Object

log = logging.getLogger(__name__)


KeysOf = Callable[[Any], Iterable[Key]]
KeysOfChange = Callable[[Any, Any], Iterable[Key]]
Listener = Callable[[Any, Any], None]
"""Called with (old, new): (None, object) for a new one, (object, None) for a deleted one."""


def to_itself(obj: Object) -> Iterable[Key]:
    """The object's own key."""
    return (Key(obj.metadata.namespace, obj.metadata.name),)


def to_owner(group: str, kind: str, *, controlling: bool = True) -> KeysOf:
    """The keys of owners of this group and kind, whatever the version; by default the controlling one only."""

    def keys(obj: Object) -> Iterable[Key]:
        return [
            Key(obj.metadata.namespace, owner.name)
            for owner in obj.metadata.owner_references
            if owner.kind == kind
            and owner.api_version.rpartition("/")[0] == group
            and (owner.controller or not controlling)
        ]

    return keys


class Source(Protocol):
    """Something that knows objects and tells of their changes: a cache."""

    def on_change(self, listener: Listener) -> object:
        """Call `listener(old, new)` after each change; objects known already are reported when they come again."""
        ...

    @property
    def synced(self) -> bool:
        """Has it got a complete picture?"""
        ...

    def age(self) -> float | None:
        """Seconds since it last heard from its server; None before the first time."""
        ...

    async def run(self) -> None:
        """Keep up to date until cancelled."""
        ...


class Enqueuer(Protocol):
    """What a watch feeds: a controller."""

    def add(self, key: Key) -> None: ...


def changed(_old: object, _new: object) -> bool:
    """The filter that lets everything through."""
    return True


@dataclass(frozen=True, slots=True)
class Watch:
    """Changes in `source` become keys of `controller`, by `mapping`, if `when(old, new)` says so.

    Old and new are both mapped: an object that leaves its owner concerns the owner that it leaves.
    """

    source: Source
    controller: Enqueuer
    mapping: KeysOf = to_itself
    when: Callable[[Any, Any], bool] = changed

    def connect(self) -> None:
        """Listen from now on."""
        self.source.on_change(self.notice)

    def notice(self, old: Any, new: Any) -> None:
        """One change."""
        _enqueue(self.controller, self._keys, old, new)

    def _keys(self, old: Any, new: Any) -> Iterable[Key]:
        if old is not None and new is not None and not self.when(old, new):
            return ()
        present = (obj for obj in (old, new) if obj is not None)
        return (key for obj in present for key in self.mapping(obj))


@dataclass(frozen=True, slots=True)
class ChangeWatch:
    """Changes in `source` become keys of `controller`, by a mapping of (old, new), one of which may be None."""

    source: Source
    controller: Enqueuer
    mapping: KeysOfChange

    def connect(self) -> None:
        """Listen from now on."""
        self.source.on_change(self.notice)

    def notice(self, old: Any, new: Any) -> None:
        """One change."""
        _enqueue(self.controller, self.mapping, old, new)


def _enqueue(controller: Enqueuer, mapping: KeysOfChange, old: Any, new: Any) -> None:
    """Each key once; an object that cannot be mapped is logged and never stops the cache."""
    try:
        keys = dict.fromkeys(mapping(old, new))
    except Exception:
        log.exception("a change could not be mapped to the objects that it concerns")
        return
    for key in keys:
        controller.add(key)


class SourceSet:
    """Runs sources by name. `want` is level-triggered: call it with the names that can be had now.

    A source whose task ends is started again with backoff, by the same factory: a cache that died holds nothing
    that can be trusted.
    """

    def __init__(
        self,
        factories: Mapping[str, Callable[[], Source]],
        *,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        metrics: Metrics | None = None,
        optional: Collection[str] = (),
        refusal: Callable[[Any], str] = lambda _: "",
    ) -> None:
        """`optional` sources are waited for by nobody; `refusal` says why a source will not come by waiting."""
        self._factories = dict(factories)
        self._optional, self._refusal = frozenset(optional), refusal
        self._clock: Clock = clock or SystemClock()
        self._backoff = backoff or Backoff(first=1.0)
        self._metrics = metrics or Metrics()
        self._sources: dict[str, Source] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def running(self) -> Mapping[str, Source]:
        """The sources that run now."""
        return dict(self._sources)

    def want(self, names: Iterable[str]) -> None:
        """Run exactly these sources (names without a factory are none of ours)."""
        wanted = set(names) & set(self._factories)
        for name in sorted(set(self._tasks) - wanted):
            self._stop(name)
        for name in sorted(wanted - set(self._tasks)):
            self._tasks[name] = asyncio.create_task(self._keep(name), name=f"source-{name}")

    def unsynced(self) -> list[str]:
        """The wanted sources that have no complete picture yet, but will have."""
        refused = self.refused()
        return sorted(name for name in self._waited_for() if name not in refused and not self._is_synced(name))

    def refused(self) -> dict[str, str]:
        """The wanted sources that get no picture, and why; whoever needs one of them has to say so."""
        found = {name: self._refusal(self._sources[name]) for name in self._waited_for() if name in self._sources}
        return {name: why for name, why in sorted(found.items()) if why}

    def _waited_for(self) -> set[str]:
        return set(self._tasks) - self._optional

    def _is_synced(self, name: str) -> bool:
        return name in self._sources and self._sources[name].synced

    async def close(self) -> None:
        """Stop all of them and wait for their tasks."""
        tasks = list(self._tasks.values())
        self.want(())
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop(self, name: str) -> None:
        self._tasks.pop(name).cancel()
        self._drop(name)
        log.info("source %s stopped", name)

    def _drop(self, name: str) -> None:
        self._sources.pop(name, None)
        self._metrics.unwatch_cache(name)

    async def _keep(self, name: str) -> None:
        failures = 0
        while True:
            failures = 0 if await self._run_once(name) else failures + 1
            delay = self._backoff.delay(max(1, failures), 0.0)
            await self._clock.sleep(delay)

    async def _run_once(self, name: str) -> bool:
        """Run one source to its unwanted end; True when it had been synced."""
        synced = False
        try:
            source = self._sources[name] = self._factories[name]()
            self._metrics.watch_cache(name, source.age)
            log.info("source %s started", name)
            try:
                await source.run()
            finally:
                synced = source.synced
            log.error("source %s ended by itself and will be started again", name)
        except Exception:
            log.exception("source %s failed and will be started again", name)
        self._drop(name)
        return synced
