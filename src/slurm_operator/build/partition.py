"""Partition lines of slurm.conf, from NodeSets that ask for one and from Partition objects.

In: a cluster's NodeSets and Partitions, and what its extraConf already claims. Out: one `Acceptance` for each: the
line, or why it is left out. A partition that cannot be written is left out, since one bad line would stop slurmctld.
Called by `build/slurm_conf.py`; `status/partition.py` turns them into conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from kube_runtime.text import whole_number
from slurm_operator.api import text
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import ALL, Partition, PartitionSpec
from slurm_operator.api.problem import Path
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.conf_values import is_yes

ACCEPTED = "Accepted"
NAME_TAKEN = "NameTaken"
NODESET_NOT_FOUND = "NodeSetNotFound"
NO_NODES = "NoNodes"
DELETING = "Deleting"
INVALID = "InvalidSpec"
SECOND_DEFAULT = "SecondDefault"
IN_FORCE = "is in slurm.conf"
IS_DELETED = "it is being deleted, and is removed when its jobs have ended"

# The name of the line that holds what other lines do not say, in any case of its letters.
DEFAULTS = "DEFAULT"
# Of a cluster: each is compared with Slurm's own at every reconcile.
MAX_PARTITIONS = 2_000
RESERVED_OPTIONS = frozenset({"partitionname", "nodes"})

# A comma inside brackets belongs to the host list there.
_HOST_PATTERN = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")
_FLAGS = (
    ("hidden", "Hidden"),
    ("root_only", "RootOnly"),
    ("exclusive_user", "ExclusiveUser"),
    ("lln", "LLN"),
)
_VALUES = (
    ("max_time", "MaxTime"),
    ("default_time", "DefaultTime"),
    ("max_nodes", "MaxNodes"),
    ("min_nodes", "MinNodes"),
    ("priority_tier", "PriorityTier"),
    ("priority_job_factor", "PriorityJobFactor"),
    ("over_subscribe", "OverSubscribe"),
    ("preempt_mode", "PreemptMode"),
    ("grace_time", "GraceTime"),
    ("qos", "QOS"),
    ("allow_accounts", "AllowAccounts"),
    ("deny_accounts", "DenyAccounts"),
    ("allow_groups", "AllowGroups"),
    ("allow_qos", "AllowQos"),
    ("deny_qos", "DenyQos"),
    ("def_mem_per_cpu", "DefMemPerCPU"),
    ("max_mem_per_cpu", "MaxMemPerCPU"),
    ("def_mem_per_node", "DefMemPerNode"),
    ("max_mem_per_node", "MaxMemPerNode"),
)

_NUMBERS = frozenset(
    {
        *("max_nodes", "min_nodes", "priority_tier", "priority_job_factor", "grace_time"),
        *("def_mem_per_cpu", "max_mem_per_cpu", "def_mem_per_node", "max_mem_per_node"),
    }
)
_FLAG_ATTRIBUTES = frozenset(attribute for attribute, _ in _FLAGS)
# By option of the line: the attribute of a Partition's spec; by attribute: the field as it is written.
_ATTRIBUTES = {key: attribute for attribute, key in (*_VALUES, *_FLAGS, ("state", "State"), ("default", "Default"))}
_FIELD_NAMES = {each.name: each.encode_name for each in msgspec.structs.fields(PartitionSpec)}


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What became of one wish for a partition."""

    kind: str
    resource: str
    partition: str
    reason: str
    message: str
    line: str | None = None
    path: Path = ()
    # Nodes that only a live update can add: slurm.conf may not name a node that it does not declare.
    live_nodes: tuple[str, ...] = ()
    removed_nodes: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the partition is in slurm.conf."""
        return self.line is not None


@dataclass(frozen=True, slots=True)
class Claimed:
    """What the extraConf of a cluster already holds."""

    partitions: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    nodesets: frozenset[str] = frozenset()
    default: str | None = None


@dataclass(slots=True)
class _Ledger:
    """Names and the default, first come first served."""

    names: dict[str, str] = field(default_factory=dict)
    default: str | None = None
    # How many hosts further Partitions may name: each list is bounded, and there may be thousands of them.
    room: int = hostlist.MAX_NAMES


def acceptances(nodesets: Iterable[NodeSet], partitions: Iterable[Partition], claimed: Claimed) -> Iterator[Acceptance]:
    """An acceptance for each NodeSet that wants a partition, then for each Partition."""
    ledger = _Ledger(dict.fromkeys(claimed.partitions, "extraConf"), claimed.default)
    by_name = {nodeset.name: nodeset for nodeset in nodesets}
    for nodeset in by_name.values():
        if nodeset.spec.partition.enabled:
            yield _of_nodeset(nodeset, ledger)
    for partition in partitions:
        yield _of_partition(partition, by_name, claimed, ledger)


def _of_nodeset(nodeset: NodeSet, ledger: _Ledger) -> Acceptance:
    name, config = nodeset.slurm_name, nodeset.spec.partition.config or ""
    if nodeset.metadata.deletion_timestamp:
        return Acceptance("NodeSet", nodeset.name, name, DELETING, IS_DELETED)
    path: Path = ("spec", "partition", "config")
    problem = name_problem(name) or config_problem(config)
    if problem:
        return Acceptance("NodeSet", nodeset.name, name, INVALID, problem, path=path)
    taken = _take(ledger, name, f"NodeSet {nodeset.name!r}")
    if taken:
        return Acceptance("NodeSet", nodeset.name, name, NAME_TAKEN, taken, path=("spec", "partition"))
    second = _take_default(ledger, name) if is_default(config) else None
    if second:
        # Left out, its jobs would be killed; so it stays, as a partition like others.
        line = f"PartitionName={name} Nodes={name} {without_default(config)}"
        return Acceptance("NodeSet", nodeset.name, name, SECOND_DEFAULT, second, line, path=path)
    line = f"PartitionName={name} Nodes={name} {config}"
    return Acceptance("NodeSet", nodeset.name, name, ACCEPTED, IN_FORCE, line)


def _of_partition(cr: Partition, nodesets: Mapping[str, NodeSet], claimed: Claimed, ledger: _Ledger) -> Acceptance:
    name = cr.slurm_name
    if cr.metadata.deletion_timestamp:
        return Acceptance("Partition", cr.name, name, DELETING, IS_DELETED)
    invalid = spec_problem(cr)
    if invalid:
        return Acceptance("Partition", cr.name, name, INVALID, invalid[1], path=invalid[0])
    missing = [each for each in cr.spec.node_sets if each != ALL and each not in nodesets]
    absent = f"there is no NodeSet {', '.join(map(repr, missing))} in this cluster" if missing else ""
    path: Path = ("spec", "nodeSets", cr.spec.node_sets.index(missing[0])) if missing else ()
    if missing and len(missing) == len(cr.spec.node_sets):
        return Acceptance(
            "Partition", cr.name, name, NODESET_NOT_FOUND, f"{absent}; the partition is left out", path=path
        )
    crowded = _is_crowded(ledger) or _take_room(ledger, cr.spec)
    if crowded:
        return Acceptance("Partition", cr.name, name, INVALID, crowded)
    nodes = _nodes(cr.spec, nodesets, claimed)
    if not nodes.configured:
        message = "no node is left for slurm.conf: name a NodeSet, or nodes that extraConf declares"
        written = "nodes" if cr.spec.nodes and not cr.spec.node_sets else "nodeSets"
        return Acceptance("Partition", cr.name, name, NO_NODES, message, path=("spec", written), live_nodes=nodes.live)
    taken = _take(ledger, name, f"Partition {cr.name!r}")
    if taken:
        return Acceptance("Partition", cr.name, name, NAME_TAKEN, taken, path=("spec", "partitionName"))
    wants_default = cr.spec.default or is_default(cr.spec.config or "")
    second = _take_default(ledger, name) if wants_default else None
    # Left out for one NodeSet, its jobs on the others would wait for ever.
    without = f"{absent}; the partition is without it" if missing else ""
    return Acceptance(
        "Partition",
        cr.name,
        name,
        NODESET_NOT_FOUND if missing else SECOND_DEFAULT if second else ACCEPTED,
        "; ".join(each for each in (without, second) if each) or IN_FORCE,
        " ".join(_options(name, nodes.configured, cr.spec, default=wants_default and not second)),
        path=path or (("spec", "default") if second else ()),
        live_nodes=nodes.live,
        removed_nodes=nodes.removed,
    )


@dataclass(frozen=True, slots=True)
class _Nodes:
    configured: str
    live: tuple[str, ...]
    removed: tuple[str, ...]


def _nodes(spec: PartitionSpec, nodesets: Mapping[str, NodeSet], claimed: Claimed) -> _Nodes:
    if ALL in spec.node_sets:
        return _Nodes(ALL, (), ())
    sets = [nodesets[name].slurm_name for name in spec.node_sets if name in nodesets]
    added, removed = split_edits(spec.nodes or "")
    declared = [host for host in added if host in claimed.nodes or host in claimed.nodesets]
    live = tuple(host for host in added if host not in claimed.nodes and host not in claimed.nodesets)
    names = [*dict.fromkeys(sets), *([hostlist.compress(declared)] if declared else [])]
    return _Nodes(",".join(names), live, removed)


def split_edits(nodes: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Hosts that a `nodes` text adds, and those that it takes away."""
    count_edits(nodes)
    added: list[str] = []
    removed: list[str] = []
    for pattern in _HOST_PATTERN.findall(nodes):
        target = removed if pattern.startswith("-") else added
        target.extend(hostlist.expand(pattern.removeprefix("+").removeprefix("-")))
    return tuple(dict.fromkeys(added)), tuple(dict.fromkeys(removed))


def count_edits(nodes: str) -> int:
    """How many hosts a `nodes` text names, without making their names; HostListError when it is none, or too long."""
    total = 0
    for pattern in _HOST_PATTERN.finditer(nodes):
        total += hostlist.count(pattern[0].removeprefix("+").removeprefix("-"))
        if total > hostlist.MAX_NAMES:
            problem = f"the list has more than {hostlist.MAX_NAMES} names"
            raise hostlist.HostListError(nodes, pattern.start() + 1, problem)
    return total


def _options(name: str, nodes: str, spec: PartitionSpec, *, default: bool) -> Iterator[str]:
    yield f"PartitionName={name}"
    yield f"Nodes={nodes}"
    if default:
        yield "Default=YES"
    yield f"State={spec.state}"
    for attribute, key in _VALUES:
        value = getattr(spec, attribute)
        # An empty list names nobody; Slurm takes no empty value.
        if value is not None and value != ():
            yield f"{key}={','.join(value) if isinstance(value, tuple) else value}"
    for attribute, key in _FLAGS:
        flag = getattr(spec, attribute)
        if flag is not None:
            yield f"{key}={'YES' if flag else 'NO'}"
    if spec.tres_billing_weights:
        weights = ",".join(f"{tres}={weight}" for tres, weight in sorted(spec.tres_billing_weights.items()))
        yield f"TRESBillingWeights={weights}"
    if spec.config:
        yield without_default(spec.config)


def field_of(option: str, value: str) -> Iterator[tuple[str, object]]:
    """The field of a Partition's spec for an option of its line, with its value; nothing if there is no such field.

    An empty value means Slurm's default.
    """
    attribute = _ATTRIBUTES.get(option)
    if attribute is not None:
        yield _FIELD_NAMES[attribute], _field_value(attribute, value)


def field_of_option(option: str) -> str:
    """The field of a Partition that an option of its line comes from."""
    if option in ("PartitionName", "Nodes", "TRESBillingWeights"):
        return {"PartitionName": "partitionName", "Nodes": "nodeSets"}.get(option, "tresBillingWeights")
    return _FIELD_NAMES[_ATTRIBUTES[option]] if option in _ATTRIBUTES else "config"


def _field_value(attribute: str, value: str) -> object:
    if attribute == "state":
        return value.upper() or "UP"
    if attribute == "default":
        return is_yes(value)
    if value in ("", "NONE"):
        return None
    if attribute in _FLAG_ATTRIBUTES:
        return is_yes(value)
    if attribute.startswith(("allow_", "deny_")):
        return None if value == ALL else value.split(",")
    number = whole_number(value) if attribute in _NUMBERS else None
    return value if number is None else number


def config_problem(config: str, reserved: frozenset[str] = frozenset({"partitionname"})) -> str | None:
    """What is wrong with the options of a partition line."""
    problem = text.one_line(config)
    if problem:
        return problem
    for option in text.options(config):
        if isinstance(option, str):
            return option
        if option[0].lower() in reserved:
            return f"must not set {option[0]}, which the operator writes"
    return None


def name_problem(name: str) -> str | None:
    """What is wrong with the name of a partition."""
    if name.upper() == DEFAULTS:
        return f"{name} names no partition: Slurm takes its options as defaults of all partitions that follow"
    return text.slurm_name(name)


def spec_problem(cr: Partition) -> tuple[Path, str] | None:
    """What keeps a Partition from being a line at all."""
    problem = name_problem(cr.slurm_name)
    if problem:
        return ("spec", "partitionName"), problem
    problem = config_problem(cr.spec.config or "", RESERVED_OPTIONS)
    if problem:
        return ("spec", "config"), problem
    for tres, weight in (cr.spec.tres_billing_weights or {}).items():
        problem = text.config_value(tres) or text.config_value(weight)
        if problem:
            return ("spec", "tresBillingWeights", tres), problem
    return nodes_problem(cr.spec.nodes)


def nodes_problem(nodes: str | None) -> tuple[Path, str] | None:
    """What is wrong with a host list."""
    problem = text.one_line(nodes or "", max_characters=65536)
    if problem:
        return ("spec", "nodes"), problem
    try:
        count_edits(nodes or "")
    except hostlist.HostListError as error:
        return ("spec", "nodes"), str(error)
    return None


def is_default(config: str) -> bool:
    """Whether options make the partition the default one."""
    pairs = (option for option in text.options(config) if not isinstance(option, str))
    return any(key.lower() == "default" and value.lower() == "yes" for key, value in pairs)


def without_default(config: str) -> str:
    """Options without the one that makes the partition the default."""
    return " ".join(option for option in config.split() if not is_default(option))


def _is_crowded(ledger: _Ledger) -> str | None:
    if len(ledger.names) < MAX_PARTITIONS:
        return None
    return f"this cluster has {MAX_PARTITIONS} partitions already; the partition is left out"


def _take_room(ledger: _Ledger, spec: PartitionSpec) -> str | None:
    count = count_edits(spec.nodes or "")
    if count > ledger.room:
        most = hostlist.MAX_NAMES
        return f"the Partitions of this cluster name more than {most} hosts together; the partition is left out"
    ledger.room -= count
    return None


def _take(ledger: _Ledger, name: str, owner: str) -> str | None:
    # Slurm compares partition names as they are written.
    if name in ledger.names:
        return f"the partition name {name!r} is already claimed by {ledger.names[name]}"
    ledger.names[name] = owner
    return None


def _take_default(ledger: _Ledger, name: str) -> str | None:
    if ledger.default is not None:
        return f"{ledger.default!r} is already the default partition of this cluster; Slurm allows one"
    ledger.default = name
    return None
