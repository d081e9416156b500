"""The operator with exactly the rights that it is shipped with, and then without each of them once.

In: the roles of deploy/install.yaml on a real kube-apiserver, a cluster of every kind on fake nodes with a small Slurm,
and `slurm-operator run` with its ServiceAccount's token. Each right is taken away, something is done that needs it, and
then: the operator lives, says in the words of `kubectl auth can-i` what it lacks, and is well again when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from tests.real.helm.rbac_world import (
    APPS,
    CORE,
    GROUP,
    MONITORS,
    NAMES,
    OURS,
    POLICY,
    USER,
    Json,
    Right,
    World,
    conditions,
    eventually,
    operated,
    rights,
    roles,
    rules_without,
)
from tests.real.kube.cluster import real_cluster

pytestmark = [pytest.mark.real_kube, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Everything, well and running."""
    folder = tmp_path_factory.mktemp("rbac")
    flags = ("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",)
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            real_cluster(folder, controllers=True, scheduler=True, apiserver_flags=flags)
        )
        yield await stack.enter_async_context(operated(cluster, folder))


RIGHTS = rights()

# Ways to need a right; each gives back how to undo it

Undo = Callable[[], Awaitable[object]]
Touch = Callable[[World], Awaitable[Undo | None]]


def cut(plural: str) -> Touch:
    """End a watch, so that it has to be asked for again."""

    async def touch(world: World) -> None:
        await eventually(lambda: asyncio.sleep(0, world.way.cut(plural)))

    return touch


def lose(path: str) -> Touch:
    """Delete something that the operator makes again."""

    async def touch(world: World) -> None:
        await world.delete(path)

    return touch


def spoil(path: str, label: str = "app.kubernetes.io/name") -> Touch:
    """Change a label that the operator puts right."""

    async def touch(world: World) -> None:
        await world.patch(path, {"metadata": {"labels": {label: "spoilt"}}})

    return touch


def leave(path: str, body: Json) -> Touch:
    """Something that a Controller owns and does not want."""

    async def touch(world: World) -> None:
        owner = await world.call("GET", f"{OURS}/controllers/slurm")
        reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": "slurm", "controller": True}
        reference["uid"] = owner["metadata"]["uid"]
        meta = {"name": "leftover", "ownerReferences": [reference]}
        await world.call("POST", path, {**body, "metadata": meta})

    return touch


def scaled(replicas: int) -> Touch:
    """Another number of workers, for a while."""
    path = f"{OURS}/nodesets/compute"

    async def touch(world: World) -> Undo:
        await world.patch(path, {"spec": {"replicas": replicas}})
        return lambda: world.patch(path, {"spec": {"replicas": 2}})

    return touch


def disowned(path: str, field_: str = "ownerReferences") -> Touch:
    """Take something away that the operator puts back by a patch."""

    async def touch(world: World) -> None:
        await world.patch(path, {"metadata": {field_: None}})

    return touch


def unsaid(plural: str) -> Touch:
    """Empty a status, and have the resource looked at."""
    path = f"{OURS}/{plural}/{NAMES[plural]}"

    async def touch(world: World) -> Undo:
        await world.patch(f"{path}/status", {"status": {"conditions": []}})
        await world.patch(path, {"metadata": {"annotations": {"example.org/look": "here"}}})
        return lambda: world.patch(path, {"metadata": {"annotations": {"example.org/look": None}}})

    return touch


async def restarted(world: World) -> None:
    """A right that is looked for at the start."""
    await world.process.restart()


async def waited(_: World) -> None:
    """A right that is used all the time."""


async def drained(world: World) -> Undo:
    """Somebody drains a node in Slurm, which its pod then says."""
    world.slurm.admin_drain("compute-0")

    async def resume() -> None:
        world.slurm.admin_resume("compute-0")

    return resume


async def new_revision(world: World) -> None:
    """Another template."""
    template = {"template": {"metadata": {"annotations": {"example.org/version": "2"}}}}
    await world.patch(f"{OURS}/nodesets/compute", {"spec": template})


async def spoilt_revision(world: World) -> None:
    """The present revision without its owner's mark."""
    items = (await world.call("GET", f"{APPS}/controllerrevisions"))["items"]
    mine = [each for each in items if each["metadata"]["name"].startswith("compute-")]
    newest = max(mine, key=lambda each: int(each["revision"]))
    labels = dict.fromkeys(newest["metadata"]["labels"], "spoilt")
    await world.patch(f"{APPS}/controllerrevisions/{newest['metadata']['name']}", {"metadata": {"labels": labels}})


async def old_revision(world: World) -> None:
    """A revision that no worker has, and whose history is not kept."""
    items = (await world.call("GET", f"{APPS}/controllerrevisions"))["items"]
    one = next(each for each in items if each["metadata"]["name"].startswith("compute-"))
    kept = {key: one["metadata"][key] for key in ("labels", "ownerReferences")}
    body = {"metadata": {"name": "compute-0000000000", **kept}, "data": one["data"], "revision": 0}
    await world.call("POST", f"{APPS}/controllerrevisions", body)


async def unmonitored(world: World) -> Undo:
    """No ServiceMonitor is wanted any more."""
    path = f"{OURS}/controllers/slurm"
    await world.patch(path, {"spec": {"metrics": {"serviceMonitor": {"enabled": False}}}})
    return lambda: world.patch(path, {"spec": {"metrics": {"serviceMonitor": {"enabled": True}}}})


async def told_again(world: World) -> None:
    """The same Event some times, so that it becomes a series."""
    for _ in range(3):
        before = (await world.call("GET", f"{CORE}/pods/compute-1"))["metadata"]["uid"]
        await world.delete(f"{CORE}/pods/compute-1")

        async def is_back(old: str = before) -> bool:
            found = await world.get(f"{CORE}/pods/compute-1")
            return found is not None and found["metadata"]["uid"] != old

        await eventually(is_back)


async def told_after_a_restart(world: World) -> None:
    """An Event that is there already."""
    await world.process.restart()
    await told_again(world)


LABELS = {"matchLabels": {"a": "b"}}
POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
TOUCHES: dict[tuple[str, str], Touch] = {
    ("configmaps", "create"): lose(f"{CORE}/configmaps/slurm-config"),
    ("configmaps", "patch"): spoil(f"{CORE}/configmaps/slurm-config"),
    ("configmaps", "delete"): leave(f"{CORE}/configmaps", {}),
    ("secrets", "create"): lose(f"{CORE}/secrets/ci-jwt-alice"),
    ("secrets", "patch"): spoil(f"{CORE}/secrets/books-accounting"),
    ("secrets", "delete"): leave(f"{CORE}/secrets", {}),
    ("services", "create"): lose(f"{CORE}/services/slurm-restapi"),
    ("services", "patch"): spoil(f"{CORE}/services/slurm-restapi"),
    ("services", "delete"): leave(f"{CORE}/services", {"spec": {"ports": [{"port": 1}]}}),
    ("persistentvolumeclaims", "create"): scaled(3),
    ("persistentvolumeclaims", "patch"): disowned(f"{CORE}/persistentvolumeclaims/scratch-compute-0"),
    ("persistentvolumeclaims", "delete"): leave(
        f"{CORE}/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    ("pods", "create"): lose(f"{CORE}/pods/compute-1"),
    ("pods", "patch"): disowned(f"{CORE}/pods/compute-0"),
    ("pods", "delete"): scaled(1),
    ("pods/status", "patch"): drained,
    ("pods/log", "get"): waited,
    ("pods/finalizers", "update"): scaled(1),
    ("controllerrevisions", "create"): new_revision,
    ("controllerrevisions", "patch"): spoilt_revision,
    ("controllerrevisions", "delete"): old_revision,
    ("deployments", "create"): lose(f"{APPS}/deployments/slurm-restapi"),
    ("deployments", "patch"): spoil(f"{APPS}/deployments/slurm-restapi"),
    ("deployments", "delete"): leave(f"{APPS}/deployments", {"spec": {"selector": LABELS, "template": POD}}),
    ("statefulsets", "create"): lose(f"{APPS}/statefulsets/books-accounting"),
    ("statefulsets", "patch"): spoil(f"{APPS}/statefulsets/books-accounting"),
    ("statefulsets", "delete"): leave(
        f"{APPS}/statefulsets", {"spec": {"selector": LABELS, "template": POD, "serviceName": "a", "replicas": 0}}
    ),
    ("poddisruptionbudgets", "create"): lose(f"{POLICY}/poddisruptionbudgets/slurm-workers-pdb-slurm"),
    ("poddisruptionbudgets", "patch"): spoil(
        f"{POLICY}/poddisruptionbudgets/slurm-workers-pdb-slurm", "slinky.slurm.net/cluster"
    ),
    ("poddisruptionbudgets", "delete"): leave(
        f"{POLICY}/poddisruptionbudgets", {"spec": {"selector": LABELS, "minAvailable": 1}}
    ),
    ("servicemonitors", "create"): lose(f"{MONITORS}/slurm-controller"),
    ("servicemonitors", "patch"): spoil(f"{MONITORS}/slurm-controller"),
    ("servicemonitors", "delete"): unmonitored,
    ("events", "create"): told_after_a_restart,
    ("events", "patch"): told_again,
    ("events", "get"): told_after_a_restart,
    ("leases", "create"): restarted,
    ("leases", "get"): restarted,
    ("leases", "update"): waited,
    ("nodesets", "patch"): disowned(f"{OURS}/nodesets/compute", "finalizers"),
    ("partitions", "patch"): disowned(f"{OURS}/partitions/all", "finalizers"),
    ("controllers/finalizers", "update"): lose(f"{CORE}/services/slurm-controller"),
    ("accountings/finalizers", "update"): lose(f"{CORE}/services/books-accounting"),
    ("restapis/finalizers", "update"): lose(f"{CORE}/services/slurm-restapi"),
    ("loginsets/finalizers", "update"): lose(f"{CORE}/services/login"),
    ("nodesets/finalizers", "update"): lose(f"{CORE}/pods/compute-1"),
    ("tokens/finalizers", "update"): lose(f"{CORE}/secrets/ci-jwt-alice"),
    **{(f"{plural}/status", "patch"): unsaid(plural) for plural in NAMES},
    # Only for a status that is written while the watch is behind.
    **{(plural, "get"): restarted for plural in NAMES},
}


def touch_for(right: Right) -> Touch:
    """How a right comes to be needed."""
    return cut(right.resource) if right.verb in ("list", "watch") else TOUCHES[right.key]


def has_object(right: Right) -> bool:
    """Whether a condition can tell of it; a status that cannot be written has an Event instead."""
    return right.resource.partition("/")[0] not in ("leases", "events") and (right.resource, right.verb) not in {
        (plural, "get") for plural in NAMES
    }


@contextlib.asynccontextmanager
async def without(world: World, right: Right) -> AsyncIterator[None]:
    """A role without one right, for the length of the block."""
    await world.patch(right.role, {"rules": rules_without(right)})
    try:
        await eventually(lambda: is_denied(world, right))
        yield
    finally:
        await world.patch(right.role, {"rules": roles()[right.role]["rules"]})


async def is_denied(world: World, right: Right) -> bool:
    """Whether the API server's authorizer has heard of it."""
    plain, _, part = right.resource.partition("/")
    attributes = {"group": right.group, "resource": plain, "subresource": part, "verb": right.verb}
    own = right.role.rpartition("/")[2] == "slurm-operator-own"
    attributes |= {"namespace": "slinky" if own else "slurm", "name": "slurm-operator" if own else ""}
    groups = ["system:serviceaccounts", "system:authenticated"]
    spec = {"user": USER, "groups": groups, "resourceAttributes": attributes}
    answer = await world.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return not answer["status"]["allowed"]


async def words(world: World, right: Right) -> bool:
    """Whether a resource says what is missing: in a condition, or in an Event where its status cannot be written."""
    if right.resource.endswith("/status") and right.group == GROUP:
        events = await world.call("GET", "/apis/events.k8s.io/v1/namespaces/slurm/events")
        return any(each["reason"] == "Forbidden" and right.can_i in each["note"] for each in events["items"])
    return any(
        each["reason"] == "Forbidden" and right.can_i in each["message"]
        for value in (await world.resources()).values()
        for each in conditions(value)
    )


async def metric(world: World, right: Right) -> bool:
    """Whether the metric names it."""
    plain, _, part = right.resource.partition("/")
    kind = (f"{plain}.{right.group}" if right.group else plain) + (f"/{part}" if part else "")
    lines = [line for line in (await world.scrape()).splitlines() if line.startswith("slurm_operator_missing_right{")]
    return any(f'verb="{right.verb}"' in line and f'resource="{kind}"' in line for line in lines)


async def told(world: World, right: Right, since: int) -> None:
    """Until the log, the metric and, where there is one, a resource have named the right."""

    async def logged() -> bool:
        with world.process.log.open() as log:
            log.seek(since)
            return right.can_i in log.read()

    for holds in (logged, lambda: metric(world, right)):
        await eventually(holds)
    if has_object(right):
        await eventually(lambda: words(world, right))


async def test_every_right_has_a_way_to_be_needed() -> None:
    assert len(RIGHTS) > 90
    assert {right.key for right in RIGHTS if right.verb not in ("list", "watch")} == set(TOUCHES)


def name_of(right: Right) -> str:
    """How a test is called."""
    return f"{right.verb}-{right.resource}.{right.group or 'core'}".replace("/", "-")


@pytest.mark.parametrize("right", RIGHTS, ids=map(name_of, RIGHTS))
async def test_without_a_right_the_operator_says_so_and_recovers(world: World, right: Right) -> None:
    await world.until_well()
    lives, since = len(world.process.ended), world.process.log.stat().st_size
    undo: Undo | None = None
    try:
        async with without(world, right):
            undo = await touch_for(right)(world)
            try:
                await told(world, right, since)
            except TimeoutError:
                said = [each for value in (await world.resources()).values() for each in conditions(value)]
                spoken = json.dumps([each for each in said if each["reason"] == "Forbidden"], indent=1)
                pytest.fail(f"nobody said {right.can_i}\n{spoken}\n{world.process.log.read_text()[since:][-4000:]}")
    finally:
        if undo is not None:
            await undo()
    await world.until_well()
    log = world.process.log.read_text()[since:]
    assert "Traceback" not in log
    # Without its Lease it has to stop; everything else it lives through.
    ends = world.process.ended[lives:]
    assert ends == [] or (right.resource == "leases" and set(ends) == {1})


async def test_with_all_rights_nobody_speaks_of_them(world: World) -> None:
    await world.process.restart()
    since = world.process.log.stat().st_size
    await world.until_well()
    for plural, name in NAMES.items():
        await world.patch(f"{OURS}/{plural}/{name}", {"metadata": {"annotations": {"example.org/look": "now"}}})
    await world.until_well()
    assert "can-i" not in world.process.log.read_text()[since:]
