"""The trial of a configuration by slurmd: a short-lived pod with the worker's own image, and the verdict it ends with.

In: a Controller, its NodeSets, and the files of a candidate. Out: `kinds`, the distinct kinds of workers; a Pod for
each kind, and one ConfigMap for all of them; and `read`, which parses a pod's termination message. Called by
`plan/worker_trial.py`; `kinds` by `reconcile/cluster_world.py`.

The pod has everything that decides whether slurmd starts: image, security context, node selection, literal environment.
It has nothing that would let it reach or impersonate a worker: no Secret and so no key of the cluster, no token, no
claim, no hostPath, no device, no DNS name, and no label of a worker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from itertools import chain, zip_longest
from typing import Any

from kube_runtime import quantity
from kube_runtime.text import printable
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import GROUP
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import hostnames, labels, metadata, names, nodeset, pods
from slurm_operator.build.errors import BuildError
from slurm_operator.build.loginset import SSH_VOLUME, SSSD_VOLUME
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.slurm import conf, hostlist

# The version of the verdict line; any other version is UNCLEAR.
VERSION = 1
ACCEPTED, REFUSED, UNCLEAR = "accepted", "refused", "unclear"
_LINE = re.compile(r'worker-trial version=(?P<version>\d{1,9}) stage=(?P<stage>[a-z]{1,16}) reason="(?P<reason>.*)"')
MAX_REASON_CHARACTERS = 1500

SCRIPT = "worker_trial.sh"
# Files with records for some nodes alone, and the keys that such a record may begin with.
FILES_BY_NODE = ("gres.conf", "helpers.conf", "job_container.conf")
RECORDS_BY_NODE = frozenset({"basepath", "feature", "name", "nodename"})
# No more kinds of workers than this are tried; the others are reported as untried.
MAX_KINDS = 8
CONTAINER = nodeset.SLURMD
CANDIDATE_VOLUME, CANDIDATE_DIR = "candidate", "/etc/slurm-config/candidate"
GOOD_VOLUME, GOOD_DIR = "good", "/etc/slurm-config/good"
# Annotations of a trial pod: the hash of all files that it tries, and that of what slurmd reads of them.
FILES_HASH, PART_HASH = f"{GROUP}/trial-files-hash", f"{GROUP}/trial-part-hash"
# For slurmd to start, first with the candidate and then with the last good files; and for the pod as a whole.
READY_LIMIT_SECONDS = 10
POD_LIMIT_SECONDS = 45
# Enough to start slurmd, but never more than the worker has.
REQUESTS: Mapping[str, str] = {"cpu": "20m", "memory": "48Mi"}
LIMITS: Mapping[str, str] = {"cpu": "1", "memory": "256Mi"}

# Copied from the worker's pod: where it may run, with which rights, and how its image is pulled.
POD_FIELDS = (
    "hostUsers",
    "imagePullSecrets",
    "nodeSelector",
    "os",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
)
CONTAINER_FIELDS = ("image", "imagePullPolicy", "securityContext", "workingDir")
# Volumes that any number of pods may share; all others become empty folders.
KEPT_SOURCES = frozenset({"configMap", "downwardAPI", "emptyDir", "image"})
# Variables and volumes of the operator's own that slurmd itself does not read.
ENTRY_POINT_VARIABLES = frozenset({"POD_CPUS", "POD_MEMORY", "POD_TOPOLOGY", "SLINKY_TOPOLOGY"})
OWN_PREFIX = "TRIAL_"
OWN_VOLUMES = frozenset({pods.ETC_VOLUME, pods.LOG_VOLUME, SSH_VOLUME, SSSD_VOLUME})
# How a variable begins in `WorkerKind.left_out`; a path begins with a slash.
VARIABLE = "$"
_DIGITS = "0123456789"
# What the host names of numbered workers begin with, how many digits follow at least, and whether they are numbered.
_Naming = tuple[str, int, bool]


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """Workers that one trial stands for: same image, same rights, same environment."""

    nodesets: tuple[str, ...]
    spec: Mapping[str, Any]
    # What its workers have and its trial pod does not: paths, `$NAME` of variables, and other things in words. What
    # slurmd misses may be among them: `plan/worker_trial_refusal.py`.
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialLine:
    """The verdict that a trial pod ended with; UNCLEAR, with the reason, if it cannot be understood."""

    stage: str
    reason: str = ""


def kinds(
    cr: Controller, nodesets: Iterable[NodeSet], refs: Refs, files: Mapping[str, str] | None = None
) -> tuple[WorkerKind, ...]:
    """The kinds of workers of these NodeSets that may differ in what they read of these files.

    A NodeSet that cannot be built has no workers to try.
    """
    there = list(nodesets)
    nodes = _nodes_of(there, files or {})
    built = [list(_kinds_of(cr, each, refs, nodes[_naming(each)])) for each in there]
    found: dict[str, WorkerKind] = {}
    # One of each NodeSet comes first: only so many kinds are tried.
    for kind in filter(None, chain.from_iterable(zip_longest(*built))):
        key = json.dumps([kind.spec, kind.left_out], sort_keys=True)
        before = found[key].nodesets if key in found else ()
        found[key] = WorkerKind(tuple(dict.fromkeys((*before, *kind.nodesets))), kind.spec, kind.left_out)
    return tuple(found.values())


def _recorded_hosts(files: Mapping[str, str]) -> Iterator[list[str]]:
    """The nodes that each record in these files is for, if it names any."""
    room = hostlist.MAX_NAMES
    documents = (conf.parse(files.get(name, ""), file=name, records=RECORDS_BY_NODE) for name in FILES_BY_NODE)
    for record in (each for document in documents for each in document.all("NodeName")):
        try:
            hosts = hostlist.expand(record.value, limit=room)
        except hostlist.HostListError:
            # The linter has reported it, or nobody would wait for so many.
            continue
        room -= len(hosts)
        yield hosts


def _naming(each: NodeSet) -> _Naming:
    """How a NodeSet names its workers; those that do it alike have the same names."""
    return hostnames.prefix(each), each.spec.ordinal_padding, hostnames.is_numbered(each)


def _nodes_of(nodesets: Iterable[NodeSet], files: Mapping[str, str]) -> dict[_Naming, dict[str, None]]:
    """For each record a node of each NodeSet to try it as, in order, and no more than tell that they are too many."""
    namings = {_naming(each): each for each in nodesets}
    by_prefix: dict[str, list[NodeSet]] = {}
    for (prefix, _, _), each in namings.items():
        by_prefix.setdefault(prefix, []).append(each)
    # A prefix may itself end in digits.
    stems = {prefix.rstrip(_DIGITS) for prefix in by_prefix}
    nodes: dict[_Naming, dict[str, None]] = {naming: {} for naming in namings}
    for hosts in _recorded_hosts(files):
        numbered = (host for host in hosts if host.rstrip(_DIGITS) in stems)
        for naming, host in _first_hosts(numbered, by_prefix).items():
            if len(nodes[naming]) <= MAX_KINDS:
                nodes[naming][host] = None
    return nodes


def _first_hosts(hosts: Iterable[str], by_prefix: Mapping[str, Sequence[NodeSet]]) -> dict[_Naming, str]:
    """The first name that workers may have; each name is looked at once, however many NodeSets there are."""
    found: dict[_Naming, str] = {}
    for host in hosts:
        prefixes = (host[:end] for end in range(len(host.rstrip(_DIGITS)), len(host)))
        for each in (each for prefix in prefixes for each in by_prefix.get(prefix, ())):
            if hostnames.may_have(each, host):
                found.setdefault(_naming(each), host)
    return found


def _kinds_of(cr: Controller, each: NodeSet, refs: Refs, nodes: Collection[str]) -> Iterator[WorkerKind]:
    """The workers of a NodeSet as each of these nodes, or without a name if no record is for it."""
    try:
        kind = _kind(cr, each, refs)
    except BuildError:
        return
    yield from (_as_node(kind, node) for node in nodes) if nodes else (kind,)


def _as_node(kind: WorkerKind, node: str) -> WorkerKind:
    container = kind.spec["containers"][0]
    env = [*container["env"], {"name": "TRIAL_NODE_NAME", "value": node}]
    return replace(kind, spec={**kind.spec, "containers": [{**container, "env": env}]})


def _kind(cr: Controller, each: NodeSet, refs: Refs) -> WorkerKind:
    worker = nodeset.pod_template(each, cr, refs)["spec"]
    slurmd = next(container for container in worker["containers"] if container["name"] == CONTAINER)
    mounts, volumes = _volumes(slurmd, worker)
    container: Object = {
        "name": CONTAINER,
        **{name: slurmd[name] for name in CONTAINER_FIELDS if name in slurmd},
        "command": pods.shell(SCRIPT),
        "env": [*_environment(slurmd), *_own_environment(each, slurmd)],
        "resources": _resources(slurmd),
        "volumeMounts": mounts,
    }
    affinity = (worker.get("affinity") or {}).get("nodeAffinity")
    spec: Object = {
        **{name: worker[name] for name in POD_FIELDS if name in worker},
        **({"affinity": {"nodeAffinity": affinity}} if affinity else {}),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": POD_LIMIT_SECONDS,
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
        "volumes": volumes,
    }
    left_out = (*sorted(_paths_left_out(slurmd, worker)), *_variables_left_out(slurmd), *_programs_left_out(slurmd))
    return WorkerKind((each.name,), spec, left_out)


def _mounts(slurmd: Mapping[str, Any]) -> list[Object]:
    return [each for each in slurmd.get("volumeMounts") or () if each["name"] not in OWN_VOLUMES]


def _sources(worker: Mapping[str, Any]) -> dict[str, Object]:
    return {str(volume["name"]): volume for volume in worker.get("volumes") or ()}


def _volumes(slurmd: Mapping[str, Any], worker: Mapping[str, Any]) -> tuple[list[Object], list[Object]]:
    """Mounts and volumes of the trial pod."""
    sources, mounts = _sources(worker), _mounts(slurmd)
    used = {str(each["name"]): sources.get(str(each["name"]), {}) for each in mounts}
    lacking = {name for name, volume in used.items() if not KEPT_SOURCES & volume.keys()}
    volumes = [{"name": name, "emptyDir": {}} if name in lacking else volume for name, volume in used.items()]
    # An empty folder has no subPath to mount.
    kept = [each for each in mounts if each["name"] not in lacking or not each.keys() & {"subPath", "subPathExpr"}]
    volumes = [each for each in volumes if any(mount["name"] == each["name"] for mount in kept)]
    return kept, volumes


def _paths_left_out(slurmd: Mapping[str, Any], worker: Mapping[str, Any]) -> Iterator[str]:
    """Where a worker has content that its trial pod lacks: in its volumes, and in what other containers fill."""
    others = (each for each in _containers(worker) if each["name"] != CONTAINER)
    filled = {mount["name"] for each in others for mount in each.get("volumeMounts") or ()}
    sources = _sources(worker)
    for mount in _mounts(slurmd):
        volume = sources.get(str(mount["name"]), {})
        is_filled = "emptyDir" in volume and mount["name"] in filled
        if is_filled or not KEPT_SOURCES & volume.keys():
            yield str(mount["mountPath"]).rstrip("/") or "/"


def _containers(worker: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(worker.get("initContainers") or ()), *worker["containers"]]


def _variables_left_out(slurmd: Mapping[str, Any]) -> Iterator[str]:
    for entry in slurmd.get("env") or ():
        if not _is_kept(entry) and entry["name"] not in ENTRY_POINT_VARIABLES:
            yield f"{VARIABLE}{entry['name']}"
    for each in slurmd.get("envFrom") or ():
        named = (("ConfigMap", each.get("configMapRef")), ("Secret", each.get("secretRef")))
        yield from (f"the variables of {kind} {found.get('name')}" for kind, found in named if found)


def _programs_left_out(slurmd: Mapping[str, Any]) -> Iterator[str]:
    """Programs of the user's that may prepare what slurmd needs; the trial has its own."""
    if slurmd.get("command"):
        yield "the command of slurmd's container"
    if (slurmd.get("lifecycle") or {}).get("postStart"):
        yield "the postStart hook of slurmd's container"


def _environment(slurmd: Mapping[str, Any]) -> Iterator[Object]:
    """Literal variables alone, since a reference may lead to a Secret; without those that only the entry point reads.

    Also without those that the trial's own script reads: it may be privileged, so only the operator may steer it.
    """
    yield from (entry for entry in slurmd.get("env") or () if _is_kept(entry))


def _is_kept(entry: Mapping[str, Any]) -> bool:
    name = str(entry["name"])
    return "valueFrom" not in entry and name not in ENTRY_POINT_VARIABLES and not name.startswith(OWN_PREFIX)


def _own_environment(each: NodeSet, slurmd: Mapping[str, Any]) -> list[Object]:
    values = {
        "TRIAL_CANDIDATE": CANDIDATE_DIR,
        "TRIAL_GOOD": GOOD_DIR,
        "TRIAL_NODE_CONF": _node_conf(each),
        "TRIAL_DEVICES": "given" if asks_for_devices(slurmd) else "here",
        "TRIAL_READY_LIMIT": str(READY_LIMIT_SECONDS),
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def _node_conf(each: NodeSet) -> str:
    """The node options of slurmd without features: these differ between NodeSets, and never stop slurmd."""
    options = nodeset.node_conf(each).split()
    return " ".join(option for option in options if not option.startswith(f"{nodeset.FEATURES}="))


def asks_for_devices(slurmd: Mapping[str, Any]) -> bool:
    """Whether the worker gets devices from Kubernetes (extended resource or claim); the trial pod asks for none."""
    resources = slurmd.get("resources") or {}
    wanted = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return bool(resources.get("claims")) or any("/" in name for name in wanted)


def _resources(slurmd: Mapping[str, Any]) -> Object:
    limits = (slurmd.get("resources") or {}).get("limits") or {}
    bounded = {name: _smaller(value, limits.get(name)) for name, value in LIMITS.items()}
    return {"limits": bounded, "requests": {name: _smaller(value, bounded[name]) for name, value in REQUESTS.items()}}


def _smaller(ours: str, theirs: object) -> str:
    found = quantity.parse(str(theirs)) if theirs is not None else None
    return str(theirs) if found is not None and found < (quantity.parse(ours) or Fraction(0)) else ours


def config_map(cr: Controller, files: Mapping[str, str], hash_: str) -> Object:
    """The files to try. Their hash is in the name, so the content under a name never changes."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata.child(cr, names.worker_trial_config(cr, hash_), object_labels(cr)),
        "immutable": True,
        "data": dict(files),
    }


def pod(cr: Controller, kind: WorkerKind, hash_: str, part_hash: str = "") -> Object:
    """The pod that tries these files for one kind of worker; its name identifies both.

    `part_hash` is that of what slurmd reads of them: by it the pod is found if only the rest of the files changes.
    """
    own = [
        {"name": CANDIDATE_VOLUME, "configMap": {"name": names.worker_trial_config(cr, hash_)}},
        {"name": GOOD_VOLUME, "configMap": {"name": names.config(cr)}},
    ]
    mounts = [
        pods.mount(CANDIDATE_VOLUME, CANDIDATE_DIR, read_only=True),
        pods.mount(GOOD_VOLUME, GOOD_DIR, read_only=True),
    ]
    container = kind.spec["containers"][0]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(cr, kind, hash_),
            "namespace": cr.namespace,
            "labels": object_labels(cr),
            "annotations": {FILES_HASH: hash_, PART_HASH: part_hash},
            "ownerReferences": [metadata.owner(cr)],
        },
        "spec": {
            **kind.spec,
            "hostname": f"trial-{_key(kind, hash_)}",
            "containers": [{**container, "volumeMounts": [*container["volumeMounts"], *mounts]}],
            "volumes": [*kind.spec["volumes"], *own],
        },
    }


def object_labels(cr: Controller) -> dict[str, str]:
    """Labels that select the objects of trials, and no worker."""
    return {**labels.of(labels.WORKER_TRIAL, cr.name), labels.CLUSTER: cr.name}


def pod_name(cr: Controller, kind: WorkerKind, hash_: str) -> str:
    """The name of the pod that tries files with this hash for one kind of worker."""
    return names.worker_trial(cr, _key(kind, hash_))


def _key(kind: WorkerKind, hash_: str) -> str:
    return kind_hash(kind, hash_)[:8]


def kind_hash(kind: WorkerKind, hash_: str) -> str:
    """The hash of what is tried, and of how: it is the same for NodeSets whose workers are of one kind."""
    return sha256(json.dumps([hash_, kind.spec, kind.left_out], sort_keys=True).encode()).hexdigest()


def read(message: str) -> TrialLine:
    """The verdict in a termination message; its length is bounded, since anybody may have built the image."""
    lines = [found for found in map(_LINE.fullmatch, message.splitlines()) if found is not None]
    if not lines:
        text = printable(message, MAX_REASON_CHARACTERS)
        return TrialLine(UNCLEAR, "the trial pod ended without a verdict" + (f": {text}" if text else ""))
    last = lines[-1]
    if int(last["version"]) != VERSION or last["stage"] not in (ACCEPTED, REFUSED, UNCLEAR):
        return TrialLine(UNCLEAR, "this operator does not understand the verdict of the trial pod")
    return TrialLine(last["stage"], printable(last["reason"], MAX_REASON_CHARACTERS))
