"""The server's own certificates: a CA and a server certificate for loopback; clients have a token.

Kept in a folder when one is given, so that a kubeconfig stays good across restarts. Called by `ApiServer.start`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from kube_runtime import pki

_LIFE = timedelta(days=3650)
_FILES = ("ca.crt", "server.crt", "server.key", "token")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Everything that server and clients need to trust each other, as PEM, and the bearer token."""

    ca: bytes
    server_certificate: bytes
    server_key: bytes
    token: str


def load_or_make(folder: Path, hosts: Sequence[str]) -> Credentials:
    """The credentials in a folder; made there when it has none, or not all of them."""
    if all((folder / name).is_file() for name in _FILES):
        ca, chain, key, token = ((folder / name).read_bytes() for name in _FILES)
        return Credentials(ca, chain, key, token.decode())
    made = make(hosts)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    contents = (made.ca, made.server_certificate, made.server_key, made.token.encode())
    for name, content in zip(_FILES, contents, strict=True):
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
    return made


def make(hosts: Sequence[str]) -> Credentials:
    """New credentials for a server on these host names and addresses."""
    ca_key = pki.new_key()
    ca_name = pki.subject("slurm-operator local CA")
    ca = (
        _unsigned(ca_name, ca_name, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Credentials(pki.pem(ca), *_server(ca, ca_key, hosts), token=secrets.token_urlsafe(32))


def _unsigned(whom: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return pki.unsigned(whom, issuer, key.public_key(), now - timedelta(hours=1), now + _LIFE)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _server(ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, hosts: Sequence[str]) -> tuple[bytes, bytes]:
    key = pki.new_key()
    made = (
        _unsigned(pki.subject("slurm-operator local API server"), ca.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .add_extension(pki.hosts(hosts), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return pki.pem(made), pki.key_pem(key)
