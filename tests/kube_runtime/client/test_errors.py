"""Every answer of an API server maps into the error tree, and no message carries more than a line."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from kube_runtime.client import errors
from kube_runtime.errors import Retryable, Terminal


@pytest.mark.parametrize("code", range(300, 600))
def test_every_http_status_maps_into_the_tree(code: int) -> None:
    error = errors.from_status(code, b"", "get pods ns/a")
    assert isinstance(error, errors.KubeError)
    assert isinstance(error, Retryable) != isinstance(error, Terminal)
    assert str(code) in str(error)


LEAVES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.KubeError) and kind is not errors.KubeError
]


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_every_class_is_drawn_in_the_docstring_and_has_a_reason(kind: type[errors.KubeError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.reason not in {"Error", "Retrying", "Failed"}


def test_reasons_are_unique() -> None:
    assert len({kind.reason for kind in LEAVES}) == len(LEAVES)


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="a twin is not a lost race"),
        pytest.param(409, "Conflict", errors.Conflict, id="a lost race"),
        pytest.param(410, "Expired", errors.Expired, id="an old resourceVersion"),
        pytest.param(410, "Gone", errors.Expired, id="an old resourceVersion by its other name"),
        pytest.param(500, "ServerTimeout", errors.ServerTimeout, id="a 500 that is a time-out"),
        pytest.param(422, "Invalid", errors.Invalid, id="wrong fields"),
        pytest.param(418, "", errors.BadRequest, id="a 4xx that nobody knows"),
        pytest.param(302, "", errors.BadAnswer, id="a redirect is no answer of an API server"),
    ],
)
def test_status_and_reason_choose_the_class(code: int, reason: str, expected: type[errors.KubeError]) -> None:
    body = msgspec.json.encode({"kind": "Status", "status": "Failure", "reason": reason, "code": code})
    assert type(errors.from_status(code, body, "x")) is expected


def test_causes_name_the_fields() -> None:
    causes = [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.replicas"}]
    body = msgspec.json.encode({"kind": "Status", "reason": "Invalid", "code": 422, "details": {"causes": causes}})
    assert errors.from_status(422, body, "x").causes == (
        errors.Cause(reason="FieldValueRequired", message="Required value", field="spec.replicas"),
    )


def test_a_long_body_is_cut_so_that_no_secret_reaches_a_log() -> None:
    error = errors.from_status(500, b"x" * 1000 + b"canary", "get secrets ns/a")
    assert len(str(error)) == errors.MAX_MESSAGE_CHARACTERS
    assert "canary" not in str(error)


def test_retry_after_is_taken_from_the_body_when_there_is_no_header() -> None:
    body = msgspec.json.encode({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 7}})
    assert errors.from_status(429, body, "x").retry_after == 7.0
    assert errors.from_status(429, body, "x", retry_after=2.0).retry_after == 2.0


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"code": "many"}', b"<html>", b"\xff\xfe"])
def test_a_body_that_is_no_status_still_makes_an_error(body: bytes) -> None:
    assert isinstance(errors.from_status(503, body, "x"), errors.Unavailable)
