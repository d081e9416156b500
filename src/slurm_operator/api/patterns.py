"""What the patterns of our kinds mean, described with examples: nobody should have to read a regular expression.

In: a pattern of a schema. Out: what a value should look like. Read by `api/structural.py` for its findings, and by
`api/crd.py`, which turns the pattern of a time into a rule with a message, since an API server would show the pattern.
"""

from __future__ import annotations

import re
from typing import Any

from slurm_operator.api.meta import PROMETHEUS_DURATION, rule
from slurm_operator.api.partition import NODE_COUNT, OVER_SUBSCRIBE, SLURM_NAME, SLURM_TIME
from slurm_operator.api.schema import Schema

# As in Kubernetes' own apimachinery.
QUANTITY = r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
DESCRIPTIONS = {
    QUANTITY: "a quantity that Kubernetes reads, such as 500m or 2 of CPU, 512Mi or 4Gi of memory",
    SLURM_TIME: (
        "a time that Slurm reads: minutes (90), hours:minutes:seconds (1:30:00), days-hours (1-12), "
        "days-hours:minutes:seconds (2-00:00:00), or UNLIMITED"
    ),
    NODE_COUNT: "a number of nodes, such as 8, or UNLIMITED",
    OVER_SUBSCRIBE: "NO, EXCLUSIVE, FORCE or YES, the last two also with a number of jobs, such as FORCE:4",
    SLURM_NAME: "a name in Slurm: letters, digits, dots, dashes and underscores, such as gpu-a100",
    PROMETHEUS_DURATION: "a duration that Prometheus reads, such as 30s or 1m30s",
    r"^[^\n]+$": "one line of text that is not empty",
    r"^[^\n\r]+$": "one line of text that is not empty",
}
# Patterns that become rules: of fields with a bounded length, in kinds that only this project defines.
AS_RULES = frozenset({SLURM_TIME})


# A number and a unit as people write them: 4gb, 4 GiB, 4g.
_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kmgtpe])(i?b?)", re.IGNORECASE)


def mismatch(pattern: str, value: str = "") -> str:
    """The message for a value that does not match."""
    if pattern not in DESCRIPTIONS:
        return f"does not match {pattern}"
    unit = _UNIT.fullmatch(value) if pattern == QUANTITY else None
    # A bare m is Kubernetes' thousandth, and nobody's unit of memory.
    is_plain = unit is not None and (unit[2] not in "mM" or unit[3])
    hint = f'; did you mean "{unit[1]}{unit[2].upper()}i"?' if unit and is_plain else ""
    return f"is not {DESCRIPTIONS[pattern]}{hint}"


def with_rules(schema: Any) -> Any:
    """A schema for a CRD, in which some patterns are rules with a message."""
    if isinstance(schema, list):
        return [with_rules(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed: Schema = {name: with_rules(value) for name, value in schema.items()}
    if changed.get("pattern") in AS_RULES:
        pattern = changed.pop("pattern")
        changed["x-kubernetes-validations"] = [rule(f"self.matches('{pattern}')", f"must be {DESCRIPTIONS[pattern]}")]
    return changed
