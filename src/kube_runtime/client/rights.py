"""What a program may do in Kubernetes, as a table that code can check and roles can be made of.

In: nothing. Out: `Right`s and where they are needed. Programs write tables of them; `self_review.py` holds
these against what the API server grants.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Scope(Enum):
    """Where a right is needed."""

    NAMESPACES = "namespaces"  # wherever the program works: every namespace, or those given
    CLUSTER = "cluster"  # objects that have no namespace
    OWN = "own"  # the program's own namespace
    METRICS = "metrics"  # only to ask who may read metrics


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on the resources of one API group; `names` restricts it to objects of these names."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    scope: Scope = Scope.NAMESPACES
    names: tuple[str, ...] = ()
