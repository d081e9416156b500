"""The operator on a real control plane: what the examples ask for comes up, is repaired, stays, and then is quiet.

Slurm itself cannot be asked here, on purpose: nothing may be removed, everything may be created. The operator runs in
this process; pods run on fake nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml
from tests.campaigns.go_operator import GoOperator, written_by_go
from tests.real.kube.cluster import Cluster
from tests.real.kube.fake_nodes import fake_nodes

from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Call, Client
from kube_runtime.client.write import Write
from kube_runtime.clock import SystemClock
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.reconcile.operator import Operator, assemble
from slurm_operator.settings import Settings

pytestmark = pytest.mark.real_kube

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
GROUP = "/apis/slinky.slurm.net/v1beta1"
NODES = 12
PATIENCE = 90
QUIET_SECONDS = 60
MERGE = {"Content-Type": "application/merge-patch+json"}
PATHS = {
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Service": "/api/v1/namespaces/{}/services",
    "Pod": "/api/v1/namespaces/{}/pods",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Controller": GROUP + "/namespaces/{}/controllers",
    "NodeSet": GROUP + "/namespaces/{}/nodesets",
    "LoginSet": GROUP + "/namespaces/{}/loginsets",
    "RestApi": GROUP + "/namespaces/{}/restapis",
    "Accounting": GROUP + "/namespaces/{}/accountings",
    "Token": GROUP + "/namespaces/{}/tokens",
    "Partition": GROUP + "/namespaces/{}/partitions",
}
OURS = ("Controller", "NodeSet", "LoginSet", "RestApi", "Accounting", "Token", "Partition")
# What is true while Slurm gives no answer: Kubernetes' part is ready, Slurm's part is unknown.
READY = {
    "Controller": "True",
    "Accounting": "True",
    "RestApi": "True",
    "LoginSet": "True",
    "Token": "True",
    "NodeSet": "Unknown",
    "Partition": "Unknown",
}
WORKER = "app.kubernetes.io%2Fname%3Dslurmd"
numbers = itertools.count()


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again, for a limited time, until something holds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Place:
    """One namespace of the real cluster."""

    cluster: Cluster
    http: aiohttp.ClientSession
    name: str

    async def call(self, method: str, path: str, body: Any = None, headers: Json | None = None) -> Json:
        """One request that must succeed."""
        async with self.http.request(method, path, json=body, headers=headers) as answer:
            assert answer.status < 300, f"{method} {path}: {await answer.text()}"
            return dict(await answer.json())

    def path(self, kind: str, name: str = "") -> str:
        """Where a kind lives in this namespace."""
        return PATHS[kind].format(self.name) + (f"/{name}" if name else "")

    async def create(self, body: Json) -> Json:
        """Create an object here."""
        here = {**body, "metadata": {**body["metadata"], "namespace": self.name}}
        return await self.call("POST", self.path(body["kind"]), here)

    async def patch(self, kind: str, name: str, body: Json) -> Json:
        """Change an object, as somebody else than the operator."""
        return await self.call("PATCH", self.path(kind, name), body, MERGE)

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        await self.call("DELETE", self.path(kind, name))

    async def get(self, kind: str, name: str) -> Json | None:
        """An object, or None."""
        async with self.http.get(self.path(kind, name)) as answer:
            return dict(await answer.json()) if answer.status == 200 else None

    async def every(self, kind: str, query: str = "") -> list[Json]:
        """All objects of a kind."""
        return list((await self.call("GET", f"{self.path(kind)}?{query}"))["items"])

    async def workers(self) -> dict[str, str]:
        """The uids of the worker pods that nobody is taking down."""
        pods = await self.every("Pod", f"labelSelector={WORKER}")
        alive = (pod["metadata"] for pod in pods if not pod["metadata"].get("deletionTimestamp"))
        return {each["name"]: each["uid"] for each in alive}

    async def until(self, kind: str, name: str, wanted: Callable[[Json], bool]) -> Json:
        """Wait until an object is there and as wanted."""
        seen: Json | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    seen = await self.get(kind, name)
                    if seen is not None and wanted(seen):
                        return seen
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(f"{kind} {name} did not become as wanted; it is {yaml.safe_dump(seen)}")

    async def until_gone(self, kind: str, name: str) -> None:
        """Wait until an object is not there."""

        async def is_gone() -> bool:
            return await self.get(kind, name) is None

        await eventually(is_gone)

    async def until_workers(self, count: int) -> dict[str, str]:
        """Wait until there are so many workers."""

        async def are_there() -> bool:
            return len(await self.workers()) == count

        await eventually(are_there)
        return await self.workers()

    async def apply_example(self, name: str, without: Iterable[tuple[str, str]] = ()) -> list[Json]:
        """Create everything in an example; gives our own kinds back."""
        documents = list(yaml.safe_load_all((ROOT / "examples" / f"{name}.yaml").read_text()))
        left_out = set(without)
        wanted = [each for each in documents if (each["kind"], each["metadata"]["name"]) not in left_out]
        for document in wanted:
            await self.create(document)
        return [each for each in wanted if each["kind"] in OURS]

    async def until_reported(self, documents: Iterable[Json]) -> None:
        """Wait until every resource says what is expected of it without Slurm."""
        for document in documents:
            kind, name = document["kind"], document["metadata"]["name"]
            await self.until(kind, name, partial(says, kind="Ready", truth=READY[kind]))


@dataclass(slots=True)
class Running:
    """An operator in this process, and what it asked of the server."""

    operator: Operator
    calls: Counter[str] = field(default_factory=Counter)
    writes: list[str] = field(default_factory=list)

    def count(self, call: Call) -> None:
        """Remember one request."""
        kind = "log" if call.request.path.endswith("/log") else "watch"
        self.calls[kind if call.request.stream else call.request.method] += 1

    async def note(self, write: Write, _: BaseException | None) -> None:
        """Remember one write; the lease is written elsewhere."""
        why = "; ".join(map(str, write.why))
        self.writes.append(f"{write.verb} {write.resource.kind} {write.name} {write.subresource} {why}")

    @property
    def deleted_pods(self) -> int:
        """Pods that it took down."""
        return self.operator.writer.counts["delete", "Pod"]

    async def until_idle(self) -> None:
        """Wait until no resource is being worked on or waits for its turn."""

        async def is_idle() -> bool:
            return not any(each.running or len(each.queue) for each in self.operator.controllers.values())

        await eventually(is_idle)

    async def until_knows(self, kind: str, place: Place, name: str, version: str) -> None:
        """Wait until its cache has an object of this version or a later one, and it has acted on it."""

        async def is_seen() -> bool:
            seen = self.operator.observer.get(kind, place.name, name)
            return seen is not None and int(seen.metadata.resource_version) >= int(version)

        await eventually(is_seen)
        await self.until_idle()


def condition(resource: Json, kind: str) -> Json:
    """A condition by its type; empty when it is not there."""
    found = (each for each in resource.get("status", {}).get("conditions", ()) if each["type"] == kind)
    return next(found, {})


def says(resource: Json, kind: str, truth: str) -> bool:
    """Whether a condition of the present generation has this truth and a reason."""
    found = condition(resource, kind)
    generation = resource["metadata"]["generation"]
    return found.get("status") == truth and bool(found["reason"]) and found.get("observedGeneration") == generation


@contextlib.asynccontextmanager
async def running(place: Place, **settings: Any) -> AsyncIterator[Running]:
    """An operator for one namespace, for the length of the block."""
    chosen = Settings(**{"namespaces": (place.name,), "restapi_address": "http://127.0.0.1:9", **settings})
    target = kubeconfig.find(path=str(place.cluster.kubeconfig_path))
    async with Client.to(target) as client:
        operator = assemble(client, chosen, SystemClock(), OperatorMetrics())
        result = Running(operator)
        client.report, operator.writer.after = result.count, result.note
        task = asyncio.create_task(operator.run())
        try:
            yield result
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """Something that takes connections and never answers."""
    writers: list[asyncio.StreamWriter] = []

    async def listen(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


@pytest_asyncio.fixture
async def place(real_kube: Cluster) -> AsyncIterator[Place]:
    """A namespace of its own with our definitions, a volume for slurmctld's state, and nodes that run pods."""
    name = f"op-{next(numbers)}"
    async with real_kube.session() as http, fake_nodes(real_kube, NODES):
        here = Place(real_kube, http, name)
        await install_definitions(here)
        await here.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        volume = {
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "4Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/nowhere"},
                "claimRef": {"namespace": name, "name": "statesave-slurm-controller-0"},
            },
        }
        await here.call("POST", "/api/v1/persistentvolumes", volume)

        async def has_account() -> bool:
            return bool((await here.call("GET", f"/api/v1/namespaces/{name}/serviceaccounts"))["items"])

        await eventually(has_account)
        yield here


async def install_definitions(place: Place) -> None:
    """Our definitions, served; once for the whole cluster."""
    for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        definition = yaml.safe_load(path.read_text())
        where = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        async with place.http.post(where, json=definition) as answer:
            assert answer.status in {201, 409}, await answer.text()
    for kind in OURS:
        await eventually(partial(is_served, place, kind))


async def is_served(place: Place, kind: str) -> bool:
    """Whether the server knows a kind."""
    async with place.http.get(PATHS[kind].format("default")) as answer:
        return answer.status == 200


# Coming up


@pytest.mark.parametrize(
    ("example", "workers"),
    [("minimal", 1), ("accounting", 2), ("ldap-login", 2), ("tokens", 1), ("partitions", 10)],
)
async def test_every_kind_of_an_example_comes_up_without_slurm(place: Place, example: str, workers: int) -> None:
    documents = await place.apply_example(example)
    async with running(place) as ours:
        await place.until_reported(documents)
        await place.until_workers(workers)
        await ours.until_idle()
        assert ours.operator.writer.counts["create", "Pod"] >= workers
        assert ours.deleted_pods == 0


async def test_a_daemon_nodeset_has_a_worker_on_each_node_that_it_selects(place: Place) -> None:
    role = "node-role.kubernetes.io/slurm"
    documents = await place.apply_example("daemonset")
    try:
        await label_node(place, "fake-0", role, "")
        async with running(place):
            await place.until_reported(documents)
            await place.until_workers(1)
            await label_node(place, "fake-1", role, "")
            await place.until_workers(2)
            pods = await place.every("Pod", f"labelSelector={WORKER}")
            assert {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")} <= {"fake-0", "fake-1"}
    finally:
        await label_node(place, "fake-0", role, None)
        await label_node(place, "fake-1", role, None)


async def label_node(place: Place, name: str, label: str, value: str | None) -> None:
    """Set or take away a label of a node."""
    await place.call("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {label: value}}}, MERGE)


# Behind our back


async def test_a_child_that_somebody_edits_is_repaired(place: Place) -> None:
    documents = await place.apply_example("minimal")
    async with running(place):
        await place.until_reported(documents)
        before = await place.get("Service", "slurm-controller")
        assert before is not None
        selector = before["spec"]["selector"]
        stray = dict.fromkeys(selector, "nothing")
        edited = await place.patch("Service", "slurm-controller", {"spec": {"selector": stray}})
        assert edited["spec"]["selector"] == stray
        await place.until("Service", "slurm-controller", lambda it: it["spec"]["selector"] == selector)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("ConfigMap", "slurm-config"), ("Service", "slurm-controller"), ("StatefulSet", "slurm-controller")],
    ids=["ConfigMap", "Service", "StatefulSet"],
)
async def test_a_child_that_somebody_deletes_comes_back(place: Place, kind: str, name: str) -> None:
    documents = await place.apply_example("minimal")
    async with running(place):
        await place.until_reported(documents)
        before = await place.get(kind, name)
        assert before is not None
        await place.delete(kind, name)
        uid = before["metadata"]["uid"]
        after = await place.until(kind, name, lambda it: it["metadata"]["uid"] != uid)
        for part in ("data", "spec"):
            assert (after.get(part) or {}).keys() == (before.get(part) or {}).keys()


async def test_a_worker_that_somebody_deletes_comes_back_under_its_name(place: Place) -> None:
    documents = await place.apply_example("minimal")
    async with running(place):
        await place.until_reported(documents)
        (uid,) = (await place.until_workers(1)).values()
        await place.delete("Pod", "compute-0")
        await place.until("Pod", "compute-0", lambda it: it["metadata"]["uid"] != uid)


async def test_an_owned_leftover_is_pruned_and_a_stranger_is_not(place: Place) -> None:
    documents = await place.apply_example("minimal")
    async with running(place):
        await place.until_reported(documents)
        owner = await place.get("Controller", "slurm")
        assert owner is not None
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": "Controller",
            "name": "slurm",
            "uid": owner["metadata"]["uid"],
        }
        for name, controls in (("stranger", False), ("leftover", True)):
            owners = [{**reference, "controller": controls}]
            await place.create({"kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
        await place.until_gone("ConfigMap", "leftover")
        assert await place.get("ConfigMap", "stranger") is not None


async def test_metadata_of_a_resource_restarts_nothing(place: Place) -> None:
    documents = await place.apply_example("ldap-login")
    documents += [await place.create(restapi())]
    workloads = (("StatefulSet", "slurm-controller"), ("Deployment", "login"), ("Deployment", "slurm-restapi"))
    async with running(place) as ours:
        await place.until_reported(documents)
        await ours.until_idle()
        before = {name: await template(place, kind, name) for kind, name in workloads}
        pods = await uids(place, "Pod")
        mark = {"metadata": {"annotations": {"example.org/note": "new"}, "labels": {"example.org/team": "new"}}}
        for document in documents:
            kind, name = document["kind"], document["metadata"]["name"]
            changed = await place.patch(kind, name, mark)
            await ours.until_knows(kind, place, name, changed["metadata"]["resourceVersion"])
        assert {name: await template(place, kind, name) for kind, name in workloads} == before
        assert await uids(place, "Pod") == pods


async def template(place: Place, kind: str, name: str) -> Json:
    """The pod template of a workload: pods are replaced when it changes."""
    found = await place.get(kind, name)
    assert found is not None
    return dict(found["spec"]["template"])


async def uids(place: Place, kind: str) -> dict[str, str]:
    """Every object of a kind, by name."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in await place.every(kind)}


def restapi() -> Json:
    """A RestApi for the examples that have none."""
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "RestApi",
        "metadata": {"name": "slurm"},
        "spec": {"controllerRef": {"name": "slurm"}},
    }


# Rest


async def test_a_world_at_rest_sees_no_write_and_no_read(place: Place) -> None:
    documents = await place.apply_example("tokens")
    documents += [await place.create(each) for each in partitions()]
    async with running(place) as ours:
        await place.until_reported(documents)
        await place.until("Pod", "compute-0", lambda it: condition(it, "Ready").get("status") == "True")
        await place.until("NodeSet", "compute", lambda it: it["status"].get("readyReplicas") == 1)
        await ours.until_idle()
        writes, calls = len(ours.writes), Counter(ours.calls)
        await asyncio.sleep(QUIET_SECONDS)
        assert ours.writes[writes:] == []
        made = Counter(ours.calls) - calls
        # The pretended node runs no sidecar: its word on the configuration is waited for, at most once a second.
        assert made.pop("log", 0) <= QUIET_SECONDS
        assert made <= Counter(watch=calls["watch"])


def partitions() -> list[Json]:
    """The Partitions of the example, over the one NodeSet that the other example has."""
    documents = yaml.safe_load_all((ROOT / "examples" / "partitions.yaml").read_text())
    found = [each for each in documents if each["kind"] == "Partition"]
    return [{**each, "spec": {**each["spec"], "nodeSets": ["compute"]}} for each in found]


# Fail closed


@pytest.mark.parametrize("trouble", ["no RestApi", "a RestApi that never answers", "no JWT key"])
async def test_without_slurm_no_worker_goes_and_new_ones_come(place: Place, trouble: str) -> None:
    documents = await place.apply_example("minimal")
    if trouble != "no RestApi":
        await place.create(restapi())
    async with silent_server() as address, running(place, restapi_address=address) as ours:
        await place.until_reported(documents)
        await place.patch("NodeSet", "compute", {"spec": {"replicas": 3}})
        first = await place.until_workers(3)
        if trouble == "no JWT key":
            await place.delete("Secret", "slurm-auth-jwt")
        await place.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
        await place.until("NodeSet", "compute", lambda it: says(it, "Ready", "Unknown"))
        await place.patch("NodeSet", "compute", {"spec": {"replicas": 5}})
        second = await place.until_workers(5)
        assert first.items() <= second.items()
        assert ours.deleted_pods == 0


# Secrets


async def test_a_token_is_issued_and_renewed_before_it_ends(place: Place) -> None:
    documents = await place.apply_example("tokens")
    async with running(place):
        await place.until_reported(documents)
        await place.patch("Token", "ci", {"spec": {"lifetime": "6s"}})
        await place.delete("Secret", "ci-jwt-ci")
        first = await place.until("Secret", "ci-jwt-ci", lambda it: bool(jwt(it)))
        second = await place.until("Secret", "ci-jwt-ci", lambda it: jwt(it) != jwt(first))
        assert second["metadata"]["uid"] == first["metadata"]["uid"]


def jwt(secret: Json) -> bytes:
    """The token in a Secret."""
    return b64decode(secret["data"]["SLURM_JWT"])


async def test_login_host_keys_are_drawn_once(place: Place) -> None:
    documents = await place.apply_example("ldap-login")
    async with running(place):
        await place.until_reported(documents)
    secrets = await place.every("Secret")
    (name,) = (each["metadata"]["name"] for each in secrets if "ssh_host_rsa_key" in (each.get("data") or {}))
    before = await place.get("Secret", name)
    deployment = await place.get("Deployment", "login")
    assert before is not None
    assert deployment is not None
    await place.delete("Deployment", "login")
    async with running(place):
        uid = deployment["metadata"]["uid"]
        await place.until("Deployment", "login", lambda it: it["metadata"]["uid"] != uid)
        await place.until_reported(documents)
    assert await place.get("Secret", name) == before


# Two of them


async def test_of_two_operators_one_writes_and_the_other_takes_over(place: Place) -> None:
    settings = {"leader_elect": True, "leader_elect_namespace": place.name}
    documents = await place.apply_example("minimal")
    async with contextlib.AsyncExitStack() as first_stack, contextlib.AsyncExitStack() as second_stack:
        first = await first_stack.enter_async_context(running(place, **settings))
        second = await second_stack.enter_async_context(running(place, **settings))
        await place.until_reported(documents)
        assert sorted(bool(each.writes) for each in (first, second)) == [False, True]
        leader, other = (first_stack, second) if first.writes else (second_stack, first)
        await leader.aclose()
        await place.delete("ConfigMap", "slurm-config")
        await place.until("ConfigMap", "slurm-config", lambda it: bool(it["data"]))
        assert other.writes


# Taking over


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Where the Go operator writes: a namespace of the real cluster."""

    place: Place
    node: str = "fake-"

    @property
    def namespace(self) -> str:
        """Its name."""
        return self.place.name

    async def create(self, kind: str, name: str, spec: Mapping[str, Any]) -> Any:
        """One of our resources."""
        api = "slinky.slurm.net/v1beta1"
        return await self.place.create(
            {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
        )

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """A write of the Go operator's field manager."""
        headers = MERGE if method == "PATCH" else None
        return await self.place.call(method, f"{path}?fieldManager=manager", dict(body), headers)

    async def secret(self, name: str) -> Mapping[str, bytes]:
        """What a Secret holds."""
        held = await self.place.get("Secret", name)
        assert held is not None
        return {key: b64decode(value) for key, value in held["data"].items()}

    def now(self) -> float:
        """The time."""
        return SystemClock().now().timestamp()

    def started(self, name: str) -> None:
        """Fake nodes need no help."""


async def daemons(place: Place) -> dict[str, Any]:
    """Every pod by its uid, and every pod template."""
    found = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await place.every("Pod")}
    for kind in ("StatefulSet", "Deployment"):
        found |= {f"{kind} {each['metadata']['name']}": each["spec"]["template"] for each in await place.every(kind)}
    return found


async def test_a_cluster_of_the_go_operator_is_taken_over_without_a_restart(place: Place) -> None:
    secrets = {"slurm-key": "slurm.key", "jwt-key": "jwt.key", "database": "password", "sssd": "sssd.conf"}
    for name, key in secrets.items():
        await place.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: "x" * 40}}
        )
    await GoOperator(LeftBehind(place)).leave_a_cluster(*written_by_go())

    async def is_up() -> bool:
        pods = await place.every("Pod")
        return len(pods) == 6 and all(each["status"]["phase"] == "Running" for each in pods)

    await eventually(is_up)
    before = await daemons(place)
    kinds = {"slurm": ("Controller", "RestApi"), "books": ("Accounting",), "login": ("LoginSet",), "ci": ("Token",)}
    async with running(place) as ours:
        await place.until_reported(
            {"kind": kind, "metadata": {"name": name}} for name, some in kinds.items() for kind in some
        )
        await place.until_reported([{"kind": "NodeSet", "metadata": {"name": "compute"}}])
        await ours.until_idle()
    assert await daemons(place) == before
    assert ours.deleted_pods == 0
    path = f"/apis/policy/v1/namespaces/{place.name}/poddisruptionbudgets/slurm-workers-pdb-slurm"
    assert "maxUnavailable" not in (await place.call("GET", path))["spec"]
