"""Which host names, and so Slurm node names, the workers of a NodeSet have, and where two NodeSets would share one.

In: NodeSets. Out: names. Nothing is listed: thousands of workers cost no more than one. In DaemonSet mode, and on the
host's network, the names are those of Kubernetes nodes, of which nothing is known here. Pure; used by
`admission/rules/nodeset.py`, `plan/duplicates.py` and `build/worker_trial.py`.
"""

from __future__ import annotations

from kube_runtime.text import whole_number
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import names

# As many digits as an ordinal can have, with its padding.
MAX_DIGITS = 10


def prefix(cr: NodeSet) -> str:
    """What the host names of numbered workers begin with."""
    given = cr.spec.template.spec.get("hostname")
    return str(given) if given else f"{cr.name}-"


def is_numbered(cr: NodeSet) -> bool:
    """Whether the host names of a NodeSet are its own prefix and a number."""
    return not cr.is_daemon and not cr.spec.template.spec.get("hostNetwork")


def may_have(cr: NodeSet, hostname: str) -> bool:
    """Whether a host name is that of a worker that a NodeSet has, or would have if it grew."""
    written = hostname.removeprefix(prefix(cr))
    number = whole_number(written) if is_numbered(cr) and hostname.startswith(prefix(cr)) else None
    return number is not None and names.ordinal(cr, number) == written


def has_number(cr: NodeSet, hostname: str) -> bool:
    """Whether a host name is that of one of the workers that a NodeSet asks for."""
    return may_have(cr, hostname) and int(hostname.removeprefix(prefix(cr))) < cr.spec.replicas


def are_related(one: NodeSet, other: NodeSet) -> bool:
    """Whether two NodeSets may come to share a host name as they grow."""
    if not is_numbered(one) or not is_numbered(other):
        return False
    short, long = sorted((prefix(one), prefix(other)), key=len)
    rest = long[len(short) :]
    return long.startswith(short) and (not rest or (rest.isascii() and rest.isdigit()))


def shared(one: NodeSet, other: NodeSet) -> str:
    """A host name that workers of both would have; empty when there is none."""
    if not are_related(one, other):
        return ""
    short, long = sorted((one, other), key=lambda cr: len(prefix(cr)))
    # Of all numbers with so many digits, the least with a leading zero and the least without one stand for the others.
    numbers = [0, *(10**digits for digits in range(MAX_DIGITS))]
    hosts = (names.worker_hostname(long, number) for number in numbers if number < long.spec.replicas)
    return next((host for host in hosts if has_number(short, host)), "")
