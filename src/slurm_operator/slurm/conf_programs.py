"""Programs that slurm.conf names below /etc/slurm, where the operator alone decides which files there are.

In: the files of a configuration. Out: findings on programs that their daemon would not find: slurmctld accepts the
file, and the first job fails or drains its node. A path elsewhere is a matter of the image, of which nothing is known
here. Called by `conf_cross_checks`. Seen with 26.05: `prolog: Unable to create list of paths [/etc/slurm/nothere.sh]`.

/etc/slurm of a slurmctld pod holds the files of all ConfigMaps. That of a worker or login pod holds the key alone:
slurmd fetches its configuration into a folder of its own, with the programs of Prolog and Epilog that are written
without a folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from typing import Final

from slurm_operator.slurm.conf import Document, Entry, Finding, Severity, shorten

FOLDER: Final = "/etc/slurm/"
# By key: the field of a Controller that takes its ConfigMaps.
_SENT: Final = {"prolog": "prologScriptRefs", "epilog": "epilogScriptRefs"}
_OF_SLURMD: Final = frozenset(
    {"healthcheckprogram", "rebootprogram", "taskepilog", "taskprolog", "unkillablestepprogram", *_SENT}
)
_OF_SRUN: Final = frozenset({"srunepilog", "srunprolog"})
_OF_SLURMCTLD: Final = {
    "epilogslurmctld": "epilogSlurmctldScriptRefs",
    "jobcomppassscript": "configFileRefs",
    "mailprog": "configFileRefs",
    "prologslurmctld": "prologSlurmctldScriptRefs",
    "resumefailprogram": "configFileRefs",
    "resumeprogram": "configFileRefs",
    "resvepilog": "configFileRefs",
    "resvprolog": "configFileRefs",
    "slurmctldprimaryoffprog": "configFileRefs",
    "slurmctldprimaryonprog": "configFileRefs",
    "suspendprogram": "configFileRefs",
}


def findings(slurm: Document, names: Collection[str]) -> Iterator[Finding]:
    """Every program that is not where its key says; `names` are the files of the configuration."""
    for entry in slurm.entries:
        key, path = entry.key.lower(), (entry.value.split() or [""])[0]
        if key in _SENT and path and "/" not in path:
            yield from _sent(entry, path, names)
        elif not path.startswith(FOLDER):
            continue
        elif key in _OF_SLURMCTLD:
            yield from _of_slurmctld(entry, path, names)
        elif key in _OF_SLURMD:
            yield from _of_slurmd(entry, path, names)
        elif key in _OF_SRUN:
            message = f"login pods and workers have no {path}: put it into their images, or mount it there"
            yield _finding(entry, "MissingProgram", message, severity="warning")


def _sent(entry: Entry, name: str, names: Collection[str]) -> Iterator[Finding]:
    """A program without a folder, which slurmctld sends to workers."""
    if not _is_among(name, names):
        field = _SENT[entry.key.lower()]
        yield _finding(
            entry,
            "MissingProgram",
            f"no ConfigMap of the Controller holds {name}; add it to one in {field} or configFileRefs",
        )


def _of_slurmctld(entry: Entry, path: str, names: Collection[str]) -> Iterator[Finding]:
    name = path.removeprefix(FOLDER)
    if not _is_among(name, names):
        field = _OF_SLURMCTLD[entry.key.lower()]
        yield _finding(
            entry, "MissingProgram", f"no ConfigMap of the Controller holds {name}; add it to one in {field}"
        )


def _of_slurmd(entry: Entry, path: str, names: Collection[str]) -> Iterator[Finding]:
    name, field = path.removeprefix(FOLDER), _SENT.get(entry.key.lower())
    if field is None:
        yield _finding(
            entry, "MissingProgram", f"workers have no {path}: put it into the image of slurmd, or mount it there"
        )
    elif _is_among(name, names):
        message = f"workers have no {path}, but slurmctld sends them {name} if it is named without a folder"
        yield _finding(entry, "MissingProgram", message, suggestion=f"{entry.key}={name}")
    else:
        yield _finding(
            entry,
            "MissingProgram",
            f"workers have no {path}; add {name} to a ConfigMap in {field}, and leave this line out",
        )


def _is_among(name: str, names: Collection[str]) -> bool:
    """Whether a file is there; Slurm lets a name be a pattern."""
    return any(fnmatchcase(each, name) for each in names) if set(name) & set("*?[") else name in names


def _finding(
    entry: Entry, code: str, message: str, *, severity: Severity = "error", suggestion: str | None = None
) -> Finding:
    return Finding(
        file=entry.file,
        line=entry.line,
        column=entry.value_column,
        severity=severity,
        code=code,
        message=shorten(f"{entry.key}: {message}"),
        suggestion=suggestion,
    )
