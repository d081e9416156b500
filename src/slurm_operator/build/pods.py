"""Parts that every Slurm pod is made of: probes, security contexts, volumes, the log sidecar, the final merge.

Used by `build/controller.py`, `accounting.py`, `restapi.py`, `loginset.py` and `nodeset.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from kube_runtime.strategic_merge import MergeConflict
from slurm_operator.api.meta import PodTemplate, SecretKeySelector
from slurm_operator.build import labels, metadata, overlay
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.metadata import Object

SLURM_USER_ID = 401
NOBODY_ID = 65534

ETC = "/etc/slurm"
LOGS = "/var/log/slurm"
RUN = "/run"

ETC_VOLUME = "slurm-etc"
LOG_VOLUME = "slurm-logfile"
RUN_VOLUME = "run"
LOG_BYTES = "64Mi"

KEY_FILE = "slurm.key"
JWT_FILE = "jwt.key"
JWKS_FILE = "jwks.json"

_KUBELET_EXPANSION = re.compile(r"\$(?=[$(])")


@cache
def script(name: str) -> str:
    """A script that a container runs."""
    return files(__package__).joinpath("scripts", name).read_text()


def as_argument(text: str) -> str:
    """A script as an argument of a container's command: the kubelet would turn `$$` into `$`, and expand `$(…)`."""
    return _KUBELET_EXPANSION.sub("$$", text)


def shell(name: str) -> list[str]:
    """The command of a container that runs a script exactly as it is written."""
    return ["sh", "-c", as_argument(script(name))]


def restricted(user: int | None = None) -> Object:
    """The security context of a container under the restricted profile."""
    context: Object = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {**context, "runAsUser": user, "runAsGroup": user} if user is not None else context


def restricted_pod(user: int) -> Object:
    """The security context of a pod under the restricted profile."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def http_probe(path: str, port: str) -> Object:
    """A probe that asks the daemon itself."""
    return {"httpGet": {"path": path, "port": port}}


def tcp_probe(port: str | int) -> Object:
    """A probe that only connects."""
    return {"tcpSocket": {"port": port}}


def patient(probe: Mapping[str, Any]) -> Object:
    """A probe that gives up after a minute."""
    return {**probe, "failureThreshold": 6, "periodSeconds": 10}


def daemon_probes(port: str, *, http: bool, readiness: str = "/readyz") -> Object:
    """Startup, liveness and readiness of slurmctld and slurmd."""
    alive = http_probe("/livez", port) if http else tcp_probe(port)
    ready = http_probe(readiness, port) if http else tcp_probe(port)
    return {"startupProbe": patient(alive), "livenessProbe": patient(alive), "readinessProbe": ready}


def mount(volume: str, path: str, *, read_only: bool = False, sub_path: str | None = None) -> Object:
    """A volume mount."""
    result: Object = {"name": volume, "mountPath": path}
    if sub_path:
        result["subPath"] = sub_path
    return {**result, "readOnly": True} if read_only else result


def memory_dir(name: str) -> Object:
    """A volume in memory that dies with the pod."""
    return {"name": name, "emptyDir": {"medium": "Memory"}}


def log_dir() -> Object:
    """The volume of a daemon's log file, with a limit on what it writes before the log sidecar truncates the file."""
    return {"name": LOG_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": LOG_BYTES}}


def projected(name: str, sources: Sequence[Object], mode: int = 0o600) -> Object:
    """A volume of several ConfigMaps and Secrets."""
    return {"name": name, "projected": {"defaultMode": mode, "sources": list(sources)}}


def secret_file(ref: SecretKeySelector, file: str, mode: int | None = None) -> Object:
    """One key of a Secret as a file."""
    return {"secret": {"name": ref.name, "items": [_item(ref.key, file, mode)]}}


def config_map_file(name: str, key: str, file: str, mode: int | None = None) -> Object:
    """One key of a ConfigMap as a file."""
    return {"configMap": {"name": name, "items": [_item(key, file, mode)]}}


def _item(key: str, file: str, mode: int | None) -> Object:
    item: Object = {"key": key, "path": file}
    return {**item, "mode": mode} if mode is not None else item


def container(base: Mapping[str, Any], user: Mapping[str, Any], *path: str) -> Object:
    """A container of the operator with the user's overlay, which stands at `path` in the resource."""
    try:
        return overlay.merge_container(base, user)
    except MergeConflict as conflict:
        raise InvalidSpec(("spec", *path, *conflict.steps), conflict.message) from conflict


def pod_spec(base: Mapping[str, Any], user: Mapping[str, Any]) -> Object:
    """A pod spec of the operator with the user's overlay."""
    try:
        return overlay.merge_pod_spec(base, user)
    except MergeConflict as conflict:
        raise InvalidSpec(("spec", "template", "spec", *conflict.steps), conflict.message) from conflict


def log_sidecar(
    file: str,
    image: str,
    user: Mapping[str, Any],
    security: Mapping[str, Any] | None = None,
    *,
    is_waited_for: bool = False,
) -> Object:
    """The sidecar that prints a daemon's log file; where `is_waited_for`, nothing starts before the file is there."""
    base: Object = {
        "name": "logfile",
        "image": image,
        "restartPolicy": "Always",
        "command": shell("logfile.sh"),
        "env": [{"name": "SOCKET", "value": f"{LOGS}/{file}"}],
        "volumeMounts": [mount(LOG_VOLUME, LOGS)],
    }
    if is_waited_for:
        found = {"exec": {"command": ["test", "-f", f"{LOGS}/{file}"]}}
        base["startupProbe"] = {**found, "periodSeconds": 1, "failureThreshold": 120}
    if security:
        base["securityContext"] = dict(security)
    return container(base, user, "logfile")


def template(
    user: PodTemplate,
    component: labels.Component,
    instance: str,
    spec: Mapping[str, Any],
    annotations: Mapping[str, str],
    more_labels: Mapping[str, str] | None = None,
) -> Object:
    """A pod template: what the operator built, with the user's overlay merged in."""
    return {
        "metadata": metadata.pod(
            user.metadata,
            {**labels.of_pod(component, instance), **(more_labels or {})},
            {labels.DEFAULT_CONTAINER: component.daemon, **annotations},
        ),
        "spec": pod_spec(spec, user.spec),
    }
