"""Random small objects of each kind that the differential campaign plays with.

In: a `random.Random`. Out: JSON bodies, valid most of the time; small pools of names and values make the
requests of one sequence meet the same objects and fields again. Called by `requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.real.kube.differential import workloads

Json = dict[str, Any]

LABELS = {"app": ("red", "blue", "green"), "tier": ("front", "back")}
SENTINEL = "zz-sentinel"
SENTINEL_LABELS = {"app": "red", "tier": "front"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind under test: where it is served, and how its specific part is made."""

    plural: str
    prefix: str
    api_version: str
    kind: str
    names: tuple[str, ...]
    content: Callable[[Random], Json]
    builtin: bool = True
    status: Callable[[Random], Json] | None = None
    scales: bool = False

    @property
    def collection(self) -> str:
        """The path of the collection, with the namespace left open."""
        return f"{self.prefix}/namespaces/{{ns}}/{self.plural}"


def some(random: Random, pool: dict[str, tuple[str, ...]], chance: float) -> dict[str, str]:
    """A random part of a pool of keys, each with one of its values."""
    return {key: random.choice(values) for key, values in pool.items() if random.random() < chance}


def config_map(random: Random) -> Json:
    """Data, rarely binary data, rarely immutable."""
    pool: dict[str, tuple[str, ...]] = dict.fromkeys(("k1", "k2", "k3"), ("1", "2", "long\ntext", ""))
    content: Json = {"data": some(random, pool, 0.6)}
    if random.random() < 0.1:
        content["binaryData"] = {"blob": random.choice(("AAEC", "/w=="))}
    if random.random() < 0.04:
        content["immutable"] = True
    return content


def pod(random: Random) -> Json:
    """A pod, as the workloads make them."""
    return {"spec": workloads.pod_spec(random)}


def pod_status(random: Random) -> Json:
    """What a kubelet might write."""
    state = random.choice(("True", "False"))
    return {
        "phase": random.choice(("Pending", "Running")),
        "conditions": [{"type": random.choice(("Ready", "Initialized")), "status": state}],
    }


def service(random: Random) -> Json:
    """A cluster service, headless or not; addresses are the server's to choose."""
    ports = [{"name": "web", "port": 80}, {"name": "alt", "port": 8080, "targetPort": "web"}]
    count = random.choice((1, 1, 2))
    spec: Json = {"selector": some(random, LABELS, 0.7), "ports": ports[:count]}
    if random.random() < 0.4:
        spec["clusterIP"] = "None"
    if random.random() < 0.2:
        spec["publishNotReadyAddresses"] = True
    return {"spec": spec}


def service_status(random: Random) -> Json:
    """The one part of a service's status that anybody writes."""
    return {"conditions": [{"type": "Ready", "status": "True", "reason": random.choice(("A", "B"))}]}


def port_entries(random: Random) -> list[Json]:
    """Entries of the list map: keys may collide, which the server must refuse."""
    pool: tuple[Json, ...] = (
        {"name": "a", "number": 1},
        {"name": "a", "protocol": "UDP", "number": 2},
        {"name": "b", "protocol": "TCP"},
        {"name": "a", "protocol": "TCP", "number": 3},
    )
    return [dict(entry) for entry in random.sample(pool, random.choice((1, 1, 2)))]


WIDGET_FIELDS: dict[str, Callable[[Random], Any]] = {
    "replicas": lambda random: random.choice((0, 1, 2, 3, 3, 11, "two")),
    "size": lambda random: random.choice(("small", "large", "large", "huge")),
    "minimum": lambda random: random.choice((1, 5)),
    "maximum": lambda random: random.choice((3, 9)),
    "color": lambda random: random.choice(("red", "red", "red", "blue", "Red", "turquoises")),
    "note": lambda random: random.choice(("n", None)),
    "port": lambda random: random.choice((80, "http", 1.5)),
    "nested": lambda random: random.choice(({}, {"depth": 4}, {"enabled": False}, None)),
    "ports": port_entries,
    "tags": lambda random: random.choice((["x"], ["x", "y"], ["y", "z"], ["x", "x"])),
    "steps": lambda random: random.choice((["one"], ["one", "two"], [])),
    "limits": lambda random: random.choice(({"cpu": 1}, {"cpu": 2, "gpu": 1}, {})),
    "free": lambda random: random.choice(({"any": {"thing": [1]}}, {"other": True}, {"any": "text"})),
    "unknown": lambda random: random.choice(("field", {"deep": 1})),
}


def widget(random: Random) -> Json:
    """A few fields; each value is valid most of the time."""
    names = random.sample(tuple(WIDGET_FIELDS), random.choice((0, 1, 2, 2, 3, 4)))
    return {"spec": {name: WIDGET_FIELDS[name](random) for name in sorted(names)}}


def widget_status(random: Random) -> Json:
    """Counts and conditions, seldom invalid."""
    made: Json = {"replicas": random.choice((0, 1, 2)), "selector": "app=red"}
    if random.random() < 0.6:
        kinds = random.sample(("Ready", "Degraded"), random.choice((1, 2)))
        made["conditions"] = [
            {"type": kind, "status": random.choice(("True", "False", "True", "Maybe"))} for kind in kinds
        ]
    return made


NODESET_FIELDS: dict[str, Callable[[Random], Any]] = {
    "replicas": lambda random: random.choice((0, 2, 7, -1)),
    "scalingMode": lambda random: random.choice(("StatefulSet", "DaemonSet", "Mixed")),
    "partition": lambda random: random.choice(({"enabled": True}, {"enabled": False, "config": "X=1"}, {})),
    "updateStrategy": lambda random: random.choice(({"type": "OnDelete"}, {"type": "ScheduledUpdate"})),
    "slurmd": lambda random: random.choice(({"image": "slurmd:1"}, {"env": [{"name": "A", "value": "x"}]})),
    "extraConf": lambda random: random.choice(("Weight=10", "")),
    "template": lambda random: {"metadata": {"labels": some(random, LABELS, 0.7)}},
}


def nodeset(random: Random) -> Json:
    """Workers of a Slurm cluster, as users write them."""
    names = random.sample(tuple(NODESET_FIELDS), random.choice((0, 1, 2, 3)))
    spec: Json = {"controllerRef": {"name": random.choice(("slurm", "other"))}}
    if random.random() < 0.05:
        spec = {}
    return {"spec": spec | {name: NODESET_FIELDS[name](random) for name in sorted(names)}}


def nodeset_status(random: Random) -> Json:
    """The counts that scale and columns show."""
    return {"replicas": random.choice((0, 1, 2)), "selector": "app=red"}


PARTITION_FIELDS: dict[str, Callable[[Random], Any]] = {
    "nodeSets": lambda random: random.choice((["a"], ["a", "b"], ["b", "c"], ["a", "a"])),
    "state": lambda random: random.choice(("UP", "DRAIN", "SIDEWAYS")),
    "maxTime": lambda random: random.choice(("1-00:00:00", "UNLIMITED", "soon")),
    "maxNodes": lambda random: random.choice((4, "UNLIMITED")),
    "priorityTier": lambda random: random.choice((1, 65533, 65534)),
    "default": lambda random: random.choice((True, False)),
    "tresBillingWeights": lambda random: random.choice(({"CPU": "1.0"}, {"Mem": "0.25G", "CPU": "2"})),
}


def partition(random: Random) -> Json:
    """A partition over some node sets."""
    names = random.sample(tuple(PARTITION_FIELDS), random.choice((0, 1, 2, 3)))
    spec: Json = {"controllerRef": {"name": "slurm"}}
    return {"spec": spec | {name: PARTITION_FIELDS[name](random) for name in sorted(names)}}


CONFIG_MAPS = Kind("configmaps", "/api/v1", "v1", "ConfigMap", ("cm-a", "cm-a", "cm-b", "cm-c"), config_map)
PODS = Kind("pods", "/api/v1", "v1", "Pod", ("pod-a", "pod-a", "pod-b"), pod, status=pod_status)
SERVICES = Kind("services", "/api/v1", "v1", "Service", ("svc-a", "svc-b"), service, status=service_status)
WIDGETS = Kind(
    "widgets",
    "/apis/differential.example.com/v1",
    "differential.example.com/v1",
    "Widget",
    ("wd-a", "wd-a", "wd-b", "wd-c"),
    widget,
    builtin=False,
    status=widget_status,
    scales=True,
)
SLINKY = "slinky.slurm.net/v1beta1"
NODESETS = Kind(
    "nodesets",
    f"/apis/{SLINKY}",
    SLINKY,
    "NodeSet",
    ("ns-a", "ns-a", "ns-b"),
    nodeset,
    builtin=False,
    status=nodeset_status,
    scales=True,
)
PARTITIONS = Kind("partitions", f"/apis/{SLINKY}", SLINKY, "Partition", ("part-a", "part-b"), partition, builtin=False)
SECRETS = Kind("secrets", "/api/v1", "v1", "Secret", ("sec-a", "sec-b"), workloads.secret)
STATEFUL_SETS = Kind(
    "statefulsets",
    "/apis/apps/v1",
    "apps/v1",
    "StatefulSet",
    ("sts-a",),
    workloads.stateful_set,
    status=workloads.workload_status,
    scales=True,
)
DEPLOYMENTS = Kind(
    "deployments",
    "/apis/apps/v1",
    "apps/v1",
    "Deployment",
    ("dep-a",),
    workloads.deployment,
    status=workloads.workload_status,
    scales=True,
)
CLAIMS = Kind(
    "persistentvolumeclaims",
    "/api/v1",
    "v1",
    "PersistentVolumeClaim",
    ("pvc-a",),
    workloads.claim,
    status=workloads.claim_status,
)
BUDGETS = Kind(
    "poddisruptionbudgets",
    "/apis/policy/v1",
    "policy/v1",
    "PodDisruptionBudget",
    ("pdb-a",),
    workloads.disruption_budget,
)
LEASES = Kind("leases", "/apis/coordination.k8s.io/v1", "coordination.k8s.io/v1", "Lease", ("ls-a",), workloads.lease)
WEIGHTED_KINDS = {
    CONFIG_MAPS: 8,
    PODS: 6,
    SERVICES: 4,
    WIDGETS: 10,
    NODESETS: 4,
    PARTITIONS: 2,
    SECRETS: 2,
    STATEFUL_SETS: 3,
    DEPLOYMENTS: 2,
    CLAIMS: 1,
    BUDGETS: 1,
    LEASES: 1,
}
KINDS = tuple(WEIGHTED_KINDS)


def metadata(random: Random, name: str) -> Json:
    """Name, some labels, rarely an annotation or a finalizer."""
    made: Json = {"name": name}
    if labels := some(random, LABELS, 0.6):
        made["labels"] = labels
    if random.random() < 0.2:
        made["annotations"] = {"example.com/note": random.choice(("one", "two"))}
    if random.random() < 0.08:
        made["finalizers"] = ["example.com/hold"]
    return made


def whole(kind: Kind, name: str, random: Random) -> Json:
    """A complete object as a client would send it."""
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata(random, name)}
    return head | kind.content(random)


def sentinel(kind: Kind) -> Json:
    """The object whose appearance ends every watch; it satisfies every selector that a watch uses."""
    made = whole(kind, SENTINEL, Random(0))  # noqa: S311 (a fixed, valid object)
    made["metadata"] = {"name": SENTINEL, "labels": SENTINEL_LABELS}
    if not kind.builtin:
        made["spec"] = {"controllerRef": {"name": "slurm"}} if kind.api_version == SLINKY else {}
    return made
