"""Why a resource of ours is not ready: what its conditions say, then its references, then its pods.

In: facts, a kind and a name. Out: an answer. A condition that names the fault is the answer; one that only waits leads
on to what it waits for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import GROUP
from slurm_operator.build import labels
from slurm_operator.diagnose import database, operator, references, refusals, rotation, scale_in
from slurm_operator.diagnose import node as nodes
from slurm_operator.diagnose import pod as pods
from slurm_operator.diagnose.cause import Cause, Diagnosis, Fine, Unseen
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Silence,
    Slurm,
    age_seconds,
    condition_of,
    controller_of,
    host_of,
    name_of,
    spec_of,
    status_of,
)

COMPONENTS = {
    "Controller": labels.CONTROLLER,
    "Accounting": labels.ACCOUNTING,
    "RestApi": labels.RESTAPI,
    "LoginSet": labels.LOGIN,
    "NodeSet": labels.WORKER,
}
# Reasons that name a fault in the resource itself: nothing further down matters until it is fixed.
FAULTS = frozenset(
    {
        *("InvalidSpec", "ReferenceNotFound", "HostListInvalid", "NameTaken", "NodeSetNotFound"),
        *("SecondDefault", "NotSupported", "Forbidden", "Invalid", "ConfigInvalid", "RolledBack", "Refused"),
        *("SlurmRefused", "SlurmdRefused", "LinterRefused"),
    }
)
CONFIG = ("ConfigValid", "ConfigApplied")
# What a message names as the place of a fault, or as what is missing.
_PLACE = re.compile(
    r"\b(Controller|NodeSet|Partition|Accounting|ConfigMap|Secret) '?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)"
)
_GONE = re.compile(r"^(Secret|ConfigMap) '([^']+)' does not exist")
UNDER_TRIAL = frozenset({"Trying", "WaitingForSlurmctld", "KeyRotation"})
# A trial takes a second; one that takes this long will not end.
TRIAL_SECONDS = 120.0


def why(facts: Facts, kind: str, name: str) -> Diagnosis:
    """Why a resource is not ready."""
    resource = facts.get(kind, name)
    if resource is None:
        return Unseen(
            f"there is no {kind} {name!r} in namespace {facts.namespace}", f"kubectl get {BY_NAME[kind].plural} -A"
        )
    for look in (
        references.why,
        _fault,
        operator.why,
        _controller,
        _leaving,
        _no_pods,
        database.why,
        _pods,
        _directory,
        _rotation,
        _configuration,
        _unanswered,
        _rest_api,
        _workers,
        refusals.of_resource,
        _unready,
        _progressing,
    ):
        cause = look(facts, kind, resource)
        if cause is not None:
            return cause
    return Fine(f"{kind} {name} is ready")


def _describe(facts: Facts, kind: str, name: str) -> str:
    return f"kubectl -n {facts.namespace} describe {kind.lower()} {name}"


def _fault(facts: Facts, kind: str, resource: Object) -> Cause | None:
    for each in ("Ready", "Accepted", *CONFIG):
        condition = condition_of(resource, each) or {}
        reason, message = str(condition.get("reason")), str(condition.get("message", ""))
        # A refused partition is reported by `refusals`.
        is_left_out = kind == "Partition" and reason in refusals.OF_PARTITION
        if condition.get("status") == "False" and reason in FAULTS and not is_left_out:
            gone = _gone(facts, kind, resource, message)
            where = f"{kind} {name_of(resource)}"
            before = "the configuration is not in effect" if each in CONFIG else where
            text = message if message.startswith(where) and each not in CONFIG else f"{before}: {message}"
            return gone or Cause(reason, text, _edit(facts, kind, resource, message))
    return None


def _gone(facts: Facts, kind: str, resource: Object, message: str) -> Cause | None:
    """A Secret or ConfigMap that the operator did not find: one cause for all resources that name it."""
    found = _GONE.match(message)
    if found is None:
        return None
    named = f"{found[1]} {found[2]!r} does not exist in namespace {facts.namespace}"
    text = f"{named}; {kind} {name_of(resource)} needs it"
    command = references.create(facts, found[1], found[2], controller_of(resource))
    return Cause(f"{found[1]}Missing", text, command, root=f"{found[1]}/{found[2]}")


def _edit(facts: Facts, kind: str, resource: Object, message: str) -> str:
    """Where the fault is put right: in what the message names, or else in the resource."""
    place, name = kind, name_of(resource)
    found = _PLACE.search(message)
    is_missing = found is not None and found[1] in BY_NAME and facts.get(found[1], found[2]) is None
    if found is not None and not is_missing:
        place, name = found[1], found[2]
    elif "the password holds" in message:
        secret = ((spec_of(resource).get("storageConfig") or {}).get("passwordKeyRef") or {}).get("name")
        place, name = ("Secret", str(secret)) if secret else (place, name)
    what = f"{BY_NAME[place].plural}.{GROUP}" if place in BY_NAME else place.lower()
    return f"kubectl -n {facts.namespace} edit {what} {name}"


def _controller(facts: Facts, kind: str, resource: Object) -> Cause | None:
    if kind == "Controller":
        return None
    owner = controller_of(resource)
    if not owner:
        return None
    found = facts.get("Controller", owner)
    if found is None:
        return Cause(
            "ReferenceNotFound",
            f"{kind} {name_of(resource)} belongs to Controller {owner!r}, which does not exist",
            f"kubectl -n {facts.namespace} get controllers.slinky.slurm.net",
        )
    if kind == "LoginSet" or spec_of(found).get("external"):
        return None
    if _is_ready(resource):
        return None
    step = f"{kind} {name_of(resource)} needs slurmctld of {owner!r}"
    for pod in facts.pods_of(labels.CONTROLLER, owner):
        broken = pods.why(facts, name_of(pod)) or pods.exiting(facts, pod)
        if broken is not None:
            return broken.under(step)
    if not facts.pods_of(labels.CONTROLLER, owner):
        # If there is no slurmctld pod, what other pods report about slurmctld is not the cause.
        upper = why(facts, "Controller", owner)
        return upper.under(step) if isinstance(upper, Cause) else None
    return None


def _no_pods(facts: Facts, kind: str, resource: Object) -> Cause | None:
    if kind not in COMPONENTS or facts.pods_of(COMPONENTS[kind], name_of(resource)):
        return None
    spec = spec_of(resource)
    if spec.get("external"):
        return None
    if spec.get("replicas") == 0:
        return Cause(
            "ScaledToZero",
            f"{kind} {name_of(resource)} has no pods, because its replicas are 0",
            f"kubectl -n {facts.namespace} patch {kind.lower()} {name_of(resource)} --type=merge "
            """-p '{"spec":{"replicas":1}}'""",
            chosen=kind in ("NodeSet", "LoginSet"),
        )
    return _refused_pod(facts, resource) or _no_machines(kind, resource)


def _no_machines(kind: str, resource: Object) -> Cause | None:
    """A NodeSet of DaemonSet mode has as many workers as there are Kubernetes nodes for it, and that may be none."""
    if kind != "NodeSet" or spec_of(resource).get("scalingMode") != "DaemonSet" or status_of(resource).get("desired"):
        return None
    asked = spec_of(spec_of(resource).get("template") or {}).get("nodeSelector") or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted(asked.items()))
    labelled = f" that has the labels {chosen}" if chosen else ""
    return Cause(
        "NoNodeFits",
        f"NodeSet {name_of(resource)} has no workers: it runs one on each Kubernetes node{labelled} whose taints it "
        "tolerates, and there is none",
        "kubectl get nodes --show-labels",
        chosen=True,
    )


def _refused_pod(facts: Facts, resource: Object) -> Cause | None:
    for each in ("StatefulSet", "Deployment", "NodeSet", "ReplicaSet"):
        for owner in facts.every(each):
            if not _belongs(owner, resource):
                continue
            for event in reversed(facts.events_of(each, name_of(owner))):
                if event.get("reason") == "FailedCreate":
                    return Cause(
                        "PodRefused",
                        f"Kubernetes refuses the pods of {name_of(resource)}: {event.get('message', '')}",
                        f"kubectl -n {facts.namespace} describe {each.lower()} {name_of(owner)}",
                    )
    return None


def _belongs(owner: Object, resource: Object) -> bool:
    if owner is resource:
        return True
    uid = (resource.get("metadata") or {}).get("uid")
    references = (owner.get("metadata") or {}).get("ownerReferences") or ()
    return any(each.get("uid") == uid for each in references)


def _pods(facts: Facts, kind: str, resource: Object) -> Cause | None:
    if kind not in COMPONENTS:
        return None
    for pod in facts.pods_of(COMPONENTS[kind], name_of(resource)):
        broken = pods.why(facts, name_of(pod))
        if broken is not None and broken.code != "PodIsEnding":
            trial = _tried_anew(facts, resource, pod, broken) if kind == "Controller" else None
            served = controller_of(resource) if kind in ("NodeSet", "RestApi") else ""
            upper = nodes.of_slurmctld(facts, served, pod, broken) if served else None
            return trial or (upper or broken).under(f"{kind} {name_of(resource)} has pod {name_of(pod)}")
    return None


def _tried_anew(facts: Facts, controller: Object, pod: Object, broken: Cause) -> Cause | None:
    """A slurmctld that exited with the previous configuration: its message is outdated while a new one is tried."""
    condition = condition_of(controller, "ConfigValid") or {}
    has_ended = broken.code in ("ContainerFails", "ConfigurationUnreadable")
    if not has_ended or condition.get("reason") not in UNDER_TRIAL or condition.get("status") == "True":
        return None
    trial, since = _under_trial(facts, controller, condition), str(condition.get("lastTransitionTime", ""))
    if trial.wrong or (since and pods.exited_at(pod, labels.CONTROLLER.daemon) > since):
        # It has had the time to start with the new one.
        return None
    text = f"{trial.sentence}; slurmctld exited with the one before, and Kubernetes starts it again after a pause"
    return replace(trial, sentence=text).under(broken.sentence)


def _configuration(facts: Facts, kind: str, resource: Object) -> Cause | None:
    if kind != "Controller":
        return None
    for pod in facts.pods_of(labels.CONTROLLER, name_of(resource)):
        mounted = _mounted_by_sub_path(pod)
        if mounted:
            return Cause(
                "SubPathMount",
                f"container {mounted} mounts /etc/slurm by subPath, so configuration changes never reach it",
                f"kubectl -n {facts.namespace} get pod {name_of(pod)} -o yaml",
            )
    for each in CONFIG:
        condition = condition_of(resource, each) or {}
        if condition.get("reason") == rotation.CODE and rotation.is_drained_for(resource):
            # It waits for the rotation, which is told elsewhere; a slurmctld that hangs meanwhile is the news.
            continue
        if condition.get("reason") in UNDER_TRIAL and condition.get("status") != "True":
            return _under_trial(facts, resource, condition)
        if condition.get("status") == "False":
            return Cause(
                str(condition.get("reason") or f"{each}No"),
                f"the configuration is not in effect: {condition.get('message', '')}",
                f"kubectl slurm -n {facts.namespace} config diff {name_of(resource)}",
            )
    return None


def _rotation(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """A rotation of the key keeps every worker drained; the other kinds of the cluster wait for it as well."""
    is_asked = kind == "Controller" and isinstance(facts.slurm_of(name_of(resource)), Slurm)
    return rotation.why(facts, resource) if is_asked else None


def _unanswered(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """A slurmctld that hangs, while its pod may still count as ready."""
    name = name_of(resource)
    slurm = facts.slurm.get(name) if kind == "Controller" and not spec_of(resource).get("external") else None
    asked = isinstance(slurm, Silence) and bool(facts.pods_of(labels.CONTROLLER, name))
    return nodes.silent(facts, name, slurm) if asked and isinstance(slurm, Silence) else None


def _under_trial(facts: Facts, resource: Object, condition: Mapping[str, Any]) -> Cause:
    """A configuration under trial: wrong only if the trial takes long."""
    since = str(condition.get("lastTransitionTime", ""))
    age = age_seconds(facts, since)
    late = age is not None and age > TRIAL_SECONDS and condition.get("reason") != "KeyRotation"
    duration = f" since {since}" + (f" ({age:.0f} s)" if age is not None else "") if since else ""
    text = f"a configuration of Controller {name_of(resource)} is under trial{duration}: {condition.get('message', '')}"
    pods_of = facts.pods_of(labels.CONTROLLER, name_of(resource))
    pod = name_of(pods_of[0]) if pods_of else f"{name_of(resource)}-controller-0"
    command = f"kubectl -n {facts.namespace} logs {pod} -c reconfigure --tail=20"
    return Cause(str(condition.get("reason")), text, command, waits=not late)


def _mounted_by_sub_path(pod: Object) -> str:
    spec = spec_of(pod)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for mount in container.get("volumeMounts") or ():
            if mount.get("subPath") and str(mount.get("mountPath", "")).startswith("/etc/slurm"):
                return str(container.get("name"))
    return ""


def _workers(facts: Facts, kind: str, resource: Object) -> Cause | None:
    if kind != "NodeSet":
        return None
    slurm = facts.slurm_of(controller_of(resource))
    if isinstance(slurm, Silence):
        return None if _is_ready(resource) else _reachable(facts, resource, slurm)
    causes: list[Cause] = []
    for pod in facts.pods_of(labels.WORKER, name_of(resource)):
        answer = nodes.why(facts, host_of(pod))
        if isinstance(answer, Cause) and answer.code != "PodIsEnding":
            causes.append(answer.under(f"NodeSet {name_of(resource)} has worker {host_of(pod)}"))
    wrong = [cause for cause in causes if cause.wrong]
    return next(iter([*wrong, *filter(None, [_scale_in(facts, resource)]), *causes]), None)


def _scale_in(facts: Facts, nodeset: Object) -> Cause | None:
    """What it waits for; each of its workers that leave says the same, so they share a root."""
    found = scale_in.why(facts, nodeset)
    return replace(found, root=found.root or nodes.leaving(name_of(nodeset))) if found is not None else None


def _leaving(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """The deletion of a resource; whatever else its pods or conditions show is a consequence of that."""
    deleting = (resource.get("metadata") or {}).get("deletionTimestamp")
    if not deleting:
        return None
    found = _scale_in(facts, resource) if kind == "NodeSet" else None
    ready = condition_of(resource, "Ready") or {}
    held = ", ".join((resource.get("metadata") or {}).get("finalizers") or ())
    return found or Cause(
        "Deleting",
        f"{kind} {name_of(resource)} is being deleted: {ready.get('message') or f'its finalizers are {held}'}",
        _describe(facts, kind, name_of(resource)),
        waits=True,
    )


def _directory(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """A login pod without sssd: users of the directory cannot log in, although the pod is ready."""
    for pod in facts.pods_of(labels.LOGIN, name_of(resource)) if kind == "LoginSet" else ():
        if name_of(pod) in facts.without_sssd:
            return Cause(
                "SssdNotRunning",
                f"sssd does not run in pod {name_of(pod)}, so users of the directory cannot log in",
                f"kubectl -n {facts.namespace} logs {name_of(pod)} -c login --tail=50",
            )
    return None


def _rest_api(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """The operator asks Slurm through a RestApi of the cluster; without one, what it reports is outdated."""
    reachable = condition_of(resource, "SlurmReachable") or {}
    if kind != "NodeSet" or reachable.get("status") in ("True", None):
        return None
    owner, step = controller_of(resource), f"the operator cannot ask Slurm for NodeSet {name_of(resource)}"
    mine = [each for each in facts.every("RestApi") if controller_of(each) == owner]
    if not mine:
        return Cause(
            "RestApiMissing",
            f"Controller {owner!r} has no RestApi, through which the operator asks Slurm",
            f"kubectl -n {facts.namespace} apply -f - <<<'{_rest_api_for(owner)}'",
            (step,),
        )
    for each in mine:
        answer = why(facts, "RestApi", name_of(each))
        if isinstance(answer, Cause):
            return answer.under(step)
    return None


def _rest_api_for(controller: str) -> str:
    """The smallest valid RestApi."""
    meta, spec = {"name": controller}, {"controllerRef": {"name": controller}}
    made = {"apiVersion": f"{GROUP}/v1beta1", "kind": "RestApi", "metadata": meta, "spec": spec}
    return json.dumps(made, separators=(",", ":"))


def _reachable(facts: Facts, resource: Object, slurm: Silence) -> Cause:
    condition = condition_of(resource, "SlurmReachable") or {}
    owner = controller_of(resource)
    below = nodes.being_started(facts, owner) or database.behind(facts, owner, slurm.why)
    if below is not None:
        return below
    return Cause(
        "SlurmSilent",
        f"Slurm cannot be asked: {condition.get('message') or slurm.why}",
        f"kubectl slurm -n {facts.namespace} logs controller/{controller_of(resource)}",
        root=f"slurmctld of {controller_of(resource)}",
    )


def _unready(facts: Facts, kind: str, resource: Object) -> Cause | None:
    ready = condition_of(resource, "Ready") or {}
    if ready.get("status") == "True":
        return None
    age = age_seconds(facts, ready.get("lastTransitionTime"))
    return Cause(
        str(ready.get("reason") or "NotReady"),
        f"{kind} {name_of(resource)} is not ready: {ready.get('message') or 'it has no condition Ready'}",
        _describe(facts, kind, name_of(resource)),
        # No cause is known, and it became unready only a moment ago.
        waits=age is not None and age < pods.START_SECONDS,
    )


def _progressing(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """A resource that is ready, and on which the operator still works."""
    condition = condition_of(resource, "Progressing") or {}
    # The rotation of a key is told once, by its Controller.
    if condition.get("status") != "True" or condition.get("reason") == rotation.CODE:
        return None
    text = f"{kind} {name_of(resource)} is ready, and something is under way: {condition.get('message', '')}"
    return Cause(str(condition.get("reason")), text, _describe(facts, kind, name_of(resource)), waits=True)


def _is_ready(resource: Object) -> bool:
    return (condition_of(resource, "Ready") or {}).get("status") == "True"
