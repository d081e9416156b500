"""Lost nodes, taints and the pods that leave, on the embedded API server in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

UNREACHABLE = "node.kubernetes.io/unreachable"
LONG = 1000.0


def _pod(name: str, node: str, **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "image"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [main], **spec},
    }


async def _taints(cluster: Any, name: str) -> set[tuple[str, str]]:
    found = (await cluster.there("Node", name))["spec"].get("taints") or ()
    return {(one["key"], one["effect"]) for one in found}


async def _gone(cluster: Any, name: str) -> None:
    async def gone() -> bool:
        return await cluster.get("Pod", name) is None

    await cluster.until(gone, LONG)


class Heart:
    """Beats for a node until it is stopped."""

    def __init__(self, cluster: Any, heartbeat: Any, name: str) -> None:
        self._task = asyncio.create_task(self._beat(cluster, heartbeat, name))

    async def _beat(self, cluster: Any, heartbeat: Any, name: str) -> None:
        while True:
            await heartbeat(cluster, name)
            await asyncio.sleep(10)

    def stop(self) -> None:
        self._task.cancel()


def test_a_silent_node_is_tainted_and_its_pods_leave_after_their_toleration(
    in_virtual_time: Any, heartbeat: Any
) -> None:
    async def test(cluster: Any) -> None:
        heart = Heart(cluster, heartbeat, "node-0")
        started = asyncio.get_running_loop().time()
        await cluster.create(_pod("lost", "node-1"))
        await cluster.create(_pod("safe", "node-0"))

        async def tainted() -> bool:
            return (UNREACHABLE, "NoExecute") in await _taints(cluster, "node-1")

        await cluster.until(tainted, LONG)
        assert asyncio.get_running_loop().time() - started >= 40
        ready = next(
            one for one in (await cluster.there("Node", "node-1"))["status"]["conditions"] if one["type"] == "Ready"
        )
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert await _taints(cluster, "node-0") == set()
        await _gone(cluster, "lost")
        assert asyncio.get_running_loop().time() - started >= 340
        assert await cluster.get("Pod", "safe") is not None
        heart.stop()

    in_virtual_time(test)


def test_when_every_node_is_silent_nobody_is_evicted(in_virtual_time: Any, heartbeat: Any) -> None:
    async def test(cluster: Any) -> None:
        impatient: list[dict[str, Any]] = [{"key": "other", "operator": "Exists"}]
        impatient += [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]
        await cluster.create(_pod("kept", "node-0", tolerations=impatient))

        async def unknown() -> bool:
            found = [await _taints(cluster, name) for name in ("node-0", "node-1")]
            return all((UNREACHABLE, "NoSchedule") in one for one in found)

        await cluster.until(unknown, LONG)
        await asyncio.sleep(LONG)
        assert await cluster.get("Pod", "kept") is not None
        assert (UNREACHABLE, "NoExecute") not in await _taints(cluster, "node-0")

    in_virtual_time(test)


def test_a_node_that_comes_back_loses_its_taints(in_virtual_time: Any, heartbeat: Any) -> None:
    async def test(cluster: Any) -> None:
        heart = Heart(cluster, heartbeat, "node-0")

        async def tainted() -> bool:
            return (UNREACHABLE, "NoSchedule") in await _taints(cluster, "node-1")

        await cluster.until(tainted, LONG)
        again = Heart(cluster, heartbeat, "node-1")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        await asyncio.sleep(1)
        await cluster.patch("Node", "node-1", {"status": {"conditions": [ready]}}, "status")

        async def clean() -> bool:
            return await _taints(cluster, "node-1") == set()

        await cluster.until(clean, LONG)
        heart.stop()
        again.stop()

    in_virtual_time(test)


async def test_a_taint_by_hand_evicts_who_does_not_tolerate_it(cluster: Any) -> None:
    tolerant = [{"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}]
    await cluster.create(_pod("leaves", "node-0"))
    await cluster.create(_pod("stays", "node-0", tolerations=tolerant))
    await cluster.status("Pod", "leaves", phase="Running")
    await cluster.patch("Node", "node-0", {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
    await _gone(cluster, "leaves")
    await cluster.quiet()
    assert (await cluster.there("Pod", "stays"))["metadata"].get("deletionTimestamp") is None


def test_a_short_toleration_is_waited_for(in_virtual_time: Any, heartbeat: Any) -> None:
    async def test(cluster: Any) -> None:
        hearts = [Heart(cluster, heartbeat, name) for name in ("node-0", "node-1")]
        brief = [{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
        await cluster.create(_pod("brief", "node-0", tolerations=brief))
        started = asyncio.get_running_loop().time()
        await cluster.patch("Node", "node-0", {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
        await _gone(cluster, "brief")
        assert asyncio.get_running_loop().time() - started >= 60
        for heart in hearts:
            heart.stop()

    in_virtual_time(test)


async def test_a_cordon_is_shown_as_a_taint(cluster: Any) -> None:
    await cluster.patch("Node", "node-0", {"spec": {"unschedulable": True}})

    async def shown() -> bool:
        return await _taints(cluster, "node-0") == {("node.kubernetes.io/unschedulable", "NoSchedule")}

    await cluster.until(shown)


def test_pods_of_a_node_that_is_gone_are_removed(in_virtual_time: Any, heartbeat: Any) -> None:
    async def test(cluster: Any) -> None:
        hearts = [Heart(cluster, heartbeat, name) for name in ("node-0", "node-1")]
        await cluster.create(_pod("lost", "node-1"))
        await cluster.create(_pod("never", "no-such-node"))
        await cluster.delete("Node", "node-1")
        await _gone(cluster, "lost")
        await _gone(cluster, "never")
        for heart in hearts:
            heart.stop()

    in_virtual_time(test)
