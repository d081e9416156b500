"""What is stored: one row per object, one counter for all resource versions, one log of changes per resource.

Reads and watches are served from memory; with a path every commit is also in SQLite (WAL) before it returns, and
a new process on the same file goes on with the same versions, objects and log. `writes`, `deletion` and `gc`
commit here; `reads` and `watch` read.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from kube_runtime.errors import Retryable, Terminal

Object = dict[str, Any]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

MEMORY = ":memory:"
log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class StoreUnusable(Terminal):
    """The database file cannot be opened, or another process holds it."""

    reason: ClassVar[str] = "StoreUnusable"


class StoreFull(Retryable):
    """A change could not be written to the database file; nothing of it was done."""

    reason: ClassVar[str] = "StoreFull"


class Compacted(Exception):
    """The log starts after the version that was asked for."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"the log starts after {oldest}")
        self.oldest = oldest


class Changed(Exception):
    """The row is not at the version that the writer expected."""


@dataclass(frozen=True, slots=True)
class Row:
    """One stored object. `raw` is its JSON, resourceVersion included."""

    resource: str
    namespace: str
    name: str
    uid: str
    revision: int
    labels: Mapping[str, str]
    raw: bytes

    @property
    def key(self) -> str:
        """The order of lists."""
        return f"{self.namespace}/{self.name}"

    def load(self) -> Object:
        """A copy that the caller may change."""
        obj: Object = _decode(self.raw)
        return obj


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the log. A DELETED row is the last state at the version of the deletion."""

    revision: int
    type: ChangeType
    row: Row
    before: Row | None


@dataclass(slots=True)
class _Resource:
    rows: dict[str, Row] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    log: list[Change] = field(default_factory=list)
    oldest: int = 0
    waiters: set[asyncio.Future[None]] = field(default_factory=set)

    def has_news(self, after: int) -> bool:
        return bool(self.log and self.log[-1].revision > after) or self.oldest > after


def make_row(resource: str, obj: Object, revision: int) -> Row:
    """The row of an object at a version; the object's own metadata is set to match.

    The bytes begin with apiVersion and kind, so that lists can leave them out without decoding.
    """
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(revision)
    return Row(
        resource=resource,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        revision=revision,
        labels=metadata.get("labels") or {},
        raw=_encode({"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), **obj}),
    )


def _restore(resource: str, raw: bytes, revision: int) -> Row:
    return make_row(resource, _decode(raw), revision)


class Journal:
    """The SQLite side of a store: what survives the process."""

    _SCHEMA = """
        CREATE TABLE IF NOT EXISTS objects (
            resource TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (resource, key)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS changes (
            revision INTEGER PRIMARY KEY, type TEXT NOT NULL, resource TEXT NOT NULL, body BLOB NOT NULL,
            before BLOB, before_revision INTEGER);
        CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(self._SCHEMA)
        except (sqlite3.Error, OSError) as error:
            if hasattr(self, "_db"):
                self._db.close()
            raise StoreUnusable(
                f"cannot open the store {path}: {error}; stop the other server that uses it, "
                "or move the file away to start with an empty one"
            ) from error

    def revision(self) -> int:
        """The last version that was given out."""
        found = self._db.execute("SELECT value FROM counters WHERE name = 'revision'").fetchone()
        return int(found[0]) if found else 0

    def compacted(self) -> int:
        """The last version that the log has lost."""
        found = self._db.execute("SELECT value FROM counters WHERE name = 'compacted'").fetchone()
        return int(found[0]) if found else 0

    def rows(self) -> Iterable[Row]:
        """Every object."""
        for resource, revision, body in self._db.execute("SELECT resource, revision, body FROM objects"):
            yield _restore(resource, body, revision)

    def changes(self) -> Iterable[Change]:
        """The log, oldest first."""
        query = "SELECT revision, type, resource, body, before, before_revision FROM changes ORDER BY revision"
        for revision, kind, resource, body, before, before_revision in self._db.execute(query):
            old = None if before is None else _restore(resource, before, before_revision)
            yield Change(revision, kind, _restore(resource, body, revision), old)

    def commit(self, change: Change) -> None:
        """One change, on disk when this returns; `StoreFull` when it could not be written."""
        try:
            self._write(change)
        except sqlite3.OperationalError as error:
            raise StoreFull(
                f"the store {self._path} cannot be written: {error}; make room on its disk, nothing else has to be done"
            ) from error

    def _write(self, change: Change) -> None:
        row, before = change.row, change.before
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            if change.type == "DELETED":
                db.execute("DELETE FROM objects WHERE resource = ? AND key = ?", (row.resource, row.key))
            else:
                db.execute(
                    "INSERT INTO objects VALUES (?, ?, ?, ?) ON CONFLICT (resource, key) "
                    "DO UPDATE SET revision = excluded.revision, body = excluded.body",
                    (row.resource, row.key, row.revision, row.raw),
                )
            old = (before.raw, before.revision) if before else (None, None)
            db.execute(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)",
                (change.revision, change.type, row.resource, row.raw, *old),
            )
            self._set("revision", change.revision)
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise

    def forget(self, resource: str, upto: int) -> None:
        """Drops a resource's log up to a version; on a full disk it stays longer, until the next time."""
        try:
            self._set("compacted", max(upto, self.compacted()))
            self._db.execute("DELETE FROM changes WHERE resource = ? AND revision <= ?", (resource, upto))
        except sqlite3.OperationalError as error:
            log.warning("the log of %s is not shortened: %s", resource, error)

    def _set(self, name: str, value: int) -> None:
        self._db.execute(
            "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def close(self) -> None:
        """Lets the file go."""
        self._db.close()


class Store:
    """Objects, versions and the log. Every method is synchronous: what it did is visible when it returns."""

    def __init__(self, path: str = MEMORY, *, first_revision: int = 1, keep_changes: int = 10_000) -> None:
        self._resources: dict[str, _Resource] = {}
        self._keep = keep_changes
        self._listeners: list[Callable[[Change], None]] = []
        self._journal = None if path == MEMORY else Journal(path)
        self._revision = first_revision
        self._floor = 0
        if self._journal:
            try:
                self._load(self._journal)
            except (sqlite3.Error, msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
                self._journal.close()
                raise StoreUnusable(
                    f"the store {path} is damaged: {error}; move the file away to start with an empty one"
                ) from error

    def _load(self, journal: Journal) -> None:
        self._revision = max(self._revision, journal.revision())
        self._floor = journal.compacted()
        for row in journal.rows():
            self._insert(self._of(row.resource), row)
        for change in journal.changes():
            self._of(change.row.resource).log.append(change)

    @property
    def revision(self) -> int:
        """The newest version."""
        return self._revision

    def listen(self, callback: Callable[[Change], None]) -> None:
        """`callback` sees every change, in order, after it is stored."""
        self._listeners.append(callback)

    def resources(self) -> list[str]:
        """Every resource that was ever stored."""
        return list(self._resources)

    def get(self, resource: str, namespace: str, name: str) -> Row | None:
        """The object as it is now."""
        return self._of(resource).rows.get(f"{namespace}/{name}")

    def rows(self, resource: str, namespace: str | None = None) -> list[Row]:
        """All objects now, in key order; of one namespace, if given."""
        held = self._of(resource)
        keys = held.order if namespace is None else _slice(held.order, namespace)
        return [held.rows[key] for key in keys]

    def rows_at(self, resource: str, namespace: str | None, revision: int) -> list[Row]:
        """All objects as they were at a version, by undoing the log."""
        rows = {row.key: row for row in self.rows(resource, namespace)}
        for change in reversed(self.changes(resource, revision)):
            if namespace is not None and change.row.namespace != namespace:
                continue
            if change.before is None:
                rows.pop(change.row.key, None)
            else:
                rows[change.row.key] = change.before
        return [rows[key] for key in sorted(rows)]

    def changes(self, resource: str, after: int) -> list[Change]:
        """The log after a version; raises `Compacted` when it no longer reaches back."""
        held = self._of(resource)
        if after < held.oldest:
            raise Compacted(held.oldest)
        return held.log[bisect_right(held.log, after, key=lambda change: change.revision) :]

    def put(self, resource: str, obj: Object, expected: int | None = None) -> Row:
        """Creates or replaces. `expected` is the version that the row must have; 0: it must not exist."""
        held = self._of(resource)
        metadata = obj["metadata"]
        before = held.rows.get(f"{metadata.get('namespace', '')}/{metadata['name']}")
        if expected is not None and expected != (before.revision if before else 0):
            raise Changed
        row = make_row(resource, obj, self._revision + 1)
        self._commit(Change(row.revision, "MODIFIED" if before else "ADDED", row, before))
        return row

    def delete(self, row: Row) -> Row:
        """Removes the row, if it is still the one that the caller saw; answers its last state."""
        before = self._of(row.resource).rows.get(row.key)
        if before is None or before.revision != row.revision:
            raise Changed
        last = make_row(row.resource, before.load(), self._revision + 1)
        self._commit(Change(last.revision, "DELETED", last, before))
        return last

    def compact(self, keep: int = 0) -> None:
        """Forgets the log but for the last `keep` changes of each resource."""
        for name, held in self._resources.items():
            self._trim(name, keep)
            if keep == 0:
                held.oldest = self._revision
        if keep == 0:
            self._floor = self._revision

    async def wait(self, resource: str, after: int, seconds: float) -> bool:
        """Waits until the log has something after a version; False when the time is up first."""
        held = self._of(resource)
        if held.has_news(after):
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held.waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            # A change may have come after the time was up and before we run again.
            return held.has_news(after)
        finally:
            held.waiters.discard(waiter)
        return True

    def close(self) -> None:
        """Closes the file, if there is one."""
        if self._journal:
            self._journal.close()

    def _of(self, resource: str) -> _Resource:
        held = self._resources.get(resource)
        if held is None:
            held = self._resources[resource] = _Resource(oldest=self._floor)
        return held

    def _insert(self, held: _Resource, row: Row) -> None:
        if row.key not in held.rows:
            insort(held.order, row.key)
        held.rows[row.key] = row

    def _commit(self, change: Change) -> None:
        if self._journal:
            self._journal.commit(change)
        self._revision = change.revision
        held = self._of(change.row.resource)
        if change.type == "DELETED":
            del held.rows[change.row.key]
            del held.order[bisect_left(held.order, change.row.key)]
        else:
            self._insert(held, change.row)
        held.log.append(change)
        if len(held.log) > self._keep + self._keep // 4 + 1:
            self._trim(change.row.resource, self._keep)
        for callback in self._listeners:
            callback(change)
        self._wake(held)

    def _trim(self, resource: str, keep: int) -> None:
        held = self._resources[resource]
        cut = len(held.log) - keep
        if cut <= 0:
            return
        held.oldest = held.log[cut - 1].revision
        del held.log[:cut]
        if self._journal:
            self._journal.forget(resource, held.oldest)

    @staticmethod
    def _wake(held: _Resource) -> None:
        for waiter in held.waiters:
            if not waiter.done():
                waiter.set_result(None)
        held.waiters.clear()


def _slice(order: list[str], namespace: str) -> list[str]:
    start = bisect_left(order, f"{namespace}/")
    return order[start : bisect_left(order, f"{namespace}0", start)]
