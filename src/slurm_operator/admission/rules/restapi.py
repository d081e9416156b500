"""Rules for RestApis: names, references, the service. Called by `rules.check`."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_operator.admission.rules import fields
from slurm_operator.api.problem import FieldProblem
from slurm_operator.api.restapi import RestApi
from slurm_operator.build.refs import Refs


def check(new: RestApi, old: RestApi | None, refs: Refs) -> Iterator[FieldProblem]:  # noqa: ARG001
    """Everything that is wrong with a RestApi."""
    yield from fields.name(new, "-restapi")
    # A RestApi may move to another Controller: it holds no state.
    yield from fields.controller_ref(new, None)
    yield from fields.service(new.spec.service)
