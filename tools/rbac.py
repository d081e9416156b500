"""Make rules of Roles out of `kube_runtime.client.rights`.

In: rights. Out: rules by scope, as the chart's templates read them. Used by `tools/charts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from kube_runtime.client.rights import Right
from slurm_operator import rights

ABOUT = "# Written by tools/charts.py out of kube_runtime.client.rights; change that, then run `make golden`.\n"
ROLES = {
    "operator": rights.OPERATOR,
    "webhook": rights.WEBHOOK,
    "view": rights.VIEW,
    "edit": rights.EDIT,
}


def rules(table: Iterable[Right]) -> dict[str, list[dict[str, Any]]]:
    """The rules of each scope, in the order of the table."""
    made: dict[str, list[dict[str, Any]]] = {}
    for right in table:
        rule = {"apiGroups": [right.group], "resources": list(right.resources), "verbs": list(right.verbs)}
        if right.names:
            rule["resourceNames"] = list(right.names)
        made.setdefault(right.scope.value, []).append(rule)
    return made


def text(role: str) -> str:
    """The file of one role."""
    return ABOUT + yaml.safe_dump(rules(ROLES[role]), sort_keys=False)
