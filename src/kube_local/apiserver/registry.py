"""Which resources exist: the built-in kinds, and those that CustomResourceDefinitions add and take away at run time.

`routes` resolves paths with it, `discovery` prints it, `crds` changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

STANDARD_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps its replicas, as in a CRD's `subresources.scale`."""

    spec: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("status", "selector")


@dataclass(frozen=True, slots=True)
class Kind:
    """One served resource: a kind in one version of one group."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    list_kind: str = ""
    scale: ScalePaths | None = None
    # Events have one storage behind two groups; every other resource is stored under its own name.
    stored_as: str = ""
    stored_version: str = ""
    crd_version: dict[str, Any] | None = field(default=None, compare=False, hash=False)

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_api_version(self) -> str:
        """The apiVersion inside stored objects."""
        return self.stored_version or self.api_version

    @property
    def resource(self) -> str:
        """The name of the storage: `pods`, `deployments.apps`."""
        return self.stored_as or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def list_name(self) -> str:
        """The kind of its lists."""
        return self.list_kind or f"{self.kind}List"

    @property
    def custom(self) -> bool:
        """Made by a CustomResourceDefinition."""
        return self.crd_version is not None

    @property
    def has_status(self) -> bool:
        """Status is written through its own subresource."""
        return "status" in self.subresources


class Registry:
    """The served kinds, by group, version and plural."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def add(self, kind: Kind) -> None:
        """Serves one more kind, or replaces it."""
        self._kinds[(kind.group, kind.version, kind.plural)] = kind

    def remove(self, group: str, plural: str) -> None:
        """Stops serving a resource in every version."""
        for key in [key for key in self._kinds if key[0] == group and key[2] == plural]:
            del self._kinds[key]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind a path."""
        return self._kinds.get((group, version, plural))

    def by_storage(self, resource: str) -> Kind | None:
        """A kind that reads this storage as it is stored."""
        found = [kind for kind in self if kind.resource == resource]
        exact = [kind for kind in found if kind.api_version == kind.stored_api_version]
        return next(iter(exact or found), None)

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object names."""
        return next((one for one in self if one.api_version == api_version and one.kind == kind), None)

    def versions(self) -> dict[str, list[str]]:
        """Every group with its versions, in order of registration."""
        found: dict[str, list[str]] = {}
        for kind in self:
            versions = found.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        return found

    def in_version(self, group: str, version: str) -> list[Kind]:
        """The kinds of one group version, by plural."""
        found = [kind for kind in self if kind.group == group and kind.version == version]
        return sorted(found, key=lambda kind: kind.plural)


_WORKLOAD = ("status", "scale")
_LABEL_SELECTOR_SCALE = ScalePaths(selector=("spec", "selector"))


def _kind(
    group_version: str, kind: str, plural: str, short: str = "", sub: tuple[str, ...] = (), *, namespaced: bool = True
) -> Kind:
    group, _, version = group_version.rpartition("/")
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        short_names=tuple(short.split()),
        subresources=sub,
        scale=_LABEL_SELECTOR_SCALE if "scale" in sub else None,
        categories=("all",) if kind in _ALL else (),
    )


_ALL = frozenset({"Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet"})


def _cluster(group_version: str, kind: str, plural: str, short: str = "", sub: tuple[str, ...] = ()) -> Kind:
    return _kind(group_version, kind, plural, short, sub, namespaced=False)


def _review(group: str, kind: str) -> Kind:
    return replace(_cluster(f"{group}/v1", kind, f"{kind.lower()}s"), verbs=("create",))


_POD_SUBRESOURCES = ("binding", "eviction", "exec", "log", "portforward", "status")
_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"


def builtin_kinds() -> list[Kind]:
    """What a fresh server serves: the kinds that the operator, its charts and their users have; others are a 404."""
    return [*_core(), *_workloads(), *_cluster_policy(), *_reviews()]


def _core() -> list[Kind]:
    return [
        _kind("v1", "ConfigMap", "configmaps", "cm"),
        _kind("v1", "Event", "events", "ev"),
        _cluster("v1", "Namespace", "namespaces", "ns", ("status",)),
        _cluster("v1", "Node", "nodes", "no", ("status",)),
        _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", ("status",)),
        _cluster("v1", "PersistentVolume", "persistentvolumes", "pv", ("status",)),
        _kind("v1", "Pod", "pods", "po", _POD_SUBRESOURCES),
        _kind("v1", "Secret", "secrets"),
        _kind("v1", "ServiceAccount", "serviceaccounts", "sa"),
        _kind("v1", "Service", "services", "svc", ("status",)),
        replace(_kind("events.k8s.io/v1", "Event", "events", "ev"), stored_as="events", stored_version="v1"),
    ]


def _workloads() -> list[Kind]:
    return [
        _kind("apps/v1", "ControllerRevision", "controllerrevisions"),
        _kind("apps/v1", "Deployment", "deployments", "deploy", _WORKLOAD),
        _kind("apps/v1", "ReplicaSet", "replicasets", "rs", _WORKLOAD),
        _kind("apps/v1", "StatefulSet", "statefulsets", "sts", _WORKLOAD),
        _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", ("status",)),
        _kind("coordination.k8s.io/v1", "Lease", "leases"),
        _kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
        _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol"),
    ]


def _cluster_policy() -> list[Kind]:
    return [
        _cluster(_RBAC, "ClusterRoleBinding", "clusterrolebindings"),
        _cluster(_RBAC, "ClusterRole", "clusterroles"),
        _kind(_RBAC, "RoleBinding", "rolebindings"),
        _kind(_RBAC, "Role", "roles"),
        _cluster("storage.k8s.io/v1", "StorageClass", "storageclasses", "sc"),
        _cluster("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc"),
        _cluster(_ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        _cluster(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "crd crds", ("status",)
        ),
    ]


def _reviews() -> list[Kind]:
    return [
        _review("authentication.k8s.io", "SelfSubjectReview"),
        _review("authentication.k8s.io", "TokenReview"),
        _review("authorization.k8s.io", "SelfSubjectAccessReview"),
        _review("authorization.k8s.io", "SelfSubjectRulesReview"),
        _review("authorization.k8s.io", "SubjectAccessReview"),
    ]
