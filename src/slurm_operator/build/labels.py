"""Every label, annotation, finalizer and taint key on the wire, and the label sets of each component.

Pure text; the contract of scripts, dashboards and selectors that others have written.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_operator.api.meta import GROUP

NAME = "app.kubernetes.io/name"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
CLUSTER = f"{GROUP}/cluster"
# The form of earlier releases, still on every pod for the selectors that use it.
OLD_COMPONENT = f"{GROUP}/component"

POD_NAME = f"nodeset.{GROUP}/pod-name"
POD_INDEX = f"nodeset.{GROUP}/pod-index"
POD_HOSTNAME = f"nodeset.{GROUP}/pod-hostname"
POD_PROTECT = f"nodeset.{GROUP}/pod-protect"
SCALING_MODE = f"nodeset.{GROUP}/scaling-mode"
REVISION = "controller.kubernetes.io/hash"

POD_CORDON = f"nodeset.{GROUP}/pod-cordon"
OLD_POD_CORDON = f"{GROUP}/pod-cordon"
POD_DELETION_COST = f"nodeset.{GROUP}/pod-deletion-cost"
POD_DEADLINE = f"nodeset.{GROUP}/pod-deadline"
NODE_CORDON_REASON = f"nodeset.{GROUP}/node-cordon-reason"
HOSTNAME_OVERRIDE = f"nodeset.{GROUP}/hostname-override"
TOPOLOGY = f"topology.{GROUP}/spec"
FEATURES = f"features.{GROUP}/spec"
# On a resource: a new value restarts its daemons. People type it, so it has no group.
RESTART_TRIGGER = "restart-trigger"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"

SLURM_KEY_HASH = f"{GROUP}/slurm-key-hash"
JWT_KEY_HASH = f"{GROUP}/jwt-key-hash"
CONFIG_HASH = f"{GROUP}/slurm-config-hash"
# On slurmctld pods: the protocol of their sidecar; and which candidate they were last nudged to read.
CONFIG_PROTOCOL = f"{GROUP}/config-protocol"
CONFIG_CANDIDATE = f"{GROUP}/config-candidate"
# On a Controller: "off" lets a configuration in without a trial.
CONFIG_CHECK = f"{GROUP}/config-check"
# On a ControllerRevision: which configuration of a Controller it keeps, by the beginning of its hash.
CONFIG_REVISION = f"{GROUP}/config-revision"
SLURMDBD_CONF_HASH = f"{GROUP}/slurmdbd-conf-hash"
SSHD_CONF_HASH = f"{GROUP}/sshd-conf-hash"
SSSD_CONF_HASH = f"{GROUP}/sssd-conf-hash"
SSH_HOST_KEYS_HASH = f"{GROUP}/ssh-host-keys-hash"

WORKER_TAINT = f"nodeset.{GROUP}/worker"
# Which Kubernetes node a worker of DaemonSet mode was made for, before it is scheduled there.
ASSIGNED_NODE = f"nodeset.{GROUP}/assigned-node"
# Which workers are to go, chosen once: scale-in, update or deletion.
CONDEMNED = f"nodeset.{GROUP}/condemned"
FORCE_DELETE = f"nodeset.{GROUP}/force-delete"
# On a worker: the hash of the key that may now replace its own, since Slurm says that it is drained and idle.
RELEASED_FOR_KEY = f"nodeset.{GROUP}/released-for-key"
# On a Controller: the first characters of the hash of the key that shall be in force although jobs run.
FORCE_KEY_ROTATION = f"{GROUP}/force-key-rotation"
# On a workload of the Go operator: the hash of what this program would have made of it when it took it over.
TAKEN_OVER = f"{GROUP}/taken-over"
# On a workload or a NodeSet's ControllerRevision: the hash of all that its resource said of the pods made by it; and of
# a NodeSet the same again once such workers were privileged.
PODS_HASH = f"{GROUP}/pods-hash"
PRIVILEGED_PODS_HASH = f"{GROUP}/privileged-pods-hash"
DRAIN_FINALIZER = f"nodeset.{GROUP}/drain"
RESERVATION_FINALIZER = f"nodeset.{GROUP}/reservation"
# On a Partition: it stays until Slurm has let it go; the annotation lets it go before.
PARTITION_FINALIZER = f"partition.{GROUP}/jobs"
PARTITION_FORCE_DELETE = f"partition.{GROUP}/force-delete"


@dataclass(frozen=True, slots=True)
class Component:
    """A Slurm daemon as labels name it."""

    daemon: str
    role: str


CONTROLLER = Component("slurmctld", "controller")
ACCOUNTING = Component("slurmdbd", "accounting")
RESTAPI = Component("slurmrestd", "restapi")
LOGIN = Component("login", "login")
WORKER = Component("slurmd", "worker")
# A slurmd that only tries out a configuration.
WORKER_TRIAL = Component("slurmd-trial", "worker-trial")


def selector(component: Component, instance: str) -> dict[str, str]:
    """What selects the pods of one resource."""
    return {NAME: component.daemon, INSTANCE: instance}


def of(component: Component, instance: str) -> dict[str, str]:
    """The labels of one resource's objects."""
    return {**selector(component, instance), COMPONENT: component.role}


def of_pod(component: Component, instance: str) -> dict[str, str]:
    """The labels of one resource's pods."""
    return {**of(component, instance), OLD_COMPONENT: component.daemon}


def selector_text(component: Component, instance: str) -> str:
    """The selector as the scale subresource shows it."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector(component, instance).items()))
