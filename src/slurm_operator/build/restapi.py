"""RestApi: slurmrestd's Deployment and Service.

In: a RestApi and `Refs`. Out: every object that it owns. Called by `reconcile/restapi.py`, and beforehand
by `slurm-operator render`, `kubectl slurm plan` and admission.
"""

from __future__ import annotations

from slurm_operator.api.controller import Controller
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import hashes, images, labels, made_of, metadata, names, pods, services
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import FILE

DAEMON = labels.RESTAPI.daemon


def objects(cr: RestApi, refs: Refs) -> list[Object]:
    """Every object that a RestApi owns."""
    return [service(cr), deployment(cr, refs.controller(cr.namespace, cr.spec.controller_ref), refs)]


def service(cr: RestApi) -> Object:
    """The Service in front of slurmrestd."""
    return services.service(cr, names.restapi(cr), labels.RESTAPI, names.SLURMRESTD_PORT, cr.spec.service)


def deployment(cr: RestApi, controller: Controller, refs: Refs) -> Object:
    """The Deployment of slurmrestd."""
    key = controller.spec.slurm_key_ref
    hashed = {labels.SLURM_KEY_HASH: hashes.of_map(refs.secrets.get(key.name, {}))} if key else {}
    annotations = {**metadata.restart(cr), **hashed}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": made_of.workload(cr, names.restapi(cr), labels.of(labels.RESTAPI, cr.name)),
        "spec": {
            "replicas": cr.spec.replicas,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": labels.selector(labels.RESTAPI, cr.name)},
            "template": pods.template(
                cr.spec.template, labels.RESTAPI, cr.name, _pod_spec(cr, controller), annotations
            ),
        },
    }


def _pod_spec(cr: RestApi, controller: Controller) -> Object:
    sources = [_config(controller)]
    if controller.spec.slurm_key_ref:
        sources.append(pods.secret_file(controller.spec.slurm_key_ref, pods.KEY_FILE))
    return {
        "automountServiceAccountToken": False,
        "securityContext": pods.restricted_pod(pods.NOBODY_ID),
        "containers": [_slurmrestd(cr, controller)],
        "volumes": [pods.projected(pods.ETC_VOLUME, sources)],
    }


def _config(controller: Controller) -> Object:
    if controller.spec.inplace_reconfigure and controller.spec.config_file_refs:
        # slurm.conf may include any of them, and slurmrestd waits a minute for a file that is missing.
        return {"configMap": {"name": names.config(controller)}}
    return pods.config_map_file(names.config(controller), FILE, FILE)


def _slurmrestd(cr: RestApi, controller: Controller) -> Object:
    # Without accounting, the accounting plugin keeps slurmrestd from starting.
    plugins = [] if controller.spec.accounting_ref else ["-s", "openapi/slurmctld"]
    base: Object = {
        "name": DAEMON,
        "image": images.of(cr.spec.slurmrestd, DAEMON),
        "args": plugins,
        "env": [
            {"name": "SLURM_JWT", "value": "daemon"},
            {"name": "SLURMRESTD_SECURITY", "value": "disable_unshare_files,disable_unshare_sysv"},
            # By default every malloc arena keeps the memory of its longest list, and there is one for each thread.
            {"name": "MALLOC_ARENA_MAX", "value": "1"},
        ],
        "ports": [{"name": DAEMON, "containerPort": names.SLURMRESTD_PORT, "protocol": "TCP"}],
        "startupProbe": pods.patient(pods.tcp_probe(names.SLURMRESTD_PORT)),
        "livenessProbe": pods.patient(pods.tcp_probe(names.SLURMRESTD_PORT)),
        "readinessProbe": pods.tcp_probe(names.SLURMRESTD_PORT),
        "securityContext": pods.restricted(pods.NOBODY_ID),
        "volumeMounts": [pods.mount(pods.ETC_VOLUME, pods.ETC, read_only=True)],
    }
    merged = pods.container(base, cr.spec.slurmrestd, "slurmrestd")
    # The address is slurmrestd's last argument, whatever options the user adds.
    return {**merged, "args": [*merged["args"], f"0.0.0.0:{names.SLURMRESTD_PORT}"]}
