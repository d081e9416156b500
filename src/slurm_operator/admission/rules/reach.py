"""How far a user's pod template may reach: out of its pod, into the node or into others' rights, only where allowed.

In: a resource, the one that it replaces, and its namespace with what the operator's flags let in. Out: one problem for
each reach. Called by `rules.check`, so that the webhook, the reconcilers and the command line give the same answer. The
rules are the table in `reach_table.py`; what a privileged worker may run is in `privileged_worker.py`.

What exists keeps running, with a warning. The table is not applied to a change that leaves everything as it is that
determines the pods. Nor, in the operator, to a resource whose pods were built from exactly this before, and were
privileged if they would be now: the object that created them has a note of it. Objects of the Go operator have no note;
there, an equivalent ControllerRevision counts, or a reach that is already in the pod template of a workload. A NodeSet
may also change, as long as it reaches no further and runs the same code (`reach_kept.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kube_runtime.text import shown
from slurm_operator.admission.rules import privileged_worker, reach_kept
from slurm_operator.admission.rules.reach_table import TABLE, Allowed, Row
from slurm_operator.api.embedded import EMBEDDED
from slurm_operator.api.kinds import WithPods
from slurm_operator.api.meta import Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.pod_features import SERVICE_ACCOUNT
from slurm_operator.api.problem import FieldProblem, Path, Severity, format_path
from slurm_operator.build import images, made_of, revision
from slurm_operator.build.made_of import PodOrigin
from slurm_operator.build.refs import Refs

AUTOMOUNT = "automountServiceAccountToken"
_SCOPES = {"PodSpec": "pod", "Container": "container", "ServiceSpec": "service"}
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")

Steps = tuple[str, ...]
Rule = tuple[Steps, Row]
Reach = tuple[Row, Path, Any]


def check(new: Resource, old: Resource | None, refs: Refs) -> Iterator[FieldProblem]:
    """An error for every reach that is not allowed, and a warning for each that is kept; none if there is no bound.

    Without an old resource, it counts what the pods were built from before: this is how the operator itself asks.
    """
    refused, kept = _judged(new, old, refs)
    yield from (problem for _, problem in _problems(refused, "error"))
    yield from _warnings(new, kept)


def kept_fields(cr: Resource, refs: Refs) -> list[tuple[str, str]]:
    """The features, with their fields, that no flag allows and that a resource keeps because its pods had them."""
    return [(row.feature, format_path(path)) for row, path, _ in _judged(cr, None, refs)[1]]


def _judged(new: Resource, old: Resource | None, refs: Refs) -> tuple[list[Reach], list[Reach]]:
    """What is refused, and what is kept."""
    allowed = refs.allowed_pod_features
    found = [] if allowed is None else [reach for reach in _reaches(new, refs) if reach[0].feature not in allowed]
    if not found:
        return [], []
    if old is not None and (made_of.parts(old) == made_of.parts(new) or _is_allowed_change(new, old, found, refs)):
        return [], found
    mine, records = _Pods(new, found, refs), refs.pod_origins.get(new.metadata.uid, ())
    judged = [(reach, any(mine.had(reach, origin) for origin in records)) for reach in found]
    return [reach for reach, stays in judged if not stays], [reach for reach, stays in judged if stays]


def _is_allowed_change(new: Resource, old: Resource, found: list[Reach], refs: Refs) -> bool:
    """Whether a NodeSet reaches no further than the old one, and runs the same code."""
    if not isinstance(new, NodeSet) or not isinstance(old, NodeSet):
        return False
    before = {_identity(reach, old) for reach in _reaches(old, refs)}
    return {_identity(reach, new) for reach in found} <= before and reach_kept.runs_the_same(
        new, old, refs.worker_images
    )


def _identity(reach: Reach, cr: NodeSet) -> tuple[str, str, str]:
    """A reach and the container that has it: what one container was given must not move to another."""
    row, path, value = reach
    if row.field == "slurmd.image":
        value = images.repository(str(value))
    if row.field == "ssh.extraSshdConfig":
        value = cr.spec.ssh.extra_sshd_config
    if row.field.startswith("annotations."):
        value = [path[-1], value]
    holder = _container(path, cr) if row.field.startswith("container.") else ""
    return row.field, holder, json.dumps(revision.meaning(value), sort_keys=True, default=str)


def _container(path: Path, cr: NodeSet) -> str:
    """The list and name of the container that a path points into, or the overlay."""
    if path[:3] != ("spec", "template", "spec"):
        return str(path[1])
    found = made_of.at(cr.spec.template.spec, (str(path[3]),))[path[4]]
    return f"{path[3]}/{found.get('name')}"


def _warnings(cr: Resource, kept: Iterable[Reach]) -> Iterator[FieldProblem]:
    for row, path, value in kept:
        reach, flag = _described(row, value)
        text = (
            f"{reach} is kept for this {type(cr).__name__} only, because its pods had it before; {flag} would allow it"
        )
        yield FieldProblem(path, text, "warning")


def reaches(new: Resource, refs: Refs, severity: Severity = "error") -> Iterator[tuple[Row, FieldProblem]]:
    """Every reach of a resource, with the feature that it needs."""
    yield from _problems(_reaches(new, refs), severity)


def _reaches(new: Resource, refs: Refs) -> Iterator[Reach]:
    if not isinstance(new, WithPods):
        return
    for steps, shape in EMBEDDED[type(new).__name__]:
        value = made_of.at(new.spec, steps)
        if isinstance(value, Mapping) and shape in _SCOPES:
            yield from _embedded(value, _SCOPES[shape], ("spec", *steps))
    path: Path = ("spec", "template", "metadata", "annotations")
    yield from _annotations(new.spec.template.metadata.annotations or {}, path)
    if isinstance(new, NodeSet):
        yield from privileged_worker.reaches(new, refs)


def _problems(found: Iterable[Reach], severity: Severity) -> Iterator[tuple[Row, FieldProblem]]:
    for row, path, value in found:
        reach, flag = _described(row, value)
        refused = f"{reach} is not allowed here; {flag} would allow it"
        yield row, FieldProblem(path, refused if severity == "error" else f"{reach} needs {flag}", severity)


def _described(row: Row, value: Any) -> tuple[str, str]:
    """What a reach is called, and what would allow it."""
    named = f" {shown(value)}" if isinstance(value, str) and value else ""
    listed = "--worker-images (workerImages in the chart) or " if row.field == "slurmd.image" else ""
    where = " in a privileged worker" if row.allowed.form == "worker" else ""
    return f"{row.called}{named}{where}", f"the operator's flag {listed}--allow-pod-features={row.feature}"


class _Pods:
    """What the pods of a resource are made of now, to be held against what they were made of before."""

    def __init__(self, cr: Resource, found: list[Reach], refs: Refs) -> None:
        self.cr, self.found, self.refs, self.hash = cr, found, refs, made_of.hash_of(cr)

    def had(self, reach: Reach, origin: PodOrigin) -> bool:
        """Whether such pods had this very reach."""
        is_workers = reach[0].allowed.form == "worker"
        if origin.pods and (self.hash == origin.privileged or (self.hash == origin.pods and not is_workers)):
            return True
        if not isinstance(self.cr, NodeSet):
            return not origin.pods and _stands_in(origin.held, reach)
        were_privileged = origin.has_privileged_worker or bool(origin.privileged)
        if not _is_in_revisions(reach) or (is_workers and not were_privileged):
            return False
        if not origin.pods and revision.meaning(revision.data(self.cr)) == revision.meaning(origin.held):
            return True
        before = reach_kept.held_by(self.cr, origin.held) if origin.held else None
        return before is not None and _is_allowed_change(self.cr, before, self.found, self.refs)


def _is_in_revisions(reach: Reach) -> bool:
    """Whether a ControllerRevision says it: none has claims, and the Go operator's have no null."""
    row, path, value = reach
    return path[1] != "volumeClaimTemplates" and not (row is _AUTOMOUNT_ROW and value is None)


def _stands_in(template: Mapping[str, Any], reach: Reach) -> bool:
    """Whether a pod template that another program wrote reaches just as far."""
    spec, meta = template.get("spec"), template.get("metadata")
    notes = meta.get("annotations") if isinstance(meta, Mapping) else None
    there = _embedded(spec, "pod", ()) if isinstance(spec, Mapping) else iter(())
    wanted = (reach[0].field, revision.meaning(reach[2]))
    return any(
        (row.field, revision.meaning(value)) == wanted for row, _, value in (*there, *_annotations(notes or {}, ()))
    )


def _embedded(value: Mapping[str, Any], scope: str, path: Path) -> Iterator[Reach]:
    for steps, row in _RULES[scope]:
        for place, found in _values(value, steps, path):
            if not _allows(row.allowed, found):
                yield row, place, found
    if scope != "pod":
        return
    if _loses_automount(value):
        yield _AUTOMOUNT_ROW, (*path, AUTOMOUNT), None
    for name in _CONTAINERS:
        for index, container in enumerate(value.get(name) or ()):
            if isinstance(container, Mapping):
                yield from _embedded(container, "container", (*path, name, index))


def _loses_automount(spec: Mapping[str, Any]) -> bool:
    """Whether the operator's own `false` is taken away: by null, or with everything else by a directive."""
    if AUTOMOUNT in spec:
        return spec[AUTOMOUNT] is None
    kept = spec.get("$retainKeys")
    return spec.get("$patch") in ("replace", "delete") or (isinstance(kept, list) and AUTOMOUNT not in kept)


def _annotations(entries: Mapping[str, str], path: Path) -> Iterator[Reach]:
    for prefix, row in _ANNOTATIONS:
        for name, value in entries.items():
            if name.startswith(prefix) and not _allows(row.allowed, value):
                yield row, (*path, name), value


def _values(value: Any, steps: Steps, path: Path) -> Iterator[tuple[Path, Any]]:
    """What stands at a field, for each item of the lists on the way."""
    if not steps:
        yield path, value
        return
    step, rest = steps[0], steps[1:]
    if step == "[*]":
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _values(item, rest, (*path, index))
    elif isinstance(value, Mapping) and value.get(step) is not None:
        yield from _values(value[step], rest, (*path, step))


def _allows(allowed: Allowed, value: Any) -> bool:
    unset = value is None or value is False or value in ("", 0)
    match allowed.form:
        case "unset":
            return unset
        case "only":
            return unset or any(_is(value, each) for each in allowed.values)
        case "but":
            return not any(_is(value, each) for each in allowed.values)
    return True


def _is(value: Any, pattern: str) -> bool:
    return str(value).startswith(pattern[:-1]) if pattern.endswith("*") else str(value) == pattern


def _rules(scope: str) -> tuple[Rule, ...]:
    rows = (row for row in TABLE if row.field.startswith(f"{scope}.") and row.feature and row.allowed.form != "worker")
    return tuple((tuple(row.field.replace("[*]", ".[*]").split(".")[1:]), row) for row in rows)


_RULES = {scope: _rules(scope) for scope in _SCOPES.values()}
_ANNOTATIONS = tuple(
    (row.field.removeprefix("annotations.").removesuffix("*"), row)
    for row in TABLE
    if row.field.startswith("annotations.")
)
_AUTOMOUNT_ROW = next(row for row in TABLE if row.field == f"pod.{AUTOMOUNT}" and row.feature == SERVICE_ACCOUNT)
