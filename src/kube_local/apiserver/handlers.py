"""From a request to its answer: which page, resource, verb or subresource it is. Every failure becomes a Status.

`ApiServer.handle` and `http` call `handle`; nothing below raises to them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from . import discovery, errors, openapi, reads, reviews, subresources
from .registry import Registry
from .request import Request, Response, Target, json_response, resolve
from .state import State
from .store import StoreFull
from .writes import Writes

log = logging.getLogger(__name__)

Handler = Callable[[Request, Target], Response]
_REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
# Served on an upgraded connection by `http`.
STREAMS = frozenset({"exec", "portforward"})


class Handlers:
    """All pages and verbs of one server."""

    def __init__(self, state: State, writes: Writes, is_token: Callable[[str], bool]) -> None:
        self._state = state
        self._writes = writes
        self._is_token = is_token

    async def handle(self, request: Request, address: str = "") -> Response:
        """The answer to any request."""
        try:
            response = await self._handle(request, address)
        except errors.ApiError as error:
            response = json_response(error.status(), error.code)
            response.headers.update(error.headers)
        except StoreFull as error:
            log.error("%s %s: %s", request.method, request.path, error)  # noqa: TRY400 - it says all
            failure = errors.internal(str(error))
            response = json_response(failure.status(), failure.code)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            failure = errors.internal(f"the local API server failed on {request.method} {request.path}; see its log")
            response = json_response(failure.status(), failure.code)
        response.warnings.extend(dict.fromkeys(request.warnings))
        return response

    async def _handle(self, request: Request, address: str) -> Response:
        target = resolve(self._state.registry, request.path)
        if target is None:
            return self._page(request, address)
        if target.subresource:
            return await self._subresource(request, target)
        if target.kind.group in _REVIEW_GROUPS and request.method == "POST":
            return reviews.answer(request, target, self._is_token)
        if "get" not in target.kind.verbs:
            raise errors.method_not_allowed()
        return self._item(request, target) if target.name else self._collection(request, target)

    def _page(self, request: Request, address: str) -> Response:
        if request.method not in {"GET", "HEAD"}:
            return _page_not_found()
        registry = self._state.registry
        found = discovery.page(registry, request, address) or openapi.page(registry, request)
        if found is None and _in_known_version(registry, request.path):
            raise errors.no_such_resource()
        return found or _page_not_found()

    def _collection(self, request: Request, target: Target) -> Response:
        if request.method == "GET":
            if request.flag("watch"):
                return reads.watch(self._state, request, target)
            return reads.list_objects(self._state, request, target)
        if target.all_namespaces:
            raise errors.method_not_allowed()
        if request.method == "POST":
            return self._writes.create(request, target)
        if target.kind.custom and request.method in {"PUT", "PATCH"}:
            raise errors.bad_request("name must be provided")
        raise errors.method_not_allowed()

    def _item(self, request: Request, target: Target) -> Response:
        if request.method == "GET":
            if request.flag("watch"):
                return reads.watch(self._state, request, target)
            return reads.get(self._state, request, target)
        verbs: dict[str, Handler] = {
            "PUT": self._writes.update,
            "PATCH": self._writes.patch,
            "DELETE": self._writes.delete,
        }
        # A custom kind takes a POST on a name as one on its collection.
        if target.kind.custom and not target.subresource:
            verbs["POST"] = self._writes.create
        verb = verbs.get(request.method)
        if verb is None:
            raise errors.method_not_allowed()
        return verb(request, target)

    async def _subresource(self, request: Request, target: Target) -> Response:
        name, method = target.subresource, request.method
        if name not in target.kind.subresources:
            if target.kind.custom:
                raise errors.not_found(target.kind.group, target.kind.plural, target.name)
            raise errors.no_such_resource()
        if name == "status" and method in {"GET", "PUT", "PATCH"}:
            return self._item(request, target)
        if name == "scale" and method == "GET":
            return subresources.get_scale(self._state, target)
        if name == "scale" and method in {"PUT", "PATCH"}:
            return subresources.change_scale(self._writes, request, target)
        if name == "log" and method == "GET":
            return await subresources.logs(self._state, request, target)
        if name == "eviction" and method == "POST":
            return subresources.evict(self._state, request, target)
        if name == "binding" and method == "POST":
            return subresources.bind(self._state, request, target)
        raise errors.method_not_allowed()


def _in_known_version(registry: Registry, path: str) -> bool:
    """A path of a built-in group version, whose server says in JSON what it does not have."""
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in {"api", "apis"}:
        return False
    group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
    return any(not kind.custom for kind in registry.in_version(group, version))


def _page_not_found() -> Response:
    return Response(404, b"404 page not found\n", {"Content-Type": "text/plain; charset=utf-8"})
