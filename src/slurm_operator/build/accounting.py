"""Accounting: slurmdbd's StatefulSet, its Service and its configuration, with the database password in a Secret.

In: an Accounting and `Refs`. Out: every object that it owns; none when slurmdbd runs elsewhere. Called by
`reconcile/accounting.py`, and beforehand by `slurm-operator render`, `kubectl slurm plan` and admission.
"""

from __future__ import annotations

from base64 import b64encode

from slurm_operator.api import text
from slurm_operator.api.accounting import Accounting, StorageConfig
from slurm_operator.api.problem import Path
from slurm_operator.build import hashes, images, labels, made_of, metadata, names, pods, services
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.keys import jwt_key, slurm_key
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import (
    AUTH_ALT,
    AUTH_INFO,
    Line,
    Section,
    checked_host,
    extra_conf,
    jwt_parameters,
    merged,
    write,
)
from slurm_operator.slurm import conf

DAEMON = labels.ACCOUNTING.daemon
FILE = "slurmdbd.conf"
PASSWORD: Path = ("spec", "storageConfig", "passwordKeyRef")


def objects(cr: Accounting, refs: Refs) -> list[Object]:
    """Every object that an Accounting owns."""
    if cr.spec.external:
        return []
    config = config_secret(cr, refs)
    return [service(cr), config, stateful_set(cr, refs, config)]


def service(cr: Accounting) -> Object:
    """The Service in front of slurmdbd."""
    return services.service(cr, names.accounting(cr), labels.ACCOUNTING, names.SLURMDBD_PORT, cr.spec.service)


def config_secret(cr: Accounting, refs: Refs) -> Object:
    """The Secret with slurmdbd.conf."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata.child(cr, names.accounting(cr), labels.of(labels.ACCOUNTING, cr.name)),
        "immutable": False,
        "type": "Opaque",
        "data": {FILE: b64encode(slurmdbd_conf(cr, refs).encode()).decode()},
    }


def slurmdbd_conf(cr: Accounting, refs: Refs) -> str:
    """The text of slurmdbd.conf."""
    storage = _storage(cr)
    extra = extra_conf(cr.spec.extra_conf)
    own = {AUTH_ALT: jwt_parameters(has_jwks=cr.spec.jwks_key_ref is not None), AUTH_INFO: ("use_client_ids",)}
    sections: list[Section] = [
        (
            "GENERAL",
            [
                ("DbdHost", f"{names.accounting(cr)}-0"),
                ("DbdPort", names.SLURMDBD_PORT),
                ("SlurmUser", "slurm"),
            ],
        ),
        (
            "PLUGINS & PARAMETERS",
            [
                ("AuthType", "auth/slurm"),
                ("AuthAltTypes", "auth/jwt"),
                (AUTH_ALT, ",".join(own[AUTH_ALT])),
                (AUTH_INFO, ",".join(own[AUTH_INFO])),
            ],
        ),
        ("STORAGE", _storage_lines(storage, _password(storage, refs))),
        ("LOGGING", [("LogFile", "/dev/null")]),
        ("EXTRA CONFIG", [extra] if extra else []),
        ("MERGED CONFIG", list(merged(conf.parse(extra, file=FILE), own))),
    ]
    return write(section for section in sections if section[1])


def _storage(cr: Accounting) -> StorageConfig:
    if cr.spec.storage_config is None:
        raise InvalidSpec(("spec", "storageConfig"), "is required when external is false")
    return cr.spec.storage_config


def _storage_lines(storage: StorageConfig, password: str) -> list[Line]:
    lines: list[Line] = [
        ("StorageType", "accounting_storage/mysql"),
        ("StorageHost", checked_host(storage.host, ("spec", "storageConfig", "host"))),
        ("StoragePort", storage.port),
        ("StorageLoc", _checked(storage.database, "database")),
    ]
    if storage.username:
        lines.insert(3, ("StorageUser", _checked(storage.username, "username")))
    return [*lines, f"StoragePass={password}"] if password else lines


def _checked(value: str, field: str) -> str:
    problem = text.config_value(value)
    if problem:
        raise InvalidSpec(("spec", "storageConfig", field), problem)
    return value


def _password(storage: StorageConfig, refs: Refs) -> str:
    ref = storage.password_key_ref
    value = refs.secret_value(ref.name, ref.key, PASSWORD).decode("utf-8", "replace").rstrip("\n")
    if text.one_line(value) or any(sign in value for sign in " \"'\ufffd"):
        # The value itself must not be shown.
        raise InvalidSpec(PASSWORD, "the password holds a space, quote, '#', backslash or control character")
    return value


def stateful_set(cr: Accounting, refs: Refs, config: Object) -> Object:
    """The StatefulSet of slurmdbd."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": made_of.workload(cr, names.accounting(cr), labels.of(labels.ACCOUNTING, cr.name)),
        "spec": {
            "podManagementPolicy": "Parallel",
            "replicas": 1,
            "revisionHistoryLimit": 0,
            "serviceName": names.accounting(cr),
            "selector": {"matchLabels": labels.selector(labels.ACCOUNTING, cr.name)},
            "template": pods.template(
                cr.spec.template, labels.ACCOUNTING, cr.name, _pod_spec(cr), _hashes(cr, refs, config)
            ),
        },
    }


def _hashes(cr: Accounting, refs: Refs, config: Object) -> dict[str, str]:
    return {
        **metadata.restart(cr),
        labels.SLURM_KEY_HASH: hashes.of_map(refs.secrets.get(slurm_key(cr).name, {})),
        labels.JWT_KEY_HASH: hashes.of_map(refs.secrets.get(jwt_key(cr).name, {})),
        labels.SLURMDBD_CONF_HASH: hashes.of_map(config["data"]),
    }


def _pod_spec(cr: Accounting) -> Object:
    sources = [
        {"secret": {"name": names.accounting(cr), "items": [{"key": FILE, "path": FILE}]}},
        pods.secret_file(slurm_key(cr), pods.KEY_FILE),
        pods.secret_file(jwt_key(cr), pods.JWT_FILE),
    ]
    if cr.spec.jwks_key_ref:
        sources.append(pods.config_map_file(cr.spec.jwks_key_ref.name, cr.spec.jwks_key_ref.key, pods.JWKS_FILE))
    return {
        "automountServiceAccountToken": False,
        "securityContext": pods.restricted_pod(pods.SLURM_USER_ID),
        "containers": [_slurmdbd(cr)],
        "volumes": [pods.projected(pods.ETC_VOLUME, sources), pods.memory_dir(pods.RUN_VOLUME)],
    }


def _slurmdbd(cr: Accounting) -> Object:
    base: Object = {
        "name": DAEMON,
        "image": images.of(cr.spec.slurmdbd, DAEMON),
        "ports": [{"name": DAEMON, "containerPort": names.SLURMDBD_PORT, "protocol": "TCP"}],
        "readinessProbe": pods.tcp_probe(names.SLURMDBD_PORT),
        "securityContext": pods.restricted(pods.SLURM_USER_ID),
        "volumeMounts": [
            pods.mount(pods.ETC_VOLUME, pods.ETC, read_only=True),
            pods.mount(pods.RUN_VOLUME, pods.RUN),
        ],
    }
    return pods.container(base, cr.spec.slurmdbd, "slurmdbd")
