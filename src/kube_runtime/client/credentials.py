"""Who we are to the API server: tokens, files that are rotated under us, certificates, and exec plugins.

`kubeconfig` makes one `CredentialSource` out of a user entry or a service account; `transport` asks it before every
request and tells it when the server answered 401.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kube_runtime.client.errors import KubeconfigInvalid, LoginFailed
from kube_runtime.client.timing import Timing
from kube_runtime.key_pair import load_pair

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_SECONDS = 60.0
# A token that dies while the request is on its way helps nobody.
EXPIRY_MARGIN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, repr=False)
class ClientCertificate:
    """A certificate chain and its key, PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What one request shows: a header, a certificate, both or nothing."""

    authorization: str = ""
    certificate: ClientCertificate | None = None


class CredentialSource(Protocol):
    """Gives credentials, and learns that they were refused."""

    async def current(self) -> Credentials:
        """The credentials for the next request."""

    def refused(self) -> None:
        """The server said 401 to the last ones: read or make them again."""


class Material(Protocol):
    """Bytes from the kubeconfig itself or from a file that may be rotated."""

    def read(self) -> bytes:
        """The bytes as they are now."""

    def forget(self) -> None:
        """Read again next time, changed or not."""


@dataclass(frozen=True, slots=True, repr=False)
class Inline:
    """Bytes that stand in the kubeconfig."""

    data: bytes

    def read(self) -> bytes:
        """The bytes."""
        return self.data

    def forget(self) -> None:
        """They cannot change."""


@dataclass(slots=True)
class RotatedFile:
    """A file that is read again whenever it has changed; while it is missing, its last content stands."""

    path: Path
    _seen: tuple[int, int, int] | None = None
    _data: bytes = field(default=b"", repr=False)

    def read(self) -> bytes:
        """The content, read only when the file is another one than last time."""
        try:
            stat = self.path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._data = self.path.read_bytes()
                self._seen = seen
        except OSError as error:
            if not self._data:
                raise LoginFailed(f"cannot read {self.path}: {error.strerror or error}") from error
        return self._data

    def forget(self) -> None:
        """Read again next time."""
        self._seen = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A password or nothing, and perhaps a certificate."""

    authorization: str = field(default="", repr=False)
    certificate: Material | None = None
    key: Material | None = None

    async def current(self) -> Credentials:
        """The same header every time; the certificate as it is now."""
        return Credentials(self.authorization, _pair(self.certificate, self.key))

    def refused(self) -> None:
        """Certificates may have been rotated."""
        _forget(self.certificate, self.key)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token, from the kubeconfig or from a file that is rotated."""

    token: Material
    certificate: Material | None = None
    key: Material | None = None

    async def current(self) -> Credentials:
        """The token as it is now."""
        token = self.token.read().decode("ascii", "replace").strip()
        if not token:
            raise LoginFailed("the token is empty")
        return Credentials(f"Bearer {token}", _pair(self.certificate, self.key))

    def refused(self) -> None:
        """The token may have been rotated within one clock tick of the file system."""
        _forget(self.token, self.certificate, self.key)


def _pair(certificate: Material | None, key: Material | None) -> ClientCertificate | None:
    if certificate is None or key is None:
        return None
    return ClientCertificate(certificate.read(), key.read())


def _forget(*materials: Material | None) -> None:
    for material in materials:
        if material is not None:
            material.forget()


def basic(username: str, password: str) -> str:
    """The header of a user name and a password."""
    return "Basic " + b64encode(f"{username}:{password}".encode()).decode()


class ExecCredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What an exec plugin gives."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of an exec plugin."""

    api_version: str
    kind: str
    status: ExecCredentialStatus | None = None


@dataclass(slots=True)
class ExecPlugin:
    """A program that prints credentials, run again when they expire or are refused."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    timing: Timing = field(default_factory=Timing)
    seconds: float = EXEC_SECONDS
    _held: ExecCredentialStatus | None = field(default=None, repr=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def current(self) -> Credentials:
        """The held credentials while they live, else new ones; the program never runs twice at once."""
        async with self._lock:
            if self._held is None or self._expired(self._held):
                self._held = self._parse(await self._run())
            return _credentials_of(self._held)

    def refused(self) -> None:
        """Run the program again next time."""
        self._held = None

    def _expired(self, status: ExecCredentialStatus) -> bool:
        until = status.expiration_timestamp
        return until is not None and self.timing.clock.now() >= until - EXPIRY_MARGIN

    async def _run(self) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                self.command,
                *self.args,
                env={**self.env, "KUBERNETES_EXEC_INFO": self._info()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise LoginFailed(f"cannot run {self.command!r}: {error.strerror}. {self.install_hint}") from error
        try:
            out, err = await asyncio.wait_for(process.communicate(), self.seconds)
        except TimeoutError as error:
            raise LoginFailed(f"{self.command!r} gave no credentials within {self.seconds:g} s") from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            stderr = err.decode("utf-8", "replace")
            raise LoginFailed(f"{self.command!r} ended with code {process.returncode}: {stderr} {self.install_hint}")
        return out

    def _info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _parse(self, out: bytes) -> ExecCredentialStatus:
        try:
            answer = msgspec.json.decode(out, type=ExecCredential)
        except msgspec.MsgspecError as error:
            raise LoginFailed(f"{self.command!r} printed no ExecCredential: {error}") from error
        if answer.api_version != self.api_version:
            raise LoginFailed(
                f"{self.command!r} answered in {answer.api_version}, the kubeconfig asks for {self.api_version}"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise LoginFailed(f"{self.command!r} gave neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise LoginFailed(f"{self.command!r} gave a certificate without its key, or a key alone")
        return _with_zone(status)


def _with_zone(status: ExecCredentialStatus) -> ExecCredentialStatus:
    until = status.expiration_timestamp
    if until is not None and until.tzinfo is None:
        raise LoginFailed("expirationTimestamp of the exec plugin has no time zone")
    return status


def _credentials_of(status: ExecCredentialStatus) -> Credentials:
    certificate = None
    if status.client_certificate_data:
        certificate = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
    return Credentials(f"Bearer {status.token}" if status.token else "", certificate)


def tls_context(authority: bytes, certificate: ClientCertificate | None, *, verify: bool) -> ssl.SSLContext:
    """A TLS context; an empty `authority` means the system's."""
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigInvalid(f"the certificate authority is not PEM: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 turned this on; many cluster CAs were made without the extensions it demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def _load_certificate(context: ssl.SSLContext, pair: ClientCertificate) -> None:
    try:
        load_pair(context, pair.certificate, pair.key)
    except (ssl.SSLError, OSError) as error:
        raise LoginFailed(f"the client certificate and key cannot be used: {error}") from error
