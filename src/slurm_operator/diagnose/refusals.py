"""What Slurm, or the linter, refuses of the partitions that resources declare.

In: facts. Out: causes, each with the message of the refusal and the resource that has to change. A Partition has it
in its own conditions; a NodeSet has none for its partition, so the Controller's condition Degraded is read for it, and
for the lines of extraConf. Used by `diagnose/resource.py`, `partition.py`, `drift.py` and `cluster.py`, and by
`cli/kubectl/change.py`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import GROUP
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Object, condition_of, name_of
from slurm_operator.diagnose.partition_owner import Owner, owners

# By the reason of a Controller's Degraded: the code, and who refuses.
DEGRADED = {"RefusedBySlurm": ("RefusedBySlurm", "Slurm"), "ConfigNotValid": ("LinterRefused", "the linter")}
# By the reason of a Partition's Accepted, Applied or Ready.
OF_PARTITION = {
    "RefusedBySlurm": "Slurm",
    "LinterRefused": "the linter",
    "NeedsNewPartition": "Slurm",
    "NodesNotTakenOut": "Slurm",
    "NodesNotAdded": "Slurm",
}
# A partition that the operator itself leaves out: Ready has the same reason for one that only waits for its workers.
LEFT_OUT = "NoNodes"
# How the Controller's message about some partitions begins; a name may be refused for its very letters.
_PART = re.compile(r"(?:^|; )partitions? ([^\s:;,]+(?:, [^\s:;,]+)*): ")


def why(facts: Facts, owner: Owner) -> Cause | None:
    """Why a partition is not as its resource says, if Slurm or the linter refuses it."""
    code, who, message = _refusal(facts, owner)
    if not message:
        return None
    return Cause(
        code,
        f"{who} refuses partition {owner.partition} as {owner.place} has it: {message}",
        f"kubectl -n {facts.namespace} edit {BY_NAME[owner.kind].plural}.{GROUP} {owner.name}",
        root=f"partition {owner.partition} of {owner.cluster}",
    )


def examine(facts: Facts) -> Iterator[Cause]:
    """Every refusal."""
    for owner in owners(facts):
        found = why(facts, owner) if not owner.is_leaving else None
        if found is not None:
            yield found


def of_resource(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """The first refusal of what a resource declares; of a Controller, also of what others declare for it."""
    for owner in owners(facts):
        mine = owner.kind == kind and owner.name == name_of(resource)
        if mine or (kind == "Controller" and owner.cluster == name_of(resource)):
            found = why(facts, owner)
            if found is not None:
                return found
    return _degraded(facts, kind, resource)


def _degraded(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """The Degraded condition of a Controller, if it is about no known partition."""
    condition = condition_of(resource, "Degraded") or {}
    if kind != "Controller" or condition.get("status") != "True":
        return None
    return Cause(
        str(condition.get("reason") or "Degraded"),
        f"Controller {name_of(resource)}: {condition.get('message', '')}",
        f"kubectl -n {facts.namespace} describe controllers.{GROUP} {name_of(resource)}",
    )


def _refusal(facts: Facts, owner: Owner) -> tuple[str, str, str]:
    """The code, who refuses, and the message; the message is empty if nobody refuses it."""
    if owner.kind == "Partition":
        return _of_partition(owner.resource)
    controller = facts.get("Controller", owner.cluster) or {}
    reason = str((condition_of(controller, "Degraded") or {}).get("reason"))
    code, who = DEGRADED.get(reason, ("", ""))
    return code, who, by_partition(controller).get(owner.partition, "")


def _of_partition(resource: Object) -> tuple[str, str, str]:
    accepted = condition_of(resource, "Accepted") or {}
    if accepted.get("status") == "False" and accepted.get("reason") == LEFT_OUT:
        return LEFT_OUT, "the operator", str(accepted.get("message", ""))
    for each in ("Accepted", "Applied", "Ready"):
        condition: Mapping[str, Any] = condition_of(resource, each) or {}
        reason = str(condition.get("reason"))
        if reason in OF_PARTITION:
            return reason, OF_PARTITION[reason], str(condition.get("message", "")) or "it does not say why"
    return "", "", ""


def by_partition(controller: Object) -> dict[str, str]:
    """By partition: why a Controller says that it is refused."""
    degraded = condition_of(controller, "Degraded") or {}
    if degraded.get("status") != "True" or degraded.get("reason") not in DEGRADED:
        return {}
    text = str(degraded.get("message", ""))
    parts = _PART.split(text)
    found = zip(parts[1::2], parts[2::2], strict=True) if not parts[0] else ()
    return {name: message for names, message in found for name in names.split(", ")}
