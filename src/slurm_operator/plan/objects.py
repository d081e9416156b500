"""Plain objects: applied in order; what is owned but no longer wanted is deleted afterwards.

In: what was built and what is there. Out: a plan. Called by `plan/owned.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kube_runtime.client.objects import RawObject
from slurm_operator.build.metadata import Object
from slurm_operator.plan.actions import Apply, Delete, Plan

Identity = tuple[str, str, str, str]


def identity(value: Object) -> Identity:
    """Version, kind, namespace and name of an object."""
    metadata = value["metadata"]
    return (str(value["apiVersion"]), str(value["kind"]), str(metadata.get("namespace", "")), str(metadata["name"]))


def plan_objects(
    desired: Iterable[Object],
    live: Mapping[Identity, RawObject],
    owned: Mapping[Identity, RawObject],
    keep: frozenset[Identity] = frozenset(),
) -> Plan:
    """Apply all that is wanted, one stage each, then delete what is owned and not wanted.

    `keep` are owned objects that this kind makes in another way.
    """
    wanted = list(desired)
    names = {identity(value) for value in wanted}
    applies = tuple((Apply(value, live.get(identity(value))),) for value in wanted)
    leftovers = tuple(
        Delete(*key[:2], item.metadata, "no longer wanted")
        for key, item in sorted(owned.items())
        if key not in names and key not in keep and not item.metadata.deletion_timestamp
    )
    return Plan((*applies, leftovers) if leftovers else applies)
