"""Parts that several kinds share: object metadata, references, pod and container overlays, conditions.

Every other module in `api` builds its kind from these. Embedded Kubernetes types (containers, pod specs, service
specs) stay plain mappings: they are passed through, and a typed copy would lose what a newer Kubernetes adds.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

GROUP = "slinky.slurm.net"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"

INT32_MAX = 2**31 - 1
# Lines of a configuration file; an object of Kubernetes has room for hardly more.
MAX_FILE_BYTES = 1_000_000
MAX_DURATION_CHARACTERS = 64
MAX_NAMES = 16_384
PROMETHEUS_DURATION = r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"


def doc(text: str, **schema: Any) -> Meta:
    """Describe a field; `schema` adds OpenAPI keywords to the CRD, with `_` for `-` in x-kubernetes names."""
    extra = {key.replace("_", "-") if key.startswith("x_") else key: value for key, value in schema.items()}
    return Meta(description=text, extra_json_schema=extra or None)


def rule(expression: str, message: str) -> dict[str, str]:
    """One CEL validation rule."""
    return {"rule": expression, "message": message}


class Part(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A piece of a custom resource: frozen, camelCase on the wire, defaults left out when written."""


Count = Annotated[int, Meta(ge=0, le=INT32_MAX, extra_json_schema={"format": "int32"})]
Port = Annotated[int, Meta(ge=0, le=65535)]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Container = Annotated[dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
PodSpec = Annotated[dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
KubeServiceSpec = Annotated[dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
Claim = Annotated[
    dict[str, Any],
    Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True}),
]
StringMap = Annotated[dict[str, str], Meta(extra_json_schema={"nullable": True})]


class OwnerReference(Part, frozen=True, kw_only=True):
    """Who owns an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Part, frozen=True, kw_only=True):
    """The metadata that the operator reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class LocalObjectReference(Part, frozen=True, kw_only=True):
    """An object of a known kind in the same namespace."""

    name: Annotated[str, doc("Name of the object, in the namespace of this resource.")] = ""


class ControllerRef(Part, frozen=True, kw_only=True):
    """The Controller (Slurm cluster) that a resource belongs to."""

    name: Annotated[str, doc("Name of the Controller, in the namespace of this resource.")] = ""
    namespace: Annotated[
        str | None,
        doc("Accepted for older manifests when it is the namespace of this resource, refused otherwise."),
    ] = None


class SecretKeySelector(Part, frozen=True, kw_only=True):
    """One key of a Secret."""

    key: Annotated[str, doc("Key within the Secret.")]
    name: Annotated[str, doc("Name of the Secret, in the namespace of this resource.")] = ""
    optional: Annotated[bool | None, doc("Whether the Secret or its key may be missing.")] = None


class ConfigMapKeySelector(Part, frozen=True, kw_only=True):
    """One key of a ConfigMap."""

    key: Annotated[str, doc("Key within the ConfigMap.")]
    name: Annotated[str, doc("Name of the ConfigMap, in the namespace of this resource.")] = ""
    optional: Annotated[bool | None, doc("Whether the ConfigMap or its key may be missing.")] = None


ATOMIC = {"x_kubernetes_map_type": "atomic"}


class Metadata(Part, frozen=True, kw_only=True):
    """Labels and annotations that a template adds."""

    labels: Annotated[StringMap | None, doc("Labels to add.")] = None
    annotations: Annotated[StringMap | None, doc("Annotations to add.")] = None


class PodTemplate(Part, frozen=True, kw_only=True):
    """What a user lays over the pods that the operator makes."""

    metadata: Annotated[Metadata, doc("Labels and annotations of the pods.")] = Metadata()
    spec: Annotated[PodSpec, doc("A PodSpec that is merged over the operator's own.")] = {}


class ServiceTemplate(Part, frozen=True, kw_only=True):
    """What a user lays over a Service that the operator makes."""

    metadata: Annotated[Metadata, doc("Labels and annotations of the Service.")] = Metadata()
    spec: Annotated[KubeServiceSpec, doc("A ServiceSpec that the operator's port and selector are added to.")] = {}
    port: Annotated[Port | None, doc("Port that the Service listens on; the daemon's own port by default.")] = None
    node_port: Annotated[Port | None, doc("Node port, for a Service of type NodePort or LoadBalancer.")] = None


class ExternalConfig(Part, frozen=True, kw_only=True):
    """Where a daemon outside Kubernetes listens."""

    host: Annotated[str, doc("Host name or address.")]
    port: Annotated[Port, doc("TCP port.")]


DNS_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
CONDITION_TYPE = rf"^{DNS_PREFIX}(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class Condition(Part, frozen=True, kw_only=True):
    """One true statement about a resource, as the Kubernetes API conventions define it."""

    type: Annotated[str, Meta(max_length=316, pattern=CONDITION_TYPE), doc("What the condition is about.")]
    status: Annotated[str, doc("True, False or Unknown.", enum=["True", "False", "Unknown"])]
    reason: Annotated[
        str,
        Meta(min_length=1, max_length=1024, pattern=CONDITION_REASON),
        doc("A stable CamelCase name of the cause; each has a section in the documentation."),
    ]
    message: Annotated[str, Meta(max_length=32768), doc("The cause, in a sentence.")]
    last_transition_time: Annotated[Time, doc("When the status last changed.")]
    observed_generation: Annotated[
        Annotated[int, Meta(ge=0)] | None, doc("The generation that this is based on.", format="int64")
    ] = None


Conditions = Annotated[
    tuple[Condition, ...],
    doc(
        "What is true of this resource now.",
        x_kubernetes_list_type="map",
        x_kubernetes_list_map_keys=["type"],
    ),
]
ObservedGeneration = Annotated[int | None, doc("The newest generation that the operator has acted on.", format="int64")]


class Resource(Struct, frozen=True, kw_only=True, rename="camel"):
    """What every kind has in common."""

    api_version: str = API_VERSION
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return self.metadata.namespace
