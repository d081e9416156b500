"""The types of one kind as a tree that can be walked beside an object.

In: an OpenAPI schema (a built-in definition with references, or the schema of a CRD version). Out: `TypeNode`s that say
for each place which shapes are allowed there and how it is merged: granular or atomic maps, atomic lists, sets, lists
keyed by fields. Rules are those of Kubernetes' conversion of OpenAPI into merge types. Called by `typed_values`,
`strategic`, `schema`, `validation` and `structural`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

Shape = Literal["map", "scalar", "list"]

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


class TypeTree:
    """All named types of one document; nodes are made when first asked for, so that recursive types work."""

    def __init__(self, definitions: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self.shapes = shapes
        self._nodes: dict[tuple[str, str | None], TypeNode] = {}
        self.untyped = TypeNode({}, self, atomic=True)
        self.deduced = TypeNode({}, self)

    def named(self, name: str, map_type: str | None = None) -> TypeNode:
        """A definition by name; `map_type` is the override that a field may put on the type that it refers to."""
        found = self._nodes.get((name, map_type))
        if found is None:
            found = self._nodes[name, map_type] = self._make(name, map_type)
        return found

    def _make(self, name: str, map_type: str | None) -> TypeNode:
        if name == RAW_EXTENSION or name not in self._definitions:
            return self.untyped
        raw = self._definitions[name]
        if map_type is not None:
            raw = {**raw, "x-kubernetes-map-type": map_type}
        return TypeNode(raw, self, name=name)

    def node(self, raw: Mapping[str, Any], preserve: bool = False) -> TypeNode:
        """The type of a place: a reference, a reference wrapped in a single allOf, or a schema in place."""
        reference = raw.get("$ref")
        if reference is None and len(raw.get("allOf", ())) == 1:
            reference = raw["allOf"][0].get("$ref")
        if isinstance(reference, str):
            return self.named(reference.rsplit("/", 1)[-1], raw.get("x-kubernetes-map-type"))
        return TypeNode(raw, self, preserve=preserve)


class TypeNode:
    """One place in the tree of types."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        tree: TypeTree,
        *,
        preserve: bool = False,
        atomic: bool = False,
        name: str = "",
    ) -> None:
        self.raw = raw
        self.tree = tree
        self.name = name
        self.inherits_preserve = preserve or raw.get(_PRESERVE) is True
        self._untyped_atomic = atomic
        kind = raw.get("type", "")
        self.scalar: str | None = _scalar(kind, raw.get("format", "")) if name != QUANTITY else "untyped"
        self.is_map = kind in ("object", "")
        self.is_list = kind in ("array", "")
        self.declares_type = bool(kind)

    def shape_for(self, value: Any) -> Shape:
        """Which of the allowed shapes a value takes; the first allowed one where the value fits none."""
        if isinstance(value, dict):
            if self.is_map:
                return "map"
        elif isinstance(value, list):
            if self.is_list:
                return "list"
        elif value is not None and self.scalar is not None and isinstance(value, str | int | float | bool):
            return "scalar"
        if self.is_map:
            return "map"
        return "scalar" if self.scalar is not None else "list"

    @cached_property
    def fields(self) -> dict[str, TypeNode]:
        """Named fields with their types."""
        properties = self.raw.get("properties") or {}
        return {name: self.tree.node(raw, self.inherits_preserve) for name, raw in properties.items()}

    @cached_property
    def element(self) -> TypeNode | None:
        """The type of entries that are not named fields; None where such entries are not allowed."""
        if self._untyped_atomic:
            return self.tree.untyped
        additional = self.raw.get("additionalProperties")
        if isinstance(additional, Mapping):
            return self.tree.node(additional, self.inherits_preserve)
        if additional is None:
            free = self.inherits_preserve or not self.fields
            return self.tree.deduced if free else None
        return self.tree.deduced if additional else None

    @cached_property
    def items(self) -> TypeNode:
        raw = self.raw.get("items")
        if self._untyped_atomic or not isinstance(raw, Mapping):
            return self.tree.untyped
        return self.tree.node(raw, self.inherits_preserve)

    @cached_property
    def always_written(self) -> Mapping[str, Any]:
        """Fields of a built-in type that Go writes even when they are not set, with what it writes."""
        found: Mapping[str, Any] = self.tree.shapes.get(self.name, {}).get("always", {})
        return found

    @cached_property
    def left_out_when_zero(self) -> frozenset[str]:
        return frozenset(self.tree.shapes.get(self.name, {}).get("leftOut", ()))

    def entry(self, key: str) -> TypeNode | None:
        """The type below one key of a map."""
        return self.fields.get(key) or self.element

    @property
    def is_atomic_map(self) -> bool:
        return self._untyped_atomic or self.raw.get("x-kubernetes-map-type") == "atomic"

    @cached_property
    def list_type(self) -> Literal["atomic", "set", "map"]:
        declared = self.raw.get("x-kubernetes-list-type")
        if declared is not None:
            return declared if declared in ("set", "map") else "atomic"
        if self.raw.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
            return "map" if self.raw.get("x-kubernetes-patch-merge-key") else "set"
        return "atomic"

    @cached_property
    def list_keys(self) -> tuple[str, ...]:
        if self.list_type != "map":
            return ()
        return tuple(self.raw.get("x-kubernetes-list-map-keys") or (self.raw.get("x-kubernetes-patch-merge-key"),))

    @cached_property
    def key_defaults(self) -> dict[str, Any]:
        """Defaults that stand in for a key that a list item leaves out."""
        defaults: dict[str, Any] = {}
        for key in self.list_keys:
            found = (self.items.raw.get("properties") or {}).get(key, {})
            if found.get("default") is not None:
                defaults[key] = found["default"]
        return defaults


def _scalar(kind: str, form: str) -> str | None:
    if kind in ("integer", "number"):
        return "numeric"
    if kind == "boolean":
        return "boolean"
    if kind == "string":
        return "string" if form in ("", "byte") else "untyped"
    return "untyped" if kind == "" else None
