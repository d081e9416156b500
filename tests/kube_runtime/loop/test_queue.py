"""The queue keeps its promises: nothing lost, nothing twice at once, delays and backoff respected, no starving."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kube_runtime.backoff import Backoff
from kube_runtime.clock import VirtualClock, run_until_idle
from kube_runtime.loop.queue import HURRY_SECONDS, Key, Places, Queue, ShutDownError


@pytest.fixture
def queue(clock: VirtualClock) -> Queue[str]:
    return Queue(clock, random=lambda: 0.0)


def drain(queue: Queue[str]) -> list[str]:
    taken: list[str] = []
    while (key := queue.take()) is not None:
        taken.append(key)
        queue.done(key)
    return taken


@pytest.mark.parametrize(
    ("key", "text"),
    [(Key("slurm", "gpu"), "slurm/gpu"), (Key("", "node-1"), "node-1")],
    ids=["namespaced", "cluster-wide"],
)
def test_a_key_reads_like_kubectl_writes_it(key: Key, text: str) -> None:
    assert str(key) == text


def test_many_adds_of_one_key_are_one_entry(queue: Queue[str]) -> None:
    for _ in range(100):
        queue.add("a")
    assert len(queue) == 1
    assert queue.adds == 100
    assert drain(queue) == ["a"]


def test_a_key_added_while_worked_on_comes_again_after_done_and_not_before(queue: Queue[str]) -> None:
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    assert queue.take() is None
    assert queue.processing == {"a"}
    assert queue.waiting == {"a"}
    queue.done("a")
    assert queue.take() == "a"


def test_keys_leave_in_the_order_in_which_they_became_dirty(queue: Queue[str]) -> None:
    queue.add("busy")
    assert queue.take() == "busy"
    queue.add("early")
    queue.add("busy")
    queue.add("late")
    queue.done("busy")
    assert drain(queue) == ["early", "busy", "late"]


def test_a_key_that_changes_all_the_time_starves_nobody(queue: Queue[str]) -> None:
    queue.add("busy")
    queue.add("patient")
    order: list[str] = []
    for _ in range(4):
        key = queue.take()
        assert key is not None
        queue.add("busy")
        order.append(key)
        queue.done(key)
    assert order[:2] == ["busy", "patient"]


def test_a_delayed_key_comes_when_it_is_due(queue: Queue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 5)
    assert queue.next_due() == 1005.0
    clock.advance(4.99)
    assert queue.take() is None
    clock.advance(0.01)
    assert drain(queue) == ["a"]
    assert queue.next_due() is None


@pytest.mark.parametrize("delays", [(5, 2), (2, 5)], ids=["later wish is earlier", "later wish is later"])
def test_of_several_delays_the_earliest_counts_and_comes_once(
    queue: Queue[str], clock: VirtualClock, delays: tuple[float, float]
) -> None:
    for delay in delays:
        queue.add_after("a", delay)
    clock.advance(2)
    assert drain(queue) == ["a"]
    clock.advance(60)
    assert drain(queue) == []


def test_a_delay_of_nothing_is_an_add(queue: Queue[str]) -> None:
    queue.add_after("a", 0)
    assert drain(queue) == ["a"]


def test_backoff_doubles_from_5_ms_to_5_min_and_success_resets_it(queue: Queue[str]) -> None:
    delays = [queue.retry("a") for _ in range(20)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == pytest.approx(250.0)
    queue.forget("a")
    assert queue.retry("a") == 0.005
    assert queue.retries == 21


def test_each_key_has_its_own_backoff(queue: Queue[str]) -> None:
    for _ in range(5):
        queue.retry("bad")
    assert queue.retry("good") == 0.005


def test_a_server_that_asks_for_more_time_gets_it_up_to_the_limit(queue: Queue[str]) -> None:
    assert queue.retry("a", min_delay=30) == 30
    assert queue.retry("b", min_delay=86_400) == 300


def test_success_takes_back_the_pending_retry_but_not_a_wish(queue: Queue[str], clock: VirtualClock) -> None:
    queue.retry("retried")
    queue.retry("wished")
    queue.add_after("wished", 10)
    queue.forget("retried")
    queue.forget("wished")
    assert queue.failing == frozenset()
    clock.advance(9)
    assert drain(queue) == []
    clock.advance(1)
    assert drain(queue) == ["wished"]


def test_a_change_of_a_failing_key_is_taken_soon_but_not_at_once(queue: Queue[str], clock: VirtualClock) -> None:
    for _ in range(15):
        queue.retry("a")
    queue.add("a")
    assert drain(queue) == []
    clock.advance(0.2)
    assert drain(queue) == ["a"]


def test_a_key_that_fails_and_changes_itself_each_time_does_not_become_a_hot_loop(
    queue: Queue[str], clock: VirtualClock
) -> None:
    queue.add("a")
    runs = 0
    while clock.monotonic() < 1060.0:
        while (key := queue.take()) is not None:
            runs += 1
            queue.add(key)
            queue.retry(key)
            queue.done(key)
        assert clock.fire_next()
    assert runs <= 60 / 0.2 + 10


def test_a_key_given_up_waits_for_a_change(queue: Queue[str], clock: VirtualClock) -> None:
    queue.retry("a")
    queue.give_up("a")
    clock.advance(3600)
    assert drain(queue) == []
    queue.add("a")
    clock.advance(0.01)
    assert drain(queue) == ["a"]


async def test_a_waiting_worker_gets_the_next_key(queue: Queue[str], clock: VirtualClock) -> None:
    worker = asyncio.create_task(queue.get())
    await run_until_idle()
    queue.add_after("a", 3)
    await clock.run_for(3)
    assert await worker == "a"


async def test_waiting_workers_are_served_in_turn(queue: Queue[str]) -> None:
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await run_until_idle()
    for key in "abc":
        queue.add(key)
    assert [await worker for worker in workers] == ["a", "b", "c"]


async def test_a_key_whose_worker_was_cancelled_goes_to_another(queue: Queue[str]) -> None:
    cancelled, other = (asyncio.create_task(queue.get()) for _ in range(2))
    await run_until_idle()
    queue.add("a")
    cancelled.cancel()
    assert await other == "a"
    assert cancelled.cancelled()


async def test_a_worker_cancelled_while_nothing_is_there_leaves_no_trace(queue: Queue[str]) -> None:
    worker = asyncio.create_task(queue.get())
    await run_until_idle()
    worker.cancel()
    await run_until_idle()
    queue.add("a")
    assert await queue.get() == "a"


async def test_shut_down_tells_who_waits_and_gives_out_nothing_more(queue: Queue[str], clock: VirtualClock) -> None:
    worker = asyncio.create_task(queue.get())
    queue.add("running")
    assert await worker == "running"
    waiting = asyncio.create_task(queue.get())
    await run_until_idle()
    queue.add_after("delayed", 1)
    queue.shut_down()
    for ignored in (queue.add, queue.retry, lambda key: queue.add_after(key, 1)):
        ignored("ignored")
    queue.done("running")
    clock.advance(10)
    assert queue.closed
    assert queue.take() is None
    for late in (waiting, asyncio.create_task(queue.get())):
        with pytest.raises(ShutDownError):
            await late


async def test_10_000_adds_of_10_keys_make_at_most_20_reconciles(queue: Queue[str], clock: VirtualClock) -> None:
    reconciles = 0

    async def work() -> None:
        nonlocal reconciles
        while True:
            key = await queue.get()
            reconciles += 1
            await clock.sleep(1)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(10)]
    for number in range(10_000):
        queue.add(f"key-{number % 10}")
        await asyncio.sleep(0)
    await clock.run_for(60)
    for worker in workers:
        worker.cancel()
    assert reconciles == 20


KEYS = st.sampled_from(["a", "b", "c", "d"])
FACTOR = Backoff(first=1.0, limit=16.0, jitter=0.0)


class QueueAgainstModel(RuleBasedStateMachine):
    """The model: a list of dirty keys in order, a set at work, and for each key the times at which it is due."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.queue: Queue[str] = Queue(self.clock, backoff=FACTOR, random=lambda: 0.0)
        self.dirty: list[str] = []
        self.working: set[str] = set()
        self.failures: dict[str, int] = {}
        self.wishes: dict[str, float] = {}
        self.retries: dict[str, float] = {}

    def mark(self, key: str) -> None:
        if key not in self.dirty:
            self.dirty.append(key)

    def wish(self, key: str, seconds: float) -> None:
        due = self.clock.monotonic() + seconds
        self.wishes[key] = min(due, self.wishes.get(key, due))

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        if key in self.failures:
            self.wish(key, HURRY_SECONDS)
        else:
            self.mark(key)

    @rule(key=KEYS, seconds=st.integers(1, 40))
    def add_after(self, key: str, seconds: int) -> None:
        self.queue.add_after(key, seconds)
        self.wish(key, seconds)

    @rule()
    def take(self) -> None:
        expected = next((key for key in self.dirty if key not in self.working), None)
        assert self.queue.take() == expected
        if expected is not None:
            self.dirty.remove(expected)
            self.working.add(expected)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), ending=st.sampled_from(["success", "retry", "give up", "crash"]))
    def finish(self, data: st.DataObject, ending: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        if ending == "success":
            self.queue.forget(key)
            self.failures.pop(key, None)
            self.retries.pop(key, None)
        elif ending == "retry":
            self.failures[key] = self.failures.get(key, 0) + 1
            delay = min(16.0, 2.0 ** (self.failures[key] - 1))
            assert self.queue.retry(key) == delay
            self.retries[key] = self.clock.monotonic() + delay
        elif ending == "give up":
            self.queue.give_up(key)
            self.failures[key] = self.failures.get(key, 0) + 1
            self.retries.pop(key, None)
        self.queue.done(key)
        self.working.remove(key)

    @rule(half_seconds=st.integers(1, 60))
    def time_passes(self, half_seconds: int) -> None:
        end = self.clock.monotonic() + half_seconds / 2
        self.clock.advance(half_seconds / 2)
        due = sorted((when, key) for dues in (self.wishes, self.retries) for key, when in dues.items() if when <= end)
        for _, group in _by_time(due):
            # Keys due at the same instant may come in any order: take the queue's.
            order = [key for _, key in sorted((n, k) for k, n in self.queue._dirty.items())]
            for key in sorted(group, key=order.index):
                self.mark(key)
        for dues in (self.wishes, self.retries):
            for key in [key for key, when in dues.items() if when <= end]:
                del dues[key]

    @invariant()
    def what_is_ready_is_what_the_model_says(self) -> None:
        assert len(self.queue) == len([key for key in self.dirty if key not in self.working])
        assert self.queue.waiting == set(self.dirty)
        assert self.queue.processing == self.working
        assert self.queue.failing == set(self.retries)
        assert self.queue.next_due() == min([*self.wishes.values(), *self.retries.values()], default=None)

    def teardown(self) -> None:
        """No key is lost: once everything has ended and time has passed, each waiting key comes out."""
        expected = {*self.dirty, *self.wishes, *self.retries}
        for key in self.working:
            self.queue.done(key)
        self.clock.advance(1000)
        assert set(drain(self.queue)) == expected


def _by_time(due: list[tuple[float, str]]) -> list[tuple[float, set[str]]]:
    groups: dict[float, set[str]] = {}
    for when, key in due:
        groups.setdefault(when, set()).add(key)
    return sorted(groups.items())


TestQueueAgainstModel: Any = QueueAgainstModel.TestCase
TestQueueAgainstModel.settings = settings(max_examples=120, stateful_step_count=60, deadline=None)


def grouped(clock: VirtualClock, per_group: int, shared: int) -> Queue[str]:
    """Keys such as `a1`, whose group is their letter."""
    places = Places(per_group=per_group, shared=shared)
    return Queue(clock, random=lambda: 0.0, group_of=lambda key: key[0], places=places)


def take_all(queue: Queue[str]) -> list[str]:
    taken: list[str] = []
    while (key := queue.take()) is not None:
        taken.append(key)
    return taken


def test_a_busy_group_gets_no_more_than_its_share(clock: VirtualClock) -> None:
    queue = grouped(clock, per_group=2, shared=10)
    for number in range(5):
        queue.add(f"a{number}")
    queue.add("b0")
    assert take_all(queue) == ["a0", "a1", "b0"]
    assert len(queue) == 3


def test_every_group_has_a_place_however_many_there_are(clock: VirtualClock) -> None:
    queue = grouped(clock, per_group=3, shared=2)
    for group in "abcdefgh":
        for number in range(4):
            queue.add(f"{group}{number}")
    taken = take_all(queue)
    assert {key[0] for key in taken} == set("abcdefgh")
    assert len(taken) == 8 + 2


def test_a_place_that_becomes_free_goes_to_the_oldest_key_that_may_have_it(clock: VirtualClock) -> None:
    queue = grouped(clock, per_group=1, shared=10)
    for key in ("a0", "a1", "b0", "b1"):
        queue.add(key)
    assert take_all(queue) == ["a0", "b0"]
    queue.done("b0")
    assert take_all(queue) == ["b1"]
    queue.done("a0")
    assert take_all(queue) == ["a1"]


async def test_whoever_waits_is_woken_when_a_place_becomes_free(clock: VirtualClock) -> None:
    queue = grouped(clock, per_group=1, shared=10)
    queue.add("a0")
    queue.add("a1")
    assert await queue.get() == "a0"
    waiting = asyncio.create_task(queue.get())
    await run_until_idle()
    assert not waiting.done()
    queue.done("a0")
    assert await waiting == "a1"


class CountedGroup:
    """A group that counts how often it is looked at."""

    looks = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        CountedGroup.looks += 1
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self is other


def test_a_thousand_groups_that_wait_cost_the_next_key_nothing(clock: VirtualClock) -> None:
    """Each key looked at all groups: ten thousand resources with clusters of their own stopped the loop for long."""
    groups = {f"{number}": CountedGroup(f"{number}") for number in range(1000)}
    queue = Queue[str](clock, group_of=groups.__getitem__, places=Places(per_group=2, shared=16))
    for key in groups:
        queue.add(key)
    before = CountedGroup.looks
    first = queue.take()
    assert first == "0"
    queue.done(first)
    assert CountedGroup.looks - before < 40


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "done"]), st.sampled_from("aabbcd"), st.integers(0, 3))))
def test_places_are_given_out_as_if_all_groups_were_looked_at(steps: list[tuple[str, str, int]]) -> None:
    queue = grouped(VirtualClock(), per_group=2, shared=1)
    dirty: dict[str, int] = {}
    working: list[str] = []
    for at, (step, group, number) in enumerate(steps):
        key = f"{group}{number}"
        if step == "add":
            queue.add(key)
            dirty.setdefault(key, at)
        elif step == "done" and working:
            queue.done(working.pop(number % len(working)))
        elif step == "take":
            busy = Counter(each[0] for each in working)
            shared_free = len(working) - len(busy) < 1
            ready = [each for each in dirty if each not in working]
            allowed = [each for each in ready if not busy[each[0]] or (shared_free and busy[each[0]] < 2)]
            expected = min(allowed, key=dirty.__getitem__, default=None)
            assert queue.take() == expected
            if expected is not None:
                del dirty[expected]
                working.append(expected)
