"""Where a node agent plugs in: logs, exec and port-forward of pods. Without one, these answer 503.

`handlers` calls `logs`; `http` calls `connect` with the raw request, since the connection is upgraded there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from aiohttp import web


class PodAccess(Protocol):
    """What a node agent offers for the pods that it runs."""

    def logs(self, pod: Mapping[str, Any], options: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The log of one container; `options` are the query of `pods/log` (container, follow, tailLines …).

        The first piece, which may be empty, is waited for: until then ApiError may say that there is no log.
        """
        ...

    async def connect(self, request: web.Request, pod: Mapping[str, Any], subresource: str) -> web.StreamResponse:
        """Serves `exec` or `portforward` on an upgraded connection."""
        ...
