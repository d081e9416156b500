"""Whether what a soak asks for comes about: every change of size, template or configuration has a time to take effect.

In: changes as they are made, and what kubectl and Slurm show. Out: `Effects`, a thread that looks every few seconds: it
knows which changes took effect, which were overtaken by a newer one of their kind, which are late, and whether an
object ever reported an error of the operator's own. Used by `soak.py`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.real.local.e2e.cluster import LocalCluster

LOOK_SECONDS = 3.0
WORKERS = "app.kubernetes.io/instance=compute"
KINDS = "nodesets,controllers,partitions,restapis,loginsets,accountings,tokens"
# An error that the operator did not expect, as its log tells it.
UNEXPECTED = re.compile(r"unexpected (\w+)|\b(InternalError)\b")
MIN_JOB_AGE_SECONDS = 300
# The kinds of change.
GROW, SHRINK, ROLL, CONFIGURE = "scale out", "scale in", "roll", "configuration"
ARE_SIZES = frozenset({GROW, SHRINK})


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look found; None where nothing could be seen."""

    workers: int | None = None
    newest_template: int | None = None
    min_job_age: int | None = None


@dataclass(slots=True)
class Change:
    """One change, and when it was seen in effect."""

    kind: str
    target: int
    at: float
    bound: float
    effective: float | None = None
    overtaken: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is still waited for."""
        return self.effective is None and not self.overtaken

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.effective or self.at) - self.at

    def is_in(self, seen: Seen) -> bool:
        """Whether a look shows it."""
        if self.kind == ROLL:
            return seen.newest_template is not None and seen.newest_template >= self.target
        if self.kind == CONFIGURE:
            return seen.min_job_age is not None and seen.min_job_age >= self.target
        if seen.workers is None:
            return False
        return seen.workers >= self.target if self.kind == GROW else seen.workers <= self.target


@dataclass(slots=True)
class Ledger:
    """Every change of a soak."""

    changes: list[Change] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def add(self, change: Change) -> None:
        """A change was made: an open one of the same matter is overtaken."""
        for other in self.open():
            same = other.kind == change.kind or {other.kind, change.kind} <= ARE_SIZES
            # A newer template or configuration brings the older one along.
            other.overtaken = same and change.kind in ARE_SIZES
        self.changes.append(change)

    def open(self) -> list[Change]:
        """The changes that are waited for."""
        return [change for change in self.changes if change.is_open]

    def look(self, seen: Seen, now: float) -> None:
        """Compare what is seen with what was asked for."""
        for change in self.open():
            if change.is_in(seen):
                change.effective = now
            if now - change.at > change.bound:
                when = f"after {change.seconds:.0f} s" if change.effective else f"and not in effect, {seen}"
                self.late.append(f"{change.kind} to {change.target} had {change.bound:.0f} s: {when}")
                change.overtaken = change.effective is None

    def as_rows(self) -> Iterable[tuple[str, str]]:
        """One row for each kind of change."""
        for kind in (GROW, SHRINK, ROLL, CONFIGURE):
            made = [change for change in self.changes if change.kind == kind]
            took = [change.seconds for change in made if change.effective is not None]
            slowest = f", slowest {max(took):.0f} s of {max(change.bound for change in made):.0f}" if took else ""
            yield f"change {kind}", f"{len(made)} made, {len(took)} in effect{slowest}"


class Effects(threading.Thread):
    """Looks at the cluster until it is stopped."""

    def __init__(self, cluster: LocalCluster, longest: int) -> None:
        super().__init__(name="effects", daemon=True)
        self.cluster, self.stopped = cluster, threading.Event()
        self.ledger, self.reasons = Ledger(), Counter[str]()
        self._lock = threading.Lock()
        # Somebody may have killed the API server, slurmctld and the operator meanwhile; a worker waits for its jobs.
        prompt, patient = 120.0, longest + 160.0
        self._bounds = {GROW: prompt, CONFIGURE: prompt, SHRINK: patient, ROLL: patient}

    def made(self, kind: str, target: int) -> None:
        """A change was just made."""
        with self._lock:
            self.ledger.add(Change(kind, target, time.monotonic(), self._bounds[kind]))

    def waits_for(self, *kinds: str) -> bool:
        """Whether a change of these kinds is open."""
        with self._lock:
            return any(change.kind in kinds for change in self.ledger.open())

    def run(self) -> None:
        """Until stopped; a look that failed, as when the API server was killed, is made up for by the next."""
        while not self.stopped.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> Seen:
        """One look at everything."""
        said = self.cluster.attempt("get", KINDS, "-o", "json")
        self.reasons.update(internal_errors(_items(said.stdout)))
        pods = self.cluster.attempt("get", "pods", "-l", WORKERS, "-o", "json")
        seen = Seen(min_job_age=self._min_job_age() if self.waits_for(CONFIGURE) else None)
        if pods.returncode == 0:
            found = _items(pods.stdout)
            seen = Seen(len(found), max(templates(found), default=0), seen.min_job_age)
        with self._lock:
            self.ledger.look(seen, time.monotonic())
        return seen

    def _min_job_age(self) -> int | None:
        said = self.cluster.as_alice("scontrol show config | sed -n 's/^MinJobAge *= *\\([0-9]*\\).*/\\1/p'").stdout
        return int(said) if said.strip().isdecimal() else None

    def settle(self, replicas: int, seconds: float) -> None:
        """After the last change: everything that was asked for is so, everywhere, or it is late."""
        newest = {
            kind: max((c.target for c in self.ledger.changes if c.kind == kind), default=0)
            for kind in (ROLL, CONFIGURE)
        }
        deadline = time.monotonic() + seconds
        while missing := self._missing(replicas, newest[ROLL], newest[CONFIGURE]):
            if time.monotonic() > deadline:
                self.ledger.late.append(f"not settled within {seconds:.0f} s of the last change: {'; '.join(missing)}")
                return
            time.sleep(LOOK_SECONDS)

    def _missing(self, replicas: int, template: int, age: int) -> list[str]:
        pods = _items(self.cluster.attempt("get", "pods", "-l", WORKERS, "-o", "json").stdout)
        old = [pod["metadata"]["name"] for pod in pods if min(templates([pod]), default=0) < template]
        unready = [pod["metadata"]["name"] for pod in pods if not _is_ready(pod)]
        wrong = {f"{len(pods)} workers, not {replicas}": len(pods) != replicas, f"older templates: {old}": bool(old)}
        wrong |= {f"not ready: {unready}": bool(unready)}
        found = self._min_job_age()
        wrong |= {f"MinJobAge {found}, not {age}": age > 0 and found != age}
        return [text for text, is_so in wrong.items() if is_so]

    def unexpected(self) -> Counter[str]:
        """Errors of the operator's own: in conditions, and in its log."""
        log = self.cluster.home.log("operator")
        text = log.read_text(errors="replace") if log.exists() else ""
        return self.reasons + Counter(one or other for one, other in UNEXPECTED.findall(text))


def internal_errors(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """The objects on which a reconcile failed unexpectedly, by their own conditions."""
    return [
        f"{one['kind']} {one['metadata']['name']}: {condition['type']} InternalError"
        for one in objects
        for condition in one.get("status", {}).get("conditions", [])
        if condition.get("reason") == "InternalError"
    ]


def templates(pods: Sequence[Mapping[str, Any]]) -> list[int]:
    """The number of the template that each worker was made from; 0 before the first roll."""
    marks = (pod["metadata"].get("labels", {}).get("rolled", "number-0") for pod in pods)
    return [int(mark.removeprefix("number-")) for mark in marks]


def _items(said: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said)["items"] if said.strip() else []
    return found


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
