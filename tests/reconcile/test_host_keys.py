"""Drawing host keys delays nobody, and they are drawn only where there are none."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
from tests.campaigns.rig import Disturbance, World
from tests.campaigns.scenarios import KEYS, REF

from kube_runtime.client.errors import TooManyRequests
from kube_runtime.client.events import Recorder
from kube_runtime.client.objects import RawObject
from kube_runtime.client.write import Writer
from slurm_operator.api.loginset import LoginSet
from slurm_operator.plan.actions import CreateHostKeys, Plan
from slurm_operator.reconcile import host_keys
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.status_pace import StatusPace

KINDS = ("rsa", "ecdsa", "ed25519")


async def test_a_set_has_every_kind_as_openssh_writes_it() -> None:
    keys = await host_keys.draw()
    assert sorted(keys) == sorted(
        name for kind in KINDS for name in (f"ssh_host_{kind}_key", f"ssh_host_{kind}_key.pub")
    )
    assert all(b"OPENSSH PRIVATE KEY" in keys[f"ssh_host_{kind}_key"] for kind in KINDS)


async def test_keys_are_drawn_beside_the_event_loop_one_set_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once: list[int] = []
    running = threading.Semaphore(0)

    def slow() -> dict[str, bytes]:
        running.release()
        at_once.append(running._value)
        time.sleep(0.1)
        running.acquire()
        return {}

    monkeypatch.setattr(host_keys, "_draw", slow)
    drawing = asyncio.gather(*(host_keys.draw() for _ in range(3)))
    ticks = 0
    while not drawing.done():
        await asyncio.sleep(0.001)
        ticks += 1
    assert at_once == [1, 1, 1]
    assert ticks > 20


@pytest.mark.parametrize("problem", [None, TooManyRequests("busy")], ids=["they are there", "nobody can say"])
async def test_keys_that_a_cache_does_not_show_are_not_drawn_again(
    problem: TooManyRequests | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: in a storm of refused requests they were drawn at every try, a second of a processor each."""
    world = World(Disturbance())
    await world.open()
    await world.create("Controller", "slurm", KEYS)
    await world.create("LoginSet", "login", {**REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}})
    await world.run()
    assert world.operator is not None
    writer, drawn = world.operator.writer, world.judge.keys_drawn
    executor = Executor(writer, Recorder(writer, "a"), StatusPace(world.clock.monotonic), world._host_keys)
    login = msgspec.convert(world.custom("LoginSet", "login"), LoginSet)
    find = writer.find

    async def found(*place: Any) -> RawObject | None:
        if problem is not None:
            raise problem
        return await find(*place)

    monkeypatch.setattr(Writer, "find", lambda _, *place: found(*place))
    with nullcontext() if problem is None else pytest.raises(TooManyRequests):
        await executor.execute(Plan(((CreateHostKeys(login),),)), login, "LoginSet")
    assert (drawn, world.judge.keys_drawn) == (1, 1)
    await world.close()
