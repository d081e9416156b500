"""What differs between the partitions that resources ask for and those that Slurm has, and what was changed back.

In: facts. Out: rows for `kubectl slurm drift`. Of a Partition the operator itself says what drifted and since when; the
lines of NodeSets and of extraConf are compared here with Slurm's own answer. What was changed back is read from events.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slurm_operator.diagnose import refusals
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Object, Slurm, condition_of, name_of, spec_of, status_of
from slurm_operator.diagnose.partition_owner import Owner, owners
from slurm_operator.plan.partition import MISSING_PARTITION, PRESENCE, declared
from slurm_operator.plan.partition_events import BY_HAND, COMES_BACK, REVERTED
from slurm_operator.plan.partition_fields import NODES, Difference, differences

# How Slurm shows an option that is not set.
NONE = "NONE"
REVERTING = "being changed back"
LEFT = "left as it is"
REPORTED = "reported"
REFUSED = "Slurm refuses"
STATES = {"Reverting": REVERTING, "DriftComesBack": LEFT, "Drifted": REPORTED, "RefusedBySlurm": REFUSED}


@dataclass(frozen=True, slots=True)
class Drifted:
    """One option whose value in Slurm now differs from the requested one."""

    owner: Owner
    field: str
    wanted: str
    found: str
    # What becomes of it.
    state: str
    since: str = ""
    # Why Slurm refuses the requested value, in its own words; then nobody has changed it by hand.
    refusal: str = ""

    @property
    def is_by_hand(self) -> bool:
        """Whether somebody must have changed it."""
        return not self.refusal


@dataclass(frozen=True, slots=True)
class ChangedBack:
    """A change that the operator took back."""

    object: str
    last: str
    count: int
    what: str


def current(facts: Facts) -> list[Drifted]:
    """Everything that differs now."""
    found = [row for owner in owners(facts) if owner.kind == "Partition" for row in _reported(owner)]
    compared = [row for owner in owners(facts) if owner.kind != "Partition" for row in _compared(facts, owner)]
    return [*found, *compared, *_undeclared(facts)]


def causes(facts: Facts) -> Iterator[tuple[Owner, Cause]]:
    """What somebody changed in Slurm, and nothing changes back."""
    for row in current(facts):
        # A partition that is not up is already reported as such.
        is_reported = row.field == "State" and row.found != "UP"
        if row.state in (REPORTED, LEFT) and row.is_by_hand and not is_reported:
            yield row.owner, cause(facts, row)


def cause(facts: Facts, row: Drifted) -> Cause:
    """A difference as `doctor` reports it."""
    partition = row.owner.partition
    if row.field == PRESENCE and not row.owner.kind:
        sentence = f"no resource declares partition {partition}: {BY_HAND} made it, and slurm.conf does not hold it"
    else:
        is_now = f"{row.field} is {row.found or 'not set'}, and {row.owner.place} asks for {row.wanted or 'none'}"
        sentence = f"partition {partition}: {is_now}; {BY_HAND} changed it, and it is {row.state}"
    command = f"kubectl slurm -n {facts.namespace} drift"
    return Cause("Drifted", sentence, command, root=f"drift of {partition}", chosen=not row.owner.kind)


def _undeclared(facts: Facts) -> Iterator[Drifted]:
    """Partitions that Slurm has and nothing declares: neither a resource nor the file."""
    known = {(each.cluster, each.partition) for each in owners(facts)}
    for cluster, slurm in facts.slurm.items():
        config_map = facts.get("ConfigMap", f"{cluster}-config")
        if not isinstance(slurm, Slurm) or config_map is None:
            continue
        files = {str(name): str(text) for name, text in (config_map.get("data") or {}).items()}
        lines = declared(files.get("slurm.conf", ""), files).lines
        for name in sorted(slurm.partitions):
            if (cluster, name) not in known and name not in lines:
                yield Drifted(Owner("", {}, name, cluster), PRESENCE, "absent", "present", LEFT)


def _reported(owner: Owner) -> Iterator[Drifted]:
    in_sync = condition_of(owner.resource, "InSync") or {}
    state = STATES.get(str(in_sync.get("reason")), "kept")
    for row in status_of(owner.resource).get("drift") or ():
        wanted, found = str(row.get("wanted", "")), str(row.get("found", ""))
        yield Drifted(owner, str(row.get("field")), wanted, found, state, str(row.get("since", "")))


def _compared(facts: Facts, owner: Owner) -> Iterator[Drifted]:
    slurm, controller = facts.slurm_of(owner.cluster), facts.get("Controller", owner.cluster)
    if not isinstance(slurm, Slurm) or controller is None or owner.is_leaving or spec_of(controller).get("external"):
        return
    config_map = facts.get("ConfigMap", f"{owner.cluster}-config") or {}
    files = {str(name): str(text) for name, text in (config_map.get("data") or {}).items()}
    line = declared(files.get("slurm.conf", ""), files).lines.get(owner.partition)
    if line is None:
        # It is not in force: nobody has changed it by hand.
        return
    live = slurm.partitions.get(owner.partition)
    rows: tuple[Difference, ...] = (MISSING_PARTITION,) if live is None else ()
    if live is not None and live.record is not None:
        rows = differences(line, live.record)
    events = facts.events_of(owner.kind, owner.name)
    is_left = any(each.get("reason") == COMES_BACK and _is_about(str(each.get("message")), owner) for each in events)
    refused = refusals.why(facts, owner)
    for row in rows:
        state = REFUSED if refused is not None else LEFT if is_left else REVERTING
        yield Drifted(owner, row.field, row.wanted, row.found, state, refusal=refused.sentence if refused else "")


def _is_about(message: str, owner: Owner) -> bool:
    return message.startswith(f"partition {owner.partition}: ")


def changed_back(facts: Facts) -> list[ChangedBack]:
    """What was changed back, for as long as the API server keeps events: an hour by default."""
    found = [
        ChangedBack(f"{kind.lower()}/{name_of(each)}", _time(event), _count(event), str(event.get("message", "")))
        for kind in ("Controller", "NodeSet", "Partition")
        for each in facts.every(kind)
        for event in facts.events_of(kind, name_of(each))
        if event.get("reason") in (REVERTED, COMES_BACK)
    ]
    return sorted(found, key=lambda each: each.last)


def _time(event: Object) -> str:
    times = [(event.get("series") or {}).get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime")]
    return next((str(each) for each in times if each), "")


def _count(event: Object) -> int:
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


def adoption(rows: Iterable[Drifted]) -> list[tuple[Owner, dict[str, str]]]:
    """By resource: the options that make it match Slurm. Nodes, and missing partitions, are left to people."""
    found: dict[str, tuple[Owner, dict[str, str]]] = {}
    for row in rows:
        _, options = found.setdefault(f"{row.owner.place}/{row.owner.partition}", (row.owner, {}))
        if row.field not in (NODES, PRESENCE):
            options[row.field] = "" if row.found == NONE else row.found
    return list(found.values())
