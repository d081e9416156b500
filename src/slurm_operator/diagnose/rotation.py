"""A rotation of the auth/slurm key: what it waits for, until when, and what would shorten it.

In: facts, and a Controller. Out: a cause that waits, or None when no key is being rotated. All workers of the cluster
are drained meanwhile, and none of them goes before all are free, so each of them gets the same answer. Used by
`diagnose/resource.py` and `diagnose/node.py`.
"""

from __future__ import annotations

import re

from slurm_operator.api.plural import counted, share
from slurm_operator.build import labels
from slurm_operator.diagnose.cause import Cause, quoted
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Slurm,
    SlurmJob,
    annotation_of,
    clock,
    condition_of,
    controller_of,
    host_of,
    label_of,
    name_of,
    spec_of,
)
from slurm_operator.diagnose.room import jobs_on
from slurm_operator.plan.leaving import KEY

CODE = "KeyRotation"
# How the condition names a worker that is not free, and how it goes on with what would force the rotation.
_BUSY = re.compile(r"\bfree, (\S+) is not\b")
_FORCE = "; to go on now "


def is_reason(reason: str) -> bool:
    """Whether a node was drained for a rotation, by the reason of its drain."""
    # slurmctld adds its own words to one that is there.
    return f"for {KEY}" in reason


def is_drained_for(controller: Object) -> bool:
    """Whether the operator waits for the workers of a Controller, to give its daemons a new key."""
    progressing = condition_of(controller, "Progressing") or {}
    return progressing.get("status") == "True" and progressing.get("reason") == CODE


def why(facts: Facts, controller: Object, asked: str = "") -> Cause | None:
    """What the rotation of a cluster's key waits for; `asked` is the worker that somebody asks about."""
    if is_drained_for(controller):
        return _draining(facts, controller, asked)
    return _recreating(facts, controller)


def of_node(facts: Facts, cluster: str, host: str) -> Cause:
    """Why a worker is drained for a rotation."""
    controller = facts.get("Controller", cluster)
    found = why(facts, controller, host) if controller is not None else None
    slurm = facts.slurm_of(cluster)
    jobs = jobs_on(slurm, (host,)) if isinstance(slurm, Slurm) else []
    does = f"runs job {jobs[-1].id} of {jobs[-1].user}" if jobs else "runs no job"
    step = f"node {host} is drained by the operator for {KEY}, and {does}"
    if found is not None:
        return found.under(step)
    text = f"workers of Controller {cluster} are drained for {KEY}, and are recreated once slurmctld has the new key"
    return Cause(CODE, text, _describe(facts, cluster), (step,), waits=True, root=_root(cluster))


def _root(cluster: str) -> str:
    return f"key of {cluster}"


def _describe(facts: Facts, cluster: str) -> str:
    return f"kubectl -n {facts.namespace} describe controller {cluster}"


def _draining(facts: Facts, controller: Object, asked: str) -> Cause:
    cluster = name_of(controller)
    message = str((condition_of(controller, "Progressing") or {}).get("message", ""))
    head, force, rest = message.partition(_FORCE)
    slurm = facts.slurm_of(cluster)
    hosts = [host_of(pod) for pod in _workers(facts, cluster)]
    jobs = jobs_on(slurm, hosts) if isinstance(slurm, Slurm) else []
    held, how, command = _held(facts, jobs, hosts) if jobs else ("", "", _look(facts, cluster, message, asked))
    forced = f". To go on now {rest}" if force else ""
    text = f"Controller {cluster} gets a new auth/slurm key: {head}{held}{how}{forced}"
    return Cause(CODE, text, command, waits=True, root=_root(cluster))


def _held(facts: Facts, jobs: list[SlurmJob], hosts: list[str]) -> tuple[str, str, str]:
    """The job that holds it up longest, what would shorten that with its price, and the command."""
    last, shell = jobs[-1], f"kubectl slurm -n {facts.namespace} shell --"
    until = f"until {clock(facts, last.end)} at the latest" if last.end else "without a time limit"
    on = next((host for host in hosts if host in last.nodes), "")
    others = f", and {counted(len(jobs) - 1, 'more job')}" if len(jobs) > 1 else ""
    held = f"; it waits for job {last.id} of {last.user} on {on}, {until}{others}"
    if last.can_requeue:
        # All workers come back after the rotation, so there is room for it again.
        how = f". Requeuing job {last.id} would shorten it; the job starts again from its beginning"
        return held, how, f"{shell} scontrol requeue {last.id}"
    return (
        held,
        f". Only scancel {last.id} would shorten it, and the job would be lost",
        f"{shell} squeue -j {last.id}",
    )


def _look(facts: Facts, cluster: str, message: str, asked: str) -> str:
    """The command that leads on to the worker that is not free; whoever asks about that one sees its node."""
    found = _BUSY.search(message)
    worker = facts.worker(found[1]) if found is not None else None
    if worker is None:
        return _describe(facts, cluster)
    if asked in (host_of(worker), name_of(worker)):
        show = f"scontrol show node {quoted(host_of(worker))}"
        return f"kubectl slurm -n {facts.namespace} shell -- {show}"
    return f"kubectl slurm -n {facts.namespace} why pod/{name_of(worker)}"


def _recreating(facts: Facts, controller: Object) -> Cause | None:
    """The rest of a rotation: slurmctld has the new key, or is being restarted with it, and workers have not."""
    cluster = name_of(controller)
    current, workers = _key_of_slurmctld(facts, cluster), _workers(facts, cluster)
    old = [pod for pod in workers if annotation_of(pod, labels.SLURM_KEY_HASH) not in ("", current)]
    if not current or not old:
        return None
    done = share(len(workers) - len(old), len(workers), "worker")
    text = f"Controller {cluster} gets a new auth/slurm key: slurmctld was given it, and {done} recreated with it"
    return Cause(CODE, text, f"kubectl -n {facts.namespace} get pods", waits=True, root=_root(cluster))


def _key_of_slurmctld(facts: Facts, cluster: str) -> str:
    """The hash of the key that slurmctld runs with, or is about to."""
    wanted = labels.selector(labels.CONTROLLER, cluster).items()
    for each in facts.every("StatefulSet"):
        if wanted <= dict(label_of(each)).items():
            return annotation_of(spec_of(each).get("template") or {}, labels.SLURM_KEY_HASH)
    return ""


def _workers(facts: Facts, cluster: str) -> list[Object]:
    mine = [each for each in facts.every("NodeSet") if controller_of(each) == cluster]
    return [pod for each in mine for pod in facts.pods_of(labels.WORKER, name_of(each))]
