"""Jobs that an ordinary user may submit and that nobody expected: odd texts, limits, arrays, dependencies and states.

In: nothing; a table. Out: `GROUPS`, each job with its sbatch options as bytes, and `command`, which writes one sbatch
call in plain ASCII for bash, so that every byte survives whatever carries it there. Used by the recorder and the tests
of `tests/real/slurm` and by the soak of `tests/real/local`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

PLAIN = frozenset((string.ascii_letters + string.digits + ' ,.:;/=%@+-_[]{}()<>|&*?#!~^$"`').encode())
# Just below Slurm's INFINITE minutes: a job that runs with it ends in the year 10192.
MAX_TIME_LIMIT = b"2982616-00:00:00"
FAR = b"9999-12-31T23:59:59"
LONG_TEXT = 1000
DEPENDENCIES = 500


class End(Enum):
    """What becomes of a job that Slurm accepted."""

    COMPLETES = "completes"
    STAYS = "stays"  # pending until somebody cancels it
    AS_SLURM_SAYS = "as Slurm says"


@dataclass(frozen=True, slots=True)
class HostileJob:
    """One job. `{first}` in an option stands for the id of the group's first job."""

    label: str
    options: tuple[bytes, ...]
    end: End = End.STAYS
    # What its owner does to it afterwards, with {id} for its id.
    then: str = ""

    @property
    def suspends(self) -> bool:
        """Whether its owner stops it for a while: whoever wants its end has to resume it."""
        return "scontrol suspend" in self.then


TEXTS: Mapping[str, bytes] = {
    "invalid-utf8": b"\xff\xfe",
    "cut-utf8": b"abc\xe2\x82",
    "overlong-utf8": b"\xc0\xaf\xe0\x80\xaf",
    "surrogate-utf8": b"\xed\xa0\x80\xed\xbf\xbf",
    "control": bytes(range(1, 32)) + b"\x7f\xc2\x85",
    "escape-sequence": b"\x1b[2J\x1b]0;title\x07\x1b[31m",
    "bidi": "\u202egnp.exe\u2066\u200f\u2069\u200b".encode(),
    "newlines": b"one\ntwo\r\nthree\tfour|five\xe2\x80\xa8six",
    "json": b'"},{"job_id":1,"job_state":["COMPLETED"],"x":["\\u0000\\',
    "long": b"x" * LONG_TEXT,
    "long-invalid": b"\xff" * LONG_TEXT,
    "empty": b"",
    "astral": "\U0001f4a3\U0010ffff\ufeff\uffff".encode(),
    "format": b"%n%s%x{0}{name!r}$(id)`id`<b>&amp;",
}
BAD = TEXTS["invalid-utf8"]
# What reads as more fields, or as one more record, to whoever takes Slurm's `Key=Value` text at its word.
FORGERIES: Mapping[str, bytes] = {
    "fields": b"x JobId=802 JobState=RUNNING Reason=None Partition=compute",
    "record": b"x\nJobId=803 JobName=y UserId=root(0) JobState=RUNNING Reason=None Partition=compute NodeList=n0",
    "line-break": b"a\nb",
    "carriage-return": b"x\r\nJobId=804 JobState=FAILED\r",
    "own-state": b"x JobState=OUT_OF_MEMORY Reason=hacked EndTime=2000-01-01T00:00:00 UserId=root(0)",
    "invented-state": b"JobState=PWNED Reason={Account}",
    "node": b"x\nNodeName=n9 State=IDLE\nPartitionName=p9 State=UP",
    "quotes": b"\"'`x JobId=805",
    "json": TEXTS["json"],
    "json-list": b'"}],"errors":[{"error_number":1}],"jobs":[{"job_id":806',
    "escape-sequence": TEXTS["escape-sequence"],
    "invalid-utf8": BAD + b" JobId=807 JobState=RUNNING",
}


def _names() -> Iterator[HostileJob]:
    for label, text in TEXTS.items():
        yield HostileJob(f"name-{label}", (b"--hold", b"-J" + text if text else b"--job-name=", b"--comment=" + text))


def forged() -> Iterator[HostileJob]:
    """Jobs whose every free text claims to be something else: each text twice, pending and running."""
    for label, text in FORGERIES.items():
        texts = (b"-J" + text, b"--comment=" + text, b"--extra=" + text, b"--wckey=" + text, b"-D/tmp/" + text)
        yield HostileJob(f"forged-{label}", (b"--hold", *texts, b"-e/tmp/" + text))
        yield HostileJob(f"forged-{label}-running", (*texts[:3], b"-t5"), End.COMPLETES)


def _fields() -> Iterator[HostileJob]:
    for option in ("account", "wckey", "chdir", "output", "error", "input", "mail-user", "extra", "network", "bb"):
        value = b"/tmp/" + BAD if option in {"chdir", "output", "error", "input"} else BAD
        yield HostileJob(f"field-{option}", (b"--hold", f"--{option}=".encode() + value))
    yield HostileJob("field-export", (b"--hold", b"--export=ALL,A\xff=\xfe,LD_PRELOAD=x"))
    for option in ("constraint", "licenses", "reservation", "qos", "gres", "partition", "nodelist", "exclude"):
        yield HostileJob(f"refused-{option}", (b"--hold", f"--{option}=".encode() + BAD), End.AS_SLURM_SAYS)


LIMITS: Mapping[str, bytes] = {
    "longest": MAX_TIME_LIMIT,
    # Beside the longest on one node of two cores, so that no job without an end hides theirs.
    "almost-longest": b"2982615-00:00:00",
    "unlimited": b"UNLIMITED",
    "zero": b"0",
    "second": b"0:01",
}


def _limits() -> Iterator[HostileJob]:
    for label, limit in LIMITS.items():
        yield HostileJob(f"limit-{label}", (b"-t" + limit,), End.COMPLETES)
    for label, limit in LIMITS.items():
        yield HostileJob(f"limit-{label}-held", (b"--hold", b"-t" + limit))
    yield HostileJob("limit-too-long", (b"--hold", b"-t99999999-00:00:00"), End.AS_SLURM_SAYS)
    yield HostileJob("limit-minimum", (b"--hold", b"-t" + MAX_TIME_LIMIT, b"--time-min=1"), End.AS_SLURM_SAYS)
    yield HostileJob("begin-far", (b"--begin=" + FAR,))
    yield HostileJob("begin-10192", (b"--begin=10192-01-01T00:00:00",), End.AS_SLURM_SAYS)
    yield HostileJob("begin-seconds", (b"--begin=now+99999999999999",), End.AS_SLURM_SAYS)
    yield HostileJob("deadline-far", (b"--hold", b"-t1", b"--deadline=" + FAR))
    yield HostileJob("deadline-longest", (b"-t" + MAX_TIME_LIMIT, b"--deadline=" + FAR), End.AS_SLURM_SAYS)
    yield HostileJob("nice-most", (b"--hold", b"--nice=2147483645"))
    yield HostileJob("nice-least", (b"--hold", b"--nice=-2147483645"), End.AS_SLURM_SAYS)


def _sizes() -> Iterator[HostileJob]:
    yield HostileJob("array-most", (b"--hold", b"--array=0-1000%1"))
    yield HostileJob("array-steps", (b"--hold", b"--array=0-1000:7%4294967294"), End.AS_SLURM_SAYS)
    yield HostileJob("array-odd", (b"--hold", b"--array=1,1,1,3-5,1000", b"-J\xff%a"))
    yield HostileJob("array-runs", (b"--array=0-3%2", b"-J" + BAD, b"-t" + MAX_TIME_LIMIT), End.COMPLETES)
    yield HostileJob("array-beyond", (b"--hold", b"--array=0-4294967294"), End.AS_SLURM_SAYS)
    yield HostileJob("nodes-most", (b"--hold", b"-N1-65000"), End.AS_SLURM_SAYS)
    yield HostileJob("tasks-most", (b"--hold", b"-n4294967290"), End.AS_SLURM_SAYS)
    yield HostileJob("memory-most", (b"--hold", b"--mem=9223372036854775807"), End.AS_SLURM_SAYS)
    yield HostileJob("cpus-most", (b"--hold", b"--cpus-per-task=65534"), End.AS_SLURM_SAYS)
    yield HostileJob("disk-most", (b"--hold", b"--tmp=4294967290"), End.AS_SLURM_SAYS)
    yield HostileJob("unknown-nodes", (b"--hold", b"-w" + b"n[0-99999]"), End.AS_SLURM_SAYS)
    yield HostileJob("excluded-nodes", (b"--hold", b"-x" + b"n[0-99999]"), End.AS_SLURM_SAYS)
    yield HostileJob("switches", (b"--hold", b"--switches=4294967294@1000-0"), End.AS_SLURM_SAYS)
    yield HostileJob("partition-list", (b"--hold", b"-p" + b",".join([b"compute"] * 50)), End.AS_SLURM_SAYS)


def _dependencies() -> Iterator[HostileJob]:
    yield HostileJob("dependency-root", (b"--hold", b"-J\xffroot"))
    yield HostileJob("dependency-after", (b"--dependency=afterok:{first}",))
    yield HostileJob("dependency-list", (b"--dependency=" + b"?".join([b"afterany:{first}"] * DEPENDENCIES),))
    yield HostileJob("dependency-ids", (b"--dependency=afterok" + b":{first}" * DEPENDENCIES,))
    yield HostileJob("dependency-delay", (b"--dependency=after:{first}+4294967294",), End.AS_SLURM_SAYS)
    yield HostileJob("dependency-singleton", (b"--dependency=singleton", b"-J\xffroot"))
    own = "scontrol update jobid={id} dependency=afterok:{id}"
    yield HostileJob("dependency-self", (b"--hold",), then=own)
    yield HostileJob("dependency-unknown", (b"--dependency=afterok:4294967293",), End.AS_SLURM_SAYS)
    yield HostileJob("dependency-expand", (b"--dependency=expand:{first}",), End.AS_SLURM_SAYS)
    yield HostileJob("dependency-text", (b"--dependency=\xff\xfe",), End.AS_SLURM_SAYS)


def _states() -> Iterator[HostileJob]:
    named = (b"-J\xff\x1b[31m", b"-t" + MAX_TIME_LIMIT)
    yield HostileJob("state-running", named, End.COMPLETES)
    yield HostileJob("state-hold-released", (b"--hold", *named), End.COMPLETES, then="scontrol release {id}")
    yield HostileJob("state-user-held", (b"--hold", *named), then="scontrol uhold {id}")
    yield HostileJob("state-requeue-held", named, End.AS_SLURM_SAYS, then="sleep 3; scontrol requeuehold {id}")
    yield HostileJob("state-cancelled", (b"--hold", *named), End.AS_SLURM_SAYS, then="scancel {id}")
    yield HostileJob("state-suspended", named, End.COMPLETES, then="sleep 2; scontrol suspend {id}")
    yield HostileJob(
        "state-renamed", (b"--hold",), then="scontrol update jobid={id} jobname=$'\\xff\\xfe\\n' comment=$'\\xff'"
    )
    yield HostileJob("state-killed", (*named, b"--signal=KILL@60"), End.COMPLETES)


GROUPS: Mapping[str, tuple[HostileJob, ...]] = {
    "names": tuple(_names()),
    "fields": tuple(_fields()),
    "limits": tuple(_limits()),
    "sizes": tuple(_sizes()),
    "dependencies": tuple(_dependencies()),
    "states": tuple(_states()),
}


# What only a JSON request can carry: a NUL, a lone surrogate, a number of the wrong kind.
REST_JOBS: Mapping[str, Mapping[str, object]] = {
    "rest-nul": {"name": "a\0b", "comment": "\0"},
    "rest-surrogate": {"name": "\ud800", "comment": "\udfff\ud800"},
    "rest-bidi": {"name": "\u202e\u2066", "account": "\u0085\u2028"},
    "rest-long": {"name": "x" * 100_000},
    "rest-limit": {"name": "limit", "time_limit": 2**63},
    "rest-limit-float": {"name": "limit", "time_limit": 1e308},
    "rest-limit-negative": {"name": "limit", "time_limit": -5},
    "rest-limit-text": {"name": "limit", "time_limit": "UNLIMITED"},
    "rest-begin": {"name": "begin", "begin_time": 2**62},
    "rest-nice": {"name": "nice", "nice": 2**31 - 1},
    "rest-array": {"name": "array", "array": "0-1000:3%2"},
    "rest-object": {"name": {"deep": [[[[]]]]}},
}


def command(job: HostileJob, script: str, first: str = "1") -> str:
    """One sbatch call for bash, in ASCII; it prints the job's id."""
    options = [quoted(option.replace(b"{first}", first.encode())) for option in job.options]
    # An output of the job's own stands behind ours: the last one counts.
    return " ".join(["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", quoted(script.encode())])


def quoted(text: bytes) -> str:
    """A word of bash that stands for these bytes; a NUL ends it, as it ends every word of a command line."""
    return "$'" + "".join(chr(one) if one in PLAIN else f"\\x{one:02x}" for one in text) + "'"
