"""Objects that the tests on whole API servers write: a plain one, one of a custom kind, and those with every trap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kube_runtime.client.objects import CONFIG_MAPS, ConfigMap, RawObject, Resource

if TYPE_CHECKING:
    from tests.kube_runtime.client.conftest import Api

WIDGETS = Resource("kube.test", "v1", "widgets", "Widget", RawObject)
CONDITION = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
}
WIDGET_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.kube.test"},
    "spec": {
        "group": "kube.test",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "replicas": {"type": "integer"},
                                    "colour": {"type": "string", "default": "red"},
                                    "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "replicas": {"type": "integer"},
                                    "conditions": {
                                        "type": "array",
                                        "items": CONDITION,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["type"],
                                    },
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


def config_map(api: Api, name: str = "a", labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": api.namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def make(api: Api, name: str = "a", labels: dict[str, str] | None = None, **data: str) -> ConfigMap:
    return await api.client.create(CONFIG_MAPS, config_map(api, name, labels, **data), api.namespace)


def widget(api: Api, **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kube.test/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": api.namespace},
        **parts,
    }


def stateful_set(api: Api) -> dict[str, Any]:
    """Every trap of a comparison in one object: defaults, zeros, quantities, keyed, atomic and ordered lists."""
    labels = {"app": "x"}
    container = {
        "name": "slurmctld",
        "image": "slurmctld:1",
        "args": ["-D"],
        "env": [{"name": "B", "value": ""}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"containerPort": 6817}, {"name": "dns", "containerPort": 6817, "protocol": "UDP"}],
        "resources": {"limits": {"cpu": "2000m", "memory": "1024Mi"}, "requests": {"cpu": 1}},
        "readinessProbe": {"tcpSocket": {"port": 6817}, "initialDelaySeconds": 0},
        "securityContext": {"privileged": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "etc", "mountPath": "/etc/slurm", "readOnly": False}],
    }
    pod_spec = {
        "hostNetwork": False,
        "automountServiceAccountToken": False,
        "containers": [container],
        "initContainers": [{"name": "sidecar", "image": "s", "restartPolicy": "Always", "tty": True}],
        "volumes": [
            {"name": "etc", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}},
            {"name": "run", "emptyDir": {}},
            {"name": "big", "emptyDir": {"sizeLimit": "2048Mi"}},
        ],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    }
    claim = {
        "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "ctl", "namespace": api.namespace, "labels": dict(labels), "annotations": {"empty": ""}},
        "spec": {
            "replicas": 0,
            "serviceName": "ctl",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
            "volumeClaimTemplates": [claim],
        },
    }


def service(api: Api) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "svc",
            "namespace": api.namespace,
            "ownerReferences": [owner("u1")],
            "finalizers": ["a.b/c"],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app": "x"},
            "ports": [{"name": "b", "port": 6818}, {"name": "a", "port": 6817, "targetPort": "slurmctld"}],
        },
    }


def owner(uid: str) -> dict[str, Any]:
    return {"apiVersion": "kube.test/v1", "kind": "Widget", "name": "w", "uid": uid, "controller": True}


def budget(api: Api) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": api.namespace},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}},
    }


def secret(api: Api) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": api.namespace},
        "type": "Opaque",
        "data": {"key": "AAEC"},
        "immutable": False,
    }


def pod(api: Api) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": api.namespace},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
    }
