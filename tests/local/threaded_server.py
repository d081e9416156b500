"""The embedded API server on a thread with an event loop of its own, for tests that wait for another program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from kube_local.apiserver import ApiServer


class Served:
    """A server that listens from the start until `stop`."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self.server.start())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object."""

        async def post() -> None:
            answer = await self.server.handle("POST", path, body=body)
            assert answer.status < 300, answer.body

        self._run(post())

    def patch(self, path: str, body: Mapping[str, Any]) -> None:
        """Merge something into an object, or into its status."""

        async def send() -> None:
            merge = {"content-type": "application/merge-patch+json"}
            answer = await self.server.handle("PATCH", path, headers=merge, body=body)
            assert answer.status < 300, answer.body

        self._run(send())

    def stop(self) -> None:
        """Ends server, loop and thread."""
        self._run(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
