"""What the API server wrote down: who asked for what, and when pods came, were Ready and went.

In: the audit log of a run. Out: an `AuditLog`, asked by `figures.py` for the requests of a time and for moments, and an
`AuditTail` that tells `steps.py` during the run whether the operator still writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import msgspec
from bench.scaling.kubernetes import KUBELET_AGENT

READING = frozenset({"get", "list", "watch"})


class _Reference(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """One request."""

    verb: str
    user_agent: str = ""
    object_ref: _Reference | None = None
    response_status: _Status = _Status()
    request_received_timestamp: str = ""
    stage_timestamp: str = ""

    @property
    def began(self) -> float:
        """When the server got it."""
        return datetime.fromisoformat(self.request_received_timestamp).timestamp()

    @property
    def ended(self) -> float:
        """When the server had answered it."""
        return datetime.fromisoformat(self.stage_timestamp).timestamp()

    @property
    def kind(self) -> str:
        """Verb and resource."""
        reference = self.object_ref or _Reference()
        return f"{self.verb} {'/'.join(part for part in (reference.resource, reference.subresource) if part)}"


@dataclass(frozen=True)
class AuditLog:
    """The requests of one run, of which those of `agent` are the operator's."""

    path: Path
    agent: str

    @cached_property
    def entries(self) -> list[Entry]:
        """All requests for objects."""
        lines = self.path.read_bytes().splitlines()
        found = (msgspec.json.decode(line, type=Entry) for line in lines)
        return [each for each in found if each.object_ref is not None]

    @cached_property
    def ours(self) -> list[tuple[float, Entry]]:
        """Those of the operator, with when each began."""
        return [(each.began, each) for each in self.entries if each.user_agent.startswith(self.agent)]

    def between(self, since: float, until: float) -> list[Entry]:
        """The operator's requests of a time; one that only looks on, a watch, is no request of that time."""
        return [each for at, each in self.ours if since <= at <= until and each.verb != "watch"]

    def by_kind(self, since: float, until: float) -> dict[str, int]:
        """The same, counted by verb and resource."""
        return dict(sorted(Counter(each.kind for each in self.between(since, until)).items()))

    def writes(self, since: float, until: float) -> int:
        """How many of them change something; leases are not counted."""
        return sum(map(_is_write, self.between(since, until)))

    def status_times(self, since: float, until: float) -> list[float]:
        """When the operator wrote statuses of its own resources."""
        return sorted(
            at
            for at, each in self.ours
            if since <= at <= until and each.object_ref and each.object_ref.subresource == "status"
            if each.object_ref.resource == "nodesets"
        )

    def created(self, namespace: str, since: float, until: float) -> list[float]:
        """When pods had been made."""
        return list(self._moments(namespace, "create pods", 201, since, until))

    def ready(self, namespace: str, since: float, until: float) -> list[float]:
        """When kubelets had called their pods Ready."""
        return list(self._moments(namespace, "patch pods/status", 200, since, until, KUBELET_AGENT))

    def gone(self, namespace: str, since: float, until: float) -> list[float]:
        """When kubelets had let go of their pods."""
        return list(self._moments(namespace, "delete pods", 200, since, until, KUBELET_AGENT))

    def _moments(
        self, namespace: str, kind: str, code: int, since: float, until: float, agent: str = ""
    ) -> Iterator[float]:
        for each in self._by_kind.get((namespace, kind), ()):
            if each.response_status.code == code and each.user_agent.startswith(agent):
                ended = each.ended
                if since <= ended <= until:
                    yield ended

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str], list[Entry]]:
        found: dict[tuple[str, str], list[Entry]] = {}
        for each in self.entries:
            if each.object_ref is not None:
                found.setdefault((each.object_ref.namespace, each.kind), []).append(each)
        return found


@dataclass(slots=True)
class AuditTail:
    """The end of a log that is still written: how many writes of the operator it has so far; leases are not counted."""

    path: Path
    agent: str
    writes: int = 0
    _offset: int = 0

    def look(self) -> int:
        """Read what is new; gives the writes so far."""
        with self.path.open("rb") as log:
            log.seek(self._offset)
            whole, newline, _ = log.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        mine = f'"userAgent":"{self.agent}'.encode()
        lines = (line for line in whole.splitlines() if mine in line)
        self.writes += sum(_is_write(msgspec.json.decode(line, type=Entry)) for line in lines)
        return self.writes


def _is_write(entry: Entry) -> bool:
    reference = entry.object_ref
    return entry.verb not in READING and (reference is None or reference.resource != "leases")


def most_within(times: list[float], seconds: float) -> int:
    """The largest number of these moments within any such time."""
    return max((sum(start <= each < start + seconds for each in times) for start in times), default=0)
