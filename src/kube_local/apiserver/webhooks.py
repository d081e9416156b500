"""Admission webhooks: who is asked about a request, the question over HTTPS, and what an answer or a failure means.

In: an `Admission`. Out: nothing, or a refusal as `ApiError`. Called by `writes`. They judge; none changes it.
The transport is injected, so that campaigns can answer without sockets.
"""

from __future__ import annotations

import base64
import ssl
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from . import errors, selectors
from .registry import Kind
from .request import Target, User, encode
from .state import State

Object = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
VALIDATING = f"validatingwebhookconfigurations.{_GROUP}"


@dataclass(frozen=True, slots=True)
class Call:
    """One question to one webhook."""

    url: str
    ca_bundle: bytes
    body: bytes
    timeout: float


Transport = Callable[[Call], Awaitable[bytes]]


class CallFailed(Exception):
    """The webhook could not be asked, or did not answer with a review."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A write that wants in."""

    target: Target
    name: str
    operation: str
    old: Object | None
    new: Object | None
    user: User
    dry_run: bool
    warnings: list[str] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        """The kind that is written."""
        return self.target.kind


async def https_transport(call: Call) -> bytes:
    """The real transport."""
    try:
        context = ssl.create_default_context(cadata=call.ca_bundle.decode()) if call.ca_bundle else True
        timeout = aiohttp.ClientTimeout(total=call.timeout)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                call.url, data=call.body, ssl=context, headers={"Content-Type": "application/json"}
            ) as response,
        ):
            body = await response.read()
    except TimeoutError as error:
        raise CallFailed(f'Post "{call.url}": context deadline exceeded') from error
    except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
        raise CallFailed(f'Post "{call.url}": {error}') from error
    if response.status >= 300:
        raise CallFailed(f'Post "{call.url}": the server answered {response.status}')
    return body


class Webhooks:
    """The webhooks that are configured in the store."""

    def __init__(self, state: State, transport: Transport = https_transport) -> None:
        self._state = state
        self._transport = transport

    async def validate(self, admission: Admission) -> None:
        """Raises when a validating webhook refuses."""
        for hook in self._matching(admission):
            await self._ask(hook, admission)

    def _matching(self, admission: Admission) -> Iterator[Object]:
        rows = self._state.store.rows(VALIDATING)
        if not rows or admission.kind.group == _GROUP:
            return
        for row in rows:
            for hook in row.load().get("webhooks") or ():
                if self._concerns(hook, admission):
                    yield hook

    def _concerns(self, hook: Object, admission: Admission) -> bool:
        if not any(rule_matches(rule, admission) for rule in hook.get("rules") or ()):
            return False
        # A cluster-scoped object is in no namespace that a selector could leave out.
        placed = bool(admission.target.namespace) or admission.kind.resource == "namespaces"
        where = selectors.from_object(hook.get("namespaceSelector"))
        if placed and not where.matches(self._namespace_labels(admission)):
            return False
        wanted = selectors.from_object(hook.get("objectSelector"))
        seen = [one for one in (admission.new, admission.old) if one is not None]
        return any(wanted.matches((one.get("metadata") or {}).get("labels") or {}) for one in seen)

    def _namespace_labels(self, admission: Admission) -> Mapping[str, str]:
        if admission.kind.resource == "namespaces":
            obj = admission.new or admission.old or {}
            return (obj.get("metadata") or {}).get("labels") or {}
        row = self._state.store.get("namespaces", "", admission.target.namespace)
        return row.labels if row else {}

    async def _ask(self, hook: Object, admission: Admission) -> None:
        """Raises when one webhook refuses, or fails and its policy is not to ignore that."""
        if admission.dry_run and hook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise errors.bad_request(f'admission webhook "{hook["name"]}" does not support dry run')
        question = review(admission)
        try:
            answer = _read_answer(await self._transport(self._call(hook, question)), question["request"]["uid"])
        except CallFailed as error:
            if hook.get("failurePolicy") == "Ignore":
                return
            raise errors.internal(
                f'failed calling webhook "{hook["name"]}": failed to call webhook: {error}'
            ) from error
        admission.warnings.extend(str(one) for one in answer.get("warnings") or ())
        if not answer.get("allowed"):
            raise _denied(hook["name"], answer.get("status") or {})

    def _call(self, hook: Object, question: Object) -> Call:
        config = hook.get("clientConfig") or {}
        try:
            bundle = base64.b64decode(config.get("caBundle") or "", validate=True)
        except ValueError as error:
            raise CallFailed("the caBundle is not base64") from error
        url = config.get("url") or self._service_url(config.get("service") or {})
        timeout = float(hook.get("timeoutSeconds") or 10)
        return Call(f"{url}{'&' if '?' in url else '?'}timeout={int(timeout)}s", bundle, encode(question), timeout)

    def _service_url(self, service: Object) -> str:
        namespace, name = service.get("namespace", ""), service.get("name", "")
        if self._state.store.get("services", namespace, name) is None:
            raise CallFailed(f'service "{name}" not found')
        for row in self._state.store.rows("endpointslices.discovery.k8s.io", namespace):
            found = row.load()
            if (found["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
                continue
            ready = [one for one in found.get("endpoints") or () if (one.get("conditions") or {}).get("ready", True)]
            if ready:
                port = (found.get("ports") or [{}])[0].get("port", service.get("port", 443))
                return f"https://{ready[0]['addresses'][0]}:{port}{service.get('path', '')}"
        raise CallFailed(f'no endpoints available for service "{name}"')


def rule_matches(rule: Object, admission: Admission) -> bool:
    """True when a rule names the request's group, version, resource, operation and scope."""
    kind, subresource = admission.kind, admission.target.subresource
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    wildcards = {"*/*", resource, f"{kind.plural}/*", *({f"*/{subresource}"} if subresource else {"*"})}
    scope = rule.get("scope") or "*"
    return (
        bool({"*", admission.operation} & set(rule.get("operations") or ()))
        and bool({"*", kind.group} & set(rule.get("apiGroups") or ()))
        and bool({"*", kind.version} & set(rule.get("apiVersions") or ()))
        and bool(wildcards & set(rule.get("resources") or ()))
        and scope in {"*", "Namespaced" if kind.namespaced else "Cluster"}
    )


def review(admission: Admission) -> Object:
    """The AdmissionReview that asks."""
    kind, target = admission.kind, admission.target
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    gvr = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
    request: Object = {
        "uid": str(uuid.uuid4()),
        "kind": gvk,
        "resource": gvr,
        "requestKind": gvk,
        "requestResource": gvr,
        "name": admission.name,
        "operation": admission.operation,
        "userInfo": {"username": admission.user.name, "groups": list(admission.user.groups)},
        "object": admission.new,
        "oldObject": admission.old,
        "dryRun": admission.dry_run,
        "options": {"kind": options.get(admission.operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"},
    }
    if target.namespace:
        request["namespace"] = target.namespace
    if target.subresource:
        request["subResource"] = request["requestSubResource"] = target.subresource
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _read_answer(body: bytes, uid: str) -> Object:
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise CallFailed(f"the answer is not JSON: {error}") from error
    response = answer.get("response") if isinstance(answer, dict) else None
    if not isinstance(response, dict):
        raise CallFailed("expected response.uid to be set: the answer is no AdmissionReview")
    if response.get("uid") != uid:
        raise CallFailed(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return response


def _denied(name: str, status: Object) -> errors.ApiError:
    text = status.get("message") or status.get("reason") or ""
    suffix = f": {text}" if text else " without explanation"
    code = int(status.get("code") or 403)
    reason = status.get("reason") or ("Forbidden" if code == 403 else "")
    message = f'admission webhook "{name}" denied the request{suffix}'
    return errors.ApiError(code, reason, message, details=status.get("details"))
