"""What each of our programs may do in Kubernetes: as much as it does, and nothing more.

In: nothing. Out: tables that `tools/rbac.py` turns into Roles. A test holds them against what the programs ask the API
server for; who makes the code ask for more adds it here, and who removes the last use takes it away.
"""

from __future__ import annotations

from kube_runtime.client.rights import Right, Scope
from slurm_operator.program import NAME

GROUP = "slinky.slurm.net"
OURS = ("accountings", "controllers", "loginsets", "nodesets", "partitions", "restapis", "tokens")

READ = ("list", "watch")
# A server-side apply is a patch, and a create where there was nothing.
APPLY = ("create", "patch")
LEASE = NAME

REVIEWS = (
    Right("authentication.k8s.io", ("tokenreviews",), ("create",), Scope.METRICS),
    Right("authorization.k8s.io", ("subjectaccessreviews",), ("create",), Scope.METRICS),
)

OPERATOR = (
    Right(GROUP, OURS, ("get", *READ)),
    # Finalizers, while jobs are waited for.
    Right(GROUP, ("nodesets", "partitions"), ("patch",)),
    Right(GROUP, tuple(f"{kind}/status" for kind in OURS), ("patch",)),
    # Their children block their deletion, where the cluster asks for a right to that.
    Right(GROUP, tuple(f"{kind}/finalizers" for kind in OURS if kind != "partitions"), ("update",)),
    Right("", ("configmaps", "secrets", "services"), (*READ, *APPLY, "delete")),
    Right("", ("persistentvolumeclaims",), (*READ, *APPLY, "delete")),
    Right("", ("pods",), (*READ, *APPLY, "delete")),
    Right("", ("pods/status",), ("patch",)),
    # The verdict of the sidecar that applies configurations.
    Right("", ("pods/log",), ("get",)),
    # Claims that go with their worker.
    Right("", ("pods/finalizers",), ("update",)),
    Right("apps", ("controllerrevisions", "deployments", "statefulsets"), (*READ, *APPLY, "delete")),
    Right("policy", ("poddisruptionbudgets",), (*READ, *APPLY, "delete")),
    # Where the Prometheus operator is installed; elsewhere nobody can use it.
    Right("monitoring.coreos.com", ("servicemonitors",), (*READ, *APPLY, "delete")),
    Right("events.k8s.io", ("events",), ("get", "create", "patch")),
    Right("", ("nodes",), READ, Scope.CLUSTER),
    Right("coordination.k8s.io", ("leases",), ("create",), Scope.OWN),
    Right("coordination.k8s.io", ("leases",), ("get", "update"), Scope.OWN, (LEASE,)),
    *REVIEWS,
)

# Secrets of clusters are none of its business; it looks at its own certificate alone. The names are the chart's.
WEBHOOK = (
    Right(GROUP, OURS, READ),
    Right("", ("configmaps", "persistentvolumeclaims"), READ),
    Right("", ("secrets",), ("create",), Scope.OWN),
    Right("", ("secrets",), ("get", "patch"), Scope.OWN, ("<certificate>",)),
    Right(
        "admissionregistration.k8s.io",
        ("validatingwebhookconfigurations",),
        ("get", "patch"),
        Scope.CLUSTER,
        ("<configuration>",),
    ),
    *REVIEWS,
)

# For people: what Kubernetes' own roles of these names give for its own kinds.
VIEW = (Right(GROUP, OURS, ("get", *READ)),)
EDIT = (
    Right(GROUP, OURS, ("create", "update", "patch", "delete", "deletecollection")),
    Right(GROUP, ("loginsets/scale", "nodesets/scale"), ("get", "update", "patch")),
)
