"""Users, groups and capabilities of containers."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.node import identity
from kube_local.node.errors import ConfigInvalid
from kube_local.node.identity import User, UserFiles

FILES = UserFiles(
    "root:x:0:0::/root:/bin/sh\nslurm:x:401:402::/:/bin/sh\nbroken line\n",
    "root:x:0:\nslurm:x:402:\nvideo:x:44:slurm,alice\n",
)
EVERYTHING = frozenset(range(41))


def pod(**context: Any) -> dict[str, Any]:
    return {"spec": {"securityContext": context}}


@pytest.mark.parametrize(
    ("shared", "own", "image", "expected"),
    [
        ({}, {}, None, User(0, 0, (0,))),
        ({}, {}, "slurm", User(401, 402, (402, 44))),
        ({}, {}, "401:0", User(401, 0, (0, 44))),
        ({}, {}, "slurm:video", User(401, 44, (44,))),
        ({"runAsUser": 401}, {}, None, User(401, 402, (402, 44))),
        ({"runAsUser": 401, "runAsGroup": 5}, {"runAsUser": 77}, "slurm", User(77, 5, (5,))),
        ({"supplementalGroups": [9, 5], "fsGroup": 5}, {"runAsUser": 1000}, None, User(1000, 0, (0, 9, 5))),
    ],
    ids=["root", "image by name", "image by number", "image with group", "of the pod", "container wins", "more groups"],
)
def test_a_container_runs_as(shared: dict[str, Any], own: dict[str, Any], image: str | None, expected: User) -> None:
    assert identity.user(pod(**shared), {"name": "c", "securityContext": own}, image, FILES) == expected


@pytest.mark.parametrize(
    ("own", "image", "text"),
    [
        ({"runAsNonRoot": True}, None, "image will run as root"),
        ({}, "nobody-here", "user 'nobody-here' is not in its /etc/passwd"),
        ({}, "slurm:nogroup", "group 'nogroup' is not in its /etc/group"),
    ],
    ids=["root though forbidden", "unknown user", "unknown group"],
)
def test_a_user_that_cannot_be_is_refused(own: dict[str, Any], image: str | None, text: str) -> None:
    with pytest.raises(ConfigInvalid, match=text):
        identity.user(pod(), {"name": "c", "securityContext": own}, image, FILES)


@pytest.mark.parametrize(
    ("context", "allowed", "expected"),
    [
        ({"capabilities": {"drop": ["ALL"]}}, EVERYTHING, []),
        (
            {"capabilities": {"drop": ["ALL"], "add": ["net_admin", "CAP_KILL"]}},
            EVERYTHING,
            ["CAP_KILL", "CAP_NET_ADMIN"],
        ),
        ({"privileged": True}, frozenset({0, 21}), ["CAP_CHOWN", "CAP_SYS_ADMIN"]),
        ({"capabilities": {"add": ["SYS_RESOURCE"], "drop": ["ALL"]}}, EVERYTHING - {24}, []),
        ({"capabilities": {"add": ["ALL"]}}, frozenset({24}), ["CAP_SYS_RESOURCE"]),
    ],
    ids=["none", "a few", "privileged gets what there is", "what the machine lacks is left out", "all"],
)
def test_capabilities_are(context: dict[str, Any], allowed: frozenset[int], expected: list[str]) -> None:
    assert identity.capabilities(context, allowed) == expected


def test_a_plain_container_has_the_usual_capabilities() -> None:
    assert set(identity.capabilities({}, EVERYTHING)) == identity.DEFAULT_CAPABILITIES


@pytest.mark.parametrize(
    ("context", "held", "filtered"),
    [
        ({"seccompProfile": {"type": "RuntimeDefault"}}, [], True),
        ({"seccompProfile": {"type": "Unconfined"}}, [], False),
        ({}, [], False),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, ["CAP_SYS_ADMIN"], False),
        ({"seccompProfile": {"type": "RuntimeDefault"}, "privileged": True}, [], False),
    ],
    ids=["asked for", "refused", "not asked for", "may do it all anyway", "privileged"],
)
def test_system_calls_are_filtered(context: dict[str, Any], held: list[str], filtered: bool) -> None:
    assert (identity.seccomp(context, held) is not None) is filtered
