"""How far a user's template may reach, as a table: field, profile, what is allowed, and the feature that allows more.

Data only. Interpreted by `reach.py`, shown by docs/reference/pod-features.md, which is generated from it. It has every
field of the Baseline and Restricted profiles of Kubernetes' Pod Security Standards, and what these do not look at.

A field is written from its scope: `pod` is a pod spec, `container` is every container, init container and ephemeral
container in one and every overlay such as `slurmd`, `annotations` are those of the pods, `service` is a Service spec,
`slurmd` is the overlay of a worker's container while that one is privileged, and `ssh` its sshd options.
`[*]` is every item of a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from slurm_operator.api.pod_features import (
    CAPABILITIES,
    EXTERNAL_NAME,
    HOST_NAMESPACES,
    HOST_PATH,
    HOST_PORTS,
    PRIVILEGED,
    PROBE_HOSTS,
    SECURITY_PROFILES,
    SERVICE_ACCOUNT,
    SYSCTLS,
    SYSTEM_PRIORITY,
)

Profile = Literal["Baseline", "Restricted", "neither"]
Form = Literal["unset", "only", "but", "any", "worker"]


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which values a field may have: unset, only these, any but these, any, or what a privileged worker may run.

    Of a worker, `values` are words for people.
    """

    form: Form
    values: tuple[str, ...] = ()
    # A value that ends in "*" stands for whatever begins so.

    def __str__(self) -> str:
        listed = ", ".join(f"`{value}`" for value in self.values)
        match self.form:
            case "unset":
                return "unset (`false`, `0` and empty count as unset)"
            case "only":
                return f"unset, {listed}"
            case "but":
                return f"any but {listed}"
            case "worker":
                return " ".join(self.values) or "unset"
        return "any"


UNSET: Final = Allowed("unset")
ANY: Final = Allowed("any")


def only(*values: str) -> Allowed:
    """Unset, or one of these."""
    return Allowed("only", values)


def but(*values: str) -> Allowed:
    """Any but these."""
    return Allowed("but", values)


def in_worker(*text: str) -> Allowed:
    """What `privileged_worker.py` allows, in words."""
    return Allowed("worker", text)


@dataclass(frozen=True, slots=True)
class Row:
    """One field."""

    field: str
    profile: Profile
    allowed: Allowed
    # What allows more; empty where nothing is refused.
    feature: str = ""
    # What it is, as a refusal calls it.
    called: str = ""
    # Why it is refused, or why it is not though a profile would.
    why: str = ""


NAMESPACES = "sharing the node's namespaces"
PROFILE = "a container without its security profile"
IDENTITY = "a Kubernetes identity in the pod"
PROBE = "a request from the node to another host"
SEE_NODE = "the pod could see, or act as, other things on the node"
LESS_CONFINED = "it removes what confines the container"
FROM_NODE = "the kubelet sends the request, from the node's network and past every NetworkPolicy"
STAYS = "it stays in the pod"
ROOT = "slurmd and sshd change to the user whose job or login it is; root in a container stays in it"

SAFE_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
)
SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
CONFINED = ("RuntimeDefault", "Localhost")


def _security_profiles(scope: str) -> tuple[Row, ...]:
    place = f"{scope}.securityContext"
    feature, labels = SECURITY_PROFILES, "an SELinux label of its own"
    return (
        Row(f"{place}.windowsOptions.hostProcess", "Baseline", UNSET, PRIVILEGED, "a HostProcess container", SEE_NODE),
        Row(f"{place}.appArmorProfile.type", "Baseline", only(*CONFINED), feature, PROFILE, LESS_CONFINED),
        Row(f"{place}.seccompProfile.type", "Baseline", only(*CONFINED), feature, PROFILE, LESS_CONFINED),
        Row(f"{place}.seLinuxOptions.type", "Baseline", only(*SELINUX_TYPES), feature, labels, LESS_CONFINED),
        Row(f"{place}.seLinuxOptions.user", "Baseline", UNSET, feature, labels, LESS_CONFINED),
        Row(f"{place}.seLinuxOptions.role", "Baseline", UNSET, feature, labels, LESS_CONFINED),
    )


def _probe_hosts() -> tuple[Row, ...]:
    probes = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
    return tuple(
        Row(f"container.{probe}.{action}.host", "Baseline", UNSET, PROBE_HOSTS, PROBE, FROM_NODE)
        for probe in probes
        for action in ("httpGet", "tcpSocket")
    )


_POD = (
    Row("pod.hostNetwork", "Baseline", UNSET, HOST_NAMESPACES, NAMESPACES, SEE_NODE),
    Row("pod.hostPID", "Baseline", UNSET, HOST_NAMESPACES, NAMESPACES, SEE_NODE),
    Row("pod.hostIPC", "Baseline", UNSET, HOST_NAMESPACES, NAMESPACES, SEE_NODE),
    Row("pod.volumes[*].hostPath", "Baseline", UNSET, HOST_PATH, "a folder of the node", SEE_NODE),
    *_security_profiles("pod"),
    Row(
        "pod.securityContext.sysctls[*].name",
        "Baseline",
        only(*SAFE_SYSCTLS),
        SYSCTLS,
        "the sysctl",
        "others change the node, or other pods on it",
    ),
    Row(
        "annotations.container.apparmor.security.beta.kubernetes.io/*",
        "Baseline",
        only("runtime/default", "localhost/*"),
        SECURITY_PROFILES,
        PROFILE,
        "older Kubernetes versions follow it",
    ),
    Row(
        "annotations.seccomp.security.alpha.kubernetes.io/*",
        "Baseline",
        only("runtime/default", "docker/default", "localhost/*"),
        SECURITY_PROFILES,
        PROFILE,
        "Kubernetes before 1.27 follows it",
    ),
    Row(
        "annotations.container.seccomp.security.alpha.kubernetes.io/*",
        "Baseline",
        only("runtime/default", "docker/default", "localhost/*"),
        SECURITY_PROFILES,
        PROFILE,
        "Kubernetes before 1.27 follows it",
    ),
    Row(
        "pod.volumes[*].flexVolume",
        "Restricted",
        UNSET,
        HOST_PATH,
        "a volume driver that runs on the node",
        "it runs a program on the node as root, with the user's options",
    ),
    Row(
        "pod.volumes[*].gitRepo",
        "Restricted",
        UNSET,
        HOST_PATH,
        "a volume that the node fetches with git",
        "hooks of the repository could run on the node",
    ),
    Row(
        "pod.volumes[*] of other types",
        "Restricted",
        ANY,
        why="a site's storage, such as nfs; Baseline has no objection",
    ),
    Row("pod.securityContext.runAsNonRoot", "Restricted", ANY, why=ROOT),
    Row("pod.securityContext.runAsUser", "Restricted", ANY, why=ROOT),
    Row("pod.serviceAccountName", "neither", UNSET, SERVICE_ACCOUNT, "running as the service account", IDENTITY),
    Row("pod.serviceAccount", "neither", UNSET, SERVICE_ACCOUNT, "running as the service account", IDENTITY),
    Row(
        "pod.automountServiceAccountToken",
        "neither",
        only("false"),
        SERVICE_ACCOUNT,
        "a service account's token in the pod",
        "`null` counts as true: it removes the operator's own `false`",
    ),
    Row(
        "pod.volumes[*].projected.sources[*].serviceAccountToken",
        "neither",
        UNSET,
        SERVICE_ACCOUNT,
        "a service account's token in the pod",
        IDENTITY,
    ),
    Row(
        "pod.volumes[*].projected.sources[*].podCertificate",
        "neither",
        UNSET,
        SERVICE_ACCOUNT,
        "a certificate for a service account in the pod",
        IDENTITY,
    ),
    Row("pod.volumes[*].projected.sources[*].clusterTrustBundle", "neither", ANY, why="public certificates only"),
    Row(
        "pod.priorityClassName",
        "neither",
        but("system-cluster-critical", "system-node-critical"),
        SYSTEM_PRIORITY,
        "system priority",
        "such a pod preempts other users' pods",
    ),
    Row("pod.priority", "neither", ANY, why="Kubernetes accepts only the one of priorityClassName"),
    Row("pod.ephemeralContainers", "neither", ANY, why="checked like any container; Kubernetes accepts none here"),
    Row("pod.hostAliases", "neither", ANY, why=f"{STAYS}: its own /etc/hosts"),
    Row("pod.hostUsers", "neither", ANY, why="`false` confines more, `true` is the default"),
    Row("pod.nodeName", "neither", ANY, why="whoever may create pods may choose their node; taken out of workers"),
    Row("pod.resourceClaims", "neither", ANY, why="claims of the same namespace"),
    Row("pod.runtimeClassName", "neither", ANY, why="only administrators create RuntimeClasses"),
    Row("pod.shareProcessNamespace", "neither", ANY, why=f"{STAYS}; not so in a privileged worker"),
    Row("pod.tolerations", "neither", ANY, why="whoever may create pods may tolerate any taint"),
)

_CONTAINER = (
    Row("container.securityContext.privileged", "Baseline", UNSET, PRIVILEGED, "a privileged container", SEE_NODE),
    Row(
        "container.securityContext.capabilities.add[*]",
        "Restricted",
        only("NET_BIND_SERVICE"),
        CAPABILITIES,
        "the capability",
        "Baseline allows a few more; Slurm's pods need none of them",
    ),
    Row("container.ports[*].hostPort", "Baseline", UNSET, HOST_PORTS, "a port of the node", SEE_NODE),
    Row(
        "container.securityContext.procMount",
        "Baseline",
        only("Default"),
        PRIVILEGED,
        "an unmasked /proc",
        LESS_CONFINED,
    ),
    *_security_profiles("container"),
    *_probe_hosts(),
    Row("container.securityContext.allowPrivilegeEscalation", "Restricted", ANY, why=ROOT),
    Row("container.securityContext.capabilities.drop", "Restricted", ANY, why=ROOT),
    Row("container.securityContext.runAsNonRoot", "Restricted", ANY, why=ROOT),
    Row("container.securityContext.runAsUser", "Restricted", ANY, why=ROOT),
    Row("container.image", "neither", ANY, why="what runs in an unprivileged container stays in it"),
)

OWN_CODE = "it decides what runs in a privileged container"
_WORKER = (
    Row(
        "slurmd.image", "neither", in_worker("unset, or an image of `workerImages`"), PRIVILEGED, "the image", OWN_CODE
    ),
    Row("slurmd.command", "neither", in_worker(), PRIVILEGED, "a command of its own", OWN_CODE),
    Row("slurmd.args", "neither", in_worker(), PRIVILEGED, "arguments of its own", OWN_CODE),
    Row(
        "slurmd.env[*].name",
        "neither",
        in_worker("any but `PATH`, `LD_*`, `BASH*`, `PYTHON*`, `SLURM*`, `HWLOC_*`, `PMIX_*`, `DBUS_*` and the like"),
        PRIVILEGED,
        "the environment variable",
        OWN_CODE,
    ),
    Row(
        "slurmd.envFrom[*]",
        "neither",
        in_worker("only with a `prefix`, such as `APP_`, that makes none of these names"),
        PRIVILEGED,
        "a whole environment",
        OWN_CODE,
    ),
    Row(
        "slurmd.volumeMounts[*].mountPath",
        "neither",
        in_worker("`/dev/shm`, and any outside of `/bin`, `/dev`, `/etc`, `/lib`, `/root`, `/run`, `/usr`, `/var` …"),
        PRIVILEGED,
        "a mount over system directories",
        OWN_CODE,
    ),
    Row("slurmd.lifecycle.*.exec", "neither", in_worker(), PRIVILEGED, "a command of its own", OWN_CODE),
    Row("slurmd.*Probe.exec", "neither", in_worker(), PRIVILEGED, "a command of its own", OWN_CODE),
    Row("slurmd.volumeDevices[*]", "neither", in_worker(), PRIVILEGED, "a device of its own", OWN_CODE),
    Row(
        "logfile.command",
        "neither",
        in_worker(),
        PRIVILEGED,
        "a command of its own for the log",
        "slurmd's log would be whatever that command makes, even a link to one of slurmd's own files",
    ),
    Row(
        "pod.shareProcessNamespace of a privileged worker",
        "neither",
        in_worker(),
        PRIVILEGED,
        "one process namespace for all containers",
        "root in another container can reach slurmd's files",
    ),
    Row(
        "ssh.extraSshdConfig",
        "neither",
        in_worker("options that say who may log in, and how; none that names a program, a file or root"),
        PRIVILEGED,
        "the sshd option",
        OWN_CODE,
    ),
    Row(
        "ssh.sssdConfRef",
        "neither",
        ANY,
        why="sssd runs as root, and its file may name programs; but whoever can write a Secret here can become root in"
        " workers with Slurm's keys anyway",
    ),
    Row("pod.volumes[*].name of the operator's", "neither", in_worker(), PRIVILEGED, "the operator's volume", OWN_CODE),
)

_SERVICE = (
    Row(
        "service.type",
        "neither",
        but("ExternalName"),
        EXTERNAL_NAME,
        "a Service that stands for another host",
        "the operator and others would send their tokens there",
    ),
    Row(
        "service.externalName",
        "neither",
        UNSET,
        EXTERNAL_NAME,
        "a Service that stands for another host",
        "the operator and others would send their tokens there",
    ),
    Row("service.externalIPs", "neither", ANY, why="dropped, with a warning: CVE-2020-8554"),
    Row("service.loadBalancerIP", "neither", ANY, why="as with any Service of the namespace"),
    Row("service.ports[*].nodePort", "neither", ANY, why="as with any Service of the namespace"),
)

SECTIONS: Final[dict[str, tuple[Row, ...]]] = {
    "Pods": _POD,
    "Containers": _CONTAINER,
    "Workers while slurmd is privileged": _WORKER,
    "Services": _SERVICE,
}
TABLE: Final[tuple[Row, ...]] = tuple(row for rows in SECTIONS.values() for row in rows)


def row_of(field: str) -> Row:
    """The row of a field."""
    return next(row for row in TABLE if row.field == field)
