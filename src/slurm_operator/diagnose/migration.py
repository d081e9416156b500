"""What a switch from the Go operator would change, what people have to decide, and in which order to do it.

In: an installation of the Go operator as it was read: programs, resources, objects, values of its charts. Out: a
`Migration`. Pure; called by `cli/migrate_check.py`, which reads and prints. Nothing here changes anything. Much of what
was read can be written by any user of the cluster: `shapes.py` checks its types, `go_programs.py` says which programs
are meant, and everything that is said about it is one line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from kube_runtime.text import printable, shown
from slurm_operator.admission import rules
from slurm_operator.admission.rules import reach
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import errors, format_path
from slurm_operator.api.restapi import RestApi
from slurm_operator.api.validate import decode
from slurm_operator.build import images, names
from slurm_operator.build.errors import BuildError
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import FILE, slurm_conf
from slurm_operator.diagnose import go_programs
from slurm_operator.diagnose.cause import quoted
from slurm_operator.diagnose.go_programs import Programs, namespace_of
from slurm_operator.diagnose.shapes import SHAPES, misfit

Object = Mapping[str, Any]
Level = Literal["decision", "change"]

CHART: Final = "slurm-operator"
CONFIGURATIONS: Final = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
MAX_LINES: Final = 20
MAX_LINE_CHARACTERS: Final = 1000


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to know: what changes, or what somebody has to decide."""

    level: Level
    place: str
    message: str
    # What it is about, line by line.
    lines: Sequence[str] = ()

    def bounded(self) -> Note:
        """The same with a place and a message of one line each, and with few lines."""
        kept = [_one_line(each) for each in self.lines[:MAX_LINES]]
        if len(self.lines) > MAX_LINES:
            kept.append(f"and {len(self.lines) - MAX_LINES} more")
        return Note(self.level, printable(self.place), printable(self.message, MAX_LINE_CHARACTERS), kept)

    def as_json(self) -> dict[str, str]:
        """The form for machines."""
        return {"object": self.place, "message": "\n  ".join((self.message, *self.lines))}


def _one_line(text: str) -> str:
    """As `printable`, with the spaces as they are: two lines of slurm.conf may differ in nothing else."""
    line = "".join(c if c.isprintable() else " " for c in text[: MAX_LINE_CHARACTERS + 1])
    return line if len(line) <= MAX_LINE_CHARACTERS else line[: MAX_LINE_CHARACTERS - 1] + "…"


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Helm: its chart and the values that were given to it."""

    name: str
    namespace: str
    chart: str
    version: str
    values: Mapping[str, Any]
    # Why nothing of it could be read.
    problem: str = ""
    # The person gave the values in a file.
    is_given: bool = False

    def __str__(self) -> str:
        return f"values {self.name}" if self.is_given else f"release {quoted(f'{self.namespace}/{self.name}')}"


@dataclass(frozen=True, slots=True)
class Installation:
    """What was read, of all namespaces that were asked for; by kind."""

    objects: Mapping[str, Sequence[Object]]
    releases: Sequence[Release] = ()
    # Flags that `slurm-operator run` and `webhook` know, without dashes.
    known_flags: Collection[str] = ()
    # What could not be read, and why.
    unread: Mapping[str, str] = field(default_factory=dict)
    # Where the person says that the Go operator is.
    operator_namespace: str = ""

    def every(self, kind: str, namespace: str = "") -> list[Object]:
        """The objects of a kind, of one namespace or of all."""
        found = self.objects.get(kind) or ()
        return [each for each in found if not namespace or namespace_of(each) == namespace]


@dataclass(frozen=True, slots=True)
class Migration:
    """The whole answer."""

    programs: Sequence[str]
    notes: Sequence[Note]
    values: Mapping[str, Any]
    steps: Sequence[str]
    # How many resources of each of our kinds were read.
    read: Mapping[str, int] = field(default_factory=dict)
    # Programs that the answer is not about.
    others: Sequence[str] = ()

    @property
    def decisions(self) -> list[Note]:
        """What somebody has to decide before the switch."""
        return [note for note in self.notes if note.level == "decision"]

    def as_json(self) -> dict[str, Any]:
        """The form for machines."""
        by_level = {
            level: [note.as_json() for note in self.notes if note.level == level] for level in ("decision", "change")
        }
        return {
            "read": dict(self.read),
            "programs": list(self.programs),
            "decisions": by_level["decision"],
            "changes": by_level["change"],
            "values": dict(self.values),
            "steps": list(self.steps),
        }


def migration(read: Installation) -> Migration:
    """What a switch would mean."""
    found, misfits = _fitting(read)
    configurations = [each for kind in CONFIGURATIONS for each in found.every(kind)]
    programs = go_programs.find(found.every("Deployment"), configurations, found.operator_namespace)
    needs = _Needs()
    notes = [
        *_unread(found),
        *misfits,
        *_which(found, programs),
        *_programs(found, programs),
        *_releases(found, programs),
        *(note for namespace in _namespaces(found) for note in _cluster(found, namespace, needs)),
    ]
    return Migration(
        [_titled("Deployment", each) for each in programs.chosen],
        [note.bounded() for note in notes],
        _values(programs, needs),
        list(_steps(found, programs)),
        {kind: len(found.every(kind)) for kind in BY_NAME if found.every(kind)},
        [_titled("Deployment", each) for each in programs.others],
    )


def _fitting(read: Installation) -> tuple[Installation, list[Note]]:
    """What can be judged, and a note for each object that cannot."""
    problems = {kind: [misfit(kind, each) for each in read.objects.get(kind) or ()] for kind in SHAPES}
    fitting = {
        kind: [each for each, problem in zip(read.objects.get(kind) or (), found, strict=True) if not problem]
        for kind, found in problems.items()
    }
    notes = [
        Note("decision", _titled(kind, each), f"was not checked, since its types are wrong: {problem}")
        for kind, found in problems.items()
        for each, problem in zip(read.objects.get(kind) or (), found, strict=True)
        if problem
    ]
    return replace(read, objects=fitting), notes


@dataclass(slots=True)
class _Needs:
    features: set[str] = field(default_factory=set)
    images: set[str] = field(default_factory=set)


def _titled(kind: str, value: Object) -> str:
    """An object by its kind, namespace and name, as far as it has them."""
    meta = value.get("metadata")
    parts = [meta.get(key) for key in ("namespace", "name")] if isinstance(meta, Mapping) else []
    return f"{kind} {'/'.join(printable(part) for part in parts if part and isinstance(part, str)) or 'without a name'}"


# Programs


def _unread(found: Installation) -> Iterator[Note]:
    for kind, why in sorted(found.unread.items()):
        yield Note("decision", kind, f"could not be read, so it was not checked: {why}")


def _which(found: Installation, programs: Programs) -> Iterator[Note]:
    """Which of several programs the report is about: a decision, unless the person has made it."""
    place, titles = "programs", [_titled("Deployment", each) for each in programs.others]
    if programs.others and programs.chosen:
        message = (
            f"this report is about those of namespace {namespace_of(programs.chosen[0])}; nothing of these is in its"
            " values and steps; --operator-namespace chooses another"
        )
        yield Note("change" if found.operator_namespace else "decision", place, message, titles)
    elif programs.others:
        message = (
            "it is not clear which of these are the Go operator's, so nothing of them is in the values and steps;"
            " choose with --operator-namespace"
        )
        yield Note("decision", place, message, titles)
    for name, doubled in programs.doubled.items():
        message = f"these run the {name}, more than one: the values below follow none of them; compare their flags"
        yield Note("decision", place, message, [_titled("Deployment", each) for each in doubled])


def _programs(found: Installation, programs: Programs) -> Iterator[Note]:
    for each in programs.chosen:
        place = _titled("Deployment", each)
        for name in go_programs.flags(each):
            if name not in found.known_flags:
                yield Note("decision", place, f"its flag --{printable(name)} has no counterpart here; leave it out")
        for name, text in go_programs.unusable(each):
            message = f"its flag --{name} has a value that this chart does not take, and is left out: {shown(text)}"
            yield Note("decision", place, message)
    for each in found.every("MutatingWebhookConfiguration"):
        if any(go_programs.is_binding(hook) for hook in go_programs.hooks(each)):
            message = "is not needed any more: the operator itself gives workers the topology of their nodes"
            yield Note("change", _titled("MutatingWebhookConfiguration", each), message)


def _releases(found: Installation, programs: Programs) -> Iterator[Note]:
    homes = {home for each in programs.chosen for home in _homes(each)}
    unreadable = [f"{each}: {each.problem}" for each in found.releases if each.problem]
    if unreadable:
        message = "these could not be read, so they were not checked; give the values with --values FILE"
        yield Note("decision", "Helm releases", message, unreadable)
    of_chart = [each for each in found.releases if each.chart == CHART and not each.problem]
    elsewhere = [str(each) for each in of_chart if homes and not each.is_given and each.namespace not in homes]
    if elsewhere:
        message = (
            "these have the chart slurm-operator too, but not the programs that this report is about; nothing of them"
            " is in it; uninstall none that holds the definitions (crds.enabled): every cluster would go with them"
        )
        yield Note("change" if found.operator_namespace else "decision", "Helm releases", message, elsewhere)
    for each in of_chart:
        if not homes or each.is_given or each.namespace in homes:
            yield from _release(each)


def _homes(program: Object) -> Iterator[str]:
    """Where the release of a program may be: a chart can put the program into another namespace than its own."""
    yield namespace_of(program)
    yield from filter(None, [(program["metadata"].get("annotations") or {}).get(RELEASE_NAMESPACE)])


def _release(each: Release) -> Iterator[Note]:
    for name in ("crds", "operator", "webhook"):
        part = each.values.get(name) or {}
        if not isinstance(part, Mapping):
            # A value of a release may be a secret: it is not shown.
            yield Note("decision", str(each), f"its value {name} was not checked, since it is no mapping")
        elif name == "crds" and part.get("enabled"):
            message = (
                "has the definitions in it (crds.enabled): do not uninstall it, since every cluster would go with"
                " them; upgrade it to this chart with crds.enabled"
            )
            yield Note("decision", str(each), message)
        elif part.get("image"):
            message = f"names an image in {name}.image: leave it out, or this chart would start the Go program"
            yield Note("decision", str(each), message)


def _values(programs: Programs, needs: _Needs) -> dict[str, Any]:
    """Values of this chart that match the flags of the Go programs, and allow what the resources need."""
    made = go_programs.values(programs)
    if needs.features:
        made["allowPodFeatures"] = sorted(needs.features)
    if needs.images:
        made["workerImages"] = [*images.TRUSTED, *sorted(needs.images)]
    return made


# Resources


def _namespaces(found: Installation) -> list[str]:
    return sorted({namespace_of(each) for kind in BY_NAME for each in found.every(kind)})


def _cluster(found: Installation, namespace: str, needs: _Needs) -> Iterator[Note]:
    refs = _refs(found, namespace)
    for kind in BY_NAME:
        for raw in found.every(kind, namespace):
            yield from _resource(found, {**raw, "kind": kind}, refs, needs)
    for controller in refs.controllers.values():
        yield from _controller(found, controller, refs)


def _refs(found: Installation, namespace: str) -> Refs:
    here = [decode(raw, served=True).readable for kind in BY_NAME for raw in found.every(kind, namespace)]
    return Refs(
        controllers={each.name: each for each in here if isinstance(each, Controller)},
        accountings={each.name: each for each in here if isinstance(each, Accounting)},
        nodesets=tuple(each for each in here if isinstance(each, NodeSet)),
        partitions=tuple(each for each in here if isinstance(each, Partition)),
        served=frozenset(each.spec.controller_ref.name for each in here if isinstance(each, RestApi)),
        config_maps={each["metadata"]["name"]: each.get("data") or {} for each in found.every("ConfigMap", namespace)},
        claims={
            each["metadata"]["name"]: tuple((each.get("spec") or {}).get("accessModes") or ())
            for each in found.every("PersistentVolumeClaim", namespace)
        },
    )


def _resource(found: Installation, raw: Object, refs: Refs, needs: _Needs) -> Iterator[Note]:
    place, decoded = _titled(str(raw["kind"]), raw), decode(raw, served=True)
    for problem in decoded.problems:
        if problem.severity == "error":
            yield Note("decision", place, f"would be refused: {problem}")
        else:
            yield Note("change", place, str(problem))
    if decoded.resource is None:
        return
    for problem in errors(rules.check(decoded.resource, None, refs, standing=True, is_built_next=True)):
        yield Note("decision", place, f"would be refused: {problem}")
    yield from _features(found, decoded.resource, place, refs, needs)


def _features(found: Installation, resource: Resource, place: str, refs: Refs, needs: _Needs) -> Iterator[Note]:
    is_running = any(
        (owner or {}).get("uid") == resource.metadata.uid
        for pod in found.every("Pod", resource.namespace)
        for owner in pod["metadata"].get("ownerReferences") or ()
    )
    for row, problem in reach.reaches(resource, refs, "warning"):
        if row.field == "slurmd.image":
            image = printable(str(resource.spec.slurmd["image"]))  # type: ignore[attr-defined]
            needs.images.add(images.repository(image))
        else:
            needs.features.add(row.feature)
        keeps = row.allowed.form != "worker" or is_running
        refused = "without the flag this one is refused, since no worker runs"
        what = "this one keeps it even without the flag" if keeps else refused
        yield Note("decision", place, f"{format_path(problem.path)}: {problem.message}; {what}")


# Controllers


def _controller(found: Installation, cr: Controller, refs: Refs) -> Iterator[Note]:
    place = f"Controller {cr.namespace}/{cr.name}"
    if cr.name not in refs.served:
        yield Note("decision", place, "has no RestApi: Slurm cannot be asked, and no worker would ever be removed")
    workloads = {each["metadata"]["name"]: each for each in found.every("StatefulSet", cr.namespace)}
    workload = workloads.get(names.controller(cr))
    sidecars = [each.get("name") for each in go_programs.pod(workload or {}).get("initContainers") or ()]
    if workload is not None and "reconfigure" not in sidecars:
        message = (
            "its pod has no sidecar reconfigure: it restarts at the first change of the configuration, then no more"
        )
        yield Note("change", place, message)
    yield from _conf(cr, refs, place)


def _conf(cr: Controller, refs: Refs, place: str) -> Iterator[Note]:
    live = refs.config_maps.get(names.config(cr), {}).get(FILE)
    if live is None:
        return
    try:
        made = slurm_conf(cr, refs).text
    except BuildError as error:
        yield Note("decision", place, f"its slurm.conf cannot be built: {error}")
        return
    before, after = _lines(live), _lines(made)
    # By keys: both may have as many lines as a ConfigMap holds.
    gone = [f"- {line}" for line in before if line not in after]
    new = [f"+ {line}" for line in after if line not in before]
    if gone or new:
        yield Note("change", place, "slurm.conf differs in these lines:", [*gone, *new])


def _lines(text: str) -> dict[str, None]:
    return {line.rstrip(): None for line in text.splitlines() if line.strip() and not line.startswith("#")}


# The order


def _steps(found: Installation, programs: Programs) -> Iterator[str]:
    kinds = ",".join(kind.plural for kind in BY_NAME.values() if kind.name != "Partition")
    yield f"kubectl get {kinds} -A -o yaml > before-the-switch.yaml"
    for each in programs.chosen:
        name = quoted(each["metadata"]["name"])
        yield f"kubectl -n {quoted(namespace_of(each))} scale deployment {name} --replicas=0"
    if programs.others and not programs.chosen:
        yield "stop the programs of the Go operator, once it is decided which they are"
    for kind in CONFIGURATIONS:
        for each in found.every(kind):
            if any(go_programs.is_of_go(hook) for hook in go_programs.hooks(each)):
                yield f"kubectl delete {kind.lower()} {quoted(each['metadata']['name'])}"
    yield "apply the definitions of this operator; they accept every field of the Go operator's"
    yield "install this operator with the values above"
    yield f"kubectl get {kinds} -A    # every one says Ready, and no pod is younger than before"
