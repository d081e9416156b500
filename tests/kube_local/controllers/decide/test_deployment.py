"""Which ReplicaSet is how large next."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.controllers.decide.deployment import DESIRED, MAX_REPLICAS, REVISION, Create, Scale, Seen, decide
from kube_local.controllers.objects import Deployment, ReplicaSet

ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def _owner(make: Any, replicas: int, **more: Any) -> Deployment:
    spec = {"replicas": replicas, "template": {"spec": {"v": 2}}, "strategy": ROLLING}
    head = {"name": "web", "namespace": "ns", "uid": "u", "generation": 1}
    made: Deployment = make.of(Deployment, metadata=head, spec=spec | more, status=more.pop("status", {}))
    return made


def _sets(make: Any, text: str, desired: int, most: int) -> list[ReplicaSet]:
    """`1:4/4 2:2/1`: version of the template, size, available."""
    made = []
    for word in text.split():
        version, _, rest = word.partition(":")
        size, _, available = rest.partition("/")
        notes = {DESIRED: str(desired), MAX_REPLICAS: str(most), REVISION: version}
        head = {"name": f"web-{version}", "uid": f"rs-{version}", "creationTimestamp": version, "annotations": notes}
        spec = {"replicas": int(size), "template": {"spec": {"v": int(version)}}}
        status = {"replicas": int(size), "readyReplicas": int(available), "availableReplicas": int(available)}
        made.append(make.of(ReplicaSet, metadata=head, spec=spec, status=status))
    return made


def _actions(seen: Seen) -> dict[str, int]:
    sizes = {}
    for action in decide(seen).actions:
        if isinstance(action, Create):
            sizes["new"] = action.body["spec"]["replicas"]
        elif isinstance(action, Scale):
            sizes[action.target.metadata.name] = action.replicas
    return sizes


@pytest.mark.parametrize(
    ("replicas", "sets", "sizes"),
    [
        (4, "", {"new": 4}),
        (4, "1:4/4", {"new": 1}),
        (4, "1:4/4 2:1/0", {"web-1": 3}),
        (4, "1:3/3 2:1/0", {"web-2": 2}),
        (4, "1:3/3 2:2/2", {"web-1": 1}),
        (4, "1:0/0 2:4/4", {}),
        (4, "1:4/2 2:1/0", {"web-1": 3}),
        (1, "1:1/1", {"new": 1}),
        (1, "1:1/1 2:1/0", {}),
        (1, "1:1/1 2:1/1", {"web-1": 0}),
        (0, "", {"new": 0}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_rolling_update_step_by_step(make: Any, replicas: int, sets: str, sizes: dict[str, int]) -> None:
    owner = _owner(make, replicas)
    most = replicas + -(-replicas // 4)
    assert _actions(Seen(owner, _sets(make, sets, replicas, most), [], make.now)) == sizes


@pytest.mark.parametrize(
    ("replicas", "sets", "before", "sizes"),
    [
        (8, "2:4/4", 4, {"web-2": 8}),
        (2, "2:4/4", 4, {"web-2": 2}),
    ],
    ids=["up", "down"],
)
def test_a_changed_number_changes_the_one_replica_set(
    make: Any, replicas: int, sets: str, before: int, sizes: dict[str, int]
) -> None:
    made = _sets(make, sets, before, before + -(-before // 4))
    assert _actions(Seen(_owner(make, replicas), made, [], make.now)) == sizes


def test_a_paused_deployment_is_only_scaled(make: Any) -> None:
    owner = _owner(make, 6, paused=True)
    assert _actions(Seen(owner, _sets(make, "1:4/4", 4, 5), [], make.now)) == {"web-1": 6}


def test_recreate_first_takes_away_then_waits_then_makes(make: Any) -> None:
    owner = _owner(make, 2, strategy={"type": "Recreate"})
    assert _actions(Seen(owner, _sets(make, "1:2/2", 2, 2), [], make.now)) == {"web-1": 0}
    last = make.pod("last", going=True, metadata={"ownerReferences": [{"uid": "rs-1", "controller": True}]})
    empty = _sets(make, "1:0/0", 2, 2)
    assert _actions(Seen(owner, empty, [last], make.now)) == {}
    assert _actions(Seen(owner, empty, [], make.now)) == {"new": 2}
