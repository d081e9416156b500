"""What the benchmark asks for: a Controller with its RestApi, NodeSets, a Partition, and the pods that become of them.

In: names and numbers. Out: manifests, and the objects that the operator would make of them, for the bare client.
"""

from __future__ import annotations

from typing import Any

from slurm_operator.api.controller import Controller
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.validate import decode
from slurm_operator.build import nodeset
from slurm_operator.build.refs import Refs

Json = dict[str, Any]

API_VERSION = "slinky.slurm.net/v1beta1"
CONTROLLER, COMPUTE, PARTITION = "slurm", "compute", "bench"
CUSTOM = "/apis/slinky.slurm.net/v1beta1/namespaces/{namespace}/{plural}"
SHARED = {
    "Service": "/api/v1/namespaces/{namespace}/services",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
}
BINDING_POLICY = "bench-bound-at-once"


def path_of(namespace: str, plural: str, name: str = "") -> str:
    """Where a resource of ours lives."""
    return CUSTOM.format(namespace=namespace, plural=plural) + (f"/{name}" if name else "")


def cluster_name(namespace: str) -> str:
    """What Slurm calls a Controller of that namespace."""
    return f"{namespace}_{CONTROLLER}"


def _resource(kind: str, namespace: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def controller(namespace: str) -> Json:
    """A Controller without a disk."""
    keys = {
        "slurmKeyRef": {"name": "keys", "key": "slurm.key"},
        "jwtKeyRef": {"name": "keys", "key": "jwt.key"},
    }
    return _resource("Controller", namespace, CONTROLLER, {**keys, "persistence": {"enabled": False}})


def restapi(namespace: str, port: int) -> Json:
    """A RestApi; the port of its Service is that of the stand-in for this cluster."""
    spec = {"controllerRef": {"name": CONTROLLER}, "service": {"port": port}}
    return _resource("RestApi", namespace, CONTROLLER, spec)


def workers(namespace: str, replicas: int, name: str = COMPUTE) -> Json:
    """A NodeSet of small workers, many to a node."""
    spec = {
        "controllerRef": {"name": CONTROLLER},
        "replicas": replicas,
        "oversubscribeNode": True,
        "partition": {"enabled": True},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
    }
    return _resource("NodeSet", namespace, name, spec)


def partition(namespace: str, minutes: int) -> Json:
    """A Partition over the workers, with a time limit that is changed later."""
    spec = {"controllerRef": {"name": CONTROLLER}, "nodeSets": [COMPUTE], "maxTime": str(minutes)}
    return _resource("Partition", namespace, PARTITION, spec)


def built(controller_body: Json, nodeset_body: Json, count: int) -> tuple[list[Json], list[Json]]:
    """The objects that the operator would make: what workers share, and the workers."""
    cluster, cr = decode(controller_body).resource, decode(nodeset_body).resource
    if not isinstance(cluster, Controller) or not isinstance(cr, NodeSet):
        raise TypeError("the benchmark's own objects are not valid")
    refs = Refs(controllers={CONTROLLER: cluster}, nodesets=(cr,))
    template = nodeset.pod_template(cr, cluster, refs)
    pods = [nodeset.pod(cr, template, nodeset.WorkerIdentity(ordinal=number)) for number in range(count)]
    return nodeset.shared_objects(cluster, refs), pods


def binding_policy(nodes: int) -> list[Json]:
    """A mutating policy that binds every worker as it is created, by its number: no scheduler, no second write."""
    group = "admissionregistration.k8s.io/v1"
    number = "int(object.metadata.name.split('-')[size(object.metadata.name.split('-')) - 1])"
    expression = f"Object{{spec: Object.spec{{nodeName: 'fake-' + string({number} % {nodes})}}}}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    workers_only = {"matchLabels": {"app.kubernetes.io/name": "slurmd"}}
    policy = {
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": BINDING_POLICY},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "objectSelector": workers_only},
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        },
    }
    binding = {
        "apiVersion": group,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": BINDING_POLICY},
        "spec": {"policyName": BINDING_POLICY},
    }
    return [policy, binding]
