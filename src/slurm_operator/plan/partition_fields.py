"""Partition options, field by field: as slurm.conf writes them, as Slurm answers them, as the REST call sets them.

In: a partition line and Slurm's own answer. Out: what differs, and the change that corrects it. Called by
`plan/partition.py`. Values are compared in one normal form, the one that `scontrol show
partition` prints, so that MaxTime=60 and MaxTime=1:00:00 are the same. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec

from kube_runtime.text import whole_number
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.conf_values import is_yes, to_int
from slurm_operator.slurm.model import UNLIMITED, Limit, Partition
from slurm_operator.slurm.requests import PartitionChange

NODES = "Nodes"
STATE = "State"
ALL = "ALL"
# slurmrestd ignores them in a change: only a partition that is made by a reconfigure has them.
FILE_ONLY = frozenset({"CpuBind", "ResumeTimeout", "SelectTypeParameters", "SuspendTime", "SuspendTimeout"})
_PREEMPT_MODES = frozenset({"OFF", "CANCEL", "REQUEUE", "SUSPEND", "PRIORITY"})
_ENDLESS = frozenset({"unlimited", "infinite", "-1"})
# Slurm has one of two memory limits: setting one takes the other away.
_TWINS = {
    "DefMemPerCPU": "DefMemPerNode",
    "DefMemPerNode": "DefMemPerCPU",
    "MaxMemPerCPU": "MaxMemPerNode",
    "MaxMemPerNode": "MaxMemPerCPU",
}
_TOKEN = re.compile(r"(\s*)(\S+)")
# What FORCE and YES mean without a number.
_DEFAULT_SHARING_JOBS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One partition of a slurm.conf, complete in itself: what a DEFAULT line gave it is in `values`."""

    name: str
    # By the option's own spelling; as written.
    values: Mapping[str, str] = field(default_factory=dict)
    # Which words of Nodes are NodeSets (or ALL), and which hosts the others are.
    sets: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    # Whether hosts were added or taken away that slurm.conf cannot name: then only Slurm's own list tells the members.
    edited: bool = False

    @property
    def text(self) -> str:
        """The line for a file."""
        pairs = (f"{key}={_quoted(value)}" for key, value in self.values.items())
        return " ".join([f"PartitionName={self.name}", *pairs])

    @property
    def nodes(self) -> str:
        """The nodes as a live change names them."""
        return ",".join([*self.sets, *([hostlist.compress(self.hosts)] if self.hosts else [])])

    def with_option(self, key: str, value: str) -> Line:
        """The line with one option set to something else."""
        return Line(self.name, {**self.values, key: value}, self.sets, self.hosts, self.edited)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which Slurm is not as wanted."""

    field: str
    wanted: str
    found: str


@dataclass(frozen=True, slots=True)
class _Field:
    """One option: how it is read, where Slurm shows it (None: it does not), and how it is set."""

    key: str
    read: Callable[[str], str]
    found: Callable[[Partition], str | None]
    change: Callable[[str], dict[str, Any]]
    default: str
    # Whether a line that does not set it stands for the default: not where the default is elsewhere in slurm.conf.
    watched: bool = True


def line_hash(line: Line) -> str:
    """Enough to tell one line of a partition from another."""
    return sha256(line.text.encode()).hexdigest()[:12]


def differences(line: Line, live: Partition) -> tuple[Difference, ...]:
    """Every field in which Slurm's partition is not what the line says; options that are not set have their default."""
    wanted = _wanted(line)
    found = [_nodes_differ(line, live)]
    for each in _FIELDS:
        value = wanted.get(each.key, each.default if each.watched else None)
        shown = each.found(live)
        if value is None or shown is None or _same(each.key, value, shown, wanted):
            continue
        found.append(Difference(each.key, value, shown))
    return tuple(each for each in found if each is not None)


def changed_options(wanted: Line, before: Line) -> frozenset[str]:
    """The options that two lines set differently, by their normal form."""
    new, old = _wanted(wanted), _wanted(before)
    options = {key for key in {*new, *old} if new.get(key) != old.get(key)}
    if (frozenset(wanted.sets), frozenset(wanted.hosts)) != (frozenset(before.sets), frozenset(before.hosts)):
        options.add(NODES)
    return frozenset(options) | {key for key in FILE_ONLY if wanted.values.get(key) != before.values.get(key)}


def creation(line: Line) -> PartitionChange:
    """The call that makes the partition."""
    options = {NODES, STATE, *(key for key in _wanted(line) if key in _BY_KEY)}
    return change(line, options)


def change(line: Line, options: Iterable[str]) -> PartitionChange:
    """The call that sets these options to what the line says, or to Slurm's default where it says nothing."""
    wanted = _wanted(line)
    values: dict[str, Any] = {}
    flags: dict[str, bool] = {}
    for key in sorted(options):
        if key == NODES:
            values["nodes"] = line.nodes
        elif key in _BY_KEY and (key in wanted or _TWINS.get(key) not in wanted):
            each = _BY_KEY[key]
            made = _change_of(each, _reset(each, wanted)) or {}
            flags |= made.pop("flags", {})
            values |= made
    if values.get("exclusive") == "NODE":
        # Whole nodes are a way of not sharing: said together, Slurm forgets them.
        values.pop("oversubscribe", None)
    return msgspec.convert({"name": line.name, "flags": flags, **values}, PartitionChange)


def unsettable(line: Line) -> tuple[str, ...]:
    """The options of a line that no live change can set."""
    wanted = _wanted(line)
    mode = wanted.get("PreemptMode")
    odd = {"PreemptMode"} if mode is not None and mode not in _PREEMPT_MODES else set[str]()
    # No call can name a value that is not one: the file comes first then, and the linter, which says so.
    odd |= {key for key, value in wanted.items() if key in _BY_KEY and _change_of(_BY_KEY[key], value) is None}
    return tuple(sorted({key for key in line.values if key in FILE_ONLY} | odd))


def unreturnable(line: Line) -> frozenset[str]:
    """The options that a line does not set and that no live change takes back to the cluster's own value."""
    return frozenset({"PreemptMode", "OverTimeLimit"} - _wanted(line).keys())


def is_unseen(line: Line, key: str) -> bool:
    """Whether Slurm's answer cannot tell if this option is as wanted."""
    each = _BY_KEY.get(key)
    return each is not None and (key == "JobDefaults" or (not each.watched and key not in _wanted(line)))


def canonical(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Options under their own spelling, the last one of a kind."""
    return {spelling(key): value for key, value in options}


def spelling(option: str) -> str:
    """An option as Slurm's manual spells it; an unknown one stays as it is."""
    return _SPELLING.get(option.lower(), option)


def with_options(written: str, changes: Mapping[str, str]) -> str:
    """Options as the user wrote them, with these changed, or removed if the value is empty.

    Everything else stays as it was written: spelling, order and spaces. New options come last.
    """
    changed, kept = canonical(changes.items()), ""
    left = dict(changed)
    for space, token in _TOKEN.findall(written):
        key = token.partition("=")[0]
        if spelling(key) not in changed:
            kept += f"{space}{token}"
        elif value := left.pop(spelling(key), ""):
            # A second occurrence further on would win, so it is dropped.
            kept += f"{space}{key}={value}"
    added = [f"{key}={value}" for key, value in left.items() if value]
    return " ".join([*([kept.strip()] if kept.strip() else []), *added])


def split_nodes(
    written: str, sets: frozenset[str], most: int = hostlist.MAX_NAMES
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The NodeSets and the hosts that a Nodes value names; one with more than `most` in brackets stays as written."""
    names = tuple(dict.fromkeys(_expanded(written, most) if "[" in written else _split_names(written)))
    named = dict.fromkeys(name for name in names if name in sets or name.upper() == ALL)
    hosts = tuple(name for name in names if name not in named)
    return tuple(ALL if name.upper() == ALL else name for name in named), hosts


def _split_names(written: str) -> list[str]:
    """The names of a list without brackets, which are no more than were written."""
    return [name for name in re.split(r"[, \t\r\n]+", written) if name]


def _expanded(name: str, most: int = hostlist.MAX_NAMES) -> list[str]:
    try:
        # Counted before a name is made: most lists that are too long would be made in part.
        hostlist.count(name, limit=most)
        return hostlist.expand(name)
    except hostlist.HostListError:
        return [name]


def _nodes_differ(line: Line, live: Partition) -> Difference | None:
    sets = {name for name in live.node_sets.split(",") if name}
    if sets == set(line.sets) and (_names_all if sets else _names_only)(live.nodes, line.hosts):
        return None
    return Difference(NODES, line.nodes, live.node_sets or live.nodes)


def _names_all(written: str, hosts: tuple[str, ...]) -> bool:
    """Whether a list names these hosts, and maybe others; Slurm's own may be long, and is read only where it counts."""
    wanted = frozenset(hosts)
    try:
        return not wanted or hostlist.HostList(written).within(wanted) == wanted
    except hostlist.HostListError:
        return wanted == {written}


def _names_only(written: str, hosts: tuple[str, ...]) -> bool:
    """Whether a list names these hosts and no others."""
    if written == hostlist.compress(hosts):
        return True
    # A list of these hosts has each name, or a part of it in brackets: one that is far longer has more.
    if len(written) > 2 * sum(len(host) + 2 for host in hosts):
        return False
    return set(_expanded(written) if written else ()) == set(hosts)


def _wanted(line: Line) -> dict[str, str]:
    """The options of a line in their normal form, aliases resolved."""
    result: dict[str, str] = {}
    priority = line.values.get("Priority")
    if priority is not None:
        result |= {"PriorityTier": _number(priority), "PriorityJobFactor": _number(priority)}
    result |= {key: _BY_KEY[key].read(value) for key, value in line.values.items() if key in _BY_KEY}
    result |= _exclusive(line.values)
    defaults = [f"{key}={line.values[key]}" for key in ("DefCpuPerGPU", "DefMemPerGPU") if key in line.values]
    return {**result, "JobDefaults": ",".join(defaults)} if defaults else result


def _exclusive(values: Mapping[str, str]) -> dict[str, str]:
    """One exclusiveness out of the four ways to write it."""
    if values.get("OverSubscribe", "").upper() == "EXCLUSIVE":
        return {"Exclusive": "NODE"}
    for key, meaning in (("ExclusiveUser", "USER"), ("ExclusiveTopo", "TOPO")):
        if key in values and "Exclusive" not in values:
            return {"Exclusive": meaning if is_yes(values[key]) else "NO"}
    return {}


def _change_of(each: _Field, value: str) -> dict[str, Any] | None:
    """The part of a call that sets one option; None where the call has no such value."""
    made = each.change(value)
    try:
        msgspec.convert({"name": "p", **made}, PartitionChange)
    except msgspec.ValidationError:
        return None
    return made


def _reset(each: _Field, wanted: Mapping[str, str]) -> str:
    if each.key == "DefaultTime" and each.key not in wanted:
        # No call takes a default time away; jobs that name none then get the longest, which is this.
        return wanted.get("MaxTime", UNLIMITED)
    return wanted.get(each.key, each.default)


def _same(key: str, value: str, shown: str, wanted: Mapping[str, str]) -> bool:
    if key == "DefaultTime" and key not in wanted:
        return shown in ("NONE", wanted.get("MaxTime", UNLIMITED))
    return value == shown


# --- normal forms ----------------------------------------------------------------------------------------------


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def _number(text: str) -> str:
    if text.lower() in _ENDLESS:
        return UNLIMITED
    number = to_int(text)
    return text if number is None else str(number)


def _memory(text: str) -> str:
    number = _number(text)
    return "0" if number == UNLIMITED else number


def _limit(value: Limit, none: str) -> str:
    return none if value is None else str(value)


def _minutes(text: str) -> int | None:
    """The minutes that Slurm reads: seconds are rounded up."""
    days, dash, rest = text.rpartition("-")
    whole_days = whole_number(days) if dash else 0
    parts = [number for part in rest.split(":") if (number := whole_number(part)) is not None]
    if len(parts) != rest.count(":") + 1 or len(parts) > 3 or whole_days is None:
        return None
    if dash:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    return whole_days * 1440 + hours * 60 + minutes + (seconds > 0)


def shown_time(minutes: int) -> str:
    """Minutes as Slurm prints them."""
    days, rest = divmod(minutes, 1440)
    return f"{f'{days}-' if days else ''}{rest // 60:02}:{rest % 60:02}:00"


def _time(text: str) -> str:
    if text.lower() in _ENDLESS:
        return UNLIMITED
    minutes = _minutes(text)
    return text if minutes is None else shown_time(minutes)


def _found_time(value: Limit, none: str) -> str:
    return shown_time(value) if isinstance(value, int) else _limit(value, none)


def _to_limit(value: str) -> Limit:
    return UNLIMITED if value == UNLIMITED else whole_number(value)


def _time_limit(value: str) -> Limit:
    return UNLIMITED if value == UNLIMITED else _minutes(value)


def _yes_no(text: str) -> str:
    return "YES" if is_yes(text) else "NO"


def _names(text: str) -> str:
    names = {name.strip() for name in text.split(",") if name.strip()}
    return ALL if not names or {name.upper() for name in names} == {ALL} else ",".join(sorted(names))


def _folded_names(text: str) -> str:
    # Accounts and QOS are kept in lower case.
    names = _names(text)
    return names if names == ALL else ",".join(sorted({name.lower() for name in names.split(",")}))


def _denied(text: str) -> str:
    names = _folded_names(text)
    return "" if names == ALL and text.strip().upper() != ALL else names


def _hosts(text: str) -> str:
    if _names(text) == ALL:
        return ALL
    return hostlist.compress(sorted(set(_expanded(text))))


def _weights(text: str) -> str:
    pairs = (name.partition("=") for name in text.split(",") if name)
    return ",".join(sorted(f"{key.lower()}={value.lower()}" for key, _, value in pairs))


def _sharing(text: str) -> str:
    name, _, count = text.upper().partition(":")
    if name in ("NO", "EXCLUSIVE") or (name, count) == ("YES", "1"):
        return "NO"
    return f"{name}:{count or _DEFAULT_SHARING_JOBS}"


def _preemption(modes: Iterable[str]) -> str:
    names = {"OFF" if name.upper() == "DISABLED" else name.upper() for name in modes}
    return ",".join(sorted(names - {"GANG"}))


def _found_preemption(live: Partition) -> str | None:
    if live.preempt_mode is None or "CLUSTER_GLOBAL" in live.preempt_mode:
        return None if live.preempt_mode is None else ""
    return _preemption(live.preempt_mode)


def _set_preemption(value: str) -> dict[str, Any]:
    if value not in _PREEMPT_MODES:
        return {}
    return {"preempt_mode": ("DISABLED" if value == "OFF" else value,)}


def _state(live: Partition) -> str | None:
    return next((state for state in ("UP", "DOWN", "DRAIN", "INACTIVE") if state in live.states), None)


# --- the table -------------------------------------------------------------------------------------------------


def _flag(key: str, flag: str, *, watched: bool = True) -> _Field:
    def found(live: Partition) -> str | None:
        return None if live.flags is None else "YES" if flag in live.flags else "NO"

    return _Field(key, _yes_no, found, lambda value: {"flags": {flag: value == "YES"}}, "NO", watched)


def _count(key: str, attribute: str, default: str, *, watched: bool = True) -> _Field:
    def found(live: Partition) -> str | None:
        return _limit(getattr(live, attribute), "NONE")

    def changed(value: str) -> dict[str, Any]:
        number = _to_limit(value)
        return {} if number is None else {attribute: number}

    return _Field(key, _number, found, changed, default, watched)


def _duration(key: str, attribute: str, default: str) -> _Field:
    def found(live: Partition) -> str | None:
        return _found_time(getattr(live, attribute), "NONE")

    def changed(value: str) -> dict[str, Any]:
        limit = _time_limit(value)
        return {} if limit is None else {attribute: limit}

    return _Field(key, _time, found, changed, default)


def _allowed(key: str, attribute: str, read: Callable[[str], str]) -> _Field:
    def changed(value: str) -> dict[str, Any]:
        return {attribute: "" if value == ALL else value}

    return _Field(key, read, lambda live: read(getattr(live, attribute)), changed, ALL)


def _text(key: str, attribute: str, read: Callable[[str], str] = str, *, watched: bool = True) -> _Field:
    def found(live: Partition) -> str | None:
        return read(getattr(live, attribute))

    return _Field(key, read, found, lambda value: {attribute: value}, "", watched)


def _keyword(key: str, attribute: str, read: Callable[[str], str]) -> _Field:
    def found(live: Partition) -> str | None:
        value = getattr(live, attribute)
        return None if value is None else read(value)

    return _Field(key, read, found, lambda value: {attribute: value}, "NO")


def _per_cpu(key: str, attribute: str, per_node: str) -> _Field:
    """Memory per CPU; it is taken away by a limit per node, since Slurm has one of the two."""

    def found(live: Partition) -> str | None:
        return _limit(getattr(live, attribute), "")

    def changed(value: str) -> dict[str, Any]:
        number = whole_number(value)
        return {attribute: number} if number is not None else {} if value else {per_node: 0}

    return _Field(key, _memory, found, changed, "")


def _per_node(key: str, attribute: str) -> _Field:
    def found(live: Partition) -> str | None:
        return _memory(_limit(getattr(live, attribute), "0"))

    def changed(value: str) -> dict[str, Any]:
        number = whole_number(value)
        return {} if number is None else {attribute: number}

    return _Field(key, _memory, found, changed, "0")


def _upper(text: str) -> str:
    return text.upper()


_FIELDS: tuple[_Field, ...] = (
    _Field(STATE, _upper, _state, lambda value: {"state": value}, "UP"),
    _flag("Default", "DEFAULT"),
    _duration("MaxTime", "max_time", UNLIMITED),
    _duration("DefaultTime", "default_time", "NONE"),
    _count("MaxNodes", "max_nodes", UNLIMITED),
    # A live partition has 1 where one of the file has 0; they mean the same.
    _count("MinNodes", "min_nodes", "0", watched=False),
    _count("PriorityTier", "priority_tier", "1"),
    _count("PriorityJobFactor", "priority_job_factor", "1"),
    _keyword("OverSubscribe", "oversubscribe", _sharing),
    _keyword("Exclusive", "exclusive", _upper),
    _Field("PreemptMode", lambda text: _preemption(text.split(",")), _found_preemption, _set_preemption, "", False),
    _count("GraceTime", "grace_time", "0"),
    _text("QOS", "qos", str.lower),
    _allowed("AllowAccounts", "allowed_accounts", _folded_names),
    _text("DenyAccounts", "denied_accounts", _denied),
    _allowed("AllowGroups", "allowed_groups", _names),
    _allowed("AllowQos", "allowed_qos", _folded_names),
    _text("DenyQos", "denied_qos", _denied),
    _allowed("AllocNodes", "allowed_alloc_nodes", _hosts),
    _text("Alternate", "alternate"),
    _flag("Hidden", "HIDDEN"),
    _flag("RootOnly", "ROOT_ONLY"),
    _flag("ReqResv", "REQ_RESV"),
    _flag("LLN", "LLN"),
    # The default of these two is another line of slurm.conf.
    _flag("DisableRootJobs", "NO_ROOT", watched=False),
    _flag("PowerDownOnIdle", "PDOI", watched=False),
    _count("OverTimeLimit", "over_time_limit", "NONE", watched=False),
    _count("MaxCPUsPerNode", "max_cpus_per_node", UNLIMITED),
    _count("MaxCPUsPerSocket", "max_cpus_per_socket", UNLIMITED),
    _text("TRESBillingWeights", "billing_weights", _weights),
    _per_cpu("DefMemPerCPU", "memory_per_cpu", "memory_per_node"),
    _per_node("DefMemPerNode", "memory_per_node"),
    _per_cpu("MaxMemPerCPU", "max_memory_per_cpu", "max_memory_per_node"),
    _per_node("MaxMemPerNode", "max_memory_per_node"),
    _text("Topology", "topology", watched=False),
    # Slurm's answer does not show what the file said here.
    _Field("JobDefaults", str, lambda _: None, lambda value: {"job_defaults": value}, "", False),
)
_BY_KEY: dict[str, _Field] = {each.key: each for each in _FIELDS}
_OTHERS = (NODES, "DefCpuPerGPU", "DefMemPerGPU", "ExclusiveTopo", "ExclusiveUser", "Priority", *FILE_ONLY)
_SPELLING: dict[str, str] = {
    **{key.lower(): key for key in (*_BY_KEY, *_OTHERS)},
    "shared": "OverSubscribe",
}


def options() -> Iterator[str]:
    """Every option that is compared."""
    yield NODES
    yield from _BY_KEY
