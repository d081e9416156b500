"""Which limit of a QOS or association holds a job: its name, its value, and how much of it is in use.

In: what `sacctmgr` prints in columns, a job that waits, and the other jobs. Out: a cause. Pure; the questions
are asked by `cli/kubectl/gather.py`, the answer is used by `diagnose/waiting.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kube_runtime.text import printable
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, Limits, Slurm, SlurmJob
from slurm_operator.diagnose.reasons import Limit, limit_of
from slurm_operator.diagnose.wording import SAFE, code_of, in_shell, plain

GROUP_COLUMNS = ("GrpJobs", "GrpSubmit", "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "GrpWall")
QOS_COLUMNS = (
    "Name",
    *GROUP_COLUMNS,
    *("MaxJobsPU", "MaxJobsPA", "MaxSubmitPU", "MaxSubmitPA", "MaxWall", "MinTRES"),
    *("MaxTRES", "MaxTRESPN", "MaxTRESPU", "MaxTRESPA", "MaxTRESMins", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA"),
)
ASSOCIATION_COLUMNS = (
    *("Account", "User", "Partition", "ParentName"),
    *GROUP_COLUMNS,
    *("MaxJobs", "MaxSubmit", "MaxWall", "MaxTRES", "MaxTRESPN", "MaxTRESMins"),
)
QUESTIONS = {"qos": QOS_COLUMNS, "assoc": ASSOCIATION_COLUMNS}
USING = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "RESIZING"})


def arguments(what: str) -> tuple[str, ...]:
    """What to ask sacctmgr: one row on each line, columns between bars."""
    return "sacctmgr", "-n", "-P", "show", what, f"format={','.join(QUESTIONS[what])}"


def read(qos: bytes, associations: bytes) -> Limits:
    """Both answers as rows."""
    named = {row["Name"]: row for row in _rows(qos, QOS_COLUMNS)}
    return Limits(named, tuple(_rows(associations, ASSOCIATION_COLUMNS)))


def _rows(body: bytes, columns: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    for line in body.decode(errors="replace").splitlines():
        cells = line.split("|")
        if len(cells) == len(columns):
            yield dict(zip(columns, map(printable, cells), strict=True))


@dataclass(frozen=True, slots=True)
class Held:
    """Whose limit it is, its value, and what is in use of it, where that can be counted."""

    # "QOS normal", "account physics", "the association of bob in account physics".
    whose: str
    value: str
    used: int | None


def held(job: SlurmJob, limit: Limit, slurm: Slurm) -> Held | None:
    """The limit that holds a job; None where sacctmgr was not asked, or names none."""
    if slurm.limits is None:
        return None
    owners = _qos(job, slurm) if limit.scope == "QOS" else _associations(job, slurm.limits)
    for whose, row, mine in owners:
        value = _value(row.get(limit.column, ""), limit.tres)
        if value:
            others = [each for each in slurm.jobs.values() if each.state in USING and mine(each)]
            return Held(whose, value, _used(limit, [each for each in others if _counts(limit, job, each)]))
    return None


_Owner = tuple[str, Mapping[str, str], "Mine"]


@dataclass(frozen=True, slots=True)
class Mine:
    """Whether a job counts for a QOS, or for the accounts and the user of an association."""

    qos: str = ""
    accounts: frozenset[str] = frozenset()
    user: str = ""

    def __call__(self, job: SlurmJob) -> bool:
        if self.qos:
            return job.wants.get("QOS") == self.qos
        return job.wants.get("Account") in self.accounts and self.user in ("", job.user)


def _qos(job: SlurmJob, slurm: Slurm) -> Iterator[_Owner]:
    # A partition's QOS comes before the job's own.
    partition = slurm.partitions.get(job.partition)
    rows = slurm.limits.qos if slurm.limits else {}
    for name in (partition.qos if partition else "", job.wants.get("QOS", "")):
        if name in rows:
            yield f"QOS {name}", rows[name], Mine(qos=name)


def _associations(job: SlurmJob, limits: Limits) -> Iterator[_Owner]:
    """From the user's association up to the root."""
    account = job.wants.get("Account", "")
    for row in limits.associations:
        if (row["Account"], row["User"]) == (account, job.user) and row["Partition"] in ("", job.partition):
            yield (
                f"the association of {job.user} in account {account}",
                row,
                Mine(accounts=frozenset({account}), user=job.user),
            )
    parents = {row["Account"]: row for row in limits.associations if not row["User"]}
    seen: set[str] = set()
    while account in parents and account not in seen:
        seen.add(account)
        yield f"account {account}", parents[account], Mine(accounts=_below(account, parents))
        account = parents[account]["ParentName"]


def _below(account: str, parents: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
    found, more = {account}, {account}
    while more:
        more = {name for name, row in parents.items() if row["ParentName"] in more and name not in found}
        found |= more
    return frozenset(found)


def _value(text: str, tres: str) -> str:
    """`4` of `cpu=4,mem=10G`; all of it where it is no list."""
    if not tres:
        return text
    parts = [part.rpartition("=") for part in text.split(",")]
    mine = [(name, value) for name, _, value in parts if name == tres or name.startswith(f"{tres}/")]
    return ", ".join(value if name == tres else f"{name}={value}" for name, value in mine)


def _counts(limit: Limit, job: SlurmJob, other: SlurmJob) -> bool:
    if limit.each == "user":
        return other.user == job.user
    return limit.each != "account" or other.wants.get("Account") == job.wants.get("Account")


def _used(limit: Limit, others: Iterable[SlurmJob]) -> int | None:
    if limit.each in ("job", "node") or "Mins" in limit.column:
        return None
    if limit.column.startswith(("MaxJobs", "GrpJobs")):
        return sum(1 for _ in others)
    if limit.tres in ("cpu", "node"):
        return sum(each.cpus if limit.tres == "cpu" else each.node_count for each in others)
    return None


def why(facts: Facts, job: SlurmJob, slurm: Slurm) -> Cause | None:
    """Why a limit holds a job back; None if its reason is not a limit."""
    limit = limit_of(code_of(job))
    if limit is None:
        return None
    found = held(job, limit, slurm)
    # An association is of one user and account already.
    each = f" for each {limit.each}" if limit.each in ("job", "node") or (limit.each and limit.scope == "QOS") else ""
    if found is None:
        owner = f"QOS {job.wants.get('QOS')}" if limit.scope == "QOS" else f"account {job.wants.get('Account')}"
        text = f"{owner} sets a limit on {limit.noun}{each} ({limit.column}), which is reached"
        return plain(facts, job, text, command=_shown_limit(facts, job, limit), waits=limit.waits)
    too_much = _asks_too_much(limit, job, found.value)
    noun = limit.noun.removesuffix("s") if found.value == "1" else limit.noun
    # A time needs no noun.
    amount = found.value if limit.column.endswith("Wall") else f"{found.value} {noun}"
    bound = f"{'at least' if limit.least else 'at most'} {amount}{each} ({limit.column})"
    text = f"{found.whose} allows {bound}{_compared(limit, job, found, too_much)}"
    command = _fit(facts, job, limit, found.value) if too_much or not limit.waits else _holders(facts, job, limit)
    return plain(facts, job, text, command=command, waits=limit.waits and not too_much)


def _asks_too_much(limit: Limit, job: SlurmJob, value: str) -> bool:
    """Whether the job exceeds the limit by itself, so it does not help that other jobs end."""
    return not limit.least and value.isdecimal() and _asked(limit, job) > int(value)


def _asked(limit: Limit, job: SlurmJob) -> int:
    return {"cpu": job.cpus, "node": job.node_count}.get(limit.tres, 0) if "Mins" not in limit.column else 0


def _compared(limit: Limit, job: SlurmJob, found: Held, too_much: bool) -> str:
    if too_much:
        return f", and it asks for {_asked(limit, job)}"
    if limit.column == "MaxWall" and job.wants.get("TimeLimit"):
        return f", and it asks for {job.wants['TimeLimit']}"
    return f", and {found.used} {'is' if found.used == 1 else 'are'} in use" if found.used is not None else ""


def _shown_limit(facts: Facts, job: SlurmJob, limit: Limit) -> str:
    if limit.scope == "QOS":
        return in_shell(facts, job, f"sacctmgr show qos {{QOS}} format=Name,{limit.column}")
    return in_shell(facts, job, f"sacctmgr show assoc account={{Account}} format=Account,User,{limit.column}")


_CHANGES = {"MaxWall": "timelimit", "cpu": "numcpus", "node": "numnodes", "mem": "minmemorynode"}


def _fit(facts: Facts, job: SlurmJob, limit: Limit, value: str) -> str:
    """The command that makes a job fit if it asks for too much."""
    key = _CHANGES.get(limit.tres or limit.column)
    if key and "Mins" not in limit.column and limit.each != "node" and SAFE.fullmatch(value.replace(":", "")):
        return in_shell(facts, job, f"scontrol update jobid={{id}} {key}={value}")
    return _shown_limit(facts, job, limit)


def _holders(facts: Facts, job: SlurmJob, limit: Limit) -> str:
    """The jobs that hold what it waits for."""
    owner = "-q {QOS}" if limit.scope == "QOS" else "-A {Account}"
    return in_shell(facts, job, f"squeue -t R {owner}{' -u {User}' if limit.each == 'user' else ''}")
