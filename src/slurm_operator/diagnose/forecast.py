"""What would happen if these manifests were applied: what changes live, restarts, drains or waits, and until when.

In: facts, and resources as somebody wants them. Out: effects in the order in which they would come. Pure; called by
`kubectl slurm plan`. Both sides are built by the builders of the operator itself, so what they make alike is no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from kube_runtime.client.objects import Pod
from kube_runtime.times import parse_time
from slurm_operator.admission.rules import reach
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import Resource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.plural import counted, share
from slurm_operator.api.problem import errors
from slurm_operator.api.validate import decode
from slurm_operator.build import accounting, controller, labels, loginset, nodeset, restapi
from slurm_operator.build.errors import BuildError
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import slurm_conf
from slurm_operator.diagnose.facts import Facts, Silence, SlurmJob, fingerprint, host_of
from slurm_operator.diagnose.references import SECRET, references
from slurm_operator.plan.choice import scaled_in
from slurm_operator.plan.workers import NodeSnapshot, workers
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import UNLIMITED, Job, Node, SlurmList

R = TypeVar("R", bound=Resource)
RUNNING = frozenset({"RUNNING", "SUSPENDED", "COMPLETING"})


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that would happen."""

    what: str
    # made, live, reconfigure, restart, drain, refused, flag (refused unless the operator allows it) or none.
    way: str
    sentence: str
    # Jobs that would be waited for.
    jobs: tuple[str, ...] = ()
    until: str = ""


Given = tuple[Mapping[str, Mapping[str, str]], Mapping[str, Mapping[str, bytes]]]


def forecast(facts: Facts, wanted: Sequence[Mapping[str, Any]], given: Given = ({}, {})) -> list[Effect]:
    """Everything that would happen; `given` are the ConfigMaps and Secrets that are applied together with it."""
    decoded = [decode({**raw, "metadata": {**raw["metadata"], "namespace": facts.namespace}}) for raw in wanted]
    wrong = [
        Effect(f"{raw['kind']} {raw['metadata']['name']}", "refused", str(each.problems[0]))
        for raw, each in zip(wanted, decoded, strict=True)
        if each.resource is None
    ]
    resources = [each.resource for each in decoded if each.resource is not None]
    before = refs_of(facts, wanted)
    after = _with(_with_data(before, given), resources)
    found = [effect for each in resources for effect in _one(facts, each, before, after)]
    flags = [effect for each in resources for effect in _features(facts, each, after)]
    return [*wrong, *flags, *_configuration(resources, before, after), *found]


def _features(facts: Facts, new: Resource, refs: Refs) -> Iterator[Effect]:
    """Pod features that are new with it: nobody can tell from here which of them the operator's flags allow."""
    raw = facts.get(type(new).__name__, new.name)
    old = decode(raw, served=True).resource if raw is not None else None
    for problem in errors(reach.check(new, old, replace(refs, allowed_pod_features=frozenset()))):
        sentence = f"refused, unless the operator's flags allow it already: {problem}"
        yield Effect(f"{type(new).__name__} {new.name}", "flag", sentence)


def refs_of(facts: Facts, wanted: Sequence[Mapping[str, Any]] = ()) -> Refs:
    """The namespace as the builders see it."""
    return Refs(
        controllers={each.name: each for each in _typed(facts, Controller)},
        accountings={each.name: each for each in _typed(facts, Accounting)},
        nodesets=tuple(_typed(facts, NodeSet)),
        partitions=tuple(_typed(facts, Partition)),
        config_maps={name: item.get("data") or {} for name, item in facts.objects.get("ConfigMap", {}).items()},
        secrets=secrets_of(facts, wanted),
        claims={name: _modes(item) for name, item in facts.objects.get("PersistentVolumeClaim", {}).items()},
        kubernetes_nodes=len(facts.every("Node")),
    )


def secrets_of(facts: Facts, wanted: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, bytes]]:
    """The Secrets of the namespace, by fingerprint; if they may not be read, every one that is named exists."""
    if facts.secrets is not None:
        return {name: {key: text.encode() for key, text in keys.items()} for name, keys in facts.secrets.items()}
    found: dict[str, dict[str, bytes]] = {}
    for resource in [*wanted, *(each for kind in BY_NAME for each in facts.every(kind))]:
        spec = resource.get("spec")
        for named in references(spec if isinstance(spec, Mapping) else {}):
            if named.kind == SECRET:
                found.setdefault(named.name, {})[named.key] = b"unknown"
    return found


def _with_data(refs: Refs, given: Given) -> Refs:
    config_maps, secrets = given
    marked = {name: {key: fingerprint(raw).encode() for key, raw in data.items()} for name, data in secrets.items()}
    return replace(refs, config_maps={**refs.config_maps, **config_maps}, secrets={**refs.secrets, **marked})


def _modes(claim: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple((claim.get("spec") or {}).get("accessModes") or ())


def _typed(facts: Facts, kind: type[R]) -> list[R]:
    decoded = (decode(raw, served=True).readable for raw in facts.every(kind.__name__))
    return [each for each in decoded if isinstance(each, kind)]


def _with(refs: Refs, changed: Iterable[Resource]) -> Refs:
    for each in changed:
        if isinstance(each, Controller):
            refs = replace(refs, controllers={**refs.controllers, each.name: each})
        elif isinstance(each, Accounting):
            refs = replace(refs, accountings={**refs.accountings, each.name: each})
        elif isinstance(each, NodeSet):
            refs = replace(refs, nodesets=_put(refs.nodesets, each))
        elif isinstance(each, Partition):
            refs = replace(refs, partitions=_put(refs.partitions, each))
    return refs


def _put(known: tuple[R, ...], new: R) -> tuple[R, ...]:
    return (*(each for each in known if each.name != new.name), new)


def _configuration(resources: Iterable[Resource], before: Refs, after: Refs) -> Iterator[Effect]:
    touched = {each.name for each in resources if isinstance(each, Controller)}
    touched |= {
        str(ref.name) for each in resources if (ref := getattr(getattr(each, "spec", None), "controller_ref", None))
    }
    for name in sorted(touched & set(before.controllers) & set(after.controllers)):
        try:
            old = slurm_conf(before.controllers[name], before).text
            new = slurm_conf(after.controllers[name], after).text
        except BuildError as error:
            yield Effect(f"Controller {name}", "refused", str(error))
            continue
        if old != new:
            yield _conf_effect(after.controllers[name], old, new)


def _conf_effect(cr: Controller, old: str, new: str) -> Effect:
    lines = len(set(new.splitlines()) ^ set(old.splitlines()))
    title, text = f"slurm.conf of {cr.name}", counted(lines, "line changes", "lines change")
    if not cr.spec.inplace_reconfigure:
        return Effect(title, "restart", f"{text}, and slurmctld restarts; jobs keep running")
    if _without_partitions(old) == _without_partitions(new):
        of_partitions = counted(lines, "partition line changes", "partition lines change")
        return Effect(title, "live", f"{of_partitions}, in effect at once")
    return Effect(title, "reconfigure", f"{text}, checked first, then read by the running slurmctld")


def _without_partitions(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.lower().startswith("partitionname=")]


def _one(facts: Facts, new: Resource, before: Refs, after: Refs) -> Iterator[Effect]:
    title = f"{type(new).__name__} {new.name}"
    if facts.get(type(new).__name__, new.name) is None:
        yield Effect(title, "made", "it is new")
        return
    try:
        if isinstance(new, NodeSet):
            yield from _nodeset(facts, new, before, after)
        else:
            yield from _workload(new, title, facts, before, after)
    except BuildError as error:
        yield Effect(title, "refused", str(error))


BUILDERS: dict[str, Any] = {
    "Controller": controller.objects,
    "LoginSet": loginset.objects,
    "RestApi": restapi.objects,
    "Accounting": accounting.objects,
}


def _workload(new: Resource, title: str, facts: Facts, before: Refs, after: Refs) -> Iterator[Effect]:
    kind = type(new).__name__
    old = decode(facts.objects[kind][new.name], served=True).resource
    if kind not in BUILDERS or old is None:
        return
    becomes = _templates(BUILDERS[kind](new, after))
    try:
        was = _templates(BUILDERS[kind](old, before))
    except BuildError as error:
        # The current resource lacks something that comes with the manifests.
        yield Effect(title, "made", f"it cannot be built now ({error}); with this manifest it can")
        return
    if was != becomes:
        effects = {
            "Controller": "; jobs keep running, and submissions wait a few seconds",
            "LoginSet": "; sessions end",
        }
        yield Effect(title, "restart", f"its pods are replaced{effects.get(kind, '')}")


def _templates(objects: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [each["spec"]["template"] for each in objects if each["kind"] in ("StatefulSet", "Deployment")]


def _nodeset(facts: Facts, new: NodeSet, before: Refs, after: Refs) -> Iterator[Effect]:
    old = next(each for each in before.nodesets if each.name == new.name)
    owner = after.controllers.get(new.spec.controller_ref.name)
    hosts = [host_of(pod) for pod in facts.pods_of(labels.WORKER, new.name)]
    title = f"NodeSet {new.name}"
    if owner is not None and _template(old, owner, before) != _template(new, owner, after):
        yield _rolled(facts, new, title, hosts)
    more = new.spec.replicas - old.spec.replicas
    if more > 0 and not new.is_daemon:
        yield Effect(title, "made", f"{counted(more, 'worker is', 'workers are')} added")
    elif more < 0 and not new.is_daemon:
        yield from _scaled_in(facts, new, title)


def _scaled_in(facts: Facts, new: NodeSet, title: str) -> Iterator[Effect]:
    """The workers that the operator would choose, by its own choice, and the jobs on these alone."""
    slurm = facts.slurm_of(new.spec.controller_ref.name)
    pods = [msgspec.convert(pod, Pod, strict=False) for pod in facts.pods_of(labels.WORKER, new.name)]
    now = parse_time(facts.now) or datetime.now(UTC)
    if isinstance(slurm, Silence):
        surplus = max(len(pods) - new.spec.replicas, 0)
        text = f"{share(surplus, len(pods), 'worker')} drained, and removed once idle in Slurm"
        yield Effect(title, "drain", f"{text}; Slurm does not answer, and none is chosen before it does")
        return
    known = SlurmList(tuple(Node(name=each.name, states=each.states) for each in slurm.nodes.values()), complete=True)
    snapshot = NodeSnapshot(known, tuple(_as_model(job) for job in slurm.jobs.values()))
    chosen = scaled_in(new, workers(new, pods, snapshot, now), now)
    if not chosen:
        return
    names = hostlist.compress(hostlist.in_order(worker.hostname for worker in chosen))
    jobs = _jobs_on(facts, new.spec.controller_ref.name, [worker.hostname for worker in chosen])
    text = f"{share(len(chosen), len(pods), 'worker')} drained, and removed once idle in Slurm: {names}"
    yield Effect(title, "drain", text, tuple(job.id for job in jobs), _last(jobs))


def _as_model(job: SlurmJob) -> Job:
    """A job as the operator's choice sees it: on which nodes it is, and until when."""
    return Job(
        job_id=int(job.id),
        states=frozenset({job.state}),
        nodes=job.nodes if isinstance(job.nodes, HostList) else HostList.of(*job.nodes),
        start_time=job.start,
        time_limit=max(job.end - job.start, 0) // 60 if job.end else UNLIMITED,
    )


def _template(cr: NodeSet, owner: Controller, refs: Refs) -> Mapping[str, Any]:
    return nodeset.pod_template(cr, owner, refs)


def _rolled(facts: Facts, new: NodeSet, title: str, workers: Sequence[str]) -> Effect:
    strategy = new.spec.update_strategy.type
    if strategy == "OnDelete":
        return Effect(title, "none", f"{counted(len(workers), 'worker stays', 'workers stay')} until deleted by hand")
    jobs = _jobs_on(facts, new.spec.controller_ref.name, workers)
    text = f"{counted(len(workers), 'worker is', 'workers are')} replaced, each once it is drained and idle"
    return Effect(title, "drain", text, tuple(job.id for job in jobs), _last(jobs))


def _jobs_on(facts: Facts, cluster: str, workers: Iterable[str]) -> list[SlurmJob]:
    slurm = facts.slurm_of(cluster)
    if isinstance(slurm, Silence):
        return []
    hosts = set(workers)
    return [job for job in slurm.jobs.values() if job.state in RUNNING and any(host in job.nodes for host in hosts)]


def _last(jobs: Iterable[SlurmJob]) -> str:
    """When the last of these jobs ends at the latest."""
    ends = [job.wants.get("EndTime", "Unknown") for job in jobs]
    if not ends:
        return ""
    return "unknown: some have no time limit" if "Unknown" in ends else max(ends)
