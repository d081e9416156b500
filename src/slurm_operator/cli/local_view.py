"""How a local cluster is shown: text, JSON, and lines while waiting.

In: `Health` of `local/cluster.py`. Out: text. Called by `cli/local.py` and `cli/local_wait.py`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from kube_runtime.times import parse_time
from slurm_operator.api.plural import counted
from slurm_operator.cli.invocation import Typed

if TYPE_CHECKING:
    from slurm_operator.local.cluster import Health
    from slurm_operator.local.readiness import State
    from slurm_operator.local.supervisor import PartRecord

STEADY_SECONDS = 3.0


def as_json(health: Health) -> str:
    """Health for machines."""
    plain = msgspec.to_builtins(health)
    for part, record in zip(plain["parts"], health.parts, strict=True):
        part["running"] = record.is_running
    return json.dumps({"healthy": health.healthy, **plain}, indent=2) + "\n"


def as_text(health: Health) -> str:
    """Health for people."""
    lines = [f"cluster {health.name}: {'healthy' if health.healthy else 'not healthy'}   data: {health.data}"]
    pid = f"pid {health.supervisor}" if health.supervisor else "not running: slurm-operator local up starts it"
    lines.append(f"  {'supervisor':12} {pid}")
    lines += [f"  {record.name:12} {_part(record, bool(health.supervisor))}" for record in health.parts]
    lines += [f"  {'API':12} {'answers' if health.answers else 'does not answer'}"]
    if health.answers and not health.agent_answers:
        lines += [f"  {'pods':12} logs and exec do not answer yet: the node agent is starting"]
    lines += [f"  {'ok ' if each.ready else '-- '} {each.title}: {each.message}" for each in health.objects]
    lines += [f"  !! {sentence}" for sentence in health.problems]
    return "\n".join(lines) + "\n"


def applied(effects: Mapping[str, Sequence[str]]) -> str:
    """What became of the objects of manifests; those that were changed are named, since somebody may have set them."""
    counts = ", ".join(f"{len(titles)} {what}" for what, titles in effects.items() if titles)
    counts += " object" if sum(map(len, effects.values())) == 1 else " objects"
    changed = effects.get("changed") or ()
    return f"{counts}\nset to what the manifests say: {', '.join(changed)}" if changed else counts


def _part(record: PartRecord, is_supervised: bool) -> str:
    if not record.is_running and not is_supervised:
        return f"is stopped (last: {record.last_exit})" if record.last_exit else "is stopped"
    if not record.is_running:
        return f"does not run ({record.last_exit or 'never started'})"
    again = f", restarted {counted(record.restarts, 'time')} (last: {record.last_exit})" if record.restarts else ""
    return f"pid {record.pid}, {time.time() - record.since:.0f} s{again}"


def _is_of_before(each: State, health: Health) -> bool:
    """Whether it was ready before the cluster was started: nobody may have looked at it since."""
    started = min((part.since for part in health.parts if part.since), default=0.0)
    changed = parse_time(each.since)
    # Kubernetes writes whole seconds.
    return changed is not None and changed.timestamp() + 1 <= started


class Lines:
    """A line for each object that became ready or not, and each trouble once.

    After a restart, objects still have the status of before: ready is what has become ready since, for a while.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, typed: Typed | None = None) -> None:
        self._clock, self._start = clock, clock()
        self._typed = typed or Typed()
        self._printed: dict[str, object] = {}
        self._ready_since: dict[str, float] = {}

    def __call__(self, health: Health) -> None:
        """Print what is new."""
        self.print_leftovers(health)
        for each in health.objects:
            if self._is_steady(each, health) and self._printed.get(each.title) != "ready":
                self._print(each.title, "ready", f"{each.title} is ready")
            elif not each.ready and self._printed.get(each.title) == "ready":
                self._print(each.title, "waiting", f"{each.title} is not ready any more: {each.message}")
        for sentence in health.problems:
            key = sentence.partition("(")[0]
            if key not in self._printed:
                self._print(key, "said", sentence)

    def _is_steady(self, each: State, health: Health) -> bool:
        """Whether an object is ready, and was for a while; at the end of the wait nothing is left to change that."""
        if not each.ready or _is_of_before(each, health):
            self._ready_since.pop(each.title, None)
            return False
        since = self._ready_since.setdefault(each.title, self._clock())
        return self._clock() - since >= STEADY_SECONDS or not health.waited_for

    def print_leftovers(self, health: Health) -> None:
        """Print what is not ready, but is not waited for."""
        for each in health.objects:
            if not each.ready and each.left_out and each.title not in self._printed:
                text = f"{each.title} is not waited for because {each.left_out}: {each.message}"
                self._print(each.title, "left out", text)

    def _print(self, key: str, value: str, text: str) -> None:
        self._printed[key] = value
        line = f"[{self._clock() - self._start:5.1f} s] {self._typed.text(text)}"
        print(line, file=sys.stderr, flush=True)  # noqa: T201
