"""Scheduling: on which node does a pod go, and if on none, why. Pure; `controllers/scheduler.py` keeps the book.

In: what a pod needs, and the nodes with what is used on them. Out: `Chosen`, or `Nowhere` with a sentence in the
words of the real scheduler: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kube_local.controllers.decide.selector import selects, selects_node
from kube_local.controllers.objects import (
    Affinity,
    Container,
    Json,
    Node,
    Pod,
    PodTerm,
    Toleration,
)
from kube_runtime import quantity

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_REPELS = frozenset({"NoSchedule", "NoExecute"})
_KEPT_APART = "node(s) didn't match pod anti-affinity rules"
_NOT_NEAR = "node(s) didn't match pod affinity rules"
_OTHERS_OBJECT = "node(s) didn't satisfy existing pods anti-affinity rules"
_WRONG_NODE = "node(s) didn't match Pod's node affinity/selector"

Amounts = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Needs:
    """What matters about a pod when nodes are compared; made once per pod."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    requests: Amounts
    node_selector: Mapping[str, str]
    affinity: Affinity
    tolerations: tuple[Toleration, ...]

    @property
    def apart(self) -> tuple[PodTerm, ...]:
        """Pods that may not be near."""
        anti = self.affinity.pod_anti_affinity
        return anti.required if anti else ()

    @property
    def together(self) -> tuple[PodTerm, ...]:
        """Pods that must be near."""
        near = self.affinity.pod_affinity
        return near.required if near else ()


def needs_of(pod: Pod) -> Needs:
    """The needs of a pod."""
    spec = pod.spec
    return Needs(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.metadata.labels,
        requests_of(pod),
        spec.node_selector,
        spec.affinity or Affinity(),
        spec.tolerations,
    )


def requests_of(pod: Pod) -> dict[str, Fraction]:
    """Containers and sidecars together, or the largest init container with the sidecars before it."""
    running: Counter[str] = Counter()
    peak: dict[str, Fraction] = {}
    for one in pod.spec.init_containers:
        own = _amounts(one)
        if one.restart_policy == "Always":
            _add(running, own)
            own = {}
        for key in {*own, *running}:
            peak[key] = max(peak.get(key, Fraction(0)), own.get(key, Fraction(0)) + running[key])
    for one in pod.spec.containers:
        _add(running, _amounts(one))
    total = {key: max(Fraction(running[key]), peak.get(key, Fraction(0))) for key in {*running, *peak}}
    return {**total, "pods": Fraction(1)}


def _amounts(one: Container) -> dict[str, Fraction]:
    return {key: quantity.parse(value) or Fraction(0) for key, value in one.resources.requests.items()}


def _add(total: Counter[str], more: Amounts) -> None:
    for key, value in more.items():
        total[key] += value  # type: ignore[assignment]  # a Counter counts fractions as well


@dataclass(slots=True)
class NodeRoom:
    """A node, and what is on it; kept up to date by the scheduler's book."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    unschedulable: bool
    allocatable: Amounts
    used: dict[str, Fraction] = field(default_factory=dict)
    pods: dict[tuple[str, str], Needs] = field(default_factory=dict)
    # Of these pods, those that keep others away: the only ones that every new pod must ask.
    apart: dict[tuple[str, str], Needs] = field(default_factory=dict)

    def put(self, needs: Needs) -> None:
        """A pod is on this node."""
        key = (needs.namespace, needs.name)
        self.drop(key)
        self.pods[key] = needs
        if needs.apart:
            self.apart[key] = needs
        for name, value in needs.requests.items():
            self.used[name] = self.used.get(name, Fraction(0)) + value

    def drop(self, key: tuple[str, str]) -> None:
        """A pod is no longer on this node."""
        needs = self.pods.pop(key, None)
        self.apart.pop(key, None)
        if needs is not None:
            for name, value in needs.requests.items():
                self.used[name] -= value


def room_of(node: Node) -> NodeRoom:
    """An empty node."""
    allocatable = {key: quantity.parse(value) or Fraction(0) for key, value in node.status.allocatable.items()}
    labels = {"kubernetes.io/hostname": node.metadata.name, **node.metadata.labels}
    return NodeRoom(node.metadata.name, labels, node.spec.taints, node.spec.unschedulable, allocatable)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Go there."""

    node: str


@dataclass(frozen=True, slots=True)
class Nowhere:
    """No node will have it."""

    why: str


def choose(needs: Needs, rooms: Sequence[NodeRoom]) -> Chosen | Nowhere:
    """Of the nodes that will have the pod, the least used, then the first by name."""
    reasons: Counter[str] = Counter()
    fitting: list[NodeRoom] = []
    shunned = _shunned(needs, rooms)
    for room in rooms:
        objections = tuple(_objections(needs, room, rooms, shunned))
        reasons.update(objections)
        if not objections:
            fitting.append(room)
    if not fitting:
        return Nowhere(sentence(reasons, len(rooms)))
    return Chosen(min(fitting, key=lambda room: (_load(room), room.name)).name)


def sentence(reasons: Mapping[str, int], nodes: int) -> str:
    """Why nowhere, in the words of the real scheduler."""
    if not nodes:
        return "no nodes available to schedule pods"
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available: {listed}."


def _objections(
    needs: Needs, room: NodeRoom, rooms: Sequence[NodeRoom], shunned: frozenset[tuple[str, str]]
) -> Iterator[str]:
    """As the real scheduler: the first test that fails speaks, and only resources speak with several voices."""
    if room.unschedulable and not tolerates(needs.tolerations, UNSCHEDULABLE, "", "NoSchedule"):
        yield "node(s) were unschedulable"
    elif taint := _repelling(needs, room):
        shown = f"{taint.get('key')}: {taint['value']}" if taint.get("value") else f"{taint.get('key')}: "
        yield f"node(s) had untolerated taint(s) {{{shown}}}"
    elif not _likes_node(needs, room):
        yield _WRONG_NODE
    elif short := list(_lacking(needs, room)):
        yield from short
    elif any(_is_near(term, needs, room, rooms) for term in needs.apart):
        yield _KEPT_APART
    elif any(room.labels.get(key) == value for key, value in shunned):
        yield _OTHERS_OBJECT
    elif not all(_finds_company(term, needs, room, rooms) for term in needs.together):
        yield _NOT_NEAR


def tolerates(tolerations: Iterable[Toleration], key: str, value: str, effect: str) -> bool:
    """Whether one of the tolerations puts up with a taint."""
    return any(tolerates_taint(one, key, value, effect) for one in tolerations)


def tolerates_taint(one: Toleration, key: str, value: str, effect: str) -> bool:
    """Whether a toleration puts up with a taint."""
    if one.effect and one.effect != effect:
        return False
    if one.key and one.key != key:
        return False
    if one.operator == "Exists":
        return True
    return bool(one.key) and one.value == value


def _repelling(needs: Needs, room: NodeRoom) -> Json | None:
    for taint in room.taints:
        key, value, effect = (str(taint.get(name) or "") for name in ("key", "value", "effect"))
        if effect in _REPELS and not tolerates(needs.tolerations, key, value, effect):
            return taint
    return None


def _likes_node(needs: Needs, room: NodeRoom) -> bool:
    if any(room.labels.get(key) != value for key, value in needs.node_selector.items()):
        return False
    wanted = needs.affinity.node_affinity
    if wanted is None or wanted.required is None:
        return True
    return any(selects_node(term, room.labels, room.name) for term in wanted.required.node_selector_terms)


def _lacking(needs: Needs, room: NodeRoom) -> Iterator[str]:
    for name, amount in needs.requests.items():
        if amount and amount + room.used.get(name, 0) > room.allocatable.get(name, 0):
            yield "Too many pods" if name == "pods" else f"Insufficient {name}"


# --- other pods ---------------------------------------------------------------------------------------------------


def _same_place(key: str, room: NodeRoom, rooms: Sequence[NodeRoom]) -> Iterator[NodeRoom]:
    """The nodes that share a topology value with this one."""
    place = room.labels.get(key)
    if place is None:
        return
    if key == "kubernetes.io/hostname":
        yield room
        return
    yield from (other for other in rooms if other.labels.get(key) == place)


def _means(term: PodTerm, asker: Needs, other: Needs) -> bool:
    everywhere = term.namespace_selector is not None
    spaces = term.namespaces or (() if everywhere else (asker.namespace,))
    return (everywhere or other.namespace in spaces) and selects(term.label_selector, other.labels)


def _is_near(term: PodTerm, needs: Needs, room: NodeRoom, rooms: Sequence[NodeRoom]) -> bool:
    places = _same_place(term.topology_key, room, rooms)
    return any(_means(term, needs, other) for place in places for other in place.pods.values())


def _shunned(needs: Needs, rooms: Sequence[NodeRoom]) -> frozenset[tuple[str, str]]:
    """Places, as label and value, where a pod is that does not want this one: anti-affinity holds both ways."""
    return frozenset(
        (term.topology_key, place.labels[term.topology_key])
        for place in rooms
        for other in place.apart.values()
        for term in other.apart
        if term.topology_key in place.labels and _means(term, other, needs)
    )


def _finds_company(term: PodTerm, needs: Needs, room: NodeRoom, rooms: Sequence[NodeRoom]) -> bool:
    if room.labels.get(term.topology_key) is None:
        return False
    if _is_near(term, needs, room, rooms):
        return True
    # The first of a group that wants to be together has nobody to join yet.
    is_first = not any(_means(term, needs, other) for place in rooms for other in place.pods.values())
    return is_first and _means(term, needs, needs)


def _load(room: NodeRoom) -> float:
    """How full a node is; pods count too, so that equal pods spread."""
    parts = [
        float(room.used.get(name, 0) / room.allocatable[name])
        for name in ("cpu", "memory", "pods")
        if room.allocatable.get(name)
    ]
    return sum(parts) / len(parts) if parts else float(len(room.pods))
