"""The metadata of an object, whichever class holds it: what watches map by, and what a right to write is judged by.

Held by the views of `client/objects.py`, and by the typed custom resources of whoever uses this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class OwnerReference(Protocol):
    """An entry of `metadata.ownerReferences`."""

    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def controller(self) -> bool | None: ...


class Metadata(Protocol):
    """The metadata of an object as it was seen."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def owner_references(self) -> Sequence[OwnerReference]: ...


class Object(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> Metadata: ...
