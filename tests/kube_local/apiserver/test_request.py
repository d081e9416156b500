"""Paths: which resource, namespace, name and subresource they name."""

from __future__ import annotations

import pytest

from kube_local.apiserver.registry import Registry, builtin_kinds
from kube_local.apiserver.request import resolve

REGISTRY = Registry(builtin_kinds())

PATHS: list[tuple[str, tuple[str, str, str, str]]] = [
    ("/api/v1/pods", ("pods", "", "", "")),
    ("/api/v1/namespaces/a/pods", ("pods", "a", "", "")),
    ("/api/v1/namespaces/a/pods/b", ("pods", "a", "b", "")),
    ("/api/v1/namespaces/a/pods/b/log", ("pods", "a", "b", "log")),
    ("/api/v1/namespaces", ("namespaces", "", "", "")),
    ("/api/v1/namespaces/a", ("namespaces", "", "a", "")),
    ("/api/v1/namespaces/a/status", ("namespaces", "", "a", "status")),
    ("/api/v1/nodes/n/status", ("nodes", "", "n", "status")),
    ("/apis/apps/v1/namespaces/a/deployments/d/scale", ("deployments", "a", "d", "scale")),
    ("/apis/events.k8s.io/v1/events", ("events", "", "", "")),
]


@pytest.mark.parametrize(("path", "found"), PATHS, ids=[p[0] for p in PATHS])
def test_paths_of_resources(path: str, found: tuple[str, str, str, str]) -> None:
    target = resolve(REGISTRY, path)
    assert target
    assert (target.kind.plural, target.namespace, target.name, target.subresource) == found


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/api/v1",
        "/apis/apps/v1",
        "/version",
        "/api/v1/nonsense",
        "/api/v2/pods",
        "/api/v1/pods/without-namespace",
        "/api/v1/namespaces/a/nodes",
        "/apis/nobody/v1/namespaces/a/things",
    ],
)
def test_paths_that_name_no_resource(path: str) -> None:
    assert resolve(REGISTRY, path) is None


def test_every_built_in_kind_can_be_reached() -> None:
    for kind in REGISTRY:
        base = f"/apis/{kind.group}" if kind.group else "/api"
        target = resolve(REGISTRY, f"{base}/{kind.version}/{kind.plural}")
        assert target
        assert target.kind is kind
