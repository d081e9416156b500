"""Many clusters on one API server, a namespace for each, until each of them is ready and nobody writes any more.

In: an API server (embedded or real) and sets of objects, as helm renders them. Out: what is wrong with each after a
while, by name; nothing where it converged. Around the real operator everything is small: kubelets that only pretend,
a sidecar that applies what it is handed, one small Slurm for each namespace. What values leave to be made by others
(Secrets, ConfigMaps, claims, priority classes) is made here, by what the objects refer to.
Called by `test_converging.py` and, on a real API server, by `tests/real/helm/test_converging.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import yaml
from tests.campaigns.kubernetes import TRIAL, WORKER, features_of
from tests.campaigns.sidecar import verdict
from tests.campaigns.slurm_model import Line, SlurmModel
from tests.charts.rendering import NAMESPACE, ROOT, Object
from tests.real.kube.cluster import Cluster
from tests.real.kube.fake_nodes import STATUS_PATCH, FakeNodes, node_object, path_of

from kube_runtime.client.client import Client
from kube_runtime.client.write import Write
from kube_runtime.clock import Clock, SystemClock
from slurm_operator.api.kinds import KINDS
from slurm_operator.build import verdicts, worker_trial
from slurm_operator.build.controller import NOTE
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.plan.config import content_hash
from slurm_operator.reconcile.clusters import SlurmTarget
from slurm_operator.reconcile.operator import Operator, Outside, assemble
from slurm_operator.settings import Settings
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.token import TokenSource

GROUP = "slinky.slurm.net/v1beta1"
OURS = {kind.name: kind.plural for kind in KINDS}
PATIENCE_SECONDS = 300.0
QUIET_SECONDS = 5.0
NODES = 4
# Room for every worker that a form asks for.
ROOM = {"cpu": "100000", "memory": "1000Ti", "pods": "5000", "nvidia.com/gpu": "100000", "ephemeral-storage": "100Ti"}
# So many namespaces are made at once.
AT_ONCE = 25
# Ports from here on are given to nobody who asks for none, as long as there are others.
FIRST_NODE_PORT = 30000


# What there is


@dataclass(slots=True)
class Slurms:
    """A small Slurm for each namespace, and what its sidecar has printed."""

    models: dict[str, SlurmModel] = field(default_factory=dict)
    lines: dict[str, list[str]] = field(default_factory=dict)

    def add(self, namespace: str, key: bytes) -> None:
        """A cluster of this namespace, as soon as somebody asks for it."""
        self.models[namespace] = SlurmModel(SystemClock(), key)
        self.models[namespace].up = True
        self.lines[namespace] = []

    def connect(self, target: SlurmTarget, token: TokenSource, clock: Clock) -> SlurmClient:
        """The operator's way to one of them."""
        _, _, namespace = target.address.partition("://")[2].partition(":")[0].partition(".")
        model = self.models[namespace]
        model.cluster_name = target.cluster_name or model.cluster_name
        return SlurmClient(
            target.address, token, cluster=target.cluster_name, transport=Line(model), monotonic=clock.monotonic
        )

    def take(self, namespace: str, files: Mapping[str, str]) -> None:
        """A sidecar finds new files."""
        line = verdict(content_hash(files), verdicts.APPLIED, "", verdicts.VERSION)
        if line not in self.lines[namespace][-1:]:
            self.lines[namespace].append(line)
            self.models[namespace].read_config(files.get("slurm.conf", ""))

    def printed(self, namespace: str) -> str:
        """The log of a sidecar."""
        return "".join(f"{line}\n" for line in self.lines.get(namespace, ()))


@dataclass(slots=True)
class Kubelets(FakeNodes):
    """Pretended kubelets whose workers register with the Slurm of their namespace."""

    slurms: Slurms = field(default_factory=Slurms)

    async def start(self, pod: Object) -> None:
        """A pod runs; a trial of slurmd is over at once."""
        labels = pod["metadata"].get("labels") or {}
        if TRIAL.items() <= labels.items():
            body = json.dumps({"status": _tried()}).encode()
            await self.write("PATCH", f"{path_of(pod)}/status", body, STATUS_PATCH)
            return
        # A class has no super() without arguments when it has slots.
        await FakeNodes.start(self, pod)
        model = self.slurms.models.get(pod["metadata"]["namespace"])
        if model is not None and WORKER.items() <= labels.items():
            model.register(pod["spec"]["hostname"], features_of(pod))

    async def finish(self, pod: Object) -> None:
        """A pod stops."""
        model = self.slurms.models.get(pod["metadata"]["namespace"])
        if model is not None and model.alive(pod["spec"].get("hostname", "")):
            model.stop_slurmd(pod["spec"]["hostname"], "its pod is gone")
        await FakeNodes.finish(self, pod)


def _tried() -> Object:
    line = f'worker-trial version=1 stage={worker_trial.ACCEPTED} reason=""'
    ended = {"exitCode": 0, "reason": "Completed", "message": line}
    container = {"name": "slurmd", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    return {"phase": "Succeeded", "containerStatuses": [{**container, "state": {"terminated": ended}}]}


@dataclass(slots=True)
class World:
    """An API server with our definitions, nodes and one operator."""

    http: aiohttp.ClientSession
    slurms: Slurms
    kubelets: Kubelets
    operator: Operator
    # Whether somebody makes a ServiceAccount in each namespace, without which no pod comes in.
    makes_accounts: bool = True
    writes: Counter[str] = field(default_factory=Counter)
    # Namespaces whose ConfigMaps may be new.
    touched: set[str] = field(default_factory=set)
    paths: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    node_ports: Iterator[int] = field(default_factory=lambda: itertools.count(FIRST_NODE_PORT))

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Object]:
        """One request as the administrator."""
        # Without spaces, as Go writes it: an API server keeps the bytes of a revision.
        data = json.dumps(body, separators=(",", ":")).encode() if body is not None else None
        sent = {"Content-Type": "application/json", **headers}
        async with self.http.request(method, path, data=data, headers=sent) as answer:
            return answer.status, json.loads(await answer.read())

    async def note(self, write: Write, _: BaseException | None) -> None:
        """The operator has written something."""
        self.writes[write.namespace] += 1
        if write.resource.kind in {"ConfigMap", "Pod", "StatefulSet"}:
            self.touched.add(write.namespace)

    async def path(self, value: Object) -> str:
        """Where an object is created."""
        key = value["apiVersion"], value["kind"]
        if key not in self.paths:
            group = value["apiVersion"]
            base = f"/apis/{group}" if "/" in group else f"/api/{group}"
            _, served = await self.call("GET", base)
            for each in served.get("resources", ()):
                if "/" not in each["name"]:
                    self.paths[group, each["kind"]] = f"{base}/{each['name']}", each["namespaced"]
        path, namespaced = self.paths[key]
        root, _, plural = path.rpartition("/")
        return f"{root}/namespaces/{value['metadata']['namespace']}/{plural}" if namespaced else path

    async def create(self, value: Object) -> str:
        """Create an object; what the server says against it."""
        status, answer = await self.call("POST", await self.path(value), value)
        if status in {200, 201}:
            return ""
        return f"{value['kind']} {value['metadata']['name']}: {answer.get('message')}"

    # What lives beside the operator

    async def sidecars(self) -> None:
        """Apply what is handed over, for ever."""
        while True:
            touched, self.touched = self.touched, set()
            for namespace in sorted(touched & self.slurms.models.keys()):
                _, found = await self.call("GET", f"/api/v1/namespaces/{namespace}/configmaps")
                maps = {each["metadata"]["name"]: each.get("data") or {} for each in found["items"]}
                for name, data in maps.items():
                    if name.endswith("-config") and "slurm.conf" in data:
                        candidate = maps.get(f"{name}-candidate") or data
                        files = {key: text for key, text in candidate.items() if key != NOTE}
                        self.slurms.take(namespace, files)
            await asyncio.sleep(0.2)

    async def volumes(self) -> None:
        """A volume for each claim that waits for one, for ever."""
        while True:
            _, found = await self.call("GET", "/api/v1/persistentvolumeclaims")
            for claim in found["items"]:
                if claim["status"].get("phase") == "Pending" and not claim["spec"].get("volumeName"):
                    await self.call("POST", "/api/v1/persistentvolumes", volume_for(claim))
            await asyncio.sleep(1.0)


def volume_for(claim: Object) -> Object:
    """A volume that only this claim can have."""
    spec, meta = claim["spec"], claim["metadata"]
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return {
        "metadata": {"name": f"for-{meta['uid']}", "labels": labels},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "hostPath": {"path": "/nowhere"},
            "storageClassName": spec.get("storageClassName") or "",
            "claimRef": {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
        },
    }


# What values leave to others


def relocated(objects: Iterable[Object], namespace: str, ports: Iterator[int]) -> list[Object]:
    """The objects in a namespace of their own, with what is cluster-wide under a name or number of their own."""
    made: list[Object] = json.loads(json.dumps(list(objects)))
    classes = {each["metadata"]["name"] for each in made if each["kind"] == "PriorityClass"}
    for each in made:
        if each["kind"] != "PriorityClass":
            each["metadata"]["namespace"] = namespace
        _rename(each, {name: f"{name}-{namespace}" for name in classes}, ports)
    return made


def _rename(value: Any, names: Mapping[str, str], ports: Iterator[int]) -> None:
    """Within an object: other names of priority classes, other node ports."""
    if isinstance(value, list):
        for each in value:
            _rename(each, names, ports)
    if not isinstance(value, dict):
        return
    if value.get("kind") == "PriorityClass":
        value["metadata"]["name"] = names[value["metadata"]["name"]]
    for key, each in value.items():
        if key == "priorityClassName":
            value[key] = names.get(each, each)
        elif key == "nodePort" and each:
            value[key] = next(ports)
        else:
            _rename(each, names, ports)


def elsewhere(objects: Iterable[Object], namespace: str) -> list[Object]:
    """What the objects refer to and do not bring."""
    objects = list(objects)
    there = {(each["kind"], each["metadata"]["name"]) for each in objects}
    made: dict[tuple[str, str], Object] = {}
    for each in objects:
        for needed in _references(each.get("spec") or {}):
            key = needed["kind"], needed["metadata"]["name"]
            if key not in there:
                data = {**made.get(key, {}).get("data", {}), **needed.get("data", {})}
                made[key] = {**needed, **({"data": data} if data else {})}
    for each in made.values():
        if each["kind"] != "PriorityClass":
            each["metadata"]["namespace"] = namespace
    return list(made.values())


def _references(value: Any, key: str = "") -> Iterator[Object]:
    if isinstance(value, list):
        for each in value:
            yield from _references(each, key)
    elif isinstance(value, dict):
        if name := value.get("name"):
            yield from _of_name(key, name, value)
        for inner, each in value.items():
            yield from _references(each, inner)
    elif isinstance(value, str) and value and key in {"existingClaim", "claimName"}:
        room = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": value}, "spec": room}
    elif isinstance(value, str) and value and key == "priorityClassName" and not value.startswith("system-"):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": value}}
        yield {**kind, "value": 1000}


def _of_name(key: str, name: str, value: Object) -> Iterator[Object]:
    meta = {"apiVersion": "v1", "metadata": {"name": name}}
    if key in {"slurmKeyRef", "jwtKeyRef", "passwordKeyRef", "sssdConfRef"}:
        text = b"[sssd]\n" if key == "sssdConfRef" else b"k" * 48
        yield {**meta, "kind": "Secret", "data": {value.get("key") or "sssd.conf": b64encode(text).decode()}}
    elif key == "jwksKeyRef":
        yield {**meta, "kind": "ConfigMap", "data": {value.get("key") or "jwks.json": '{"keys": []}'}}
    elif key == "configFileRefs":
        yield {**meta, "kind": "ConfigMap", "data": {"plugstack.conf": "# Nothing.\n"}}
    elif key.endswith("ScriptRefs"):
        yield {**meta, "kind": "ConfigMap", "data": {f"{name}.sh": "#!/usr/bin/bash\nexit 0\n"}}


def jwt_key(objects: Iterable[Object]) -> bytes:
    """The key of the tokens that this Slurm takes."""
    objects = list(objects)
    for each in objects:
        if each["kind"] == "Controller":
            ref = each["spec"]["jwtKeyRef"]
            (held,) = (one for one in objects if one["kind"] == "Secret" and one["metadata"]["name"] == ref["name"])
            return b64decode(held["data"][ref["key"]])
    return b""


# Putting a world together


def definitions() -> Iterator[Object]:
    """Our CustomResourceDefinitions, and as much of others' as the charts write."""
    for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        yield yaml.load(path.read_text(), yaml.CSafeLoader)
    for group, kind in (
        ("monitoring.coreos.com", "ServiceMonitor"),
        ("monitoring.coreos.com", "PrometheusRule"),
        ("cert-manager.io", "Certificate"),
        ("cert-manager.io", "Issuer"),
    ):
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        plural = f"{kind.lower()}s"
        names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": spec,
        }


def node(number: int, kubelet_port: int) -> Object:
    """A node with room for everything."""
    made = node_object(f"fake-{number}", 1, "1Gi", 1)
    made["metadata"]["labels"] |= {"pool": "system"}
    made["status"] |= {"capacity": ROOM, "allocatable": ROOM}
    made["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
    if kubelet_port:
        made["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": kubelet_port}}
    return made


@contextlib.asynccontextmanager
async def world(
    cluster: Cluster,
    client: Client,
    slurms: Slurms,
    settings: Settings,
    *,
    kubelet_port: int = 0,
    start: asyncio.Event | None = None,
) -> AsyncIterator[World]:
    """An operator on an API server, for as long as the block lasts; with `start`, from then on."""
    async with cluster.session() as http:
        for each in definitions():
            async with http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=each) as answer:
                assert answer.status in {201, 409}, await answer.text()
        nodes = [node(number, kubelet_port) for number in range(NODES)]
        kubelets = Kubelets(http, frozenset(each["metadata"]["name"] for each in nodes), slurms=slurms)
        await asyncio.gather(*(kubelets.register(each) for each in nodes))
        outside = Outside(_host_keys, connect=slurms.connect)
        operator = assemble(client, settings, SystemClock(), OperatorMetrics(), outside)
        made = World(http, slurms, kubelets, operator, makes_accounts=bool(kubelet_port))
        operator.writer.after = made.note
        await until(lambda: _are_served(made))
        work = (kubelets.run(), _operated(operator, start), made.sidecars(), made.volumes())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield made
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _operated(operator: Operator, start: asyncio.Event | None) -> None:
    if start is not None:
        await start.wait()
    await operator.run()


async def _host_keys() -> dict[str, bytes]:
    kinds = ("rsa", "ecdsa", "ed25519")
    private = {f"ssh_host_{kind}_key": b"private" for kind in kinds}
    return private | {f"ssh_host_{kind}_key.pub": b"public\n" for kind in kinds}


async def _are_served(made: World) -> bool:
    answers = [await made.call("GET", f"/apis/{GROUP}/{plural}") for plural in OURS.values()]
    return all(status == 200 for status, _ in answers)


async def until(holds: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> None:
    """Ask again and again, for a limited time, until something holds."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110  # a server is polled, there is no event
            await asyncio.sleep(0.3)


# Converging


async def converge(here: World, sets: Mapping[str, list[Object]]) -> dict[str, list[str]]:
    """Bring in every set of objects, and say of each what is wrong with it in the end."""
    found: dict[str, list[str]] = {}
    there: dict[str, str] = {}
    new: set[str] = set()
    for name, objects in sets.items():
        namespace = f"form-{next(here.numbers)}"
        found[name] = await bring_in(here, namespace, objects)
        if not found[name]:
            there[namespace] = name
            new.add(namespace)
        if len(new) == AT_ONCE:
            await _until_well(here, new)
            new.clear()
    await _until_well(here, new)
    unquiet = await _until_quiet(here, set(there))
    # On a busy machine Slurm may be slow to answer for a moment, and a resource says so.
    unwell = await _until_well(here, set(there))
    for namespace, name in there.items():
        found[name] += [*unwell.get(namespace, ()), *unquiet.get(namespace, ())]
    return found


async def bring_in(here: World, namespace: str, objects: list[Object]) -> list[str]:
    """`helm install` of one set; what is said against it."""
    mine = relocated(objects, namespace, here.node_ports)
    others = elsewhere(mine, namespace)
    here.slurms.add(namespace, jwt_key([*mine, *others]))
    await here.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    await until(lambda: _has_account(here, namespace))
    said = [await here.create(each) for each in others if each["kind"] != "PriorityClass"]
    for each in others:
        if each["kind"] == "PriorityClass":
            await here.call("POST", await here.path(each), each)
    said += [await here.create(each) for each in mine]
    here.touched.add(namespace)
    return [each for each in said if each]


async def _has_account(here: World, namespace: str) -> bool:
    status, _ = await here.call("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
    return status == 200 or not here.makes_accounts


async def _until_well(here: World, waiting: set[str]) -> dict[str, list[str]]:
    """Wait until each cluster was as it should be once; what is wrong with the others when patience ends."""
    end, unwell = time.monotonic() + PATIENCE_SECONDS, await _unwell(here, waiting)
    while unwell and time.monotonic() < end:
        await asyncio.sleep(0.5)
        unwell = await _unwell(here, set(unwell))
    return unwell


async def _unwell(here: World, waiting: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind, plural in OURS.items():
        _, listed = await here.call("GET", f"/apis/{GROUP}/{plural}")
        for each in listed["items"]:
            wrong = list(complaints(kind, each))
            if wrong and each["metadata"]["namespace"] in waiting:
                found.setdefault(each["metadata"]["namespace"], []).extend(wrong)
    return found


# A condition that is not this is not as it should be.
GOOD = {"Degraded": "False", "Progressing": "False"}
# Nobody reports what becomes of a configuration where there is no sidecar, and the condition says so.
WITHOUT_SIDECAR = ("ConfigApplied", "Unknown", "NotReported")


def complaints(kind: str, value: Object) -> Iterator[str]:
    """What a resource says is not well with it."""
    meta, conditions = value["metadata"], (value.get("status") or {}).get("conditions") or ()
    if not conditions:
        yield f"{kind} {meta['name']} has no conditions"
    for each in conditions:
        if each["observedGeneration"] != meta["generation"]:
            yield f"{kind} {meta['name']} {each['type']} is of an older generation"
        elif (each["type"], each["status"], each["reason"]) == WITHOUT_SIDECAR and not _has_sidecar(value):
            continue
        elif each["status"] != GOOD.get(each["type"], "True"):
            yield f"{kind} {meta['name']} {each['type']}={each['status']} {each['reason']}: {each['message']}"


def _has_sidecar(controller: Object) -> bool:
    return controller["spec"].get("inplaceReconfigure") is not False


async def _until_quiet(here: World, namespaces: set[str]) -> dict[str, list[str]]:
    """Wait until nobody has written for a while; who did not rest when patience ends."""
    end, restless = time.monotonic() + PATIENCE_SECONDS, Counter[str]()
    while time.monotonic() < end:
        before = Counter(here.writes)
        await asyncio.sleep(QUIET_SECONDS)
        restless = here.writes - before
        if not restless:
            failing = {key for each in here.operator.controllers.values() for key in each.queue.failing}
            return {key.namespace: [f"{key} fails again and again"] for key in failing}
    return {each: [f"{count} writes in {QUIET_SECONDS:g} s"] for each, count in restless.items() if each in namespaces}


# The operator's own chart

CLUSTER_WIDE = frozenset({"ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration"})


async def install(here: World, sets: Mapping[str, list[Object]]) -> dict[str, list[str]]:
    """Bring in every set of objects of the operator's chart, and say of each what is wrong with it in the end."""
    found: dict[str, list[str]] = {}
    waiting: dict[str, str] = {}
    for name, objects in sets.items():
        number = next(here.numbers)
        mine = installed_as(objects, number)
        spaces = {each["metadata"]["namespace"] for each in mine if "namespace" in each["metadata"]}
        for space in spaces:
            await here.call("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
            await until(lambda at=space: _has_account(here, at))  # type: ignore[misc]  # bound
        said = [await _installed(here, each) for each in [*_accounts(mine), *mine]]
        found[name] = [each for each in said if each]
        waiting |= dict.fromkeys(spaces, name)
    end, unavailable = time.monotonic() + PATIENCE_SECONDS, await _unavailable(here, waiting)
    while unavailable and time.monotonic() < end:
        await asyncio.sleep(0.5)
        unavailable = await _unavailable(here, waiting)
    for space, said in unavailable.items():
        found[waiting[space]] += said
    return found


def installed_as(objects: Iterable[Object], number: int) -> list[Object]:
    """The objects of one installation beside others."""
    made: list[Object] = json.loads(json.dumps(list(objects)))
    for each in made:
        meta = each["metadata"]
        if each["kind"] in CLUSTER_WIDE:
            meta["name"] = f"{meta['name']}-{number}"
        else:
            # helm puts what names no namespace into that of the release.
            meta["namespace"] = f"{meta.get('namespace', NAMESPACE['slurm-operator'])}-{number}"
        if each.get("roleRef", {}).get("kind") == "ClusterRole":
            each["roleRef"]["name"] = f"{each['roleRef']['name']}-{number}"
        for subject in each.get("subjects", ()):
            subject["namespace"] = f"{subject['namespace']}-{number}"
    return made


def _accounts(objects: Iterable[Object]) -> Iterator[Object]:
    """The accounts that are made by others."""
    objects = list(objects)
    there = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    for each in objects:
        if each["kind"] == "Deployment":
            name, space = each["spec"]["template"]["spec"]["serviceAccountName"], each["metadata"]["namespace"]
            if name not in there:
                there.add(name)
                meta = {"name": name, "namespace": space}
                yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}


async def _installed(here: World, value: Object) -> str:
    if value["kind"] != "ValidatingWebhookConfiguration":
        return await here.create(value)
    # In force it would ask an admission server that does not run.
    status, answer = await here.call("POST", f"{await here.path(value)}?dryRun=All", value)
    return "" if status == 201 else f"ValidatingWebhookConfiguration: {answer.get('message')}"


async def _unavailable(here: World, waiting: Mapping[str, str]) -> dict[str, list[str]]:
    _, listed = await here.call("GET", "/apis/apps/v1/deployments")
    found: dict[str, list[str]] = {}
    for each in listed["items"]:
        meta, available = each["metadata"], each.get("status", {}).get("availableReplicas", 0)
        if meta["namespace"] in waiting and available != each["spec"]["replicas"]:
            found.setdefault(meta["namespace"], []).append(f"Deployment {meta['name']} has {available} pods")
    return found
