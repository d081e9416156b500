"""Which pod of a StatefulSet is next."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.controllers.decide.revision import Revisions
from kube_local.controllers.decide.stateful_set import Create, Delete, Seen, decide, ordinal_of
from kube_local.controllers.objects import StatefulSet

OLD_AND_NEW = Revisions("old", "new", {"old": {}, "new": {}})


def _set(make: Any, replicas: int = 3, **spec: Any) -> StatefulSet:
    made: StatefulSet = make.of(
        StatefulSet, metadata={"name": "web", "namespace": "ns", "uid": "u"}, spec={"replicas": replicas, **spec}
    )
    return made


def _pods(make: Any, text: str) -> list[Any]:
    """`0:new 1:old! 2:old~ 3:old-`: ordinal and revision; ! is not ready, ~ is going, - has failed."""
    made = []
    for word in text.split():
        number, _, rest = word.partition(":")
        labels = {"controller-revision-hash": rest.rstrip("!~-")}
        status = {"phase": "Failed"} if rest.endswith("-") else {}
        flags = {"ready": not rest.endswith("!"), "going": rest.endswith("~")}
        made.append(make.pod(f"web-{number}", metadata={"labels": labels}, status=status, **flags))
    return made


def _actions(seen: Seen) -> list[str]:
    said = []
    for action in decide(seen).actions:
        if isinstance(action, Create):
            said.append(f"+{action.ordinal}:{action.pod['metadata']['labels']['controller-revision-hash']}")
        elif isinstance(action, Delete):
            said.append(f"-{action.pod.metadata.name.rpartition('-')[2]}")
    return said


PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}


@pytest.mark.parametrize(
    ("spec", "pods", "actions"),
    [
        ({}, "", ["+0:new"]),
        ({}, "0:new!", []),
        ({}, "0:new", ["+1:new"]),
        ({}, "0:new~ 1:new 2:new", []),
        ({}, "0:new 1:new 2:new", []),
        ({}, "0:new 2:new", ["+1:new"]),
        ({}, "0:new- 1:new 2:new", ["-0"]),
        ({}, "0:old 1:old 2:old", ["-2"]),
        ({}, "0:old 1:old 2:new!", []),
        ({}, "0:old 1:old 2:new", ["-1"]),
        ({}, "0:new 1:new 2:new 3:new 4:new", ["-4"]),
        ({}, "0:new 1:new 2:new 3:new 4:new~", []),
        ({}, "0:new 1:new 2:new 3:new 4:new!", ["-4"]),
        (PARALLEL, "", ["+0:new", "+1:new", "+2:new"]),
        (PARALLEL, "1:new!", ["+0:new", "+2:new"]),
        (PARALLEL, "0:new 1:new 2:new 3:new 4:new!", ["-4", "-3"]),
        (PARALLEL, "0:old 1:old 2:old", ["-2"]),
        ({}, "0:old 1:old", ["+2:new"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_done_next(make: Any, spec: Any, pods: str, actions: list[str]) -> None:
    assert _actions(Seen(_set(make, **spec), _pods(make, pods), OLD_AND_NEW)) == actions


def test_a_set_that_is_going_makes_nothing(make: Any) -> None:
    head = {"name": "web", "namespace": "ns", "deletionTimestamp": "2030-01-01T00:00:00Z"}
    owner = make.of(StatefulSet, metadata=head, spec={"replicas": 3})
    assert _actions(Seen(owner, [], OLD_AND_NEW)) == []


@pytest.mark.parametrize(
    ("pods", "current", "numbers"),
    [
        ("0:new 1:new 2:new", "new", (3, 3, 3, 3)),
        ("0:old 1:old 2:new", "old", (3, 3, 2, 1)),
        ("0:old 1:old 2:new!", "old", (3, 2, 2, 1)),
        ("0:old 1:old~", "old", (2, 2, 1, 0)),
    ],
)
def test_what_the_status_says(make: Any, pods: str, current: str, numbers: tuple[int, ...]) -> None:
    said = decide(Seen(_set(make), _pods(make, pods), OLD_AND_NEW)).status
    keys = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    assert (said["currentRevision"], said["updateRevision"]) == (current, "new")
    assert tuple(said.get(key, 0) for key in keys) == numbers


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [
        ("web-0", 0),
        ("web-12", 12),
        ("web-01", None),
        ("web-", None),
        ("other-0", None),
        ("web-x", None),
        ("web-²", None),
    ],
)
def test_the_number_of_a_name(name: str, ordinal: int | None) -> None:
    assert ordinal_of("web", name) == ordinal
