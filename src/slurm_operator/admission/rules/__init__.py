"""The rules of admission: pure functions from the old object, the new one and its namespace to findings.

In: typed resources and `Refs`. Out: errors, which refuse the object, and warnings, which do not. Called by the
admission server, by the reconcilers (when the webhook is bypassed) and by `slurm-operator check`, always with the
same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from slurm_operator.admission.rules import (
    accounting,
    buildable,
    controller,
    loginset,
    nodeset,
    partition,
    reach,
    restapi,
    token,
)
from slurm_operator.api.meta import Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import FieldProblem, errors, limited
from slurm_operator.build.refs import Refs

Rule = Callable[[Any, Any, Refs], Iterator[FieldProblem]]

RULES: dict[str, Rule] = {
    "Controller": controller.check,
    "NodeSet": nodeset.check,
    "LoginSet": loginset.check,
    "RestApi": restapi.check,
    "Accounting": accounting.check,
    "Token": token.check,
    "Partition": partition.check,
}


def check(
    new: Resource, old: Resource | None, refs: Refs, *, standing: bool = False, is_built_next: bool = False
) -> list[FieldProblem]:
    """Everything that is wrong with a new or changed resource.

    Of one that is `standing`, let in by whatever way, what it shares with others is no mistake of its own: a condition
    of the one that came later says so. One that `is_built_next` is not built here too: whoever builds it gets the
    builder's objection.
    """
    if old is not None and _spec(old) == _spec(new):
        # Labels and finalizers may always change: what is wrong must still be let go.
        return []
    found = limited(chain(RULES[type(new).__name__](new, old, refs), reach.check(new, old, refs)))
    if isinstance(new, NodeSet) and not standing:
        found += nodeset.duplicates(new, old if isinstance(old, NodeSet) else None, refs)
    return found if errors(found) or is_built_next else [*found, *buildable.check(new, refs)]


def _spec(resource: Resource) -> object:
    return getattr(resource, "spec", None)
