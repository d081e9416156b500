"""Every command's function takes just the arguments and options that click hands to it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
import pytest

from slurm_operator.cli.kubectl.main import main as kubectl_slurm
from slurm_operator.cli.main import main as slurm_operator


def _commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, group
    if isinstance(group, click.Group):
        for name, command in sorted(group.commands.items()):
            yield from _commands(command, f"{path} {name}")


COMMANDS = dict([*_commands(slurm_operator, "slurm-operator"), *_commands(kubectl_slurm, "kubectl slurm")])


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_takes_what_click_gives_it(command: click.Command) -> None:
    assert command.callback is not None
    taken = inspect.signature(command.callback).parameters
    given = {each.name for each in command.params if each.expose_value}
    # What click passes by position: the context, or where to connect to.
    named = {name for name, each in taken.items() if each.kind is not each.VAR_KEYWORD} - {"context", "where"}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    assert named <= given if takes_any else named == given
