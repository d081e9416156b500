"""What slurmd reads of a configuration when it starts, apart from what only slurmctld or a client reads.

In: the files of a configuration. Out: `part_of_slurmd`, a value that is equal for two configurations exactly if no
slurmd can tell them apart. Called by `plan/worker_trial.py`. Accepts any text, and never raises.

slurmd parses every line of slurm.conf, as slurmctld does; if both have the same version, slurmctld's own trial has
checked the form of each line, and only what slurmd acts on counts. The lists name what slurmd does not act on: a key
that is missing there costs a trial too many, never one too few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurm_operator.slurm import conf
from slurm_operator.slurm.conf import Entry

FILE = "slurm.conf"

# Keys of slurm.conf, in lower case, that slurmctld or clients alone act on; and how such keys begin.
# fmt: off
_KEYS = frozenset({
    "batchstarttimeout", "completewait", "controlmachine", "dependencyparameters", "downnodes", "enforcepartlimits",
    "epilogslurmctld", "fairsharedampeningfactor", "federationparameters", "firstjobid", "inactivelimit",
    "jobcompparams", "jobrequeue", "jobsubmitplugins", "licenses", "maildomain", "mailprog", "maxarraysize",
    "maxbatchrequeue", "maxjobcount", "maxjobid", "maxnodecount", "maxstepcount", "minjobage", "nodeset",
    "overtimelimit", "partitionname", "privatedata", "prologslurmctld", "reconfigflags", "requeueexit",
    "requeueexithold", "resvepilog", "resvoverrun", "resvprolog", "returntoservice", "statesavelocation",
    "waittime",
})
# fmt: on
_PREFIXES = (
    "accountingstorage",
    "burstbuffer",
    # The trial leaves it out: it is a program of the user's, which would run at once.
    "healthcheck",
    "jobcomp",
    "metrics",
    "preempt",
    "priority",
    "resume",
    "scheduler",
    "slurmctld",
    "slurmsched",
    "suspend",
)
# Files that slurmd does not read when it starts, by name and by ending; and how a script begins.
_FILES = frozenset({"burst_buffer.conf", "jwks.json", "resources.yaml", "slurmdbd.conf"})
_ENDINGS = (".lua", ".sh", ".py", ".pl")
_SCRIPT = "#!"

Part = tuple[tuple[str, ...], ...]


def part_of_slurmd(files: Mapping[str, str], *, is_one_version: bool) -> Part:
    """What slurmd acts on; also the names of all keys where another version may know fewer of them."""
    document = conf.parse(files.get(FILE, ""), includes=files)
    kept = tuple(_written(entry) for entry in document.entries if not _is_others(entry.key))
    known = () if is_one_version else ((f"{FILE} keys", *sorted(set(_keys(document.entries)))),)
    # What slurm.conf includes was read in its place.
    included = {entry.file for entry in document.entries}
    others = sorted(name for name in files.keys() - included if _is_read(name, files[name]))
    return (*kept, *known, *(_read(name, files[name]) for name in others))


def _is_others(key: str) -> bool:
    written = key.lower()
    return written in _KEYS or written.startswith(_PREFIXES)


def _written(entry: Entry) -> tuple[str, ...]:
    pairs = (entry, *entry.attributes)
    return tuple(f"{pair.key.lower()}{pair.operator}={pair.value}" for pair in pairs)


def _keys(entries: tuple[Entry, ...]) -> Iterator[str]:
    for entry in entries:
        yield entry.key.lower()
        yield from (f"{entry.key} {pair.key}".lower() for pair in entry.attributes)


def _is_read(name: str, text: str) -> bool:
    return not (
        name == FILE or name in _FILES or name.startswith(".") or name.endswith(_ENDINGS) or text.startswith(_SCRIPT)
    )


def _read(name: str, text: str) -> tuple[str, ...]:
    """The lines that say something; a comment says nothing."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return (name, *(line for line in lines if line))
