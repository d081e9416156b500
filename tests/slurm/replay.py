"""A slurmrestd made of answers recorded from real daemons (`recorded/<release>/*.json`), for the client's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from slurm_operator.slurm.wire import Reply

RECORDED = Path(__file__).parent / "recorded"
VERSIONS = {"24.11": "v0.0.42", "26.05": "v0.0.45"}
KEY = b"k" * 32
Answering = Callable[[web.Request], web.StreamResponse]


def kept_answer(release: str, name: str) -> dict[str, Any]:
    """One recorded answer with what was asked, as it is kept; new each time."""
    found: dict[str, Any] = json.loads((RECORDED / release / f"{name}.json").read_text())
    return found


def load(release: str, name: str) -> Reply:
    """One recorded answer, as it came over the line."""
    kept = kept_answer(release, name)
    return Reply(kept["status"], kept["content_type"], _body(kept))


def _body(kept: dict[str, Any]) -> bytes:
    if "raw" in kept:
        # Bytes that are no UTF-8 are kept as lone surrogates.
        return str(kept["raw"]).encode("utf-8", "surrogateescape")
    return json.dumps(kept["json"]).encode() if "json" in kept else str(kept["text"]).encode()


def respond(reply: Reply) -> web.Response:
    """That answer, given by a server."""
    headers = {"Content-Type": reply.content_type} if reply.content_type else {}
    return web.Response(status=reply.status, body=reply.body, headers=headers)


@dataclass
class Replay:
    """A slurmrestd made of recorded answers: `on` says what to answer to "METHOD /path after the version"."""

    release: str
    answers: dict[str, Answering] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    def on(self, call: str, *names: str) -> None:
        """Answer that call with these recordings in turn, the last one for ever."""
        replies = [load(self.release, name) for name in names]
        self.on_call(call, lambda _: respond(replies.pop(0) if len(replies) > 1 else replies[0]))

    def on_call(self, call: str, answering: Answering) -> None:
        """Answer that call with what a function makes."""
        self.answers[call] = answering

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer like slurmrestd: an unknown version or path is a 404 in plain text."""
        _, _, version, *rest = request.path.split("/")
        call = f"{request.method} /{'/'.join(rest)}"
        self.seen.append(call if version == VERSIONS[self.release] else f"{call} {version}")
        self.tokens.append(request.headers.get("X-SLURM-USER-TOKEN", ""))
        self.bodies.append(json.loads(await request.read() or b"null"))
        answering = self.answers.get(call)
        if version != VERSIONS[self.release] or answering is None:
            return respond(load(self.release, "unknown_version"))
        return answering(request)
