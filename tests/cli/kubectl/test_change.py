"""When a change of a partition counts as done."""

from __future__ import annotations

import pytest

from slurm_operator.cli.kubectl.change import is_as_asked

UP = {"status": "True", "reason": "Up", "message": "2 nodes"}
DRAIN = {"status": "False", "reason": "NotUp", "message": "its state is DRAIN"}
WAITS = {"status": "False", "reason": "NotInSlurmYet", "message": "state"}


@pytest.mark.parametrize(
    ("ready", "state", "wanted"),
    [
        (UP, "UP", True),
        (DRAIN, "UP", False),
        (DRAIN, "DRAIN", True),
        (UP, "DRAIN", False),
        (DRAIN, "DOWN", False),
        (DRAIN, "", True),
        (UP, "", True),
        (WAITS, "", False),
    ],
    ids=[
        "up",
        "still drained",
        "drained",
        "still up",
        "still in the old state",
        "nodes of a drained one",
        "nodes",
        "waits",
    ],
)
def test_an_old_state_is_not_taken_for_the_new_one(ready: dict[str, str], state: str, wanted: bool) -> None:
    assert is_as_asked(ready, state) is wanted
