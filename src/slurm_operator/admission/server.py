"""The admission server: HTTPS in front of the rules.

In: a way to see a namespace, and whom to tell of each answer. Out: an aiohttp application with one path per kind, as
the Go operator has them. Called by `cli/webhook.py`. It holds no state; any number of them may run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from slurm_operator.admission.review import RefsOf, answer
from slurm_operator.api.kinds import KINDS
from slurm_operator.api.meta import GROUP, VERSION

LARGEST = 3 * 1024 * 1024

# Kind, result and seconds of one answer.
Report = Callable[[str, str, float], None]


def path_of(kind: str) -> str:
    """Where a kind is checked."""
    return f"/validate-{GROUP.replace('.', '-')}-{VERSION}-{kind.lower()}"


def admission_app(refs_of: RefsOf, report: Report = lambda _, __, ___: None) -> web.Application:
    """The application that API servers talk to."""
    app = web.Application(client_max_size=LARGEST)
    for kind in KINDS:
        app.router.add_post(path_of(kind.name), _handler(refs_of, kind.name, report))
    return app


def _handler(refs_of: RefsOf, kind: str, report: Report) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="reviews are sent as application/json\n")
        body = await request.read()
        started = time.monotonic()
        code, body, result = answer(body, refs_of)
        report(kind, result, time.monotonic() - started)
        return web.Response(status=code, body=body, content_type="application/json" if code == 200 else "text/plain")

    return handle
