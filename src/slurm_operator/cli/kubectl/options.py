"""Options of a partition as people give them: `partition set NAME MaxTime=2:00:00 QOS=`.

In: words, and the resource that has the partition. Out: what to write into its spec, or a sentence that says what is
wrong with the words. What the user wrote stays as it is: an option is changed where it stands. Used by `change.py` and
`partitions.py`. Pure.
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
    """An option that cannot be set; the message says why, and what can."""


def parsed(words: Sequence[str]) -> dict[str, str]:
    """The options of `Key=Value` words under their own spelling; an empty value takes an option away."""
    return dict(_parsed(word) for word in words)


def _parsed(word: str) -> tuple[str, str]:
    given, sign, value = word.partition("=")
    if not sign:
        raise BadOption(f"{word!r} is not OPTION=VALUE, such as MaxTime=2:00:00; without a value it is taken away")
    key, known = spelling(given), PARTITION_KEYS.get(given.lower())
    if key == NODES:
        raise BadOption("its nodes are changed by partition add-nodes and remove-nodes, and by spec.nodeSets")
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
    """What to write into the spec of a NodeSet, so that its partition has these options."""
    config = partition_config(nodeset)
    problem = config_problem(config)
    if problem:
        raise BadOption(f"spec.partition.config cannot be changed before it is put right: {problem}")
    return {"partition": {"config": with_options(config, options) or None}}


def partition_patch(partition: Object, options: Mapping[str, str]) -> dict[str, Any]:
    """What to write into the spec of a Partition: fields, and for options that have none, its config."""
    spec = spec_of(partition)
    config = str(spec.get("config") or "")
    in_config = canonical((word.partition("=")[0], "") for word in config.split())
    patch: dict[str, Any] = {}
    rest: dict[str, str] = {}
    for option, value in options.items():
        fields = _fields(spec, option, value)
        if option in in_config or not fields:
            # Of a field and an option in config, Slurm takes the latter.
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
    """Options in a sentence."""
    return ", ".join(f"{key}={value}" if value else f"{key} taken away" for key, value in options.items())
