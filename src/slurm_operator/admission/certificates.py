"""The admission server's own certificates: made, renewed with overlap, never a minute without a valid chain.

In: what is held in a Secret, what is published to the API server, the time. Out: the next step, as data. Carried out by
`rotation.py`; `issue` also makes the certificate of the metrics server (`cli/serving.py`). Each certificate has a CA of
its own, whose key is thrown away once it has signed: there is nothing to steal, and renewing one is renewing both. The
order keeps every API server able to trust what it meets: publish the next CA beside the present one, wait until all
have seen it, serve the next certificate, wait, drop the old CA.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from kube_runtime import pki

LIFE = timedelta(days=90)
RENEW_BEFORE = timedelta(days=30)
# API servers may act on an old caBundle for ten minutes, and clocks may differ by five.
OVERLAP = timedelta(minutes=30)
BACKDATE = timedelta(hours=1)

CA, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
NEXT_CA, NEXT_CERTIFICATE, NEXT_KEY = "next-ca.crt", "next-tls.crt", "next-tls.key"
SINCE = "since"
NEXT = (NEXT_CA, NEXT_CERTIFICATE, NEXT_KEY)
_END = b"-----END CERTIFICATE-----\n"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, its key, and the CA that vouches for it, as PEM."""

    ca: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Held:
    """What the Secret holds."""

    # Every CA that may be met; the first has signed the certificate.
    ca: bytes
    certificate: bytes
    key: bytes
    # When the last step was taken.
    since: datetime
    next: Pair | None = None

    @property
    def bundle(self) -> bytes:
        """Every CA that API servers must trust now."""
        return self.ca + (self.next.ca if self.next else b"")


@dataclass(frozen=True, slots=True)
class Published:
    """What one webhook of a configuration trusts, and since when, if that is known."""

    bundle: bytes
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Hold:
    """Write the Secret."""

    held: Held
    why: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Write the bundle into the webhook configuration."""

    bundle: bytes


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do until then."""

    until: datetime


Step = Hold | Publish | Rest


def plan(held: Held | None, published: Sequence[Published], hosts: Sequence[str], now: datetime) -> Step:
    """The next step of a certificate's life."""
    if held is None:
        pair = issue(hosts, now)
        return Hold(Held(pair.ca, pair.certificate, pair.key, now), "the first certificate")
    if any(each.bundle != held.bundle or each.since is None for each in published):
        return Publish(held.bundle)
    trusted = max((each.since for each in published if each.since), default=held.since)
    if held.next is not None:
        return _promote(held, held.next, max(trusted, held.since), now)
    if expiry(held.certificate) - now < RENEW_BEFORE:
        return Hold(Held(held.ca, held.certificate, held.key, now, issue(hosts, now)), "the certificate expires soon")
    return _retire(held, now)


def _promote(held: Held, pair: Pair, trusted: datetime, now: datetime) -> Step:
    safe = trusted + OVERLAP
    if now < safe and now < expiry(held.certificate):
        return Rest(min(safe, expiry(held.certificate)))
    both = pair.ca + certificates_in(held.ca)[0]
    return Hold(Held(both, pair.certificate, pair.key, now), "every API server trusts the next certificate")


def _retire(held: Held, now: datetime) -> Step:
    authorities = certificates_in(held.ca)
    if len(authorities) == 1:
        return Rest(expiry(held.certificate) - RENEW_BEFORE + timedelta(seconds=1))
    if now < held.since + OVERLAP:
        return Rest(held.since + OVERLAP)
    return Hold(Held(authorities[0], held.certificate, held.key, now), "nobody serves the old certificate any more")


def read(data: Mapping[str, bytes]) -> Held | None:
    """What a Secret holds; None when it is not whole or not readable."""
    try:
        since = datetime.fromisoformat(data[SINCE].decode())
        following = Pair(*(data[name] for name in NEXT)) if all(data.get(name) for name in NEXT) else None
        held = Held(data[CA], data[CERTIFICATE], data[KEY], since, following)
        certificates_in(held.bundle)
        expiry(held.certificate)
        serialization.load_pem_private_key(held.key, None)
    except (KeyError, ValueError, IndexError):
        return None
    return held if certificates_in(held.ca) else None


def written(held: Held) -> dict[str, bytes | None]:
    """What a Secret is to hold; None takes a key away."""
    following = held.next
    return {
        CA: held.ca,
        CERTIFICATE: held.certificate,
        KEY: held.key,
        SINCE: held.since.isoformat().encode(),
        NEXT_CA: following.ca if following else None,
        NEXT_CERTIFICATE: following.certificate if following else None,
        NEXT_KEY: following.key if following else None,
    }


def hosts_of(service: str, namespace: str, domain: str) -> tuple[str, ...]:
    """The names that an API server may know the server by."""
    short = f"{service}.{namespace}"
    return (f"{short}.svc", f"{short}.svc.{domain}", short)


def certificates_in(pem: bytes) -> list[bytes]:
    """Each certificate of a bundle on its own."""
    parts = [part.lstrip() + _END for part in pem.replace(b"\r\n", b"\n").split(_END) if part.strip()]
    for part in parts:
        x509.load_pem_x509_certificate(part)
    return parts


def expiry(certificate: bytes) -> datetime:
    """When a certificate ends."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def issue(hosts: Iterable[str], now: datetime, life: timedelta = LIFE) -> Pair:
    """A certificate for these names, and the CA that vouches for it."""
    start = (now - BACKDATE).astimezone(UTC)
    ca_key, key = pki.new_key(), pki.new_key()
    ca_name = pki.subject("slurm-operator admission CA")
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    ca = (
        pki.unsigned(ca_name, ca_name, ca_key.public_key(), start, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    name = pki.subject("slurm-operator admission")
    leaf = (
        pki.unsigned(name, ca_name, key.public_key(), start, now + life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(pki.hosts(hosts), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Pair(pki.pem(ca), pki.pem(leaf), pki.key_pem(key))
