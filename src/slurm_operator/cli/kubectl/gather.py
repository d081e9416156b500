"""Reads what a diagnosis needs: a namespace of Kubernetes, and what Slurm reports through slurmctld's pod.

In: a client and a namespace. Out: `Facts`. What may not be read, or is not served, is left out; a Slurm that does not
answer is Silence with its reason. Called by the commands of `kubectl slurm`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from kube_runtime.client.client import Client
from kube_runtime.client.errors import KubeError, TimedOut
from kube_runtime.client.objects import (
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    RawObject,
    Resource,
)
from kube_runtime.text import printable, printable_lines
from slurm_operator.build import labels
from slurm_operator.cli.kubectl.parts import Parts
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Silence,
    Slurm,
    host_of,
    is_ready,
    label_of,
    name_of,
    spec_of,
    status_of,
)
from slurm_operator.diagnose.pod import MANY_RESTARTS
from slurm_operator.diagnose.scontrol import LISTS, arguments, command, slurm_facts
from slurm_operator.reconcile.resources import OURS
from slurm_operator.slurm.errors import SlurmError

EVENTS: Resource[RawObject] = Resource("", "v1", "events", "Event", RawObject)
STORAGE_CLASSES: Resource[RawObject] = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", RawObject, namespaced=False
)
READ: tuple[Resource[Any], ...] = (
    *OURS.values(),
    PODS,
    SERVICES,
    CONFIG_MAPS,
    CLAIMS,
    STATEFUL_SETS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    STORAGE_CLASSES,
)
T = TypeVar("T")
LOG_TAIL_LINES = 40
# Slurm writes about 9 kB of JSON for a job, and by default keeps 10,000 jobs: many jobs must not look like no answer.
SLURM_SECONDS = 20.0
MAX_LIST_BYTES = 256 * 1024 * 1024
# A log that takes longer is left out: an answer without it beats none.
LOG_SECONDS = 8.0
LOG_SIDECAR = "logfile"
SLURMDBD = labels.ACCOUNTING.daemon


class Asked:
    """What has not answered yet, for whoever waits."""

    def __init__(self) -> None:
        self._open: list[str] = []

    async def of(self, what: str, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work, which is counted as open until then."""
        self._open.append(what)
        try:
            return await work
        finally:
            self._open.remove(what)

    @property
    def text(self) -> str:
        """What is waited for."""
        return ", ".join(dict.fromkeys(self._open))


async def gather(client: Client, namespace: str, asked: Asked | None = None) -> Facts:
    """Everything that a diagnosis looks at; daemons that do not depend on each other are asked at the same time."""
    waits = asked or Asked()
    # Before anything is read: Slurm may take its time, and what is read here must not look older than it was.
    now = datetime.now(UTC).isoformat()
    read = await waits.of("the API server", _together(*(_list(client, resource, namespace) for resource in READ)))
    objects = {resource.kind: items for resource, items in zip(READ, read, strict=True) if items is not None}
    controllers = list(objects.get("Controller", {}).values())
    seen = Facts(namespace, objects)
    parts, names = Parts(client, seen), [name_of(each) for each in controllers]
    answers, secrets, databases, without_sssd = await asyncio.gather(
        asyncio.gather(*(_cluster(client, seen, parts, name, waits) for name in names)),
        waits.of("the API server", parts.secrets()),
        waits.of("slurmdbd (sacctmgr)", parts.databases()),
        waits.of("the login pods", parts.without_sssd()),
    )
    slurm = dict(zip(names, answers, strict=True))
    for name in (each for each, answer in slurm.items() if isinstance(answer, Silence)):
        objects.setdefault("Pod", {}).update(await waits.of("the API server", seen_again(client, seen, name)))
    silent = frozenset(name for name, problem in databases.items() if problem)
    logs = await waits.of("the logs of containers", _logs(client, seen, slurm, silent))
    return Facts(namespace, objects, slurm, logs, now, secrets, databases, without_sssd)


async def _together(*works: Coroutine[Any, Any, T]) -> list[T]:
    """The results of all; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _list(client: Client, resource: Resource[Any], namespace: str) -> dict[str, Object] | None:
    try:
        place = namespace if resource.namespaced else ""
        listing = await client.list(resource.raw(), place)
    except KubeError:
        # Without the Controllers nothing can be said: what keeps them from us is the answer. The rest may be missing.
        if resource.kind == "Controller":
            raise
        return None
    return {item.metadata.name: item.content() for item in listing.items}


async def _cluster(client: Client, seen: Facts, parts: Parts, name: str, waits: Asked) -> Slurm | Silence:
    """What one cluster's Slurm reports, with what its pending jobs wait for."""
    found = await waits.of(f"slurmctld of {name} (scontrol)", ask(client, seen, name))
    return await waits.of(f"limits of {name} (sacctmgr)", parts.more(name, found))


async def ask(client: Client, facts: Facts, controller: str) -> Slurm | Silence:
    """What a cluster's slurmctld says."""
    resource = facts.get("Controller", controller)
    if resource is not None and spec_of(resource).get("external"):
        return Silence("slurmctld runs outside of Kubernetes")
    pods = facts.pods_of(labels.CONTROLLER, controller)
    if not pods:
        return Silence("there is no slurmctld pod")
    try:
        return slurm_facts(*await _together(*(scontrol(client, facts, pods[0], *arguments(name)) for name in LISTS)))
    except TimedOut:
        return Silence(f"scontrol did not answer within {SLURM_SECONDS:g} s")
    except (KubeError, SlurmError, SlurmRefused) as error:
        return Silence(printable(str(error)))


async def seen_again(client: Client, facts: Facts, controller: str) -> dict[str, Object]:
    """The pods of a slurmctld that did not answer, as they are now: it may have been restarted since they were read."""
    found: dict[str, Object] = {}
    for pod in facts.pods_of(labels.CONTROLLER, controller):
        try:
            found[name_of(pod)] = (await client.get(PODS.raw(), name_of(pod), facts.namespace)).content()
        except KubeError:
            continue
    return found


class SlurmRefused(Exception):
    """A Slurm command failed."""


async def scontrol(client: Client, facts: Facts, pod: Object, *arguments: str) -> bytes:
    """What scontrol prints in a controller's pod."""
    ran = await client.run(
        facts.namespace,
        name_of(pod),
        command(*arguments),
        container="slurmctld",
        seconds=SLURM_SECONDS,
        max_bytes=MAX_LIST_BYTES,
    )
    if ran.code != 0:
        stderr = ran.stderr.decode(errors="replace").strip().splitlines()
        raise SlurmRefused(printable(stderr[-1]) if stderr else f"scontrol ended with code {ran.code}")
    return ran.stdout


async def _logs(
    client: Client, facts: Facts, slurm: Mapping[str, Slurm | Silence], silent: frozenset[str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    wanted = [(pod, name, again) for pod in facts.every("Pod") for name, again in _unwell(pod, slurm)]
    # Its pod stays ready when its database goes away.
    wanted += [(pod, SLURMDBD, False) for name in sorted(silent) for pod in facts.pods_of(labels.ACCOUNTING, name)]
    read = await asyncio.gather(*(_log_lines(client, facts, pod, name, again) for pod, name, again in wanted))
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for (pod, name, _), lines in zip(wanted, read, strict=True):
        # The sidecar prints what the daemon logs: its lines are the daemon's.
        daemon = str(label_of(pod).get(labels.NAME, name)) if name == LOG_SIDECAR else name
        found[name_of(pod), daemon] = (*found.get((name_of(pod), daemon), ()), *lines)
    return found


def _unwell(pod: Object, slurm: Mapping[str, Slurm | Silence]) -> Iterator[tuple[str, bool]]:
    """The containers whose logs matter, and whether those before their restart do."""
    statuses = status_of(pod).get("containerStatuses") or ()
    started = [*(status_of(pod).get("initContainerStatuses") or ()), *statuses]
    ready = is_ready(pod)
    if ready and not _is_lost_worker(pod, slurm):
        return
    for status in started:
        name, state = str(status.get("name")), status.get("state") or {}
        if not status.get("ready") or not ready or name in (LOG_SIDECAR, labels.WORKER.daemon):
            ended = bool((status.get("lastState") or {}).get("terminated"))
            again = not status.get("ready") and int(status.get("restartCount") or 0) >= MANY_RESTARTS
            yield name, ended and (not state.get("running") or again)


def _is_lost_worker(pod: Object, slurm: Mapping[str, Slurm | Silence]) -> bool:
    if label_of(pod).get(labels.NAME) != labels.WORKER.daemon:
        return False
    known = [
        each.nodes[host_of(pod)] for each in slurm.values() if isinstance(each, Slurm) and host_of(pod) in each.nodes
    ]
    answered = any(isinstance(each, Slurm) for each in slurm.values())
    return answered and (not known or bool(known[0].states & {"DOWN", "NOT_RESPONDING"}))


async def _log_lines(client: Client, facts: Facts, pod: Object, container: str, previous: bool) -> tuple[str, ...]:
    """The end of a container's log; it may have been restarted since its pod was read."""
    lines = await _tail(client, facts, pod, container, previous)
    return lines or await _tail(client, facts, pod, container, not previous)


async def _tail(client: Client, facts: Facts, pod: Object, container: str, previous: bool) -> tuple[str, ...]:
    try:
        lines = client.logs(
            facts.namespace,
            name_of(pod),
            container=container,
            tail=LOG_TAIL_LINES,
            previous=previous,
            seconds=LOG_SECONDS,
        )
        return tuple([printable_lines(line.rstrip("\r")) async for line in lines])
    except KubeError:
        return ()
