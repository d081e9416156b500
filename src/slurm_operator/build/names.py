"""Every name that the operator gives: computed from the resource, never random.

Pure text; used by all builders and planners. A name made twice is the same name, so a crash leaves no twin.
"""

from __future__ import annotations

from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.restapi import RestApi
from slurm_operator.api.token import Token

SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
SLURMDBD_PORT = 6819
SLURMRESTD_PORT = 6820
SSH_PORT = 22


def controller(cr: Controller) -> str:
    """StatefulSet and Service of a Controller."""
    return f"{cr.name}-controller"


def controller_internal(cr: Controller) -> str:
    """Headless Service that gives controller pods their names."""
    return f"{cr.name}-controller-internal"


def controller_pod(cr: Controller, ordinal: int) -> str:
    """One controller pod."""
    return f"{controller(cr)}-{ordinal}"


def config(cr: Controller) -> str:
    """ConfigMap with slurm.conf, the last good one."""
    return f"{cr.name}-config"


def config_candidate(cr: Controller) -> str:
    """ConfigMap with the configuration that is being tried."""
    return f"{cr.name}-config-candidate"


def config_revision(cr: Controller, number: int) -> str:
    """ControllerRevision with a configuration that was in force."""
    return f"{cr.name}-config-{number}"


def worker_trial_config(cr: Controller, hash_: str) -> str:
    """ConfigMap with the configuration that slurmd is trying."""
    return f"{cr.name}-config-trial-{hash_[:8]}"


def worker_trial(cr: Controller, key: str) -> str:
    """Pod in which slurmd tries a configuration."""
    return f"{cr.name}-trial-{key}"


def accounting(cr: Accounting) -> str:
    """StatefulSet, Service and Secret of an Accounting."""
    return f"{cr.name}-accounting"


def restapi(cr: RestApi) -> str:
    """Deployment and Service of a RestApi."""
    return f"{cr.name}-restapi"


def ssh_config(cr: LoginSet | NodeSet) -> str:
    """ConfigMap with sshd_config."""
    return f"{cr.name}-ssh-config"


def ssh_host_keys(cr: LoginSet) -> str:
    """Secret with the ssh host keys."""
    return f"{cr.name}-ssh-host-keys"


def workers_service(controller_name: str) -> str:
    """Headless Service of all workers of a cluster."""
    return f"slurm-workers-{controller_name}"


def workers_pdb(controller_name: str) -> str:
    """PodDisruptionBudget of all busy workers of a cluster."""
    return f"slurm-workers-pdb-{controller_name}"


def ordinal(nodeset: NodeSet, number: int) -> str:
    """An ordinal as it stands in names."""
    return str(number).zfill(nodeset.spec.ordinal_padding)


def worker(nodeset: NodeSet, number: int) -> str:
    """One worker pod in StatefulSet mode."""
    return f"{nodeset.name}-{ordinal(nodeset, number)}"


def worker_hostname(nodeset: NodeSet, number: int) -> str:
    """Host name, and so the Slurm node name, of a worker in StatefulSet mode."""
    prefix = nodeset.spec.template.spec.get("hostname")
    return f"{prefix}{ordinal(nodeset, number)}" if prefix else worker(nodeset, number)


def claim(template: str, nodeset: NodeSet, identity: str) -> str:
    """A worker's own claim; the identity is its padded ordinal or its host name."""
    return f"{template}-{nodeset.name}-{identity}"


def revision(nodeset: NodeSet, hash_: str) -> str:
    """One ControllerRevision."""
    return f"{nodeset.name}-{hash_}"


def token_secret(cr: Token) -> str:
    """Secret that a token is written to."""
    ref = cr.spec.secret_ref
    return ref.name if ref and ref.name else f"{cr.name}-jwt-{cr.spec.username or 'nobody'}"


def reservation(nodeset: NodeSet) -> str:
    """Slurm reservation of a scheduled update."""
    return f"SlurmOperatorMaint-{nodeset.name}"


def short_host(service: str, namespace: str) -> str:
    """A Service's host name within the cluster."""
    return f"{service}.{namespace}"


def long_host(service: str, namespace: str, domain: str) -> str:
    """A Service's full host name."""
    return f"{service}.{namespace}.svc.{domain}"


def conf_server(cr: Controller) -> str:
    """Where configless daemons fetch their configuration: every controller, so that none is a single way in."""
    if cr.spec.external and cr.spec.external_config:
        return f"{cr.spec.external_config.host}:{cr.spec.external_config.port}"
    if cr.replicas == 1:
        return f"{short_host(controller(cr), cr.namespace)}:{SLURMCTLD_PORT}"
    hosts = (f"{controller_pod(cr, each)}.{controller_internal(cr)}.{cr.namespace}" for each in range(cr.replicas))
    return ",".join(f"{host}:{SLURMCTLD_PORT}" for host in hosts)
