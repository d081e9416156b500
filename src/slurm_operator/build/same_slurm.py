"""Which Controllers of a namespace stand for one Slurm: a node of that name is one node, whoever brings the worker.

In: two Controllers. Out: whether they lead to one slurmctld, as far as their own words tell: by its address, or by its
ClusterName. Two Controllers that run a slurmctld each are two clusters, whatever they are called. Pure; used by
`admission/rules/nodeset.py` and `reconcile/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_operator.api.controller import Controller
from slurm_operator.build import names
from slurm_operator.build.refs import Refs


def is_one_slurm(refs: Refs, one: str, other: str) -> bool:
    """Whether two Controllers, by name, are of one Slurm; one that is not there is of its own."""
    first, second = refs.controllers.get(one), refs.controllers.get(other)
    if one == other or first is None or second is None:
        return one == other
    if not (first.spec.external or second.spec.external):
        return False
    known = _name(first)
    return bool(known and known == _name(second)) or _is_one_address(first, second, refs.domain)


def _name(cr: Controller) -> str:
    """Its ClusterName, which Slurm writes in small letters; of an external one, as far as anybody knows it."""
    known = cr.spec.cluster_name or cr.status.cluster_name or "" if cr.spec.external else cr.cluster_name
    return known.lower()


def _is_one_address(one: Controller, other: Controller, domain: str) -> bool:
    outside = [_outside(cr) for cr in (one, other) if cr.spec.external]
    if len(outside) == 2:
        return outside[0] == outside[1]
    # Whatever port its Service gives it, there is only one slurmctld behind it.
    return outside[0][0] in _hosts(other if one.spec.external else one, domain)


def _outside(cr: Controller) -> tuple[str, int]:
    config = cr.spec.external_config
    # Without an address it is like no other.
    return (config.host.lower().rstrip("."), config.port) if config else (cr.metadata.uid, 0)


def _hosts(cr: Controller, domain: str) -> Iterator[str]:
    """Every name of a slurmctld that runs here."""
    service, inner = names.controller(cr), names.controller_internal(cr)
    for host in (service, *(f"{names.controller_pod(cr, number)}.{inner}" for number in range(cr.replicas))):
        yield from (host, names.short_host(host, cr.namespace), f"{names.short_host(host, cr.namespace)}.svc")
        yield names.long_host(host, cr.namespace, domain)
