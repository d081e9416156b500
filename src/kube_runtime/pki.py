"""What every certificate of ours is made of: names, dates, and the form that it is kept in.

In: names, a key, times. Out: a certificate that is yet to be signed, and PEM. Used by the certificates of an admission
server and of the embedded API server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def new_key() -> ec.EllipticCurvePrivateKey:
    """A key of its own for each certificate."""
    return ec.generate_private_key(ec.SECP256R1())


def subject(common: str) -> x509.Name:
    """Whom a certificate is for, or whom it is from."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def unsigned(
    whom: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    """A certificate without extensions, before it is signed."""
    return (
        x509.CertificateBuilder()
        .subject_name(whom)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def hosts(names: Iterable[str]) -> x509.SubjectAlternativeName:
    """The host names and addresses that a server may be known by."""
    return x509.SubjectAlternativeName([_host(name) for name in names])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def pem(certificate: x509.Certificate) -> bytes:
    """A certificate as files and Secrets hold it."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as files and Secrets hold it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
