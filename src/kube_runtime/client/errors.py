"""What can go wrong at the API server, as classes worth catching.

    OperatorError
    ├── Retryable
    │   ├── Unreachable          no complete answer; `sent` tells whether the server may have acted
    │   │   └── TimedOut         it did not answer within the limit
    │   ├── BadAnswer            an answer that is not what was asked for: broken JSON, wrong type, an error in a 200
    │   ├── LoginFailed          an exec plugin or token file gave no credentials this time
    │   ├── Unauthorized  401    credentials were refused
    │   ├── Forbidden     403    RBAC, quota or admission said no; roles can change without the resource changing
    │   ├── NotFound      404
    │   ├── Conflict      409    another writer was first, or a precondition did not hold
    │   │   └── AlreadyExists
    │   ├── Expired       410    the resourceVersion or the continue token is gone: list again
    │   ├── TooManyRequests 429  `retry_after` says when
    │   ├── ServerTimeout 504    the server gave up on it; it may have acted
    │   ├── Unavailable   503
    │   └── ServerError   5xx
    └── Terminal
        ├── BadRequest    4xx    the request makes no sense to this server
        │   └── Invalid   422    `causes` name the fields
        └── KubeconfigInvalid    the kubeconfig cannot be used; says which file and what to do

`transport` and `credentials` raise the ones without a status, `from_status` makes the others for `client` and `decode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from kube_runtime.client import missing_right
from kube_runtime.client.missing_right import MissingRight
from kube_runtime.errors import OperatorError, Retryable, Terminal
from kube_runtime.text import printable

MAX_MESSAGE_CHARACTERS = 256


class Cause(msgspec.Struct, frozen=True):
    """One field that the server objects to."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """Which object, why, and when to come back."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """The body of an answer that is not an object (meta/v1 Status)."""

    kind: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: StatusDetails | None = None


def shorten(text: str) -> str:
    """Cut a message, so that no whole object, and no secret in it, ends up in a log line."""
    return printable(text, MAX_MESSAGE_CHARACTERS)


class KubeError(OperatorError):
    """Any failure at the API server."""

    def __init__(self, message: str, *, status: Status | None = None, retry_after: float | None = None) -> None:
        super().__init__(shorten(message))
        self.status = status if status is not None else Status()
        self.retry_after = retry_after

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The fields that the server named, if it named any."""
        return (self.status.details and self.status.details.causes) or ()


class Unreachable(KubeError, Retryable):
    """No complete answer came."""

    reason: ClassVar[str] = "ApiServerUnreachable"

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class TimedOut(Unreachable):
    """No answer came in time."""

    reason: ClassVar[str] = "ApiServerTimedOut"


class BadAnswer(KubeError, Retryable):
    """The answer is not what was asked for."""

    reason: ClassVar[str] = "ApiServerBadAnswer"


class LoginFailed(KubeError, Retryable):
    """No credentials could be had."""

    reason: ClassVar[str] = "LoginFailed"


class Unauthorized(KubeError, Retryable):
    """The credentials were refused."""

    reason: ClassVar[str] = "Unauthorized"


class Forbidden(KubeError, Retryable):
    """A role, quota or admission rule says no; `right` is what is missing where it was a role."""

    reason: ClassVar[str] = "Forbidden"
    right: MissingRight | None = None


class NotFound(KubeError, Retryable):
    """The object, its namespace or its kind is not there."""

    reason: ClassVar[str] = "NotFound"


class Conflict(KubeError, Retryable):
    """Somebody else was first, or a precondition did not hold."""

    reason: ClassVar[str] = "Conflict"


class AlreadyExists(Conflict):
    """An object of that name is there."""

    reason: ClassVar[str] = "AlreadyExists"


class Expired(KubeError, Retryable):
    """The server no longer knows that resourceVersion or continue token."""

    reason: ClassVar[str] = "Expired"


class TooManyRequests(KubeError, Retryable):
    """The server sheds load, or a disruption budget refuses an eviction."""

    reason: ClassVar[str] = "TooManyRequests"


class ServerTimeout(KubeError, Retryable):
    """The server gave up on the request; it may have acted."""

    reason: ClassVar[str] = "ApiServerTimeout"


class Unavailable(KubeError, Retryable):
    """The server cannot serve now."""

    reason: ClassVar[str] = "ApiServerUnavailable"


class ServerError(KubeError, Retryable):
    """The server failed."""

    reason: ClassVar[str] = "ApiServerError"


class BadRequest(KubeError, Terminal):
    """The request makes no sense to this server; the same request never will."""

    reason: ClassVar[str] = "BadRequest"


class Invalid(BadRequest):
    """Fields of the object are wrong; `causes` name them."""

    reason: ClassVar[str] = "Invalid"


class KubeconfigInvalid(KubeError, Terminal):
    """The kubeconfig cannot be used."""

    reason: ClassVar[str] = "KubeconfigInvalid"


_BY_CODE: Mapping[int, type[KubeError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: ServerTimeout,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
    504: ServerTimeout,
}

# Where the reason says more than the number: a 409 that is a twin, a 500 that is a time-out.
_BY_REASON: Mapping[str, type[KubeError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Expired,
    "Gone": Expired,
    "ServerTimeout": ServerTimeout,
    "Timeout": ServerTimeout,
}


def class_for(code: int, reason: str = "") -> type[KubeError]:
    """The class of an answer that is no success."""
    by_reason = _BY_REASON.get(reason)
    if by_reason is not None:
        return by_reason
    if code in _BY_CODE:
        return _BY_CODE[code]
    if 400 <= code < 500:
        return BadRequest
    return ServerError if code >= 500 else BadAnswer


def from_status(code: int, body: bytes, what: str, retry_after: float | None = None, *, sent: bytes = b"") -> KubeError:
    """Turn a failed answer into its error; a body that is no Status is quoted instead. `sent` is what was refused."""
    status = _decode_status(code, body)
    if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after = float(status.details.retry_after_seconds)
    message = status.message or status.reason or "no explanation"
    kind = class_for(code, status.reason)
    right = missing_right.read(message, sent) if kind is Forbidden else None
    if right is None:
        return kind(f"{what}: {code} {message}", status=status, retry_after=retry_after)
    # The command comes first, for a long message is cut at its end.
    denied = Forbidden(f'"{right.can_i}" says no ({what})', status=status, retry_after=retry_after)
    denied.right = right
    return denied


def _decode_status(code: int, body: bytes) -> Status:
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        text = body[: 4 * MAX_MESSAGE_CHARACTERS].decode("utf-8", "replace")
        return Status(code=code, message=shorten(text))
    return status if status.code else msgspec.structs.replace(status, code=code)
