"""Partitions: what is wanted, what is in force, what Slurm says; out of them live changes, lines to keep, and drift.

In: a `PartitionWorld`: the partition lines of two slurm.confs, Slurm's own partitions and jobs. Out: a `Plan`: live
changes (REST v0.0.45), and in its `partitions` the lines that the next slurm.conf must hold beside or instead of the
wanted ones, who is waited for, and what somebody changed by hand. Called by `plan/cluster.py`. Pure.

A removal is live first and file second: taking a used partition out of slurm.conf kills its jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from slurm_operator.build.partition import MAX_PARTITIONS
from slurm_operator.plan.actions import (
    DeletePartition,
    PartitionAction,
    PartitionDecisions,
    Plan,
    Reconfigure,
    SetPartition,
)
from slurm_operator.plan.partition_fields import (
    NODES,
    STATE,
    Difference,
    Line,
    canonical,
    change,
    changed_options,
    creation,
    differences,
    is_unseen,
    split_nodes,
    unreturnable,
    unsettable,
)
from slurm_operator.slurm import conf, hostlist
from slurm_operator.slurm.model import Job, Partition, SlurmList, Unknown
from slurm_operator.slurm.policy import is_over
from slurm_operator.slurm.requests import is_read_as_name

FILE = "slurm.conf"
REVERT = "Revert"
DRAIN = "DRAIN"
# In these states a partition takes no new jobs.
CLOSED = frozenset({DRAIN, "INACTIVE"})
PRESENCE = "Partition"
MISSING_PARTITION = Difference(PRESENCE, "present", "absent")

JobsByPartition = Mapping[str, Sequence[Job]]


@dataclass(frozen=True, slots=True)
class Declared:
    """What one slurm.conf declares."""

    lines: Mapping[str, Line]
    sets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionWorld:
    """What is wanted of the partitions of a cluster, and what Slurm says."""

    wanted: Mapping[str, Line]
    # The lines that Slurm follows as far as is known.
    in_force: Mapping[str, Line]
    slurm: SlurmList[Partition] | Unknown
    jobs: tuple[Job, ...] | Unknown = ()
    # Whether slurmrestd changes partitions (REST v0.0.45).
    supports_live_partitions: bool = True
    # driftPolicy by partition; Revert where none is named.
    policies: Mapping[str, str] = field(default_factory=dict)
    # The NodeSets that Slurm has read; None: all that are named.
    sets_in_force: frozenset[str] | None = None
    # Partitions whose drift is not reverted now, whatever their policy.
    unreverted: frozenset[str] = frozenset()
    # Those of a candidate that a sidecar is trying, which Slurm may have in a moment.
    on_trial: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Part:
    """What one partition adds to the plan."""

    action: PartitionAction | None = None
    kept: Line | None = None
    waits: tuple[int, ...] | None = None
    drift: tuple[Difference, ...] = ()
    reverts: bool = False
    unsettable: tuple[str, ...] = ()


def lines(text: str, includes: Mapping[str, str] | None = None) -> dict[str, Line]:
    """Every partition of a slurm.conf: the NodeSets', the Partition objects', extraConf's."""
    return dict(declared(text, includes).lines)


def declared(text: str, includes: Mapping[str, str] | None = None) -> Declared:
    """The partitions and NodeSets of a slurm.conf."""
    document = conf.parse(text, includes=includes)
    sets = {entry.value: _record_text(entry) for entry in document.all("NodeSet")}
    known, found = frozenset(sets), dict[str, Line]()
    # Of all lines together: each may name a hundred thousand hosts, and a file has room for thousands of lines.
    room = hostlist.MAX_NAMES
    defaults: dict[str, str] = {}
    for entry in document.all("PartitionName"):
        if len(found) >= MAX_PARTITIONS:
            # Nobody has so many: what is beyond is in the file alone.
            break
        values = canonical((each.key, each.value) for each in entry.attributes)
        if entry.value.upper() == "DEFAULT":
            defaults |= values
            continue
        values = {**defaults, **values}
        named, hosts = split_nodes(values.get(NODES, ""), known, room)
        room -= len(hosts)
        found[entry.value] = Line(entry.value, values, named, hosts)
    return Declared(found, sets)


def edited(line: Line, added: Iterable[str], removed: Iterable[str], members: Mapping[str, frozenset[str]]) -> Line:
    """A line with `+host` and `-host` applied, for the live way; `members` are the hosts of each NodeSet, "" of all."""
    added, removed = tuple(added), frozenset(removed)
    if not added and not removed:
        return line
    known = frozenset(host for hosts in members.values() for host in hosts)
    more = tuple(host for host in added if host in known)
    if not removed:
        return Line(line.name, line.values, line.sets, tuple(dict.fromkeys([*line.hosts, *more])), edited=True)
    chosen = members if "ALL" in line.sets else line.sets
    every = frozenset[str]().union(*(members.get(name, ()) for name in chosen))
    hosts = sorted((every | {*line.hosts, *more}) - removed)
    return Line(line.name, line.values, (), tuple(hosts), edited=True)


def plan_partitions(world: PartitionWorld) -> Plan:
    """The plan for all partitions of a cluster, one action after the other."""
    wanted, in_force = world.wanted, world.in_force
    if isinstance(world.slurm, Unknown) or not world.slurm.complete:
        # Nobody can say whether these have jobs: they stay as they are.
        gone = {name: line for name, line in in_force.items() if name not in wanted}
        return Plan(partitions=PartitionDecisions(kept_lines=gone, waits=dict.fromkeys(gone, ())))
    live = {each.name: each for each in world.slurm.items}
    parts = {name: _wanted(name, live.get(name), world) for name in wanted}
    leaving = [name for name in in_force if name not in wanted]
    jobs = jobs_by_partition(world.jobs) if leaving else {}
    parts |= {name: _unwanted(name, live.get(name), world, jobs) for name in leaving}
    return _joined(parts)


def _joined(parts: Mapping[str, _Part]) -> Plan:
    actions = [part.action for part in parts.values() if part.action is not None]
    decisions = PartitionDecisions(
        kept_lines={name: part.kept for name, part in parts.items() if part.kept is not None},
        waits={name: part.waits for name, part in parts.items() if part.waits is not None},
        drift={name: part.drift for name, part in parts.items() if part.drift},
        reverts=frozenset(name for name, part in parts.items() if part.reverts),
        unsettable={name: part.unsettable for name, part in parts.items() if part.unsettable},
    )
    return Plan(tuple((action,) for action in sorted(_once(actions), key=_order)), partitions=decisions)


def _once(actions: list[PartitionAction]) -> list[PartitionAction]:
    """One reconfigure is enough for all partitions."""
    names = tuple(name for each in actions if isinstance(each, Reconfigure) for name in each.partitions)
    return [each for each in actions if not isinstance(each, Reconfigure)] + ([Reconfigure(names)] if names else [])


def _order(action: PartitionAction) -> tuple[int, str]:
    """The new default last: Slurm has one, and a change that clears the old one must not clear the new."""
    if isinstance(action, SetPartition):
        return (2 if action.change.flags.get("DEFAULT") else 1, action.change.name)
    return (0, action.name) if isinstance(action, DeletePartition) else (3, "")


def _wanted(name: str, live: Partition | None, world: PartitionWorld) -> _Part:
    line, before = world.wanted[name], world.in_force.get(name)
    if live is None:
        return _absent(line, before, world)
    found = {each.field for each in differences(line, live)}
    if not found and before in (None, line):
        # As it is with most of them, most of the time: there is nothing to look into.
        return _Part()
    changed = _changed(line, before, found)
    drift, _ = split_differences(line, before, live, supports_live_partitions=world.supports_live_partitions)
    if not world.supports_live_partitions:
        revert = bool(drift) and before is not None and _reverts(name, world)
        return _Part(Reconfigure((name,)) if revert else None, drift=drift, reverts=revert)
    due = frozenset(key for key in changed if key in found or is_unseen(line, key))
    held = (frozenset(unsettable(line)) | unreturnable(line)) & changed if before is not None else frozenset[str]()
    if due and not _is_known(line, world):
        # Its NodeSet comes with the next reconfigure; until then the file says what is true.
        return _Part(kept=before, drift=drift)
    reverted = frozenset(each.field for each in drift) if _reverts(name, world) else frozenset[str]()
    fields = (due | reverted) - held
    action = SetPartition(change(line, fields), _why(due, reverted)) if fields else None
    return _Part(action, drift=drift, reverts=bool(reverted & fields), unsettable=tuple(sorted(held)))


def split_differences(
    line: Line, before: Line | None, live: Partition, *, supports_live_partitions: bool
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Where Slurm is not as wanted: what somebody changed by hand, and what is on its way since the line changed."""
    found = differences(line, live)
    changed = _changed(line, before, {each.field for each in found})
    if changed and not supports_live_partitions:
        # A file brings all of it at once: until then nobody can tell one from the other.
        return (), found
    return tuple(each for each in found if each.field not in changed), tuple(
        each for each in found if each.field in changed
    )


def _changed(line: Line, before: Line | None, found: Set[str]) -> frozenset[str]:
    """The options that the line itself changes."""
    changed = frozenset(found) if before is None else changed_options(line, before)
    return changed | ({NODES} & found) if line.edited else changed


def _absent(line: Line, before: Line | None, world: PartitionWorld) -> _Part:
    """A wanted partition that Slurm does not have."""
    gone = (MISSING_PARTITION,) if before is not None else ()
    by_file = bool(unsettable(line)) or not _is_known(line, world)
    if not world.supports_live_partitions or (before is None and by_file):
        # The reconfigure that follows the file makes it.
        return _Part(drift=gone)
    if before is not None and not _reverts(line.name, world):
        return _Part(drift=gone)
    if by_file:
        return _Part(Reconfigure((line.name,)), drift=gone, reverts=bool(gone))
    why = "deleted by hand" if gone else "new"
    return _Part(SetPartition(creation(line), why), drift=gone, reverts=bool(gone))


def _unwanted(name: str, live: Partition | None, world: PartitionWorld, jobs: JobsByPartition) -> _Part:
    """A partition that is to go: its jobs first, then Slurm's record, then the line."""
    before = world.in_force[name]
    if isinstance(world.jobs, Unknown):
        return _Part(kept=before, waits=())
    drained = before.with_option(STATE, DRAIN)
    if live is None:
        return _gone(name, drained, world, jobs)
    # Without a live delete it is the reconfigure that takes it away, and that fails on any record that names it.
    blocking = blocking_jobs(name, jobs, finished_too=not world.supports_live_partitions)
    if blocking:
        must_drain = world.supports_live_partitions and "UP" in live.states
        action = (
            SetPartition(change(drained, {STATE}), "it is removed when its jobs have ended") if must_drain else None
        )
        return _Part(action, kept=drained, waits=blocking)
    if not world.supports_live_partitions:
        # Until slurmctld reads the file, whoever submits a job is let in: first it takes none any more, then it goes.
        # Where Slurm keeps its own state through a reconfigure, it is enough that the file in force says so.
        is_closed = bool(live.states & CLOSED) or before.values.get(STATE) == DRAIN
        return _Part() if is_closed else _Part(kept=drained, waits=())
    if not is_read_as_name(name):
        return _Part(kept=drained, waits=())
    return _Part(DeletePartition(name, "no resource declares it any more"), kept=drained)


def _gone(name: str, drained: Line, world: PartitionWorld, jobs: JobsByPartition) -> _Part:
    """A partition that is to be removed and is not in Slurm's list. If jobs name it, the list may have lost it."""
    lost = blocking_jobs(name, jobs, finished_too=not world.supports_live_partitions)
    if lost:
        return _Part(kept=world.in_force[name], waits=lost)
    if name in world.on_trial:
        # The file on trial may still create it, and slurmctld would not accept a file without it right after: it names
        # a NodeSet.
        return _Part(kept=world.in_force[name])
    if blocking_jobs(name, jobs, finished_too=True) and is_read_as_name(name):
        # A reconfigure would remove it although records of ended jobs still name it; a deletion would not.
        return _Part(DeletePartition(name, "no resource declares it any more"), kept=drained)
    return _Part()


def jobs_by_partition(jobs: Iterable[Job] | Unknown) -> JobsByPartition:
    """The jobs that name each partition: a thousand partitions need not look at all jobs each."""
    found: dict[str, list[Job]] = {}
    for job in jobs if not isinstance(jobs, Unknown) else ():
        for name in set(job.partition.split(",")):
            found.setdefault(name, []).append(job)
    return found


def blocking_jobs(name: str, jobs: JobsByPartition, *, finished_too: bool) -> tuple[int, ...]:
    """The jobs that keep a partition from going."""
    return tuple(sorted(job.job_id for job in jobs.get(name, ()) if finished_too or not is_over(job)))


def _reverts(name: str, world: PartitionWorld) -> bool:
    return world.policies.get(name, REVERT) == REVERT and name not in world.unreverted


def _is_known(line: Line, world: PartitionWorld) -> bool:
    known = world.sets_in_force
    return known is None or all(name in known or name == "ALL" for name in line.sets)


def _why(due: frozenset[str], reverted: frozenset[str]) -> str:
    parts = [f"change {', '.join(sorted(due))}"] if due else []
    if reverted - due:
        parts.append(f"revert {', '.join(sorted(reverted - due))}")
    return "; ".join(parts)


def with_lines(text: str, lines_: Mapping[str, Line | None], sets: Mapping[str, str]) -> str:
    """A slurm.conf with other lines for these partitions (None: without), and the NodeSets that they need."""
    here = declared(text)
    kept = {name: line for name, line in lines_.items() if line is not None}
    body = _without(text, frozenset(lines_))
    needed = {name for line in kept.values() for name in line.sets if name not in here.sets and name in sets}
    added = [sets[name] for name in sorted(needed)] + [kept[name].text for name in sorted(kept)]
    return body if not added else "\n".join([body.rstrip("\n"), "#", "### KEPT ###", *added]) + "\n"


def without_live_lines(text: str) -> str:
    """A slurm.conf without the partition lines that need no reconfigure where partitions are changed live."""
    settable = frozenset(name for name, line in declared(text).lines.items() if not unsettable(line))
    rows = _without(text, settable).split("\n")
    return "\n".join(row for row in rows if row.strip() and not row.startswith("#"))


def _without(text: str, names: frozenset[str]) -> str:
    if not names:
        return text
    physical = text.split("\n")
    dropped: set[int] = set()
    for entry in conf.parse(text).all("PartitionName"):
        if entry.value in names and entry.file == FILE:
            at = entry.line - 1
            dropped.add(at)
            while physical[at].rstrip().endswith("\\") and at + 1 < len(physical):
                at += 1
                dropped.add(at)
    return "\n".join(row for number, row in enumerate(physical) if number not in dropped)


def _record_text(entry: conf.Entry) -> str:
    pairs = [f"{entry.key}={entry.value}", *(f"{each.key}={each.value}" for each in entry.attributes)]
    return " ".join(pairs)
