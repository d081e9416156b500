"""Gives a TLS context its certificate and key, over no disk.

In: PEM. Out: a context that uses it. Called by the servers (`cli/serving.py`, `cli/webhook.py`, the embedded API
server) and by the client (`kube_runtime/client/credentials.py`).
"""

from __future__ import annotations

import os
import ssl
import tempfile


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Give a context a certificate and its key; connections made from now on see them.

    Python reads them from files only. Where it can be had the file is in memory, so that a full disk stops no rotation.
    """
    content = certificate.rstrip() + b"\n" + key
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile(prefix="slurm-operator-") as file:
            file.write(content)
            file.flush()
            context.load_cert_chain(file.name)
        return
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(content)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
