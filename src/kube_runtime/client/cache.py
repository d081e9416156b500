"""What the cluster looks like, of one kind: a list that a watch keeps up to date.

In: a client and a resource. Out: the objects, by name and by index, and a call per change. Reconcilers read it; `loop`
listens to it. `run` never returns and never dies; what is wrong stands in `last_error` and `age()`:

    relist ──► watch ──► ended or cut: wait, then resume from the last resourceVersion
       ▲         ├── 410, HTTP or in-stream ────────────► relist; what vanished meanwhile is reported as deleted
       │         ├── any other in-stream error ─────────► wait, resume
       │         ├── a write of ours does not come ─────► it is stuck: resume
       └─────────┴── a resourceVersion older than ours ─► relist: the server was restored from a backup

A server restored to an older state answers a watch from the future with silence. So after a watch broke, and before
it is resumed, one tiny list asks where the server stands. (A restore that has since overtaken us can only be told by
the 410 that `etcdutl snapshot restore --bump-revision --mark-compacted` makes.)

An object that cannot be read is not absent: it stands in `unreadable`, with its reason, and what was last read of it
stays among the objects, as if the cache were late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from typing import Generic

from kube_runtime.backoff import Backoff, RetryWaits
from kube_runtime.client.client import Client
from kube_runtime.client.collector import PROCESS, Collector
from kube_runtime.client.decode import Bookmark, Changed, Deleted, Unreadable, UnreadableEvent, WatchEvent
from kube_runtime.client.errors import BadAnswer, Expired, Forbidden, KubeError
from kube_runtime.client.objects import Resource, T
from kube_runtime.client.store import Change, Index, Key, Store, key_of
from kube_runtime.client.timing import Timing
from kube_runtime.text import whole_number

log = logging.getLogger(__name__)

_STUCK = "the watch is stuck"
# Each wait is spread over its second half: a thousand caches must not return at once.
_BACKOFF = Backoff(first=0.05, limit=30.0, jitter=1.0)

Listener = Callable[[T | None, T | None], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a cache watches and waits."""

    watch_seconds: tuple[int, int] = (180, 300)
    list_seconds: float = 60.0
    backoff: Backoff = _BACKOFF
    # A server that asks for more is asked again nevertheless: its word may be garbled.
    max_retry_after_seconds: float = 300.0
    # A watch that lived this long was a good one: the next failure starts with a short wait again.
    steady_seconds: float = 5.0
    page: int = 500
    # A write of ours that a watch has not shown after so long will not come by this watch.
    stuck_seconds: float = 10.0


class _Stuck(KubeError):
    """The watch is open and says nothing."""


class _WentBack(KubeError):
    """The server is older than what it sent before."""


@dataclass(slots=True)
class Cache(Generic[T]):
    """A live copy of one kind."""

    client: Client
    resource: Resource[T]
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    indexes: Mapping[str, Index[T]] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    pace: Pace = field(default_factory=Pace)
    collector: Collector = PROCESS
    last_error: Exception | None = None
    relists: int = 0
    unreadable: dict[Key, str] = field(default_factory=dict)
    _store: Store[T] = field(init=False)
    _version: str = ""
    _suspect: bool = False
    _synced: asyncio.Event = field(default_factory=asyncio.Event)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _fresh_at: float | None = None
    # Our newest write, and the one that a guard waits for.
    _written: str = ""
    _expected: str = ""
    _guard: asyncio.Task[None] | None = None
    _watcher: asyncio.Task[None] | None = None
    _listeners: list[Listener[T]] = field(default_factory=list)
    _refusal_listeners: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._store = Store(self.indexes)

    # Reading

    @property
    def synced(self) -> bool:
        """Whether a whole list has been read since the start."""
        return self._synced.is_set()

    @property
    def refusal(self) -> str:
        """Why the server does not let us read on; empty when it does, or something else is wrong.

        A right that is taken away is noticed when the running watch has ended: until then what is here is true.
        """
        return str(self.last_error) if isinstance(self.last_error, Forbidden) else ""

    @property
    def resource_version(self) -> str:
        """How far this cache has seen; empty before the first list."""
        return self._version

    @property
    def is_behind(self) -> bool:
        """Whether a write of ours is not shown here yet: what is deleted now may still stand among the objects."""
        return bool(self._written) and not _reached(self._version, self._written)

    @property
    def unseen_write(self) -> str:
        """The version of our newest write, while it is not shown here."""
        return self._written if self.is_behind else ""

    def has_seen(self, resource_version: str) -> bool:
        """Whether a write of that version is shown here, or what came after it; no version is always seen."""
        return not resource_version or _reached(self._version, resource_version)

    def age(self) -> float | None:
        """Seconds since the server last proved that this is what is there; None before the first list."""
        return None if self._fresh_at is None else self.timing.clock.monotonic() - self._fresh_at

    def get(self, namespace: str, name: str) -> T | None:
        """One object."""
        return self._store.get((namespace, name))

    def by_index(self, name: str, value: str) -> tuple[T, ...]:
        """The objects under one value of an index."""
        return self._store.by_index(name, value)

    def items(self) -> tuple[T, ...]:
        """All objects."""
        return self._store.items()

    def __len__(self) -> int:
        return len(self._store)

    def on_change(self, listener: Listener[T]) -> None:
        """Call `listener(old, new)` at every change; what is already there is reported at once as new."""
        self._listeners.append(listener)
        for item in self._store.items():
            self._notify(listener, None, item)

    def on_refusal(self, listener: Callable[[], None]) -> None:
        """Call `listener()` whenever the server begins or ceases to refuse."""
        self._refusal_listeners.append(listener)

    async def wait_synced(self) -> None:
        """Wait for the first whole list."""
        await self._synced.wait()

    async def wait_for(self, resource_version: str) -> None:
        """Wait until this cache has seen a write of ours; bound it with `asyncio.timeout`."""
        while not _reached(self._version, resource_version):
            self._moved.clear()
            await self._moved.wait()

    def expect(self, resource_version: str) -> None:
        """A write of ours got this version: a watch that does not show it in time is started again."""
        if _reached(self._version, resource_version) or not _reached(resource_version, self._written or "0"):
            return
        self._expected = self._written = resource_version
        if self._watcher is not None and self._guard is None:
            self._guard = asyncio.create_task(self._look_after(), name=f"guard of {self.resource.plural}")

    async def _look_after(self) -> None:
        """Wait for what is expected; a watch that does not bring it is cut once, whatever comes of it."""
        try:
            while not _reached(self._version, self._expected):
                waited_for = self._expected
                await self.timing.clock.sleep(self.pace.stuck_seconds)
                if not _reached(self._version, waited_for) and self._watcher is not None:
                    self._expected = ""
                    self._watcher.cancel(_STUCK)
                    return
        finally:
            self._guard = None

    # Running

    async def run(self) -> None:
        """List and watch until cancelled."""
        try:
            await self._run()
        finally:
            if self._guard is not None:
                self._guard.cancel()

    async def _run(self) -> None:
        waits = RetryWaits(self.pace.backoff, self.timing.random)
        while True:
            started = self.timing.clock.monotonic()
            wanted = await self._once()
            if self.timing.clock.monotonic() - started >= self.pace.steady_seconds:
                waits.reset()
            # Even a good end waits: a server that closes every watch at once must not be hammered.
            await self.timing.clock.sleep(max(wanted, waits.next()))

    async def _once(self) -> float:
        """One list, if one is due, and one watch; seconds that the server asked us to stay away."""
        try:
            await self.step()
        except asyncio.CancelledError as error:
            current = asyncio.current_task()
            if error.args != (_STUCK,) or current is None or current.uncancel() > 0:
                raise
            self._failed(_Stuck(f"its watch has not shown our last write for {self.pace.stuck_seconds:g} s"))
        except KubeError as error:
            self._failed(error)
            return min(error.retry_after or 0.0, self.pace.max_retry_after_seconds)
        except Exception as error:
            # A bug of ours, or of an index function: the state may be half written, so start over.
            log.exception("cache of %s: unexpected failure", self.resource.plural)
            self._set_error(error)
            self._version = ""
        return 0.0

    async def step(self) -> None:
        """List if there is nothing to resume from, then watch until that ends. Raises what went wrong."""
        if self._version and self._suspect:
            await self._check_server()
        if not self._version:
            await self._relist()
        await self._watch()

    def _failed(self, error: KubeError) -> None:
        if isinstance(error, Expired | _WentBack | BadAnswer):
            # After a broken event nobody knows what it said, so a resume could miss it.
            self._version = ""
        self._suspect = True
        if str(error) != str(self.last_error):
            log.warning("cache of %s: %s", self.resource.plural, error)
        self._set_error(error)

    def _set_error(self, error: Exception | None) -> None:
        before, self.last_error = self.refusal, error
        if bool(before) != bool(self.refusal):
            for listener in self._refusal_listeners:
                listener()

    def _opened(self) -> None:
        """A watch that begins shows that reading is allowed; its first event may be minutes away."""
        if self.refusal:
            log.info("cache of %s: reading is allowed again", self.resource.plural)
            self._set_error(None)

    async def _relist(self) -> None:
        written = self._written
        with nullcontext() if self.synced else self.collector.paused():
            listing = await self.client.list(
                self.resource,
                self.namespace,
                label_selector=self.label_selector,
                field_selector=self.field_selector,
                limit=self.pace.page,
                seconds=self.pace.list_seconds,
            )
            self.relists += 1
            self._note_unreadable(listing.unreadable)
            same = [item for item in listing.unreadable if self._is_known(item)]
            self._report(self._store.replace(listing.items, frozenset(map(key_of, same))))
        self._suspect = False
        self._seen(listing.resource_version)
        if self._written == written:
            # A list that was asked for after a write shows it, even if the server was restored from an older copy.
            self._written = ""
        self._synced.set()

    def _note_unreadable(self, found: Iterable[Unreadable]) -> None:
        self.unreadable = {key_of(item): item.why for item in found}
        for key, why in self.unreadable.items():
            log.warning("cache of %s: %s/%s cannot be read: %s", self.resource.plural, *key, why)

    async def _check_server(self) -> None:
        """Ask for one object, for the resourceVersion of the answer."""
        pages = self.client.pages(self.resource, self.namespace, limit=1, seconds=self.pace.list_seconds)
        async with aclosing(pages):
            page = await anext(pages)
        if not _reached(page.resource_version, self._version):
            raise _WentBack(f"the server is at {page.resource_version}, it was at {self._version}")
        self._suspect = False

    async def _watch(self) -> None:
        low, high = self.pace.watch_seconds
        events = self.client.watch(
            self.resource,
            self.namespace,
            resource_version=self._version,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            seconds=round(low + (high - low) * self.timing.random()),
            opened=self._opened,
        )
        self._watcher = asyncio.current_task()
        try:
            async with aclosing(events):
                async for event in events:
                    self._take(event)
        finally:
            self._watcher = None
        # The server ended it in good order, so all it had is here.
        self._fresh_at = self.timing.clock.monotonic()
        self._set_error(None)

    def _take(self, event: WatchEvent[T]) -> None:
        match event:
            case Bookmark(resource_version):
                self._check_order(resource_version, allow_equal=True)
                self._seen(resource_version)
                return
            case Changed(item):
                self._check_order(item.metadata.resource_version)
                self.unreadable.pop(key_of(item), None)
                self._report(self._store.put(item))
            case Deleted(item):
                self._check_order(item.metadata.resource_version)
                self.unreadable.pop(key_of(item), None)
                self._report(self._store.drop(key_of(item)))
            case UnreadableEvent(item, deleted):
                self._take_unreadable(item, deleted)
        self._seen(event.object.metadata.resource_version)

    def _take_unreadable(self, item: Unreadable, deleted: bool) -> None:
        key = key_of(item)
        if deleted:
            self.unreadable.pop(key, None)
            self._report(self._store.drop(key))
            return
        self.unreadable[key] = item.why
        log.warning("cache of %s: %s/%s cannot be read: %s", self.resource.plural, *key, item.why)
        if self._is_known(item):
            # Whoever builds on it has to learn that it is not known any more.
            known = self._store.get(key)
            self._report([(known, known)])
        else:
            self._report(self._store.drop(key))

    def _is_known(self, item: Unreadable) -> bool:
        """Whether an earlier state of this very object is here; another uid is another object."""
        known = self._store.get(key_of(item))
        return known is not None and item.metadata.uid in ("", known.metadata.uid)

    def _check_order(self, resource_version: str, *, allow_equal: bool = False) -> None:
        newer = _number(resource_version)
        ours = _number(self._version)
        if newer is None or ours is None:
            return
        if newer < ours or (newer == ours and not allow_equal):
            raise _WentBack(f"the server sent {resource_version} after {self._version}")

    def _seen(self, resource_version: str) -> None:
        self._version = resource_version or self._version
        self._fresh_at = self.timing.clock.monotonic()
        self._set_error(None)
        self._moved.set()

    def _report(self, changes: Iterable[Change[T]]) -> None:
        for old, new in changes:
            for listener in self._listeners:
                self._notify(listener, old, new)

    def _notify(self, listener: Listener[T], old: T | None, new: T | None) -> None:
        try:
            listener(old, new)
        except Exception:
            log.exception("cache of %s: a listener failed", self.resource.plural)


def _number(resource_version: str) -> int | None:
    """resourceVersions are numbers that grow (promised by Kubernetes since 1.35); anything else is not compared."""
    return whole_number(resource_version)


def _reached(ours: str, wanted: str) -> bool:
    have, want = _number(ours), _number(wanted)
    return bool(ours) and (have is None or want is None or have >= want)
