"""The kubeconfig of a local cluster: rewritten at each start, with the user's own settings kept. Pure.

In: the file as the API server would write it, and as it is now. Out: the text to write. Called by `parts.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

LISTS = ("clusters", "contexts", "users")
Json = dict[str, Any]


def with_user_settings(fresh: str, before: str) -> str:
    """The fresh kubeconfig, with the namespace of its context and all other entries as they were before."""
    try:
        old = yaml.safe_load(before)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):  # PyYAML's constructors leak the last two
        return fresh
    if not isinstance(old, dict):
        return fresh
    new: Json = yaml.safe_load(fresh)
    merged: Json = {**new, **{name: _merged(new.get(name) or [], old.get(name)) for name in LISTS}}
    chosen = old.get("current-context")
    if chosen in {each["name"] for each in merged["contexts"]}:
        merged["current-context"] = chosen
    return fresh if merged == new else yaml.safe_dump(merged, sort_keys=False)


def _merged(new: list[Json], old: object) -> list[Json]:
    kept = {str(each["name"]): each for each in _named(old)}
    ours = [_with_namespace(each, kept.pop(str(each["name"]), {})) for each in new]
    return [*ours, *kept.values()]


def _named(entries: object) -> Iterator[Json]:
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, dict) and each.get("name"):
            yield each


def _with_namespace(new: Json, old: Mapping[str, Any]) -> Json:
    context = old.get("context")
    namespace = context.get("namespace") if isinstance(context, dict) else None
    return {**new, "context": {**new["context"], "namespace": namespace}} if namespace and "context" in new else new
