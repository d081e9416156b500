"""Controller: slurmctld's StatefulSet, its Services, its configuration and its ServiceMonitor.

In: a Controller and `Refs`. Out: every object that it owns. Called in the reconcile of `reconcile/controller.py`, and
beforehand by `slurm-operator render`, `kubectl slurm plan` and admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from slurm_operator.api.controller import Controller, Endpoint, ServiceMonitor
from slurm_operator.api.meta import LocalObjectReference, Metadata
from slurm_operator.api.problem import Path
from slurm_operator.build import hashes, images, labels, made_of, metadata, names, pods, services, sidecar
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.keys import jwt_key, slurm_key
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import FILE, STATE_DIR, SlurmConf, slurm_conf

CGROUP_FILE = "cgroup.conf"
CGROUP_CONF = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n"
RESERVED_FILES = frozenset({"slurm.conf", "slurmdbd.conf"})

STATE_VOLUME = "statesave"
# What no claim is without; the values are those of the chart.
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}
SOCKET_VOLUME = "slurm-authsocket"
SOCKET_DIR = "/run/slurmctld"
CONFIG_DIR = "/etc/slurm-config"
GOOD_VOLUME, GOOD_DIR = "slurm-config", f"{CONFIG_DIR}/good"
CANDIDATE_VOLUME, CANDIDATE_DIR = "slurm-config-candidate", f"{CONFIG_DIR}/candidate"
KEYS_VOLUME, KEYS_DIR = "slurm-keys", f"{CONFIG_DIR}/keys"
# What the sidecar understands; it stands on its pod.
PROTOCOL = "1"
# A key that no file of Slurm has: the note to the sidecar, beside the files.
NOTE = ".candidate"
# etcd takes no more than this in one object, and the object is more than its files.
MAX_FILES_BYTES = 1_000_000
# The files in /etc/slurm: slurmctld's group may read and run them (prolog scripts), nobody else may.
ETC_MODE = 0o610
METRICS_PATHS = ("/metrics/jobs", "/metrics/nodes", "/metrics/partitions", "/metrics/scheduler")


@dataclass(frozen=True, slots=True)
class Built:
    """Every object that a Controller owns, and the slurm.conf in one of them."""

    objects: tuple[Object, ...]
    conf: SlurmConf


def built(cr: Controller, refs: Refs) -> Built:
    """All that a Controller asks for; slurm.conf is built once for it."""
    conf = slurm_conf(cr, refs)
    if cr.spec.external:
        return Built((external_config_map(cr, conf),), conf)
    config = config_map(cr, refs, conf)
    result = (internal_service(cr), service(cr), config, stateful_set(cr, refs, config))
    monitor = service_monitor(cr, refs)
    return Built((*result, monitor) if monitor else result, conf)


def objects(cr: Controller, refs: Refs) -> list[Object]:
    """Every object that a Controller owns."""
    return list(built(cr, refs).objects)


def component_labels(cr: Controller) -> dict[str, str]:
    """The labels of a Controller's objects."""
    return labels.of(labels.CONTROLLER, cr.name)


def _selector(cr: Controller) -> dict[str, str]:
    return labels.selector(labels.CONTROLLER, cr.name)


def internal_service(cr: Controller) -> Object:
    """The headless Service that gives controller pods their names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata.child(cr, names.controller_internal(cr), component_labels(cr)),
        "spec": services.headless_spec(_selector(cr), labels.CONTROLLER.daemon, names.SLURMCTLD_PORT),
    }


def service(cr: Controller) -> Object:
    """The Service in front of every controller pod."""
    return services.service(cr, names.controller(cr), labels.CONTROLLER, names.SLURMCTLD_PORT, cr.spec.service)


def config_map(cr: Controller, refs: Refs, conf: SlurmConf) -> Object:
    """The ConfigMap with slurm.conf; with all files where a sidecar hands them over."""
    data = {FILE: conf.text}
    if not any(CGROUP_FILE in files for files in config_files(cr, refs)):
        data[CGROUP_FILE] = CGROUP_CONF
    if cr.spec.inplace_reconfigure:
        data = _whole(cr, refs, data)
    return good_map(cr, data)


def _whole(cr: Controller, refs: Refs, data: dict[str, str]) -> dict[str, str]:
    for name in extra_names(cr):
        data = {**data, **{key: text for key, text in refs.config_maps.get(name, {}).items() if key != FILE}}
    size = sum(len(key) + len(text.encode()) for key, text in data.items())
    if size > MAX_FILES_BYTES:
        message = f"the files hold {size} bytes together; {MAX_FILES_BYTES} fit into the ConfigMap that hands them over"
        raise InvalidSpec(("spec", "configFileRefs"), message)
    return data


def is_config_map(value: Object, cr: Controller) -> bool:
    """Whether an object is the ConfigMap of a Controller's configuration."""
    return bool(value["kind"] == "ConfigMap" and value["metadata"]["name"] == names.config(cr))


def good_map(cr: Controller, files: Mapping[str, str]) -> Object:
    """The ConfigMap with the last good configuration."""
    return _config_map(metadata.child(cr, names.config(cr), component_labels(cr)), dict(files))


def candidate_map(cr: Controller, files: Mapping[str, str], note: str) -> Object:
    """The ConfigMap with the configuration that is being tried, and what the sidecar must know of it."""
    meta = metadata.child(cr, names.config_candidate(cr), component_labels(cr))
    return _config_map(meta, {**files, NOTE: note})


def external_config_map(cr: Controller, conf: SlurmConf) -> Object:
    """The ConfigMap that slurmrestd reads when slurmctld is elsewhere."""
    meta = metadata.child(cr, names.config(cr), component_labels(cr), extra=cr.spec.template.metadata)
    return _config_map(meta, {FILE: conf.text})


def _config_map(meta: Object, data: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": False, "data": data}


def config_files(cr: Controller, refs: Refs) -> Iterator[dict[str, str]]:
    """The files of each referenced ConfigMap."""
    for index, ref in enumerate(cr.spec.config_file_refs or ()):
        path: Path = ("spec", "configFileRefs", index, "name")
        data = dict(refs.config_map(ref.name, path))
        reserved = RESERVED_FILES & data.keys()
        if reserved:
            raise InvalidSpec(path, f"ConfigMap {ref.name!r} holds {min(reserved)}, which the operator writes")
        yield data


def manages_cgroups(cr: Controller, refs: Refs) -> bool:
    """Whether slurmd manages cgroups, and so needs rights over them."""
    text = CGROUP_CONF
    for ref in cr.spec.config_file_refs or ():
        text = refs.config_maps.get(ref.name, {}).get(CGROUP_FILE, text)
    values = [line.partition("#")[0].strip().lower().replace(" ", "") for line in text.splitlines()]
    return "cgroupplugin=disabled" not in values


def stateful_set(cr: Controller, refs: Refs, config: Object) -> Object:
    """The StatefulSet of slurmctld."""
    spec: Object = {
        "replicas": cr.replicas,
        "revisionHistoryLimit": 0,
        "serviceName": refs.governing_services.get(names.controller(cr), names.controller_internal(cr)),
        "selector": {"matchLabels": _selector(cr)},
        "template": pod_template(cr, refs, config),
    }
    claims = _claim_templates(cr)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": made_of.workload(cr, names.controller(cr), component_labels(cr)),
        "spec": {**spec, "volumeClaimTemplates": claims} if claims else spec,
    }


def pod_template(cr: Controller, refs: Refs, config: Object) -> Object:
    """The pod template of slurmctld."""
    return pods.template(
        cr.spec.template,
        labels.CONTROLLER,
        cr.name,
        _pod_spec(cr),
        _hashes(cr, refs, config),
    )


def _hashes(cr: Controller, refs: Refs, config: Object) -> dict[str, str]:
    result = {
        **metadata.restart(cr),
        labels.SLURM_KEY_HASH: hashes.of_map(refs.secrets.get(slurm_key(cr).name, {})),
        labels.JWT_KEY_HASH: hashes.of_map(refs.secrets.get(jwt_key(cr).name, {})),
    }
    if not cr.spec.inplace_reconfigure:
        # Every file that slurmctld reads counts: without the sidecar, only a new pod sees a change.
        files = {f"{name}/{key}": refs.config_maps[name][key] for name in extra_names(cr) for key in _keys(refs, name)}
        result[labels.CONFIG_HASH] = hashes.of_map({**config["data"], **files})
    else:
        result[labels.CONFIG_PROTOCOL] = PROTOCOL
    return result


def _keys(refs: Refs, name: str) -> list[str]:
    return sorted(refs.config_maps.get(name, {}))


def _pod_spec(cr: Controller) -> Object:
    term = {"labelSelector": {"matchLabels": _selector(cr)}, "topologyKey": "kubernetes.io/hostname"}
    sidecars = [_reconfigure(cr)] if cr.spec.inplace_reconfigure else []
    return {
        "automountServiceAccountToken": False,
        "securityContext": pods.restricted_pod(pods.SLURM_USER_ID),
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "initContainers": [*sidecars, _logfile(cr)],
        "containers": [_slurmctld(cr)],
        "volumes": _volumes(cr),
    }


def _image(cr: Controller) -> str:
    return images.of(cr.spec.slurmctld, "slurmctld")


def _logfile(cr: Controller) -> Object:
    return pods.log_sidecar("slurmctld.log", _image(cr), cr.spec.logfile, pods.restricted())


def _reconfigure(cr: Controller) -> Object:
    base: Object = {
        "name": "reconfigure",
        "image": _image(cr),
        "restartPolicy": "Always",
        "command": ["tini", "-g", "--", "bash", "-c", sidecar.program()],
        "securityContext": pods.restricted(pods.SLURM_USER_ID),
        # Nothing else of the pod starts before /etc/slurm is filled.
        "startupProbe": {
            "exec": {"command": ["test", "-e", f"{pods.ETC}/..data"]},
            "periodSeconds": 1,
            "failureThreshold": 120,
        },
        "volumeMounts": [
            pods.mount(pods.ETC_VOLUME, pods.ETC),
            pods.mount(GOOD_VOLUME, GOOD_DIR, read_only=True),
            pods.mount(CANDIDATE_VOLUME, CANDIDATE_DIR, read_only=True),
            pods.mount(KEYS_VOLUME, KEYS_DIR, read_only=True),
            pods.mount(SOCKET_VOLUME, SOCKET_DIR, read_only=True),
        ],
    }
    return pods.container(base, cr.spec.reconfigure, "reconfigure")


def _slurmctld(cr: Controller) -> Object:
    port = labels.CONTROLLER.daemon
    base: Object = {
        "name": port,
        "image": _image(cr),
        "ports": [{"name": port, "containerPort": names.SLURMCTLD_PORT, "protocol": "TCP"}],
        # A standby is alive but never ready in Slurm's own sense.
        **pods.daemon_probes(
            port, http=images.answers_http(_image(cr)), readiness="/livez" if cr.replicas > 1 else "/readyz"
        ),
        "securityContext": pods.restricted(pods.SLURM_USER_ID),
        "volumeMounts": [
            pods.mount(pods.ETC_VOLUME, pods.ETC, read_only=True),
            *([pods.mount(KEYS_VOLUME, KEYS_DIR, read_only=True)] if cr.spec.inplace_reconfigure else []),
            pods.mount(pods.RUN_VOLUME, pods.RUN),
            pods.mount(STATE_VOLUME, f"{STATE_DIR}/{cr.cluster_name}"),
            pods.mount(SOCKET_VOLUME, SOCKET_DIR),
            pods.mount(pods.LOG_VOLUME, pods.LOGS),
        ],
    }
    return pods.container(base, cr.spec.slurmctld, "slurmctld")


def _volumes(cr: Controller) -> list[Object]:
    volumes = [
        *_etc_volumes(cr),
        pods.log_dir(),
        pods.memory_dir(pods.RUN_VOLUME),
        {"name": SOCKET_VOLUME, "emptyDir": {}},
    ]
    state = _state_volume(cr)
    return [*volumes, state] if state else volumes


def _etc_volumes(cr: Controller) -> list[Object]:
    if not cr.spec.inplace_reconfigure:
        files = [{"configMap": {"name": name}} for name in (names.config(cr), *extra_names(cr))]
        return [pods.projected(pods.ETC_VOLUME, [*files[:1], *_keys_of(cr), *files[1:], *_jwks(cr)], ETC_MODE)]
    return [
        pods.memory_dir(pods.ETC_VOLUME),
        pods.projected(KEYS_VOLUME, [*_keys_of(cr), *_jwks(cr)], ETC_MODE),
        pods.projected(GOOD_VOLUME, [{"configMap": {"name": names.config(cr)}}], ETC_MODE),
        pods.projected(
            CANDIDATE_VOLUME, [{"configMap": {"name": names.config_candidate(cr), "optional": True}}], ETC_MODE
        ),
    ]


def _keys_of(cr: Controller) -> list[Object]:
    return [pods.secret_file(slurm_key(cr), pods.KEY_FILE), pods.secret_file(jwt_key(cr), pods.JWT_FILE)]


def _jwks(cr: Controller) -> list[Object]:
    jwks = cr.spec.jwks_key_ref
    return [pods.config_map_file(jwks.name, jwks.key, pods.JWKS_FILE)] if jwks else []


def extra_names(cr: Controller) -> list[str]:
    """The ConfigMaps whose files stand beside slurm.conf, sorted, each once."""
    pooled: tuple[tuple[LocalObjectReference, ...] | None, ...] = (
        cr.spec.config_file_refs,
        cr.spec.prolog_script_refs,
        cr.spec.epilog_script_refs,
        cr.spec.prolog_slurmctld_script_refs,
        cr.spec.epilog_slurmctld_script_refs,
    )
    return sorted({ref.name for refs in pooled for ref in refs or ()})


def _state_volume(cr: Controller) -> Object | None:
    persistence = cr.spec.persistence
    if cr.replicas > 1 and not (persistence.enabled and persistence.existing_claim):
        raise InvalidSpec(
            ("spec", "persistence", "existingClaim"),
            "high availability needs an existing claim that all controllers can write to (ReadWriteMany)",
        )
    if not persistence.enabled:
        return {"name": STATE_VOLUME, "emptyDir": {}}
    if persistence.existing_claim:
        return {"name": STATE_VOLUME, "persistentVolumeClaim": {"claimName": persistence.existing_claim}}
    return None


def _claim_templates(cr: Controller) -> list[Object]:
    persistence = cr.spec.persistence
    if not persistence.enabled or persistence.existing_claim:
        return []
    # Through JSON, since to_builtins leaves tuples, which never equal the lists that the API server returns.
    spec: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(persistence))
    spec = {**CLAIM, **{key: value for key, value in spec.items() if key not in ("enabled", "existingClaim")}}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": STATE_VOLUME, "namespace": cr.namespace},
            "spec": spec,
        }
    ]


def service_monitor(cr: Controller, refs: Refs) -> Object | None:
    """The ServiceMonitor, when metrics are on and the Prometheus operator is there."""
    wanted = cr.spec.metrics.service_monitor
    if not (cr.spec.metrics.enabled and wanted and wanted.enabled and refs.serves_service_monitors):
        return None
    extra = Metadata(labels=wanted.labels, annotations=wanted.annotations)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata.child(cr, names.controller(cr), component_labels(cr), extra=extra),
        "spec": {
            "selector": {"matchLabels": _selector(cr)},
            "namespaceSelector": {"matchNames": [cr.namespace]},
            "endpoints": [_endpoint(each, wanted) for each in _endpoints(wanted)],
        },
    }


def _endpoints(monitor: ServiceMonitor) -> tuple[Endpoint, ...]:
    return monitor.endpoints or tuple(Endpoint(path=path) for path in METRICS_PATHS)


def _endpoint(endpoint: Endpoint, monitor: ServiceMonitor) -> Object:
    result: Object = {"path": endpoint.path, "port": labels.CONTROLLER.daemon, "scheme": "http"}
    interval = endpoint.interval or monitor.interval
    timeout = endpoint.scrape_timeout or monitor.scrape_timeout
    if interval:
        result["interval"] = interval
    return {**result, "scrapeTimeout": timeout} if timeout else result
