"""Rules for Partitions: the name, the nodes, and options that exclude each other. Called by `rules.check`."""

from __future__ import annotations

from collections.abc import Iterator

from kube_runtime.text import shown
from slurm_operator.admission.rules import fields
from slurm_operator.api import text
from slurm_operator.api.partition import ALL, Partition, PartitionSpec
from slurm_operator.api.problem import FieldProblem
from slurm_operator.build.partition import spec_problem
from slurm_operator.build.refs import Refs
from slurm_operator.slurm.requests import is_read_as_name

_TWINS = (
    ("def_mem_per_cpu", "def_mem_per_node", "defMemPerNode"),
    ("max_mem_per_cpu", "max_mem_per_node", "maxMemPerNode"),
)
_RIVALS = (("allow_accounts", "deny_accounts", "denyAccounts"), ("allow_qos", "deny_qos", "denyQos"))


def check(new: Partition, old: Partition | None, refs: Refs) -> Iterator[FieldProblem]:  # noqa: ARG001
    """Everything that is wrong with a Partition."""
    yield from fields.name(new, max_characters=253)
    yield from fields.controller_ref(new, old)
    problem = spec_problem(new)
    if problem:
        yield FieldProblem(*problem)
    if not is_read_as_name(new.slurm_name):
        message = f"slurmrestd reads {shown(new.slurm_name)} as a number or a boolean, so it cannot be deleted live"
        yield FieldProblem(("spec", "partitionName"), message, "warning")
    yield from _node_sets(new.spec)
    yield from _pairs(new.spec)
    if old is not None:
        yield from fields.immutable(("spec", "partitionName"), old.slurm_name, new.slurm_name)


def _node_sets(spec: PartitionSpec) -> Iterator[FieldProblem]:
    if not spec.node_sets and not spec.nodes:
        yield FieldProblem(("spec", "nodeSets"), "name at least one NodeSet, ALL, or nodes")
    if ALL in spec.node_sets and len(spec.node_sets) > 1:
        yield FieldProblem(("spec", "nodeSets"), "ALL means every node; list nothing else beside it")
    for index, name in enumerate(spec.node_sets):
        if name != ALL and text.dns_subdomain(name):
            hint = "; did you mean ALL?" if name.upper() == ALL else ""
            yield FieldProblem(("spec", "nodeSets", index), f"{shown(name)} is not the name of a NodeSet{hint}")


def _pairs(spec: PartitionSpec) -> Iterator[FieldProblem]:
    for one, other, field in _TWINS:
        if getattr(spec, one) is not None and getattr(spec, other) is not None:
            yield FieldProblem(("spec", field), "is set per CPU and per node; Slurm allows only one of the two")
    for allow, deny, field in _RIVALS:
        if getattr(spec, allow) and getattr(spec, deny):
            yield FieldProblem(("spec", field), "is ignored by Slurm while the matching allow list is set", "warning")
    max_nodes = spec.max_nodes if isinstance(spec.max_nodes, int) else None
    if max_nodes is not None and spec.min_nodes is not None and spec.min_nodes > max_nodes:
        yield FieldProblem(("spec", "minNodes"), f"{spec.min_nodes} is more than maxNodes, {max_nodes}")
