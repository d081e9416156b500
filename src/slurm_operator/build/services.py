"""Services: the operator's port and selector, laid into what the user asks for.

Used by every kind that others connect to.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_runtime.strategic_merge import MergeConflict
from slurm_operator.api.meta import Resource, ServiceTemplate
from slurm_operator.build import labels, metadata, overlay
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.labels import Component
from slurm_operator.build.metadata import Object


def service(cr: Resource, name: str, component: Component, default_port: int, user: ServiceTemplate) -> Object:
    """The Service in front of a resource's daemon, with the user's overlay."""
    port: Object = {
        "name": component.daemon,
        "protocol": "TCP",
        "port": user.port or default_port,
        "targetPort": component.daemon,
    }
    if user.node_port:
        port["nodePort"] = user.node_port
    ours = {"selector": labels.selector(component, cr.name), "ports": [port]}
    try:
        spec = overlay.merge_service_spec(ours, user.spec)
    except MergeConflict as conflict:
        raise InvalidSpec(("spec", "service", "spec", *conflict.steps), conflict.message) from conflict
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata.child(cr, name, labels.of(component, cr.name), extra=user.metadata),
        "spec": spec,
    }


def headless_spec(selector: Mapping[str, str], port_name: str, port: int) -> Object:
    """The spec of a Service that only gives names, also to pods that are not ready yet."""
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": dict(selector),
        "ports": [{"name": port_name, "protocol": "TCP", "port": port, "targetPort": port_name}],
    }
