"""The text about a job that waits: its name, the code of Slurm's reason, the sentence and the command.

In: a job and what was found out about it. Out: text, or a cause. Pure; used by `diagnose/waiting.py` and the modules
that it calls.
"""

from __future__ import annotations

import re

from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import Facts, SlurmJob
from slurm_operator.diagnose.reasons import REASONS, SHOW, Reason

_NAMED = re.compile(r"\{(\w+)\}")
# What is safe in a command that somebody copies into a shell; an account may have any name.
SAFE = re.compile(r"[A-Za-z0-9_][\w.,@%+-]*", re.ASCII)


def title(job: SlurmJob) -> str:
    """A job as users write it."""
    if job.component:
        return f"job {job.component}"
    return (
        f"job {job.array}_{job.tasks if job.tasks.isdecimal() else f'[{job.tasks}]'}" if job.array else f"job {job.id}"
    )


def code_of(job: SlurmJob) -> str:
    """The code of Slurm's reason; if the description begins with a code of its own, that one is more precise."""
    for text in (job.reason, job.reason.partition(",")[0].strip()):
        if text in REASONS:
            return text
    return job.code or job.reason.partition(",")[0].strip()


def plain(facts: Facts, job: SlurmJob, meaning: str = "", *, command: str = "", waits: bool | None = None) -> Cause:
    """What the table says about the reason, or `meaning` if more was found out."""
    code = code_of(job)
    known = REASONS.get(code, Reason(f"Slurm says {job.reason}", waits=False))
    return Cause(
        code,
        f"{title(job)} waits: {meaning or filled(known.meaning, job)}",
        command or in_shell(facts, job, known.command),
        waits=known.waits if waits is None else waits,
    )


def filled(text: str, job: SlurmJob) -> str:
    """A text with the values of a job filled in."""
    # In one pass: an account may be named {QOS}.
    return _NAMED.sub(lambda found: job.wants.get(found[1], found[0]), text)


def in_shell(facts: Facts, job: SlurmJob, template: str) -> str:
    """A command in the login shell; a plain one if a value in it could be misread by a shell."""
    values = {"id": job.id, **job.wants}
    bad = [name for name in _NAMED.findall(template) if not SAFE.fullmatch(values.get(name, ""))]
    text = SHOW if bad else template
    return f"kubectl slurm -n {facts.namespace} shell -- {_NAMED.sub(lambda found: values[found[1]], text)}"


def why_job(facts: Facts, job: SlurmJob) -> str:
    """The command that explains why another job waits."""
    return f"kubectl slurm -n {facts.namespace} why job/{job.id}"
