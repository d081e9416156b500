"""Get, list and watch: versions, paging from one snapshot, selectors, forms. Called by `handlers`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from . import errors, present, selectors
from .problems import FieldProblem
from .request import JSON, Request, Response, Target, json_response
from .state import State
from .store import Compacted, Row
from .watch import Watch, WatchOptions

_MATCHES = ("Exact", "NotOlderThan")


class _Token(msgspec.Struct, frozen=True):
    """Where a paged list goes on: after `key`, in the snapshot at `rv` (-1: in the present state)."""

    rv: int
    key: str


@dataclass(frozen=True, slots=True)
class _Page:
    rows: list[Row]
    revision: int
    token: str = ""
    remaining: int | None = None


def get(state: State, request: Request, target: Target) -> Response:
    """One object."""
    form = present.negotiate(request, target.kind)
    _check_version(state, request.query)
    row = state.store.get(target.kind.resource, target.namespace, target.name)
    if row is None:
        raise errors.not_found(target.kind.group, target.kind.plural, target.name)
    return json_response(present.one(target.kind, row, form, state.clock()))


def list_objects(state: State, request: Request, target: Target) -> Response:
    """A collection, whole or by pages."""
    form = present.negotiate(request, target.kind)
    selector = selectors.from_query(request.query, target.kind)
    page = _page(state, request.query, target, selector)
    body = present.many(
        target.kind,
        page.rows,
        form,
        state.clock(),
        revision=page.revision,
        token=page.token,
        # As the real server: with a selector nobody knows how many are left.
        remaining=page.remaining if selector.empty else None,
    )
    return json_response(body)


def _page(state: State, query: Mapping[str, str], target: Target, selector: selectors.Selector) -> _Page:
    limit = _number(query, "limit")
    revision = _check_version(state, query, listing=True)
    if query.get("continue"):
        if revision:
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        return _next_page(state, query["continue"], target, selector, limit)
    exact = query.get("resourceVersionMatch") == "Exact"
    rows = _snapshot(state, target, revision) if exact else _present(state, target)
    return _cut(rows, selector, revision if exact else state.store.revision, limit)


def _next_page(state: State, text: str, target: Target, selector: selectors.Selector, limit: int) -> _Page:
    token = _read_token(text)
    if token.rv < 0:
        rows, revision = _present(state, target), state.store.revision
    else:
        revision = token.rv
        try:
            rows = state.store.rows_at(target.kind.resource, target.namespace or None, revision)
        except Compacted:
            raise errors.continue_expired(_write_token(_Token(-1, token.key))) from None
    return _cut([row for row in rows if row.key > token.key], selector, revision, limit)


def _present(state: State, target: Target) -> list[Row]:
    return state.store.rows(target.kind.resource, target.namespace or None)


def _snapshot(state: State, target: Target, revision: int) -> list[Row]:
    try:
        return state.store.rows_at(target.kind.resource, target.namespace or None, revision)
    except Compacted as lost:
        raise errors.ApiError(
            410, "Expired", f"The resourceVersion for the provided list is too old. ({revision} < {lost.oldest})"
        ) from None


def _cut(rows: list[Row], selector: selectors.Selector, revision: int, limit: int) -> _Page:
    chosen = rows if selector.empty else [row for row in rows if selector.matches(row)]
    # A full page is followed by a token whenever any row is left, selected or not: nobody has looked at it yet.
    complete = not limit or len(chosen) < limit or chosen[limit - 1].key == rows[-1].key
    if complete or selector.names_one:
        return _Page(chosen, revision)
    page = chosen[:limit]
    return _Page(page, revision, _write_token(_Token(revision, page[-1].key)), len(chosen) - limit)


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {_go_complaint(text)}") from None


def _go_complaint(text: str) -> str:
    """What Go's decoders say first about a token that is none."""
    try:
        first = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:1]
    except (binascii.Error, ValueError):
        return "illegal base64 data"
    if not first:
        return "unexpected end of JSON input"
    shown = chr(first[0]) if 0x20 <= first[0] < 0x7F else f"\\u{first[0]:04x}"
    return f"invalid character '{shown}' looking for beginning of value"


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    try:
        value = int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    return max(value, 0)


def _check_version(state: State, query: Mapping[str, str], *, listing: bool = False) -> int:
    text = query.get("resourceVersion") or ""
    match = query.get("resourceVersionMatch") or ""
    if match and not query.get("watch"):
        _check_match(match, text)
    if not text:
        return 0
    if not text.isdigit():
        raise _unreadable_version(text, listing=listing)
    if int(text) > state.store.revision and not query.get("watch"):
        raise errors.too_large_version(int(text), state.store.revision)
    return int(text)


def _unreadable_version(text: str, *, listing: bool) -> errors.ApiError:
    problem = FieldProblem("resourceVersion", "Invalid", f'strconv.ParseUint: parsing "{text}": invalid syntax', text)
    if listing:
        return errors.bad_request(f"invalid resource version: {problem}")
    return errors.ApiError(500, "", str(problem))


def _check_match(match: str, version: str) -> None:
    if match not in _MATCHES:
        supported = ", ".join(f'"{one}"' for one in (*_MATCHES, ""))
        problem = FieldProblem("resourceVersionMatch", "NotSupported", f"supported values: {supported}", match)
    elif not version:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        problem = FieldProblem("resourceVersionMatch", "Forbidden", text)
    elif match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        problem = FieldProblem("resourceVersionMatch", "Forbidden", text)
    else:
        return
    raise errors.invalid("meta.k8s.io", "ListOptions", "", [problem])


def watch(state: State, request: Request, target: Target) -> Response:
    """A stream of changes; `target.name` narrows it to one object."""
    query = request.query
    form = present.negotiate(request, target.kind)
    version = _check_version(state, query)
    initial = _send_initial(request)
    begins_with_state = initial or (version == 0 and query.get("sendInitialEvents", "") != "false")
    if version > state.store.revision:
        raise errors.too_large_version(version, state.store.revision)
    options = WatchOptions(
        kind=target.kind,
        namespace=target.namespace or None,
        selector=selectors.from_query(query, target.kind, target.name),
        start=None if begins_with_state else version or state.store.revision,
        form=form,
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_bookmark=initial and request.flag("allowWatchBookmarks"),
        timeout=float(_number(query, "timeoutSeconds")) or None,
    )
    headers = {"Content-Type": JSON}
    return Response(200, headers=headers, stream=Watch(state, options).lines())


def _send_initial(request: Request) -> bool:
    query = request.query
    if "sendInitialEvents" not in query:
        if query.get("resourceVersionMatch"):
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problem = FieldProblem("resourceVersionMatch", "Forbidden", text)
            raise errors.invalid("meta.k8s.io", "ListOptions", "", [problem])
        return False
    if query.get("resourceVersionMatch") != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problem = FieldProblem("resourceVersionMatch", "Forbidden", text)
        raise errors.invalid("meta.k8s.io", "ListOptions", "", [problem])
    return request.flag("sendInitialEvents")
