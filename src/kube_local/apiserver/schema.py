"""The schema of one kind: what its objects may hold, how they are completed, and how their fields merge.

In: a built-in group, version and kind, or one version of a CustomResourceDefinition. Out: `TypeSchema`. Called by the
write handlers: `prune`, then `default`, then `validate`; `apply` and `strategic` use its types.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from . import cel_rules, definitions, structural
from .builtin_defaults import builtin_defaults
from .builtin_rules import builtin_problems, decode_problem
from .field_sets import FieldSet
from .problems import BLOCKING, ROOT, FieldProblem
from .type_tree import OBJECT_META, TypeNode, TypeTree
from .typed_values import ABSENT
from .validation import list_type_problems, schema_problems

__all__ = ["FieldProblem", "TypeSchema"]

Object = dict[str, Any]
_STATUS, _SPEC, _METADATA = ("f:status",), ("f:spec",), ("f:metadata",)
# What the status door of a built-in kind keeps as it was, besides the spec.
_KEPT_AT_STATUS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Pod": (("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")),
    "Deployment": (("f:metadata", "f:labels"),),
    "CustomResourceDefinition": (_METADATA,),
}
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@cache
def _builtin_tree() -> TypeTree:
    return TypeTree(definitions.load(), definitions.shapes())


class TypeSchema:
    """Types and rules of one kind. Made by `for_builtin` or `for_crd`; never changed after."""

    def __init__(
        self,
        root: TypeNode,
        *,
        kind: str = "",
        structural_schema: Mapping[str, Any] | None = None,
        has_status_door: bool = False,
    ) -> None:
        self.root = root
        self.kind = kind
        self.structural_schema = structural_schema
        self.has_status_door = has_status_door
        self.skipped_rules: dict[str, str] = {}
        self._has_rules = cel_rules.contains_rules(structural_schema)

    @classmethod
    def for_builtin(cls, group: str, version: str, kind: str) -> TypeSchema:
        """The schema of a built-in kind; one without a definition is taken as free-form."""
        return _for_builtin(group, version, kind)

    @classmethod
    def for_crd(cls, crd_version: Mapping[str, Any]) -> TypeSchema:
        """The schema of one entry of a CRD's spec.versions."""
        schema = (crd_version.get("schema") or {}).get("openAPIV3Schema")
        if not isinstance(schema, Mapping):
            schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        has_status_door = (crd_version.get("subresources") or {}).get("status") is not None
        return cls(_object_node(schema, _builtin_tree()), structural_schema=schema, has_status_door=has_status_door)

    @property
    def is_builtin(self) -> bool:
        return self.structural_schema is None

    def reset_fields(self, subresource: str) -> FieldSet:
        """What the server keeps as it was, whatever a client sends through a door: nobody comes to own it there."""
        if subresource == "status":
            kept = (_METADATA,) if self.structural_schema is not None else _KEPT_AT_STATUS.get(self.kind, ())
            return FieldSet.of(_SPEC, *kept)
        return FieldSet.of(_STATUS) if self.has_status_door and not subresource else FieldSet()

    def empty(self, obj: Object) -> Object:
        """What an object of this kind holds before anybody set a field; only the identity is taken from `obj`."""
        identity: Object = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
        return self.prune(identity) if self.is_builtin else identity

    def prune(self, obj: Object) -> Object:
        """Without unknown fields, and without nulls that stand for nothing; built-in objects as Go writes them."""
        if self.structural_schema is None:
            result: Object = structural.decode(self.root, obj)
            return result
        schema = self.structural_schema
        pruned = structural.prune(obj, schema, is_object=True)
        result = structural.drop_stray_nulls(pruned, schema)
        metadata = result.get("metadata")
        if isinstance(metadata, dict):
            result["metadata"] = structural.decode(self.root.tree.named(OBJECT_META), metadata)
        return result

    def unknown_fields(self, obj: Object) -> list[str]:
        """The paths that `prune` would drop: what strict field validation refuses."""
        if self.structural_schema is None:
            return structural.unknown_fields_of(self.root, obj)
        metadata = obj.get("metadata")
        meta = self.root.tree.named(OBJECT_META)
        found = structural.unknown_fields_of(meta, metadata, "metadata") if isinstance(metadata, dict) else []
        return sorted(found + structural.unknown_fields(obj, self.structural_schema, is_object=True))

    def default(self, obj: Object) -> Object:
        """With every default that the API server would set."""
        if self.structural_schema is None:
            return builtin_defaults(self.kind, obj)
        result: Object = structural.default(obj, self.structural_schema)
        return result

    def decode_problem(self, obj: Object) -> str | None:
        """Why a built-in object cannot be read at all, in the words of Go's decoder."""
        return decode_problem(self.root, obj) if self.is_builtin else None

    def validate(self, obj: Object, old: Object | None = None, *, blocked: bool = False) -> list[FieldProblem]:
        """Everything that is wrong with an object; with `old`, what did not change is not judged again.

        `blocked` says that something outside the schema is wrong already, so that rules in CEL are not tried.
        """
        if self.structural_schema is None:
            return builtin_problems(self.root, self.kind, obj)
        schema, before = self.structural_schema, old if old is not None else ABSENT
        found = schema_problems(schema, obj, before)
        if old is None or not list_type_problems(schema, old):
            found += list_type_problems(schema, obj)
        if self._has_rules:
            if blocked or any(problem.reason in BLOCKING for problem in found):
                found.append(FieldProblem(ROOT, "Invalid", _NOT_CHECKED, None))
            else:
                found += cel_rules.rule_problems(schema, obj, before, self.skipped_rules)
        return found


@cache
def _for_builtin(group: str, version: str, kind: str) -> TypeSchema:
    tree, name = _builtin_tree(), definitions.name_of(group, version, kind)
    if name is None:
        return TypeSchema(tree.deduced)
    root = tree.named(name)
    return TypeSchema(root, kind=kind, has_status_door="status" in root.fields)


def _object_node(schema: Mapping[str, Any], tree: TypeTree) -> TypeNode:
    """A CRD's schema with the fields that every object has, typed as for built-in kinds."""
    text = {"type": "string"}
    fields = {"apiVersion": text, "kind": text, "metadata": {"$ref": f"#/definitions/{OBJECT_META}"}}
    return TypeNode({**schema, "properties": {**(schema.get("properties") or {}), **fields}}, tree)
