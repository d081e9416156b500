"""No job lost: hundreds of jobs on a local cluster with real Slurm, while everything round them is changed and killed.

    python -m tests.real.local.soak --seconds 1800 --seed 7 --hostile --slurm 24.11 26.05

In: how long, a seed and Slurm versions, one after the other. Out: a timeline, a table and one JSON line for each; exit
code 0 only when the accounting says that every job has COMPLETED, once, without a requeue, when every change of size,
template and configuration took effect in its time, and when the operator met no error of its own. A job that was lost
is shown with the faults before its end. With `--hostile`, or SOAK_HOSTILE=1, an ordinary user's hostile jobs wait and
run beside the others, see `soak_hostile.py`.

What Slurm itself would lose is left out: slurmctld writes its job records at most 5 s late, so a kill -9 waits for a
moment in which no job begins or ends. Jobs make such moments: each ends in the first part of a period only. Anything on
the side of slurmd is not killed, since the jobs would go with it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.local.e2e.cluster import CORDON, CannotRun, LocalCluster
from tests.real.local.soak_effects import CONFIGURE, GROW, MIN_JOB_AGE_SECONDS, ROLL, SHRINK, Effects
from tests.real.local.soak_hostile import HostileFeeder, HostileVerdict

from slurm_operator.local.supervisor import read_parts

IN_FLIGHT = 200
BATCH = 20
# Jobs end in the first ENDING seconds of every PERIOD; slurmctld's records are on disk 5 s later.
PERIOD, ENDING, WRITTEN = 40, 16, 6
WORKERS = range(2, 7)
MAX_PAUSE_SECONDS = 60.0
LEFT_OUT = "left out"
OUR_NAME = re.compile(r"s-\d+")
KILL = 'for one in /proc/[0-9]*; do [ "$(cat $one/comm)" = {name} ] && kill -{signal} "${{one#/proc/}}"; done; true'
# The name comes last: it may hold what separates the others.
FIELDS = "JobID,State,Restarts,ExitCode,Start,End,NodeList,JobName"
LAST_REPLICAS = 4
WAIT_FOR_QUIET = f"while [ $(($(date +%s) % {PERIOD})) -ge {ENDING} ]; do sleep 1; done"
# Kinds of fault whose effect is waited for, with what they change.
EFFECTS = {"scale": (GROW, SHRINK), "roll": (ROLL,), "configuration": (CONFIGURE,)}


@dataclass(frozen=True, slots=True)
class Record:
    """One run of a job, as the accounting has it."""

    job: str
    state: str
    restarts: int
    exit_code: str
    start: str
    end: str
    nodes: str
    name: str

    @property
    def is_well(self) -> bool:
        """Whether it came to its own end at the first try."""
        return self.state == "COMPLETED" and self.restarts == 0 and self.exit_code == "0:0"

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come."""
        return self.state not in {"PENDING", "RUNNING", "COMPLETING", "REQUEUED"}


@dataclass(frozen=True, slots=True)
class Happening:
    """One entry of the timeline."""

    at: float
    what: str


@dataclass(slots=True)
class Verdict:
    """What came of a soak."""

    seed: int
    version: str
    seconds: float
    jobs: int
    most_running: int
    states: Counter[str]
    faults: Counter[str]
    lost: list[str]
    changes: list[tuple[str, str]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    unexpected: Counter[str] = field(default_factory=Counter)
    hostile: HostileVerdict | None = None

    @property
    def wrong(self) -> list[str]:
        """Everything that must not be; empty when the soak passed."""
        errors = [f"{count} unexpected errors of the operator: {what}" for what, count in self.unexpected.items()]
        return [*self.lost, *(self.hostile.lost if self.hostile else []), *self.late, *errors]

    def as_json(self) -> str:
        """One line for machines."""
        known = {"seed": self.seed, "slurm": self.version, "seconds": round(self.seconds), "jobs": self.jobs}
        found = {"most_running": self.most_running, "states": self.states, "faults": self.faults, "lost": self.lost}
        more = {"late": self.late, "unexpected": self.unexpected, "changes": dict(self.changes)}
        hostile = {"hostile": dict(self.hostile.as_rows()) if self.hostile else None}
        return json.dumps({**known, **found, **more, **hostile})

    def as_table(self) -> str:
        """What people read."""
        rows = [("jobs", str(self.jobs)), ("most at once", str(self.most_running)), ("lost", str(len(self.lost)))]
        rows += [(f"state {name}", str(count)) for name, count in sorted(self.states.items())]
        rows += [(f"fault {name}", str(count)) for name, count in sorted(self.faults.items())]
        rows += [*self.changes, ("changes late", str(len(self.late)))]
        rows += [("unexpected errors", str(self.unexpected.total()))]
        rows += list(self.hostile.as_rows()) if self.hostile else []
        return "\n".join(f"  {name:<40}{text:>8}" for name, text in rows)


@dataclass(slots=True)
class Timeline:
    """What happened, and when; printed as it happens."""

    began: float = field(default_factory=time.time)
    happenings: list[Happening] = field(default_factory=list)

    def say(self, what: str) -> None:
        """Note what happens now."""
        self.happenings.append(Happening(time.time(), what))
        print(f"[{time.time() - self.began:7.1f} s] {what}", flush=True)

    def before(self, end: str, how_many: int = 3) -> str:
        """The last faults before a moment that the accounting names."""
        with suppress(ValueError):
            moment = float(end)
            earlier = [one for one in self.happenings if one.at <= moment + 1]
            return "; ".join(f"{moment - one.at:.0f} s before: {one.what}" for one in earlier[-how_many:])
        return "; ".join(one.what for one in self.happenings[-how_many:])


def _random(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - the same seed is the same soak


class Feeder(threading.Thread):
    """Keeps so many jobs in flight, short and long; a name is used once, whether its answer came or not."""

    def __init__(self, cluster: LocalCluster, seed: int, longest: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self.cluster, self.random, self.longest = cluster, _random(f"jobs-{seed}"), longest
        self.acknowledged: dict[str, str] = {}
        self.most_running = 0
        self.stopped, self.resting = threading.Event(), threading.Event()
        self._number = 0

    def run(self) -> None:
        """Until stopped."""
        while not self.stopped.wait(0.5):
            if not self.resting.is_set():
                self._feed()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Nothing is submitted meanwhile."""
        self.resting.set()
        try:
            yield
        finally:
            self.resting.clear()

    def _feed(self) -> None:
        # A queue that cannot be counted is not fed: slurmctld or the API server is away.
        script = 'set -e; states=$(squeue -h -o %t); echo "$states"; echo --; '
        script += f'[ $(echo "$states" | wc -l) -le {IN_FLIGHT - BATCH} ] || exit 0; '
        script += "; ".join(self._submission() for _ in range(BATCH))
        said = self.cluster.as_alice(f"timeout 20 sh -c {shlex.quote(script)}").stdout
        for line in said.partition("--")[2].splitlines():
            name, _, job = line.partition(" ")
            if job.strip().isdecimal():
                self.acknowledged[name] = job.strip()
        states = Counter(said.partition("--")[0].split())
        self.most_running = max(self.most_running, states["R"])
        if states["R"] + states["PD"] + states["CG"] + BATCH > IN_FLIGHT:
            self.stopped.wait(3.0)

    def _submission(self) -> str:
        self._number += 1
        name, seconds = f"s-{self._number}", self._seconds()
        command = [
            "sbatch",
            "--parsable",
            "-J",
            name,
            "-t",
            "30",
            "-o",
            "/dev/null",
            "--wrap",
            f"sleep {seconds}; {WAIT_FOR_QUIET}",
        ]
        return f"printf '{name} '; {shlex.join(command)}"

    def _seconds(self) -> int:
        return (
            self.random.randint(self.longest // 3, self.longest)
            if self.random.random() < 0.3
            else self.random.randint(1, 12)
        )


class Faults:
    """Everything that is done to the cluster, one thing after another, in an order that the seed decides."""

    def __init__(self, cluster: LocalCluster, feeder: Feeder, timeline: Timeline, effects: Effects, seed: int) -> None:
        self.cluster, self.feeder, self.timeline, self.effects = cluster, feeder, timeline, effects
        self.random = _random(f"faults-{seed}")
        self.done: Counter[str] = Counter()
        self._undo: list[tuple[float, Callable[[], None]]] = []
        self._rolled = self._configured = 0
        self._replicas = WORKERS.start
        self._extra_conf = ""
        self.kinds: dict[str, tuple[int, Callable[[], str]]] = {
            "scale": (5, self.scale),
            "roll": (2, self.roll),
            "configuration": (2, self.configure),
            "cordon pod": (3, self.cordon_pod),
            "cordon node": (2, self.cordon_node),
            "slurmctld TERM": (2, lambda: self.kill("slurm-controller-0", "slurmctld", "TERM")),
            "slurmctld KILL": (1, self.kill_in_quiet),
            "slurmrestd KILL": (2, lambda: self.kill("deploy/slurm-restapi", "slurmrestd", "KILL")),
            "operator KILL": (3, lambda: self.kill_part("operator")),
            "API server KILL": (2, lambda: self.kill_part("apiserver")),
        }

    def run(self, seconds: float) -> None:
        """Faults until the time is over; each kind at least once when there is time."""
        deadline = time.monotonic() + seconds
        first = self.random.sample(sorted(self.kinds), len(self.kinds))
        while time.monotonic() < deadline:
            self._settle(time.monotonic())
            name = first.pop() if first else self._draw()
            how = self.kinds[name][1]()
            self.timeline.say(f"{name}: {how}")
            self.done[f"{name}, {LEFT_OUT}" if how == LEFT_OUT else name] += 1
            time.sleep(min(self.random.uniform(2, 12), max(deadline - time.monotonic(), 0)))
        self._settle(float("inf"))

    def _draw(self) -> str:
        """A kind of fault; half of those that would overtake an open change of their kind are left for later."""
        names = [name for name in sorted(self.kinds) if self.random.random() < 0.5 or not self._is_open(name)]
        return self.random.choices(names, [self.kinds[name][0] for name in names])[0]

    def _is_open(self, name: str) -> bool:
        return name in EFFECTS and self.effects.waits_for(*EFFECTS[name])

    def _settle(self, now: float) -> None:
        due = [undo for at, undo in self._undo if at <= now]
        self._undo = [(at, undo) for at, undo in self._undo if at > now]
        for undo in due:
            undo()

    def _later(self, what: str, *command: str) -> None:
        def undo() -> None:
            self.timeline.say(what)
            self.kubectl(*command)

        self._undo.append((time.monotonic() + self.random.uniform(5, 25), undo))

    def kubectl(self, *command: str) -> str:
        """A command that may have to wait for the API server; whoever is gone needs none."""
        deadline = time.monotonic() + MAX_PAUSE_SECONDS
        while True:
            done = self.cluster.attempt(*command)
            if done.returncode == 0 or "NotFound" in done.stderr:
                return done.stdout.strip()
            assert time.monotonic() < deadline, f"kubectl {shlex.join(command)}: {done.stderr}"
            time.sleep(0.5)

    def scale(self) -> str:
        return self.scale_to(self.random.choice(WORKERS))

    def scale_to(self, replicas: int) -> str:
        """Ask for so many workers."""
        self.kubectl("scale", "nodeset", "compute", f"--replicas={replicas}")
        self.effects.made(GROW if replicas > self._replicas else SHRINK, replicas)
        self._replicas = replicas
        return f"to {replicas}"

    def roll(self) -> str:
        self._rolled += 1
        patch = {"spec": {"template": {"metadata": {"labels": {"rolled": f"number-{self._rolled}"}}}}}
        self.kubectl("patch", "nodeset", "compute", "--type=merge", "-p", json.dumps(patch))
        self.effects.made(ROLL, self._rolled)
        return f"template {self._rolled}"

    def configure(self) -> str:
        """Another line of slurm.conf, which Slurm itself repeats."""
        if not self._extra_conf:
            self._extra_conf = self.kubectl("get", "controller", "slurm", "-o", "jsonpath={.spec.extraConf}")
        self._configured += 1
        age = MIN_JOB_AGE_SECONDS + self._configured
        patch = {"spec": {"extraConf": f"{self._extra_conf}\nMinJobAge={age}\n"}}
        self.kubectl("patch", "controller", "slurm", "--type=merge", "-p", json.dumps(patch))
        self.effects.made(CONFIGURE, age)
        return f"MinJobAge {age}"

    def cordon_pod(self) -> str:
        said = self.kubectl("get", "pods", "-l", "app.kubernetes.io/instance=compute", "-o", "name")
        pods = sorted(said.split())
        if not pods:
            return LEFT_OUT
        pod = self.random.choice(pods)
        self.kubectl("annotate", pod, f"{CORDON}=true", "--overwrite")
        self._later(f"uncordon {pod}", "annotate", pod, f"{CORDON}-")
        return pod

    def cordon_node(self) -> str:
        node = self.random.choice(("local-0", "local-1", "local-2"))
        self.kubectl("cordon", node)
        self._later(f"uncordon {node}", "uncordon", node)
        return node

    def kill(self, pod: str, name: str, how: str) -> str:
        # Its own end may cut off the answer.
        self.cluster.attempt("exec", pod, "-c", name, "--", "sh", "-c", KILL.format(name=name, signal=how))
        return pod

    def kill_in_quiet(self) -> str:
        with self.feeder.rest():
            time.sleep((ENDING + 1 - time.time()) % PERIOD)
            while ENDING < time.time() % PERIOD < PERIOD - WRITTEN - 1:
                before = self.queue()
                time.sleep(WRITTEN)
                if before and self.queue() == before:
                    return self.kill("slurm-controller-0", "slurmctld", "KILL")
            return LEFT_OUT

    def queue(self) -> str:
        """Every job that slurmctld knows of, with its state."""
        return self.cluster.as_alice("squeue -h -t all -S i -o '%i %t'").stdout

    def kill_part(self, part: str) -> str:
        pid = read_parts(self.cluster.home)[part].pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"pid {pid}"


def soak(cluster: LocalCluster, seconds: float, seed: int, *, hostile: bool = False) -> Verdict:
    """Disturb a cluster for so long, wait for its last job, and ask the accounting."""
    timeline, began = Timeline(), time.monotonic()
    longest = 45 if seconds < 600 else 180
    feeder, effects = Feeder(cluster, seed, longest), Effects(cluster, longest)
    crowd = HostileFeeder(cluster, seed, f"sleep 3; {WAIT_FOR_QUIET}", feeder.resting) if hostile else None
    faults = Faults(cluster, feeder, timeline, effects, seed)
    timeline.say(f"seed {seed}, Slurm {cluster.version}, {seconds:g} s{', hostile jobs' if hostile else ''}")
    threads = [feeder, effects, *([crowd] if crowd else [])]
    for thread in threads:
        thread.start()
    cluster.until("the cluster is full of jobs", lambda: feeder.most_running > IN_FLIGHT / 10, 120)
    timeline.say(f"{feeder.most_running} jobs run, {len(crowd.submissions) if crowd else 0} hostile ones were accepted")
    faults.run(seconds)
    for one in (feeder, crowd):
        if one is not None:
            one.stopped.set()
            one.join()
    timeline.say("no more faults; waiting for the last jobs")
    verdict = last_words(cluster, faults, timeline, longest + 240)
    verdict.hostile = crowd.finish(longest + 60) if crowd else None
    effects.settle(LAST_REPLICAS, longest + 160)
    effects.stopped.set()
    effects.join()
    verdict.changes, verdict.late = list(effects.ledger.as_rows()), effects.ledger.late
    verdict.unexpected = effects.unexpected()
    verdict.seed, verdict.seconds = seed, time.monotonic() - began
    return verdict


def last_words(cluster: LocalCluster, faults: Faults, timeline: Timeline, seconds: float) -> Verdict:
    """What the accounting says, once every job in it is over, or when it has had its time."""
    faults.scale_to(LAST_REPLICAS)
    deadline = time.monotonic() + seconds
    while True:
        found = accounting(cluster)
        if (found and all(record.is_over for record in found)) or time.monotonic() > deadline:
            break
        time.sleep(2)
    lost = list(losses(found, faults.feeder.acknowledged, timeline))
    states = Counter(record.state for record in found)
    return Verdict(0, cluster.version, 0, len(found), faults.feeder.most_running, states, faults.done, lost)


def accounting(cluster: LocalCluster) -> list[Record]:
    """Every run of every job; also those before a requeue."""
    said = cluster.as_alice(f"SLURM_TIME_FORMAT=%s sacct -nXPD -S now-12hours -o {FIELDS}").stdout
    rows = [line.split("|") for line in said.split("\n")]
    ours = [row for row in rows if len(row) == len(FIELDS.split(",")) and OUR_NAME.fullmatch(row[-1])]
    return [Record(row[0], row[1], int(row[2] or 0), *row[3:]) for row in ours]


def losses(found: Iterable[Record], acknowledged: dict[str, str], timeline: Timeline) -> Iterator[str]:
    """Every job that did not come to its own end exactly once, with what was done before."""
    runs = Counter(record.name for record in found)
    for record in found:
        if not record.is_well or runs[record.name] > 1:
            said = f"{record.state}, {record.restarts} restarts, exit {record.exit_code}, {runs[record.name]} records"
            where = f"on {record.nodes} from {record.start} to {record.end}"
            yield f"job {record.job} ({record.name}): {said}, {where}; {timeline.before(record.end)}"
    for name, job in acknowledged.items():
        if name not in runs:
            yield f"job {job} ({name}) was accepted, and the accounting does not know it"


def main() -> int:
    """`make soak`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", "1800")))
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--slurm", nargs="+", default=["26.05"])
    parser.add_argument("--hostile", action="store_true", default=os.environ.get("SOAK_HOSTILE", "") not in {"", "0"})
    options = parser.parse_args()
    return max(_soak_with(version, options.seconds, options.seed, options.hostile) for version in options.slurm)


def _soak_with(version: str, seconds: float, seed: int, hostile: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        cluster = LocalCluster(Path(folder) / "cluster", version)
        try:
            cluster.prepare()
        except CannotRun as error:
            print(f"NOT TESTED: {error}", file=sys.stderr)
            return 2
        try:
            return _soak_on(cluster, seconds, seed, hostile)
        except Exception:
            # The next version is still to be tried.
            traceback.print_exc()
            return 1


def _soak_on(cluster: LocalCluster, seconds: float, seed: int, hostile: bool) -> int:
    verdict = None
    try:
        cluster.up()
        verdict = soak(cluster, seconds, seed, hostile=hostile)
        print(verdict.as_table(), *verdict.wrong, verdict.as_json(), sep="\n", flush=True)
        print(f"Slurm {cluster.version}: {'FAILED' if verdict.wrong else 'passed'}", flush=True)
        return 1 if verdict.wrong else 0
    finally:
        if verdict is None or verdict.wrong:
            print(cluster.last_words(400))
        cluster.reset()


if __name__ == "__main__":
    sys.exit(main())
