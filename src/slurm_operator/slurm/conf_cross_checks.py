"""Checks across lines and files of a configuration: each is valid by itself, and Slurm refuses the combination.

In: the parsed documents of slurm.conf, cgroup.conf, gres.conf and so on, as the operator publishes them, and the
version. Out: findings, each at the line that has to change. Most of these mistakes stop slurmd alone: slurmctld accepts
the file, and the next worker to start fails. Called by `conf_lint`; the errors were seen with 24.11 and 26.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from slurm_operator.slurm import conf_programs
from slurm_operator.slurm.conf import Document, Entry, Finding, Severity, shorten
from slurm_operator.slurm.conf_values import Version, closest, is_yes, to_int
from slurm_operator.slurm.hostlist import HostListError, count

_CGROUP_USERS: Final = (
    ("TaskPlugin", "task/cgroup"),
    ("ProctrackType", "proctrack/cgroup"),
    ("JobAcctGatherType", "jobacct_gather/cgroup"),
)
_CONSTRAINTS: Final = ("ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace", "ConstrainSwapSpace")
_ENV_FLAGS: Final = frozenset({"nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env"})
# By plugin: the files, one of which it needs, and how bad it is without: an error if a daemon or command stops.
_NEEDED: Final[tuple[tuple[str, str, tuple[str, ...], Severity], ...]] = (
    ("JobSubmitPlugins", "job_submit/lua", ("job_submit.lua",), "error"),
    ("CliFilterPlugins", "cli_filter/lua", ("cli_filter.lua",), "error"),
    ("JobContainerType", "job_container/tmpfs", ("job_container.conf",), "error"),
    ("NamespaceType", "namespace/tmpfs", ("job_container.conf",), "error"),
    ("NamespaceType", "namespace/linux", ("namespace.yaml",), "error"),
    ("NodeFeaturesPlugins", "node_features/helpers", ("helpers.conf",), "error"),
    ("AcctGatherProfileType", "acct_gather_profile/hdf5", ("acct_gather.conf",), "error"),
    ("AcctGatherProfileType", "acct_gather_profile/influxdb", ("acct_gather.conf",), "error"),
    ("TopologyPlugin", "topology/tree", ("topology.conf", "topology.yaml"), "error"),
    ("TopologyPlugin", "topology/block", ("topology.conf", "topology.yaml"), "error"),
    ("BurstBufferType", "burst_buffer/lua", ("burst_buffer.lua",), "warning"),
    ("JobCompType", "jobcomp/lua", ("jobcomp.lua",), "warning"),
)
# By file: the plugins that read it, if only plugins do.
_READERS: Final = {
    "job_submit.lua": (("JobSubmitPlugins", "job_submit/lua"),),
    "cli_filter.lua": (("CliFilterPlugins", "cli_filter/lua"),),
    "job_container.conf": (("JobContainerType", "job_container/tmpfs"), ("NamespaceType", "namespace/tmpfs")),
    "namespace.yaml": (("NamespaceType", "namespace/linux"),),
    "helpers.conf": (("NodeFeaturesPlugins", "node_features/helpers"),),
    "topology.conf": (
        ("TopologyPlugin", "topology/tree"),
        ("TopologyPlugin", "topology/block"),
        ("TopologyPlugin", "topology/3d_torus"),
    ),
}
TOPOLOGY_YAML: Final[Version] = (25, 5)
# Bounds, since a file may name any number of gres: how many unknown ones are reported, and how many known ones are
# searched for a similar name.
MAX_UNKNOWN_GRES: Final = 50
MAX_COMPARED_GRES: Final = 100


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """The files of one cluster: documents by base name, all names, and the last entry of each key of slurm.conf."""

    documents: Mapping[str, Document]
    names: frozenset[str]
    version: Version | None
    last: Mapping[str, Entry]

    @classmethod
    def of(cls, documents: Mapping[str, Document], names: Iterable[str], version: Version | None) -> ConfigFiles:
        """The files with their index."""
        slurm = documents.get("slurm.conf")
        last = {entry.key.lower(): entry for entry in slurm.entries} if slurm else {}
        return cls(documents, frozenset(names), version, last)

    @property
    def is_complete(self) -> bool:
        """Whether there is a complete slurm.conf, not only some of its lines."""
        return "clustername" in self.last

    def get(self, key: str) -> Entry | None:
        """The entry of slurm.conf that Slurm goes by: the last one."""
        return self.last.get(key.lower())

    def uses(self, key: str, plugin: str) -> Entry | None:
        """The entry that names a plugin, such as task/cgroup or just cgroup."""
        entry, family = self.get(key), plugin.partition("/")[0]
        asked = entry.value.split(",") if entry else ()
        found = any(each.strip() in (plugin, plugin.removeprefix(f"{family}/")) for each in asked)
        return entry if found else None


def findings(files: ConfigFiles, *, complete: bool) -> Iterator[Finding]:
    """What is wrong between lines; and between files, if these are all files that the daemons will find."""
    slurm = files.documents.get("slurm.conf")
    for entry in slurm.all("PowerAction") if slurm else ():
        if entry.attribute("Location") is None:
            message = f"PowerAction {entry.value} needs Location=slurmctld or Location=slurmd"
            yield finding(entry, "MissingKey", message)
    if slurm is None or files.is_complete:
        yield from _gres_records(files)
    if not files.is_complete:
        return
    yield from _numbers(files)
    yield from _preemption(files.last)
    yield from _prolog_flags(files)
    yield from _gres_types(files)
    if complete:
        yield from _cgroups(files)
        yield from _missing_files(files)
        yield from conf_programs.findings(files.documents["slurm.conf"], files.names)
        yield from _unused_files(files)


def _numbers(files: ConfigFiles) -> Iterator[Finding]:
    last = files.last
    first_id, max_id = (to_int(last[key].value) if key in last else None for key in ("firstjobid", "maxjobid"))
    if first_id is not None and max_id is not None and first_id > max_id:
        yield finding(last["firstjobid"], "Contradiction", "FirstJobId is above MaxJobId")
    level = last.get("slurmschedloglevel")
    if level and to_int(level.value) and "slurmschedlogfile" not in last:
        yield finding(level, "Contradiction", "SlurmSchedLogLevel needs SlurmSchedLogFile")
    if "mcsparameters" in last and "mcsplugin" not in last:
        yield finding(last["mcsparameters"], "Contradiction", "MCSParameters needs MCSPlugin")
    gather = last.get("jobacctgatherparams")
    asked = gather.value.lower() if gather else ""
    if gather and "usepss" in asked and "noshare" in asked:
        yield finding(gather, "Contradiction", "UsePss and NoShared exclude each other")
    user = last.get("slurmduser")
    if user and user.value not in ("root", "0"):
        message = f"slurmd runs as root in a worker, and does not start with SlurmdUser={user.value}"
        yield finding(user, "Contradiction", message, suggestion="root")


def _preemption(last: Mapping[str, Entry]) -> Iterator[Finding]:
    plugin, mode = last.get("preempttype"), last.get("preemptmode")
    modes = set(mode.value.lower().split(",")) if mode else set()
    preempts = bool(modes - {"", "off", "gang", "within", "priority"})
    has_plugin = plugin is not None and not plugin.value.endswith("none")
    if mode and preempts and not has_plugin:
        yield finding(mode, "Contradiction", f"PreemptMode={mode.value} needs PreemptType")
    if plugin and has_plugin and not preempts:
        message = f"PreemptType={plugin.value} needs PreemptMode=CANCEL, REQUEUE or SUSPEND,GANG"
        yield finding(plugin, "Contradiction", message)
    if mode and "suspend" in modes and "gang" not in modes:
        yield finding(mode, "Contradiction", "PreemptMode=SUSPEND needs GANG too", suggestion="SUSPEND,GANG")


def _prolog_flags(files: ConfigFiles) -> Iterator[Finding]:
    flags = files.get("PrologFlags")
    asked = {each.strip().lower() for each in flags.value.split(",")} if flags else set()
    contains = bool(asked & {"contain", "x11", "runinjob"})
    for key, plugin in (("JobContainerType", "job_container/tmpfs"), ("NamespaceType", "namespace/tmpfs")):
        entry = files.uses(key, plugin)
        if entry and not contains:
            yield finding(entry, "Contradiction", f"{plugin} needs PrologFlags=Contain; add that line")
    if flags and "nohold" in asked and contains:
        yield finding(flags, "Contradiction", "PrologFlags=NoHold cannot be combined with Contain or X11")
    if flags and "x11" in asked and files.uses("ProctrackType", "proctrack/linuxproc"):
        yield finding(flags, "Contradiction", "PrologFlags=X11 cannot be combined with proctrack/linuxproc")


def _cgroups(files: ConfigFiles) -> Iterator[Finding]:
    cgroup = files.documents.get("cgroup.conf")
    if cgroup is None:
        return
    plugin = next(iter([*cgroup.all("CgroupPlugin")][-1:]), None)
    is_off = plugin is not None and plugin.value == "disabled"
    if plugin is not None and is_off:
        yield from _without_cgroups(files, plugin)
    by_task = files.uses("TaskPlugin", "task/cgroup")
    wanted = [each for key in _CONSTRAINTS for each in cgroup.all(key) if is_yes(each.value)]
    if wanted and not by_task:
        message = f"{wanted[0].key} has no effect without TaskPlugin=task/cgroup in slurm.conf"
        yield finding(wanted[0], "NoEffect", message, severity="warning")
    killer = files.get("JobAcctGatherParams")
    memory = [each for each in wanted if each.key.lower() == "constrainramspace"]
    if killer and memory and by_task and "overmemorykill" in killer.value.lower().split(","):
        where = f"{memory[0].file}:{memory[0].line}"
        message = f"OverMemoryKill and ConstrainRAMSpace=yes, set at {where}, exclude each other"
        yield finding(killer, "Contradiction", message, other=memory[0])


def _without_cgroups(files: ConfigFiles, disabled: Entry) -> Iterator[Finding]:
    """Plugins that need cgroups where there are none; the default of ProctrackType is one of them."""
    where = f"{disabled.file}:{disabled.line}"
    for key, plugin in _CGROUP_USERS:
        entry = files.uses(key, plugin)
        if entry is not None:
            message = f"{plugin} needs cgroups, and CgroupPlugin=disabled is set at {where}: slurmd does not start"
            yield finding(entry, "Contradiction", message, other=disabled)
    if files.get("ProctrackType") is None:
        message = (
            "CgroupPlugin=disabled needs a ProctrackType in slurm.conf: its default, proctrack/cgroup, needs cgroups"
        )
        yield finding(disabled, "Contradiction", message, suggestion="ProctrackType=proctrack/linuxproc")


def _gres_types(files: ConfigFiles) -> Iterator[Finding]:
    types = files.get("GresTypes")
    known = _gres_names(files)
    for name in ("mps", "shard"):
        if types and name in known and "gpu" not in known:
            yield finding(types, "Contradiction", f"GresTypes={name} needs gpu too", suggestion=f"gpu,{name}")
    # Nobody reads a thousand findings.
    for entry, name in islice(_unknown_gres_names(files, known), MAX_UNKNOWN_GRES):
        yield _unknown_gres(entry, name, types, known)


def _unknown_gres_names(files: ConfigFiles, known: frozenset[str]) -> Iterator[tuple[Entry, str]]:
    """Gres that nodes or gres.conf name and GresTypes does not."""
    seen = {"", "none", "(null)", *known}
    for entry in _asked_gres(files):
        for name in (asked.partition(":")[0].strip() for asked in entry.value.split(",")):
            # A thousand nodes may lack the same type: one finding is enough.
            if name.lower() not in seen:
                seen.add(name.lower())
                yield entry, name
    for record in _records(files.documents.get("gres.conf")) if files.get("GresTypes") else ():
        named = _attribute(record, "Name")
        if named and named.value not in known:
            yield named, named.value


def _asked_gres(files: ConfigFiles) -> Iterator[Entry]:
    for record in files.documents["slurm.conf"].all("NodeName"):
        gres = record.attribute("Gres")
        if gres is not None:
            yield gres


def _unknown_gres(entry: Entry, name: str, types: Entry | None, known: frozenset[str]) -> Finding:
    where = f"GresTypes, set at {types.file}:{types.line}" if types else "GresTypes, which slurm.conf does not set"
    message = f"{name[:64]!r} is not among {where}, so Slurm ignores it"
    guess = closest(name[:64], known) if len(known) <= MAX_COMPARED_GRES else None
    return finding(entry, "NoEffect", message, severity="warning", suggestion=guess, other=types)


def _gres_names(files: ConfigFiles) -> frozenset[str]:
    types = files.get("GresTypes")
    return frozenset(each.strip() for each in types.value.split(",") if each.strip()) if types else frozenset()


def _records(gres: Document | None) -> list[Entry]:
    return [*gres.all("Name"), *gres.all("NodeName")] if gres else []


def _attribute(record: Entry, key: str) -> Entry | None:
    return record if record.key.lower() == key.lower() else record.attribute(key)


def _gres_records(files: ConfigFiles) -> Iterator[Finding]:
    """Records of gres.conf that stop slurmd; it reads them only when slurm.conf names a type."""
    known = _gres_names(files)
    if files.is_complete and not known:
        return
    first: dict[tuple[str, str], Entry] = {}
    for record in _records(files.documents.get("gres.conf")):
        yield from _gres_record(record)
        name, nodes = _attribute(record, "Name"), record.value if record.key.lower() == "nodename" else ""
        if name is None or (files.is_complete and name.value not in known):
            continue
        before = first.setdefault((name.value, nodes), record)
        if before is not record:
            yield from _two_records(before, record, name.value)


def _gres_record(record: Entry) -> Iterator[Finding]:
    file = _attribute(record, "File") or _attribute(record, "Files")
    several, number = _attribute(record, "MultipleFiles"), _attribute(record, "Count")
    name = _attribute(record, "Name")
    if file and several:
        yield finding(several, "Contradiction", "File and MultipleFiles exclude each other")
    count_of_file, many = _file_count(file), _file_count(several)
    if several and many == 1:
        yield finding(several, "Contradiction", "MultipleFiles names one file; use File", suggestion="File")
    wanted = to_int(number.value) if number else None
    shares = name is not None and name.value in ("mps", "shard")
    if number and wanted is not None and count_of_file is not None and wanted != count_of_file and not shares:
        message = f"Count={number.value} does not match File, which names {count_of_file}"
        yield finding(number, "Contradiction", message, suggestion=f"Count={count_of_file}")
    flags = _attribute(record, "Flags")
    asked = {each.strip().lower() for each in flags.value.split(",")} if flags else set()
    if flags and "no_gpu_env" in asked and asked & _ENV_FLAGS:
        yield finding(flags, "Contradiction", "no_gpu_env and the other *_env flags exclude each other")


def _file_count(entry: Entry | None) -> int | None:
    try:
        return count(entry.value) if entry else None
    except HostListError:
        return None


def _two_records(first: Entry, record: Entry, name: str) -> Iterator[Finding]:
    """Two records of the same gres on the same nodes must both have a File or neither, and both a Type or neither."""
    at = f"the record at {first.file}:{first.line}"
    has_file = [bool(_attribute(each, "File") or _attribute(each, "MultipleFiles")) for each in (first, record)]
    has_type = [_attribute(each, "Type") is not None for each in (first, record)]
    if has_file[0] != has_file[1]:
        message = f"either all records of {name} have a File or none has: see {at}"
    elif has_type[0] != has_type[1]:
        message = f"either all records of {name} have a Type or none has: see {at}"
    elif not has_file[0] and not has_type[0]:
        message = f"{name} already has a record without File or Type: see {at}"
    else:
        return
    yield finding(record, "Contradiction", message, other=first)


def _missing_files(files: ConfigFiles) -> Iterator[Finding]:
    elsewhere = files.get("CliFilterParameters")
    for key, plugin, needed, severity in _NEEDED:
        entry = files.uses(key, plugin)
        if entry is None or files.names.intersection(needed):
            continue
        if plugin == "cli_filter/lua" and elsewhere and "cli_filter_lua_path" in elsewhere.value.lower():
            continue
        message = f"{plugin} needs {' or '.join(needed)}, which is missing; add it to a ConfigMap in configFileRefs"
        yield finding(entry, "MissingFile", message, severity=severity)


def _unused_files(files: ConfigFiles) -> Iterator[Finding]:
    for file, readers in _READERS.items():
        if file in files.names and not any(files.uses(key, plugin) for key, plugin in readers):
            asked = " or ".join(f"{key}={plugin}" for key, plugin in readers[:2])
            yield _at(file, "UnusedFile", f"Slurm reads this file only with {asked}", severity="warning")
    if "gres.conf" in files.names and not files.get("GresTypes"):
        yield _at(
            "gres.conf",
            "UnusedFile",
            "Slurm reads this file only with GresTypes, such as GresTypes=gpu",
            severity="warning",
        )
    if "topology.yaml" in files.names and files.version and files.version < TOPOLOGY_YAML:
        yield _at(
            "topology.yaml",
            "UnusedFile",
            "Slurm reads this file from 25.05 on, and topology.conf before that",
            severity="warning",
        )


def _at(file: str, code: str, message: str, severity: Severity = "warning") -> Finding:
    """A finding about a file as a whole."""
    return Finding(file=file, line=1, column=1, severity=severity, code=code, message=message)


def finding(
    entry: Entry,
    code: str,
    message: str,
    *,
    suggestion: str | None = None,
    severity: Severity = "error",
    at_value: bool = False,
    other: Entry | None = None,
) -> Finding:
    """A finding at an entry, or at its value; `other` is another entry whose place the message mentions."""
    return Finding(
        file=entry.file,
        line=entry.line,
        column=entry.value_column if at_value else entry.column,
        severity=severity,
        code=code,
        message=shorten(message),
        suggestion=suggestion,
        other=(other.file, other.line) if other else None,
    )
