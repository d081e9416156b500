"""Watches: the log after a version, as lines of JSON, until the time is up or the log is lost.

An object that starts or stops matching the selector is ADDED or DELETED for that watcher. `reads` opens them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from . import errors, tables
from .present import Form, object_bytes, one, to_version
from .registry import Kind
from .request import encode
from .selectors import Selector
from .state import State
from .store import Change, Compacted, Row, make_row

_INITIAL_END = {"k8s.io/initial-events-end": "true"}
# The real server ends watches after half an hour to an hour when the client names no time.
_DEFAULT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch request asks for. `start` is the version already seen; None: begin with the present state."""

    kind: Kind
    namespace: str | None
    selector: Selector
    start: int | None
    form: Form
    bookmarks: bool = False
    initial_bookmark: bool = False
    timeout: float | None = None


class Watch:
    """One open watch."""

    def __init__(self, state: State, options: WatchOptions) -> None:
        self._state = state
        self._options = options
        self._first_line = True
        self._seen = options.start if options.start is not None else state.store.revision
        # Taken now, not when the first line is read: the watch begins when it is asked for.
        self._present = state.store.rows(options.kind.resource, options.namespace) if options.start is None else []

    async def lines(self) -> AsyncIterator[bytes]:
        """The stream: JSON lines, in the order of their versions."""
        loop = asyncio.get_running_loop()
        seconds = self._options.timeout or _DEFAULT_SECONDS * (1 + random.random())  # noqa: S311
        end = loop.time() + seconds
        if self._options.start is None:
            initial = b"".join(self._initial())
            if initial:
                yield initial
        while True:
            try:
                chunk = b"".join(self._pending())
            except Compacted as lost:
                yield self._line("ERROR", encode(errors.too_old(self._seen, lost.oldest).status()))
                return
            if chunk:
                yield chunk
            left = end - loop.time()
            if left <= 0:
                return
            async for bookmark in self._wait(left):
                yield bookmark

    async def _wait(self, left: float) -> AsyncIterator[bytes]:
        state, options = self._state, self._options
        bookmark_in = min(state.bookmark_seconds, max(left - 2.0, 0.0)) if options.bookmarks and left > 2.0 else left
        if await state.store.wait(options.kind.resource, self._seen, min(left, bookmark_in)):
            return
        if options.bookmarks:
            self._seen = max(self._seen, state.store.revision)
            yield self._bookmark({})

    def _initial(self) -> Iterator[bytes]:
        options = self._options
        for row in self._present:
            if options.selector.matches(row):
                yield self._line("ADDED", self._object(row))
        self._present = []
        if options.initial_bookmark:
            yield self._bookmark(_INITIAL_END)

    def _pending(self) -> Iterator[bytes]:
        options = self._options
        for change in self._state.store.changes(options.kind.resource, self._seen):
            self._seen = change.revision
            if options.namespace is not None and change.row.namespace != options.namespace:
                continue
            event = select(change, options.selector.matches)
            if event:
                yield self._line(event[0], self._object(event[1]))

    def _object(self, row: Row) -> bytes:
        options = self._options
        if options.form.name == "Table":
            objects = [to_version(options.kind, row.load())]
            table = tables.table(
                options.kind, objects, self._state.clock(), options.form.include_object, str(row.revision)
            )
            if not self._first_line:
                table["columnDefinitions"] = None
            return encode(table)
        if options.form.name:
            return one(options.kind, row, options.form, self._state.clock())
        return object_bytes(options.kind, row)

    def _line(self, event: str, obj: bytes) -> bytes:
        self._first_line = False
        return b'{"type":"%s","object":%s}\n' % (event.encode(), obj)

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        kind = self._options.kind
        metadata: dict[str, object] = {"resourceVersion": str(self._seen)}
        if annotations:
            metadata["annotations"] = annotations
        head: dict[str, object] = {"kind": kind.kind, "apiVersion": kind.api_version}
        if self._options.form.name == "PartialObjectMetadata":
            head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        if self._options.form.name == "Table":
            row = {"cells": [], "object": {**head, "metadata": metadata}}
            table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(self._seen)}}
            return self._line("BOOKMARK", encode({**table, "columnDefinitions": [], "rows": [row]}))
        return self._line("BOOKMARK", encode({**head, "metadata": metadata}))


def select(change: Change, matches: Callable[[Row], bool]) -> tuple[str, Row] | None:
    """A change as one watcher sees it: entering the selection is ADDED, leaving it is DELETED."""
    is_in = change.type != "DELETED" and matches(change.row)
    was_in = change.before is not None and matches(change.before)
    if is_in:
        return ("MODIFIED" if was_in else "ADDED"), change.row
    return ("DELETED", _last(change)) if was_in else None


def _last(change: Change) -> Row:
    """What a DELETED event shows: the last state that matched, at the version of the change."""
    if change.type == "DELETED" or change.before is None:
        return change.row
    return make_row(change.row.resource, change.before.load(), change.revision)
