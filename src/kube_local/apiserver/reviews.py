"""Reviews: questions that are answered and not stored. Who may reach this server may do everything on it.

Called by `handlers` for POSTs on the kinds of authentication.k8s.io and authorization.k8s.io.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .request import Request, Response, Target, decode_body, json_response

Object = dict[str, Any]
_ALL_RESOURCES = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_ALL_PATHS = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def answer(request: Request, target: Target, is_token: Callable[[str], bool]) -> Response:
    """The review with its status."""
    body = decode_body(request, expected=target.kind.kind)
    review: Object = body if isinstance(body, dict) else {}
    made = {
        **review,
        "kind": target.kind.kind,
        "apiVersion": target.kind.api_version,
        "metadata": review.get("metadata") or {"creationTimestamp": None},
        "status": _status(request, target.kind.kind, review, is_token),
    }
    return json_response(made, 201)


def _status(request: Request, kind: str, review: Object, is_token: Callable[[str], bool]) -> Object:
    user = {"username": request.user.name, "groups": list(request.user.groups)}
    if kind == "SelfSubjectReview":
        return {"userInfo": user}
    if kind == "SelfSubjectRulesReview":
        return {"resourceRules": [_ALL_RESOURCES], "nonResourceRules": [_ALL_PATHS], "incomplete": False}
    if kind == "TokenReview":
        known = is_token(str((review.get("spec") or {}).get("token", "")))
        return {"authenticated": True, "user": user} if known else {"authenticated": False, "user": {}}
    return {"allowed": True, "reason": "this server allows everything"}
