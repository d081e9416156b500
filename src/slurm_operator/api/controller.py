"""Controller: a Slurm cluster's control daemon (slurmctld), its keys and its configuration.

Read by `build/controller.py` and `build/slurm_conf.py`, and by every kind that joins the cluster.
"""

from typing import Annotated

from msgspec import Meta

from slurm_operator.api.meta import (
    ATOMIC,
    MAX_DURATION_CHARACTERS,
    MAX_FILE_BYTES,
    PROMETHEUS_DURATION,
    Conditions,
    ConfigMapKeySelector,
    Container,
    Count,
    ExternalConfig,
    LocalObjectReference,
    ObservedGeneration,
    Part,
    PodTemplate,
    Resource,
    SecretKeySelector,
    ServiceTemplate,
    StringMap,
    doc,
    rule,
)

ConfigMapRefs = Annotated[tuple[LocalObjectReference, ...] | None, Meta(extra_json_schema={"nullable": True})]
PromDuration = Annotated[str, Meta(pattern=PROMETHEUS_DURATION, max_length=MAX_DURATION_CHARACTERS)]

SLURM_KEY_RULE = rule("!self.external ? has(self.slurmKeyRef) : true", "slurmKeyRef must be set when external is false")
JWT_KEY_RULE = rule(
    "!self.external ? has(self.jwtKeyRef) || has(self.jwtHs256KeyRef) : true",
    "jwtKeyRef or jwtHs256KeyRef must be set when external is false",
)
EXTERNAL_RULE = rule(
    "self.external ? has(self.externalConfig) : true", "externalConfig must be set when external is true"
)
HA_RULE = rule(
    "has(self.ha) && self.ha.enabled ? has(self.persistence) && self.persistence.enabled"
    " && has(self.persistence.existingClaim) && self.persistence.existingClaim.size() > 0 : true",
    "slurm high availability (HA) mode requires existing PVC with an access mode of ReadWriteMany",
)

# Each has a line in slurm.conf, which every command and daemon reads; sites have one or two.
MAX_BACKUPS = 15


class HighAvailability(Part, frozen=True, kw_only=True):
    """Backup controllers."""

    enabled: Annotated[bool, doc("Run backup controllers beside the primary.", x_required=True)] = False
    backups: Annotated[int, Meta(ge=1, le=MAX_BACKUPS), doc("How many backups.", format="int32")] = 1


class TypedReference(Part, frozen=True, kw_only=True):
    """An object that a claim is filled from."""

    kind: Annotated[str, doc("Kind of the object.")]
    name: Annotated[str, doc("Name of the object.")]
    api_group: Annotated[str | None, doc("API group of the object; empty for the core group.")] = None


class NamespacedTypedReference(TypedReference, frozen=True, kw_only=True):
    """An object that a claim is filled from, with its namespace as Kubernetes spells it."""

    namespace: Annotated[str | None, doc("Namespace of the object; must be that of this resource.")] = None


IntOrString = Annotated[int | str, Meta(extra_json_schema={"x-kubernetes-int-or-string": True})]


class VolumeResources(Part, frozen=True, kw_only=True):
    """How much storage a claim asks for."""

    limits: Annotated[dict[str, IntOrString] | None, doc("The maximum that may be used.")] = None
    requests: Annotated[dict[str, IntOrString] | None, doc("The minimum that is needed.")] = None


class SelectorRequirement(Part, frozen=True, kw_only=True):
    """One expression of a label selector."""

    key: Annotated[str, doc("Label key.")]
    operator: Annotated[str, doc("In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[tuple[str, ...] | None, doc("Values.", x_kubernetes_list_type="atomic")] = None


class LabelSelector(Part, frozen=True, kw_only=True):
    """Which objects are meant."""

    match_labels: Annotated[dict[str, str] | None, doc("Labels that must be there.")] = None
    match_expressions: Annotated[
        tuple[SelectorRequirement, ...] | None,
        doc("Expressions that must hold.", x_kubernetes_list_type="atomic"),
    ] = None


class Persistence(Part, frozen=True, kw_only=True):
    """Where slurmctld keeps its state."""

    enabled: Annotated[bool, doc("Keep the state on a volume; otherwise it is lost with the pod.", x_required=True)] = (
        True
    )
    existing_claim: Annotated[str | None, doc("Use this claim instead of making one.")] = None
    access_modes: Annotated[
        tuple[str, ...] | None,
        doc("Access modes of the claim; ReadWriteOnce where none is given.", x_kubernetes_list_type="atomic"),
    ] = None
    data_source: Annotated[TypedReference | None, doc("What the claim is filled from.", **ATOMIC)] = None
    data_source_ref: Annotated[NamespacedTypedReference | None, doc("What the claim is filled from.")] = None
    resources: Annotated[VolumeResources | None, doc("Size of the claim; 4Gi where none is given.")] = None
    selector: Annotated[LabelSelector | None, doc("Which volumes may be bound.", **ATOMIC)] = None
    storage_class_name: Annotated[str | None, doc("Storage class of the claim.")] = None
    volume_attributes_class_name: Annotated[str | None, doc("Volume attributes class of the claim.")] = None
    volume_mode: Annotated[str | None, doc("Filesystem or Block.")] = None
    volume_name: Annotated[str | None, doc("Bind to this volume.")] = None


class Endpoint(Part, frozen=True, kw_only=True):
    """One path that is scraped."""

    path: Annotated[str, doc("HTTP path.")]
    interval: Annotated[PromDuration | None, doc("How often; the monitor's own interval by default.")] = None
    scrape_timeout: Annotated[PromDuration | None, doc("How long a scrape may take.")] = None


class ServiceMonitor(Part, frozen=True, kw_only=True):
    """The Prometheus operator's ServiceMonitor."""

    enabled: Annotated[bool, doc("Make a ServiceMonitor.")] = False
    labels: Annotated[StringMap | None, doc("Labels of the ServiceMonitor.")] = None
    annotations: Annotated[StringMap | None, doc("Annotations of the ServiceMonitor.")] = None
    interval: Annotated[PromDuration | None, doc("How often to scrape.")] = None
    scrape_timeout: Annotated[PromDuration | None, doc("How long a scrape may take.")] = None
    endpoints: Annotated[tuple[Endpoint, ...] | None, doc("Paths to scrape.", nullable=True)] = None


class Metrics(Part, frozen=True, kw_only=True):
    """Slurm's own metrics."""

    enabled: Annotated[bool, doc("Let slurmctld serve OpenMetrics (Slurm 25.11 and newer).")] = False
    service_monitor: Annotated[
        ServiceMonitor | None, doc("A ServiceMonitor for the Prometheus operator.", nullable=True)
    ] = None


class ControllerSpec(Part, frozen=True, kw_only=True):
    """What a Slurm cluster's controller should be."""

    cluster_name: Annotated[
        str | None, doc("Slurm's ClusterName; `<namespace>_<name>` when empty. Never changes once set.")
    ] = None
    slurm_key_ref: Annotated[SecretKeySelector | None, doc("The auth/slurm key.", **ATOMIC)] = None
    jwt_hs256_key_ref: Annotated[
        SecretKeySelector | None, doc("Older name of jwtKeyRef, which wins when both are set.", **ATOMIC)
    ] = None
    jwt_key_ref: Annotated[SecretKeySelector | None, doc("The auth/jwt HS256 key.", **ATOMIC)] = None
    jwks_key_ref: Annotated[ConfigMapKeySelector | None, doc("A JWKS file for auth/jwt.", **ATOMIC)] = None
    accounting_ref: Annotated[LocalObjectReference | None, doc("The Accounting to use.", **ATOMIC)] = None
    external: Annotated[bool, doc("slurmctld runs outside Kubernetes, at externalConfig.")] = False
    external_config: Annotated[ExternalConfig | None, doc("Where the external slurmctld listens.")] = None
    ha: Annotated[HighAvailability | None, doc("Backup controllers; needs an existing ReadWriteMany claim.")] = None
    slurmctld: Annotated[Container, doc("Container that is merged over slurmctld's own.")] = {}
    inplace_reconfigure: Annotated[
        bool,
        doc("Apply configuration changes in the running slurmctld; false restarts its pod for each change."),
    ] = True
    reconfigure: Annotated[Container, doc("Container that is merged over the reconfigure sidecar.")] = {}
    logfile: Annotated[Container, doc("Container that is merged over the log sidecar.")] = {}
    template: Annotated[PodTemplate, doc("Overlay of the pods.")] = PodTemplate()
    extra_conf: Annotated[str | None, doc("Lines that are added to slurm.conf.", maxLength=MAX_FILE_BYTES)] = None
    config_file_refs: Annotated[
        ConfigMapRefs, doc("ConfigMaps whose keys become files beside slurm.conf, such as gres.conf.")
    ] = None
    prolog_script_refs: Annotated[ConfigMapRefs, doc("ConfigMaps whose keys are Prolog scripts.")] = None
    epilog_script_refs: Annotated[ConfigMapRefs, doc("ConfigMaps whose keys are Epilog scripts.")] = None
    prolog_slurmctld_script_refs: Annotated[
        ConfigMapRefs, doc("ConfigMaps whose keys are PrologSlurmctld scripts.")
    ] = None
    epilog_slurmctld_script_refs: Annotated[
        ConfigMapRefs, doc("ConfigMaps whose keys are EpilogSlurmctld scripts.")
    ] = None
    persistence: Annotated[Persistence, doc("Where slurmctld keeps its state.")] = Persistence()
    service: Annotated[ServiceTemplate, doc("Overlay of the Service.")] = ServiceTemplate()
    metrics: Annotated[Metrics, doc("Slurm's own metrics.")] = Metrics()


class ConfigStages(Part, frozen=True, kw_only=True):
    """How long each stage took in the sidecar, in milliseconds."""

    parse: Annotated[Count | None, doc("Reading by Slurm's own parser.")] = None
    trial: Annotated[Count | None, doc("A trial slurmctld.")] = None
    reconfigure: Annotated[Count | None, doc("The reconfigure; 0 when none was needed.")] = None


class LaggingDaemon(Part, frozen=True, kw_only=True):
    """A daemon that does not run with the configuration in force."""

    daemon: Annotated[str, doc("slurmctld, slurmd, slurmrestd or login.")]
    name: Annotated[str, doc("Its pod or node.")]
    why: Annotated[str, doc("What it runs with, as far as is known.")]


class DaemonCensus(Part, frozen=True, kw_only=True):
    """Which configuration the daemons of one kind run with, as far as it is known."""

    daemon: Annotated[str, doc("slurmctld, slurmd, slurmrestd or login.")]
    total: Annotated[Count, doc("How many there are.")]
    current: Annotated[Count, doc("How many run with the configuration in force.")]
    behind: Annotated[Count | None, doc("How many run with another one.")] = None
    unknown: Annotated[Count | None, doc("Of how many it is not known.")] = None
    names: Annotated[tuple[str, ...], doc("The first few that are not current.", x_kubernetes_list_type="atomic")] = ()
    why: Annotated[str | None, doc("Why they are not counted as current.")] = None


class ConfigStatus(Part, frozen=True, kw_only=True):
    """The configuration: what is in force, and what is on its way."""

    hash: Annotated[str | None, doc("The configuration that slurmctld runs with.")] = None
    candidate: Annotated[str | None, doc("The one that is wanted but not in force.")] = None
    last_applied: Annotated[str | None, doc("When the one in force took effect.", format="date-time")] = None
    milliseconds: Annotated[Count | None, doc("How long the sidecar took to put it in force.")] = None
    stages: Annotated[ConfigStages | None, doc("How long each stage took.")] = None
    lagging: Annotated[
        tuple[LaggingDaemon, ...], doc("Daemons that run with another one.", x_kubernetes_list_type="atomic")
    ] = ()
    last_read: Annotated[
        str | None, doc("When slurmctld last read its files, and sent them to every slurmd.", format="date-time")
    ] = None
    daemons: Annotated[
        tuple[DaemonCensus, ...],
        doc(
            "Which daemons run with the configuration in force.",
            x_kubernetes_list_type="map",
            x_kubernetes_list_map_keys=["daemon"],
        ),
    ] = ()


class ControllerStatus(Part, frozen=True, kw_only=True):
    """What is true of a controller."""

    observed_generation: ObservedGeneration = None
    config_hash: Annotated[str | None, doc("Hash of the configuration that is published.")] = None
    replicas: Annotated[Count | None, doc("How many controller pods there are.")] = None
    ready_replicas: Annotated[Count | None, doc("How many of them are ready.")] = None
    config: Annotated[ConfigStatus | None, doc("The configuration in force, and the one being tried.")] = None
    cluster_name: Annotated[
        str | None,
        doc("ClusterName of an external Slurm: spec.clusterName, or that of the first that answered."),
    ] = None
    conditions: Conditions = ()


class Controller(Resource, frozen=True, kw_only=True, tag_field="kind", tag="Controller"):
    """A Slurm cluster: slurmctld, its keys and its configuration."""

    spec: Annotated[
        ControllerSpec,
        doc(
            "Desired state of the controller.",
            x_kubernetes_validations=[SLURM_KEY_RULE, JWT_KEY_RULE, EXTERNAL_RULE, HA_RULE],
        ),
    ] = ControllerSpec()
    status: Annotated[ControllerStatus, doc("Observed state.")] = ControllerStatus()

    @property
    def cluster_name(self) -> str:
        """Slurm's ClusterName."""
        return self.spec.cluster_name or f"{self.namespace}_{self.name}"

    @property
    def jwt_key_ref(self) -> SecretKeySelector | None:
        """The JWT key reference in force."""
        return self.spec.jwt_key_ref or self.spec.jwt_hs256_key_ref

    @property
    def replicas(self) -> int:
        """How many controller pods should run."""
        ha = self.spec.ha
        return 1 + ha.backups if ha and ha.enabled else 1
