"""Why a Slurm node takes no jobs: from its pod over its registration to who drained it.

In: facts and the name of a Slurm node, or of its pod. Out: an answer.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import GROUP
from slurm_operator.api.plural import counted
from slurm_operator.api.problem import did_you_mean
from slurm_operator.build import labels
from slurm_operator.diagnose import database, leftovers, room, rotation, scale_in
from slurm_operator.diagnose import pod as pods
from slurm_operator.diagnose.cause import Cause, Diagnosis, Fine, Unseen, quoted
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Silence,
    Slurm,
    SlurmJob,
    SlurmNode,
    age_seconds,
    annotation_of,
    clock,
    controller_of,
    host_of,
    label_of,
    name_of,
    spec_of,
)
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.slurm import policy

WORKER = labels.WORKER.daemon
# What slurmctld and slurmd write when they drain a node themselves.
SLURM_DRAINS = re.compile(
    r"(?i)(kill task failed|prolog error|epilog error|batch job complete failure|job env setup error|"
    r"duplicate jobid|low \w|gres/|not enough|health ?check)"
)
# The operator tries again every minute.
REGISTRATION_SECONDS = 120.0
RESTARTED = "Node unexpectedly rebooted"
# What a worker looks like that waits for slurmctld.
WITHOUT_SLURMCTLD = frozenset({"NameNotResolved", "ControllerUnreachable", "Starting", "ProbeFails"})


def why(facts: Facts, name: str) -> Diagnosis:
    """Why a node takes no jobs."""
    pod = _pod(facts, name)
    host = host_of(pod) if pod is not None else name
    if pod is not None:
        broken = pods.why(facts, name_of(pod))
        if broken is not None:
            owner = facts.get("NodeSet", str(label_of(pod).get(labels.INSTANCE, "")))
            upper = of_slurmctld(facts, controller_of(owner), pod, broken) if owner is not None else None
            return (upper or broken).under(f"node {host} is pod {name_of(pod)}")
    cluster, slurm = _cluster(facts, host, pod)
    if isinstance(slurm, Silence):
        return silent(facts, cluster, slurm)
    node = slurm.nodes.get(host)
    if node is None:
        return _unknown(facts, host, pod)
    left_over = pod is None and leftovers.is_of_gone_nodeset(facts, node) and host in leftovers.left_over(facts, slurm)
    return (leftovers.why(facts, slurm) if left_over else None) or _state(facts, node, pod)


def _pod(facts: Facts, name: str) -> Object | None:
    return facts.worker(name)


def of_slurmctld(facts: Facts, cluster: str, pod: Object, broken: Cause) -> Cause | None:
    """What is wrong with slurmctld, where a pod only says that it does not find it."""
    if broken.code not in WITHOUT_SLURMCTLD:
        return None
    slurmctlds = facts.pods_of(labels.CONTROLLER, cluster)
    for each in slurmctlds:
        cause = pods.why(facts, name_of(each)) or pods.exiting(facts, each) or _not_ready(facts, each)
        if cause is not None:
            return cause.under(f"pod {name_of(pod)} needs slurmctld of {cluster!r}")
    return _no_slurmctld(facts, cluster, pod) if not slurmctlds else None


def _no_slurmctld(facts: Facts, cluster: str, pod: Object) -> Cause | None:
    """A pod that was started before its slurmctld has one."""
    controller = facts.get("Controller", cluster)
    if controller is None or spec_of(controller).get("external"):
        return None
    text = f"slurmctld of {cluster!r}, which pod {name_of(pod)} needs, has no pod yet"
    command = f"kubectl slurm -n {facts.namespace} why controller/{cluster}"
    return Cause("Starting", text, command, waits=pods.is_young(facts, pod))


def _not_ready(facts: Facts, slurmctld: Object) -> Cause | None:
    """A slurmctld that is being restarted: this explains whatever its workers report meanwhile."""
    if pods.is_ready(slurmctld):
        return None
    text = f"slurmctld in pod {name_of(slurmctld)} is not ready yet"
    return Cause("Starting", text, f"kubectl -n {facts.namespace} describe pod {name_of(slurmctld)}", waits=True)


def _cluster(facts: Facts, host: str, pod: Object | None) -> tuple[str, Slurm | Silence]:
    owner = facts.get("NodeSet", str(label_of(pod).get(labels.INSTANCE, ""))) if pod is not None else None
    if owner is not None:
        return controller_of(owner), facts.slurm_of(controller_of(owner))
    for name, slurm in facts.slurm.items():
        if isinstance(slurm, Slurm) and host in slurm.nodes:
            return name, slurm
    name = next(iter(facts.slurm), "")
    return name, facts.slurm_of(name)


def silent(facts: Facts, cluster: str, slurm: Silence) -> Cause:
    """Why a cluster cannot be asked."""
    if facts.get("Controller", cluster) is None:
        named = f"Controller {cluster!r}" if cluster else "Controller"
        return Cause(
            "ReferenceNotFound",
            f"there is no {named} in namespace {facts.namespace}, so there is no Slurm to ask",
            f"kubectl get {BY_NAME['Controller'].plural}.{GROUP} -A",
        )
    for pod in facts.pods_of(labels.CONTROLLER, cluster):
        broken = pods.why(facts, name_of(pod)) or pods.exiting(facts, pod)
        if broken is not None:
            turning = _rotation(facts, cluster)
            caused = broken.under(turning.sentence) if turning is not None and broken.waits else broken
            return caused.under(f"slurmctld of {cluster!r} does not answer: {slurm.why}")
    below = being_started(facts, cluster) or database.behind(facts, cluster, slurm.why)
    if below is not None:
        return below
    return Cause(
        "SlurmSilent",
        f"slurmctld of {cluster!r} does not answer: {slurm.why}",
        f"kubectl slurm -n {facts.namespace} logs controller/{cluster}",
        root=f"slurmctld of {cluster}",
    )


def being_started(facts: Facts, cluster: str) -> Cause | None:
    """Why slurmctld cannot be asked, when its container does not run: this explains whatever others report of it."""
    found = (pods.being_started(facts, pod) for pod in facts.pods_of(labels.CONTROLLER, cluster))
    starting = next(filter(None, found), None)
    if starting is None:
        return None
    turning = _rotation(facts, cluster)
    text = f"{starting.sentence}; {turning.sentence}" if turning is not None else starting.sentence
    return replace(starting, sentence=text, root=f"slurmctld of {cluster}")


def _rotation(facts: Facts, cluster: str) -> Cause | None:
    """The rotation of its key, which may be why slurmctld is being restarted."""
    controller = facts.get("Controller", cluster)
    return rotation.why(facts, controller) if controller is not None else None


def _unknown(facts: Facts, host: str, pod: Object | None) -> Diagnosis:
    if pod is None:
        return Unseen(
            f"neither Kubernetes nor Slurm knows a node {host!r} in namespace {facts.namespace}"
            f"{did_you_mean(host, _names(facts))}",
            f"kubectl slurm -n {facts.namespace} status",
        )
    lines = facts.logs.get((name_of(pod), WORKER), ())
    known = pods.log_cause(pod, WORKER, lines)
    command = f"kubectl -n {facts.namespace} logs {name_of(pod)} -c {WORKER} --tail=20"
    if not pods.is_ready(pod):
        text = f"pod {name_of(pod)} is being started, and its slurmd has not registered yet"
        return Cause("Starting", text, command, waits=pods.is_young(facts, pod))
    step = f"pod {name_of(pod)} is ready, but Slurm has no node {host!r}"
    if known is not None:
        return Cause(known[0], known[1], command, (step,))
    return Cause(
        "NotRegistered", f"pod {name_of(pod)} is ready, but its slurmd has not registered as {host!r}", command
    )


def hosts_of(facts: Facts, nodeset: Object) -> frozenset[str]:
    """The names in Slurm of a NodeSet's workers."""
    return frozenset(host_of(pod) for pod in facts.pods_of(labels.WORKER, name_of(nodeset)))


def _names(facts: Facts) -> frozenset[str]:
    """The nodes that Kubernetes or Slurm knows."""
    pods = (host_of(pod) for pod in facts.every("Pod") if label_of(pod).get(labels.NAME) == WORKER)
    return frozenset(pods).union(*(each.nodes for each in facts.slurm.values() if isinstance(each, Slurm)))


def _state(facts: Facts, node: SlurmNode, pod: Object | None) -> Diagnosis:
    if "INVALID_REG" in node.states:
        # slurmctld drains such a node by itself; a resume would not last.
        return Cause(
            "RegistrationRefused",
            f"slurmctld refuses what {node.name} registered: {node.reason or 'no reason is given'}",
            f"kubectl slurm -n {facts.namespace} shell -- scontrol show node {quoted(node.name)}",
        )
    if pod is None and policy.drain_is_ours(node.reason) and not _jobs(facts, node):
        # Its reason is of a time when it had a pod.
        return _left_over(facts, node)
    if "DRAIN" in node.states:
        return _drained(facts, node, pod)
    if node.states & {"DOWN", "NOT_RESPONDING", "FAIL"}:
        return _down(facts, node, pod)
    return _passing(facts, node) or Fine(f"node {node.name} is {_shown(node)} and takes jobs")


def _shown(node: SlurmNode) -> str:
    # DYNAMIC_NORM tells how it was added to Slurm, not how it is.
    return "+".join(sorted(node.states - {"DYNAMIC_NORM"})).lower()


def _passing(facts: Facts, node: SlurmNode) -> Cause | None:
    """States that somebody wants, or that pass by themselves."""
    if node.states & room.RESERVED:
        return Cause(
            "Reserved",
            f"{node.name} takes only jobs of reservation {node.reservation or 'that holds it'}",
            f"kubectl slurm -n {facts.namespace} shell -- scontrol show reservation",
            chosen=True,
        )
    if node.states & {"REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERING_UP", "POWERING_DOWN", "POWERED_DOWN"}:
        return Cause(
            "PowerState",
            f"{node.name} is {_shown(node)}: Slurm starts, stops or restarts it",
            f"kubectl slurm -n {facts.namespace} shell -- scontrol update nodename={quoted(node.name)} state=resume",
            waits=True,
        )
    return None


def _left_over(facts: Facts, node: SlurmNode) -> Cause:
    job = leftovers.requiring(_slurm(facts, node), node.name)
    # Where its partition goes too, another node alone would not help the job.
    never = scale_in.why_never(facts, job, _slurm(facts, node)) if job is not None else None
    if job is not None and never is not None:
        return never.under(f"node {node.name} no longer has a pod, and job {job.id} of {job.user} must have it")
    if job is not None:
        owner = facts.get("NodeSet", read_pod_info(node.comment).get("nodeSetName", ""))
        again = f"scale NodeSet {name_of(owner)} up again, " if owner and not scale_in.is_deleted(owner) else ""
        return Cause(
            "PodGone",
            f"node {node.name} no longer has a pod, and job {job.id} of {job.user} can run on no other node "
            "(sbatch -w); its record is kept for that job, which would fail without it. Let the job run on other "
            f"nodes, {again}or cancel the job (scancel {job.id})",
            f"kubectl slurm -n {facts.namespace} shell -- scontrol update jobid={job.id} reqnodelist=",
        )
    if facts.get("NodeSet", read_pod_info(node.comment).get("nodeSetName", "")) and "DOWN" not in node.states:
        return Cause(
            "PodGone",
            f"node {node.name} no longer has a pod, and its slurmd ended without telling slurmctld; the operator "
            "deletes its record once slurmctld has given it up (SlurmdTimeout)",
            f"kubectl slurm -n {facts.namespace} shell -- scontrol show node {quoted(node.name)}",
            waits=True,
        )
    return Cause(
        "PodGone",
        f"node {node.name} is {_shown(node)} because it no longer has a pod; its record is left over",
        f"kubectl slurm -n {facts.namespace} shell -- scontrol delete nodename={quoted(node.name)}",
    )


def _jobs(facts: Facts, node: SlurmNode) -> list[SlurmJob]:
    return room.jobs_on(_slurm(facts, node), (node.name,))


def _slurm(facts: Facts, node: SlurmNode) -> Slurm:
    """The cluster that a node record is of."""
    clusters = (each for each in facts.slurm.values() if isinstance(each, Slurm))
    return next((each for each in clusters if each.nodes.get(node.name) is node), Slurm())


def _down(facts: Facts, node: SlurmNode, pod: Object | None) -> Cause:
    if pod is None:
        return _left_over(facts, node)
    if "NOT_RESPONDING" not in node.states and node.reason and not policy.drain_is_ours(node.reason):
        return _set_down(facts, node)
    state = _shown(node)
    command = f"kubectl -n {facts.namespace} logs {name_of(pod)} -c {WORKER} --tail=20"
    known = pods.log_cause(pod, WORKER, facts.logs.get((name_of(pod), WORKER), ()))
    if known is not None:
        return Cause(known[0], known[1], command, (f"node {node.name} is {state}",))
    reason = f" ({node.reason})" if node.reason else ""
    return Cause(
        "NotResponding", f"node {node.name} is {state}{reason}: its slurmd does not respond to slurmctld", command
    )


def _set_down(facts: Facts, node: SlurmNode) -> Cause:
    """Its slurmd responds; a person, or Slurm after a crash of the node, took it out."""
    resume = f"kubectl slurm -n {facts.namespace} shell -- scontrol update nodename={quoted(node.name)} state=resume"
    if node.reason.startswith(RESTARTED):
        return Cause(
            "Restarted", f"{node.name} is down since it came back by itself, and waits for you: {node.reason}", resume
        )
    return Cause("SetDown", f"{node.name} was set down{_by(node)}: {node.reason}", resume)


def _by(node: SlurmNode) -> str:
    return f" by {node.reason_by}" if node.reason_by else ""


def _drained(facts: Facts, node: SlurmNode, pod: Object | None) -> Cause:
    resume = f"kubectl slurm -n {facts.namespace} shell -- scontrol update nodename={quoted(node.name)} state=resume"
    if SLURM_DRAINS.match(node.reason):
        log = f"kubectl -n {facts.namespace} logs {name_of(pod)} -c {WORKER} --tail=50" if pod is not None else resume
        sentence = f"Slurm itself drained {node.name}: {node.reason}; resume it once that is fixed"
        return Cause("DrainedBySlurm", sentence, log)
    if not policy.drain_is_ours(node.reason):
        who = f"user {node.reason_by}" if node.reason_by else "somebody"
        return Cause(
            "DrainedBySomebody",
            f"{who} drained {node.name}: {node.reason or 'no reason was given'}",
            resume,
            root=node.reason,
        )
    machine = facts.get("Node", str(spec_of(pod).get("nodeName", ""))) if pod is not None else None
    if machine is not None and spec_of(machine).get("unschedulable"):
        return Cause(
            "KubernetesNodeCordoned",
            f"{node.name} is drained because its Kubernetes node {name_of(machine)} is cordoned",
            f"kubectl uncordon {name_of(machine)}",
            (f"the drain's reason: {node.reason}",),
            root=f"Kubernetes node {name_of(machine)}",
        )
    if pod is not None and _cordoned(pod):
        return Cause(
            "PodCordoned",
            f"{node.name} is drained because its pod {name_of(pod)} is cordoned by annotation",
            f"kubectl slurm -n {facts.namespace} undrain {quoted(node.name)}",
        )
    if node.reason == policy.drain_reason(policy.REGISTRATION_REASON):
        return _asked_to_register(facts, node, resume)
    return _going_away(facts, node, pod)


def _asked_to_register(facts: Facts, node: SlurmNode, resume: str) -> Cause:
    """A drain that the operator lifts at once; one that stays could not be lifted."""
    since = datetime.fromtimestamp(node.reason_at, UTC).isoformat()
    age = age_seconds(facts, since) if node.reason_at else None
    text = f"the operator drained {node.name} for a moment, so that its slurmd registers again"
    if age is None or age <= REGISTRATION_SECONDS:
        show = f"kubectl slurm -n {facts.namespace} shell -- scontrol show node {quoted(node.name)}"
        return Cause("AskedToRegister", text, show, waits=True)
    return Cause("AskedToRegister", f"{text}, and has not undrained it for {age:.0f} s", resume)


def _going_away(facts: Facts, node: SlurmNode, pod: Object | None) -> Cause:
    """The operator takes it out once its jobs have ended: which, until when, and what would shorten that."""
    if rotation.is_reason(node.reason):
        return rotation.of_node(facts, _cluster(facts, node.name, pod)[0], node.name)
    text = f"{node.name} is drained by the operator: {node.reason.removeprefix(policy.REASON_PREFIX).strip()}"
    jobs = _jobs(facts, node)
    owner = str(label_of(pod).get(labels.INSTANCE, "")) if pod is not None else ""
    root = leaving(owner) if owner else ""
    if not jobs:
        look = f"describe nodeset {owner}" if owner else f"get pods --field-selector=metadata.name={quoted(node.name)}"
        sentence, command = f"{text}; it runs no job, and goes next", f"kubectl -n {facts.namespace} {look}"
        return Cause("GoingAway", sentence, command, waits=True, root=root)
    last = jobs[-1]
    until = f"until {clock(facts, last.end)} at the latest" if last.end else "without a time limit"
    others = f" and {counted(len(jobs) - 1, 'more job')}" if len(jobs) > 1 else ""
    how, command = scale_in.shortened(facts, _slurm(facts, node), (node.name,), last)
    sentence = f"{text}; it waits for job {last.id} of {last.user}, {until}{others}. {how}"
    return Cause("GoingAway", sentence, command, waits=True, root=root)


def leaving(nodeset: str) -> str:
    """The root of what is told about workers of a NodeSet that leave."""
    return f"leaving workers of {nodeset}"


def _cordoned(pod: Object) -> bool:
    keys = (labels.POD_CORDON, labels.OLD_POD_CORDON)
    return any(annotation_of(pod, key) == "true" for key in keys)
