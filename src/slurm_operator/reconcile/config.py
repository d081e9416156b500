"""A Controller's configuration in its turn: partitions live first, then the pipeline of `plan/config.py`.

In: what was built, both ConfigMaps, the controller pods and what their sidecars logged. Out: `Settled`: the ConfigMaps
as they shall be, the pods to nudge, conditions, `status.config`, and when to look again. The log is read only while a
sidecar's word is waited for, or stands against what is wanted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kube_runtime.client.errors import Forbidden, KubeError
from kube_runtime.client.objects import Pod
from kube_runtime.loop.clock import Clock
from kube_runtime.text import whole_number
from kube_runtime.times import parse_seconds, time_text
from slurm_operator.api.controller import ConfigStatus, Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import controller, images, labels, names
from slurm_operator.build.metadata import Object
from slurm_operator.build.slurm_conf import FILE, keeps_partitions, slurm_conf
from slurm_operator.plan import daemons
from slurm_operator.plan.actions import Action, PatchMetadata
from slurm_operator.plan.config import (
    ConfigPlan,
    ConfigWorld,
    ControllerPod,
    Files,
    Stage,
    Verdict,
    content_hash,
    last_verdict,
    linted,
    note,
    plan_config,
)
from slurm_operator.plan.daemons import AT_START, SENT, Census
from slurm_operator.plan.partition import declared, with_lines
from slurm_operator.reconcile import live_partitions
from slurm_operator.reconcile.clusters import PARTITION_SECONDS, Cluster, Clusters
from slurm_operator.reconcile.config_history import kept
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import Settled, World
from slurm_operator.slurm.conf_lint import Finding
from slurm_operator.slurm.model import Unknown
from slurm_operator.status import config as status
from slurm_operator.status.conditions import DEGRADED, PROGRESSING, Statement, yes

log = logging.getLogger(__name__)

SIDECAR = "reconfigure"
LOG_TAIL_LINES = 40
# A verdict is a few hundred bytes; an image that prints more than this is not listened to.
LOG_TAIL_BYTES = 256 * 1024
# Seconds between looks: while the sidecar works; before slurmctld has started, or when it takes long; otherwise.
TRYING = 0.15
STARTING = 1.0
SETTLED = 5.0
WAITING = 1.0
# How long a log is read at each pace before nobody is thought to speak; (until that age, seconds between readings).
PACES = ((5.0, TRYING), (60.0, STARTING))
SELDOM = 10.0
# After so many seconds of silence a pod is told once more: its kubelet may have looked a moment too early.
NUDGED_AGAIN = (1.0, 5.0, 20.0, 60.0)
MOST_JOBS = 10
NOT_VALID = (Stage.INVALID, Stage.REFUSED, Stage.ROLLED_BACK)

# (namespace, pod, container, how many lines) -> the last lines that a container printed.
Logs = Callable[[str, str, str, int], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class _Known:
    """What one turn knows of a configuration."""

    cr: Controller
    wanted: Files
    told: str
    world: ConfigWorld
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class _Hearing:
    """What the sidecars of some pods were last heard to say of one candidate."""

    about: tuple[str, ...]
    since: float
    read_at: float = float("-inf")
    words: Mapping[str, Verdict | None] = field(default_factory=dict)
    # Why a log may not be read.
    denied: str = ""
    # Whether another candidate was handed over just before: what was said of this one then is not believed.
    overtook: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether all have said what became of it."""
        return bool(self.words) and all(word and word.hash == self.about[0] for word in self.words.values())

    def pace(self, now: float) -> float:
        """Seconds between readings: the longer nobody speaks, the more."""
        return next((seconds for until, seconds in PACES if now - self.since < until), SELDOM)


@dataclass(slots=True)
class Configurations:
    """Settles the configuration of Controllers."""

    observer: Observer
    executor: Executor
    clusters: Clusters
    clock: Clock
    logs: Logs
    # By the uid of a Controller, since a namesake is another one: the last files that were linted, and what came of it.
    _linted: dict[str, tuple[str, tuple[Finding, ...]]] = field(default_factory=dict)
    _heard: dict[str, _Hearing] = field(default_factory=dict)
    # By Controller: the slurm.conf that was last handed to the sidecars.
    _offered: dict[str, str] = field(default_factory=dict)

    async def settle(self, world: World[Controller], objects: list[Object]) -> Settled:
        """One turn."""
        cr = world.cr
        if cr.spec.external:
            return Settled(objects)
        built = next(each for each in objects if _is_config(each, cr))
        before = self._config_map(cr.namespace, names.config(cr))
        cluster = await self._cluster(world, before)
        partitions = await self._partitions(world, built["data"], before, cluster)
        wanted = {**built["data"], FILE: partitions.text}
        known = self._known(cr, wanted, before, live=partitions.live_way, frozen=world.frozen)
        plan = await self._plan(known)
        self._offered[cr.metadata.uid] = (plan.candidate or {}).get(FILE, "")
        settled = _settled(world, objects, plan, self._now(), await self._daemons(world, known, plan, cluster))
        said = [*settled.statements, *_refused(plan, partitions), *_waiting(partitions)]
        said = said if any(each.type == DEGRADED for each in said) else [*said, *self._deaf(cr)]
        after = (*settled.after, *kept(world, plan, wanted, self.observer, self._now()))
        return replace(settled, after=after, statements=said, look_again=self._look_again(cr, plan, partitions))

    async def _cluster(self, world: World[Controller], before: Files | None) -> Cluster | Unknown:
        if before is None:
            return Unknown("not started yet")
        restapis = self.observer.resources(RestApi, world.cr.namespace)
        return await self.clusters.find(world.cr, restapis, world.refs)

    async def _partitions(
        self, world: World[Controller], files: Files, before: Files | None, cluster: Cluster | Unknown
    ) -> live_partitions.Settled:
        cr, refs = world.cr, world.refs
        conf = slurm_conf(cr, refs, live_partitions=await self._live(world, cluster, before))
        question = live_partitions.Question(
            conf,
            self._in_force(cr, conf.text, before) if before is not None else None,
            {each.slurm_name: str(each.spec.drift_policy) for each in refs.partitions_of(cr)},
            live_partitions.seen_lines(refs.partitions_of(cr)),
            files,
            before or {},
            world.frozen,
            self._on_the_way(cr),
        )
        return await live_partitions.settle(question, cluster, self.executor, world.raw, self.clock)

    async def _live(self, world: World[Controller], cluster: Cluster | Unknown, before: Files | None) -> bool | None:
        """Whether slurmrestd changes partitions; while it cannot be asked, what was said last."""
        if world.cr.name not in world.refs.served or before is None:
            return None
        if not isinstance(cluster, Unknown):
            found = await cluster.partitions(("Controller", world.raw.metadata.uid), patience=PARTITION_SECONDS)
            if not isinstance(found, Unknown):
                return cluster.live_partitions
        return keeps_partitions(before.get(FILE, ""))

    def _in_force(self, cr: Controller, wanted: str, before: Files) -> str:
        """What Slurm may have read: the last good one, and partitions of a candidate that are not wanted any more."""
        good, tried = before.get(FILE, ""), declared(self._handed_over(cr))
        known = {*declared(good).lines, *declared(wanted).lines}
        return with_lines(good, {name: line for name, line in tried.lines.items() if name not in known}, tried.sets)

    def _handed_over(self, cr: Controller) -> str:
        """The slurm.conf of the last candidate; what was written a moment ago may not have come back yet."""
        cached = (self._config_map(cr.namespace, names.config_candidate(cr)) or {}).get(FILE, "")
        return self._offered.get(cr.metadata.uid, cached)

    def _on_the_way(self, cr: Controller) -> frozenset[str]:
        """The partitions of a candidate that a sidecar is trying."""
        heard = self._heard.get(cr.metadata.uid)
        tried = heard is not None and not heard.is_decided
        return frozenset(declared(self._handed_over(cr)).lines) if tried else frozenset()

    def _known(self, cr: Controller, wanted: Files, before: Files | None, *, live: bool, frozen: bool) -> _Known:
        check = cr.metadata.annotations.get(labels.CONFIG_CHECK) != "off"
        held = self._config_map(cr.namespace, names.config_candidate(cr))
        candidate = {name: text for name, text in held.items() if name != controller.NOTE} if held else None
        pods = [pod for pod in self.observer.controller_pods(cr) if _counts(pod)]
        world = ConfigWorld(
            before,
            candidate,
            (held or {}).get(controller.NOTE, ""),
            tuple(_pod(pod) for pod in pods),
            (cr.status.config.hash if cr.status.config else None) or "",
            cr.spec.inplace_reconfigure,
            frozen,
        )
        return _Known(
            cr,
            wanted,
            note(wanted, live_partitions=live, check=check),
            world,
            self._findings(cr, wanted) if check else (),
        )

    def forget(self, uid: str) -> None:
        """A Controller has gone: drop all that was remembered of it."""
        for remembered in (self._linted, self._heard, self._offered):
            remembered.pop(uid, None)

    def _findings(self, cr: Controller, files: Files) -> tuple[Finding, ...]:
        key, hash_ = cr.metadata.uid, content_hash(files)
        seen = self._linted.get(key)
        if seen is None or seen[0] != hash_:
            version = images.slurm_version(images.of(cr.spec.slurmctld, "slurmctld"))
            told = f"{version[0]}.{version[1]:02}" if version else None
            seen = self._linted[key] = (hash_, linted(files, cr.spec.extra_conf or "", told))
        return seen[1]

    async def _plan(self, known: _Known) -> ConfigPlan:
        key = known.cr.metadata.uid
        world = replace(known.world, applied="") if self._is_in_doubt(key, known) else known.world
        plan = plan_config(known.wanted, known.told, world, known.findings)
        if not plan.is_open or plan.stage is Stage.WAITING:
            self._heard.pop(key, None)
            return plan
        words = await self._words(known, plan)
        pods = [replace(pod, verdict=words.get(pod.uid)) for pod in known.world.pods]
        silence = self.clock.monotonic() - self._heard[key].since
        nudges = 1 + sum(silence >= each for each in NUDGED_AGAIN)
        return plan_config(known.wanted, known.told, replace(world, pods=pods, nudges=nudges), known.findings)

    def _is_in_doubt(self, key: str, known: _Known) -> bool:
        """Whether a sidecar may be trying another one, though this one was in force before."""
        heard = self._heard.get(key)
        if heard is None or self.clock.monotonic() - heard.since >= PACES[-1][0]:
            return False
        return heard.overtook or heard.about[0] != content_hash(known.wanted)

    async def _words(self, known: _Known, plan: ConfigPlan) -> Mapping[str, Verdict | None]:
        """What each sidecar says; the log is read again only when its time has come."""
        key, now = known.cr.metadata.uid, self.clock.monotonic()
        speaking = [pod for pod in known.world.pods if pod.speaks]
        about = (plan.hash, *(pod.uid for pod in speaking))
        heard = self._heard.get(key)
        if heard is None or heard.about != about:
            overtook = heard is not None and (heard.overtook or heard.about[0] != plan.hash)
            heard = self._heard[key] = _Hearing(about, now, overtook=overtook)
        # Nine tenths: a turn that comes a little early need not come twice.
        if now - heard.read_at >= 0.9 * heard.pace(now):
            heard.denied = ""
            heard.words = {pod.uid: await self._word(known.cr.namespace, pod, heard) for pod in speaking}
            heard.read_at = now
        return heard.words

    async def _word(self, namespace: str, pod: ControllerPod, heard: _Hearing) -> Verdict | None:
        try:
            return last_verdict(await self.logs(namespace, pod.name, SIDECAR, LOG_TAIL_LINES))
        except KubeError as error:
            # A container that has not started has no log.
            log.debug("log of %s/%s: %s", namespace, pod.name, error)
            heard.denied = str(error) if isinstance(error, Forbidden) else heard.denied
            return None

    def _deaf(self, cr: Controller) -> Iterator[Statement]:
        heard = self._heard.get(cr.metadata.uid)
        if heard is not None and heard.denied:
            message = f"the operator may not read what a sidecar says of the new configuration: {heard.denied}"
            yield yes(DEGRADED, Forbidden.reason, message)

    def _look_again(self, cr: Controller, plan: ConfigPlan, partitions: live_partitions.Settled) -> float:
        waits = [WAITING if partitions.is_waiting else SETTLED]
        heard = self._heard.get(cr.metadata.uid)
        if plan.is_open and heard is not None:
            pace = heard.pace(self.clock.monotonic())
            waits.append(pace if plan.stage is Stage.TRYING else max(pace, STARTING))
        return min(waits)

    async def _daemons(
        self, world: World[Controller], known: _Known, plan: ConfigPlan, cluster: Cluster | Unknown
    ) -> tuple[Census, ...]:
        """Who runs with the configuration in force; Slurm is asked once, and others' looks serve ever after."""
        cr = world.cr
        said = cr.status.config or ConfigStatus()
        if not isinstance(cluster, Unknown) and cluster.nodes is None:
            await cluster.world(who=("Controller", world.raw.metadata.uid))
        applied = parse_seconds(said.last_applied)
        found = [_controllers(known, plan)]
        asked = cluster.nodes if not isinstance(cluster, Unknown) else None
        if asked is not None:
            found.append(daemons.of_nodes(asked.items, parse_seconds(said.last_read)))
        for component, kind, why in ((labels.RESTAPI, RestApi, AT_START), (labels.LOGIN, LoginSet, SENT)):
            mine = self._served_by(cr, kind)
            pods = [pod for pod in self.observer.pods_of(cr.namespace, component, mine) if _counts(pod)] if mine else ()
            if pods:
                found.append(daemons.of_pods(component.daemon, pods, applied, why))
        return tuple(found)

    def _served_by(self, cr: Controller, kind: type[RestApi] | type[LoginSet]) -> frozenset[str]:
        there = self.observer.resources(kind, cr.namespace)
        return frozenset(each.name for each in there if each.spec.controller_ref.name == cr.name)

    def _now(self) -> str:
        return time_text(self.clock.now())

    def _config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        found = self.observer.get("ConfigMap", namespace, name)
        return None if found is None else dict(found.content().get("data") or {})


def _counts(pod: Pod) -> bool:
    """One that is going has nothing to say any more, one that has not started nothing yet."""
    return not pod.metadata.deletion_timestamp and pod.status.phase == "Running"


def _pod(pod: Pod) -> ControllerPod:
    annotations = pod.metadata.annotations
    nudged, _, times = annotations.get(labels.CONFIG_CANDIDATE, "").partition("/")
    return ControllerPod(
        pod.metadata.name,
        pod.metadata.uid,
        annotations.get(labels.CONFIG_PROTOCOL) == controller.PROTOCOL,
        nudged,
        1 if (nudges := whole_number(times)) is None else nudges,
        seen=pod.metadata,
    )


def _controllers(known: _Known, plan: ConfigPlan) -> Census:
    pods = known.world.pods
    silent = tuple(pod.name for pod in pods if not pod.speaks)
    # Where all differ from what is wanted, it is the wish that is not in force.
    behind = tuple(name for name, _ in plan.behind) if len(plan.behind) < len(pods) else ()
    return Census("slurmctld", len(pods), behind, silent, "their sidecar reports nothing" if silent else "")


def _is_config(value: Object, cr: Controller) -> bool:
    return bool(value["kind"] == "ConfigMap" and value["metadata"]["name"] == names.config(cr))


def _settled(
    world: World[Controller], objects: list[Object], plan: ConfigPlan, now: str, found: tuple[Census, ...]
) -> Settled:
    cr = world.cr
    checked = cr.metadata.annotations.get(labels.CONFIG_CHECK) != "off"
    said = status.statements(plan, cr.status.config, checked=checked)
    return Settled(
        list(_objects(world, objects, plan)),
        tuple(_nudge(pod) for pod in plan.nudge),
        [*said, *_degraded(plan, said)],
        {"config": status.fields(plan, cr.status.config, now, found)},
    )


def _objects(world: World[Controller], objects: list[Object], plan: ConfigPlan) -> Any:
    cr = world.cr
    for value in objects:
        if _is_config(value, cr):
            if plan.good is not None:
                yield controller.good_map(cr, plan.good)
            if plan.candidate is not None and cr.spec.inplace_reconfigure:
                yield controller.candidate_map(cr, plan.candidate, plan.note)
        elif value["kind"] != "StatefulSet":
            yield value
        elif plan.good is not None:
            # Its hash, where it has one, is that of what is published.
            yield controller.stateful_set(cr, world.refs, controller.good_map(cr, plan.good))
        elif any(key[1] == "StatefulSet" for key in world.owned):
            yield value


def _nudge(pod: ControllerPod) -> Action:
    """Any change of a pod makes its kubelet read the ConfigMaps again at once."""
    note = pod.nudged if pod.times == 1 else f"{pod.nudged}/{pod.times}"
    return PatchMetadata("v1", "Pod", pod.seen, annotations={labels.CONFIG_CANDIDATE: note})


def _degraded(plan: ConfigPlan, said: list[Statement]) -> list[Statement]:
    if plan.stage not in NOT_VALID:
        return []
    return [yes(DEGRADED, "ConfigNotValid", said[0].message)]


def _refused(plan: ConfigPlan, partitions: live_partitions.Settled) -> list[Statement]:
    """Partitions that Slurm would not take live; their lines are left out, so nothing else would tell of them."""
    if not partitions.refused or plan.stage in NOT_VALID:
        return []
    names_by_why: dict[str, list[str]] = {}
    for name, why in sorted(partitions.refused.items()):
        names_by_why.setdefault(why, []).append(name)
    message = "; ".join(
        f"{'partition' if len(refused) == 1 else 'partitions'} {', '.join(refused)}: {why}"
        for why, refused in names_by_why.items()
    )
    return [yes(DEGRADED, "RefusedBySlurm", message)]


def _waiting(partitions: live_partitions.Settled) -> list[Statement]:
    """Partitions that nothing asks for any more and that are still in slurm.conf, and what they wait for."""
    waits = partitions.plan.waits
    if not waits:
        return []
    if partitions.unknown:
        message = (
            f"slurm.conf keeps {', '.join(sorted(waits))} until Slurm says that no job is in it; {partitions.unknown}"
        )
        return [yes(PROGRESSING, "WaitingForSlurm", message)]
    held = (f"{name}: {_jobs(numbers)}" for name, numbers in sorted(waits.items()))
    return [
        yes(PROGRESSING, "WaitingForJobs", f"slurm.conf keeps partitions until their jobs are gone: {'; '.join(held)}")
    ]


def _jobs(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(str(each) for each in numbers[:MOST_JOBS])
    more = f" and {len(numbers) - MOST_JOBS} more" if len(numbers) > MOST_JOBS else ""
    return f"jobs {shown}{more}" if numbers else "Slurm is asked once more"


def reader(client: Any) -> Logs:
    """Reads logs through a client."""

    async def read(namespace: str, pod: str, container: str, lines: int) -> list[str]:
        limits = {"tail": lines, "limit_bytes": LOG_TAIL_BYTES}
        return [line async for line in client.logs(namespace, pod, container=container, seconds=10.0, **limits)]

    return read
