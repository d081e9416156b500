"""The linter of Slurm's configuration: everything wrong with a set of files, at once.

In: file names and texts, the Slurm version, and what is known of the cluster. Out: findings sorted by place. The config
plan calls this before anything is published, and `slurm-operator check` without a cluster. A file is judged by its base
name; a file of another name is read only where one of these includes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from kube_runtime.text import first_few
from slurm_operator.slurm import conf_ascii, conf_cross_checks, conf_topology
from slurm_operator.slurm.conf import Document, Entry, Finding, Severity, parse, shorten, unsafe_characters
from slurm_operator.slurm.conf_cross_checks import finding as finding_at
from slurm_operator.slurm.conf_keys import (
    DEPRECATED,
    EXCLUSIVE,
    FILES,
    GONE,
    IGNORED,
    NEWEST,
    REMOVED,
    SLURM_CONF,
    TEXT,
    FileRules,
    Key,
    Table,
)
from slurm_operator.slurm.conf_values import Complaint, Version, closest, is_yes, parse_version, to_int
from slurm_operator.slurm.hostlist import MAX_NAMES, HostListError, count, expand

__all__ = ["Finding", "lint"]

MAX_SUGGESTIONS = 50


class Cluster(msgspec.Struct, frozen=True):
    """What the caller knows: the version, the names beside those in the files, the keys the operator writes."""

    version: Version | None
    nodes: frozenset[str] | None
    nodesets: frozenset[str] | None
    live_node_count: int | None
    owned: frozenset[str]


def lint(
    files: Mapping[str, str],
    *,
    version: str | None = None,
    known_nodes: Collection[str] | None = None,
    known_nodesets: Collection[str] | None = None,
    live_node_count: int | None = None,
    owned: Collection[str] = (),
    complete: bool = False,
) -> list[Finding]:
    """Everything wrong with `files` (name -> text).

    known_nodes, known_nodesets: names that exist beside those in the files; with either, an unknown name in a
    partition is an error. live_node_count: nodes that MaxNodeCount must hold. owned: keys that the files may not set.
    complete: whether these are all files that the daemons will find, so that one that is named and missing is an error.
    """
    cluster = Cluster(
        version=parse_version(version) if version else None,
        nodes=None if known_nodes is None else frozenset(known_nodes),
        nodesets=None if known_nodesets is None else frozenset(known_nodesets),
        live_node_count=live_node_count,
        owned=frozenset(key.lower() for key in owned),
    )
    documents: dict[str, Document] = {}
    found = {finding for name in files for finding in _file(name, files, cluster, documents)}
    names = (name.rpartition("/")[2] for name in files)
    found |= set(
        conf_cross_checks.findings(
            conf_cross_checks.ConfigFiles.of(documents, names, cluster.version), complete=complete
        )
    )
    return sorted(
        found, key=lambda finding: (finding.file, finding.line, finding.column, finding.code, finding.message)
    )


def lint_node_options(options: str, version: Version | None) -> list[Finding]:
    """What is wrong with the options of a node, as `slurmd --conf` gets them."""
    if not options.strip():
        return []
    cluster = Cluster(version, None, None, None, frozenset())
    lines = _Lines("slurm.conf", {"slurm.conf": f"NodeName=node {options}"}, FILES["slurm.conf"], cluster)
    return sorted(lines.findings(), key=lambda finding: finding.column)


def is_judged(name: str) -> bool:
    """Whether a file is judged by itself; any other is read only where one of these includes it."""
    base = name.rpartition("/")[2]
    return base in FILES or base in ("topology.yaml", "plugstack.conf")


def _file(name: str, files: Mapping[str, str], cluster: Cluster, documents: dict[str, Document]) -> Iterator[Finding]:
    """What is wrong with one file; its document is kept for what files say of each other."""
    base = name.rpartition("/")[2]
    if base in FILES:
        lines = _Lines(name, files, FILES[base], cluster)
        documents[base] = lines.document
        yield from lines.findings()
    elif base == "topology.yaml":
        yield from conf_topology.lint(files[name], file=name, version=cluster.version)
    elif base == "plugstack.conf":
        yield from _plugstack(files[name], name)


class _Lines:
    """Lints a file of Key=Value lines and records."""

    def __init__(self, name: str, files: Mapping[str, str], rules: FileRules, cluster: Cluster) -> None:
        self.rules = rules
        self.cluster = cluster
        self.is_slurm_conf = rules.keys is SLURM_CONF
        includes = {other: text for other, text in files.items() if other != name}
        self.document = parse(files[name], file=name, includes=includes, records=frozenset(rules.records))
        self.found: list[Finding] = []
        self.judged: dict[tuple[int, str], Complaint | None] = {}
        self.first_use: dict[str, Entry] = {}
        self.guesses: dict[str, str | None] = {}

    def findings(self) -> Iterator[Finding]:
        for entry in self.document.entries:
            self._entry(entry)
        unknown = {(finding.file, finding.line) for finding in self.found if finding.code == "UnknownKey"}
        # What follows an unknown key is unreadable because the key is: one finding says it.
        yield from (
            finding
            for finding in self.document.findings
            if finding.code != "TrailingText" or (finding.file, finding.line) not in unknown
        )
        yield from self.found
        if self.is_slurm_conf:
            yield from _Names(self.document, self.cluster).findings()

    def _entry(self, entry: Entry) -> None:
        folded = entry.key.lower()
        key = self.rules.keys.get(folded)
        if key is None:
            self._unknown(entry, self.rules.keys)
            return
        if folded in self.cluster.owned:
            self._report(entry, "OwnedKey", f"{key.span.name} is set by the operator and cannot be set here")
        self._retired(entry, folded)
        if not key.repeats:
            self._repeated(entry, self.first_use.setdefault(folded, entry))
        self._pair(entry, key)
        if folded in self.rules.records:
            self._attributes(entry, self.rules.records[folded])

    def _attributes(self, record: Entry, table: Table) -> None:
        first_use: dict[str, Entry] = {}
        for pair in record.attributes:
            folded = pair.key.lower()
            key = table.get(folded)
            if key is None:
                self._unknown(pair, table)
                continue
            first = first_use.setdefault(folded, pair)
            if first is not pair:
                self._repeated(pair, first)
            self._pair(pair, key)
        for winner, loser in EXCLUSIVE:
            if winner.lower() in first_use and loser.lower() in first_use:
                pair = first_use[loser.lower()]
                self._report(pair, "ExclusiveKeys", f"Slurm ignores {loser} beside {winner}", severity="warning")

    def _pair(self, pair: Entry, key: Key) -> None:
        if pair.operator:
            message = f"Slurm reads {pair.key}{pair.operator}= as {pair.key}=: nothing is added or removed"
            self._report(pair, "OperatorIgnored", message, severity="warning")
        if objection := key.span.objection(self.cluster.version):
            self._report(pair, "WrongVersion", objection)
        if key.kind is TEXT and pair.value.isascii():
            return
        cached = (id(key.kind), pair.value)
        if cached not in self.judged:
            self.judged[cached] = key.kind.check(pair.value, self.cluster.version)
        if complaint := _lookalike(pair, self.judged[cached]):
            self._complain(pair, complaint)

    def _complain(self, pair: Entry, complaint: Complaint) -> None:
        self.found.append(
            Finding(
                file=pair.file,
                line=pair.line,
                column=pair.value_column,
                severity=complaint.severity,
                code=complaint.code,
                message=shorten(f"{pair.key}: {complaint.message}"),
                expected=complaint.expected,
                suggestion=complaint.suggestion and shorten(complaint.suggestion),
            )
        )

    def _unknown(self, pair: Entry, table: Table) -> None:
        if pair.key.lower() in GONE and not pair.attributes:
            message = f"{pair.key} was removed long ago, and Slurm does not start with it"
            self._report(pair, "RemovedKey", message, suggestion=GONE[pair.key.lower()])
            return
        newer = self.cluster.version is not None and self.cluster.version > NEWEST
        self._report(
            pair,
            "UnknownKey",
            f"unknown key {pair.key}",
            suggestion=self._guess(pair.key, table),
            severity="warning" if newer else "error",
        )

    def _guess(self, given: str, table: Table) -> str | None:
        """Guessing is slow, so a file full of rubbish gets only so many guesses."""
        if given not in self.guesses and len(self.guesses) < MAX_SUGGESTIONS and len(given) <= 64:
            self.guesses[given] = closest(given, (key.span.name for key in table.values()))
        return self.guesses.get(given)

    def _retired(self, entry: Entry, folded: str) -> None:
        if folded in REMOVED:
            message = f"{entry.key} was removed, Slurm refuses to start with it"
            self._report(entry, "RemovedKey", message, suggestion=REMOVED[folded])
        since, replacement = IGNORED.get(folded, (None, None))
        if since is not None and (self.cluster.version or NEWEST) >= since:
            message = f"Slurm ignores {entry.key}"
            self._report(entry, "IgnoredKey", message, suggestion=replacement, severity="warning")
        soon, successor = DEPRECATED.get(folded, (None, None))
        if soon is not None and self.cluster.version is not None and self.cluster.version >= soon:
            message = f"{entry.key} will be removed in a later release of Slurm"
            self._report(entry, "DeprecatedKey", message, suggestion=successor, severity="warning")

    def _repeated(self, entry: Entry, first: Entry) -> None:
        if first is not entry:
            is_near = (first.file, first.line) == (entry.file, entry.line)
            where = "is set twice in this line" if is_near else f"was already set at {first.file}:{first.line}"
            message = f"{entry.key} {where}; the last one counts"
            self._report(entry, "DuplicateKey", message, severity="warning", other=first)

    def _report(
        self,
        entry: Entry,
        code: str,
        message: str,
        *,
        suggestion: str | None = None,
        severity: Severity = "error",
        other: Entry | None = None,
    ) -> None:
        self.found.append(finding_at(entry, code, message, suggestion=suggestion, severity=severity, other=other))


def _lookalike(pair: Entry, complaint: Complaint | None) -> Complaint | None:
    """A character that only looks like ASCII is the reason of whatever else is wrong with a value."""
    odd = None if pair.value.isascii() else conf_ascii.lookalike(pair.value)
    if odd is None:
        return complaint
    severity = "error" if odd.harms else complaint.severity if complaint else "warning"
    message = f"{odd.describe(pair.value_column)}, and Slurm takes it literally"
    return Complaint(message, odd.advice(), severity=severity, code="NotAscii")


class _Names:
    """Lints what the lines of a slurm.conf say of each other: nodes, node sets and partitions."""

    def __init__(self, document: Document, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes: dict[str, Entry] = {}
        self.nodesets: dict[str, Entry] = {}
        self.budget = 10 * MAX_NAMES
        self.unknown_in: dict[str, list[str]] = {}
        self.by_kind: dict[str, list[Entry]] = {"nodename": [], "nodeset": [], "partitionname": []}
        self.max_node_count: Entry | None = None
        self.is_whole = False
        for entry in document.entries:
            self._sort_in(entry, entry.key.lower())

    def _sort_in(self, entry: Entry, folded: str) -> None:
        if folded in self.by_kind:
            self.by_kind[folded].append(entry)
        elif folded == "maxnodecount":
            self.max_node_count = entry
        elif folded == "clustername":
            self.is_whole = True

    def findings(self) -> Iterator[Finding]:
        for entry in self.by_kind["nodename"]:
            yield from self._node(entry)
        for entry in self.by_kind["nodeset"]:
            yield from self._nodeset(entry)
        yield from self._partitions()
        yield from self._node_count()

    def _node(self, entry: Entry) -> Iterator[Finding]:
        if entry.value.upper() == "DEFAULT":
            return
        if entry.value.upper() == "ALL":
            yield finding_at(entry, "ReservedName", "ALL is a reserved word and cannot name a node")
        for name in self._expand(entry.value):
            if name in self.nodes:
                first = self.nodes[name]
                message = f"node {name} is already defined at {first.file}:{first.line}"
                yield finding_at(entry, "DuplicateNode", message, other=first)
                return
            self.nodes[name] = entry

    def _nodeset(self, entry: Entry) -> Iterator[Finding]:
        first = self.nodesets.setdefault(entry.value, entry)
        if first is not entry:
            message = f"NodeSet {entry.value} is already defined at {first.file}:{first.line}"
            yield finding_at(entry, "DuplicateNodeSet", message, other=first)
        if entry.value in self.nodes:
            yield finding_at(entry, "NodeSetIsNode", f"{entry.value} is already the name of a node")
        if not any(pair.value for pair in entry.attributes):
            message = f"NodeSet {entry.value} has neither Feature nor Nodes, so it holds no node"
            yield finding_at(entry, "EmptyNodeSet", message)

    def _partitions(self) -> Iterator[Finding]:
        names: dict[str, Entry] = {}
        default: Entry | None = None
        nodes_by_default = False
        for entry in self.by_kind["partitionname"]:
            nodes = entry.attribute("Nodes")
            if entry.value.upper() == "DEFAULT":
                nodes_by_default = nodes_by_default or nodes is not None
                continue
            first = names.setdefault(entry.value, entry)
            if first is not entry:
                message = f"partition {entry.value} is already defined at {first.file}:{first.line}"
                yield finding_at(entry, "DuplicatePartition", message, other=first)
            marked = entry.attribute("Default")
            if marked and is_yes(marked.value):
                if default and default.value != entry.value:
                    where = f"{default.file}:{default.line}"
                    message = (
                        f"partition {default.value} is already the default, set at {where}; Slurm takes the last one"
                    )
                    yield finding_at(marked, "SecondDefault", message, other=default)
                default = entry
            yield from self._partition_nodes(entry, nodes, nodes_by_default)

    def _partition_nodes(self, entry: Entry, nodes: Entry | None, by_default: bool) -> Iterator[Finding]:
        if nodes is None:
            if not by_default:
                yield finding_at(entry, "NoNodes", f"partition {entry.value} names no nodes", severity="warning")
        elif not nodes.value.strip(", "):
            yield finding_at(nodes, "EmptyNodes", f"Nodes of partition {entry.value} is empty")
        elif unknown := self._unknown(nodes.value):
            message = f"partition {entry.value} names {first_few(unknown)}, which is neither a node nor a NodeSet here"
            certain = self.cluster.nodes is not None or self.cluster.nodesets is not None
            yield finding_at(
                nodes,
                "UnknownNode",
                message,
                suggestion=closest(unknown[0][:64], self._few_names()),
                severity="error" if certain else "warning",
                at_value=True,
            )

    def _unknown(self, hosts: str) -> list[str]:
        """Names that nobody defined. Without knowledge from outside, only a whole slurm.conf can be judged."""
        nothing_known = self.cluster.nodes is None and self.cluster.nodesets is None and not self.is_whole
        if nothing_known or hosts.upper() == "ALL":
            return []
        if hosts not in self.unknown_in:
            self.unknown_in[hosts] = [name for name in self._expand(hosts) if not self._exists(name)]
        return self.unknown_in[hosts]

    def _exists(self, name: str) -> bool:
        return (
            name in self.nodes
            or name in self.nodesets
            or "{" in name  # a function of Slurm's: feature{...}, switch{...}
            or name in (self.cluster.nodes or ())
            or name in (self.cluster.nodesets or ())
        )

    def _few_names(self) -> list[str]:
        names = [*self.nodesets, *(self.cluster.nodesets or ()), *self.nodes, *(self.cluster.nodes or ())]
        return names[:200]

    def _expand(self, hosts: str) -> list[str]:
        """Names of a list; none for a malformed one (its value was judged) or once the budget is spent."""
        if "[" not in hosts and "," not in hosts:
            return [hosts]
        try:
            self.budget -= count(hosts)
            return expand(hosts) if self.budget >= 0 else []
        except HostListError:
            return []

    def _node_count(self) -> Iterator[Finding]:
        live = self.cluster.live_node_count
        if live is None:
            return
        room = None if self.max_node_count is None else to_int(self.max_node_count.value)
        if self.max_node_count and room is not None and max(room, len(self.nodes)) < live:
            message = f"MaxNodeCount={room} is below the {live} nodes that exist: Slurm would forget some of them"
            yield finding_at(self.max_node_count, "MaxNodeCountTooLow", message, at_value=True)


def _plugstack(text: str, file: str) -> Iterator[Finding]:
    """`required|optional plugin [arguments]` and `include glob`."""
    yield from unsafe_characters(text, file)
    for number, raw in enumerate(text.split("\n"), 1):
        fields = raw.partition("#")[0].split()
        if not fields:
            continue
        keyword = fields[0].lower()
        place = Entry(fields[0], "", file, number, raw.index(fields[0]) + 1, 0)
        if keyword not in {"required", "optional", "include"}:
            guess = closest(keyword[:64], ("required", "optional", "include"))
            message = f"a line starts with required, optional or include, not with {fields[0][:64]}"
            yield finding_at(place, "UnknownKeyword", message, suggestion=guess)
        elif len(fields) == 1:
            yield finding_at(place, "EmptyValue", f"{keyword} names no {'file' if keyword == 'include' else 'plugin'}")
