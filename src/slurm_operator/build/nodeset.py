"""NodeSet: worker pods, their claims and revision, their ssh configuration, and what all workers of a cluster share.

In: a NodeSet, its Controller and `Refs`. Out: objects. Called by `plan/nodeset.py`, which decides which workers there
should be, and by `slurm-operator render`, which shows them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from kube_runtime import quantity
from kube_runtime.strategic_merge import MergeConflict
from slurm_operator.api import text
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import INT32_MAX
from slurm_operator.api.nodeset import DAEMON, STATEFUL, NodeSet
from slurm_operator.api.problem import Path
from slurm_operator.build import claims as claims_
from slurm_operator.build import (
    hashes,
    images,
    labels,
    made_of,
    metadata,
    names,
    overlay,
    pods,
    services,
    sshd,
)
from slurm_operator.build.controller import manages_cgroups
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.loginset import SSH_VOLUME, SSSD_FILE, SSSD_VOLUME
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.build.revision import controller_revision, hash_of

SLURMD = labels.WORKER.daemon
SSHD_OPTIONS = (sshd.INCLUDE, "UsePAM yes", sshd.SFTP, "AuthenticationMethods publickey password")
CAPABILITIES = ("BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE")
LOG_FILE = "slurmd.log"
HARMLESS_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})
TERMINATING = "slurm-operator: Pod is terminating"
PRE_STOP = f"scontrol update nodename=$(hostname) state=down reason='{TERMINATING}';"
EXTRA_CONF: Path = ("spec", "extraConf")
HOSTNAME: Path = ("spec", "template", "spec", "hostname")
FEATURES = "Features"
# Fields of a pod by which it would have another name than its Slurm node, or stand where nobody placed it.
OWN_IDENTITY = ("nodeName", "subdomain", "hostnameOverride", "setHostnameAsFQDN")
# Fields of a pod that say on which Kubernetes nodes it may stand.
PLACING = ("nodeSelector", "affinity", "tolerations")

_DAEMON_TAINTS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Which worker: an ordinal, or the Kubernetes node that it runs on."""

    ordinal: int | None = None
    node: str | None = None
    hostname_override: str | None = None

    def identity(self, cr: NodeSet) -> str:
        """What its claims are named for."""
        return names.ordinal(cr, self.ordinal) if self.ordinal is not None else self.hostname(cr)

    def hostname(self, cr: NodeSet) -> str:
        """Its host name, and so its Slurm node name."""
        if self.ordinal is not None:
            return names.worker_hostname(cr, self.ordinal)
        return self.hostname_override or str(self.node).partition(".")[0]

    def name(self, cr: NodeSet) -> str:
        """Its pod's name; computed, so that a crash leaves no twin."""
        if self.ordinal is not None:
            return names.worker(cr, self.ordinal)
        return f"{cr.name}-{sha256(str(self.node).encode()).hexdigest()[:8]}"


def objects(cr: NodeSet, refs: Refs, nodes: Iterable[WorkerIdentity] = ()) -> list[Object]:
    """Every object of a NodeSet as if nothing were there yet; `nodes` are the workers of DaemonSet mode."""
    controller = refs.controller(cr.namespace, cr.spec.controller_ref)
    workers = list(nodes) if cr.is_daemon else [WorkerIdentity(ordinal=number) for number in range(cr.spec.replicas)]
    privileged = made_of.hash_of(cr) if is_privileged(cr, refs) else ""
    revision = hash_of(cr)
    result = [controller_revision(cr, 1, revision, privileged=privileged)]
    if cr.spec.ssh.enabled:
        result.append(ssh_config(cr))
    template = pod_template(cr, controller, refs, revision)
    for worker in workers:
        result += claims_.claims(cr, worker.identity(cr))
        result.append(pod(cr, template, worker))
    return result


def shared_objects(controller: Controller, refs: Refs) -> list[Object]:
    """What all workers of a cluster share; none without a NodeSet."""
    owners = refs.nodesets_of(controller)
    return [workers_service(controller, owners), workers_pdb(controller, owners)] if owners else []


def workers_service(controller: Controller, owners: Iterable[NodeSet]) -> Object:
    """The headless Service that gives workers their names."""
    selector = {labels.NAME: SLURMD, labels.CLUSTER: controller.name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _shared(names.workers_service(controller.name), controller, owners),
        "spec": services.headless_spec(selector, SLURMD, names.SLURMD_PORT),
    }


def workers_pdb(controller: Controller, owners: Iterable[NodeSet]) -> Object:
    """The PodDisruptionBudget of busy workers.

    A minimum above every possible count forbids each eviction of a pod that carries the label, without Kubernetes
    having to work out how many pods there should be: that sum is wrong in DaemonSet mode and after a scale-in.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _shared(names.workers_pdb(controller.name), controller, owners),
        "spec": {
            "minAvailable": INT32_MAX,
            "selector": {"matchLabels": {labels.POD_PROTECT: "true", labels.CLUSTER: controller.name}},
        },
    }


def _shared(name: str, controller: Controller, owners: Iterable[NodeSet]) -> Object:
    return {
        "name": name,
        "namespace": controller.namespace,
        "labels": {labels.CLUSTER: controller.name},
        "ownerReferences": [metadata.owner(each, controller=False) for each in owners],
    }


def ssh_config(cr: NodeSet) -> Object:
    """The ConfigMap with the workers' sshd_config."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata.child(cr, names.ssh_config(cr), _object_labels(cr)),
        "immutable": False,
        "data": {sshd.FILE: _sshd_config(cr)},
    }


def _sshd_config(cr: NodeSet) -> str:
    return sshd.config(SSHD_OPTIONS, cr.spec.ssh.extra_sshd_config, ("spec", "ssh", "extraSshdConfig"))


def _object_labels(cr: NodeSet) -> dict[str, str]:
    return {**labels.of(labels.WORKER, cr.name), labels.CLUSTER: cr.spec.controller_ref.name}


def pod_template(cr: NodeSet, controller: Controller, refs: Refs, revision: str = "") -> Object:
    """What all workers of a NodeSet have in common; `revision` is the newest one's hash when it is not its own."""
    key = controller.spec.slurm_key_ref
    key_hash = hashes.of_map(refs.secrets.get(key.name, {})) if key else ""
    template = pods.template(
        cr.spec.template,
        labels.WORKER,
        cr.name,
        _pod_spec(cr, controller, refs),
        {**content_hashes(cr, refs), **({labels.SLURM_KEY_HASH: key_hash} if key_hash else {})},
        {
            labels.CLUSTER: controller.name,
            labels.SCALING_MODE: DAEMON if cr.is_daemon else STATEFUL,
            labels.REVISION: revision or hash_of(cr, cr.status.collision_count),
        },
    )
    return {**template, "spec": _with_identity(template["spec"], controller)}


def _with_identity(spec: Mapping[str, Any], controller: Controller) -> Object:
    """A pod spec in which a worker has the name that Slurm and everybody else look for, whatever the overlay says."""
    kept = {key: value for key, value in spec.items() if key not in OWN_IDENTITY}
    return {**kept, "subdomain": names.workers_service(controller.name)}


def content_hashes(cr: NodeSet, refs: Refs) -> dict[str, str]:
    """Hashes of the files that a worker never reads again: another one takes another pod."""
    sssd = cr.spec.ssh.sssd_conf_ref
    sssd_conf = refs.secrets.get(sssd.name, {}).get(sssd.key, b"") if sssd else b""
    return {
        labels.SSHD_CONF_HASH: hashes.of_text(_sshd_config(cr)),
        labels.SSSD_CONF_HASH: hashes.of_bytes(sssd_conf),
    }


def placing_spec(cr: NodeSet) -> Object:
    """What of the pod spec decides which Kubernetes nodes a worker may stand on; no reference is followed for it."""
    user = {key: value for key, value in cr.spec.template.spec.items() if key in PLACING or key.startswith("$")}
    return pods.pod_spec({"tolerations": _tolerations(cr)}, user)


def pod(cr: NodeSet, template: Mapping[str, Any], worker: WorkerIdentity, pinned_to: str | None = None) -> Object:
    """One worker pod; `pinned_to` keeps an ordinal on its first Kubernetes node."""
    hostname = worker.hostname(cr)
    problem = text.dns_label(hostname)
    if problem:
        # The name of a DaemonSet worker comes from its Kubernetes node, a numbered one has it from the NodeSet.
        prefixed = worker.ordinal is not None and cr.spec.template.spec.get("hostname")
        raise InvalidSpec(HOSTNAME if prefixed else ("metadata", "name"), f"the worker's host name {problem}")
    own = {labels.POD_NAME: worker.name(cr), labels.POD_HOSTNAME: hostname}
    if worker.ordinal is not None:
        own[labels.POD_INDEX] = names.ordinal(cr, worker.ordinal)
    spec: Mapping[str, Any] = template["spec"]
    node = worker.node or pinned_to
    if node:
        spec = pods.pod_spec(_on_node(node), spec)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": worker.name(cr),
            "generateName": f"{cr.name}-",
            "namespace": cr.namespace,
            "labels": {**template["metadata"]["labels"], **own},
            "annotations": {**template["metadata"]["annotations"], **_assigned(worker)},
            "ownerReferences": [metadata.owner(cr)],
        },
        "spec": {
            **spec,
            "hostname": hostname,
            "volumes": claims_.volumes(cr, worker.identity(cr), list(spec.get("volumes") or ())),
        },
    }


def _assigned(worker: WorkerIdentity) -> dict[str, str]:
    return {labels.ASSIGNED_NODE: worker.node} if worker.node else {}


def _on_node(name: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _pod_spec(cr: NodeSet, controller: Controller, refs: Refs) -> Object:
    service = names.workers_service(controller.name)
    spec: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "subdomain": service,
        "dnsConfig": {"searches": [names.long_host(service, cr.namespace, refs.domain)]},
        "tolerations": _tolerations(cr),
        "initContainers": [pods.log_sidecar(LOG_FILE, _image(cr), cr.spec.logfile, is_waited_for=has_own_log(cr))],
        "containers": [_slurmd(cr, controller, refs)],
        "volumes": _volumes(cr, controller),
    }
    if not cr.spec.oversubscribe_node:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_ALONE]}}
    return spec


_ALONE: Object = {
    "labelSelector": {"matchExpressions": [{"key": labels.NAME, "operator": "In", "values": [SLURMD]}]},
    "topologyKey": "kubernetes.io/hostname",
}


def _tolerations(cr: NodeSet) -> list[Object]:
    ours: Object = {"key": labels.WORKER_TAINT, "operator": "Equal", "effect": "NoExecute"}
    if not cr.is_daemon:
        return [ours]
    # A worker belongs to its node: a cordon drains it in Slurm, it does not keep its pod away.
    return [ours, *({"key": key, "operator": "Exists", "effect": effect} for key, effect in _DAEMON_TAINTS)]


def _image(cr: NodeSet) -> str:
    return images.of(cr.spec.slurmd, SLURMD)


def _slurmd(cr: NodeSet, controller: Controller, refs: Refs) -> Object:
    ports = [{"name": SLURMD, "containerPort": names.SLURMD_PORT, "protocol": "TCP"}]
    if cr.spec.ssh.enabled:
        ports.append({"name": "ssh", "containerPort": names.SSH_PORT, "protocol": "TCP"})
    base: Object = {
        "name": SLURMD,
        "image": _image(cr),
        "args": ["-Z", "--conf-server", names.conf_server(controller), "--conf", f"'{node_conf(cr)}'"],
        "env": _env(cr),
        "ports": ports,
        **pods.daemon_probes(SLURMD, http=images.answers_http(_image(cr))),
        "lifecycle": {"preStop": {"exec": {"command": ["/usr/bin/sh", "-c", PRE_STOP]}}},
        "volumeMounts": _mounts(cr),
    }
    if manages_cgroups(controller, refs):
        base["securityContext"] = security_context()
    return pods.container(base, cr.spec.slurmd, "slurmd")


def security_context() -> Object:
    """The rights of a slurmd that manages cgroups."""
    return {"privileged": True, "capabilities": {"add": list(CAPABILITIES)}}


def is_privileged(cr: NodeSet, refs: Refs) -> bool:
    """Whether slurmd has rights over its node; where that is not known, it counts as if it had."""
    controller = refs.controllers.get(cr.spec.controller_ref.name)
    if controller is not None and not manages_cgroups(controller, refs):
        return False
    container: Mapping[str, Any] = {"securityContext": security_context()}
    for _, user in slurmd_overlays(cr):
        patch = {name: value for name, value in user.items() if name == "securityContext" or name.startswith("$")}
        try:
            container = overlay.merge_container(container, patch)
        except MergeConflict:
            return True
    security = container.get("securityContext")
    security = security if isinstance(security, Mapping) else {}
    added = (security.get("capabilities") or {}).get("add") or ()
    return bool(security.get("privileged")) or not HARMLESS_CAPABILITIES.issuperset(map(str, added))


def slurmd_overlays(cr: NodeSet) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """What the user lays over slurmd's container, and where it stands."""
    yield from _overlays(cr, SLURMD, cr.spec.slurmd, "containers")


def _overlays(cr: NodeSet, name: str, own: Mapping[str, Any], among: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    yield ("spec", name), own
    for index, container in enumerate(cr.spec.template.spec.get(among) or ()):
        if isinstance(container, Mapping) and container.get("name") == name:
            yield ("spec", "template", "spec", among, index), container


def _env(cr: NodeSet) -> list[Object]:
    limits = {
        **((cr.spec.template.spec.get("resources") or {}).get("limits") or {}),
        **((cr.spec.slurmd.get("resources") or {}).get("limits") or {}),
    }
    topology = {"fieldRef": {"fieldPath": f"metadata.annotations['{labels.TOPOLOGY}']"}}
    return [
        {"name": "SLINKY_TOPOLOGY", "valueFrom": topology},
        {"name": "POD_TOPOLOGY", "valueFrom": topology},
        {"name": "POD_CPUS", "value": str(quantity.whole_cores(limits.get("cpu")))},
        {"name": "POD_MEMORY", "value": str(quantity.mebibytes(limits.get("memory")))},
    ]


def node_conf(cr: NodeSet) -> str:
    """What slurmd registers its node with: the NodeSet's own feature and the user's options, sorted."""
    values: dict[str, tuple[str, list[str]]] = {}
    for option in text.options(cr.spec.extra_conf or ""):
        problem = option if isinstance(option, str) else text.shell_quoted(option[1])
        if problem or isinstance(option, str):
            raise InvalidSpec(EXTRA_CONF, str(problem))
        name = FEATURES if option[0].lower() in ("feature", "features") else option[0]
        values.setdefault(name.lower(), (name, []))[1].append(option[1])
    _, named = values.pop(FEATURES.lower(), (FEATURES, []))
    features = {cr.slurm_name, *(item for value in named for item in value.split(",") if item)}
    pairs = [f"{FEATURES}={','.join(sorted(features))}"]
    pairs += [f"{name}={','.join(items)}" for name, items in values.values()]
    return " ".join(sorted(pairs))


def _mounts(cr: NodeSet) -> list[Object]:
    mounts = [pods.mount(pods.ETC_VOLUME, pods.ETC, read_only=True), _log_mount(cr)]
    if not cr.spec.ssh.enabled:
        return mounts
    return [
        *mounts,
        pods.mount(SSH_VOLUME, f"/etc/ssh/{sshd.FILE}", read_only=True, sub_path=sshd.FILE),
        pods.mount(SSSD_VOLUME, f"/etc/sssd/{SSSD_FILE}", read_only=True, sub_path=SSSD_FILE),
    ]


def _log_mount(cr: NodeSet) -> Object:
    """The file alone: whoever can write in its folder could turn slurmd's log into a link to any of its files."""
    if not has_own_log(cr):
        return pods.mount(pods.LOG_VOLUME, pods.LOGS)
    return pods.mount(pods.LOG_VOLUME, f"{pods.LOGS}/{LOG_FILE}", sub_path=LOG_FILE)


def has_own_log(cr: NodeSet) -> bool:
    """Whether the log sidecar runs our script, and slurmd's log folder is not a volume of the user's."""
    mounts = (each for _, user in slurmd_overlays(cr) for each in user.get("volumeMounts") or ())
    paths = (str(each.get("mountPath")) for each in mounts if isinstance(each, Mapping))
    return not any(own_log_commands(cr)) and all(path.rstrip("/") != pods.LOGS for path in paths)


def own_log_commands(cr: NodeSet) -> Iterator[Path]:
    """Where the user lets the log sidecar run something else than our script; a null does so too."""
    for path, user in _overlays(cr, "logfile", cr.spec.logfile, "initContainers"):
        yield from ((*path, name) for name in user if name in ("command", "args") or name.startswith("$"))


def _volumes(cr: NodeSet, controller: Controller) -> list[Object]:
    key = controller.spec.slurm_key_ref
    sources = [pods.secret_file(key, pods.KEY_FILE)] if key else []
    volumes = [pods.projected(pods.ETC_VOLUME, sources), pods.log_dir()]
    if not cr.spec.ssh.enabled:
        return volumes
    if cr.spec.ssh.sssd_conf_ref is None:
        raise InvalidSpec(("spec", "ssh", "sssdConfRef", "name"), "must name a Secret when ssh is enabled")
    config = pods.config_map_file(names.ssh_config(cr), sshd.FILE, sshd.FILE, 0o600)
    return [
        *volumes,
        pods.projected(SSH_VOLUME, [config]),
        pods.projected(SSSD_VOLUME, [pods.secret_file(cr.spec.ssh.sssd_conf_ref, SSSD_FILE, 0o600)]),
    ]
