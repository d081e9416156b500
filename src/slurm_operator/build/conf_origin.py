"""Where each line of a cluster's configuration was written: the resource, the field and the line that the user knows.

In: a Controller, `Refs`, its slurm.conf and the files as they are published or tried. Out: an `Origin` for a line of a
file. slurm.conf is assembled from the operator's own lines, NodeSets, Partitions and extraConf, so nobody wrote
`slurm.conf:42` as such. Called by `plan/lint.py` and `cli/check.py`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from slurm_operator.api.controller import Controller
from slurm_operator.api.problem import Path, format_path
from slurm_operator.build.controller import extra_names
from slurm_operator.build.partition import Acceptance, field_of_option
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import EXTRA_HEADER, FILE, SlurmConf, extra_conf
from slurm_operator.slurm import conf
from slurm_operator.slurm.conf import Finding

EXTRA_CONF: Path = ("spec", "extraConf")
# By key that the operator writes: the field of the Controller that it comes from.
FIELDS: Mapping[str, Path] = {
    "MetricsType": ("spec", "metrics", "enabled"),
    "ClusterName": ("spec", "clusterName"),
    "AccountingStorageType": ("spec", "accountingRef"),
    "AccountingStorageHost": ("spec", "accountingRef"),
    "AccountingStoragePort": ("spec", "accountingRef"),
    "AuthAltParameters": ("spec", "jwksKeyRef"),
    "Prolog": ("spec", "prologScriptRefs"),
    "Epilog": ("spec", "epilogScriptRefs"),
    "PrologSlurmctld": ("spec", "prologSlurmctldScriptRefs"),
    "EpilogSlurmctld": ("spec", "epilogSlurmctldScriptRefs"),
}
_OPTION = re.compile(r'([A-Za-z]+)=(?:"[^"]*"|\S*)')
# `Parse error in file /etc/slurm/slurm.conf line 42`, `slurm.conf:42`
_SLURM_PLACE = re.compile(r"(?:\bfile )?(?:[\w./-]*/)?([\w-]+\.(?:conf|yaml|lua))(?::| line |, line )(\d{1,7})\b")


@dataclass(frozen=True, slots=True)
class Origin:
    """A field of a resource, or a key of a ConfigMap, with the line in its text; 0 if it has no lines."""

    kind: str
    name: str
    path: Path
    line: int = 0

    def __str__(self) -> str:
        line = f" line {self.line}" if self.line else ""
        if self.kind == "ConfigMap":
            return f"ConfigMap {self.name} key {self.path[-1]}{line}"
        return f"{self.kind} {self.name} {format_path(self.path)}{line}"


class Origins:
    """Finds the origin of a line in the files of one cluster."""

    def __init__(self, cr: Controller, refs: Refs, built: SlurmConf, files: Mapping[str, str]) -> None:
        self.cr = cr
        self.files = files
        self.partitions = {each.partition: each for each in built.partitions}
        self.options = {each.name: each.spec.config or "" for each in refs.partitions_of(cr)}
        self.nodesets = {each.slurm_name: each.name for each in refs.nodesets_of(cr)}
        self.extra = extra_conf(cr.spec.extra_conf)
        # If two ConfigMaps have the same file, the later one counts, as when the files are published.
        self.maps = {file: name for name in extra_names(cr) for file in refs.config_maps.get(name, {}) if file != FILE}
        self.document = conf.parse(self.extra)
        self._lines: dict[int, Origin] | None = None

    def of(self, file: str, line: int, column: int = 0) -> Origin | None:
        """The origin of a line; None for a file that the operator itself writes."""
        if file == FILE:
            found = self._slurm_conf().get(line)
            return self._field(found, line, column) if found else Origin("Controller", self.cr.name, ("spec",))
        name = self.maps.get(file)
        return Origin("ConfigMap", name, ("data", file), line) if name else None

    def placed(self, finding: Finding) -> Finding:
        """A finding with the places where its lines were written."""
        origin = self.of(finding.file, finding.line, finding.column)
        message, other = finding.message, finding.other
        if other is not None and (elsewhere := self.of(*other)):
            message = message.replace(f"{other[0]}:{other[1]}", str(elsewhere))
        return msgspec.structs.replace(finding, message=message, place=str(origin) if origin else "")

    def translated(self, text: str) -> str:
        """A message of Slurm, with the places where its lines were written."""
        return _SLURM_PLACE.sub(self._translated, text)

    def _translated(self, place: re.Match[str]) -> str:
        origin = self.of(place[1], int(place[2])) if place[1] in self.files else None
        return str(origin) if origin else place[0]

    def _field(self, origin: Origin, line: int, column: int) -> Origin:
        """The field of a Partition that the column of its line points at."""
        if origin.kind != "Partition" or not column:
            return origin
        text = self.files[FILE].split("\n")[line - 1]
        option = next((each for each in _OPTION.finditer(text) if each.start() < column <= each.end()), None)
        if option is None:
            return origin
        field = "config" if option[0] in self.options.get(origin.name, "") else field_of_option(option[1])
        return Origin(origin.kind, origin.name, ("spec", field))

    def _slurm_conf(self) -> dict[int, Origin]:
        if self._lines is None:
            self._lines = dict(self._read(self.files.get(FILE, "").split("\n")))
        return self._lines

    def _read(self, lines: list[str]) -> Iterator[tuple[int, Origin]]:
        """Each line that comes from a resource, with its origin."""
        theirs = self.extra.split("\n")
        first = lines.index(EXTRA_HEADER) + 1 if EXTRA_HEADER in lines else len(lines)
        position = 0
        for number, line in enumerate(lines, start=1):
            found = _next(theirs, line, position) if number > first else None
            if found is not None:
                position = found + 1
                yield number, self._extra(position)
            elif origin := self._own(line):
                yield number, origin

    def _extra(self, line: int) -> Origin:
        return Origin("Controller", self.cr.name, EXTRA_CONF, line)

    def _own(self, line: str) -> Origin | None:
        """The origin of a line that the operator wrote."""
        key, _, rest = line.partition("=")
        value = rest.partition(" ")[0]
        if key == "PartitionName":
            known = self.partitions.get(value)
            return _of_acceptance(known) if known else self._in_extra_conf(key, value)
        if key == "NodeSet":
            name = self.nodesets.get(value)
            return Origin("NodeSet", name, ("metadata", "name")) if name else self._in_extra_conf(key, value)
        # A list that is merged from the operator's value and theirs; a mistake in it must be in theirs.
        theirs = self._in_extra_conf(key)
        if theirs is not None:
            return theirs
        return Origin("Controller", self.cr.name, FIELDS[key]) if key in FIELDS else None

    def _in_extra_conf(self, key: str, value: str | None = None) -> Origin | None:
        entries = [each for each in self.document.all(key) if value in (None, each.value)]
        return self._extra(entries[-1].line) if entries else None


def _next(lines: list[str], line: str, position: int) -> int | None:
    """The index of a line from `position` on; further on if lines in between were left out."""
    if position < len(lines) and lines[position] == line:
        return position
    return lines.index(line, position) if line in lines[position:] else None


def _of_acceptance(found: Acceptance) -> Origin:
    path: Path = ("spec", "partition", "config") if found.kind == "NodeSet" else ("spec",)
    return Origin(found.kind, found.resource, path)
