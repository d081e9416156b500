"""StatefulSet: which pod next. Pure; carried out by `controllers/stateful_set.py`.

missing ordinals -> create        (OrderedReady: one, and only after its predecessors are available)
finished pods    -> delete        (a new one comes when it is gone)
too high a number-> delete        (OrderedReady: the highest first, one at a time)
another revision -> delete        (the highest first, one at a time)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kube_local.controllers.decide import pods as pods_
from kube_local.controllers.decide.revision import POD_LABEL, Revisions
from kube_local.controllers.objects import Json, Pod, StatefulSet

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
    by_ordinal: Mapping[int, Pod] = field(init=False)

    def __post_init__(self) -> None:
        numbered = ((ordinal_of(self.owner.metadata.name, pod.metadata.name), pod) for pod in self.pods)
        found = {number: pod for number, pod in numbered if number is not None}
        object.__setattr__(self, "by_ordinal", found)

    @property
    def wanted(self) -> range:
        """The ordinals that are to be there."""
        return range(self.owner.spec.replicas)

    @property
    def condemned(self) -> list[Pod]:
        """Pods with too high a number, the highest first."""
        return [
            self.by_ordinal[number] for number in sorted(self.by_ordinal, reverse=True) if number not in self.wanted
        ]

    @property
    def ordered(self) -> bool:
        """Whether pods come and go one by one."""
        return self.owner.spec.pod_management_policy != "Parallel"

    def is_available(self, pod: Pod) -> bool:
        """Ready, and not going."""
        return not pods_.is_terminating(pod) and pods_.is_ready(pod)

    def revision(self, pod: Pod) -> str:
        """The revision that a pod was made from."""
        return pod.metadata.labels.get(POD_LABEL, "")


def decide(seen: Seen) -> Decision:
    """Everything that may be done now, in order."""
    actions = () if seen.owner.metadata.deletion_timestamp else tuple(_actions(seen))
    return Decision(actions, status(seen), tuple(_claims(seen, actions)))


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
        return create(seen.owner, ordinal, seen.revisions)
    if pod.status.phase in pods_.FINISHED and not pods_.is_terminating(pod):
        return Delete(pod)
    return None


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
    for ordinal in reversed(seen.wanted):
        pod = seen.by_ordinal.get(ordinal)
        if pod is None or pods_.is_terminating(pod):
            return
        if seen.revision(pod) != seen.revisions.update:
            yield Delete(pod)
            return
        if not seen.is_available(pod):
            return


# --- what is made -------------------------------------------------------------------------------------------------


def create(owner: StatefulSet, ordinal: int, revisions: Revisions) -> Create:
    """The pod of one ordinal at the coming revision."""
    name = f"{owner.metadata.name}-{ordinal}"
    pod = pods_.from_template(
        revisions.templates[revisions.update],
        owner.metadata.namespace,
        pods_.owner_reference("apps/v1", "StatefulSet", owner),
        name=name,
        generateName=f"{owner.metadata.name}-",
        labels={NAME_LABEL: name, INDEX_LABEL: str(ordinal), POD_LABEL: revisions.update},
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
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": dict(template.get("spec") or {}),
    }


# --- what is said -------------------------------------------------------------------------------------------------


def _count(seen: Seen, revision: str) -> int:
    return sum(1 for pod in seen.pods if not pods_.is_terminating(pod) and seen.revision(pod) == revision)


def status(seen: Seen) -> Json:
    """The status, with every number as it is observed now."""
    owner, chosen = seen.owner, seen.revisions
    ready = sum(1 for pod in seen.pods if pods_.is_ready(pod))
    replicas, current, updated = len(seen.pods), _count(seen, chosen.current), _count(seen, chosen.update)
    revision = chosen.current
    if replicas == ready == updated == owner.spec.replicas:
        revision, current = chosen.update, updated
    numbers = {"replicas": replicas, "readyReplicas": ready, "currentReplicas": current, "updatedReplicas": updated}
    return {
        **{key: value for key, value in numbers.items() if value or key == "replicas"},
        "availableReplicas": ready,
        "observedGeneration": owner.metadata.generation,
        "currentRevision": revision,
        "updateRevision": chosen.update,
        "collisionCount": 0,
        **{key: owner.status[key] for key in ("conditions",) if key in owner.status},
    }
