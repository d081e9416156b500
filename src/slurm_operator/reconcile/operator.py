"""The operator put together: caches, reconcilers, watches, leadership, health.

In: settings and a client. Out: a running operator. The same in a cluster, with a kubeconfig and in local mode;
called by `cli/run.py`. The object holds no truth: dropping it and making a new one is always right.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from kube_runtime.client.cache import Cache
from kube_runtime.client.client import Client
from kube_runtime.client.events import Recorder
from kube_runtime.client.lease import LeaseObject
from kube_runtime.client.objects import NODES, PODS, Node, Pod, RawObject, Resource
from kube_runtime.client.timing import Timing
from kube_runtime.client.write import Writer
from kube_runtime.clock import Clock, check_deadline
from kube_runtime.loop.controller import Controller, Reconcile
from kube_runtime.loop.leadership import Elector, LeaseRecord
from kube_runtime.loop.queue import Key
from kube_runtime.loop.rest import Rests
from kube_runtime.loop.run import Ending, run
from kube_runtime.loop.watches import ChangeWatch, SourceSet, Watch, to_itself, to_owner
from slurm_operator.api.controller import Controller as ControllerResource
from slurm_operator.api.kinds import KINDS, Member
from slurm_operator.api.meta import GROUP
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import labels, names
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.program import EVENT_CONTROLLER, FIELD_MANAGER, NAME
from slurm_operator.reconcile import accounting, config, host_keys, loginset, polling, restapi
from slurm_operator.reconcile.cluster_world import ClusterReader
from slurm_operator.reconcile.clusters import Clusters, Connect, over_http
from slurm_operator.reconcile.controller import QUIET_REQUEUE_SECONDS, Controllers
from slurm_operator.reconcile.denied import Guarded
from slurm_operator.reconcile.execute import DrawHostKeys, Executor
from slurm_operator.reconcile.faults import FaultReports
from slurm_operator.reconcile.measured import measure
from slurm_operator.reconcile.nodeset import NodeSets
from slurm_operator.reconcile.observe import (
    BY_CONTROLLER,
    BY_DAEMON,
    BY_NAMESPACE,
    BY_NODE,
    BY_OWNER,
    Observer,
    controllers,
    daemons,
    kubernetes_nodes,
    namespaces,
    owners,
)
from slurm_operator.reconcile.partition import PartitionOutcomes, Partitions
from slurm_operator.reconcile.polling import SlurmPolls
from slurm_operator.reconcile.resources import ALL, CHILDREN, OPTIONAL, OURS
from slurm_operator.reconcile.served import Served
from slurm_operator.reconcile.status_pace import StatusPace
from slurm_operator.reconcile.token import Tokens
from slurm_operator.reconcile.triggers import Triggers, daemon_changed, spec_changed
from slurm_operator.reconcile.verdict_streams import VerdictStreams
from slurm_operator.settings import Settings

# Those that are judged or told of a configuration, and those whose configuration is reported.
WITH_PODS = (labels.CONTROLLER, labels.WORKER, labels.WORKER_TRIAL, labels.RESTAPI, labels.LOGIN)
PODS_OF_INTEREST = f"{labels.NAME} in ({','.join(each.daemon for each in WITH_PODS)})"
INDEXES: dict[str, Any] = {BY_OWNER: owners, BY_NAMESPACE: namespaces}
POD_INDEXES: dict[str, Any] = {BY_CONTROLLER: controllers, BY_DAEMON: daemons, BY_NODE: kubernetes_nodes}


@dataclass(frozen=True, slots=True)
class Outside:
    """What the operator takes from the outside besides its client and its clock; campaigns hand in their own."""

    host_keys: DrawHostKeys = host_keys.draw
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    random: Callable[[], float] = random.random
    connect: Connect = over_http


OUTSIDE = Outside()


@dataclass(frozen=True, slots=True)
class Operator:
    """Everything that runs."""

    observer: Observer
    writer: Writer
    controllers: dict[str, Controller]
    sources: SourceSet
    source_names: tuple[str, ...]
    clusters: Clusters
    elector: Elector | None
    clock: Clock
    served: Served
    streams: VerdictStreams

    async def run(self) -> Ending:
        """Run until asked to stop."""
        self.sources.want(self.source_names)
        try:
            return await run(
                list(self.controllers.values()),
                self.sources,
                elector=self.elector,
                background=(self.served.run, self.streams.run),
                clock=self.clock,
            )
        finally:
            await self.clusters.close()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What reconcilers, controllers and sources are made of."""

    client: Client
    settings: Settings
    clock: Clock
    metrics: OperatorMetrics
    outside: Outside
    observer: Observer
    executor: Executor
    clusters: Clusters
    outcomes: PartitionOutcomes
    streams: VerdictStreams


def assemble(
    client: Client, settings: Settings, clock: Clock, metrics: OperatorMetrics, outside: Outside = OUTSIDE
) -> Operator:
    """Put an operator together; nothing runs yet."""
    timing = Timing(clock, outside.random)
    observer = _observer(client, settings, timing)
    elector = _elector(client, settings, clock, outside)
    measure(metrics, observer, lambda: elector is None or elector.is_leader)
    fence = _fence(elector)
    writer = Writer(client, ALL, FIELD_MANAGER, fence=fence, wrote=_expecting(observer))
    recorder = Recorder(writer, f"{NAME}-{outside.new_id()[:8]}", EVENT_CONTROLLER, timing)
    executor = Executor(writer, recorder, StatusPace(clock.monotonic), outside.host_keys)
    clusters = Clusters(_address(settings), clock, outside.connect, fence=fence)
    outcomes = PartitionOutcomes()
    streams = config.streams(client, clock)
    parts = _Parts(client, settings, clock, metrics, outside, observer, executor, clusters, outcomes, streams)
    controllers = _controllers(parts)
    streams.wake = controllers["Controller"].add
    outcomes.wake_partition, outcomes.wake_controller = controllers["Partition"].add, controllers["Controller"].add
    executor.pace.again = lambda kind, key, seconds: controllers[kind].add_after(key, seconds)
    _connect(observer, controllers, clusters)
    served = _served(parts)
    return Operator(
        observer, writer, controllers, served.sources, served.always, clusters, elector, clock, served, streams
    )


def _reconcilers(parts: _Parts) -> dict[str, Reconcile]:
    """The reconcile function of each kind."""
    observer, executor, clock, clusters = parts.observer, parts.executor, parts.clock, parts.clusters
    propagated = frozenset(parts.settings.propagated_node_conditions)
    reader = ClusterReader(observer, clusters, clock, config.reader(parts.client), parts.streams)
    controllers = Controllers(ControllerResource, observer, executor, clock, reader, parts.outcomes)
    nodesets = NodeSets(observer, executor, clusters, clock, propagated)
    observer.on_deleted("Controller", controllers.forget)
    observer.on_gone("Controller", lambda raw: parts.streams.forget(Key(raw.metadata.namespace, raw.metadata.name)))
    observer.on_deleted("NodeSet", nodesets.forget)
    return {
        "Controller": controllers,
        "Accounting": accounting.reconcile(observer, executor, clock),
        "RestApi": restapi.reconcile(observer, executor, clock),
        "LoginSet": loginset.reconcile(observer, executor, clock),
        "NodeSet": nodesets,
        "Partition": Partitions(observer, executor, parts.outcomes, clock),
        "Token": Tokens(observer, executor, clock, parts.outside.new_id),
    }


def _controllers(parts: _Parts) -> dict[str, Controller]:
    """A queue with workers for each kind, and one for the polls of Slurm."""
    observer, executor, clock = parts.observer, parts.executor, parts.clock
    rests = Rests(parts.outside.random)
    polls = Controller(
        "slurm-poll",
        SlurmPolls(parts.clusters, clock),
        kind=polling.KIND,
        clock=clock,
        random=parts.outside.random,
        metrics=parts.metrics,
        group_of=lambda key: key,
    )
    parts.clusters.found = polls.add
    reconcilers = {
        kind: Controller(
            kind.lower(),
            Guarded(kind, reconcile, observer, executor, clock),
            workers=parts.settings.workers_of(kind),
            kind=kind,
            clock=clock,
            random=parts.outside.random,
            metrics=parts.metrics,
            group_of=_cluster_of(observer, kind),
            report_fault=FaultReports(kind, observer, executor, clock),
            rests=rests,
        )
        for kind, reconcile in _reconcilers(parts).items()
    }
    return {**reconcilers, polling.KIND: polls}


def _served(parts: _Parts) -> Served:
    """The caches as sources: those that always run, and those of kinds that somebody may serve one day."""
    observer = parts.observer
    caches = dict(_named_caches(observer))
    optional = {kind: tuple(name for name in caches if name.startswith(f"{kind}/")) for kind in observer.optional}
    always = tuple(name for name in caches if name.partition("/")[0] not in optional)
    sources = SourceSet(
        {name: _same(cache) for name, cache in caches.items()},
        clock=parts.clock,
        metrics=parts.metrics,
        optional=set(caches) - set(always),
        refusal=lambda cache: cache.refusal,
    )
    return Served(parts.client, observer, sources, always, optional, parts.clock)


def _observer(client: Client, settings: Settings, timing: Timing) -> Observer:
    places = settings.namespaces or ("",)
    raw: dict[str, tuple[Cache[RawObject], ...]] = {
        resource.kind: tuple(
            Cache(client, resource, namespace=place, indexes=INDEXES, timing=timing) for place in places
        )
        for resource in (*OURS.values(), *CHILDREN, *OPTIONAL)
    }
    pods: tuple[Cache[Pod], ...] = tuple(
        Cache(client, PODS, namespace=place, label_selector=PODS_OF_INTEREST, indexes=POD_INDEXES, timing=timing)
        for place in places
    )
    nodes: Cache[Node] = Cache(client, NODES, timing=timing)
    kinds = frozenset(resource.kind for resource in OPTIONAL)
    domain, allowed = settings.cluster_domain, settings.allowed_pod_features
    images = settings.worker_images
    return Observer(raw, pods, nodes, domain, allowed, worker_images=images, optional=kinds, unserved=set(kinds))


def _elector(client: Client, settings: Settings, clock: Clock, outside: Outside) -> Elector | None:
    if not settings.leader_elect:
        return None
    store = LeaseObject(client, settings.leader_elect_namespace or "default", NAME, LeaseRecord)
    return Elector(store, f"{NAME}-{outside.new_id()}", clock=clock)


def _cluster_of(observer: Observer, kind: str) -> Callable[[Key], Hashable]:
    """Which cluster a resource belongs to: clusters share the workers, none may keep another waiting."""

    def cluster(key: Key) -> Hashable:
        if kind == "Controller":
            return key
        decoded = observer.resource(kind, key.namespace, key.name)
        resource = decoded.readable if decoded is not None else None
        return Key(key.namespace, resource.spec.controller_ref.name if isinstance(resource, Member) else "")

    return cluster


def _fence(elector: Elector | None) -> Callable[[], None]:
    """What every write to Kubernetes and to Slurm passes right before it is sent: it may be late by then."""

    def fence() -> None:
        check_deadline()
        if elector is not None:
            elector.check()

    return fence


def _expecting(observer: Observer) -> Callable[[Resource[Any], str, str], None]:
    """Caches learn of our own writes: one that does not see them come is watched by a watch that is stuck."""

    def wrote(resource: Resource[Any], namespace: str, version: str) -> None:
        caches = observer.pods if resource.kind == PODS.kind else observer.raw.get(resource.kind, ())
        for cache in caches:
            if cache.namespace in ("", namespace):
                cache.expect(version)

    return wrote


def _address(settings: Settings) -> Any:
    def address(cr: RestApi) -> str:
        port = cr.spec.service.port or names.SLURMRESTD_PORT
        return settings.restapi_address.format(service=names.restapi(cr), namespace=cr.namespace, port=port)

    return address


def _same(cache: Any) -> Any:
    return lambda: cache


def _named_caches(observer: Observer) -> Iterator[tuple[str, Any]]:
    for kind, caches in observer.raw.items():
        for cache in caches:
            yield f"{kind}/{cache.namespace}", cache
    for pods in observer.pods:
        yield f"Pod/{pods.namespace}", pods
    if observer.nodes is not None:
        yield "Node/", observer.nodes


def _connect(observer: Observer, controllers: dict[str, Controller], clusters: Clusters) -> None:
    """Let every change that matters reach the resources that it matters to."""
    triggers = Triggers(observer)
    clusters.changed = _woken_by_slurm(triggers, controllers)
    clusters.repartitioned = clusters.named = controllers["Controller"].add
    for cache in (cache for caches in observer.raw.values() for cache in caches):
        cache.on_change(_forgetting(observer, triggers))
    observer.on_deleted("Controller", clusters.forget)
    for _, source in _named_caches(observer):
        source.on_refusal(_waking(triggers, controllers))
    for kind in (kind.name for kind in KINDS if kind.name in controllers):
        _watch(observer, kind, controllers[kind], to_itself, spec_changed)
        for child in (*CHILDREN, *OPTIONAL):
            _watch(observer, child.kind, controllers[kind], to_owner(GROUP, kind))
        for referred in ("Secret", "ConfigMap"):
            _watch(observer, referred, controllers[kind], triggers.referrers(kind))
    # What the workers of a cluster share has every NodeSet of it as an owner, and none as its controller.
    for shared, when in (("Service", None), ("PersistentVolumeClaim", None), ("PodDisruptionBudget", spec_changed)):
        _watch(observer, shared, controllers["NodeSet"], to_owner(GROUP, "NodeSet", controlling=False), when)
    for member in ("NodeSet", "Partition", "RestApi", "LoginSet"):
        _watch(observer, member, controllers["Controller"], triggers.named_controller, spec_changed)
    _watch(observer, "Accounting", controllers["Controller"], triggers.referrers("Controller"), spec_changed)
    _watch(observer, "PersistentVolumeClaim", controllers["Controller"], triggers.users_of_claim)
    for member in ("NodeSet", "LoginSet", "RestApi"):
        _watch(observer, "Secret", controllers[member], triggers.behind_controllers(member))
    # Its cgroup.conf decides which rights workers have.
    _watch(observer, "ConfigMap", controllers["NodeSet"], triggers.behind_controllers("NodeSet"))
    for member in ("NodeSet", "LoginSet", "RestApi", "Partition"):
        _watch(observer, "Controller", controllers[member], triggers.referrers(member), spec_changed)
    _watch(observer, "RestApi", controllers["NodeSet"], triggers.members("NodeSet"), spec_changed)
    for pods in observer.pods:
        Watch(pods, controllers["NodeSet"], to_owner(GROUP, "NodeSet")).connect()
        Watch(pods, controllers["Controller"], triggers.controller_of_daemon, daemon_changed).connect()
        Watch(pods, controllers["Controller"], to_owner(GROUP, "Controller")).connect()
    if observer.nodes is not None:
        ChangeWatch(observer.nodes, controllers["NodeSet"], triggers.users_of_kubernetes_node).connect()


def _woken_by_slurm(
    triggers: Triggers, controllers: dict[str, Controller]
) -> Callable[[Key, frozenset[str] | None, Hashable], None]:
    def wake(cluster: Key, nodes: frozenset[str] | None, noticed_by: Hashable) -> None:
        users = list(triggers.users_of_slurm_nodes(cluster, nodes))
        for kind, key in users:
            if (kind, key) != noticed_by:
                controllers[kind].add(key)
        if ("Controller", cluster) not in users and (nodes is None or nodes):
            # No Partition: the Controller only counts its nodes, and a busy Slurm changes all the time.
            controllers["Controller"].add_after(cluster, QUIET_REQUEUE_SECONDS)

    return wake


def _waking(triggers: Triggers, controllers: dict[str, Controller]) -> Callable[[], None]:
    """Whoever stands on what can no longer be read, or can again, has to say so."""

    def wake() -> None:
        for kind, target in controllers.items():
            for key in triggers.every_key(kind)(None):
                target.add(key)

    return wake


def _forgetting(observer: Observer, triggers: Triggers) -> Callable[[Any, Any], None]:
    def forget(old: Any, new: Any) -> None:
        if old is not None and new is None:
            observer.forget(old.metadata.uid)
            triggers.forget(old.metadata.uid)

    return forget


def _watch(observer: Observer, kind: str, target: Controller, mapping: Any, when: Any = None) -> None:
    for cache in observer.raw.get(kind, ()):
        watch = Watch(cache, target, mapping) if when is None else Watch(cache, target, mapping, when)
        watch.connect()
