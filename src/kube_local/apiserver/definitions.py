"""The definitions of the built-in kinds, as Kubernetes publishes them.

In: `definitions.json.gz` beside this file (made by tools/kubernetes_definitions.py). Out: OpenAPI v2 definitions by
name, and the name that belongs to a group, version and kind. Called by `schema` (field types of built-in kinds) and by
the discovery pages (/openapi). Nothing is read before the first call.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _document() -> dict[str, Any]:
    data = files(__package__).joinpath("definitions.json.gz").read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(data))
    return document


def load() -> dict[str, Any]:
    """All definitions by name; shared, so never to be changed by the caller."""
    definitions: dict[str, Any] = _document()["definitions"]
    return definitions


def shapes() -> dict[str, Any]:
    """What Go writes of each definition: `always` with its zero value, `leftOut` when zero."""
    found: dict[str, Any] = _document()["shapes"]
    return found


def release() -> str:
    """The Kubernetes release that the definitions were taken from."""
    return str(_document()["release"])


@cache
def _names() -> dict[tuple[str, str, str], str]:
    names: dict[tuple[str, str, str], str] = {}
    for name, definition in load().items():
        identities = definition.get("x-kubernetes-group-version-kind", ())
        # DeleteOptions, WatchEvent and Status are listed under every group; only the plain name is of use.
        for identity in identities[:1] if len(identities) > 1 else identities:
            names[identity["group"], identity["version"], identity["kind"]] = name
    return names


def name_of(group: str, version: str, kind: str) -> str | None:
    """The definition of a kind, or None where this release has none."""
    return _names().get((group, version, kind))
