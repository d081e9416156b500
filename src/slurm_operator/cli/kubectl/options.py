"""Options of a partition on the command line: `partition set NAME MaxTime=2:00:00 QOS=`.

In: arguments, and the resource that has the partition. Out: a patch of its spec, or a sentence that says what is wrong
with the arguments. An option is changed in place, and everything else stays as the user wrote it. Used by `change.py`
and `partitions.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slurm_operator.api import text
from slurm_operator.build.partition import config_problem, field_of
from slurm_operator.diagnose.facts import Object, spec_of
from slurm_operator.diagnose.partition_owner import partition_config
from slurm_operator.plan.partition_fields import NODES, canonical, spelling, with_options
from slurm_operator.slurm.conf_keys import PARTITION_KEYS
from slurm_operator.slurm.conf_values import closest

WEIGHTS = "TRESBillingWeights"


class BadOption(Exception):
    """An option that cannot be set; the message says why, and what to do instead."""


def parsed(arguments: Sequence[str]) -> dict[str, str]:
    """The options of `Key=Value` arguments, spelled as in Slurm's manual; an empty value removes an option."""
    return dict(_parsed(argument) for argument in arguments)


def _parsed(argument: str) -> tuple[str, str]:
    given, sign, value = argument.partition("=")
    if not sign:
        raise BadOption(f"{argument!r} is not OPTION=VALUE, such as MaxTime=2:00:00; MaxTime= restores the default")
    key, known = spelling(given), PARTITION_KEYS.get(given.lower())
    if key == NODES:
        raise BadOption("nodes are changed with partition add-nodes and remove-nodes, or in spec.nodeSets")
    if known is None:
        guess = closest(given, (each.span.name for each in PARTITION_KEYS.values()))
        raise BadOption(f"Slurm's partitions have no option {given!r}" + (f"; did you mean {guess}?" if guess else ""))
    problem = text.config_value(value) if value else None
    if problem:
        raise BadOption(f"{key} {problem}")
    complaint = known.kind.check(value, None) if value else None
    if complaint is not None and complaint.severity == "error":
        expected = f"; expected {complaint.expected}" if complaint.expected else ""
        raise BadOption(f"{key}: {complaint.message}{expected}")
    return key, value


def nodeset_patch(nodeset: Object, options: Mapping[str, str]) -> dict[str, Any]:
    """The patch of a NodeSet's spec that gives its partition these options."""
    config = partition_config(nodeset)
    problem = config_problem(config)
    if problem:
        raise BadOption(f"spec.partition.config has an error, correct it first: {problem}")
    return {"partition": {"config": with_options(config, options) or None}}


def partition_patch(partition: Object, options: Mapping[str, str]) -> dict[str, Any]:
    """The patch of a Partition's spec: fields, and `config` for options that have no field."""
    spec = spec_of(partition)
    config = str(spec.get("config") or "")
    in_config = canonical((option.partition("=")[0], "") for option in config.split())
    patch: dict[str, Any] = {}
    rest: dict[str, str] = {}
    for option, value in options.items():
        fields = _fields(spec, option, value)
        if option in in_config or not fields:
            # If both a field and config set an option, Slurm takes the latter.
            rest[option] = value
        if option not in in_config or not value:
            patch |= fields
    return {**patch, "config": with_options(config, rest) or None} if rest else patch


def _fields(spec: Mapping[str, Any], option: str, value: str) -> dict[str, Any]:
    if option != WEIGHTS:
        return dict(field_of(option, value))
    before = dict.fromkeys(spec.get("tresBillingWeights") or {})
    weights = (pair.partition("=") for pair in value.split(",") if pair)
    return {"tresBillingWeights": {**before, **{name: weight for name, _, weight in weights}} if value else None}


def written(options: Mapping[str, str]) -> str:
    """Options as they appear in a message."""
    return ", ".join(f"{key}={value}" if value else f"{key} removed" for key, value in options.items())
