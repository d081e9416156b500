"""The list of kinds: names on the wire, printer columns, Structs.

Read by whoever goes over all kinds: the CRD generator, the decoder, admission, the operator, the command line. The one
place to add a kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.meta import Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.restapi import RestApi
from slurm_operator.api.token import Token


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; a priority above 0 is shown by `-o wide` only."""

    name: str
    type: str
    path: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind on the wire."""

    struct: type[Resource]
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    scalable: bool = False

    @property
    def name(self) -> str:
        """The kind's name."""
        return self.struct.__name__

    @property
    def singular(self) -> str:
        """The name of one object."""
        return self.name.lower()


KINDS: tuple[Kind, ...] = (
    Kind(Controller, "controllers", ("slurmctld",)),
    Kind(
        NodeSet,
        "nodesets",
        ("nodesets", "nss", "slurmd"),
        (
            Column("DESIRED", "integer", ".status.desired"),
            Column("REPLICAS", "integer", ".status.replicas"),
            Column("UPDATED", "integer", ".status.updatedReplicas"),
            Column("READY", "integer", ".status.readyReplicas"),
            Column("IDLE", "integer", ".status.slurmIdle", 1),
            Column("ALLOCATED", "integer", ".status.slurmAllocated", 1),
            Column("DOWN", "integer", ".status.slurmDown", 1),
            Column("DRAIN", "integer", ".status.slurmDrain", 1),
        ),
        scalable=True,
    ),
    Kind(
        LoginSet,
        "loginsets",
        ("loginsets", "lss", "sackd"),
        (Column("REPLICAS", "integer", ".status.replicas"),),
        scalable=True,
    ),
    Kind(RestApi, "restapis", ("slurmrestd",)),
    Kind(Accounting, "accountings", ("slurmdbd",)),
    Kind(
        Token,
        "tokens",
        ("tokens", "jwt"),
        (Column("USER", "string", ".spec.username"), Column("IAT", "date", ".status.issuedAt")),
    ),
    Kind(
        Partition,
        "partitions",
        ("slurmpart",),
        (
            Column("STATE", "string", ".status.state"),
            Column("NODES", "integer", ".status.nodes"),
            Column("RUNNING", "integer", ".status.runningJobs"),
            Column("PENDING", "integer", ".status.pendingJobs"),
            Column("DEFAULT", "boolean", ".spec.default", 1),
            Column("CPUS", "integer", ".status.cpus", 1),
        ),
    ),
)

# Those that name the Controller that they belong to.
Member = LoginSet | NodeSet | Partition | RestApi
# Those that pods are made of.
WithPods = Accounting | Controller | LoginSet | NodeSet | RestApi

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}
