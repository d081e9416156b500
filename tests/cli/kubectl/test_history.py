"""What was in force, what is, and what differs between them."""

from __future__ import annotations

from typing import Any

import click
import pytest
from tests.cli.kubectl.kept import kept, namespace

from slurm_operator.cli.kubectl.configuration import Configuration
from slurm_operator.cli.kubectl.history import History, between, parse_arguments, previous, revision, rows
from slurm_operator.plan.config_history import Revision


def history(config: dict[str, Any], *revisions: Revision, refused: bool = False) -> History:
    conditions = [{"type": "ConfigValid", "status": "False", "message": "slurm.conf:3: no (configuration x; y)"}]
    current = Configuration("slurm", config["hash"], {"slurm.conf": "B=2\n"}, {}, conditions[0]["message"], refused)
    return History({"status": {"config": config, "conditions": conditions}}, current, revisions)


TWO = (kept(namespace(), 2, "bbb"), kept(namespace(), 1, "aaa"))


def test_the_history_tells_what_is_in_force_what_was_and_what_is_refused() -> None:
    shown = rows(history({"hash": "bbb", "candidate": "ccc"}, *TWO, refused=True))
    assert [(row["revision"], row["state"]) for row in shown] == [("-", "refused"), ("2", "live"), ("1", "good")]
    assert shown[0]["change"] == "slurm.conf:3: no"


def test_what_is_not_kept_yet_is_shown_as_live() -> None:
    shown = rows(history({"hash": "ddd"}, *TWO))
    assert [(row["revision"], row["state"]) for row in shown] == [("-", "live"), ("2", "good"), ("1", "good")]


@pytest.mark.parametrize(
    ("config", "number"),
    [({"hash": "bbb"}, 1), ({"hash": "bbb", "candidate": "ccc"}, 2), ({"hash": "ddd"}, 2)],
    ids=["the one before", "a refused change is taken back", "one that is not kept yet is taken back"],
)
def test_without_a_number_it_is_the_newest_that_is_not_asked_for(config: dict[str, Any], number: int) -> None:
    assert previous(history(config, *TWO)).number == number


def test_an_unknown_revision_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(click.ClickException, match="slurm has no revision 9; it has: 1, 2"):
        revision(history({"hash": "bbb"}, *TWO), 9)
    with pytest.raises(click.ClickException, match="no other configuration to go back to; none has been kept yet"):
        previous(history({"hash": "bbb"}))


def test_a_revision_is_compared_with_what_is_in_force_or_with_another() -> None:
    found = history({"hash": "bbb"}, *TWO)
    assert "+B=2" in between(found, (1,))
    assert between(found, (1, 2)) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), ("", ())), (("3",), ("", (3,))), (("slurm", "3", "5"), ("slurm", (3, 5)))],
    ids=["nothing", "a number", "a name and numbers"],
)
def test_numbers_are_revisions_and_the_rest_is_a_name(arguments: tuple[str, ...], expected: tuple[Any, ...]) -> None:
    assert parse_arguments(arguments) == expected
    with pytest.raises(click.UsageError, match="one Controller"):
        parse_arguments(("a", "b"))
