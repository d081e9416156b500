"""Whether a resource that no rule refuses can be built: what is let in must never fail later.

In: a typed resource and its namespace. Out: the builder's own objection, such as an overlay that does not fit. What
is merely missing may still come and is no objection. Called by `rules.check` after the rules of the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from slurm_operator.api.meta import Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import FieldProblem
from slurm_operator.build import accounting, controller, loginset, nodeset, restapi
from slurm_operator.build.errors import InvalidSpec, MissingReference
from slurm_operator.build.nodeset import WorkerIdentity
from slurm_operator.build.refs import Refs


def check(new: Resource, refs: Refs) -> Iterator[FieldProblem]:
    """The first thing that the builder objects to."""
    build = _BUILDERS.get(type(new).__name__)
    if build is None:
        return
    # Other resources of the namespace answer for themselves.
    alone = replace(refs, nodesets=(), partitions=(), accountings={}, unreadable={})
    try:
        build(new, alone)
    except MissingReference:
        return
    except InvalidSpec as error:
        yield error.problem


def _one_worker(cr: NodeSet, refs: Refs) -> object:
    owner = refs.controller(cr.namespace, cr.spec.controller_ref)
    # A hash of a megabyte takes longer than all the rest, and objects to nothing.
    return nodeset.pod(cr, nodeset.pod_template(cr, owner, refs, revision="0"), WorkerIdentity(ordinal=0))


_BUILDERS: dict[str, Callable[[Any, Refs], object]] = {
    "Controller": controller.objects,
    "NodeSet": _one_worker,
    "LoginSet": loginset.objects,
    "RestApi": restapi.objects,
    "Accounting": accounting.objects,
}
