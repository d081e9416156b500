"""Which API server to talk to, and as whom.

In: KUBECONFIG (several paths), a kubeconfig file, or the service account of the pod. Out: a `Target` that `transport`
connects to. Every mistake in a file is a `KubeconfigInvalid` that names the file and the field.
"""

import binascii
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import yaml

from kube_runtime.client.credentials import (
    EXEC_VERSIONS,
    Bearer,
    CredentialSource,
    ExecPlugin,
    Fixed,
    Inline,
    Material,
    RotatedFile,
    basic,
)
from kube_runtime.client.errors import KubeconfigInvalid
from kube_runtime.client.timing import Timing

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Target:
    """An API server and how to speak to it."""

    server: str
    credentials: CredentialSource
    namespace: str = "default"
    authority: Material | None = None
    verify: bool = True
    server_name: str = ""
    proxy: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class ExecEnv(msgspec.Struct, frozen=True):
    """One variable for an exec plugin."""

    name: str
    value: str = ""


class ExecSpec(msgspec.Struct, frozen=True, rename="camel"):
    """How to run an exec plugin."""

    command: str
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecEnv, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class Extension(msgspec.Struct, frozen=True):
    """Something that a tool left in an entry."""

    name: str = ""
    extension: Any = None


class ClusterSpec(msgspec.Struct, frozen=True, rename="kebab"):
    """The cluster part of an entry."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[Extension, ...] | None = None


class UserSpec(msgspec.Struct, frozen=True, rename="kebab"):
    """The user part of an entry."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    impersonate_extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="as-user-extra")
    exec: ExecSpec | None = None
    auth_provider: Any = None


class ContextSpec(msgspec.Struct, frozen=True):
    """The context part of an entry."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class ClusterEntry(msgspec.Struct, frozen=True):
    """A named cluster."""

    name: str
    cluster: ClusterSpec


class UserEntry(msgspec.Struct, frozen=True):
    """A named user."""

    name: str
    user: UserSpec | None = None


class ContextEntry(msgspec.Struct, frozen=True):
    """A named context."""

    name: str
    context: ContextSpec


class Kubeconfig(msgspec.Struct, frozen=True, rename="kebab"):
    """One file."""

    current_context: str = ""
    clusters: tuple[ClusterEntry, ...] | None = None
    users: tuple[UserEntry, ...] | None = None
    contexts: tuple[ContextEntry, ...] | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """Several files as one; each entry remembers the folder that its relative paths start from."""

    current_context: str
    clusters: Mapping[str, tuple[ClusterSpec, Path]]
    users: Mapping[str, tuple[UserSpec, Path]]
    contexts: Mapping[str, ContextSpec]
    files: tuple[Path, ...]


def find(
    *, path: str = "", context: str = "", environ: Mapping[str, str] | None = None, timing: Timing | None = None
) -> Target:
    """The target by the usual order: the given file, KUBECONFIG, the pod's service account, ~/.kube/config."""
    environ = os.environ if environ is None else environ
    timing = timing or Timing()
    listed = path or environ.get("KUBECONFIG", "")
    if listed:
        return load([Path(part) for part in listed.split(os.pathsep) if part], context, environ, timing)
    if "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster(environ)
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    return load([home], context, environ, timing)


def in_cluster(environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Target:
    """The target that the kubelet gave to this pod."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigInvalid("not in a pod: KUBERNETES_SERVICE_HOST is not set")
    if not (directory / "token").is_file():
        raise KubeconfigInvalid(f"no service account token in {directory}: set automountServiceAccountToken")
    namespace = directory / "namespace"
    return Target(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=Bearer(RotatedFile(directory / "token")),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        authority=RotatedFile(directory / "ca.crt"),
    )


def load(
    paths: Sequence[Path],
    context: str = "",
    environ: Mapping[str, str] | None = None,
    timing: Timing | None = None,
) -> Target:
    """The target of one context out of one or more kubeconfig files."""
    merged = merge(paths)
    name = context or merged.current_context
    if not name:
        raise KubeconfigInvalid(
            f"no current-context in {_names(paths)}: name one with --context; there is {_known(merged.contexts)}"
        )
    chosen = merged.contexts.get(name)
    if chosen is None:
        raise KubeconfigInvalid(f"no context {name!r} in {_names(paths)}; there is {_known(merged.contexts)}")
    cluster, cluster_dir = _entry(merged.clusters, chosen.cluster, f"context {name!r}: cluster")
    user, user_dir = (
        (UserSpec(), Path()) if not chosen.user else _entry(merged.users, chosen.user, f"context {name!r}: user")
    )
    authority = _material(
        cluster.certificate_authority_data, cluster.certificate_authority, cluster_dir, "certificate-authority"
    )
    plugin = _Plugin(cluster, authority, os.environ if environ is None else environ, timing or Timing())
    source = _credentials(chosen.user, user, user_dir, plugin)
    return _target(chosen, cluster, authority, source, _impersonation(user))


def merge(paths: Iterable[Path]) -> Merged:
    """Merge as kubectl does: the first file to say something wins; missing files are passed over."""
    current, files = "", []
    clusters: dict[str, tuple[ClusterSpec, Path]] = {}
    users: dict[str, tuple[UserSpec, Path]] = {}
    contexts: dict[str, ContextSpec] = {}
    for path in paths:
        if not path.exists():
            continue
        config = _parse(path)
        files.append(path)
        current = current or config.current_context
        for cluster in config.clusters or ():
            clusters.setdefault(cluster.name, (cluster.cluster, path.parent))
        for user in config.users or ():
            users.setdefault(user.name, (user.user or UserSpec(), path.parent))
        for context in config.contexts or ():
            contexts.setdefault(context.name, context.context)
    if not files:
        raise KubeconfigInvalid(
            f"no kubeconfig: {_names(paths)} does not exist; name one with --kubeconfig or KUBECONFIG"
        )
    return Merged(current, clusters, users, contexts, tuple(files))


def _parse(path: Path) -> Kubeconfig:
    try:
        document = yaml.safe_load(path.read_text())
        return msgspec.convert(document or {}, Kubeconfig)
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigInvalid(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where is not None else ""
        raise KubeconfigInvalid(f"{path}{line}: not YAML") from error
    except msgspec.ValidationError as error:
        raise KubeconfigInvalid(f"{path}: not a kubeconfig: {error}") from error
    except (RecursionError, ValueError, OverflowError) as error:  # PyYAML's own constructors leak the last two
        raise KubeconfigInvalid(f"{path}: not a kubeconfig: nested too deeply, or with a value too long") from error


S = TypeVar("S")


def _entry(entries: Mapping[str, tuple[S, Path]], name: str, what: str) -> tuple[S, Path]:
    if name not in entries:
        raise KubeconfigInvalid(f"{what} {name!r} is not defined; there is {_known(entries)}")
    return entries[name]


def _known(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _names(paths: Iterable[Path]) -> str:
    return os.pathsep.join(str(path) for path in paths)


def _target(
    context: ContextSpec,
    cluster: ClusterSpec,
    authority: Material | None,
    source: CredentialSource,
    headers: tuple[tuple[str, str], ...],
) -> Target:
    parts = urlsplit(cluster.server)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise KubeconfigInvalid(f"cluster {context.cluster!r}: server {cluster.server!r} is not an http(s) address")
    if cluster.proxy_url and urlsplit(cluster.proxy_url).scheme not in {"http", "https"}:
        raise KubeconfigInvalid(f"cluster {context.cluster!r}: proxy-url is not an http(s) address")
    return Target(
        server=cluster.server.rstrip("/"),
        credentials=source,
        namespace=context.namespace or "default",
        authority=authority,
        verify=not cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        proxy=cluster.proxy_url,
        headers=headers,
    )


def _material(data: str, path: str, folder: Path, what: str) -> Material | None:
    if data:
        try:
            return Inline(b64decode(data, validate=True))
        except binascii.Error as error:
            raise KubeconfigInvalid(f"{what}-data is not base64") from error
    return RotatedFile(folder / path) if path else None


@dataclass(frozen=True, slots=True)
class _Plugin:
    """What an exec plugin may be told about its surroundings."""

    cluster: ClusterSpec
    authority: Material | None
    environ: Mapping[str, str]
    timing: Timing


def _credentials(name: str, user: UserSpec, folder: Path, plugin: _Plugin) -> CredentialSource:
    certificate = _material(user.client_certificate_data, user.client_certificate, folder, "client-certificate")
    key = _material(user.client_key_data, user.client_key, folder, "client-key")
    if (certificate is None) != (key is None):
        raise KubeconfigInvalid(f"user {name!r}: client-certificate and client-key come together")
    if user.token_file:
        return Bearer(RotatedFile(folder / user.token_file), certificate, key)
    if user.token:
        return Bearer(Inline(user.token.encode()), certificate, key)
    if user.username:
        return Fixed(basic(user.username, user.password), certificate, key)
    if user.exec is not None:
        return _exec_plugin(name, user.exec, folder, plugin)
    if user.auth_provider is not None:
        raise KubeconfigInvalid(f"user {name!r}: auth-provider is gone from Kubernetes; use an exec plugin")
    return Fixed("", certificate, key)


def _exec_plugin(name: str, spec: ExecSpec, folder: Path, plugin: _Plugin) -> ExecPlugin:
    if spec.api_version not in EXEC_VERSIONS:
        raise KubeconfigInvalid(
            f"user {name!r}: exec apiVersion {spec.api_version!r} is not one of {', '.join(EXEC_VERSIONS)}"
        )
    if spec.interactive_mode == "Always":
        raise KubeconfigInvalid(f"user {name!r}: the exec plugin wants a terminal (interactiveMode: Always)")
    # A command with a slash is relative to the file; a bare word is looked up in PATH.
    command = str(folder / spec.command) if "/" in spec.command else spec.command
    return ExecPlugin(
        api_version=spec.api_version,
        command=command,
        args=spec.args or (),
        env={**plugin.environ, **{item.name: item.value for item in spec.env or ()}},
        install_hint=spec.install_hint,
        cluster=_cluster_info(plugin) if spec.provide_cluster_info else None,
        timing=plugin.timing,
    )


def _cluster_info(plugin: _Plugin) -> dict[str, Any]:
    cluster = plugin.cluster
    authority = b64encode(plugin.authority.read()).decode() if plugin.authority is not None else ""
    wanted = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "config": _exec_extension(cluster),
    }
    return {key: value for key, value in wanted.items() if value}


def _exec_extension(cluster: ClusterSpec) -> Any:
    for entry in cluster.extensions or ():
        if entry.name == "client.authentication.k8s.io/exec":
            return entry.extension
    return None


def _impersonation(user: UserSpec) -> tuple[tuple[str, str], ...]:
    wanted = [("Impersonate-User", user.impersonate), ("Impersonate-Uid", user.impersonate_uid)]
    wanted += [("Impersonate-Group", group) for group in user.impersonate_groups]
    for key, values in user.impersonate_extra.items():
        wanted += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return tuple((key, value) for key, value in wanted if value)
