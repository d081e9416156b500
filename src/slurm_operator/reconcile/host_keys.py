"""Generates ssh host keys.

Out: private keys in OpenSSH's form and their public lines. Called once in a LoginSet's life, by `reconcile/execute.py`.
A large RSA key takes a second of CPU time: keys are generated in a thread, one set at a time, so that many new
LoginSets do not delay anything else.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

RSA_BITS = 4096
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="host-keys")


async def draw() -> dict[str, bytes]:
    """A new set of host keys: RSA, ECDSA and Ed25519."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, _draw)


def _draw() -> dict[str, bytes]:
    keys: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey] = {
        "rsa": rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS),
        "ecdsa": ec.generate_private_key(ec.SECP256R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
    }
    result: dict[str, bytes] = {}
    for kind, key in keys.items():
        result[f"ssh_host_{kind}_key"] = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        result[f"ssh_host_{kind}_key.pub"] = (
            key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
        )
    return result
