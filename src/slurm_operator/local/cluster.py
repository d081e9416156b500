"""One local cluster as a whole: up, down, reset, apply, and how it is.

In: a `Home` and choices. Out: a running cluster, objects in its API, `Health`. Called by `slurm-operator local`, by the
demo and by tests. Nothing here prints: progress is reported to a function.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kube_local.node import network
from kube_local.node.paths import Paths
from kube_runtime.client import requests
from kube_runtime.client.client import Client
from kube_runtime.client.errors import KubeError, NotFound
from kube_runtime.client.objects import (
    CLAIMS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    STATEFUL_SETS,
    RawObject,
    Resource,
    by_kind,
    resource_of,
)
from kube_runtime.client.write import Effect, Writer
from slurm_operator.api.crd import definitions
from slurm_operator.api.meta import API_VERSION
from slurm_operator.build import images, labels
from slurm_operator.local import machine, stopping, supervisor
from slurm_operator.local.home import PARTS, SUPERVISOR, Choices, Home, LocalError
from slurm_operator.local.image import build, recipe, rules, store
from slurm_operator.local.image.progress import Progress, Report
from slurm_operator.local.parts import answers, client_of
from slurm_operator.local.readiness import Key, State, problems, state, states_with_leftovers
from slurm_operator.local.supervisor import PartRecord
from slurm_operator.reconcile.resources import ALL, OURS

Json = Mapping[str, Any]
MANAGER = "slurm-operator-local"
DEFAULT_NAMESPACE = "default"
START_SECONDS = 30.0
LOOK_SECONDS = 0.25
WAITED_FOR: tuple[Resource[Any], ...] = (NODES, CLAIMS, *OURS.values(), STATEFUL_SETS, DEPLOYMENTS, PODS)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a cluster is."""

    name: str
    data: str
    supervisor: int
    answers: bool
    agent_answers: bool
    parts: list[PartRecord]
    objects: list[State] = []
    problems: list[str] = []

    @property
    def healthy(self) -> bool:
        """Whether everything that should run does."""
        running = bool(self.supervisor) and all(part.is_running for part in self.parts)
        answer = self.answers and self.agent_answers
        return running and answer and not self.problems and all(each.ready for each in self.objects)

    @property
    def waited_for(self) -> list[State]:
        """What is not ready yet, and is waited for."""
        return [each for each in self.objects if not each.ready and not each.left_out]

    @property
    def ready_without_leftovers(self) -> bool:
        """Whether everything is healthy except for leftovers of an earlier run, which nobody waits for."""
        return msgspec.structs.replace(self, objects=[each for each in self.objects if not each.left_out]).healthy


# --- up ---------------------------------------------------------------------------------------------------------------


def prepare(home: Home, choices: Choices, progress: Report) -> Choices:
    """Everything that must be there before the parts: programs, the image, rules, the network, a port."""
    machine.require(home.data, progress)
    cache = Path(choices.cache) if choices.cache else store.default_cache()
    build.build(choices.slurm, cache, progress)
    before = home.choices()
    running = supervisor.supervisor_pid(home) != 0
    port = _port(choices.port, before, running=running)
    chosen = msgspec.structs.replace(choices, port=port, cache=str(cache.resolve()))
    home.data.mkdir(parents=True, exist_ok=True)
    home.data.chmod(0o700)
    rules.write_default(home.rules, chosen.slurm)
    network.ensure(home.data)
    home.keep(chosen)
    return chosen


def _port(asked: int, before: Choices | None, *, running: bool) -> int:
    if before is not None and running:
        if asked not in {0, before.port}:
            raise LocalError(f"the cluster runs on port {before.port}: take it down before you give it another one")
        return before.port
    wanted = asked or (before.port if before else 0)
    return machine.free_port(wanted, must=bool(asked))


async def start(home: Home, progress: Report, seconds: float = START_SECONDS) -> None:
    """Start the supervisor if none runs, and wait until the API answers and the nodes are served."""
    if not supervisor.supervisor_pid(home):
        stale = [record for record in supervisor.read_parts(home).values() if record.is_running]
        if not stale:
            Paths.of(home.data).socket.unlink(missing_ok=True)
        progress(Progress("start the API server, the node agent, the controllers and the operator"))
        supervisor.detach(home)
    deadline = time.monotonic() + seconds
    while not (await _agent_answers(home) and await answers(home)):
        if time.monotonic() > deadline:
            raise LocalError(f"the cluster did not start within {seconds:g} s: {_why_not(home)}")
        await asyncio.sleep(LOOK_SECONDS / 5)


def _why_not(home: Home) -> str:
    """The last line of a part that ended, or of the supervisor."""
    for part, record in supervisor.read_parts(home).items():
        if record.restarts or not record.is_running:
            return f"{part} says: {last_line(home.log(part))} (full log: slurm-operator local logs {part})"
    return f"see {home.log(SUPERVISOR)}"


def last_line(path: Path) -> str:
    """The last line of a log that says something."""
    try:
        lines = path.read_text(errors="replace").splitlines()[-50:]
    except OSError:
        return "nothing"
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")


# --- applying ---------------------------------------------------------------------------------------------------------


async def apply(home: Home, objects: Sequence[Json]) -> dict[str, list[str]]:
    """Our CRDs, the namespaces that are named, then the objects; answers which were created, changed and left."""
    applied: dict[str, list[str]] = {each.value: [] for each in (Effect.CREATED, Effect.CHANGED, Effect.UNCHANGED)}
    async with client_of(home) as client:
        there = {space.metadata.name for space in (await client.list(NAMESPACES)).items}
        objects = with_images(objects, home.require().slurm)
        wanted = [*definitions(), *missing_namespaces(objects, there), *objects]
        known = ALL
        for position, item in enumerate(sorted(wanted, key=_rank)):
            if position == len(definitions()):
                # Only now are our kinds served.
                known = (*ALL, *await discover(client))
            effect = await _apply_one(Writer(client, known, MANAGER), item)
            is_unchanged = effect is Effect.CHANGED and _has_name_only(item)
            applied[Effect.UNCHANGED.value if is_unchanged else effect.value].append(_title(item))
    return applied


def _has_name_only(item: Json) -> bool:
    """Whether a manifest has only a name, like that of a Namespace: applying it changes nothing."""
    return item.keys() <= {"apiVersion", "kind", "metadata"} and item["metadata"].keys() <= {"name", "namespace"}


def _title(item: Json) -> str:
    namespace, name = item["metadata"].get("namespace"), item["metadata"]["name"]
    return f"{item['kind']} {namespace}/{name}" if namespace else f"{item['kind']} {name}"


async def _apply_one(writer: Writer, item: Json) -> Effect:
    title = f"{item['kind']} {item['metadata']['name']}"
    try:
        return (await writer.apply(in_namespace(encoded(item), writer.resources))).effect
    except KeyError as error:
        raise LocalError(f"{title}: {error.args[0]}; local mode serves no such kind") from error
    except KubeError as error:
        raise LocalError(f"{title} was refused: {error}") from error


# The container of each kind whose image says which Slurm it is.
_CONTAINERS = {
    "Controller": "slurmctld",
    "Accounting": "slurmdbd",
    "RestApi": "slurmrestd",
    "LoginSet": "login",
    "NodeSet": "slurmd",
}


def with_images(objects: Sequence[Json], version: str) -> list[Json]:
    """Resources that name no image get one of that Slurm: the operator would take its own default for them."""
    same = version == recipe.DEFAULT_VERSION
    return [item if same or item.get("apiVersion") != API_VERSION else _with_image(item, version) for item in objects]


def _with_image(item: Json, version: str) -> Json:
    name = _CONTAINERS.get(str(item.get("kind")))
    spec = item.get("spec") or {}
    container = (spec.get(name) or {}) if name and isinstance(spec, Mapping) else None
    if name is None or not isinstance(container, Mapping) or container.get("image"):
        return item
    image = f"{images.REPOSITORY}/{name}:{version}"
    return {**item, "spec": {**spec, name: {**container, "image": image}}}


def encoded(item: Json) -> Json:
    """A Secret as it will be stored, so that it can be compared with the one that is there."""
    if item.get("kind") != "Secret" or not isinstance(item.get("stringData"), Mapping):
        return item
    plain = {key: b64encode(str(text).encode()).decode() for key, text in item["stringData"].items()}
    rest = {key: value for key, value in item.items() if key != "stringData"}
    return {**rest, "data": {**(item.get("data") or {}), **plain}}


def in_namespace(item: Json, known: Sequence[Resource[Any]]) -> Json:
    """An object that says no namespace is in the one that kubectl would put it in."""
    metadata = item["metadata"]
    if metadata.get("namespace") or not resource_of(item, by_kind(tuple(known))).namespaced:
        return item
    return {**item, "metadata": {**metadata, "namespace": DEFAULT_NAMESPACE}}


_FIRST = ("CustomResourceDefinition", "Namespace", "StorageClass", "ServiceAccount", "Secret", "ConfigMap")
# With its NodeSets and Partitions there, a Controller's first slurm.conf is already the whole one.
_LAST = ("Controller", "RestApi", "LoginSet")


def _rank(item: Json) -> int:
    """What others refer to comes first."""
    kind = str(item.get("kind"))
    if kind in _LAST:
        return len(_FIRST) + 1 + _LAST.index(kind)
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def missing_namespaces(objects: Sequence[Json], there: Container[str]) -> list[dict[str, Any]]:
    """Namespaces that objects are in, that are not there and that nobody has written down."""
    written = {item["metadata"]["name"] for item in objects if item.get("kind") == "Namespace"}
    named = {str((item.get("metadata") or {}).get("namespace") or "") for item in objects} - {""}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in sorted(named - written)
        if name not in there
    ]


async def discover(client: Client) -> tuple[Resource[RawObject], ...]:
    """Every kind that the API server has."""
    groups = (await _get(client, "/apis")).get("groups") or ()
    versions = ["v1", *(version["groupVersion"] for group in groups for version in group["versions"])]
    found = []
    for each in versions:
        listed = await _get(client, f"/apis/{each}" if "/" in each else f"/api/{each}")
        group, _, version = each.rpartition("/")
        found += [
            Resource(group, version, one["name"], one["kind"], RawObject, namespaced=one["namespaced"])
            for one in listed.get("resources") or ()
            if "/" not in one["name"]
        ]
    return tuple(found)


async def _get(client: Client, path: str) -> dict[str, Any]:
    request = requests.Request(method="GET", path=path, what=f"get {path}", repeat=requests.Repeat.ALWAYS)
    answer: dict[str, Any] = msgspec.json.decode(await client.send(request))
    return answer


# --- how it is --------------------------------------------------------------------------------------------------------


async def objects_of(client: Client) -> list[dict[str, Any]]:
    """Everything that is waited for."""
    found: list[dict[str, Any]] = []
    for resource in WAITED_FOR:
        try:
            listed = await client.list(resource.raw())
        except NotFound:
            # An `up` that was cut off early has not applied our kinds.
            continue
        found += [{"kind": resource.kind, **item.content()} for item in listed.items]
    return found


async def health(home: Home, applied: Collection[Key] | None = None) -> Health:
    """The state of the cluster; `applied` are the objects to wait for, None for all."""
    choices = home.require()
    parts = list(supervisor.read_parts(home).values())
    pid = supervisor.supervisor_pid(home)
    alive = await answers(home)
    found: list[dict[str, Any]] = []
    if alive:
        async with client_of(home) as client:
            found = await objects_of(client)
    return Health(
        name=choices.name,
        data=str(home.data),
        supervisor=pid,
        answers=alive,
        agent_answers=await _agent_answers(home),
        parts=parts,
        objects=(marked := states_with_leftovers(found, applied)),
        problems=problems(found, {each.key for each in marked if each.left_out}),
    )


async def _agent_answers(home: Home) -> bool:
    """Whether the node agent takes requests: one that was killed leaves its socket."""
    try:
        _, writer = await asyncio.open_unix_connection(Paths.of(home.data).socket)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


@dataclass(slots=True)
class Readiness:
    """Polls until everything that was `applied` is ready, or everything if it is None."""

    home: Home
    applied: Collection[Key] | None = None
    now: Health | None = None
    _steady: int = 0

    async def look(self) -> bool:
        """Whether it is ready; keeps the state that it saw."""
        self.now = await health(self.home, self.applied)
        # Twice in a row, since the operator may be about to create more objects.
        self._steady = (
            self._steady + 1 if self.now.ready_without_leftovers and all_nodes_registered(self.home, self.now) else 0
        )
        return self._steady >= 2


async def being_deleted(home: Home, objects: Sequence[Json]) -> list[Key]:
    """Which of these objects are being deleted: whatever is applied to one of them is deleted with it."""
    found = []
    async with client_of(home) as client:
        known = by_kind((*ALL, *await discover(client)))
        for item in objects:
            try:
                resource = resource_of(item, known)
                body = in_namespace(item, tuple(known.values()))["metadata"]
                live = await client.get(resource.raw(), body["name"], body.get("namespace") or "")
            except (KeyError, NotFound):
                continue
            if live.metadata.deletion_timestamp:
                found.append((resource.kind, str(body.get("namespace") or ""), str(body["name"])))
    return found


def keys_of(objects: Iterable[Json]) -> frozenset[Key]:
    """The keys of these objects."""
    heads = ((str(item.get("kind")), item.get("metadata") or {}) for item in objects)
    return frozenset(
        (kind, str(head.get("namespace") or DEFAULT_NAMESPACE), str(head.get("name") or "")) for kind, head in heads
    )


def all_nodes_registered(home: Home, now: Health) -> bool:
    """Whether every virtual node has registered."""
    return sum(each.kind == "Node" for each in now.objects) >= home.require().nodes


def not_ready(now: Health, seconds: float) -> str:
    """What is still not ready after the wait, one line each."""
    lines = [f"not everything is ready after {seconds:g} s:"]
    lines += [f"  {part.name} does not run ({part.last_exit})" for part in now.parts if not part.is_running]
    lines += [f"  {each.title}: {each.message}" for each in now.waited_for]
    lines += [f"  {sentence}" for sentence in now.problems]
    return "\n".join([*lines, "  what it is doing now: slurm-operator local status"])


class LoginPod(msgspec.Struct, frozen=True):
    """Where a person can run Slurm's commands."""

    namespace: str
    name: str
    container: str


async def login_pod(home: Home, namespace: str | None = None) -> LoginPod:
    """A ready login pod; the controller's where there is no login set."""
    home.require()
    if not await answers(home):
        raise LocalError("the cluster is not running: start it with slurm-operator local up")
    async with client_of(home) as client:
        pods = [pod.content() for pod in (await client.list(PODS.raw(), namespace or "")).items]
    for component in (labels.LOGIN, labels.CONTROLLER):
        for pod in pods:
            found = state({"kind": "Pod", **pod})
            if pod["metadata"].get("labels", {}).get(labels.NAME) == component.daemon and found and found.ready:
                return LoginPod(found.namespace, found.name, component.daemon)
    raise LocalError("there is no ready login pod: apply a LoginSet, and see slurm-operator local status")


def restart_part(home: Home, part: str) -> None:
    """End a part, so that the supervisor starts it with the newest choices."""
    record = supervisor.read_parts(home)[part]
    if record.is_running:
        asyncio.run(supervisor.end(record))


# --- down -------------------------------------------------------------------------------------------------------------


def down(home: Home, progress: Report) -> bool:
    """Stop everything; objects, volumes and certificates stay for the next `up`."""
    home.require()
    machine.require_root()
    if not supervisor.supervisor_pid(home) and not stopping.has_pods(home):
        # The supervisor may have ended and left something behind.
        stopping.stop_pods(home)
        return supervisor.stop(home)
    progress(Progress("set nodes with jobs down in Slurm"))
    stopping.take_nodes_down(home)
    progress(Progress("stop the operator, the controllers, the node agent and the API server"))
    ran = supervisor.stop(home)
    progress(Progress(f"stop the pods: containers that do not end by themselves have {stopping.GRACE_SECONDS:.0f} s"))
    pods = stopping.stop_pods(home)
    return ran or pods > 0


def reset(home: Home, progress: Report) -> bool:
    """Leave nothing of the cluster on this machine; images stay in the cache."""
    if not home.data.exists():
        return False
    machine.require_root()
    require_ours(home)
    supervisor.stop(home)
    progress(Progress("end the pods"))
    stopping.stop_pods(home, grace=0.0)
    progress(Progress("remove the data folder"))
    stopping.remove_folder(home)
    return True


def require_ours(home: Home) -> None:
    """A mistyped --data must not cost somebody a folder."""
    known = {home.choices_file.name, home.lock_file.name, home.parts_file.name, Paths.of(home.data).network.name}
    names = {entry.name for entry in home.data.iterdir()}
    if names and not names & known:
        raise LocalError(f"{home.data} is not the folder of a local cluster: nothing was removed")


def part_names() -> tuple[str, ...]:
    """The parts that have logs."""
    return (*PARTS, SUPERVISOR)
