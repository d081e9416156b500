"""R8: hostile manifests, at admission and through the whole operator with the webhook bypassed.

In: which part (`admission` or `operator`) and how many points. Out: a `Result`. A point at admission is named by kind,
path and value, `R8/NodeSet/spec.replicas/one`; one in the rig is `R8/operator-NodeSet/spec.replicas/one`. There the
hostile object stands beside healthy neighbours for a while and is deleted again; afterwards nothing of it may be left,
and nothing of others touched.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from zlib import crc32

import msgspec
from tests.campaigns.campaign import Outcome, Result
from tests.campaigns.hostile_points import OutOfTime, Trial, at_most, every, in_batches, in_workers, peak_bytes, traced
from tests.campaigns.hostile_schema import Place, largest, places
from tests.campaigns.hostile_values import BY_NAME as VALUE_NAMES
from tests.campaigns.hostile_values import VALUES, HostileValue, Path, hollow, replaced, shown
from tests.campaigns.hostile_world import CALM, OURS, HostileWorld, untrue
from tests.campaigns.rig import GROUP, NAMESPACE
from tests.campaigns.scenarios import CLAIMS, KEYS, REF

from slurm_operator.admission import review
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.structural import structural
from slurm_operator.api.validate import decode, schema_of
from slurm_operator.build import labels
from slurm_operator.build.refs import Refs
from slurm_operator.slurm import conf

PARTS = ("admission", "operator")
CPU_SECONDS = 0.3
HARD_SECONDS = 4.0
MEMORY_BYTES = 96 * 2**20
WINDOW_SECONDS = 8.0
ENDING_SECONDS = 10.0
BATCH = 10
# Of a new object and its neighbours, once the first seconds are over.
MOST_WRITES = 40
# The rig's API server is slow with more.
LARGEST_IN_RIG = 250_000
# One of so many points is tried; the largest values always are at admission.
SHARE_OWN = 1
SHARE_EMBEDDED = 24
SHARE_RIG = 30
SHARE_RIG_EMBEDDED = 2000
SHARE_RIG_BESIDE = 2
HOSTILE = "evil"
# Somebody else has objects of this name.
TAKEN = "taken"
# Lines that only an injection would bring into slurm.conf.
INJECTED = frozenset({("slurmuser", "root"), ("nodename", "evil")})

SPECS: dict[str, dict[str, Any]] = {
    "Controller": KEYS,
    "NodeSet": {**REF, "replicas": 1, "volumeClaimTemplates": CLAIMS},
    "LoginSet": {**REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}},
    "RestApi": REF,
    "Accounting": {
        **KEYS,
        "storageConfig": {"host": "mariadb", "passwordKeyRef": {"name": "database", "key": "password"}},
    },
    "Token": {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"], "lifetime": "24h"},
    "Partition": {**REF, "nodeSets": ["compute"]},
}
METADATA: tuple[Path, ...] = (
    ("metadata", "labels"),
    ("metadata", "labels", "a"),
    ("metadata", "annotations"),
    ("metadata", "annotations", "a"),
    ("metadata", "annotations", labels.FORCE_DELETE),
    ("metadata", "annotations", labels.CONFIG_CHECK),
    ("metadata", "annotations", labels.FORCE_KEY_ROTATION),
    ("metadata", "annotations", labels.PARTITION_FORCE_DELETE),
    ("metadata", "finalizers"),
    ("metadata", "finalizers", 0),
    ("metadata", "ownerReferences"),
    ("metadata", "creationTimestamp"),
    ("metadata", "generateName"),
)


def _in(part: str, *keys: str) -> tuple[Path, ...]:
    return tuple(("metadata", part, key) for key in keys)


# What else a user may write on, and where: pods and nodes that stand already, and what resources refer to.
BESIDE: dict[str, tuple[Path, ...]] = {
    "Pod": (
        *_in("annotations", labels.POD_DELETION_COST, labels.POD_CORDON, labels.OLD_POD_CORDON, labels.POD_DEADLINE),
        *_in("annotations", labels.CONDEMNED, labels.RELEASED_FOR_KEY, labels.SLURM_KEY_HASH, labels.ASSIGNED_NODE),
        *_in("labels", labels.POD_INDEX, labels.POD_HOSTNAME, labels.REVISION, "a"),
    ),
    "Node": (
        *_in("annotations", labels.NODE_CORDON_REASON, labels.TOPOLOGY, labels.FEATURES, labels.HOSTNAME_OVERRIDE),
        *_in("labels", "a"),
    ),
    "Secret": (("data", "key"), ("data",), ("stringData", "key"), ("type",)),
    "ConfigMap": (("data", "key"), ("data",), ("binaryData", "key")),
}


# What an older release, or a hand in the store, may have left of a Controller: types that nobody can decode.
STORED: tuple[Path, ...] = (("spec",), ("spec", "slurmKeyRef"), ("spec", "persistence"), ("metadata", "labels"))
UNDECODABLE = ("zero", "true", "list", "empty", "list-of-null", "fraction")


@dataclass(frozen=True, slots=True)
class ManifestPoint:
    """One value at one place of one kind."""

    kind: str
    path: Path
    value: HostileValue
    in_rig: bool = False

    @property
    def name(self) -> str:
        """What replays it."""
        kind = f"operator-{self.kind}" if self.in_rig else self.kind
        return f"R8/{kind}/{shown(self.path)}/{self.value.name}"


def manifest(kind: str, name: str = HOSTILE) -> dict[str, Any]:
    """A small resource that is right."""
    meta = {"name": name, "namespace": NAMESPACE, "uid": "uid-1", "generation": 1}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": SPECS[kind]}


# Points


@cache
def _places(kind: str) -> tuple[Place, ...]:
    return (*places(kind), *(Place(path, {}) for path in METADATA))


def every_point(kind: str, *, in_rig: bool) -> Iterator[ManifestPoint]:
    """Every place of a kind with every value, and with the largest that its schema allows."""
    yield from telling_points(kind, in_rig=in_rig)
    for place in _places(kind):
        for value in (*VALUES, *largest(place.schema)):
            yield ManifestPoint(kind, place.path, value, in_rig)


def telling_points(kind: str, *, in_rig: bool) -> Iterator[ManifestPoint]:
    """Values that do harm at one place only: names of others, names at their limit, one prefix for two NodeSets."""
    names = {
        "taken": TAKEN,
        "long": "x" * 63,
        "too-long": "x" * 64,
        "longest": "x" * 253,
        "dotted": "a.b",
        "digit": "7",
    }
    for title, name in names.items():
        yield ManifestPoint(kind, ("metadata", "name"), HostileValue(title, json.dumps(name).encode()), in_rig)
    for place in _own_places(kind):
        if str(place.path[-1]).endswith("KeyRef") or place.path[-1] in ("secretRef", "sssdConfRef"):
            for name, key in ((TAKEN, "theirs"), ("slurm-key", "slurm.key"), ("jwt-key", "jwt.key")):
                raw = json.dumps({"name": name, "key": key}).encode()
                yield ManifestPoint(kind, place.path, HostileValue(name, raw), in_rig)
    if kind == "NodeSet":
        pod = ("spec", "template", "spec")
        yield ManifestPoint(kind, (*pod, "subdomain"), HostileValue("elsewhere", b'"elsewhere"'), in_rig)
        yield ManifestPoint(kind, (*pod, "hostname"), HostileValue("twin", b'"compute-"'), in_rig)
        yield ManifestPoint(kind, ("spec", "scalingMode"), HostileValue("daemon", b'"DaemonSet"'), in_rig)


def admission_points() -> Iterator[ManifestPoint]:
    """What the schemas let through; thinned by name where the same types stand in many places."""
    for kind in SPECS:
        for point in every_point(kind, in_rig=False):
            share = SHARE_OWN if _is_own(point) else SHARE_EMBEDDED
            is_chosen = _is_telling(point) or crc32(point.name.encode()) % share == 0
            if (is_chosen or point.value.name.startswith("largest")) and is_let_through(point):
                yield point


def operator_points() -> Iterator[ManifestPoint]:
    """The same in the rig, fewer, and what users write on objects that are there."""
    for kind in SPECS:
        for point in every_point(kind, in_rig=True):
            share = SHARE_RIG if _is_own(point) else SHARE_RIG_EMBEDDED
            is_chosen = _is_telling(point) or crc32(point.name.encode()) % share == 0
            is_largest = _is_own(point) and point.value.name == "largest"
            if (is_chosen or is_largest) and is_let_through(point) and len(point.value.raw) <= LARGEST_IN_RIG:
                yield point
    yield from stored_points()
    for kind in BESIDE:
        for point in beside_points(kind):
            if _always(point) or crc32(point.name.encode()) % SHARE_RIG_BESIDE == 0:
                yield point


def _is_telling(point: ManifestPoint) -> bool:
    return point.value.name not in VALUE_NAMES and not point.value.name.startswith("largest")


def _always(point: ManifestPoint) -> bool:
    """What was seen to do harm once."""
    return (point.path[-1], point.value.name) == (labels.POD_DELETION_COST, "digits-text")


def stored_points() -> Iterator[ManifestPoint]:
    """A Controller that stands in the store and cannot be read."""
    for path in STORED:
        for name in UNDECODABLE:
            yield ManifestPoint("Stored", path, VALUE_NAMES[name], in_rig=True)


def beside_points(kind: str) -> Iterator[ManifestPoint]:
    """What may stand in Pods, Nodes, Secrets and ConfigMaps: texts alone, or anything in their data."""
    for path in BESIDE[kind]:
        for value in VALUES:
            data = decoded(value)
            if isinstance(data, str) or (path[-1] == "data" and isinstance(data, dict)):
                yield ManifestPoint(kind, path, value, in_rig=True)


def _is_own(point: ManifestPoint) -> bool:
    """Whether the place is of our own schema, not of a type that Kubernetes brings."""
    return any(place.path == point.path for place in _own_places(point.kind))


@cache
def _own_places(kind: str) -> tuple[Place, ...]:
    embedded_roots = {("slurmctld",), ("template", "spec"), ("service", "spec"), ("volumeClaimTemplates", 0)}
    return tuple(
        place
        for place in _places(kind)
        if place.path[0] == "metadata" or not any(place.path[1 : 1 + len(r)] == r for r in embedded_roots)
        if len(place.path) <= 3 or place.path[1] not in CONTAINERS
    )


CONTAINERS = frozenset({"slurmctld", "reconfigure", "logfile", "slurmd", "login", "initconf", "slurmrestd", "slurmdbd"})


def decoded(value: HostileValue) -> Any:
    """The value as an API server would have read it; None when it would not."""
    try:
        return msgspec.json.decode(value.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_let_through(point: ManifestPoint) -> bool:
    """Whether the schema allows it, as far as it can be read at all."""
    data = decoded(point.value)
    if data is None:
        # Nobody lets it through; a few show that it is refused all the same.
        return not point.in_rig and crc32(point.name.encode()) % 50 == 0
    raw = replaced(manifest(point.kind), point.path, data)
    return not any(True for _ in structural({"spec": raw["spec"]}, {**schema_of(point.kind), "required": []}))


# Admission


@cache
def namespace() -> Refs:
    """The neighbours that every review sees."""

    def known(kind: str, name: str) -> Any:
        found = decode(manifest(kind, name))
        assert found.resource is not None, found.problems
        return found.resource

    return Refs(
        controllers={"slurm": known("Controller", "slurm")},
        accountings={"books": known("Accounting", "books")},
        nodesets=(known("NodeSet", "compute"),),
        partitions=(known("Partition", "all"),),
        secrets={"slurm-key": {"slurm.key": b"k"}, "jwt-key": {"jwt.key": b"k"}, "sssd": {"sssd.conf": b"s"}},
        config_maps={"scripts": {"10-a.sh": "#!/bin/sh\n"}},
        kubernetes_nodes=3,
    )


def body(point: ManifestPoint) -> bytes:
    """The review of a new object."""
    asked = {
        "uid": "1",
        "kind": {"group": "slinky.slurm.net", "version": "v1beta1", "kind": point.kind},
        "operation": "CREATE",
        "namespace": NAMESPACE,
        "object": manifest(point.kind),
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    return hollow(document, ("request", "object", *point.path)).filled(point.value)


def attempt(point: ManifestPoint) -> list[str]:
    """What is wrong with the answer to a review."""
    sent, began, peak = body(point), time.process_time(), peak_bytes()
    wrong: list[str] = []
    try:
        with at_most(HARD_SECONDS):
            said = review.answer(sent, lambda _: namespace())
            wrong += _judged(point, said)
    except (Exception, OutOfTime) as error:
        wrong.append(f"admission: {traced(error)}")
    spent, grown = time.process_time() - began, peak_bytes() - peak
    if spent > CPU_SECONDS:
        wrong.append(f"admission: {len(sent)} bytes cost {spent:.2f} s of CPU")
    if grown > MEMORY_BYTES:
        wrong.append(f"admission: {len(sent)} bytes cost {grown >> 20} MiB")
    return wrong


def _judged(point: ManifestPoint, said: review.ReviewResponse) -> Iterator[str]:
    if said.result == "malformed" and decoded(point.value) is None:
        return
    if said.code != 200 or said.result not in ("allowed", "refused"):
        yield f"admission: {said.result} with {said.code}"
        return
    response = msgspec.json.decode(said.body)["response"]
    if response["allowed"]:
        yield from _readable(point)
        return
    causes = response["status"]["details"]["causes"]
    if not causes or not all(each["field"] and each["message"] for each in causes):
        yield "admission: refused without saying where"
    if not all(character.isprintable() for character in response["status"]["message"]):
        yield f"admission: refused in words that no terminal should show: {response['status']['message'][:80]!r}"


def _readable(point: ManifestPoint) -> Iterator[str]:
    """slurm.conf with an object that was let in has no line that nobody asked for."""
    raw = replaced(manifest(point.kind), point.path, decoded(point.value))
    resource = decode(raw, served=True).resource
    if resource is None:
        yield "admission: let in, but it cannot be read"
    elif point.kind in ("Controller", "NodeSet", "Partition"):
        from tests.property.oracle import assert_readable, with_resource

        refs = with_resource(namespace(), resource)
        for controller in refs.controllers.values():
            try:
                assert_readable(controller, refs)
            except AssertionError as error:
                yield f"admission: slurm.conf is not what was written: {str(error)[:200]}"


# The rig


async def settled() -> HostileWorld:
    """Two clusters at rest, workers that run jobs, and objects of others."""
    world = HostileWorld()
    await world.open()
    theirs = {"metadata": {"name": f"{TAKEN}-config"}, "data": {"theirs": "untouched"}}
    secret = {"metadata": {"name": TAKEN}, "data": {"theirs": "dW50b3VjaGVk"}}
    await world.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", theirs)
    await world.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
    await world.come_up(workers=2)
    world.slurm.submit(1_000_000.0)
    await world.go_on(5.0)
    return world


async def suffer(world: HostileWorld, points: Sequence[ManifestPoint]) -> list[str]:
    """Each point in turn: the object comes, stands for a while, and goes."""
    wrong: list[str] = []
    for number, point in enumerate(points):
        if point.kind == "Stored":
            return [*await _unreadable(world, point), *world.judge.violations]
        before = _foreign(world)
        for name in ("compute", CALM):
            await world.patch("NodeSet", name, {"spec": {"minReadySeconds": number % 2}})
        wrong += await (_beside(world, point) if point.kind in BESIDE else _stand(world, point, before))
        wrong += [f"foreign: {key} was changed" for key, data in before.items() if _foreign(world).get(key) != data]
    await world.go_on(ENDING_SECONDS)
    world.judge.at_rest()
    wrong += [*untrue(world), *_neighbours(world)]
    return [*world.judge.violations, *wrong]


async def _stand(world: HostileWorld, point: ManifestPoint, before: dict[str, str]) -> list[str]:
    made = await _create(world, point)
    if isinstance(made, str):
        return [made] if made else []
    await world.go_on(WINDOW_SECONDS / 2)
    world.arm()
    await world.go_on(WINDOW_SECONDS / 2)
    wrong = [*untrue(world), *_neighbours(world), *_told(world, point), *_injected(world, point)]
    if len(world.trace) > MOST_WRITES:
        wrong.append(f"hot: {len(world.trace)} writes in {WINDOW_SECONDS / 2:g} s: {world.trace[-3:]}")
    wrong += [f"foreign: {key} was changed" for key, data in before.items() if _foreign(world).get(key) != data]
    job = _work_there(world, made)
    await world.ask("DELETE", f"{_collection(point.kind)}/{made['metadata']['name']}")
    await world.go_on(ENDING_SECONDS / 2)
    if job:
        world.slurm.end(job)
    await world.go_on(ENDING_SECONDS)
    return [*wrong, *_left(world, point, made)]


def _work_there(world: HostileWorld, made: Any) -> int:
    """A job on the first worker of a NodeSet that is about to be deleted; 0 when it has none."""
    uid = made["metadata"]["uid"]
    for pod in world.stored("pods"):
        owners = pod["metadata"].get("ownerReferences") or ()
        if any(owner.get("uid") == uid for owner in owners) and world.slurm.alive(pod["spec"].get("hostname", "")):
            number = max(world.slurm.jobs, default=0) + 1
            world.slurm.occupy(number, pod["spec"]["hostname"])
            return number
    return 0


async def _create(world: HostileWorld, point: ManifestPoint) -> Any:
    """The object as the API server took it; a text when it refused, which is empty when that is its right."""
    raw = replaced(manifest(point.kind), point.path, decoded(point.value))
    for field in ("uid", "generation"):
        raw["metadata"].pop(field, None)
    headers = {"content-type": "application/json"}
    response = await world.server.handle("POST", _collection(point.kind), {}, headers, json.loads(json.dumps(raw)))
    if response.status >= 500:
        return f"API server: {response.status} {response.body[:200]!r}"
    return json.loads(response.body) if response.status < 300 else ""


def _collection(kind: str) -> str:
    if kind in ("Secret", "ConfigMap"):
        return f"/api/v1/namespaces/{NAMESPACE}/{kind.lower()}s"
    return f"/apis/{GROUP}/namespaces/{NAMESPACE}/{kind.lower()}s"


def _neighbours(world: HostileWorld) -> Iterator[str]:
    for name, count in (("compute", 2), ("more", 1), (CALM, 1)):
        item = world.custom("NodeSet", name)
        if (item.get("status") or {}).get("observedGeneration") != item["metadata"]["generation"]:
            yield f"neighbour: NodeSet {name} was not reconciled"
        if world.ready_pods(name) != count:
            yield f"neighbour: NodeSet {name} has {world.ready_pods(name)} of {count} workers"


def _told(world: HostileWorld, point: ManifestPoint) -> Iterator[str]:
    """The hostile object says what became of it, and is Ready only when all of its workers are."""
    for item in world.stored(f"{point.kind.lower()}s.slinky.slurm.net"):
        if not item["metadata"]["name"].startswith(HOSTILE) or item["metadata"].get("deletionTimestamp"):
            continue
        status = item.get("status") or {}
        said = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        if not said or status.get("observedGeneration") != item["metadata"]["generation"]:
            yield f"truth: {point.kind} {item['metadata']['name']} says nothing of its generation"
        wanted = item["spec"].get("replicas", 1)
        is_daemon = item["spec"].get("scalingMode") == "DaemonSet"
        ready = world.ready_pods(item["metadata"]["name"])
        if point.kind == "NodeSet" and not is_daemon and said.get("Ready") == "True" and ready != wanted:
            yield f"truth: it is Ready with {ready} of {wanted} workers"


def _injected(world: HostileWorld, point: ManifestPoint) -> Iterator[str]:
    if point.path[:2] == ("spec", "extraConf"):
        # Whoever may write slurm.conf's own lines writes lines.
        return
    for item in world.stored("configmaps"):
        text = (item.get("data") or {}).get("slurm.conf", "")
        for entry in conf.parse(text).entries if text else ():
            if (entry.key.lower(), entry.value.lower()) in INJECTED:
                yield f"injection: {item['metadata']['name']}: {entry.key}={entry.value}"


def _left(world: HostileWorld, point: ManifestPoint, made: Any) -> Iterator[str]:
    uid, name = made["metadata"]["uid"], made["metadata"]["name"]
    item = world.custom(point.kind, name)
    if item is not None and point.path[:2] != ("metadata", "finalizers"):
        said = {each["type"]: each["message"] for each in (item.get("status") or {}).get("conditions") or ()}
        if "run scontrol delete partitionname=" in said.get("Ready", ""):
            # Slurm's REST API cannot delete a partition of that name, and the condition says what can.
            return
        yield f"left: {point.kind} {name} does not go: {said.get('Ready', '')[:160]}"
        return
    for resource in world.server.store.resources():
        for row in world.server.store.rows(resource, NAMESPACE):
            owners = row.load()["metadata"].get("ownerReferences") or () if item is None else ()
            if any(owner.get("uid") == uid for owner in owners):
                yield f"left: {resource} {row.name}"


def _foreign(world: HostileWorld) -> dict[str, str]:
    """The content of what we do not own."""
    found = {}
    for resource in ("secrets", "configmaps"):
        for item in world.stored(resource):
            owners = item["metadata"].get("ownerReferences") or ()
            if not any(str(owner.get("apiVersion", "")).startswith("slinky.slurm.net/") for owner in owners):
                found[f"{resource} {item['metadata']['name']}"] = json.dumps(item.get("data"), sort_keys=True)
    return found


# A Controller that cannot be read


async def _unreadable(world: HostileWorld, point: ManifestPoint) -> list[str]:
    """Its NodeSet is deleted meanwhile: nobody can ask Slurm, so nobody goes, until it can be read again."""
    resource = "controllers.slinky.slurm.net"
    honest, busy = world.custom("Controller", "slurm"), world.slurm.jobs[1].nodes[0]
    world.server.store.put(resource, replaced(honest, point.path, decoded(point.value)))
    await world.go_on(WINDOW_SECONDS)
    await world.delete("NodeSet", "compute")
    await world.go_on(ENDING_SECONDS)
    wrong = [*untrue(world)]
    if world.custom("NodeSet", "compute") is None or not world.slurm.alive(busy):
        wrong.append("left: a worker with a job went although nobody could ask Slurm")
    if world.ready_pods(CALM) != 1:
        wrong.append("neighbour: the other cluster has lost its worker")
    kept = world.custom("Controller", "slurm")
    world.server.store.put(resource, {**honest, "metadata": {**honest["metadata"], **_versions(kept)}})
    world.slurm.end(1)
    await world.go_on(2 * ENDING_SECONDS)
    if world.pods():
        wrong.append(f"healing: {sorted(world.pods())} do not go")
    world.judge.at_rest()
    return wrong


def _versions(item: Any) -> dict[str, Any]:
    return {key: item["metadata"][key] for key in ("resourceVersion", "generation")}


# What users write on objects that are there


async def _beside(world: HostileWorld, point: ManifestPoint) -> list[str]:
    if not await _is_written(world, point):
        return []
    await world.go_on(WINDOW_SECONDS)
    wrong = [*untrue(world), *_others_reconciled(world)]
    await _undo(world, point)
    await world.go_on(ENDING_SECONDS)
    return wrong


def _others_reconciled(world: HostileWorld) -> Iterator[str]:
    for name in ("compute", CALM):
        item = world.custom("NodeSet", name)
        status = item.get("status") or {}
        if status.get("observedGeneration") != item["metadata"]["generation"]:
            yield f"neighbour: NodeSet {name} was not reconciled"
    if world.ready_pods(CALM) != 1:
        yield f"neighbour: NodeSet {CALM} has {world.ready_pods(CALM)} of 1 workers"


async def _is_written(world: HostileWorld, point: ManifestPoint) -> bool:
    """Write it where it belongs, and give the operator a reason to look; False when the API server refuses."""
    value = decoded(point.value)
    if point.kind in ("Secret", "ConfigMap"):
        return await _is_referred_to(world, point, value)
    target, change = f"/api/v1/namespaces/{NAMESPACE}/pods/compute-1", replaced({}, point.path, value)
    if point.kind == "Node":
        target, change = "/api/v1/nodes/k0", {**change, "spec": {"unschedulable": True}}
    response = await world.server.handle("PATCH", target, {}, {"content-type": "application/merge-patch+json"}, change)
    if response.status < 300 and point.kind == "Pod":
        # Somebody has to be chosen, by the marks of its pod.
        await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    return bool(response.status < 300)


async def _is_referred_to(world: HostileWorld, point: ManifestPoint, value: Any) -> bool:
    """A Secret or ConfigMap, and resources that refer to it."""
    held = replaced({"metadata": {"name": "odd"}}, point.path, value)
    headers = {"content-type": "application/json"}
    response = await world.server.handle("POST", _collection(point.kind), {}, headers, held)
    if response.status >= 300:
        return False
    secret = {"name": "odd", "key": "key"}
    if point.kind == "Secret":
        await world.create("Token", HOSTILE, {"username": "alice", "jwtKeyRef": secret})
        await world.create("LoginSet", HOSTILE, {**REF, "sssdConfRef": secret})
    else:
        scripts = {"configFileRefs": [{"name": "odd"}], "prologScriptRefs": [{"name": "odd"}]}
        await world.create("Controller", HOSTILE, {**KEYS, **scripts})
    return True


async def _undo(world: HostileWorld, point: ManifestPoint) -> None:
    if point.kind == "Pod":
        await world.patch("NodeSet", "compute", {"spec": {"replicas": 2}})
        pod = f"/api/v1/namespaces/{NAMESPACE}/pods/compute-1"
        if "compute-1" in world.pods():
            await world.ask("PATCH", pod, replaced({}, point.path, None), "application/merge-patch+json")
    elif point.kind == "Node":
        clean = {**replaced({}, point.path, None), "spec": {"unschedulable": None}}
        await world.ask("PATCH", "/api/v1/nodes/k0", clean, "application/merge-patch+json")
    else:
        for kind in OURS:
            if world.stored(f"{kind}.slinky.slurm.net", HOSTILE) is not None:
                await world.ask("DELETE", f"/apis/{GROUP}/namespaces/{NAMESPACE}/{kind}/{HOSTILE}")
        await world.ask("DELETE", f"{_collection(point.kind)}/odd")


# Runs


def run(part: str, step: int = 1, at_once: int = 1) -> Result:
    """One part of the campaign."""
    if part == "admission":
        return run_admission(every(list(admission_points()), step), at_once)
    began = time.monotonic()
    return Result(run_rig(every(list(operator_points()), step), at_once), time.monotonic() - began)


def run_admission(points: Sequence[ManifestPoint], at_once: int = 1) -> Result:
    """Points at admission."""
    return in_workers([point.name for point in points], lambda number: attempt(points[number]), at_once)


def run_rig(points: Sequence[ManifestPoint], at_once: int = 1) -> list[Outcome]:
    """Points through the whole operator."""
    alone = [[point] for point in points if point.kind == "Stored"]
    others = [point for point in points if point.kind != "Stored"]
    batches = [others[first : first + BATCH] for first in range(0, len(others), BATCH)]
    return in_batches(Trial(settled, suffer), [*alone, *batches], at_once)


def replay(name: str) -> Outcome:
    """One point again."""
    kind = name.split("/")[1]
    in_rig, kind = kind.startswith("operator-"), kind.removeprefix("operator-")
    if kind == "Stored":
        known = stored_points()
    else:
        known = beside_points(kind) if kind in BESIDE else every_point(kind, in_rig=in_rig)
    chosen = [point for point in known if point.name == name]
    if not chosen:
        raise SystemExit(f"there is no point {name}")
    if in_rig:
        return run_rig(chosen)[0]
    return run_admission(chosen).outcomes[0]
