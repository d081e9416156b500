"""R7: hostile answers of Slurm, at the door and through the whole operator.

In: which part (`door` or `operator`) and how many points. Out: a `Result`. A point at the door is named by recording,
path and value, `R7/26.05/jobs/jobs.0.name/bidi`; one in the rig is `R7/26.05/operator-jobs/jobs.3.name/bidi`: there the
mutated answer is given for some polls, in the midst of a scale-in, a change of configuration and a neighbour's work.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from tests.campaigns import hostile_door as door
from tests.campaigns.campaign import Outcome, Result
from tests.campaigns.hostile_points import Trial, every, in_batches, in_workers
from tests.campaigns.hostile_values import VALUES, HostileValue, Path, at, hollow, paths, shown
from tests.campaigns.hostile_world import CALM, HostileWorld, untrue
from tests.campaigns.slurm_model import SlurmModel
from tests.slurm.replay import VERSIONS

from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.vanished import DOUBT_SECONDS
from slurm_operator.slurm.wire import Reply

PARTS = ("door", "operator")
# Longer than the polls of a NodeSet that waits (1 s) and of one that does not (5 s).
WINDOW_SECONDS = 6.5
BREATH_SECONDS = 2.5
# A job that had another id, or another time of submission, is given so long to be found again.
HEALING_SECONDS = DOUBT_SECONDS + 15.0
# Longer than a worker may be unknown to Slurm before it may go.
LONG_WINDOW_SECONDS = 50.0
BATCH = 12
# One of so many points is tried, by release.
SHARES = {"26.05": 36, "24.11": 108}
# What decides about workers is tried more often.
DECISIVE = frozenset({"job_state", "state", "nodes", "jobs", "name", "job_id", "last_update", "errors", "cluster"})
# Which items of each list are mutated: the worker that is to go and its suspended job, and a running job.
ITEMS = {
    "nodes": (3,),
    "jobs": (3, 2),
    "job-states": (3, 2),
    "job": (0,),
    "partitions": (0,),
    "reservations": (0,),
    "ping": (0,),
}
LABELS = {
    "nodes": "GET nodes",
    "jobs": "GET jobs",
    "job-states": "GET jobs/state",
    "job": "GET job",
    "partitions": "GET partitions",
    "reservations": "GET reservations",
}
# Where a list has another name than its call.
ROOTS = {"ping": "pings", "job-states": "jobs", "job": "jobs"}
# List, item, field, part of the field: what is below is not read.
DEEPEST = 4
FOREIGN = "answers-of-another-cluster"

Act = Callable[[Sending, Reply], Reply]


@dataclass(frozen=True, slots=True)
class RigPoint:
    """One mutation of what Slurm answers to one call, for a while."""

    release: str
    what: str
    path: Path
    value: HostileValue

    @property
    def name(self) -> str:
        """What replays it."""
        return f"R7/{self.release}/operator-{self.what}/{shown(self.path)}/{self.value.name}"

    @property
    def is_foreign(self) -> bool:
        """Whether another cluster answers."""
        return self.what == FOREIGN

    def mutated(self, sending: Sending, reply: Reply) -> Reply:
        """The hostile answer to a call, or the honest one to any other."""
        if self.what == "jobs" and sending.label == "GET jobs/state":
            # The list of jobs is read where there is none of states.
            return Reply(404, "text/plain", b"Unable to find requested URL endpoint.")
        if sending.label != LABELS.get(self.what, "GET ping") or reply.status != 200:
            return reply
        document = json.loads(reply.body)
        try:
            at(document, self.path[:-1])
        except (KeyError, IndexError, TypeError):
            return reply
        return Reply(200, reply.content_type, hollow(document, self.path).filled(self.value))


# Points


def rig_points(release: str) -> Iterator[RigPoint]:
    """Every place that the operator reads, in the answers that it polls; thinned by name, so that names are stable."""
    for point in every_rig_point(release):
        share = SHARES[release] // (3 if point.path and point.path[-1] in DECISIVE else 1)
        if point.is_foreign or _always(point) or crc32(point.name.encode()) % share == 0:
            yield point


def _is_a_lie(path: Path, value: HostileValue) -> bool:
    """Whether Slurm says, in good order, that the job is elsewhere: nobody could know better."""
    return path[:1] == ("jobs",) and path[2:] == ("nodes",) and door.is_host_list(value)


def _always(point: RigPoint) -> bool:
    """What was seen to do harm once."""
    place = (point.path[-1] if point.path else "", point.value.name)
    return place in {("name", "utf8-invalid"), ("number", "year-10192-minutes"), ("jobs", "list"), ("cluster", "json")}


def _shapes(release: str) -> dict[str, Any]:
    """What each polled answer looks like."""
    found = {recording.name: recording.document for recording in door.recordings(release)}
    lists = {what: found[f"live-{what}"] for what in ("nodes", "jobs", "job-states", "job")}
    others = {what: found[what] for what in ("partitions", "reservations", "ping")}
    if not others["reservations"].get("reservations"):
        del others["reservations"]
    return {**lists, **others}


def _read_paths(what: str, document: Any) -> Iterator[Path]:
    root = ROOTS.get(what, what)
    seen: dict[Path, None] = {}
    for path in paths(document):
        is_read = not path or path[-1] in door.READ or isinstance(path[-1], int)
        if is_read and len(path) <= DEEPEST:
            # Whichever item is mutated, the fields are those of any.
            is_within = len(path) > 1 and path[0] == root
            seen |= dict.fromkeys((root, item, *path[2:]) for item in ITEMS[what]) if is_within else {path: None}
    yield from seen


# A life under hostile answers


async def settled(release: str) -> HostileWorld:
    """The world in which every point begins."""
    world = HostileWorld(release=release)
    await world.open()
    await world.come_up()
    await world.become_busy()
    return world


async def suffer(world: HostileWorld, points: Sequence[RigPoint]) -> list[str]:
    """Each point in turn, with work to do at the beginning; then the world must come to rest as if nothing had been."""
    await world.patch("NodeSet", "more", {"spec": {"replicas": 2}})
    await world.patch("NodeSet", CALM, {"spec": {"replicas": 2}})
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "MinJobAge=301\n"}})
    wrong = []
    for number, point in enumerate(points):
        for name in ("more", CALM):
            await world.patch("NodeSet", name, {"spec": {"minReadySeconds": number % 2}})
        wrong += await _under(world, point)
        await world.go_on(BREATH_SECONDS)
    wrong += await _healed(world)
    return [*world.judge.violations, *wrong]


async def _under(world: HostileWorld, point: RigPoint) -> list[str]:
    last: dict[str, Reply] = {}
    world.mutate = _another_cluster(world) if point.is_foreign else _remembering(point, last)
    if point.what == "ping":
        await world.stop_operator()
        await world.start_operator()
    asked = len(world.calm_calls)
    await world.go_on(LONG_WINDOW_SECONDS if point.is_foreign else WINDOW_SECONDS)
    wrong = [*untrue(world), *_calm_goes_on(world, asked), *await _unreachable(world, point, last)]
    world.mutate = None
    return wrong


def _remembering(point: RigPoint, last: dict[str, Reply]) -> Act:
    def act(sending: Sending, reply: Reply) -> Reply:
        hostile = point.mutated(sending, reply)
        if hostile is not reply and hostile.status == 200:
            last[point.what] = hostile
        return hostile

    return act


def _another_cluster(world: HostileWorld) -> Act:
    """A slurmrestd with the same key, of a cluster that has none of our workers."""
    other = SlurmModel(world.clock, world.slurm.key, world.release, "elsewhere")
    other.register("elsewhere-0")
    for what in other.changed_at:
        other.changed_at[what] = 0.0

    def act(sending: Sending, _: Reply) -> Reply:
        return other.answer(sending, world.token())

    return act


def _calm_goes_on(world: HostileWorld, asked: int) -> Iterator[str]:
    item = world.custom("NodeSet", CALM)
    if world.ready_pods(CALM) != 2:
        yield f"neighbour: {world.ready_pods(CALM)} of 2 workers of the other cluster are ready"
    if (item.get("status") or {}).get("observedGeneration") != item["metadata"]["generation"]:
        yield "neighbour: the other cluster's NodeSet was not reconciled"
    if len(world.calm_calls) == asked:
        yield "neighbour: the other cluster's Slurm was not asked"


async def _unreachable(world: HostileWorld, point: RigPoint, last: dict[str, Reply]) -> list[str]:
    """Answers that cannot be used for longer than a poll must be told."""
    reply, wrong = last.get(point.what), []
    if point.what not in ("nodes", "jobs") or reply is None:
        return []
    unusable = await _is_unusable(world.release, LABELS[point.what], reply) or _names_another(point)
    for name in ("compute", "more"):
        said = {kind: each["status"] for kind, each in world.conditions("NodeSet", name).items()}
        if unusable and said.get("SlurmReachable") == "True":
            wrong.append(f"truth: {name}: SlurmReachable=True while {unusable}")
        if unusable and point.what == "nodes" and said.get("Ready") == "True":
            wrong.append(f"truth: {name}: Ready=True while {unusable}")
    return wrong


async def _is_unusable(release: str, call: str, reply: Reply) -> str:
    recording = door.Recording(release, "", call, reply.status, reply.content_type, None)
    try:
        await door.asked(recording, reply.body)
    except Exception as error:
        return f"the answer cannot be read ({type(error).__name__})"
    return ""


def _names_another(point: RigPoint) -> str:
    if point.path != ("meta", "slurm", "cluster"):
        return ""
    try:
        value = json.loads(point.value.raw)
    except ValueError:
        return ""
    return "another cluster answers" if isinstance(value, str) and value.strip() else ""


async def _healed(world: HostileWorld) -> list[str]:
    """Slurm is honest again, and the jobs on the workers that are to go end."""
    world.slurm.resume_job(4, 2.0)
    world.slurm.end(3)
    await world.go_on(HEALING_SECONDS)
    world.judge.at_rest()
    wrong = [*untrue(world)]
    for name in ("compute", "more", CALM):
        if len(world.pods(name)) != 2 or world.ready_pods(name) != 2:
            wrong.append(f"healing: {name} has {len(world.pods(name))} workers, not 2")
        wrong += _not_ready(world, "NodeSet", name)
    return [*wrong, *_not_ready(world, "Controller", "slurm"), *_not_ready(world, "Partition", "all")]


def _not_ready(world: HostileWorld, kind: str, name: str) -> list[str]:
    said = world.conditions(kind, name).get("Ready") or {}
    return (
        [] if said.get("status") == "True" else [f"healing: {kind} {name}: {said.get('reason')} {said.get('message')}"]
    )


# Runs


def run(part: str, step: int = 1, at_once: int = 1) -> Result:
    """One part of the campaign."""
    if part == "door":
        points = [point for release in VERSIONS for point in door.usual(release)]
        return run_door(every(points, step), at_once)
    began = time.monotonic()
    found = [run_rig(release, every(list(rig_points(release)), step), at_once) for release in sorted(VERSIONS)]
    return Result([outcome for each in found for outcome in each], time.monotonic() - began)


def run_door(points: Sequence[door.DoorPoint], at_once: int = 1) -> Result:
    """Points at the door."""
    loop: list[asyncio.AbstractEventLoop] = []

    def attempt(number: int) -> list[str]:
        if not loop:
            loop.append(asyncio.new_event_loop())
        return door.attempt(points[number], loop[0])

    return in_workers([point.name for point in points], attempt, at_once)


def run_rig(release: str, points: Sequence[RigPoint], at_once: int = 1) -> list[Outcome]:
    """Points through the whole operator."""
    alone = [[point] for point in points if point.is_foreign]
    others = [point for point in points if not point.is_foreign]
    batches = [others[first : first + BATCH] for first in range(0, len(others), BATCH)]
    return in_batches(Trial(lambda: settled(release), suffer), [*alone, *batches], at_once)


def replay(name: str) -> Outcome:
    """One point again."""
    for release in VERSIONS:
        chosen = [point for point in door.points(release) if point.name == name]
        if chosen:
            return run_door(chosen).outcomes[0]
        rig = [point for point in every_rig_point(release) if point.name == name]
        if rig:
            return run_rig(release, rig)[0]
    raise SystemExit(f"there is no point {name}")


def every_rig_point(release: str) -> Iterator[RigPoint]:
    """All of them, also those that are usually left out."""
    for what, document in _shapes(release).items():
        for path in _read_paths(what, document):
            yield from (RigPoint(release, what, path, value) for value in VALUES if not _is_a_lie(path, value))
    yield RigPoint(release, FOREIGN, (), HostileValue("for-50-seconds", b""))
