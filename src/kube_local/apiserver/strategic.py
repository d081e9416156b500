"""Strategic merge patches of built-in kinds: `kube_runtime/strategic_merge.py`, with the keys of the types.

In: the live object, a patch with its directives and the schema of a built-in kind. Out: the patched object; the given
ones are never changed. Called by the patch handler.
"""

from __future__ import annotations

from typing import Any

from kube_runtime.item_index import Field
from kube_runtime.strategic_merge import PLAIN_FIELD, Rules, merge_object

from .schema import TypeSchema
from .type_tree import TypeNode

Object = dict[str, Any]


def strategic_merge(live: Object, patch: Object, schema: TypeSchema) -> Object:
    """The live object with a patch merged into it. Raises MergeConflict."""
    return merge_object(live, patch, schema.root, _RULES)


def _field(node: TypeNode | str, name: str) -> Field:
    below = node.entry(name) if isinstance(node, TypeNode) else None
    if below is None or isinstance(node, str):
        return PLAIN_FIELD
    strategy = (node.raw.get("properties") or {}).get(name, {}).get("x-kubernetes-patch-strategy", "").split(",")
    is_merged = "merge" in strategy
    return Field(
        type=below.items if below.raw.get("type") == "array" else below,
        merge=is_merged,
        key=below.raw.get("x-kubernetes-patch-merge-key", "") if is_merged else "",
        replaced="replace" in strategy,
    )


# As the Go servers do: what is to be replaced and is not there is not added.
_RULES = Rules(_field, leaving_none=frozenset({"delete", "replace"}))
