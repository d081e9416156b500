"""What a switch from the Go operator would change, what people have to decide, and in which order to do it.

In: an installation of the Go operator as it was read: programs, resources, objects, values of its charts. Out: a
`Migration`. Pure; called by `cli/migrate_check.py`, which reads and prints. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

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

Object = Mapping[str, Any]
Level = Literal["decision", "change"]

PROGRAMS: Final = {"slurm-operator": "operator", "slurm-operator-webhook": "webhook"}
# Flags of the Go manager and the value of this chart that says the same.
VALUE_OF_FLAG: Final = {
    "namespaces": "namespaces",
    "zap-log-level": "logLevel",
    "leader-elect": "leaderElection",
    "metrics-secure": "metricsSecure",
    "health-addr": "healthPort",
    "metrics-addr": "metricsPort",
    "server-addr": "serverPort",
    "accounting-workers": "accountingWorkers",
    "controller-workers": "controllerWorkers",
    "loginset-workers": "loginsetWorkers",
    "nodeset-workers": "nodesetWorkers",
    "restapi-workers": "restapiWorkers",
    "token-workers": "tokenWorkers",
}
MAX_CONF_LINES = 20


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to know: what changes, or what somebody has to decide."""

    level: Level
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Helm: its chart and the values that were given to it."""

    name: str
    namespace: str
    chart: str
    version: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Installation:
    """What was read, of all namespaces that were asked for; by kind."""

    objects: Mapping[str, Sequence[Object]]
    releases: Sequence[Release] = ()
    # Flags that `slurm-operator run` and `webhook` know, without dashes.
    known_flags: Collection[str] = ()
    # What could not be read, and why.
    unread: Mapping[str, str] = field(default_factory=dict)

    def every(self, kind: str, namespace: str = "") -> list[Object]:
        """The objects of a kind, of one namespace or of all."""
        found = self.objects.get(kind) or ()
        return [each for each in found if not namespace or each["metadata"].get("namespace") == namespace]


@dataclass(frozen=True, slots=True)
class Migration:
    """The whole answer."""

    programs: Sequence[str]
    notes: Sequence[Note]
    values: Mapping[str, Any]
    steps: Sequence[str]
    # How many resources of each of our kinds were read.
    read: Mapping[str, int] = field(default_factory=dict)

    @property
    def decisions(self) -> list[Note]:
        """What somebody has to decide before the switch."""
        return [note for note in self.notes if note.level == "decision"]

    def as_json(self) -> dict[str, Any]:
        """The form for machines."""
        by_level = {
            level: [{"object": note.place, "message": note.message} for note in self.notes if note.level == level]
            for level in ("decision", "change")
        }
        return {
            "read": dict(self.read),
            "programs": list(self.programs),
            "decisions": by_level["decision"],
            "changes": by_level["change"],
            "values": dict(self.values),
            "steps": list(self.steps),
        }


def migration(found: Installation) -> Migration:
    """What a switch would mean."""
    programs = [each for each in found.every("Deployment") if component(each)]
    needs = _Needs()
    notes = [
        *_unread(found),
        *_programs(found, programs),
        *_releases(found),
        *(note for namespace in _namespaces(found) for note in _cluster(found, namespace, needs)),
    ]
    return Migration(
        [_titled(each) for each in programs],
        notes,
        _values(programs, needs),
        list(_steps(found, programs)),
        {kind: len(found.every(kind)) for kind in BY_NAME if found.every(kind)},
    )


@dataclass(slots=True)
class _Needs:
    features: set[str] = field(default_factory=set)
    images: set[str] = field(default_factory=set)


def component(deployment: Object) -> str:
    """`operator` or `webhook` if the Go project's program runs in it; empty otherwise."""
    for container in _pod(deployment).get("containers") or ():
        name = images.repository(str(container.get("image"))).rpartition("/")[2]
        if name in PROGRAMS and "slurm-operator" not in (container.get("command") or ()):
            return PROGRAMS[name]
    return ""


def _pod(workload: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    return found


def _titled(value: Object) -> str:
    meta = value["metadata"]
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{value.get('kind') or 'Deployment'} {place}{meta['name']}"


# Programs


def _unread(found: Installation) -> Iterator[Note]:
    for kind, why in sorted(found.unread.items()):
        yield Note("decision", kind, f"could not be read, so it was not checked: {why}")


def _programs(found: Installation, programs: Sequence[Object]) -> Iterator[Note]:
    for each in programs:
        for name in flags(each):
            if name not in found.known_flags:
                yield Note("decision", _titled(each), f"its flag --{name} has no counterpart here; leave it out")
    for each in found.every("MutatingWebhookConfiguration"):
        if any("podsbinding" in str(hook.get("name")) for hook in each.get("webhooks") or ()):
            message = "is not needed any more: the operator itself gives workers the topology of their nodes"
            yield Note("change", f"MutatingWebhookConfiguration {each['metadata']['name']}", message)


def flags(deployment: Object) -> dict[str, str]:
    """The flags of a program by name."""
    result: dict[str, str] = {}
    for container in _pod(deployment).get("containers") or ():
        arguments = [*(container.get("command") or ())[1:], *(container.get("args") or ())]
        last = ""
        for argument in map(str, arguments):
            if argument.startswith("-"):
                last, _, value = argument.lstrip("-").partition("=")
                result[last] = value
            elif last and not result[last]:
                result[last] = argument
    return result


def _releases(found: Installation) -> Iterator[Note]:
    for each in found.releases:
        place = f"release {each.namespace}/{each.name}"
        if each.chart == "slurm-operator" and (each.values.get("crds") or {}).get("enabled"):
            message = (
                "has the definitions in it (crds.enabled): do not uninstall it, since every cluster would go with"
                " them; upgrade it to this chart with crds.enabled"
            )
            yield Note("decision", place, message)
        for name in ("operator", "webhook"):
            image = (each.values.get(name) or {}).get("image")
            if each.chart == "slurm-operator" and image:
                message = f"names an image in {name}.image: leave it out, or this chart would start the Go program"
                yield Note("decision", place, message)


def _values(programs: Sequence[Object], needs: _Needs) -> dict[str, Any]:
    """Values of this chart that match the flags of the Go programs, and allow what the resources need."""
    made: dict[str, Any] = {}
    for each in programs:
        given = flags(each)
        part = {
            VALUE_OF_FLAG[name]: _value(name, text) for name, text in given.items() if name in VALUE_OF_FLAG and text
        }
        replicas = (each.get("spec") or {}).get("replicas")
        if replicas not in (None, 0, 1):
            part["replicas"] = replicas
        conditions = given.get("propagated-node-conditions")
        if conditions:
            made["propagatedNodeConditions"] = conditions.split(",")
        if part:
            made[component(each)] = part
    if needs.features:
        made["allowPodFeatures"] = sorted(needs.features)
    if needs.images:
        made["workerImages"] = [*images.TRUSTED, *sorted(needs.images)]
    return made


def _value(name: str, text: str) -> str | int | bool:
    if name.endswith("-addr"):
        port = text.rpartition(":")[2]
        return int(port) if port.isdecimal() else 0
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdecimal() else text


# Resources


def _namespaces(found: Installation) -> list[str]:
    return sorted({each["metadata"]["namespace"] for kind in BY_NAME for each in found.every(kind)})


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
    place, decoded = _titled(raw), decode(raw, served=True)
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
            needs.images.add(images.repository(str(resource.spec.slurmd["image"])))  # type: ignore[attr-defined]
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
    sidecars = [each.get("name") for each in _pod(workload or {}).get("initContainers") or ()]
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
    gone = [f"- {line}" for line in before if line not in after]
    new = [f"+ {line}" for line in after if line not in before]
    if gone or new:
        shown = [*gone, *new][:MAX_CONF_LINES]
        yield Note("change", place, "slurm.conf differs in these lines:\n  " + "\n  ".join(shown))


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


# The order


def _steps(found: Installation, programs: Sequence[Object]) -> Iterator[str]:
    kinds = ",".join(kind.plural for kind in BY_NAME.values() if kind.name != "Partition")
    yield f"kubectl get {kinds} -A -o yaml > before-the-switch.yaml"
    for each in programs:
        meta = each["metadata"]
        yield f"kubectl -n {meta['namespace']} scale deployment {meta['name']} --replicas=0"
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        for each in found.every(kind):
            if any(str(hook.get("name")).endswith(".kb.io") for hook in each.get("webhooks") or () if _is_ours(hook)):
                yield f"kubectl delete {kind.lower()} {each['metadata']['name']}"
    yield "apply the definitions of this operator; they accept every field of the Go operator's"
    yield "install this operator with the values above"
    yield f"kubectl get {kinds} -A    # every one says Ready, and no pod is younger than before"


def _is_ours(hook: Object) -> bool:
    return any("slinky.slurm.net" in (rule.get("apiGroups") or ()) for rule in hook.get("rules") or ()) or (
        "podsbinding" in str(hook.get("name"))
    )
