"""A request before it is sent: its path, its preconditions, and whether it may be repeated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kube_runtime.client import errors, requests
from kube_runtime.client.client import may_repeat
from kube_runtime.client.objects import PODS
from kube_runtime.client.requests import Repeat


@pytest.mark.parametrize("repeat", Repeat)
def test_a_request_that_was_never_sent_may_be_repeated_unless_it_says_never(repeat: Repeat) -> None:
    assert may_repeat(repeat, errors.Unreachable("x", sent=False)) is (repeat is not Repeat.NEVER)


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        pytest.param(requests.get(PODS, "ns", "a/../b"), "/api/v1/namespaces/ns/pods/a%2F..%2Fb", id="slashes"),
        pytest.param(requests.get(PODS, "n s", "a?b#c"), "/api/v1/namespaces/n%20s/pods/a%3Fb%23c", id="query signs"),
    ],
)
def test_a_name_is_never_a_path(request_: requests.Request, path: str) -> None:
    assert request_.path == path


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: requests.delete(PODS, "ns", ""), id="no name would delete them all"),
        pytest.param(lambda: requests.get(PODS, "", "a"), id="no namespace"),
        pytest.param(lambda: requests.get(PODS, "..", "a"), id="dots"),
        pytest.param(lambda: requests.create(PODS, "", {}), id="create without a namespace"),
    ],
)
def test_a_request_without_a_target_is_not_built(build: Callable[[], requests.Request]) -> None:
    with pytest.raises(ValueError, match="name"):
        build()


def test_a_request_never_shows_its_body() -> None:
    assert "canary" not in repr(requests.create(PODS, "ns", {"metadata": {"name": "a"}, "data": "canary"}))


def test_delete_carries_its_preconditions() -> None:
    import msgspec

    request = requests.delete(PODS, "ns", "a", uid="u", resource_version="5", propagation="Foreground", grace_seconds=0)
    assert msgspec.json.decode(request.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }
