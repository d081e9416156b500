"""What the lines and files of a configuration say of each other: what each is right with by itself, and Slurm refuses.

In: the documents of slurm.conf and its sisters, as the operator publishes them together, and the version. Out:
findings, each at the line that somebody would change. Most of it stops slurmd alone: slurmctld takes the file, and the
next worker that starts does not come up. Called by `conf_lint`; the errors were seen on daemons of 24.11 and 26.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from slurm_operator.slurm.conf import Document, Entry, Finding, Severity, shorten
from slurm_operator.slurm.conf_values import Version, closest, to_int
from slurm_operator.slurm.hostlist import HostListError, count

_CGROUP_USERS: Final = (
    ("TaskPlugin", "task/cgroup"),
    ("ProctrackType", "proctrack/cgroup"),
    ("JobAcctGatherType", "jobacct_gather/cgroup"),
)
_CONSTRAINTS: Final = ("ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace", "ConstrainSwapSpace")
_YES: Final = frozenset({"yes", "true", "up", "1"})
_ENV_FLAGS: Final = frozenset({"nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env"})
# By plugin: the files of which it needs one, and whether Slurm or its commands stop without.
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
# By file: who reads it, where that is one plugin.
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
# So many unknown types of gres are told, and with so many known ones each is compared: a file may name any number.
MAX_UNKNOWN_GRES: Final = 50
MAX_COMPARED_GRES: Final = 100


@dataclass(frozen=True, slots=True)
class Set:
    """The files of one cluster: documents by base name, all names, and the last entry of each key of slurm.conf."""

    documents: Mapping[str, Document]
    names: frozenset[str]
    version: Version | None
    last: Mapping[str, Entry]

    @classmethod
    def of(cls, documents: Mapping[str, Document], names: Iterable[str], version: Version | None) -> Set:
        """The set with its index."""
        slurm = documents.get("slurm.conf")
        last = {entry.key.lower(): entry for entry in slurm.entries} if slurm else {}
        return cls(documents, frozenset(names), version, last)

    @property
    def is_whole(self) -> bool:
        """Whether there is a whole slurm.conf, not only some of its lines."""
        return "clustername" in self.last

    def get(self, key: str) -> Entry | None:
        """The entry of slurm.conf that counts."""
        return self.last.get(key.lower())

    def uses(self, key: str, plugin: str) -> Entry | None:
        """The entry that asks for a plugin, by its whole name or without its family."""
        entry, family = self.get(key), plugin.partition("/")[0]
        asked = entry.value.split(",") if entry else ()
        found = any(each.strip() in (plugin, plugin.removeprefix(f"{family}/")) for each in asked)
        return entry if found else None


def findings(together: Set, *, complete: bool) -> Iterator[Finding]:
    """What is wrong between lines; and between files, where these are all that there are."""
    slurm = together.documents.get("slurm.conf")
    for entry in slurm.all("PowerAction") if slurm else ():
        if entry.attribute("Location") is None:
            message = f"PowerAction {entry.value} needs Location=slurmctld or Location=slurmd"
            yield finding(entry, "MissingKey", message)
    if slurm is None or together.is_whole:
        yield from _gres_records(together)
    if not together.is_whole:
        return
    yield from _numbers(together)
    yield from _preemption(together.last)
    yield from _prolog_flags(together)
    yield from _gres_types(together)
    if complete:
        yield from _cgroups(together)
        yield from _missing_files(together)
        yield from _unused_files(together)


def _numbers(together: Set) -> Iterator[Finding]:
    last = together.last
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


def _prolog_flags(together: Set) -> Iterator[Finding]:
    flags = together.get("PrologFlags")
    asked = {each.strip().lower() for each in flags.value.split(",")} if flags else set()
    contains = bool(asked & {"contain", "x11", "runinjob"})
    for key, plugin in (("JobContainerType", "job_container/tmpfs"), ("NamespaceType", "namespace/tmpfs")):
        entry = together.uses(key, plugin)
        if entry and not contains:
            yield finding(
                entry, "Contradiction", f"{plugin} needs PrologFlags=Contain", suggestion="PrologFlags=Contain"
            )
    if flags and "nohold" in asked and contains:
        yield finding(flags, "Contradiction", "PrologFlags=NoHold cannot stand beside Contain or X11")
    if flags and "x11" in asked and together.uses("ProctrackType", "proctrack/linuxproc"):
        yield finding(flags, "Contradiction", "PrologFlags=X11 cannot stand beside ProctrackType=proctrack/linuxproc")


def _cgroups(together: Set) -> Iterator[Finding]:
    cgroup = together.documents.get("cgroup.conf")
    if cgroup is None:
        return
    plugin = next(iter([*cgroup.all("CgroupPlugin")][-1:]), None)
    is_off = plugin is not None and plugin.value == "disabled"
    if plugin is not None and is_off:
        yield from _without_cgroups(together, plugin)
    by_task = together.uses("TaskPlugin", "task/cgroup")
    wanted = [each for key in _CONSTRAINTS for each in cgroup.all(key) if each.value.lower() in _YES]
    if wanted and not by_task:
        message = f"{wanted[0].key} has no effect without TaskPlugin=task/cgroup in slurm.conf"
        yield finding(wanted[0], "NoEffect", message, severity="warning")
    killer = together.get("JobAcctGatherParams")
    memory = [each for each in wanted if each.key.lower() == "constrainramspace"]
    if killer and memory and by_task and "overmemorykill" in killer.value.lower().split(","):
        where = f"{memory[0].file}:{memory[0].line}"
        message = f"OverMemoryKill and ConstrainRAMSpace=yes, set at {where}, exclude each other"
        yield finding(killer, "Contradiction", message, other=memory[0])


def _without_cgroups(together: Set, disabled: Entry) -> Iterator[Finding]:
    """Plugins that need cgroups where there are none; the default of ProctrackType is one of them."""
    where = f"{disabled.file}:{disabled.line}"
    for key, plugin in _CGROUP_USERS:
        entry = together.uses(key, plugin)
        if entry is not None:
            message = f"{plugin} needs cgroups, and CgroupPlugin=disabled is set at {where}: slurmd does not start"
            yield finding(entry, "Contradiction", message, other=disabled)
    if together.get("ProctrackType") is None:
        message = (
            "CgroupPlugin=disabled needs a ProctrackType in slurm.conf: its default, proctrack/cgroup, needs cgroups"
        )
        yield finding(disabled, "Contradiction", message, suggestion="ProctrackType=proctrack/linuxproc")


def _gres_types(together: Set) -> Iterator[Finding]:
    types = together.get("GresTypes")
    known = _gres_names(together)
    for name in ("mps", "shard"):
        if types and name in known and "gpu" not in known:
            yield finding(types, "Contradiction", f"GresTypes={name} needs gpu too", suggestion=f"gpu,{name}")
    # Whoever wrote a thousand of them has read enough by then.
    for entry, name in islice(_unknown_gres_names(together, known), MAX_UNKNOWN_GRES):
        yield _unknown_gres(entry, name, types, known)


def _unknown_gres_names(together: Set, known: frozenset[str]) -> Iterator[tuple[Entry, str]]:
    """What nodes and gres.conf name and GresTypes does not."""
    said = {"", "none", "(null)", *known}
    for entry in _asked_gres(together):
        for name in (asked.partition(":")[0].strip() for asked in entry.value.split(",")):
            # A thousand nodes may lack the same type: the first one tells.
            if name not in said:
                said.add(name)
                yield entry, name
    for record in _records(together.documents.get("gres.conf")) if together.get("GresTypes") else ():
        named = _attribute(record, "Name")
        if named and named.value not in known:
            yield named, named.value


def _asked_gres(together: Set) -> Iterator[Entry]:
    for record in together.documents["slurm.conf"].all("NodeName"):
        gres = record.attribute("Gres")
        if gres is not None:
            yield gres


def _unknown_gres(entry: Entry, name: str, types: Entry | None, known: frozenset[str]) -> Finding:
    where = f"GresTypes, set at {types.file}:{types.line}" if types else "GresTypes, which slurm.conf does not set"
    message = f"{name[:64]!r} is not among {where}, so Slurm ignores it"
    guess = closest(name[:64], known) if len(known) <= MAX_COMPARED_GRES else None
    return finding(entry, "NoEffect", message, severity="warning", suggestion=guess, other=types)


def _gres_names(together: Set) -> frozenset[str]:
    types = together.get("GresTypes")
    return frozenset(each.strip() for each in types.value.split(",") if each.strip()) if types else frozenset()


def _records(gres: Document | None) -> list[Entry]:
    return [*gres.all("Name"), *gres.all("NodeName")] if gres else []


def _attribute(record: Entry, key: str) -> Entry | None:
    return record if record.key.lower() == key.lower() else record.attribute(key)


def _gres_records(together: Set) -> Iterator[Finding]:
    """Records of gres.conf that stop slurmd; it reads them only when slurm.conf names a type."""
    known = _gres_names(together)
    if together.is_whole and not known:
        return
    first: dict[tuple[str, str], Entry] = {}
    for record in _records(together.documents.get("gres.conf")):
        yield from _gres_record(record)
        name, nodes = _attribute(record, "Name"), record.value if record.key.lower() == "nodename" else ""
        if name is None or (together.is_whole and name.value not in known):
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
    files, many = _file_count(file), _file_count(several)
    if several and many == 1:
        yield finding(several, "Contradiction", "MultipleFiles names one file; use File", suggestion="File")
    wanted = to_int(number.value) if number else None
    shares = name is not None and name.value in ("mps", "shard")
    if number and wanted is not None and files is not None and wanted != files and not shares:
        message = f"Count={number.value} does not match File, which names {files}"
        yield finding(number, "Contradiction", message, suggestion=f"Count={files}")
    flags = _attribute(record, "Flags")
    asked = {each.strip().lower() for each in flags.value.split(",")} if flags else set()
    if flags and "no_gpu_env" in asked and asked & _ENV_FLAGS:
        yield finding(flags, "Contradiction", "no_gpu_env excludes the other flags of the environment")


def _file_count(entry: Entry | None) -> int | None:
    try:
        return count(entry.value) if entry else None
    except HostListError:
        return None


def _two_records(first: Entry, record: Entry, name: str) -> Iterator[Finding]:
    """Two records of one name and of the same nodes: both with files or none, both with a type or none."""
    at = f"the record at {first.file}:{first.line}"
    has_file = [bool(_attribute(each, "File") or _attribute(each, "MultipleFiles")) for each in (first, record)]
    has_type = [_attribute(each, "Type") is not None for each in (first, record)]
    if has_file[0] != has_file[1]:
        message = f"of the records of {name}, some name a File and some do not: see {at}"
    elif has_type[0] != has_type[1]:
        message = f"of the records of {name}, some name a Type and some do not: see {at}"
    elif not has_file[0] and not has_type[0]:
        message = f"{name} has a record already, without File or Type: see {at}"
    else:
        return
    yield finding(record, "Contradiction", message, other=first)


def _missing_files(together: Set) -> Iterator[Finding]:
    elsewhere = together.get("CliFilterParameters")
    for key, plugin, files, severity in _NEEDED:
        entry = together.uses(key, plugin)
        if entry is None or together.names.intersection(files):
            continue
        if plugin == "cli_filter/lua" and elsewhere and "cli_filter_lua_path" in elsewhere.value.lower():
            continue
        message = f"{plugin} reads {' or '.join(files)}, which is not there; put it into a ConfigMap of configFileRefs"
        yield finding(entry, "MissingFile", message, severity=severity)


def _unused_files(together: Set) -> Iterator[Finding]:
    for file, readers in _READERS.items():
        if file in together.names and not any(together.uses(key, plugin) for key, plugin in readers):
            asked = " or ".join(f"{key}={plugin}" for key, plugin in readers[:2])
            yield _at(file, "UnusedFile", f"Slurm reads this file only with {asked}", severity="warning")
    if "gres.conf" in together.names and not together.get("GresTypes"):
        yield _at(
            "gres.conf",
            "UnusedFile",
            "Slurm reads this file only with GresTypes, such as GresTypes=gpu",
            severity="warning",
        )
    if "topology.yaml" in together.names and together.version and together.version < TOPOLOGY_YAML:
        yield _at(
            "topology.yaml",
            "UnusedFile",
            "Slurm reads this file from 25.05 on; before it is topology.conf",
            severity="warning",
        )


def _at(file: str, code: str, message: str, severity: Severity = "warning") -> Finding:
    """A finding on a whole file."""
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
    """A finding at an entry, or at its value; `other` is an entry whose place the message names."""
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
