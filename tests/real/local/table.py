"""A table of broken clusters: how each is broken, what `kubectl slurm why` must say of it, and how answers are counted.

In: waves, each of rows that can be broken side by side, and a cluster that is asked. Out: one `Result` for each row,
and their `Score`. Nothing waits for a time: a row is asked again while its answer says that something is on its way,
and any other answer than the true one counts as false, also one that was given on the way. The rows are in `broken.py`,
`breaking.py` and `waiting.py`; used by `test_why.py`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]
LEAST_ROWS, LEAST_TRUE = 90, 87
# A loaded machine is slow, but the true cause comes in the end.
SECONDS = 180.0
PAUSE_SECONDS = 1.0
# Answers that name no cause: something is on its way.
ON_THE_WAY = frozenset(
    {
        *("", "JustChanged", "NotScheduledYet", "Starting", "PodIsEnding", "NotCreatedYet", "RolloutNotSeen"),
        *("RollingOut", "WaitingForPods", "Working", "WorkersNotReady", "NotInSlurmYet", "Trying", "NotRegistered"),
        "WaitingForSlurmctld",
    }
)


class Asked(Protocol):
    """A cluster that is asked about several things at one moment."""

    def why_all(self, targets: Iterable[str]) -> dict[str, Json]: ...

    def doctor(self) -> list[Json]: ...


# Breaks something, and says what to ask about; a second word is another job's number.
Make = Callable[[Any], AbstractContextManager[str]]


@dataclass(frozen=True, slots=True)
class Row:
    """One broken cluster."""

    make: Make
    # Several codes are equally true where Slurm's versions, or two daemons, differ in which check comes first.
    code: str
    # What the sentence must hold, with | between words that are equally good; {first} is the other job's number.
    words: str
    # What the next command must hold.
    command: str
    # What `ok` must be; None where a row does not say.
    ok: bool | None = None


@dataclass(frozen=True, slots=True)
class Wave:
    """Rows that are broken at the same time, and what they stand on."""

    rows: Mapping[str, Row]
    before: Callable[[Any], AbstractContextManager[None]] | None = None


@dataclass(slots=True)
class Result:
    """What became of a row."""

    name: str
    target: str = ""
    said: Json = field(default_factory=dict)
    true: bool = False
    # Every answer that named another cause than the true one.
    false: list[Json] = field(default_factory=list)
    # Answers without a next command, and such whose next command asks the same again.
    no_command: list[Json] = field(default_factory=list)
    own_command: list[Json] = field(default_factory=list)
    # Answers that called something wrong which was only on its way.
    alarms: list[Json] = field(default_factory=list)
    # What else is not as the row says.
    wrong: str = ""
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether every answer was good, and the last one the true one."""
        return self.true and not (self.false or self.no_command or self.own_command or self.wrong)

    def _faults(self) -> tuple[tuple[str, list[Json]], ...]:
        commands = (("no command", self.no_command), ("own command", self.own_command))
        return (("false", self.false), *commands, ("false alarm", self.alarms[:1]))

    def __str__(self) -> str:
        mark = "ok  " if self.is_good else "FAIL"
        lines = [f"{mark} {self.seconds:5.1f} s  {self.name} ({self.target}): {_short(self.said)}"]
        for title, answers in self._faults():
            lines += [f"       {title}: {_short(each)}" for each in answers]
        return "\n".join([*lines, *([f"       {self.wrong}"] if self.wrong else [])])


def _short(said: Json) -> str:
    return f"[{said.get('code', '')}] {said.get('sentence', '')} -> {said.get('command', '')}"


@dataclass(slots=True)
class Score:
    """All results of one Slurm version: of each row, and of `doctor` in each wave."""

    results: list[Result] = field(default_factory=list)
    doctor: list[Result] = field(default_factory=list)

    def summary(self, version: str) -> str:
        """The counts, one line."""
        return (
            f"Slurm {version}: {len(self.results)} broken clusters, {self.true} with the true cause, "
            f"{self.false} false causes, {self.no_command} answers without a next command, "
            f"{self.own_command} with themselves as the next command; "
            f"doctor was right in {sum(each.is_good for each in self.doctor)} of {len(self.doctor)} waves"
        )

    @property
    def true(self) -> int:
        return sum(each.true for each in self.results)

    @property
    def false(self) -> int:
        return sum(len(each.false) for each in (*self.results, *self.doctor))

    @property
    def no_command(self) -> int:
        return sum(len(each.no_command) for each in (*self.results, *self.doctor))

    @property
    def own_command(self) -> int:
        return sum(len(each.own_command) for each in self.results)

    @property
    def meets_the_bar(self) -> bool:
        enough = len(self.results) >= LEAST_ROWS and self.true >= LEAST_TRUE
        return enough and not (self.false or self.no_command or self.own_command)


@contextmanager
def broken(cluster: Any, wave: Wave) -> Iterator[dict[str, str | Exception]]:
    """Every row of a wave broken: by its name what to ask about, or why it could not be broken."""
    made: dict[str, str | Exception] = {}
    with ExitStack() as stack:
        if wave.before is not None:
            stack.enter_context(wave.before(cluster))
        for name, row in wave.rows.items():
            try:
                made[name] = stack.enter_context(row.make(cluster))
            except Exception as error:
                # The other rows are still worth asking about.
                made[name] = error
        yield made


def ask(cluster: Asked, wave: Wave, made: Mapping[str, str | Exception], seconds: float = SECONDS) -> list[Result]:
    """Ask about all rows at once, again and again, until each has its true cause or a false one."""
    results = {name: Result(name) for name in wave.rows}
    first: dict[str, str] = {}
    for name, target in made.items():
        if isinstance(target, Exception):
            results[name].wrong = f"could not be broken: {target}"
        else:
            results[name].target, _, first[name] = target.partition(" ")
    began, still = time.monotonic(), set(first)
    while still and time.monotonic() - began < seconds:
        answers = cluster.why_all(sorted({results[name].target for name in still}))
        for name in sorted(still):
            result = results[name]
            result.seconds = time.monotonic() - began
            if judge(wave.rows[name], result, first[name], answers[result.target]):
                still.discard(name)
        if still:
            time.sleep(PAUSE_SECONDS)
    return list(results.values())


def ask_doctor(cluster: Asked, wave: Wave, results: Iterable[Result], seconds: float = SECONDS) -> Result:
    """`doctor` must find all that is wrong in a wave, jobs aside, and never anything else."""
    known = {code for row in wave.rows.values() for code in row.code.split("|")}
    found = [each for each in results if each.true and not each.said["ok"]]
    # One cause may have two names, as a row says: which of them is seen is a matter of seconds.
    codes = {str(each.said["code"]): wave.rows[each.name].code for each in found if not each.target.startswith("job/")}
    wanted = {code: {code, *also.split("|")} for code, also in codes.items()}
    result, began, missing = Result("doctor", "doctor"), time.monotonic(), set(wanted)
    while time.monotonic() - began < seconds and not (result.true or result.false):
        causes = [each for each in cluster.doctor() if not each["ok"]]
        result.false = [each for each in causes if each["code"] not in known]
        result.no_command = [each for each in causes if not each["command"].startswith("kubectl ")]
        named = {str(each["code"]) for each in causes}
        missing = {code for code, also in wanted.items() if also.isdisjoint(named)}
        result.true, result.seconds = not missing, time.monotonic() - began
        result.said = {"sentence": f"{len(causes)} causes"}
    result.wrong = f"doctor does not name {', '.join(sorted(missing))}" if missing else ""
    return result


def judge(row: Row, result: Result, first: str, said: Json) -> bool:
    """Count one answer; whether it was the last one."""
    result.said, code = said, str(said.get("code", ""))
    if code:
        _judge_command(result, said)
    if code in row.code.split("|"):
        result.true = any(part.format(first=first) in said["sentence"] for part in row.words.split("|"))
        if not result.true:
            result.false.append(said)
        elif row.command.replace("{first}", first) not in said["command"]:
            result.wrong = f"the command should hold {row.command!r}"
        elif row.ok is not None and said["ok"] != row.ok:
            result.wrong = f"ok should be {row.ok}"
        return True
    if code in ON_THE_WAY:
        # What is on its way is no problem yet.
        result.alarms += [said] if code and not said["ok"] else []
        return False
    result.false.append(said)
    return True


def _judge_command(result: Result, said: Json) -> None:
    command = str(said.get("command", ""))
    if not command.startswith("kubectl "):
        result.no_command.append(said)
    if re.search(rf"\bwhy {re.escape(result.target)}(?:\s|$)", command):
        result.own_command.append(said)
