"""Slim views of Kubernetes objects, and the descriptors that say where each kind lives.

A Struct holds only the fields that somebody here reads: the decoder skips the rest without allocating it, which is
what keeps 10,000 pods small. So a Struct is never written back; writes are plain dictionaries (see `write`).
Where a whole object is needed, `Resource.raw()` gives a `RawObject`. `client` and `cache` decode into these types;
`build`'s dictionaries never become one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kube_runtime.nesting import is_nested_deeper


class Slim(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of every view. They hold no cycles, so the cyclic collector need not know them."""


class OwnerReference(Slim, frozen=True):
    """Who owns an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Slim, frozen=True):
    """Metadata without managedFields, which are most of its bytes."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class KubeObject(Protocol):
    """Anything with metadata: the views below, and the custom resources of `api`."""

    @property
    def metadata(self) -> Any: ...


T = TypeVar("T", bound=KubeObject)

# Under which name the API server notes the fields that we write.


class Condition(Slim, frozen=True):
    """A condition of any kind."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class ContainerStateWaiting(Slim, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Slim, frozen=True):
    """Since when a container runs."""

    started_at: str = ""


class ContainerStateTerminated(Slim, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str = ""


class ContainerState(Slim, frozen=True):
    """One of three."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Slim, frozen=True):
    """How a container of a pod is doing."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    state: ContainerState = ContainerState()


class SecurityContext(Slim, frozen=True):
    """Whether a container has every right over its node."""

    privileged: bool = False


class Container(Slim, frozen=True):
    """What a container runs, and with which rights."""

    name: str = ""
    image: str = ""
    security_context: SecurityContext = SecurityContext()


class ClaimSource(Slim, frozen=True):
    """The claim behind a volume."""

    claim_name: str = ""


class Volume(Slim, frozen=True):
    """A volume, and its claim if it has one."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None


class PodSpec(Slim, frozen=True):
    """Where a pod runs and what it runs."""

    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodStatus(Slim, frozen=True):
    """How a pod is doing."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Slim, frozen=True):
    """core/v1 Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(Slim, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Slim, frozen=True):
    """Who may run on a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(Slim, frozen=True):
    """One address of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(Slim, frozen=True):
    """What a node has and how it is doing."""

    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(Slim, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ServicePort(Slim, frozen=True):
    """One port of a Service."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    node_port: int = 0


class ServiceSpec(Slim, frozen=True):
    """Where a Service listens."""

    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = {}


class Service(Slim, frozen=True):
    """core/v1 Service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ConfigMap(Slim, frozen=True):
    """core/v1 ConfigMap."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
    immutable: bool = False


class Secret(Slim, frozen=True):
    """core/v1 Secret; the values are still base64. Its repr shows the keys only."""

    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: dict[str, str] = {}
    immutable: bool = False

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"


class ClaimRequests(Slim, frozen=True):
    """How much a claim asks for."""

    requests: dict[str, str] = {}


class ClaimSpec(Slim, frozen=True):
    """What a claim asks for."""

    resources: ClaimRequests = ClaimRequests()
    storage_class_name: str | None = None
    volume_name: str = ""


class ClaimStatus(Slim, frozen=True):
    """What a claim got."""

    phase: str = ""
    capacity: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class PersistentVolumeClaim(Slim, frozen=True):
    """core/v1 PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class WorkloadSpec(Slim, frozen=True):
    """How many pods a workload should have."""

    replicas: int = 1


class StatefulSet(Slim, frozen=True):
    """apps/v1 StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class Deployment(Slim, frozen=True):
    """apps/v1 Deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class ControllerRevision(Slim, frozen=True):
    """apps/v1 ControllerRevision."""

    metadata: ObjectMeta = ObjectMeta()
    revision: int = 0
    data: Any = None


class PodDisruptionBudget(Slim, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()


class LeaseSpec(Slim, frozen=True):
    """Who holds a Lease, since when, and for how long without renewal."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class Lease(Slim, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(Slim, frozen=True):
    """The object that an Event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSeries(Slim, frozen=True):
    """How often an Event came again."""

    count: int = 0


class Event(Slim, frozen=True):
    """events.k8s.io/v1 Event."""

    metadata: ObjectMeta = ObjectMeta()
    regarding: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    action: str = ""
    note: str = ""
    series: EventSeries | None = None


class CrdVersion(Slim, frozen=True):
    """One version of a custom kind."""

    name: str = ""
    served: bool = False
    storage: bool = False


class CrdSpec(Slim, frozen=True):
    """The versions of a custom kind."""

    group: str = ""
    versions: tuple[CrdVersion, ...] = ()


class CrdStatus(Slim, frozen=True):
    """Whether a custom kind is served."""

    conditions: tuple[Condition, ...] = ()


class CustomResourceDefinition(Slim, frozen=True):
    """apiextensions.k8s.io/v1 CustomResourceDefinition."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CrdSpec = CrdSpec()
    status: CrdStatus = CrdStatus()


class ScaleSpec(Slim, frozen=True):
    """The wanted number."""

    replicas: int = 0


class ScaleStatus(Slim, frozen=True):
    """The observed number and how to find the pods."""

    replicas: int = 0
    selector: str = ""


class Scale(Slim, frozen=True):
    """autoscaling/v1 Scale, the body of every scale subresource."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


# Whoever walks a deeper value may run out of stack; what people write is a tenth as deep.
MAX_DEPTH_LEVELS = 128
# In every kind these hold fields, or are left out; whoever reads them need not ask.
_MAPPINGS = ("spec", "status", "data")


class RawObject:
    """A whole object, kept as its JSON text: a fifth of the memory of a dictionary, and nobody can change it."""

    # Neither a Struct nor a dataclass: msgspec would decode into its fields instead of asking `decode_hook`.
    __slots__ = ("body", "metadata")

    def __init__(self, metadata: ObjectMeta, body: bytes) -> None:
        self.metadata = metadata
        self.body = body

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawObject) and self.body == other.body

    def __hash__(self) -> int:
        return hash(self.body)

    def content(self) -> dict[str, Any]:
        """A fresh dictionary of everything in the object."""
        decoded: dict[str, Any] = msgspec.json.decode(self.body)
        return decoded

    def __repr__(self) -> str:
        # A raw object may be a Secret.
        return f"RawObject({self.metadata.namespace}/{self.metadata.name}, {len(self.body)} bytes)"


def decode_hook(wanted: Any, value: Any) -> Any:
    """Let msgspec make a RawObject out of what it decoded."""
    if wanted is not RawObject:
        raise NotImplementedError(f"no decoder for {wanted}")
    if not isinstance(value, dict):
        raise TypeError("expected an object")
    if is_nested_deeper(value, MAX_DEPTH_LEVELS):
        raise TypeError(f"nested deeper than {MAX_DEPTH_LEVELS} levels")
    for part in _MAPPINGS:
        if not isinstance(value.get(part) or {}, dict):
            raise TypeError(f"its {part} is not an object")
    return RawObject(msgspec.convert(value.get("metadata", {}), ObjectMeta), msgspec.json.encode(value))


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """Where a kind lives in the API, and the type that it is read into."""

    group: str
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def raw(self) -> "Resource[RawObject]":
        """The same kind, read whole."""
        return replace(self, type=RawObject)  # type: ignore[arg-type,return-value]  # replace keeps T


PODS = Resource("", "v1", "pods", "Pod", Pod)
NODES = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
SERVICES = Resource("", "v1", "services", "Service", Service)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap)
SECRETS = Resource("", "v1", "secrets", "Secret", Secret)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", RawObject, namespaced=False)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", RawObject)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", StatefulSet)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", Deployment)
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", ControllerRevision)
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", Event)
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    CustomResourceDefinition,
    namespaced=False,
)

BUILT_IN: tuple[Resource[Any], ...] = (
    PODS,
    NODES,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    CLAIMS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    DEPLOYMENTS,
    CONTROLLER_REVISIONS,
    DISRUPTION_BUDGETS,
    LEASES,
    EVENTS,
    CRDS,
)


def resource_of(body: Mapping[str, Any], known: Mapping[tuple[str, str], Resource[Any]]) -> Resource[Any]:
    """The descriptor of a dictionary's kind; `known` maps (apiVersion, kind)."""
    key = (str(body.get("apiVersion", "")), str(body.get("kind", "")))
    if key not in known:
        raise KeyError(f"no resource is known for apiVersion {key[0]!r}, kind {key[1]!r}")
    return known[key]


def by_kind(resources: tuple[Resource[Any], ...]) -> dict[tuple[str, str], Resource[Any]]:
    """Descriptors by (apiVersion, kind)."""
    return {(resource.api_version, resource.kind): resource for resource in resources}
