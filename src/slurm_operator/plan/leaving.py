"""The drain that says that a worker is about to be removed, and why.

In: a NodeSet's name and why a worker goes. Out: the reason of the drain, and what such a reason said. One call drains a
thousand nodes, so this is how a choice is written down: whoever comes next reads it back. Pure; written by
`plan/drains.py`, read by `plan/workers.py`.
"""

from __future__ import annotations

from functools import lru_cache

from slurm_operator.slurm import policy
from slurm_operator.slurm.model import Node

SCALE_IN = "scale-in"
UPDATE = "update"
DELETION = "deletion"
PLACEMENT = "placement"
KEY = "key rotation"

# A rotation writes down more than its choice: see `plan/marks.py`.
_READ_BACK = (SCALE_IN, UPDATE, DELETION, PLACEMENT)


def leaving_reason(nodeset: str, why: str) -> str:
    """The reason of the drain; `nodeset` is its namespace and name, as people write them."""
    return f"Pod of NodeSet ({nodeset}) is pending termination for {why}"


def drained_for(node: Node, nodeset: str) -> str:
    """Why a worker of that NodeSet goes, as the drain of its node says; empty when it says nothing of the kind."""
    if not (policy.is_draining(node) and policy.drain_is_ours(node.reason)):
        return ""
    # slurmctld adds its own when the slurmd falls silent.
    return _reasons(nodeset).get(node.reason.split(policy.REASON_SEPARATOR)[0], "")


@lru_cache(maxsize=1024)
def _reasons(nodeset: str) -> dict[str, str]:
    """By the reason of a drain: why the worker goes. One that was cut off says nothing."""
    written = {policy.drain_reason(leaving_reason(nodeset, why)): why for why in _READ_BACK}
    return {reason: why for reason, why in written.items() if reason.endswith(why)}
