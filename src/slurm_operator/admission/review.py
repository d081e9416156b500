"""One AdmissionReview answered: allowed, with warnings, or refused with every finding.

In: the body of a request, and a way to see a namespace. Out: an `ReviewResponse`, always; nothing in a request can make
it raise. Called by `server.py`. What is not ours is let through: this server is never in the way of anything else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from slurm_operator.admission import rules
from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import GROUP, Resource
from slurm_operator.api.problem import FieldProblem, errors, format_path
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs

log = logging.getLogger(__name__)

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
CHECKED = ("CREATE", "UPDATE")
# API servers cut warnings that are longer.
MAX_WARNING_CHARACTERS = 256
# Far more than two versions of a resource within its bounds have, with what Kubernetes notes of their fields.
MAX_OBJECTS = 100_000
TOO_MANY_OBJECTS = f"holds more than {MAX_OBJECTS} objects and lists; write a smaller resource"

RefsOf = Callable[[str], Refs]


class GroupVersionKind(msgspec.Struct, frozen=True):
    """What kind of object is meant."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """What an API server asks."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class Asked(msgspec.Struct, frozen=True):
    """Who asks, read without the rest of the question: what to answer when it is not looked at."""

    uid: str = ""
    namespace: str = ""
    version: str = ""


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """The envelope of a question."""

    api_version: str
    kind: str
    request: AdmissionRequest | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What is said to one question."""

    problems: Sequence[FieldProblem] = ()

    @property
    def allowed(self) -> bool:
        """Whether the object may come in."""
        return not errors(self.problems)


Result = Literal["allowed", "refused", "malformed", "failed", "overloaded", "timeout"]


class ReviewResponse(NamedTuple):
    """The HTTP code and body that answer a request, and in one word what was said."""

    code: int
    body: bytes
    result: Result


class _Origin(msgspec.Struct, frozen=True):
    uid: str = ""
    namespace: str = ""


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    request: _Origin | None = None


_ENVELOPES = msgspec.json.Decoder(_Envelope)


def asked_by(body: bytes) -> Asked:
    """Who asks; the rest is skipped, which takes a millisecond for a megabyte."""
    try:
        envelope = _ENVELOPES.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return Asked()
    origin = envelope.request or _Origin()
    return Asked(origin.uid, origin.namespace, envelope.api_version)


def refusal(asked: Asked, code: int, reason: str, message: str, result: Result) -> ReviewResponse:
    """A question that is not looked at is refused, whatever the API server does with servers that fail."""
    if not asked.uid or asked.version not in VERSIONS:
        return ReviewResponse(503, _text(message), result)
    status = {"code": code, "reason": reason, "message": message, "details": {"retryAfterSeconds": 1}}
    response = {"uid": asked.uid, "allowed": False, "status": status}
    return ReviewResponse(
        200, msgspec.json.encode({"apiVersion": asked.version, "kind": "AdmissionReview", "response": response}), result
    )


def answer(body: bytes, refs_of: RefsOf) -> ReviewResponse:
    """What is said to a request."""
    if body.count(b"{") + body.count(b"[") > MAX_OBJECTS:
        # Decoding them would hold the interpreter for longer than all the rest, and nobody else could be answered.
        return refusal(asked_by(body), 413, "RequestEntityTooLarge", TOO_MANY_OBJECTS, "refused")
    try:
        review = msgspec.json.decode(body, type=Review)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return ReviewResponse(400, _text(f"not an AdmissionReview: {error}"), "malformed")
    if review.api_version not in VERSIONS or review.kind != "AdmissionReview" or review.request is None:
        return ReviewResponse(
            400, _text(f"not an AdmissionReview with a request in {' or '.join(VERSIONS)}"), "malformed"
        )
    try:
        decision = judge(review.request, refs_of)
        result: Result = "allowed" if decision.allowed else "refused"
    except Exception:
        # A fault of ours refuses what it was asked about, and says whose fault it is.
        log.exception("the rules failed on %s", review.request.kind.kind)
        decision = Decision([FieldProblem((), "the rules of slurm-operator failed on it; see the log of its webhook")])
        result = "failed"
    return ReviewResponse(200, _response(review, review.request.uid, decision), result)


def judge(asked: AdmissionRequest, refs_of: RefsOf) -> Decision:
    """Whether a change may be made."""
    if asked.operation not in CHECKED or asked.kind.group != GROUP or asked.kind.kind not in BY_NAME:
        return Decision()
    new, old = asked.object or {}, asked.old_object
    if old is not None and old.get("spec") == new.get("spec"):
        # Labels and finalizers may always change: what is wrong must still be let go.
        return Decision()
    decoded = decode(_placed(new, asked.namespace), served=True)
    if decoded.resource is None:
        return Decision(decoded.problems)
    before = _before(old, asked.namespace)
    if type(before) is not type(decoded.resource):
        before = None
    found = rules.check(decoded.resource, before, refs_of(asked.namespace))
    return Decision([*decoded.problems, *found])


def _before(old: Mapping[str, Any] | None, namespace: str) -> Resource | None:
    # What an older release let in may be unreadable; then there is nothing to compare with.
    return decode(_placed(old, namespace), served=True).resource if old is not None else None


def _placed(raw: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping) or not namespace:
        return dict(raw)
    return {**raw, "metadata": {**metadata, "namespace": namespace}}


def _response(review: Review, uid: str, decision: Decision) -> bytes:
    warnings = [str(each)[:MAX_WARNING_CHARACTERS] for each in decision.problems if each.severity == "warning"]
    response: dict[str, Any] = {"uid": uid, "allowed": decision.allowed}
    if warnings:
        response["warnings"] = warnings
    if not decision.allowed:
        response["status"] = _refusal(errors(decision.problems))
    return msgspec.json.encode({"apiVersion": review.api_version, "kind": "AdmissionReview", "response": response})


def _refusal(found: Sequence[FieldProblem]) -> dict[str, Any]:
    causes = [
        {"reason": "FieldValueInvalid", "field": format_path(each.path), "message": each.message} for each in found
    ]
    return {
        "code": 422,
        "reason": "Invalid",
        "message": "; ".join(str(each) for each in found),
        "details": {"causes": causes},
    }


def _text(message: str) -> bytes:
    return f"{message}\n".encode(errors="replace")
