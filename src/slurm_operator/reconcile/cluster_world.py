"""All reading of a Controller's reconcile: caches, the logs of sidecars, Slurm.

In: a Controller and what was built for it. Out: a frozen `ClusterWorld` (`plan/cluster_world.py`). Nothing is written,
and nothing is read later. Logs are read before Slurm is asked: what a sidecar reports is then in Slurm's answer. Called
by `reconcile/controller.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kube_runtime.client.objects import ObjectMeta, Pod
from kube_runtime.clock import Clock
from kube_runtime.loop.queue import Key
from kube_runtime.times import parse_seconds, time_text
from slurm_operator.admission import rules
from slurm_operator.api.controller import Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.problem import errors
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import labels, names, worker_trial
from slurm_operator.build.config_revision import inputs
from slurm_operator.build.controller import Built
from slurm_operator.build.slurm_conf import FILE, keeps_partitions
from slurm_operator.plan.cluster_world import (
    ClusterMemory,
    ClusterWorld,
    ConfigMaps,
    HistoryWorld,
    PartitionSnapshot,
    config_files,
    declared_in_force,
    has_edits,
    last_known,
)
from slurm_operator.plan.config import Files
from slurm_operator.plan.config_history import KEPT_AFTER_SECONDS, KEY, is_kept, is_revision, manager_of, number_of
from slurm_operator.plan.daemons import AT_START, SENT
from slurm_operator.plan.lint import is_checked
from slurm_operator.plan.owned import OwnedWorld
from slurm_operator.plan.partition import Declared, declared
from slurm_operator.plan.worker_trial import WorkersWorld, is_needed, is_one_version
from slurm_operator.plan.workers import NOT_ASKED, NodeSnapshot
from slurm_operator.reconcile.clusters import PARTITIONS_MAX_AGE_SECONDS, Cluster, Clusters
from slurm_operator.reconcile.config import Logs, controller_pod, is_running, open_poll, sidecar_verdicts
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import ResourceWorld
from slurm_operator.reconcile.verdict_streams import VerdictStreams
from slurm_operator.slurm import policy
from slurm_operator.slurm.decision import EVERYTHING
from slurm_operator.slurm.model import Job, SlurmList, Unknown
from slurm_operator.slurm.shared import SEEN_MAX_AGE_SECONDS

T = TypeVar("T")

# While a partition that leaves has jobs, all of them are read anew so often: somebody may have moved them.
HELD_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """Reads the worlds of Controllers."""

    observer: Observer
    clusters: Clusters
    clock: Clock
    logs: Logs
    streams: VerdictStreams

    async def find(self, world: ResourceWorld[Controller], known: Files | None) -> Cluster | Unknown:
        """The way to a cluster's Slurm, or why there is none; `known` is what slurmctld runs with."""
        if known is None:
            return Unknown("not started yet")
        restapis = self.observer.resources(RestApi, world.cr.namespace)
        return await self.clusters.find(world.cr, restapis, world.refs)

    def config_maps(self, cr: Controller) -> ConfigMaps:
        """Both ConfigMaps of a configuration; without a sidecar there is no candidate, whoever has its name."""
        candidate = self._data(cr, names.config_candidate(cr)) if cr.spec.inplace_reconfigure else None
        return ConfigMaps(self._data(cr, names.config(cr)), candidate)

    def _data(self, cr: Controller, name: str) -> dict[str, str] | None:
        found = self.observer.get("ConfigMap", cr.namespace, name)
        return None if found is None else dict(found.content().get("data") or {})

    async def observe(
        self, world: ResourceWorld[Controller], built: Built, objects: OwnedWorld, memory: ClusterMemory
    ) -> tuple[ClusterWorld, Cluster | Unknown]:
        """One look at everything, and the way to the Slurm that was asked."""
        cr, maps, now = world.cr, self.config_maps(world.cr), self.clock.monotonic()
        pods = tuple(controller_pod(pod) for pod in self.observer.controller_pods(cr) if is_running(pod))
        poll = open_poll(cr, maps, pods, memory.poll, now)
        if poll is not None:
            key = Key(cr.namespace, cr.name)
            poll = replace(poll, is_followed=self.streams.follows(key, poll))
            poll = await sidecar_verdicts(poll, cr.namespace, pods, self.logs, now, self.streams.heard_at(key))
        known = last_known(maps, memory.offered)
        cluster = await self.find(world, known)
        offered = await self._offers_live_partitions(world, cluster, known)
        text = built.conf.text_for(live_partitions=offered)
        wanted = declared(text, config_files(built, cr))
        in_force = declared_in_force(maps, memory.offered, wanted)
        return (
            ClusterWorld(
                cr=cr,
                refs=world.refs,
                built=built,
                objects=objects,
                maps=maps,
                slurm=await fetch_snapshot(world, built, cluster, wanted, in_force),
                conf_text=text,
                wanted=wanted,
                in_force=in_force,
                memory=memory,
                now=self.clock.monotonic(),
                time=time_text(self.clock.now()),
                pods=pods,
                poll=poll,
                daemon_pods=tuple(self._daemon_pods(cr)),
                history=self._history(world),
                workers=self._workers(world, {**config_files(built, cr), FILE: text}, maps),
            ),
            cluster,
        )

    async def _offers_live_partitions(
        self, world: ResourceWorld[Controller], cluster: Cluster | Unknown, known: Files | None
    ) -> bool | None:
        """Whether slurmrestd can change partitions; while it cannot be asked, what it could do before."""
        if world.cr.name not in world.refs.served or known is None:
            return None
        if not isinstance(cluster, Unknown):
            found = await cluster.partitions(_caller(world.cr), max_age=PARTITIONS_MAX_AGE_SECONDS)
            if not isinstance(found, Unknown):
                return cluster.supports_live_partitions
        return keeps_partitions(known.get(FILE, ""))

    def trials(self, world: ResourceWorld[Controller]) -> WorkersWorld:
        """The pods and ConfigMaps of trials by slurmd that exist."""
        pods = (
            pod
            for pod in self.observer.controlled_pods(world.cr.namespace, world.cr.metadata.uid)
            if _is_of_a_trial(pod.metadata)
        )
        maps = (item.metadata for key, item in world.owned.items() if key[1] == "ConfigMap")
        return WorkersWorld(pods=tuple(pods), files=tuple(each for each in maps if _is_of_a_trial(each)))

    def _workers(self, world: ResourceWorld[Controller], files: Files, maps: ConfigMaps) -> WorkersWorld:
        """The same, and the kinds of workers if slurmd would read something new: `plan/worker_trial.py` judges then."""
        cr, refs = world.cr, world.refs
        found = replace(self.trials(world), is_one_version=is_one_version(cr, refs.nodesets_of(cr)))
        has_trial = cr.spec.inplace_reconfigure and is_checked(cr)
        if not has_trial or not is_needed(maps.good, maps.candidate_files, files, is_one_version=found.is_one_version):
            return found
        # A worker that the rules refuse gets no trial pod either.
        made = (each for each in refs.nodesets_of(cr) if not each.metadata.deletion_timestamp)
        allowed = [each for each in made if not errors(rules.check(each, None, refs, standing=True))]
        kinds = worker_trial.kinds(cr, allowed, refs, files)
        return replace(found, kinds=kinds, time=self.clock.now().timestamp())

    def _daemon_pods(self, cr: Controller) -> Iterator[tuple[str, Sequence[Pod], str]]:
        for component, kind, why in ((labels.RESTAPI, RestApi, AT_START), (labels.LOGIN, LoginSet, SENT)):
            mine = self._served_by(cr, kind)
            pods = [pod for pod in self.observer.pods_of(cr.namespace, component, mine) if is_running(pod)]
            if mine and pods:
                yield component.daemon, pods, why

    def _served_by(self, cr: Controller, kind: type[RestApi] | type[LoginSet]) -> frozenset[str]:
        there = self.observer.resources(kind, cr.namespace)
        return frozenset(each.name for each in there if each.spec.controller_ref.name == cr.name)

    def _history(self, world: ResourceWorld[Controller]) -> HistoryWorld:
        """The revisions of what has been in force for a while and is not kept yet; nothing else is looked at."""
        status = world.cr.status.config
        since, now = parse_seconds(status.last_applied if status else None), self.clock.now().timestamp()
        present = tuple(item for key, item in world.owned.items() if key[:2] == KEY and is_revision(item))
        if status is None or since is None or is_kept(status.hash or "", present):
            return HistoryWorld()
        if now - since < KEPT_AFTER_SECONDS:
            return HistoryWorld(is_pending=True)
        prefix = names.config_revision(world.cr, 0).removesuffix("0")
        named = self.observer.in_namespace("ControllerRevision", world.cr.namespace)
        highest = max((number_of(item) for item in named if item.metadata.name.startswith(prefix)), default=0)
        return HistoryWorld(highest, dict(self._managers(world)), present, is_due=True)

    def _managers(self, world: ResourceWorld[Controller]) -> Iterator[tuple[str, str]]:
        for key in inputs(world.cr, world.refs):
            kind, _, name = key.partition("/")
            found = self.observer.get(kind, world.cr.namespace, name)
            if found is not None:
                yield key, manager_of(found.content())


def _is_of_a_trial(seen: ObjectMeta) -> bool:
    return seen.labels.get(labels.NAME) == labels.WORKER_TRIAL.daemon


def _caller(cr: Controller) -> tuple[str, Key]:
    return ("Controller", Key(cr.namespace, cr.name))


async def fetch_snapshot(
    world: ResourceWorld[Controller], built: Built, cluster: Cluster | Unknown, wanted: Declared, in_force: Declared
) -> PartitionSnapshot:
    """What Slurm reports; if the lines differ, something is decided on it, and then no shared response is used."""
    if isinstance(cluster, Unknown):
        return PartitionSnapshot.without(cluster, has_restapi=False)
    caller, resources = _caller(world.cr), world.refs.partitions_of(world.cr)
    is_deleted = any(each.metadata.deletion_timestamp for each in resources)
    is_decided = wanted.lines != in_force.lines or is_deleted
    max_age = SEEN_MAX_AGE_SECONDS if resources else PARTITIONS_MAX_AGE_SECONDS
    partitions = await cluster.partitions(caller, fresh=is_decided, max_age=max_age)
    leaving = in_force.lines.keys() - wanted.lines.keys()
    snapshot = PartitionSnapshot(partitions, NOT_ASKED, NOT_ASKED, cluster.supports_live_partitions)
    if cluster.nodes is None:
        # Which nodes run with the configuration is asked once; later, the snapshots of other reconciles are used.
        # Before anything is reported by the last look: this one may find Slurm back, and wakes all but its own caller.
        await cluster.node_snapshot(caller=caller)
    if isinstance(partitions, Unknown):
        snapshot = replace(snapshot, jobs=partitions, nodes=partitions)
    elif leaving or resources or has_edits(built.conf):
        # A Partition that stays only reports counts: the last look will do, 60 s old at most, so that a change does
        # not wait for a list of ten thousand nodes.
        is_counted = not (leaving or is_deleted or has_edits(built.conf))
        latest = cluster.latest_snapshot() if is_counted else None
        look = latest if latest is not None else await cluster.node_snapshot(caller=caller, waits=False)
        if leaving and not (are_held(leaving, look.jobs) and cluster.seconds_since_every_job() < HELD_SECONDS):
            look = await _look_at_all(cluster, caller, leaving, look)
        snapshot = replace(snapshot, jobs=look.jobs, nodes=complete(look.nodes, "nodes"))
    return replace(snapshot, known_nodes=cluster.nodes.items if cluster.nodes is not None else None)


async def _look_at_all(
    cluster: Cluster, caller: Hashable, leaving: Collection[str], look: NodeSnapshot
) -> NodeSnapshot:
    """One look at everything; where the jobs are too many for that, the look before it, if by that one all stay."""
    found = await cluster.node_snapshot(EVERYTHING, caller=caller)
    return look if found.lacks_only_jobs and are_held(leaving, look.jobs) else found


def are_held(partitions: Collection[str], jobs: tuple[Job, ...] | Unknown) -> bool:
    """Whether each of these partitions has an unfinished job, by what was read of jobs a while ago."""
    if isinstance(jobs, Unknown):
        return False
    return set(partitions) <= {name for job in jobs if not policy.is_over(job) for name in job.partition.split(",")}


def complete(answer: SlurmList[T] | Unknown, what: str) -> SlurmList[T] | Unknown:
    """A list in which a missing item means that Slurm has none; any other list is Unknown."""
    if isinstance(answer, Unknown) or answer.complete:
        return answer
    return Unknown(f"Slurm's list of {what} is incomplete")
