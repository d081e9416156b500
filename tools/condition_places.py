"""Write into docs/reference/conditions.md on which conditions of which kinds each reason stands.

In: the source, read as it is written. Out: the page, with one line below each reason. Every call that makes a condition
is looked at; one whose reason cannot be told from the source, or that stands in a module of which nobody has said
whose conditions it makes, is an error. What the operator writes in the tests is held against the same lines
(`tests/campaigns/invariants.py`, I9). Run by `make golden`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from slurm_operator.api.kinds import KINDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "slurm_operator"
PAGE = ROOT / "docs" / "reference" / "conditions.md"

Place = tuple[str, str, str]

ALL = tuple(kind.name for kind in KINDS)
OWNED = ("Controller", "Accounting", "RestApi", "LoginSet")
WHOLE = ("Ready", "Progressing", "Degraded")
# Whose conditions a module makes; of one that several kinds use, each function.
MODULES: dict[str, tuple[str, ...]] = {
    "reconcile/config.py": ("Controller",),
    "reconcile/controller.py": ("Controller",),
    "reconcile/denied.py": ALL,
    "reconcile/nodeset.py": ("NodeSet",),
    "reconcile/owned.py": OWNED,
    "reconcile/partition.py": ("Partition",),
    "reconcile/token.py": ("Token",),
    "status/cluster.py": ("Controller",),
    "status/config.py": ("Controller",),
    "status/nodeset.py": ("NodeSet",),
    "status/partition.py": ("Partition",),
}
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "rollout": OWNED,
    "_rollout": OWNED,
    "elsewhere": ("Controller", "Accounting"),
    "refused": ALL,
    "kept_features": (*OWNED, "NodeSet"),
    "fault": ALL,
    # Their reasons come from whoever calls them.
    "failed": (),
    "blocked": (),
    "_waiting": (),
}
# What a module makes for another kind than the one that it is for.
FOR_OTHERS: dict[tuple[str, str], tuple[str, ...]] = {
    ("status/cluster.py", "external"): ("Partition",),
    ("status/cluster.py", "not_reconciled"): ("Partition",),
}
MAKERS = ("yes", "no", "unknown")
# What makes several conditions at once: which, and where its reason stands.
GROUPS: dict[str, tuple[tuple[str, ...], int]] = {
    "failed": (WHOLE, 0),
    "blocked": (WHOLE, 0),
    "_waiting": (("Ready", "Progressing"), 0),
}
# By module and the words in the source: the reasons that a value may have.
SILENT = ("SlurmUnreachable", "WrongCluster")
REFUSALS = ("Deleting", "InvalidSpec", "NameTaken", "NoNodes", "NodeSetNotFound")
VALUES: dict[tuple[str, str], tuple[str, ...]] = {
    ("status/nodeset.py", "nodes.reason"): SILENT,
    ("status/nodeset.py", "reason"): SILENT,
    ("status/nodeset.py", "world.slurm.reservations.reason"): SILENT,
    ("status/partition.py", "found.reason"): SILENT,
    ("status/partition.py", "jobs.reason"): SILENT,
    ("status/partition.py", "reason"): ("LinterRefused", "RefusedBySlurm", "NotInSlurmYet"),
    ("status/partition.py", "acceptance.reason"): REFUSALS,
    ("status/partition.py", "acceptance.reason if acceptance.reason != ACCEPTED else ACCEPTED"): (
        "Accepted",
        "SecondDefault",
    ),
    ("reconcile/controller.py", "Forbidden.reason"): ("Forbidden",),
    ("reconcile/config.py", "Forbidden.reason"): ("Forbidden",),
    ("reconcile/nodeset.py", "UnreadableReference.reason"): ("ReferenceUnreadable",),
    ("reconcile/nodeset.py", "SlurmWrongCluster.reason"): ("WrongCluster",),
    ("reconcile/token.py", "NameTaken.reason"): ("NameTaken",),
}
# A Partition repeats the reason for which its Controller is not reconciled.
OF_CONTROLLER = ("status/cluster.py", "found.reason")
# The reason of an error: of those that a reconcile of the kinds of that module may end with.
ERROR = "error.reason"
OF_ANYBODY = tuple(
    f"../kube_runtime/{name}.py" for name in ("errors", "client/errors", "clock", "loop/controller", "loop/leadership")
)
OF_SLURM = ("slurm/errors.py", "slurm/hostlist.py")
OF_BUILDING = ("build/errors.py", "build/overlay.py")
ERRORS: dict[str, tuple[str, ...]] = {
    "reconcile/owned.py": (*OF_ANYBODY, *OF_SLURM, *OF_BUILDING, "plan/ownership.py"),
    "reconcile/nodeset.py": (*OF_ANYBODY, *OF_SLURM, *OF_BUILDING, "plan/ownership.py"),
    "reconcile/partition.py": (*OF_ANYBODY, *OF_BUILDING),
    "reconcile/token.py": OF_ANYBODY,
}
# Of the kinds that share a module, only this one speaks with Slurm.
ASKS_SLURM = ("Controller", "NodeSet")


def derived() -> set[Place]:
    """Every kind, type and reason that the source can make a condition of."""
    constants = _constants("status/conditions.py")
    found: set[Place] = set()
    for path in sorted((*SOURCE.glob("status/*.py"), *SOURCE.glob("reconcile/*.py"))):
        module = str(path.relative_to(SOURCE))
        known = constants | _constants("build/partition.py") | _constants(module)
        for function, call in _calls(ast.parse(path.read_text())):
            found |= set(_places(module, function, call, known))
    return found


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            own = (node for node in ast.walk(function) if isinstance(node, ast.Call))
            yield from ((function.name, call) for call in own)


def _places(module: str, function: str, call: ast.Call, constants: dict[str, str]) -> Iterator[Place]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name in MAKERS and len(call.args) == 3:
        types: tuple[str, ...] = (constants[ast.unparse(call.args[0])],)
        reason = call.args[1]
    elif name in GROUPS and call.args and module != "status/conditions.py":
        types, at = GROUPS[name]
        reason = call.args[at]
        if name == "_waiting" and module != "status/workload.py":
            return
    else:
        return
    if module == "status/workload.py":
        kinds = FUNCTIONS[function]
    else:
        kinds = FOR_OTHERS.get((module, function)) or MODULES[module]
    for each, those in _reasons(module, reason, kinds, constants):
        yield from ((kind, type_, each) for kind in those for type_ in types)


def _reasons(
    module: str, reason: ast.expr, kinds: tuple[str, ...], constants: dict[str, str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a reason may be, and of which of the kinds."""
    words = ast.unparse(reason)
    if isinstance(reason, ast.Constant):
        yield str(reason.value), kinds
    elif words in constants:
        yield constants[words], kinds
    elif words == ERROR:
        for source in ERRORS[module]:
            those = tuple(kind for kind in kinds if kind in ASKS_SLURM) if source in OF_SLURM else kinds
            yield from ((each, those) for each in _class_reasons(source))
    elif (module, words) == OF_CONTROLLER:
        refused = [each for source in ERRORS["reconcile/owned.py"] for each in _class_reasons(source)]
        yield from ((each, kinds) for each in ("InvalidSpec", *refused))
    elif kinds:
        yield from ((each, kinds) for each in VALUES[module, words])


def _class_reasons(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((SOURCE / module).read_text())):
        for line in node.body if isinstance(node, ast.ClassDef) else ():
            target = line.target if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [None])[0]
            value = getattr(line, "value", None)
            is_reason = isinstance(target, ast.Name) and target.id == "reason"
            if is_reason and isinstance(value, ast.Constant) and value.value:
                yield str(value.value)


def _constants(module: str) -> dict[str, str]:
    tree = ast.parse((SOURCE / module).read_text())
    lines = (node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant))
    return {ast.unparse(node.targets[0]): str(node.value.value) for node in lines}  # type: ignore[attr-defined]


# The page


def sentence(reason: str, places: Iterable[Place]) -> str:
    """Where a reason stands, in words."""
    kinds_by_type: dict[str, list[str]] = {}
    for kind, type_, _ in sorted((each for each in places if each[2] == reason), key=_order):
        kinds_by_type.setdefault(type_, []).append(kind)
    types_by_kinds: dict[tuple[str, ...], list[str]] = {}
    for type_, kinds in kinds_by_type.items():
        types_by_kinds.setdefault(tuple(kinds), []).append(type_)
    clauses = (f"{_listed(types)} of {_named(kinds)}" for kinds, types in types_by_kinds.items())
    return f"*On {'; on '.join(clauses)}.*"


def _order(place: Place) -> tuple[int, str, int]:
    kind, type_, _ = place
    return (WHOLE.index(type_) if type_ in WHOLE else len(WHOLE), type_, ALL.index(kind))


def _named(kinds: tuple[str, ...]) -> str:
    missing = [kind for kind in ALL if kind not in kinds]
    if not missing:
        return "every kind"
    return f"every kind but {_listed(missing)}" if len(missing) <= 2 else _listed(kinds)


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def stamped(text: str) -> str:
    """The page with the newest line below each reason."""
    places = derived()

    def line(found: re.Match[str]) -> str:
        return f"### {found[1]}\n\n{sentence(found[1], places)}\n\n"

    return re.sub(r"^### (\w+)\n\n(?:\*On .*\*\n\n)?", line, text, flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(stamped(PAGE.read_text()))
