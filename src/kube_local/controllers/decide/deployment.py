"""Deployment: which ReplicaSet is how large next. Pure; carried out by `controllers/deployment.py`.

no ReplicaSet with this template  -> one is made, as large as the surge allows
RollingUpdate                     -> the new one grows within maxSurge, the old ones shrink within maxUnavailable
Recreate                          -> the old ones go to nothing, and when their pods are gone the new one comes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from kube_local.controllers.decide import pods as pods_
from kube_local.controllers.decide.revision import template_hash
from kube_local.controllers.decide.status import condition, share
from kube_local.controllers.objects import Deployment, Json, Pod, ReplicaSet
from kube_runtime.times import time_text

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
# Annotations of the Deployment that its ReplicaSets do not carry.
_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MAX_REPLICAS})


@dataclass(frozen=True, slots=True)
class Create:
    """A new ReplicaSet."""

    body: Json


@dataclass(frozen=True, slots=True)
class Scale:
    """Another size, or other annotations."""

    target: ReplicaSet
    replicas: int
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """A ReplicaSet that nobody will roll back to."""

    target: ReplicaSet


Action = Create | Scale | Delete


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and what to say."""

    actions: tuple[Action, ...]
    status: Json
    revision: str = ""


@dataclass(frozen=True)
class Seen:
    """A Deployment, its ReplicaSets and their pods at one moment."""

    owner: Deployment
    sets: Sequence[ReplicaSet]
    pods: Sequence[Pod]
    now: datetime

    @cached_property
    def by_age(self) -> list[ReplicaSet]:
        """The oldest first."""
        return sorted(self.sets, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name))

    @cached_property
    def new(self) -> ReplicaSet | None:
        """The ReplicaSet with the wanted template."""
        wanted = plain_template(self.owner.spec.template)
        return next((one for one in self.by_age if plain_template(one.spec.template) == wanted), None)

    @cached_property
    def old(self) -> list[ReplicaSet]:
        """All others, the oldest first."""
        return [one for one in self.by_age if one is not self.new]

    @property
    def replicas(self) -> int:
        """The wanted number."""
        return self.owner.spec.replicas

    @property
    def surge(self) -> int:
        """How many pods there may be too many."""
        rolling = self.owner.spec.strategy.rolling_update
        return share(rolling.max_surge, self.replicas, up=True) if rolling and self.rolls else 0

    @property
    def may_lack(self) -> int:
        """How many pods may be missing; never nothing when there is no surge either, or nothing would move."""
        rolling = self.owner.spec.strategy.rolling_update
        if not rolling or not self.rolls:
            return 0
        lacking = min(share(rolling.max_unavailable, self.replicas, up=False), self.replicas)
        return lacking if lacking or self.surge else 1

    @property
    def rolls(self) -> bool:
        """RollingUpdate, not Recreate."""
        return self.owner.spec.strategy.type != "Recreate"

    @property
    def revision(self) -> int:
        """The number of the wanted template: one more than that of any other."""
        return max((revision_of(one) for one in self.old), default=0) + 1


def plain_template(template: Mapping[str, Any]) -> Json:
    """A template without the label that tells ReplicaSets apart."""
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.pop("labels", None) or {}).items() if key != HASH_LABEL}
    metadata |= {"labels": labels} if labels else {}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": metadata}


def revision_of(item: ReplicaSet) -> int:
    """The number that a ReplicaSet was given."""
    text = item.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def decide(seen: Seen) -> Decision:
    """Everything that may be done now, in order."""
    if seen.owner.metadata.deletion_timestamp:
        return Decision((), status(seen))
    actions = tuple(_actions(seen))
    spare = () if actions or seen.owner.spec.paused else tuple(_spare(seen))
    number = max(seen.revision, revision_of(seen.new)) if seen.new else seen.revision
    revision = str(number) if seen.new or any(isinstance(one, Create) for one in actions) else ""
    return Decision(actions + spare, status(seen, actions), revision)


def _actions(seen: Seen) -> list[Action]:
    if seen.owner.spec.paused:
        return list(_resize(seen))
    if seen.rolls:
        return list(_grow_new(seen)) or list(_shrink_old(seen))
    return list(_recreate(seen))


# --- sizes --------------------------------------------------------------------------------------------------------


def _total(sets: Iterable[ReplicaSet]) -> int:
    return sum(one.spec.replicas for one in sets)


def _available(sets: Iterable[ReplicaSet]) -> int:
    return sum(int(one.status.get("availableReplicas") or 0) for one in sets)


def _to(seen: Seen, target: ReplicaSet, replicas: int) -> Iterator[Action]:
    """One ReplicaSet at a size, its annotations included; nothing when all is so already."""
    wanted = {DESIRED: str(seen.replicas), MAX_REPLICAS: str(seen.replicas + seen.surge)}
    if target is seen.new:
        wanted |= _copied(seen.owner) | {REVISION: str(max(seen.revision, revision_of(target)))}
    missing = {key: value for key, value in wanted.items() if target.metadata.annotations.get(key) != value}
    if replicas != target.spec.replicas or missing:
        yield Scale(target, replicas, missing)


def _resize(seen: Seen) -> Iterator[Action]:
    """A paused Deployment is scaled and not rolled; one that stands between two templates waits."""
    active = [one for one in seen.by_age if one.spec.replicas] or seen.by_age[-1:]
    if len(active) == 1:
        yield from _to(seen, active[0], seen.replicas)


def _grow_new(seen: Seen) -> Iterator[Action]:
    if seen.new is None:
        yield Create(new_set(seen, _new_size(seen, 0)))
        return
    size = seen.new.spec.replicas
    yield from _to(seen, seen.new, seen.replicas if size >= seen.replicas else _new_size(seen, size))


def _new_size(seen: Seen, size: int) -> int:
    if not seen.rolls:
        return seen.replicas
    room = seen.replicas + seen.surge - _total(seen.sets)
    return size + min(max(0, room), seen.replicas - size)


def _shrink_old(seen: Seen) -> Iterator[Action]:
    """First the pods that serve nobody, then as many as can be spared."""
    if seen.new is None or not _total(seen.old):
        return
    least = seen.replicas - seen.may_lack
    lacking = seen.new.spec.replicas - _available([seen.new])
    room = _total(seen.sets) - least - lacking
    if room <= 0:
        return
    sizes = {one.metadata.name: one.spec.replicas for one in seen.old}
    for one in seen.old:
        gone = min(room, max(0, one.spec.replicas - _available([one])))
        sizes[one.metadata.name] -= gone
        room -= gone
    spare = max(0, _available(seen.sets) - least)
    for one in seen.old:
        gone = min(spare, sizes[one.metadata.name])
        sizes[one.metadata.name] -= gone
        spare -= gone
    for one in seen.old:
        if sizes[one.metadata.name] != one.spec.replicas:
            yield from _to(seen, one, sizes[one.metadata.name])


def _recreate(seen: Seen) -> Iterator[Action]:
    shrink = [action for one in seen.old if one.spec.replicas for action in _to(seen, one, 0)]
    if shrink:
        yield from shrink
        return
    old = {one.metadata.uid for one in seen.old}
    running = [
        pod
        for pod in seen.pods
        if pod.status.phase not in pods_.FINISHED and any(owner.uid in old for owner in pod.metadata.owner_references)
    ]
    if not running:
        yield from _grow_new(seen)


# --- ReplicaSets that come and go ---------------------------------------------------------------------------------


def new_set(seen: Seen, replicas: int) -> Json:
    """The ReplicaSet of the wanted template."""
    owner = seen.owner
    hash_ = template_hash(plain_template(owner.spec.template), int(owner.status.get("collisionCount") or 0))
    described = dict(owner.spec.template.get("metadata") or {})
    labels = {**(described.get("labels") or {}), HASH_LABEL: hash_}
    selector = {**owner.spec.selector}
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: hash_}
    annotations = _copied(owner) | {
        DESIRED: str(seen.replicas),
        MAX_REPLICAS: str(seen.replicas + seen.surge),
        REVISION: str(seen.revision),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{owner.metadata.name}-{hash_}",
            "namespace": owner.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [pods_.owner_reference("apps/v1", "Deployment", owner)],
        },
        "spec": {
            "replicas": replicas,
            "selector": selector,
            "template": {**owner.spec.template, "metadata": {**described, "labels": labels}},
        },
    }


def _copied(owner: Deployment) -> dict[str, str]:
    return {key: value for key, value in owner.metadata.annotations.items() if key not in _NOT_COPIED}


def _spare(seen: Seen) -> Iterator[Action]:
    """Old ReplicaSets beyond as many as are to be kept, once the roll-out is complete."""
    if not _is_complete(seen, status(seen)):
        return
    empty = [
        one
        for one in seen.old
        if not one.spec.replicas and not one.status.get("replicas") and not one.metadata.deletion_timestamp
    ]
    empty.sort(key=lambda one: (revision_of(one), one.metadata.creation_timestamp))
    yield from (Delete(one) for one in empty[: max(0, len(empty) - seen.owner.spec.revision_history_limit)])


# --- what is said -------------------------------------------------------------------------------------------------


def status(seen: Seen, actions: Sequence[Action] = ()) -> Json:
    """The status, with every number as it is observed now."""
    numbers = {
        "replicas": _sum(seen.sets, "replicas"),
        "updatedReplicas": _sum([seen.new] if seen.new else [], "replicas"),
        "readyReplicas": _sum(seen.sets, "readyReplicas"),
        "availableReplicas": _available(seen.sets),
        "unavailableReplicas": max(0, _total(seen.sets) - _available(seen.sets)),
    }
    desired: Json = {
        **{key: value for key, value in numbers.items() if value},
        "terminatingReplicas": _sum(seen.sets, "terminatingReplicas"),
        "observedGeneration": seen.owner.metadata.generation,
    }
    if seen.owner.status.get("collisionCount"):
        desired["collisionCount"] = seen.owner.status["collisionCount"]
    return {**desired, "conditions": _conditions(seen, desired, actions)}


def _sum(sets: Iterable[ReplicaSet], key: str) -> int:
    return sum(int(one.status.get(key) or 0) for one in sets)


def _conditions(seen: Seen, desired: Json, actions: Sequence[Action]) -> list[Json]:
    enough = int(desired.get("availableReplicas") or 0) >= seen.replicas - seen.may_lack
    available = (
        condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else condition(
            "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        )
    )
    before = {str(one.get("type")): one for one in seen.owner.status.get("conditions") or ()}
    progressing = _progressing(seen, desired, before.get("Progressing"), actions)
    wanted = {"Available": available} | ({"Progressing": progressing} if progressing else {})
    merged = {**before, **{kind: _timed(before.get(kind), one, seen.now) for kind, one in wanted.items()}}
    return list(merged.values())


def _timed(before: Mapping[str, Any] | None, one: Json, now: datetime) -> Json:
    """Unchanged words keep both times; a changed status moves both; other words move the update time."""
    if before is not None and all(before.get(key) == value for key, value in one.items()):
        return dict(before)
    same = before is not None and before.get("status") == one["status"]
    since = before["lastTransitionTime"] if before is not None and same else time_text(now)
    return {**one, "lastUpdateTime": time_text(now), "lastTransitionTime": since}


def _progressing(seen: Seen, desired: Json, before: Mapping[str, Any] | None, actions: Sequence[Action]) -> Json | None:
    if seen.owner.spec.paused:
        return None
    made = next((action.body for action in actions if isinstance(action, Create)), None)
    if made is not None:
        text = f'Created new replica set "{made["metadata"]["name"]}"'
        return condition("Progressing", "True", "NewReplicaSetCreated", text)
    reason = str((before or {}).get("reason", ""))
    complete = reason == "NewReplicaSetAvailable" and desired.get("replicas") == desired.get("updatedReplicas")
    if complete or seen.new is None:
        return dict(before) if before else None
    name = seen.new.metadata.name
    if _is_complete(seen, desired):
        return condition(
            "Progressing", "True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
        )
    return condition("Progressing", "True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')


def _is_complete(seen: Seen, desired: Json) -> bool:
    numbers = (desired.get(key) or 0 for key in ("replicas", "updatedReplicas", "availableReplicas"))
    return seen.new is not None and all(number == seen.replicas for number in numbers)
