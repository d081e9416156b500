"""May the holder of this token get that path? Kubernetes' own answer, by TokenReview and SubjectAccessReview.

In: a bearer token and a path. Out: yes or no; no when Kubernetes cannot be asked. Called by the metrics server.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kube_runtime.client.client import Client
from kube_runtime.client.errors import KubeError
from kube_runtime.client.objects import RawObject, Resource

log = logging.getLogger(__name__)

TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", RawObject, namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", RawObject, namespaced=False
)


async def may_get(client: Client, token: str, path: str) -> bool:
    """Whether the token's owner may get a path of no resource, such as /metrics."""
    if not token:
        return False
    try:
        user = await _owner(client, token)
        return user is not None and await _allowed(client, user, path)
    except KubeError as error:
        log.warning("%s refuses all requests, since Kubernetes cannot be asked: %s", path, error)
        return False


async def _owner(client: Client, token: str) -> dict[str, Any] | None:
    review = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": {"token": token}}
    status = (await client.create(TOKEN_REVIEWS, review)).content().get("status") or {}
    return status.get("user") if status.get("authenticated") is True else None


async def _allowed(client: Client, user: dict[str, Any], path: str) -> bool:
    wanted = {
        "user": user.get("username", ""),
        "groups": user.get("groups") or [],
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }
    review = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": wanted}
    status = (await client.create(ACCESS_REVIEWS, review)).content().get("status") or {}
    return status.get("allowed") is True
