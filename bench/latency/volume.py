"""How long a file alone takes into a pod: the floor of every change that is handed over through a ConfigMap.

In: a client of a running cluster, a namespace, and an image with bash. Out: seconds from the write of a ConfigMap, with
an annotation of the pod right after it, until a container of that pod reads the new file: a second apart, and back to
back. There is no operator in this, and no Slurm. Used by `bench/config_latency.py`.

The container looks at the file every 5 ms and prints what is new; its log is followed. Both are part of each number.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

from kube_runtime.client.client import Client
from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import CONFIG_MAPS, PODS

NAME = "bench-volume"
PATH = "/bench/text"
LIMIT_SECONDS = 60.0
LOOK_SECONDS = 0.2
# Sleeps in bash itself: the pipe has no writer that ever writes.
SCRIPT = f"""
exec {{never}}<> <(:)
last=
while read -rt 0.005 -u "$never" _; (($? > 128)); do
  text=$(<{PATH})
  [[ $text == "$last" ]] || {{ last=$text; printf '%s\\n' "$text"; }}
done
"""


class Volume:
    """A pod with one file, and its log."""

    def __init__(self, kube: Client, namespace: str, lines: AsyncGenerator[str, None]) -> None:
        self._kube, self._namespace, self._lines = kube, namespace, lines
        self._number = 0

    async def change(self) -> float:
        """Seconds until the pod reads a new text."""
        self._number += 1
        text = str(self._number)
        started = time.perf_counter()
        await self._kube.merge_patch(CONFIG_MAPS, NAME, {"data": {"text": text}}, self._namespace)
        nudge = {"metadata": {"annotations": {"bench/nudge": text}}}
        await self._kube.merge_patch(PODS.raw(), NAME, nudge, self._namespace)
        await asyncio.wait_for(self._until(text), LIMIT_SECONDS)
        return time.perf_counter() - started

    async def until_read(self) -> None:
        """Until the pod reads the first text."""
        await asyncio.wait_for(self._until("0"), LIMIT_SECONDS)

    async def _until(self, text: str) -> None:
        async for line in self._lines:
            if line == text:
                return
        raise RuntimeError(f"the log of {NAME} has ended")


@asynccontextmanager
async def volume(kube: Client, namespace: str, image: str) -> AsyncIterator[Volume]:
    """A pod with one file from a ConfigMap; both are taken away at the end."""
    try:
        await kube.create(CONFIG_MAPS, {"metadata": {"name": NAME}, "data": {"text": "0"}}, namespace)
        await kube.create(PODS.raw(), _pod(image), namespace)
        await _runs(kube, namespace)
        async with aclosing(kube.logs(namespace, NAME, follow=True)) as lines:
            found = Volume(kube, namespace, lines)
            await found.until_read()
            yield found
    finally:
        for resource in (PODS.raw(), CONFIG_MAPS.raw()):
            with suppress(NotFound):
                await kube.delete(resource, NAME, namespace)


async def _runs(kube: Client, namespace: str) -> None:
    for _ in range(int(LIMIT_SECONDS / LOOK_SECONDS)):
        if (await kube.get(PODS, NAME, namespace)).status.phase == "Running":
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise TimeoutError(f"pod {NAME} does not run after {LIMIT_SECONDS} s")


def _pod(image: str) -> dict[str, Any]:
    container = {
        "name": "reader",
        "image": image,
        "command": ["bash", "-c", SCRIPT],
        "volumeMounts": [{"name": "file", "mountPath": PATH.rpartition("/")[0]}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": [{"name": "file", "configMap": {"name": NAME}}],
        },
    }
