"""From the kinds to CustomResourceDefinitions.

In: `kinds.KINDS`. Out: the objects in deploy/crds, also printed by `slurm-operator crds`.
"""

from __future__ import annotations

from typing import Any

from slurm_operator.api.bounds import bounded
from slurm_operator.api.kinds import KINDS, Column, Kind
from slurm_operator.api.meta import GROUP, VERSION
from slurm_operator.api.patterns import with_rules
from slurm_operator.api.schema import Schema, struct_schema

READY = Column("READY", "string", '.status.conditions[?(@.type=="Ready")].status')
REASON = Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason', priority=1)
AGE = Column("AGE", "date", ".metadata.creationTimestamp")
API_VERSION_TEXT = "Version of the schema of this object."
KIND_TEXT = "Kind of this object."


def definitions() -> list[dict[str, Any]]:
    """Every CustomResourceDefinition, by name."""
    return sorted((definition(kind) for kind in KINDS), key=lambda crd: str(crd["metadata"]["name"]))


def definition(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": _names(kind),
            "scope": "Namespaced",
            "versions": [_version(kind)],
        },
    }


def object_schema(kind: Kind) -> Schema:
    """The whole structural schema of a kind."""
    struct = struct_schema(kind.struct)
    properties = {
        "apiVersion": {"type": "string", "description": API_VERSION_TEXT},
        "kind": {"type": "string", "description": KIND_TEXT},
        "metadata": {"type": "object"},
        "spec": bounded(struct["properties"]["spec"]),
        "status": _without_defaults(struct["properties"]["status"]),
    }
    return {"type": "object", "description": (kind.struct.__doc__ or "").strip(), "properties": properties}


def _without_defaults(schema: Schema) -> Schema:
    # Status is written by the operator alone; a default there would be a statement that nobody made.
    properties = {
        name: {keyword: value for keyword, value in field.items() if keyword != "default"}
        for name, field in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _names(kind: Kind) -> dict[str, Any]:
    return {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "shortNames": list(kind.short_names),
        "categories": ["slurm"],
    }


def _version(kind: Kind) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if kind.scalable:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": with_rules(object_schema(kind))},
        "subresources": subresources,
        "additionalPrinterColumns": [_column(column) for column in (*kind.columns, *_state(kind), AGE)],
    }


def _state(kind: Kind) -> tuple[Column, ...]:
    # NodeSet already has a READY count that scripts read; its condition is shown by `-o wide` only.
    return (REASON,) if any(column.name == "READY" for column in kind.columns) else (READY, REASON)


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.priority:
        shown["priority"] = column.priority
    return shown
