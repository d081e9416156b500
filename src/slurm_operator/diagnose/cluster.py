"""The whole namespace: everything that is wrong in it, each cause once, the root ones first.

In: facts. Out: causes. Called by `kubectl slurm doctor` and, for its summary, by `status`.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose import partition as partitions
from slurm_operator.diagnose import resource as resources
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Slurm, name_of

# What others depend on comes first.
ORDER = ("Controller", "Accounting", "RestApi", "NodeSet", "LoginSet", "Token")


def examine(facts: Facts) -> list[Cause]:
    """Everything that is wrong."""
    found: dict[tuple[str, str], Cause] = {}
    for cause in _all(facts):
        if cause.chosen:
            continue
        found.setdefault((cause.code, cause.sentence), cause)
    return list(found.values())


def on_trial(facts: Facts) -> list[str]:
    """What is being tried at the moment: nothing wrong, and good to know."""
    answers = (resources.why(facts, "Controller", name_of(each)) for each in facts.every("Controller"))
    return [each.sentence for each in answers if isinstance(each, Cause) and each.code == "ConfigOnTrial"]


def _all(facts: Facts) -> Iterator[Cause]:
    for kind in ORDER:
        for resource in facts.every(kind):
            answer = resources.why(facts, kind, name_of(resource))
            if isinstance(answer, Cause):
                yield answer
    for slurm in facts.slurm.values():
        for name in sorted(slurm.nodes) if isinstance(slurm, Slurm) else ():
            answer = nodes.why(facts, name)
            if isinstance(answer, Cause):
                yield answer
    for partition in facts.every("Partition"):
        answer = partitions.why(facts, name_of(partition))
        if isinstance(answer, Cause):
            yield answer
