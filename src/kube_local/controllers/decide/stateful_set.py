"""StatefulSet: which pod next. Pure; carried out by `controllers/stateful_set.py`.

missing ordinals -> create        (OrderedReady: one, and only after its predecessors are available)
finished pods    -> delete        (a new one comes when it is gone)
too high a number-> delete        (OrderedReady: the highest first, one at a time)
another revision -> delete        (RollingUpdate: the highest first, down to the partition; OnDelete: never)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kube_local.controllers.decide import pods as pods_
from kube_local.controllers.decide.revision import POD_LABEL, Revisions
from kube_local.controllers.decide.status import share
from kube_local.controllers.objects import Claim, Json, Pod, StatefulSet
from kube_runtime.client.objects import OwnerReference

NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class Create:
    """Make the pod of one ordinal."""

    ordinal: int
    pod: Json


@dataclass(frozen=True, slots=True)
class Delete:
    """Take one pod away."""

    pod: Pod


Action = Create | Delete


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and what to say."""

    actions: tuple[Action, ...]
    status: Json
    # Claims of pods that cannot start without them; those that are there already stay as they are.
    claims: tuple[Json, ...] = ()
    look_again: float | None = None


def ordinal_of(owner: str, name: str) -> int | None:
    """The number at the end of a pod's name, if it is one of this set's."""
    head, dash, number = name.rpartition("-")
    canonical = number.isascii() and number.isdecimal() and str(int(number)) == number
    return int(number) if dash and head == owner and canonical else None


@dataclass(frozen=True, slots=True)
class Seen:
    """A StatefulSet and its pods at one moment."""

    owner: StatefulSet
    pods: Sequence[Pod]
    revisions: Revisions
    now: datetime
    by_ordinal: Mapping[int, Pod] = field(init=False)

    def __post_init__(self) -> None:
        numbered = ((ordinal_of(self.owner.metadata.name, pod.metadata.name), pod) for pod in self.pods)
        found = {number: pod for number, pod in numbered if number is not None}
        object.__setattr__(self, "by_ordinal", found)

    @property
    def wanted(self) -> range:
        """The ordinals that are to be there."""
        start = self.owner.spec.ordinals.start
        return range(start, start + self.owner.spec.replicas)

    @property
    def condemned(self) -> list[Pod]:
        """Pods with too high or too low a number, the highest first."""
        return [
            self.by_ordinal[number] for number in sorted(self.by_ordinal, reverse=True) if number not in self.wanted
        ]

    @property
    def ordered(self) -> bool:
        """Whether pods come and go one by one."""
        return self.owner.spec.pod_management_policy != "Parallel"

    def is_available(self, pod: Pod) -> bool:
        """Ready for long enough, and not going."""
        return not pods_.is_terminating(pod) and pods_.is_available(pod, self.owner.spec.min_ready_seconds, self.now)

    def revision(self, pod: Pod) -> str:
        """The revision that a pod was made from."""
        return pod.metadata.labels.get(POD_LABEL, "")


def decide(seen: Seen) -> Decision:
    """Everything that may be done now, in order."""
    waits = (pods_.available_in(pod, seen.owner.spec.min_ready_seconds, seen.now) for pod in seen.pods)
    actions = () if seen.owner.metadata.deletion_timestamp else tuple(_actions(seen))
    return Decision(actions, status(seen), tuple(_claims(seen, actions)), pods_.soonest(waits))


def _claims(seen: Seen, actions: Sequence[Action]) -> Iterator[Json]:
    if seen.owner.metadata.deletion_timestamp:
        return
    waiting = [number for number, pod in seen.by_ordinal.items() if pod.status.phase == "Pending"]
    coming = [action.ordinal for action in actions if isinstance(action, Create)]
    for ordinal in sorted({*(number for number in waiting if number in seen.wanted), *coming}):
        yield from (_claim(seen.owner, template, ordinal) for template in seen.owner.spec.volume_claim_templates)


def _actions(seen: Seen) -> Iterator[Action]:
    busy = False
    for ordinal in seen.wanted:
        pod = seen.by_ordinal.get(ordinal)
        action = _replica(seen, ordinal, pod)
        if action is not None:
            yield action
        busy |= action is not None
        if seen.ordered and (action is not None or pod is None or not seen.is_available(pod)):
            return
    condemned = list(_condemned(seen))
    yield from condemned
    if not (busy or (seen.ordered and seen.condemned)):
        yield from _outdated(seen)


def _replica(seen: Seen, ordinal: int, pod: Pod | None) -> Action | None:
    if pod is None:
        return create(seen.owner, ordinal, seen.revisions, _revision_for(seen, ordinal))
    if pod.status.phase in pods_.FINISHED and not pods_.is_terminating(pod):
        return Delete(pod)
    return None


def _revision_for(seen: Seen, ordinal: int) -> str:
    """A pod below the partition, or not yet reached by a roll-out, comes back as it was."""
    strategy = seen.owner.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return seen.revisions.update
    if strategy.rolling_update is not None:
        kept = strategy.rolling_update.partition
    else:
        kept = _count(seen, seen.revisions.current)
    return seen.revisions.current if ordinal < seen.owner.spec.ordinals.start + kept else seen.revisions.update


def _condemned(seen: Seen) -> Iterator[Action]:
    unhealthy = _first_unhealthy(seen)
    for pod in seen.condemned:
        if not pods_.is_terminating(pod):
            if seen.ordered and not seen.is_available(pod) and pod is not unhealthy:
                return
            yield Delete(pod)
        if seen.ordered:
            return


def _first_unhealthy(seen: Seen) -> Pod | None:
    """The one pod that may go although it is not healthy: otherwise nothing would ever move."""
    lowest = sorted(seen.by_ordinal)
    return next((seen.by_ordinal[number] for number in lowest if not seen.is_available(seen.by_ordinal[number])), None)


def _outdated(seen: Seen) -> Iterator[Action]:
    strategy = seen.owner.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return
    rolling = strategy.rolling_update
    lowest = seen.owner.spec.ordinals.start + (rolling.partition if rolling else 0)
    wanted = rolling.max_unavailable if rolling else None
    room = max(1, share(wanted, seen.owner.spec.replicas, up=True)) if wanted is not None else 1
    for ordinal in reversed(seen.wanted):
        pod = seen.by_ordinal.get(ordinal)
        if ordinal < lowest or room <= 0:
            return
        if pod is None or pods_.is_terminating(pod):
            room -= 1
        elif seen.revision(pod) != seen.revisions.update:
            yield Delete(pod)
            room -= 1
        elif not seen.is_available(pod):
            room -= 1


# --- what is made -------------------------------------------------------------------------------------------------


def create(owner: StatefulSet, ordinal: int, revisions: Revisions, revision: str) -> Create:
    """The pod of one ordinal at one revision."""
    name = f"{owner.metadata.name}-{ordinal}"
    pod = pods_.from_template(
        revisions.templates[revision],
        owner.metadata.namespace,
        pods_.owner_reference("apps/v1", "StatefulSet", owner),
        name=name,
        generateName=f"{owner.metadata.name}-",
        labels={NAME_LABEL: name, INDEX_LABEL: str(ordinal), POD_LABEL: revision},
    )
    pod["spec"] |= {"hostname": name, "subdomain": owner.spec.service_name}
    pod["spec"]["volumes"] = _volumes(owner, ordinal, pod["spec"].get("volumes") or ())
    pod["spec"] = {key: value for key, value in pod["spec"].items() if value not in ("", [])}
    return Create(ordinal, pod)


def claim_name(owner: StatefulSet, template: Json, ordinal: int) -> str:
    """The claim of one template and one ordinal."""
    return f"{template['metadata']['name']}-{owner.metadata.name}-{ordinal}"


def _volumes(owner: StatefulSet, ordinal: int, others: Sequence[Json]) -> list[Json]:
    """Claims stand in for volumes of the same name."""
    claims = {one["metadata"]["name"]: claim_name(owner, one, ordinal) for one in owner.spec.volume_claim_templates}
    mine = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": False}}
        for name, claim in sorted(claims.items())
    ]
    return mine + [volume for volume in others if volume.get("name") not in claims]


def _claim(owner: StatefulSet, template: Json, ordinal: int) -> Json:
    described = template.get("metadata") or {}
    metadata: Json = {
        "name": claim_name(owner, template, ordinal),
        "namespace": owner.metadata.namespace,
        "labels": {**(described.get("labels") or {}), **owner.spec.selector.match_labels},
        "annotations": dict(described.get("annotations") or {}),
        "ownerReferences": claim_owners(owner, None),
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": dict(template.get("spec") or {}),
    }


def claim_owners(owner: StatefulSet, condemned: Pod | None) -> list[Json]:
    """Who takes a claim along when it goes: the set, the pod that a scale-in takes away, or nobody."""
    policy = owner.spec.persistent_volume_claim_retention_policy
    if condemned is not None and policy.when_scaled == "Delete":
        return [_plain_reference("v1", "Pod", condemned)]
    if policy.when_deleted == "Delete":
        return [_plain_reference("apps/v1", "StatefulSet", owner)]
    return []


def _plain_reference(api_version: str, kind: str, item: Pod | StatefulSet) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": item.metadata.name, "uid": item.metadata.uid}


def _reference(one: OwnerReference) -> Json:
    made: Json = {"apiVersion": one.api_version, "kind": one.kind, "name": one.name, "uid": one.uid}
    return made | ({"controller": True} if one.controller else {})


def claims_to_hand_over(seen: Seen, claims: Mapping[str, Claim]) -> Iterator[tuple[Claim, list[Json]]]:
    """Claims whose owners are not what the retention policy asks for, and the owners that they should have."""
    condemned = {pod.metadata.name: pod for pod in seen.condemned}
    for ordinal, pod in seen.by_ordinal.items():
        for template in seen.owner.spec.volume_claim_templates:
            claim = claims.get(claim_name(seen.owner, template, ordinal))
            if claim is None or claim.metadata.deletion_timestamp:
                continue
            wanted = claim_owners(seen.owner, condemned.get(pod.metadata.name))
            ours = {seen.owner.metadata.uid, pod.metadata.uid}
            have = {one.uid for one in claim.metadata.owner_references if one.uid in ours}
            if have != {one["uid"] for one in wanted}:
                others = [one for one in claim.metadata.owner_references if one.uid not in ours]
                yield claim, [_reference(one) for one in others] + wanted


# --- what is said -------------------------------------------------------------------------------------------------


def _count(seen: Seen, revision: str) -> int:
    return sum(1 for pod in seen.pods if not pods_.is_terminating(pod) and seen.revision(pod) == revision)


def status(seen: Seen) -> Json:
    """The status, with every number as it is observed now."""
    owner, chosen = seen.owner, seen.revisions
    ready = sum(1 for pod in seen.pods if pods_.is_ready(pod))
    replicas, current, updated = len(seen.pods), _count(seen, chosen.current), _count(seen, chosen.update)
    revision = chosen.current
    if _is_complete(owner, replicas, ready, updated):
        revision, current = chosen.update, updated
    numbers = {"replicas": replicas, "readyReplicas": ready, "currentReplicas": current, "updatedReplicas": updated}
    available = sum(1 for pod in seen.pods if pods_.is_available(pod, owner.spec.min_ready_seconds, seen.now))
    return {
        **{key: value for key, value in numbers.items() if value or key == "replicas"},
        "availableReplicas": available,
        "observedGeneration": owner.metadata.generation,
        "currentRevision": revision,
        "updateRevision": chosen.update,
        "collisionCount": int(owner.status.get("collisionCount") or 0),
        **{key: owner.status[key] for key in ("conditions",) if key in owner.status},
    }


def _is_complete(owner: StatefulSet, replicas: int, ready: int, updated: int) -> bool:
    strategy = owner.spec.update_strategy.type
    return strategy == "RollingUpdate" and replicas == ready == updated == owner.spec.replicas
