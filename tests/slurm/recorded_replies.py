"""Recorded responses as bytes, to be spoilt by a test, and a client that is answered with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.slurm.replay import VERSIONS, load

from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

RELEASES = sorted(VERSIONS)

MARK = "@@hostile@@"


def recorded(release: str, kind: str) -> dict[str, Any]:
    # 24.11 had no reservation when it was recorded; its shape is the same.
    body: dict[str, Any] = json.loads(load("26.05" if kind == "reservations" else release, kind).body)
    return body


def reply(document: dict[str, Any], hostile: bytes = b"") -> Reply:
    return Reply(200, "application/json", json.dumps(document).encode().replace(b'"%s"' % MARK.encode(), hostile))


class Line:
    """A transport that answers by a function of the path after the version."""

    def __init__(self, answer: Callable[[str], Reply]) -> None:
        self.answer = answer

    async def send(self, sending: Sending, _token: str, /) -> Reply:
        if VERSIONS["26.05"] not in sending.path:
            return load("26.05", "unknown_version")
        return self.answer(sending.path.split(VERSIONS["26.05"])[1])

    async def close(self) -> None:
        pass


def replayed(path: str) -> Reply:
    return load("26.05", "ping" if path.startswith("/ping") else path.strip("/").split("/")[0])
