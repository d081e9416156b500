"""Changes reach those whom they concern; sources come and go with what they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from kube_runtime.clock import VirtualClock, run_until_idle
from kube_runtime.loop.metrics import Metrics
from kube_runtime.loop.queue import Key
from kube_runtime.loop.watches import (
    Listener,
    SourceSet,
    Watch,
    to_owner,
)

GROUP = "slinky.slurm.net"


@dataclass(frozen=True)
class Owner:
    kind: str
    name: str
    api_version: str = f"{GROUP}/v1beta1"
    uid: str = "u"
    controller: bool | None = True


@dataclass(frozen=True)
class Meta:
    name: str
    namespace: str = "slurm"
    uid: str = "u"
    resource_version: str = "1"
    labels: Mapping[str, str] = field(default_factory=dict)
    owner_references: tuple[Owner, ...] = ()


@dataclass(frozen=True)
class Thing:
    metadata: Meta
    generation: int = 1


def thing(name: str, *owners: Owner, generation: int = 1, **labels: str) -> Thing:
    return Thing(Meta(name, labels=labels, owner_references=owners), generation)


class Inbox:
    """A controller's inbox."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    def add(self, key: Key) -> None:
        self.keys.append(key)


@dataclass
class FakeSource:
    """A cache that is told what to do by the test."""

    synced: bool = False
    failure: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    listeners: list[Listener] = field(default_factory=list)
    started: int = 0

    def on_change(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def age(self) -> float | None:
        return 1.5 if self.synced else None

    async def run(self) -> None:
        self.started += 1
        await self.failure.wait()
        if self.error is not None:
            raise self.error

    def tell(self, old: Thing | None, new: Thing | None) -> None:
        for listener in self.listeners:
            listener(old, new)


def names(keys: Iterable[Key]) -> list[str]:
    return [str(key) for key in keys]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (thing("p", Owner("NodeSet", "gpu")), ["slurm/gpu"]),
        (thing("p", Owner("NodeSet", "gpu", api_version=f"{GROUP}/v2")), ["slurm/gpu"]),
        (thing("p", Owner("NodeSet", "gpu", api_version="other.io/v1")), []),
        (thing("p", Owner("LoginSet", "gpu")), []),
        (thing("p", Owner("NodeSet", "gpu", controller=None)), []),
        (thing("p"), []),
        (Thing(Meta("n", namespace="", owner_references=(Owner("NodeSet", "gpu"),))), ["gpu"]),
    ],
    ids=["owner", "other version", "other group", "other kind", "not controlling", "no owner", "cluster-wide"],
)
def test_a_child_belongs_to_its_controlling_owner(obj: Thing, expected: list[str]) -> None:
    assert names(to_owner(GROUP, "NodeSet")(obj)) == expected


def test_an_owner_that_does_not_control_can_be_asked_for() -> None:
    obj = thing("p", Owner("NodeSet", "a", controller=False), Owner("NodeSet", "b"))
    assert names(to_owner(GROUP, "NodeSet", controlling=False)(obj)) == ["slurm/a", "slurm/b"]


def test_the_core_group_has_no_name() -> None:
    obj = thing("p", Owner("Secret", "key", api_version="v1"))
    assert names(to_owner("", "Secret")(obj)) == ["slurm/key"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, thing("p", Owner("NodeSet", "a")), ["slurm/a"]),
        (thing("p", Owner("NodeSet", "a")), None, ["slurm/a"]),
        (thing("p", Owner("NodeSet", "a")), thing("p", Owner("NodeSet", "a"), x="1"), ["slurm/a"]),
        (
            thing("p", Owner("NodeSet", "a")),
            thing("p", Owner("NodeSet", "b")),
            ["slurm/a", "slurm/b"],
        ),
        (thing("p", Owner("NodeSet", "a")), thing("p"), ["slurm/a"]),
    ],
    ids=["created", "deleted", "changed once", "moved: both owners", "released: the old owner"],
)
def test_old_and_new_owners_hear_of_a_change(old: Thing | None, new: Thing | None, expected: list[str]) -> None:
    source, inbox = FakeSource(), Inbox()
    Watch(source, inbox, to_owner(GROUP, "NodeSet")).connect()
    source.tell(old, new)
    assert names(inbox.keys) == expected


def test_a_filter_drops_changes_but_never_creations_and_deletions() -> None:
    source, inbox = FakeSource(), Inbox()
    Watch(source, inbox, when=lambda old, new: bool(old.generation != new.generation)).connect()
    first, second = thing("a"), thing("a", generation=2)
    source.tell(first, thing("a", x="1"))
    assert inbox.keys == []
    for change in [(None, first), (first, second), (second, None)]:
        source.tell(*change)
    assert names(inbox.keys) == ["slurm/a"] * 3


def test_an_object_that_cannot_be_mapped_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, inbox = FakeSource(), Inbox()

    def broken(obj: Thing) -> list[Key]:
        raise KeyError("labels")

    Watch(source, inbox, broken).connect()
    Watch(source, inbox).connect()
    source.tell(None, thing("a"))
    assert names(inbox.keys) == ["slurm/a"]
    assert "could not be mapped" in caplog.text


Make = Callable[[], FakeSource]


class Factory:
    """Makes sources and remembers them."""

    def __init__(self, *faults: Exception) -> None:
        self.made: list[FakeSource] = []
        self.faults = list(faults)

    def __call__(self) -> FakeSource:
        if self.faults:
            raise self.faults.pop(0)
        self.made.append(FakeSource())
        return self.made[-1]


async def test_sources_start_and_stop_with_their_definitions(clock: VirtualClock) -> None:
    nodesets, tokens = Factory(), Factory()
    sources = SourceSet({"nodesets": nodesets, "tokens": tokens}, clock=clock)
    sources.want(["nodesets", "not ours"])
    await run_until_idle()
    assert sorted(sources.running) == ["nodesets"]
    sources.want(["nodesets", "tokens"])
    await run_until_idle()
    assert sorted(sources.running) == ["nodesets", "tokens"]
    assert len(nodesets.made) == 1
    sources.want(["tokens"])
    await run_until_idle()
    assert sorted(sources.running) == ["tokens"]
    sources.want(["nodesets", "tokens"])
    await run_until_idle()
    assert len(nodesets.made) == 2
    await sources.close()
    assert sources.running == {}


async def test_a_source_that_is_wanted_and_not_synced_is_named(clock: VirtualClock) -> None:
    factory = Factory()
    sources = SourceSet({"pods": factory}, clock=clock)
    assert sources.unsynced() == []
    sources.want(["pods"])
    assert sources.unsynced() == ["pods"]
    await run_until_idle()
    assert sources.unsynced() == ["pods"]
    factory.made[0].synced = True
    assert sources.unsynced() == []
    await sources.close()


@pytest.mark.parametrize("error", [None, LookupError("bug")], ids=["ended by itself", "failed"])
async def test_a_source_that_ends_is_made_anew_after_a_pause(
    clock: VirtualClock, error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    factory = Factory()
    sources = SourceSet({"pods": factory}, clock=clock)
    sources.want(["pods"])
    await run_until_idle()
    first = factory.made[0]
    first.synced, first.error = True, error
    first.failure.set()
    await run_until_idle()
    assert sources.unsynced() == ["pods"]
    assert "will be started again" in caplog.text
    await clock.run_for(1)
    assert len(factory.made) == 2
    await sources.close()


async def test_a_source_that_cannot_be_made_is_tried_again_ever_more_slowly(clock: VirtualClock) -> None:
    factory = Factory(OSError("1"), OSError("2"), OSError("3"))
    sources = SourceSet({"pods": factory}, clock=clock)
    sources.want(["pods"])
    await clock.run_for(1 + 2 + 3.9)
    assert factory.made == []
    await clock.run_for(0.1)
    assert len(factory.made) == 1
    await sources.close()


async def test_the_age_of_running_sources_is_shown(clock: VirtualClock) -> None:
    metrics, factory = Metrics(), Factory()
    sources = SourceSet({"pods": factory}, clock=clock, metrics=metrics)
    sources.want(["pods"])
    await run_until_idle()
    assert b'cache_age_seconds{kind="pods"} +Inf' in metrics.text()
    factory.made[0].synced = True
    assert b'cache_age_seconds{kind="pods"} 1.5' in metrics.text()
    await sources.close()
    assert b'kind="pods"' not in metrics.text()
