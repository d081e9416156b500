"""Custom resources for the tests of the builders: the least that each kind needs, and what a test adds.

In: fields of `spec` as YAML spells them. Out: typed resources, decoded as the operator decodes them.
"""

from __future__ import annotations

from typing import Any

from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.meta import API_VERSION, Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.restapi import RestApi
from slurm_operator.api.token import Token
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs

SLURM_KEY = {"name": "slurm-key", "key": "slurm.key"}
JWT_KEY = {"name": "jwt-key", "key": "jwt.key"}
KEYS = {"slurmKeyRef": SLURM_KEY, "jwtKeyRef": JWT_KEY}
REF = {"controllerRef": {"name": "slurm"}}


def resource(kind: str, name: str, spec: dict[str, Any], metadata: dict[str, Any], status: Any = None) -> Resource:
    """Decode a resource of any kind."""
    meta = {"name": name, "namespace": "hpc", "uid": f"{name}-uid", **metadata}
    raw = {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}
    decoded = decode({**raw, "status": status} if status else raw)
    if decoded.resource is None:
        raise ValueError("; ".join(map(str, decoded.problems)))
    return decoded.resource


def controller(name: str = "slurm", metadata: Any = None, **spec: Any) -> Controller:
    """A Controller with keys."""
    found = resource("Controller", name, {**KEYS, **spec}, metadata or {})
    assert isinstance(found, Controller)
    return found


def external_controller(**spec: Any) -> Controller:
    """A Controller outside Kubernetes, without keys."""
    given = {"external": True, "externalConfig": {"host": "outside.example.org", "port": 16817}, **spec}
    found = resource("Controller", "slurm", given, {})
    assert isinstance(found, Controller)
    return found


def accounting(name: str = "books", **spec: Any) -> Accounting:
    """An Accounting with keys and a database."""
    storage = {"host": "mariadb", "passwordKeyRef": {"name": "database", "key": "password"}}
    found = resource("Accounting", name, {**KEYS, "storageConfig": storage, **spec}, {})
    assert isinstance(found, Accounting)
    return found


def nodeset(name: str = "compute", metadata: Any = None, status: Any = None, **spec: Any) -> NodeSet:
    """A NodeSet of the Controller `slurm`."""
    found = resource("NodeSet", name, {**REF, **spec}, metadata or {}, status)
    assert isinstance(found, NodeSet)
    return found


def loginset(name: str = "login", **spec: Any) -> LoginSet:
    """A LoginSet of the Controller `slurm`."""
    found = resource("LoginSet", name, {**REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}, **spec}, {})
    assert isinstance(found, LoginSet)
    return found


def restapi(name: str = "slurm", **spec: Any) -> RestApi:
    """A RestApi of the Controller `slurm`."""
    found = resource("RestApi", name, {**REF, **spec}, {})
    assert isinstance(found, RestApi)
    return found


def partition(name: str = "debug", metadata: Any = None, **spec: Any) -> Partition:
    """A Partition of the Controller `slurm`."""
    found = resource("Partition", name, {**REF, **spec}, metadata or {})
    assert isinstance(found, Partition)
    return found


def token(name: str = "ci", metadata: Any = None, **spec: Any) -> Token:
    """A Token for the user `alice`."""
    found = resource("Token", name, {"username": "alice", "jwtKeyRef": JWT_KEY, **spec}, metadata or {})
    assert isinstance(found, Token)
    return found


def refs(*resources: Resource, **more: Any) -> Refs:
    """One namespace with these resources in it, and the Secrets that the others name."""
    secrets = {
        "slurm-key": {"slurm.key": b"one"},
        "jwt-key": {"jwt.key": b"two"},
        "database": {"password": b"secret"},
        **more.pop("secrets", {}),
    }
    return Refs(
        controllers={each.name: each for each in resources if isinstance(each, Controller)},
        accountings={each.name: each for each in resources if isinstance(each, Accounting)},
        nodesets=tuple(each for each in resources if isinstance(each, NodeSet)),
        partitions=tuple(each for each in resources if isinstance(each, Partition)),
        secrets=secrets,
        **more,
    )
