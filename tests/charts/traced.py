"""What our programs ask the API server for, seen on the wire of the campaigns' world.

In: scenarios that touch every way of acting. Out: rights, one for each (group, resource, verb), as Kubernetes' RBAC
would want them. Run by `test_rights.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import CLAIMS, KEYS, REF, SCENARIOS

from kube_runtime.client import access_review
from kube_runtime.client.client import Client
from kube_runtime.client.errors import Forbidden, KubeError
from kube_runtime.client.events import Recorder
from kube_runtime.client.lease import LeaseObject
from kube_runtime.client.objects import CLAIMS as PERSISTENT_CLAIMS
from kube_runtime.client.objects import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
)
from kube_runtime.client.requests import APPLY, Request, path_of
from kube_runtime.client.write import Writer
from kube_runtime.clock import VirtualClock, run_until_idle
from kube_runtime.loop.leadership import LeaseRecord
from slurm_operator.admission.rotation import CONFIGURATIONS, Rotation
from slurm_operator.api.meta import API_VERSION
from slurm_operator.cli import webhook as admission
from slurm_operator.program import NAME
from slurm_operator.reconcile.resources import OURS
from slurm_operator.reconcile.status_pace import StatusPace
from slurm_operator.settings import Settings

Used = tuple[str, str, str]
_LABELS = {"matchLabels": {"a": "b"}}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
LEFTOVERS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (CONFIG_MAPS, {}),
    (SECRETS, {}),
    (SERVICES, {"spec": {"ports": [{"port": 1}]}}),
    (STATEFUL_SETS, {"spec": {"selector": _LABELS, "template": _TEMPLATE, "serviceName": "a"}}),
    (DEPLOYMENTS, {"spec": {"selector": _LABELS, "template": _TEMPLATE}}),
    (DISRUPTION_BUDGETS, {"spec": {"selector": _LABELS, "minAvailable": 1}}),
    (CONTROLLER_REVISIONS, {"revision": 1, "data": {}}),
    (PERSISTENT_CLAIMS, {"spec": CLAIMS[0]["spec"]}),
)
# By then every certificate has ended.
LATER = datetime(2060, 1, 1, tzinfo=UTC)
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


def rights_of(request: Request) -> set[Used]:
    """What a request takes."""
    if request.what.startswith("discovery "):
        # Every account may ask what is served.
        return set()
    group, resource, name = _address(request.path)
    if request.method != "GET":
        verbs = {_VERBS[request.method]}
    elif name:
        verbs = {"get"}
    else:
        verbs = {"watch" if ("watch", "true") in request.query else "list"}
    if request.content_type == APPLY and "/" not in resource:
        # An apply may be a create, and then needs the right to it.
        verbs.add("create")
    return {(group, resource, verb) for verb in verbs} | _owners(request)


def _address(path: str) -> tuple[str, str, str]:
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    return group, f"{resource}/{subresource}" if subresource else resource, name


def _owners(request: Request) -> set[Used]:
    """Who blocks the deletion of an owner needs a right on its finalizers, where the cluster enforces that."""
    if not request.body or request.method == "DELETE":
        return set()
    body: Any = json.loads(request.body)
    owners = body.get("metadata", {}).get("ownerReferences") or []
    blocking = [owner for owner in owners if owner.get("blockOwnerDeletion")]
    return {
        (owner["apiVersion"].rpartition("/")[0], f"{owner['kind'].lower()}s/finalizers", "update") for owner in blocking
    }


async def extras(world: World) -> None:
    """What the campaigns do not touch: leftovers, revisions, restarts, tokens renewed, DaemonSet mode, ssh."""
    await SCENARIOS["S-up"](world)
    ssh = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    await world.create(
        "NodeSet", "daemons", {**REF, "scalingMode": "DaemonSet", "ssh": ssh, "slurmd": {"image": "example.org/a"}}
    )
    await world.run()
    await world.patch("NodeSet", "daemons", {"spec": {"slurmd": {"image": "example.org/b"}, "ssh": {"enabled": False}}})
    await world.patch("Token", "ci", {"spec": {"username": "bob"}})
    await world.patch("LoginSet", "login", {"spec": {"extraSshdConfig": "X11Forwarding no"}})
    await world.run(horizon=400.0)
    await world.stop_operator()
    await world.start_operator()
    await world.delete("Partition", "all")
    await world.delete("Token", "ci")
    await world.delete("LoginSet", "login")
    await world.delete("NodeSet", "daemons")
    await world.run(horizon=400.0)


async def claims_follow_their_policy(world: World) -> None:
    """Claims that go with the NodeSet, and then with the worker."""
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    await world.create("Controller", "slurm", KEYS)
    await world.create("RestApi", "slurm", REF)
    spec = {**REF, "replicas": 2, "volumeClaimTemplates": CLAIMS, "persistentVolumeClaimRetentionPolicy": policy}
    await world.create("NodeSet", "compute", spec)
    await world.run()
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run()
    await world.delete("NodeSet", "compute")
    await world.run(horizon=400.0)


async def leftovers_are_pruned(world: World) -> None:
    """One object of each kind that a Controller owns and does not want."""
    await world.create("Controller", "slurm", KEYS)
    await world.run()
    uid = world.custom("Controller", "slurm")["metadata"]["uid"]
    owner = {"apiVersion": API_VERSION, "kind": "Controller", "name": "slurm", "uid": uid, "controller": True}
    for resource, body in LEFTOVERS:
        metadata = {"name": "leftover", "ownerReferences": [owner]}
        await world.ask("POST", path_of(resource, NAMESPACE), {**body, "metadata": metadata})
    await world.run()


async def every_status_is_overtaken(world: World) -> None:
    """The caches are always behind our own writes, so a status looks at the object first."""
    assert world.operator is not None
    with patch.object(StatusPace, "is_overtaken", lambda *_: True):
        await SCENARIOS["S-up"](world)


async def an_event_outlives_the_operator(world: World) -> None:
    """What two operators have to say about the same object is one Event."""
    await world.create("Token", "ci", {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"]})
    client = Client(world.wire)
    token = await client.get(OURS["Token"], "ci", NAMESPACE)
    for _ in range(2):
        await Recorder(Writer(client), instance="a").warning(token, OURS["Token"], "Wrong", "something is wrong")


async def leadership_is_taken_and_kept(world: World) -> None:
    """The Lease: looked for, made, renewed."""
    lease = LeaseObject(Client(world.wire), NAMESPACE, NAME, LeaseRecord)
    assert await lease.get() is None
    made = await lease.create(LeaseRecord("a", 15, None, None, 0))
    await lease.update(replace(made, holder="b"))


async def metrics_are_watched(world: World) -> None:
    """A ServiceMonitor that comes and goes, in a cluster that serves them."""
    await world.serve_monitors()
    await world.stop_operator()
    await world.start_operator()
    metrics = {"enabled": True, "serviceMonitor": {"enabled": True}}
    await world.create("Controller", "slurm", {**KEYS, "metrics": metrics})
    await world.run()
    await world.patch("Controller", "slurm", {"spec": {"metrics": {"serviceMonitor": {"enabled": False}}}})
    await world.run()


async def metrics_are_asked_for(world: World) -> None:
    """Who may read metrics is for Kubernetes to say; the embedded server cannot, so both are asked by hand."""
    client = Client(world.wire)
    for review in (access_review.TOKEN_REVIEWS, access_review.ACCESS_REVIEWS):
        with suppress(KubeError):
            await client.create(review, {"spec": {}})


LIVES: dict[str, Callable[[World], Awaitable[None]]] = {
    **SCENARIOS,
    "extras": extras,
    "claims": claims_follow_their_policy,
    "leftovers": leftovers_are_pruned,
    "overtaken": every_status_is_overtaken,
    "events": an_event_outlives_the_operator,
    "leadership": leadership_is_taken_and_kept,
    "metrics": metrics_are_asked_for,
    "monitors": metrics_are_watched,
}


async def webhook(world: World) -> None:
    """The admission server: what it looks at, and its certificate."""
    client = Client(world.wire)
    observer = admission._observer(client, Settings(), "cluster.local")
    tasks = [asyncio.create_task(cache.run()) for cache in admission._caches(observer)]
    service = {"name": "webhook", "namespace": NAMESPACE}
    hook = {"name": "a.b.c", "clientConfig": {"service": service}, "sideEffects": "None"}
    hooks = {"metadata": {"name": "hooks"}, "webhooks": [{**hook, "admissionReviewVersions": ["v1"]}]}
    await world.ask("POST", path_of(CONFIGURATIONS), hooks)
    names = ("webhook.slinky.svc",)
    for clock in (world.clock, VirtualClock(epoch=LATER)):
        rotation = Rotation(Writer(client), clock, NAMESPACE, "certificate", "hooks", names, lambda _: None)
        for _ in range(4):
            await rotation.step()
            await run_until_idle()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def used_by_webhook() -> dict[Used, str]:
    """What the admission server takes."""
    world, seen = World(), dict[Used, str]()
    _note(world, "webhook", seen)
    try:
        await world.open()
        seen.clear()
        await world.stop_operator()
        seen.clear()
        await webhook(world)
    finally:
        await world.close()
    return seen


def _note(world: World, name: str, seen: dict[Used, str]) -> None:
    before = world.wire.refuse

    def note(request: Request) -> None:
        before(request)
        for right in rights_of(request):
            seen.setdefault(right, f"{name}: {request.what.replace(NAMESPACE + '/', '')}")

    world.wire.refuse = note


async def denied(right: Used) -> dict[str, list[dict[str, Any]]]:
    """The conditions of every resource after a life without one right."""
    world = World()
    before = world.wire.refuse

    def refuse(request: Request) -> None:
        before(request)
        if right in rights_of(request):
            raise Forbidden(f"{request.what}: forbidden")

    world.wire.refuse = refuse
    resources = {"Controller": "slurm", "Accounting": "books", "RestApi": "slurm", "LoginSet": "login"}
    resources |= {"Token": "ci", "NodeSet": "compute", "Partition": "all"}
    try:
        await world.open()
        await SCENARIOS["S-up"](world)
        assert world.restarts == 0
        found = {kind: world.custom(kind, name) or {} for kind, name in resources.items()}
        return {kind: each.get("status", {}).get("conditions", []) for kind, each in found.items()}
    finally:
        await world.close()


async def used(name: str) -> dict[Used, str]:
    """What one life takes, each with the first request that took it."""
    world, seen = World(), dict[Used, str]()
    _note(world, name, seen)
    try:
        await world.open()
        await LIVES[name](world)
    finally:
        await world.close()
    return seen
