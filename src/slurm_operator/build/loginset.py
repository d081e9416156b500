"""LoginSet: the Deployment of login pods, their Service, their ssh configuration and host keys.

In: a LoginSet and `Refs`. Out: every object that it owns. Host keys are generated elsewhere, once; `host_key_secret`
and `host_key_data` only wrap them. Called by `reconcile/loginset.py`, and beforehand by `slurm-operator render`,
`kubectl slurm plan` and admission.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping

import msgspec

from slurm_operator.api.controller import Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.problem import Path
from slurm_operator.build import hashes, images, labels, made_of, metadata, names, pods, services, sshd
from slurm_operator.build.errors import MissingReference
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs

DAEMON = labels.LOGIN.daemon
KEY_TYPES = ("rsa", "ed25519", "ecdsa")
HOST_KEY_FILES = tuple(f"ssh_host_{kind}_key{suffix}" for kind in KEY_TYPES for suffix in ("", ".pub"))
AUTHORIZED_KEYS = "authorized_keys"
SSSD_FILE = "sssd.conf"
SSHD_OPTIONS = (sshd.INCLUDE, "UsePAM yes", "X11Forwarding yes", sshd.SFTP)

CONFIG_VOLUME = "slurm-config"
SACKD_VOLUME = "sackd-dir"
SSH_VOLUME = "ssh-config"
HOST_KEYS_VOLUME = "ssh-host-keys"
SSSD_VOLUME = "sssd-conf"


def objects(cr: LoginSet, refs: Refs) -> list[Object]:
    """Every object that a LoginSet owns, without the host keys."""
    controller = refs.controller(cr.namespace, cr.spec.controller_ref)
    ssh = ssh_config(cr)
    held = refs.secrets.get(names.ssh_host_keys(cr))
    if held is not None:
        _check_host_keys(cr, held)
    return [ssh, service(cr), deployment(cr, controller, refs, ssh)]


def ssh_config(cr: LoginSet) -> Object:
    """The ConfigMap with sshd_config and root's authorized keys."""
    path: Path = ("spec", "rootSshAuthorizedKeys")
    keys = "\n".join(["#", "### SLINKY ###", sshd.checked(cr.spec.root_ssh_authorized_keys, path)]) + "\n"
    text = sshd.config(SSHD_OPTIONS, cr.spec.extra_sshd_config, ("spec", "extraSshdConfig"))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata.child(cr, names.ssh_config(cr), labels.of(labels.LOGIN, cr.name)),
        "immutable": False,
        "data": {AUTHORIZED_KEYS: keys, sshd.FILE: text},
    }


def host_key_secret(cr: LoginSet) -> Object:
    """The Secret for the ssh host keys, still without them; made once and never changed."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata.child(cr, names.ssh_host_keys(cr), labels.of(labels.LOGIN, cr.name)),
        "immutable": True,
        "type": "Opaque",
    }


def host_key_data(cr: LoginSet, keys: Mapping[str, bytes]) -> dict[str, str]:
    """The content of that Secret."""
    _check_host_keys(cr, keys)
    return {name: b64encode(keys[name]).decode() for name in HOST_KEY_FILES}


def _check_host_keys(cr: LoginSet, keys: Collection[str]) -> None:
    missing = [name for name in HOST_KEY_FILES if name not in keys]
    if missing:
        # A pod that mounts a key which is not there never starts.
        name = names.ssh_host_keys(cr)
        message = f"Secret {name!r} lacks {', '.join(missing)}; add them, or delete it to have new ones generated"
        raise MissingReference(("metadata", "name"), "Secret key", missing[0], message)


def service(cr: LoginSet) -> Object:
    """The Service in front of sshd."""
    return services.service(cr, cr.name, labels.LOGIN, names.SSH_PORT, cr.spec.service)


def deployment(cr: LoginSet, controller: Controller, refs: Refs, ssh: Object) -> Object:
    """The Deployment of the login pods."""
    spec: Object = {
        "replicas": cr.spec.replicas,
        "revisionHistoryLimit": 0,
        "selector": {"matchLabels": labels.selector(labels.LOGIN, cr.name)},
        "template": pods.template(
            cr.spec.template,
            labels.LOGIN,
            cr.name,
            _pod_spec(cr, controller, refs),
            _hashes(cr, controller, refs, ssh),
        ),
    }
    if cr.spec.strategy:
        spec["strategy"] = msgspec.to_builtins(cr.spec.strategy)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": made_of.workload(cr, cr.name, labels.of(labels.LOGIN, cr.name)),
        "spec": spec,
    }


def _hashes(cr: LoginSet, controller: Controller, refs: Refs, ssh: Object) -> dict[str, str]:
    sssd = cr.spec.sssd_conf_ref
    key = controller.spec.slurm_key_ref
    result = {
        **metadata.restart(cr),
        labels.SSH_HOST_KEYS_HASH: hashes.of_map(refs.secrets.get(names.ssh_host_keys(cr), {})),
        labels.SSHD_CONF_HASH: hashes.of_text(ssh["data"][sshd.FILE]),
        labels.SSSD_CONF_HASH: hashes.of_bytes(refs.secrets.get(sssd.name, {}).get(sssd.key, b"")),
    }
    return {**result, labels.SLURM_KEY_HASH: hashes.of_map(refs.secrets.get(key.name, {}))} if key else result


def _pod_spec(cr: LoginSet, controller: Controller, refs: Refs) -> Object:
    search = names.long_host(names.workers_service(controller.name), cr.namespace, refs.domain)
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsConfig": {"searches": [search]},
        "initContainers": [_initconf(cr)],
        "containers": [_login(cr, controller)],
        "volumes": _volumes(cr, controller),
    }


def _initconf(cr: LoginSet) -> Object:
    base: Object = {
        "name": "initconf",
        "image": images.of(cr.spec.login, DAEMON),
        "command": pods.shell("initconf.sh"),
        "env": [{"name": "SLURM_USER", "value": "slurm"}],
        "volumeMounts": [
            pods.mount(pods.ETC_VOLUME, "/mnt/etc/slurm"),
            pods.mount(CONFIG_VOLUME, "/mnt/slurm", read_only=True),
        ],
    }
    return pods.container(base, cr.spec.initconf, "initconf")


def _login(cr: LoginSet, controller: Controller) -> Object:
    base: Object = {
        "name": DAEMON,
        "image": images.of(cr.spec.login, DAEMON),
        "env": [{"name": "SACKD_OPTIONS", "value": f"--conf-server {names.conf_server(controller)}"}],
        "ports": [{"name": DAEMON, "containerPort": names.SSH_PORT, "protocol": "TCP"}],
        "readinessProbe": {"exec": {"command": ["test", "-S", "/run/slurm/sack.socket"]}},
        "volumeMounts": _mounts(),
    }
    merged = pods.container(base, cr.spec.login, "login")
    return {**merged, "ports": _ports(merged["ports"])}


def _ports(ports: list[Object]) -> list[Object]:
    # A user's port of the same name means: sshd listens there instead.
    ours = {"name": DAEMON, "containerPort": names.SSH_PORT, "protocol": "TCP"}
    renamed = any(port.get("name") == DAEMON and port.get("containerPort") != names.SSH_PORT for port in ports)
    return [port for port in ports if port != ours] if renamed else ports


def _mounts() -> list[Object]:
    keys = [pods.mount(HOST_KEYS_VOLUME, f"/etc/ssh/{name}", read_only=True, sub_path=name) for name in HOST_KEY_FILES]
    return [
        pods.mount(pods.ETC_VOLUME, pods.ETC, read_only=True),
        pods.mount(SACKD_VOLUME, "/run/slurm"),
        *keys,
        pods.mount(SSH_VOLUME, f"/etc/ssh/{sshd.FILE}", read_only=True, sub_path=sshd.FILE),
        pods.mount(SSH_VOLUME, f"/root/.ssh/{AUTHORIZED_KEYS}", read_only=True, sub_path=AUTHORIZED_KEYS),
        pods.mount(SSSD_VOLUME, f"/etc/sssd/{SSSD_FILE}", read_only=True, sub_path=SSSD_FILE),
    ]


def _volumes(cr: LoginSet, controller: Controller) -> list[Object]:
    key = controller.spec.slurm_key_ref
    modes = {name: 0o644 if name.endswith(".pub") else 0o600 for name in HOST_KEY_FILES}
    items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
    files = [{"key": name, "path": name, "mode": 0o600} for name in (sshd.FILE, AUTHORIZED_KEYS)]
    return [
        pods.memory_dir(pods.ETC_VOLUME),
        pods.memory_dir(SACKD_VOLUME),
        pods.projected(CONFIG_VOLUME, [pods.secret_file(key, pods.KEY_FILE)] if key else []),
        pods.projected(HOST_KEYS_VOLUME, [{"secret": {"name": names.ssh_host_keys(cr), "items": items}}]),
        pods.projected(SSH_VOLUME, [{"configMap": {"name": names.ssh_config(cr), "items": files}}]),
        pods.projected(SSSD_VOLUME, [pods.secret_file(cr.spec.sssd_conf_ref, SSSD_FILE, 0o600)]),
    ]
