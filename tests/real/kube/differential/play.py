"""Plays one sequence of requests on one server and writes down what came back.

In: a server (address, token, CA), a namespace, steps. Out: a `Transcript`: status, headers that matter
and body of every answer, and the events of every watch. Called by `campaign.py` once per server.
"""

from __future__ import annotations

import asyncio
import copy
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
import msgspec
from tests.real.kube.differential.bodies import KINDS, SENTINEL, Json, sentinel
from tests.real.kube.differential.sequences import JSON, Step
from tests.real.kube.fake_nodes import lines_of

REFERENCE = re.compile(r"\$\{(rv|oldrv|uid|listrv|continue):([^}]*)\}")
NOBODY = "00000000-0000-0000-0000-000000000000"
FALLBACK = {"rv": "1", "oldrv": "1", "uid": NOBODY, "listrv": "", "continue": ""}
SETTLE_LOOKS, SETTLE_PAUSE = 500, 0.02
WATCH_END_SECONDS = 10.0


class Address(Protocol):
    """What is needed to talk to a server; a real cluster and the embedded server both have it."""

    @property
    def url(self) -> str: ...
    @property
    def token(self) -> str: ...
    @property
    def ca_pem(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, or one watch with all its events in the body."""

    status: int
    content_type: str
    warnings: tuple[str, ...]
    body: Any


@dataclass(slots=True)
class Transcript:
    """All answers of a sequence: one per step, then the final lists, then the watches."""

    namespace: str
    answers: list[Answer] = field(default_factory=list)
    finals: dict[str, Answer] = field(default_factory=dict)
    watches: dict[int, Answer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch that is being read in the background."""

    plural: str
    stream: aiohttp.ClientResponse
    events: list[Any]
    task: asyncio.Task[None]


@asynccontextmanager
async def session_of(server: Address) -> AsyncIterator[aiohttp.ClientSession]:
    """A session as administrator whose User-Agent gives the field manager `differ`."""
    headers = {"Authorization": f"Bearer {server.token}", "User-Agent": "differ/1.0"}
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=server.ca_pem), limit=0)
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as session:
        yield session


@dataclass(slots=True)
class Player:
    """One sequence on one server: remembers what the server said, to fill in later requests."""

    http: aiohttp.ClientSession
    namespace: str
    objects: dict[str, Json] = field(default_factory=dict)
    versions: dict[str, list[str]] = field(default_factory=dict)
    list_versions: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    watches: dict[int, Watch] = field(default_factory=dict)

    async def play(self, steps: list[Step]) -> Transcript:
        """All steps in order, then the end state, then what the watches saw."""
        transcript = Transcript(self.namespace)
        await self.prepare_namespace()
        try:
            for number, step in enumerate(steps):
                transcript.answers.append(await self.perform(number, step))
            if any(step.settle for step in steps):
                await self.settle()
            for kind in KINDS:
                transcript.finals[kind.plural] = await self.send(Step("GET", kind.collection))
            transcript.watches = await self.end_watches()
        finally:
            for watch in self.watches.values():
                watch.task.cancel()
                watch.stream.close()
            await asyncio.gather(*(watch.task for watch in self.watches.values()), return_exceptions=True)
        return transcript

    async def prepare_namespace(self) -> None:
        """A namespace of our own; what was left there by an earlier run would be a lie."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        answer = await self.send(Step("POST", "/api/v1/namespaces", {}, JSON, body))
        if answer.status != 201:
            raise RuntimeError(f"namespace {self.namespace}: {answer.status} {answer.body}")

    async def perform(self, number: int, step: Step) -> Answer:
        """Send one request, learn from its answer, wait for the collector where the step says so."""
        if step.watch:
            return await self.open_watch(number, step)
        answer = await self.send(step)
        if answer.status < 300 and not is_dry_run(step):
            self.learn(answer.body, step)
        if step.settle:
            await self.settle()
        return answer

    async def send(self, step: Step) -> Answer:
        """One request and its whole answer."""
        async with self.http.request(step.method, self.fill(step.path), **self.arguments(step)) as answer:
            return Answer(answer.status, media_type(answer), warnings_of(answer), decoded(await answer.read()))

    def arguments(self, step: Step) -> dict[str, Any]:
        """Query, headers and body, with this server's values filled in."""
        headers = {"Accept": step.accept or JSON}
        arguments: dict[str, Any] = {
            "params": {key: value for key, old in step.query.items() if (value := self.fill(old)) or not old},
            "headers": headers,
        }
        if step.content_type:
            headers["Content-Type"] = step.content_type
        if step.body is not None:
            arguments["data"] = step.body if isinstance(step.body, bytes) else self.encode(step)
        return arguments

    def encode(self, step: Step) -> bytes:
        """The body as bytes; over the object last seen, if the step says so."""
        body = self.fill_tree(step.body)
        if step.base:
            body = merged(self.objects.get(step.base) or self.stand_in(step), body)
        return msgspec.json.encode(body)

    def stand_in(self, step: Step) -> Json:
        """What to update when the object was never seen."""
        plural, name = step.base.split("/")
        kind = next(kind for kind in KINDS if kind.plural == plural)
        return sentinel(kind) | {"metadata": {"name": name, "namespace": self.namespace}}

    def fill(self, text: str) -> str:
        """Replace the namespace and the references in a text."""
        filled = text.replace("{ns}", self.namespace)
        return REFERENCE.sub(lambda match: self.known(match[1], match[2]), filled)

    def fill_tree(self, value: Any) -> Any:
        """Replace references everywhere in a JSON value."""
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, list):
            return [self.fill_tree(item) for item in value]
        if isinstance(value, dict):
            return {key: self.fill_tree(item) for key, item in value.items()}
        return value

    def known(self, what: str, target: str) -> str:
        """The value that a reference stands for on this server."""
        versions = self.versions.get(target, [])
        found: dict[str, str | None] = {
            "rv": versions[-1] if versions else None,
            "oldrv": versions[-2] if len(versions) > 1 else None,
            "uid": (self.objects.get(target) or {}).get("metadata", {}).get("uid"),
            "listrv": self.list_versions.get(target),
            "continue": self.tokens.get(target),
        }
        return found[what] or FALLBACK[what]

    def learn(self, body: Any, step: Step) -> None:
        """Remember objects, versions, list versions and continue tokens."""
        if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
            return
        plural = step.path.split("/namespaces/{ns}/")[-1].split("/")[0]
        if isinstance(body.get("items"), list):
            self.list_versions[plural] = body["metadata"].get("resourceVersion", "")
            self.tokens[plural] = body["metadata"].get("continue", "")
        elif body.get("kind") in {kind.kind for kind in KINDS}:
            self.remember(f"{plural}/{body['metadata'].get('name')}", body)

    def remember(self, key: str, body: Json) -> None:
        """The newest form of an object, and each version that it had."""
        self.objects[key] = body
        version, versions = body["metadata"].get("resourceVersion", ""), self.versions.setdefault(key, [])
        if version and version not in versions:
            versions.append(version)

    async def open_watch(self, number: int, step: Step) -> Answer:
        """Start to read a watch; a refusal is an answer like any other."""
        limits = aiohttp.ClientTimeout(total=None)
        path = self.fill(step.path)
        stream = await self.http.request(step.method, path, timeout=limits, **self.arguments(step))
        if stream.status != 200:
            return Answer(stream.status, media_type(stream), warnings_of(stream), decoded(await stream.read()))
        events: list[Any] = []
        task = asyncio.create_task(read_watch(stream, events))
        self.watches[number] = Watch(path.rsplit("/", 1)[1], stream, events, task)
        return Answer(200, media_type(stream), (), None)

    async def end_watches(self) -> dict[int, Answer]:
        """Create the object that every watch waits for, then collect what each saw."""
        for plural in sorted({watch.plural for watch in self.watches.values()}):
            kind = next(kind for kind in KINDS if kind.plural == plural)
            await self.send(Step("POST", kind.collection, {}, JSON, sentinel(kind)))
        tasks = [watch.task for watch in self.watches.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=WATCH_END_SECONDS)
        return {
            number: Answer(200, media_type(watch.stream), (), watch.events) for number, watch in self.watches.items()
        }

    async def settle(self) -> None:
        """Wait until the garbage collector has nothing left to do here; what it leaves undone will differ."""
        for _ in range(SETTLE_LOOKS):
            if not collector_has_work(await self.everything()):
                return
            await asyncio.sleep(SETTLE_PAUSE)

    async def everything(self) -> list[Json]:
        """All objects of the namespace, of every kind under test."""
        lists = [await self.send(Step("GET", kind.collection)) for kind in KINDS]
        return [item for answer in lists for item in answer.body.get("items", [])]


async def read_watch(stream: aiohttp.ClientResponse, events: list[Any]) -> None:
    """Collect events up to the sentinel, or to the end of the stream."""
    async for line in lines_of(stream.content):
        event = decoded(line)
        events.append(event)
        if event["object"].get("metadata", {}).get("name") == SENTINEL:
            return


def is_dry_run(step: Step) -> bool:
    """Whether the answer shows what is not so."""
    return "dryRun" in step.query or (isinstance(step.body, dict) and "dryRun" in step.body)


def collector_has_work(objects: list[Json]) -> bool:
    """Whether Kubernetes' rules ask the garbage collector for one more step."""
    uids = {item["metadata"]["uid"]: item for item in objects}
    return any(wants_collector(item, uids, objects) for item in objects)


def wants_collector(item: Json, uids: dict[str, Json], objects: list[Json]) -> bool:
    """Whether this object is waiting for the collector, and not for somebody's finalizer."""
    metadata = item["metadata"]
    finalizers = set(metadata.get("finalizers", ()))
    deleting = "deletionTimestamp" in metadata
    if deleting and finalizers & {"orphan", "kubernetes.io/pvc-protection"}:
        return True
    if deleting and "foregroundDeletion" in finalizers:
        return not any(blocks(each, metadata["uid"]) for each in objects)
    owners = metadata.get("ownerReferences", ())
    gone = [each for each in owners if each["uid"] not in uids]
    waiting = [each for each in owners if each["uid"] in uids and in_foreground(uids[each["uid"]])]
    if deleting:
        return False
    return bool(gone or waiting)


def in_foreground(item: Json) -> bool:
    """Whether an owner waits for its dependents to go first."""
    metadata = item["metadata"]
    return "deletionTimestamp" in metadata and "foregroundDeletion" in metadata.get("finalizers", ())


def blocks(item: Json, owner: str) -> bool:
    """Whether a dependent is itself stuck and so holds its owner back."""
    references = item["metadata"].get("ownerReferences", ())
    owned = any(each["uid"] == owner and each.get("blockOwnerDeletion") for each in references)
    return owned and "deletionTimestamp" in item["metadata"]


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, on copies; nothing else knows how an edit changes a remembered object."""
    if not isinstance(patch, dict):
        return patch
    result = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def media_type(answer: aiohttp.ClientResponse) -> str:
    """The media type without parameters."""
    return answer.headers.get("Content-Type", "").split(";")[0]


def warnings_of(answer: aiohttp.ClientResponse) -> tuple[str, ...]:
    """The Warning headers, in order."""
    return tuple(answer.headers.getall("Warning", []))


def decoded(content: bytes) -> Any:
    """JSON where it is JSON, text where not."""
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content.decode(errors="replace")
