"""Failures in the words of Kubernetes: each becomes a `Status` body with the code, reason and text clients know.

Raised anywhere under `handle`; turned into a response by `handlers`, or into an ERROR event by `watch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .problems import FieldProblem


class ApiError(Exception):
    """A failed request: what the client gets."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = dict(headers or {})
        self.continue_token = continue_token

    def status(self) -> dict[str, Any]:
        """The `Status` object of this failure."""
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = dict(self.details)
        return {**body, "code": self.code}


def _details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {**{key: value for key, value in details.items() if value}, **more}


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiError:
    """No object of that name."""
    message = f'{_qualified(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", message, details=_details(name, group, plural))


def no_such_resource() -> ApiError:
    """A subresource, or a kind, that this server does not serve."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(group: str, plural: str, name: str, *, dying: bool = False) -> ApiError:
    """The name is taken, or not yet free again."""
    message = f'{_qualified(group, plural)} "{name}" already exists'
    if dying:
        message = f"object is being deleted: {message}"
    return ApiError(409, "AlreadyExists", message, details=_details(name, group, plural))


CHANGED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, plural: str, name: str, why: str = CHANGED) -> ApiError:
    """The object is not the one that the client saw."""
    message = f'Operation cannot be fulfilled on {_qualified(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_details(name, group, plural))


def apply_conflict(message: str, conflicts: Sequence[tuple[str, str]]) -> ApiError:
    """Server-side apply met fields that other managers own."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in conflicts
    ]
    return ApiError(409, "Conflict", message, details={"causes": causes})


def invalid(group: str, kind: str, name: str, problems: Iterable[FieldProblem]) -> ApiError:
    """The object breaks rules; every broken one is named."""
    found = list(problems)
    texts = list(dict.fromkeys(str(problem) for problem in found))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(name, group, kind, causes=[_cause(problem) for problem in found])
    message = f'{_qualified(group, kind)} "{name}" is invalid: {text}'
    return ApiError(422, "Invalid", message, details=details)


def _cause(problem: FieldProblem) -> dict[str, str]:
    return {"reason": problem.cause, "message": problem.body, "field": problem.path}


def unprocessable() -> ApiError:
    """A JSON patch that does not fit the object."""
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", message, details={})


def bad_request(message: str) -> ApiError:
    """The request itself makes no sense."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """Neither a known token nor a known certificate."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[Mapping[str, str]] = ()) -> ApiError:
    """Known, and refused."""
    more = {"causes": [dict(cause) for cause in causes]} if causes else {}
    message = f'{_qualified(group, plural)} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, details=_details(name, group, plural, **more))


def method_not_allowed() -> ApiError:
    """The resource exists, the verb does not."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, details={})


def not_acceptable(accepted: str, *, by_router: bool = False) -> ApiError:
    """Nothing that the client accepts can be served; built-in kinds are refused before they are reached."""
    if by_router:
        message = f"406: Not Acceptable\n\nAvailable representations: {accepted}"
        return ApiError(406, "NotAcceptable", message, details={})
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def unsupported_media_type(accepted: str) -> ApiError:
    """The body's type cannot be read."""
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return ApiError(415, "UnsupportedMediaType", message)


def too_old(asked: int, oldest: int) -> ApiError:
    """The event log no longer reaches back to the version that the client knows."""
    return ApiError(410, "Expired", f"too old resource version: {asked} ({oldest})")


def continue_expired(fresh_token: str) -> ApiError:
    """The snapshot behind a continue token is gone."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
        "that were created, modified, or deleted between the time the first chunk was returned and now may show "
        "up in the list."
    )
    return ApiError(410, "Expired", message, continue_token=fresh_token)


def too_large_version(asked: int, current: int) -> ApiError:
    """A version from the future: this server came back older, or never saw it."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    details = {"causes": causes, "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", message, details=details, headers={"Retry-After": "1"})


def internal(message: str) -> ApiError:
    """The server failed, for example to write to a full disk."""
    causes = [{"message": message}]
    text = f"Internal error occurred: {message}"
    return ApiError(500, "InternalError", text, details={"causes": causes})


def too_many_requests(message: str, causes: Sequence[Mapping[str, str]] = ()) -> ApiError:
    """Not now: a disruption budget, for example."""
    details = {"causes": [dict(cause) for cause in causes]} if causes else None
    return ApiError(429, "TooManyRequests", message, details=details)
