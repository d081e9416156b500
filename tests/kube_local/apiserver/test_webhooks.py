"""Admission webhooks: who is asked, what an answer does, and what a silent one does."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trustme
from aiohttp import web

from kube_local.apiserver import ApiServer
from kube_local.apiserver.webhooks import Call, CallFailed

MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


class Hooked:
    """A server whose webhooks are answered by a function."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.urls: list[str] = []
        self.answer = answer
        self.server = ApiServer(webhook_transport=self.transport)

    async def transport(self, call: Call) -> bytes:
        """One question."""
        request = msgspec.json.decode(call.body)["request"]
        self.asked.append(request)
        self.urls.append(call.url)
        found = self.answer(request)
        if isinstance(found, bytes):
            return found
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return msgspec.json.encode({**review, "response": {"uid": request["uid"], **found}})

    async def send(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """A request."""
        headers = {"content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        return await self.server.handle(method, path, query, headers, body)

    async def configure(self, **hook: Any) -> None:
        """One webhook configuration."""
        given = {
            "name": "hook.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/hook"},
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **hook,
        }
        name = "ValidatingWebhookConfiguration"
        path = f"/apis/admissionregistration.k8s.io/v1/{name.lower()}s"
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": name, "metadata": {"name": "validating"}}
        response = await self.send("POST", path, {**body, "webhooks": [given]})
        assert response.status == 201, response.body


def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def unreachable(_: dict[str, Any]) -> dict[str, Any]:
    raise CallFailed('Post "https://127.0.0.1:1/hook": connection refused')


async def test_a_validating_webhook_sees_every_write() -> None:
    hooked = Hooked(allow)
    await hooked.configure()
    await hooked.send("POST", MAPS, CONFIG)
    await hooked.send("PATCH", f"{MAPS}/m", {"data": {"a": "1"}})
    await hooked.send("DELETE", f"{MAPS}/m")
    assert [one["operation"] for one in hooked.asked] == ["CREATE", "UPDATE", "DELETE"]
    create, update, delete = hooked.asked
    assert create["oldObject"] is None
    assert "data" not in update["oldObject"]
    assert update["object"]["data"] == {"a": "1"}
    assert delete["object"] is None
    assert create["userInfo"]["username"] == "admin"
    assert create["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}


async def test_a_denial_reaches_the_client_and_nothing_is_stored() -> None:
    hooked = Hooked(lambda _: {"allowed": False, "status": {"message": "no", "code": 418, "reason": "Teapot"}})
    await hooked.configure()
    response = await hooked.send("POST", MAPS, CONFIG)
    assert response.status == 418
    assert response.json()["message"] == 'admission webhook "hook.example.com" denied the request: no'
    assert (await hooked.send("GET", f"{MAPS}/m")).status == 404


async def test_a_denial_without_words_is_forbidden() -> None:
    hooked = Hooked(lambda _: {"allowed": False})
    await hooked.configure()
    response = await hooked.send("POST", MAPS, CONFIG)
    assert (response.status, response.json()["reason"]) == (403, "Forbidden")


BAD_ANSWERS: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("no answer", unreachable),
    ("not JSON", lambda _: b"oops"),
    ("no review", lambda _: b"[]"),
    ("another uid", lambda _: {"allowed": True, "uid": "x"}),
]


@pytest.mark.parametrize("answer", [a[1] for a in BAD_ANSWERS], ids=[a[0] for a in BAD_ANSWERS])
@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_fails_is_fatal_or_ignored(answer: Any, policy: str, code: int) -> None:
    hooked = Hooked(answer)
    await hooked.configure(failurePolicy=policy)
    response = await hooked.send("POST", MAPS, CONFIG)
    assert response.status == code
    if code == 500:
        assert 'failed calling webhook "hook.example.com": failed to call webhook: ' in response.json()["message"]


SELECTIONS: list[tuple[str, dict[str, Any], bool]] = [
    ("the rule", {}, True),
    ("another resource", {"rules": [{**RULE, "resources": ["secrets"]}]}, False),
    ("another operation", {"rules": [{**RULE, "operations": ["DELETE"]}]}, False),
    ("every resource", {"rules": [{**RULE, "resources": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}]}, True),
    ("subresources only", {"rules": [{**RULE, "resources": ["configmaps/status"]}]}, False),
    ("cluster scope", {"rules": [{**RULE, "scope": "Cluster"}]}, False),
    ("its namespace", {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
    ("another namespace", {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}, False),
    ("an object label", {"objectSelector": {"matchLabels": {"watched": "yes"}}}, False),
]


@pytest.mark.parametrize(("hook", "asked"), [s[1:] for s in SELECTIONS], ids=[s[0] for s in SELECTIONS])
async def test_only_webhooks_that_want_to_know_are_asked(hook: dict[str, Any], asked: bool) -> None:
    hooked = Hooked(allow)
    await hooked.configure(**hook)
    await hooked.send("POST", MAPS, CONFIG)
    assert bool(hooked.asked) is asked


@pytest.mark.parametrize(("effects", "code"), [("None", 201), ("NoneOnDryRun", 201), ("Some", 400)])
async def test_dry_runs_reach_only_webhooks_without_side_effects(effects: str, code: int) -> None:
    hooked = Hooked(allow)
    await hooked.configure(sideEffects=effects)
    response = await hooked.send("POST", MAPS, CONFIG, dryRun="All")
    assert response.status == code
    assert [one["dryRun"] for one in hooked.asked] == ([True] if code == 201 else [])


async def test_a_service_is_asked_through_the_first_ready_pod_behind_it() -> None:
    hooked = Hooked(allow)
    services = "/api/v1/namespaces/default/services"
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    await hooked.configure(clientConfig={"service": {"namespace": "default", "name": "webhook"}})
    assert 'service "webhook" not found' in (await hooked.send("POST", MAPS, CONFIG)).json()["message"]
    spec = {"ports": [{"port": 443}]}
    await hooked.send(
        "POST", services, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "webhook"}, "spec": spec}
    )
    assert "no endpoints available" in (await hooked.send("POST", MAPS, CONFIG)).json()["message"]
    labels = {"kubernetes.io/service-name": "webhook"}
    behind = [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": False}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": True}},
    ]
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "webhook-1", "labels": labels},
        "addressType": "IPv4",
        "endpoints": behind,
        "ports": [{"port": 9443}],
    }
    await hooked.send("POST", slices, slice_)
    await hooked.send("POST", MAPS, CONFIG)
    assert hooked.urls[-1].startswith("https://10.0.0.2:9443")


async def test_a_real_webhook_is_asked_over_https(unused_tcp_port: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        question = await request.json()
        return web.json_response({"response": {"uid": question["request"]["uid"], "allowed": False}})

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    app.router.add_post("/hook", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port, ssl_context=context).start()
    server = ApiServer()
    hooked = Hooked(allow)
    hooked.server = server
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    await hooked.configure(clientConfig={"url": f"https://127.0.0.1:{unused_tcp_port}/hook", "caBundle": bundle})
    assert (await hooked.send("POST", MAPS, CONFIG)).status == 403
    await runner.cleanup()
    refused = await hooked.send("POST", MAPS, CONFIG)
    assert (refused.status, "failed to call webhook" in refused.json()["message"]) == (500, True)
