"""What one server is made of: store, kinds, schemas, clock and sources of names. Handed to every handler."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Network

from kube_runtime.times import seconds_text

from . import names
from .hooks import PodAccess
from .registry import Kind, Registry
from .schema import TypeSchema
from .store import Store

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def random_uid() -> str:
    """A new uid."""
    return str(uuid.uuid4())


def random_suffix() -> str:
    """The end of a generated name."""
    return "".join(random.choices(_SUFFIX_LETTERS, k=names.GENERATED_SUFFIX_CHARACTERS))  # noqa: S311 - a name, not a secret


@dataclass(slots=True)
class State:
    """The parts of a server."""

    store: Store
    registry: Registry
    clock: Callable[[], float] = time.time
    new_uid: Callable[[], str] = random_uid
    new_suffix: Callable[[], str] = random_suffix
    service_network: IPv4Network = field(default_factory=lambda: IPv4Network("10.96.0.0/16"))
    pods: PodAccess | None = None
    bookmark_seconds: float = 60.0
    _schemas: dict[Kind, TypeSchema] = field(default_factory=dict)

    def now(self) -> str:
        """The time for timestamps."""
        return seconds_text(self.clock())

    def schema(self, kind: Kind) -> TypeSchema:
        """The schema of a kind, built once."""
        found = self._schemas.get(kind)
        if found is None or kind.custom:
            found = self._crd_schema(kind) if kind.crd_version is not None else self._builtin_schema(kind)
        return found

    def _builtin_schema(self, kind: Kind) -> TypeSchema:
        made = self._schemas[kind] = TypeSchema.for_builtin(kind.group, kind.version, kind.kind)
        return made

    def _crd_schema(self, kind: Kind) -> TypeSchema:
        found = self._schemas.get(kind)
        # A CRD update makes a Kind that is equal but for its schema.
        if found is None or next(k for k in self._schemas if k == kind).crd_version is not kind.crd_version:
            self._schemas.pop(kind, None)
            found = self._schemas[kind] = TypeSchema.for_crd(kind.crd_version or {})
        return found
