"""AdmissionReviews: what is let in, what is refused and how it is said, and that no body can break the server."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from slurm_operator.admission.review import VERSIONS, answer
from slurm_operator.api.controller import Controller
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs

ROOT = Path(__file__).parents[2]
CONTROLLER: dict[str, Any] = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "Controller",
    "metadata": {"name": "slurm", "namespace": "slurm"},
    "spec": {
        "slurmKeyRef": {"name": "auth", "key": "slurm.key"},
        "jwtKeyRef": {"name": "auth", "key": "jwt.key"},
    },
}
PARTITION: dict[str, Any] = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "Partition",
    "metadata": {"name": "debug", "namespace": "slurm"},
    "spec": {"controllerRef": {"name": "slurm"}, "nodeSets": ["ALL"]},
}


def refs_of(namespace: str) -> Refs:
    controller = decode({**CONTROLLER, "metadata": {"name": "slurm", "namespace": namespace}}).resource
    assert isinstance(controller, Controller)
    return Refs(controllers={"slurm": controller})


def question(new: Mapping[str, Any] | None, old: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    kind = (new or old or {}).get("kind", "")
    request: dict[str, Any] = {
        "uid": "u-1",
        "kind": {"group": "slinky.slurm.net", "version": "v1beta1", "kind": kind},
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": "slurm",
        "object": new,
        "oldObject": old,
        **more,
    }
    return {"apiVersion": VERSIONS[0], "kind": "AdmissionReview", "request": request}


def ask(review: Mapping[str, Any]) -> dict[str, Any]:
    code, body, said = answer(json.dumps(review).encode(), refs_of)
    assert code == 200
    result: dict[str, Any] = json.loads(body)
    assert result["response"]["uid"] == "u-1"
    response: dict[str, Any] = result["response"]
    assert said == ("allowed" if response["allowed"] else "refused")
    return response


def changed(raw: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    return {**raw, "spec": {**raw["spec"], **spec}}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_good_resource_comes_in_and_the_answer_has_the_version_of_the_question(version: str) -> None:
    code, body, _ = answer(json.dumps({**question(PARTITION), "apiVersion": version}).encode(), refs_of)
    assert (code, json.loads(body)["apiVersion"]) == (200, version)
    assert json.loads(body)["response"]["allowed"] is True


def test_a_refusal_names_every_field() -> None:
    response = ask(question(changed(PARTITION, maxTime="soon", state="SLEEPING")))
    assert response["allowed"] is False
    assert response["status"]["code"] == 422
    assert {cause["field"] for cause in response["status"]["details"]["causes"]} == {"spec.maxTime", "spec.state"}


def test_what_never_changes_is_refused_on_update() -> None:
    old = changed(CONTROLLER, clusterName="one")
    response = ask(question(changed(CONTROLLER, clusterName="two"), old))
    assert response["allowed"] is False
    assert "spec.clusterName" in response["status"]["message"]


@pytest.mark.parametrize(
    "review",
    [
        question(None, {**PARTITION, "spec": {"nonsense": 1}}, operation="DELETE"),
        question({**PARTITION, "kind": "Deployment"}, kind={"group": "apps", "version": "v1", "kind": "Deployment"}),
        question(changed(PARTITION, state="BAD"), changed(PARTITION, state="BAD")),
        question(PARTITION, operation="CONNECT"),
    ],
    ids=["a deletion", "a kind of others", "a change beside a bad spec", "another operation"],
)
def test_it_is_not_in_the_way_of(review: Mapping[str, Any]) -> None:
    assert ask(review)["allowed"] is True


def test_warnings_come_with_what_is_let_in() -> None:
    service = {"spec": {"externalIPs": ["192.0.2.1"]}}
    response = ask(question(changed(CONTROLLER, service=service)))
    assert response["allowed"] is True
    assert any("externalIPs" in warning for warning in response["warnings"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v9", "kind": "AdmissionReview", "request": {"uid": "1"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 1}}',
        b"\xff\xfe",
        b"[" * 99_000,
        b'{"a":' * 99_000,
    ],
    ids=[
        "empty",
        "cut off",
        "null",
        "list",
        "object",
        "no request",
        "version",
        "uid",
        "bytes",
        "deep list",
        "deep map",
    ],
)
def test_what_is_no_review_is_the_callers_fault(body: bytes) -> None:
    code, _, said = answer(body, refs_of)
    assert (code, said) == (400, "malformed")


def test_a_review_of_too_many_objects_is_refused_before_it_is_decoded() -> None:
    dense = changed(PARTITION, nodeSets=[{}] * 120_000)
    code, body, said = answer(json.dumps(question(dense)).encode(), refs_of)
    response = json.loads(body)["response"]
    assert (code, said, response["allowed"], response["status"]["code"]) == (200, "refused", False, 413)
    assert "100000 objects" in response["status"]["message"]
    assert answer(b"[" * 120_000, refs_of).code == 503


def test_a_fault_of_ours_refuses_and_is_counted_as_one() -> None:
    def broken(_: str) -> Refs:
        raise KeyError("nothing of the question")

    code, body, said = answer(json.dumps(question(PARTITION)).encode(), broken)
    assert (code, said) == (200, "failed")
    assert "see the log of its webhook" in json.loads(body)["response"]["status"]["message"]


def mangled(value: Any, draw: random.Random, depth: int = 0) -> Any:
    """A copy with a few things replaced, removed or added."""
    junk: list[Any] = [None, True, -1, 1e308, 10**30, "", "\x00", "a\nb", [], {}, [[]], {"a": {}}, "x" * 500, "\ud800"]
    if depth > 8 or draw.random() < 0.08:
        return draw.choice(junk)
    if isinstance(value, dict):
        kept = {key: mangled(item, draw, depth + 1) for key, item in value.items() if draw.random() > 0.05}
        if draw.random() < 0.1:
            kept[draw.choice(["x", "", "spec", "metadata", "\n"])] = draw.choice(junk)
        return kept
    if isinstance(value, list):
        return [mangled(item, draw, depth + 1) for item in value] + ([draw.choice(junk)] if draw.random() < 0.1 else [])
    return value


def originals() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        found += [each for each in yaml.safe_load_all(path.read_text()) if each and "slinky" in each["apiVersion"]]
    return found


def test_two_thousand_mangled_reviews_get_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    draw = random.Random(7)  # noqa: S311
    known = originals()
    codes = set()
    for _ in range(2000):
        old = draw.choice([None, draw.choice(known)])
        review = mangled(question(draw.choice(known), old), draw)
        body = json.dumps(review).encode()
        code, _, _ = answer(body[: draw.randrange(len(body))] if draw.random() < 0.05 else body, refs_of)
        codes.add(code)
    assert codes == {200, 400}
    assert "the rules failed" not in caplog.text
