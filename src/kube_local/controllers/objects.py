"""Slim views of what the local controllers read, and where each kind lives.

Wider than those of `kube.objects`: a scheduler reads affinities and requests, a StatefulSet controller whole templates.
Statuses that a controller writes are kept as plain dictionaries, so that it can tell whether anything would change.
"""

from typing import Any

import msgspec

from kube_runtime.client.objects import (
    BUILT_IN,
    ClaimSource,
    ContainerStatus,
    ControllerRevision,
    ObjectMeta,
    Resource,
    Slim,
)

Json = dict[str, Any]


class Requirement(Slim, frozen=True):
    """One term of a label or node selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Slim, frozen=True):
    """matchLabels and matchExpressions; empty selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


# --- pods ---------------------------------------------------------------------------------------------------------


class NodeSelectorTerm(Slim, frozen=True):
    """All of it must hold; an empty term selects nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Slim, frozen=True):
    """One of the terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Slim, frozen=True):
    """Which nodes a pod needs."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodTerm(Slim, frozen=True):
    """Pods, and how near or far is meant."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""


class PodAffinity(Slim, frozen=True):
    """Which pods a pod wants near, or far."""

    required: tuple[PodTerm, ...] = msgspec.field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Slim, frozen=True):
    """Where a pod wants to be."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Slim, frozen=True):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ContainerPort(Slim, frozen=True):
    """A port that a container names."""

    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class Resources(Slim, frozen=True):
    """What a container asks for."""

    requests: dict[str, str | int | float] = {}


class Container(Slim, frozen=True):
    """What scheduling and ports need of a container."""

    name: str = ""
    restart_policy: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()


class Volume(Slim, frozen=True):
    """A volume, and its claim if it has one."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None


class Gate(Slim, frozen=True):
    """What a pod waits for before it is scheduled."""

    name: str = ""


class PodSpec(Slim, frozen=True):
    """Where a pod may run and what it needs there."""

    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[Gate, ...] = ()


class PodStatus(Slim, frozen=True):
    """How a pod is doing; the conditions as they are written."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Json, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Slim, frozen=True):
    """core/v1 Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- nodes --------------------------------------------------------------------------------------------------------


class NodeSpec(Slim, frozen=True):
    """Who may run on a node; the taints also as they are written."""

    unschedulable: bool = False
    taints: tuple[Json, ...] = ()


class NodeStatus(Slim, frozen=True):
    """What a node has and how it is doing; the conditions as they are written."""

    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[Json, ...] = ()


class Node(Slim, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- workloads ----------------------------------------------------------------------------------------------------


class RollingUpdate(Slim, frozen=True):
    """How many at once."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class Strategy(Slim, frozen=True):
    """How a workload changes its pods."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class StatefulSetSpec(Slim, frozen=True):
    """What a StatefulSet is to be."""

    replicas: int = 1
    service_name: str = ""
    selector: LabelSelector = LabelSelector()
    template: Json = {}
    volume_claim_templates: tuple[Json, ...] = ()
    pod_management_policy: str = "OrderedReady"
    revision_history_limit: int = 10


class StatefulSet(Slim, frozen=True):
    """apps/v1 StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: Json = {}


class ReplicaSetSpec(Slim, frozen=True):
    """What a ReplicaSet is to be."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: Json = {}


class ReplicaSet(Slim, frozen=True):
    """apps/v1 ReplicaSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: Json = {}


class DeploymentSpec(Slim, frozen=True):
    """What a Deployment is to be."""

    replicas: int = 1
    selector: Json = {}
    template: Json = {}
    strategy: Strategy = Strategy()
    revision_history_limit: int = 10
    paused: bool = False


class Deployment(Slim, frozen=True):
    """apps/v1 Deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: Json = {}


class BudgetSpec(Slim, frozen=True):
    """How many pods must stay, or may go."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class Budget(Slim, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: Json = {}


# --- network ------------------------------------------------------------------------------------------------------


class ServicePort(Slim, frozen=True):
    """One port of a Service."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None
    app_protocol: str | None = None


class ServiceSpec(Slim, frozen=True):
    """Which pods stand behind a Service."""

    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = {}
    publish_not_ready_addresses: bool = False


class Service(Slim, frozen=True):
    """core/v1 Service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class EndpointSlice(Slim, frozen=True):
    """discovery.k8s.io/v1 EndpointSlice; endpoints and ports as they are written."""

    metadata: ObjectMeta = ObjectMeta()
    endpoints: tuple[Json, ...] | None = ()
    ports: tuple[Json, ...] | None = ()


# --- storage ------------------------------------------------------------------------------------------------------


class ClaimResources(Slim, frozen=True):
    """How much a claim asks for."""

    requests: dict[str, str | int | float] = {}


class ClaimSpec(Slim, frozen=True):
    """What a claim asks for."""

    access_modes: tuple[str, ...] = ()
    resources: ClaimResources = ClaimResources()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_name: str = ""


class Claim(Slim, frozen=True):
    """core/v1 PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: Json = {}


class ClaimRef(Slim, frozen=True):
    """The claim that a volume is bound to, or kept for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Slim, frozen=True):
    """What a volume offers."""

    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str | int | float] = {}
    claim_ref: ClaimRef | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"


class PersistentVolume(Slim, frozen=True):
    """core/v1 PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: Json = {}


class StorageClass(Slim, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    reclaim_policy: str = "Delete"


PODS = Resource("", "v1", "pods", "Pod", Pod)
NODES = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", StatefulSet)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", ReplicaSet)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", Deployment)
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", ControllerRevision)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", Budget)
SERVICES = Resource("", "v1", "services", "Service", Service)
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", EndpointSlice)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", Claim)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", StorageClass, namespaced=False)

WRITTEN: tuple[Resource[Any], ...] = (*BUILT_IN, REPLICA_SETS, SLICES, VOLUMES, STORAGE_CLASSES)
