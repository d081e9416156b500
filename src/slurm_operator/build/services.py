"""Services: the operator's port and selector, laid into what the user asks for.

Used by every kind that others connect to.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_runtime.strategic_merge import MergeConflict
from slurm_operator.api.meta import Resource, ServiceTemplate
from slurm_operator.build import metadata, overlay
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.metadata import Object


def service(
    cr: Resource,
    name: str,
    labels: Mapping[str, str],
    selector: Mapping[str, str],
    port_name: str,
    default_port: int,
    user: ServiceTemplate,
) -> Object:
    """A Service of a resource, with the user's overlay."""
    port: Object = {
        "name": port_name,
        "protocol": "TCP",
        "port": user.port or default_port,
        "targetPort": port_name,
    }
    if user.node_port:
        port["nodePort"] = user.node_port
    try:
        spec = overlay.merge_service_spec({"selector": dict(selector), "ports": [port]}, user.spec)
    except MergeConflict as conflict:
        raise InvalidSpec(("spec", "service", "spec", *conflict.steps), conflict.message) from conflict
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata.child(cr, name, labels, extra=user.metadata),
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
