"""Hostile jobs of alice on a real Slurm: submitted, seen by Slurm's own commands, and recorded for tests without Slurm.

    python -m tests.real.slurm.hostile 24.11 26.05

In: versions. Out: `tests/slurm/recorded/<version>/hostile_*.json`, one answer each, byte for byte but for what tells of
the machine and for indentation. Their key `raw` holds bytes that are no UTF-8 as lone surrogates (surrogateescape).
`submit` and `queue` also serve `test_hostile.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.real.hostile_jobs import GROUPS, REST_JOBS, End, HostileJob, command
from tests.real.slurm import rootfs
from tests.real.slurm.cluster import Cluster, wait_for
from tests.slurm.replay import RECORDED, VERSIONS

from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import Endpoint, Http, Sending
from slurm_operator.slurm.wire import Reply

MAX_BYTES = 200_000
SECONDS_TO_RUN = 120
SCRIPT = "#!/bin/sh\nsleep 1\n"
ONE_BY_ONE = frozenset({"names", "limits", "sizes"})
AS_ALICE = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/tmp", "/bin/bash", "-c")


@dataclass
class Submitted:
    """What Slurm said to a group of jobs."""

    accepted: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def as_alice(cluster: Cluster, script: str) -> subprocess.CompletedProcess[bytes]:
    """A script of an ordinary user; what it prints may be anything."""
    inside = [*cluster.enter(), *AS_ALICE, f"cd /tmp; {script}"]
    return subprocess.run(inside, capture_output=True, timeout=60, check=False)


def welcome(cluster: Cluster) -> None:
    """A partition as many clusters have it: no time limit, and room for all of these jobs at once."""
    cluster.run("scontrol", "update", "partitionname=compute", "maxtime=unlimited", "oversubscribe=force:16")


def submit(cluster: Cluster, jobs: Sequence[HostileJob]) -> Submitted:
    """Submit a group as alice; returns when those that can run do."""
    said = Submitted()
    for job in jobs:
        first = next(iter(said.accepted.values()), 1)
        done = as_alice(cluster, command(job, f"sleep {SECONDS_TO_RUN}", str(first)))
        if done.returncode == 0:
            said.accepted[job.label] = int(done.stdout)
            as_alice(cluster, job.then.replace("{id}", str(int(done.stdout))))
        else:
            said.refused[job.label] = done.stderr.decode(errors="replace").strip()
    wait_for(lambda: _run(cluster, said, jobs), 30, "jobs that run", lambda: cluster.run("squeue"))
    return said


def _run(cluster: Cluster, said: Submitted, jobs: Sequence[HostileJob]) -> bool:
    """Whether all that can run do; a task of an array counts for all of them."""
    begun = set(cluster.run("squeue", "-h", "-t", "R,S", "-o", "%F").split())
    can = {str(said.accepted[job.label]) for job in jobs if job.end is End.COMPLETES}
    return can <= begun and not cluster.run("squeue", "-h", "-t", "CF,CG")


def submit_by_rest(cluster: Cluster) -> Submitted:
    """Submit what only JSON can say, with alice's own token."""
    said = Submitted()
    for label, job in REST_JOBS.items():
        whole = {"environment": ["A=b"], "hold": True, "current_working_directory": "/", **job}
        path = f"/slurm/{VERSIONS[cluster.version]}/job/submit"
        reply = ask(cluster, path, json.dumps({"script": SCRIPT, "job": whole}).encode(), user="alice")
        answer = json.loads(reply.body) if reply.body[:1] in b"\n{" else {}
        if reply.status == 200 and answer.get("job_id"):
            said.accepted[label] = answer["job_id"]
        else:
            said.refused[label] = f"{reply.status} {[one.get('description') for one in answer.get('errors', [])]}"
    return said


def queue(cluster: Cluster) -> list[int]:
    """The id of every job record that Slurm has, by squeue's word."""
    return sorted(int(one) for one in cluster.run("squeue", "-h", "-t", "all", "-o", "%A").split())


def ask(cluster: Cluster, path: str, body: bytes | None = None, *, user: str = "slurm") -> Reply:
    """One request to slurmrestd, and its answer as it came."""

    async def exchange() -> Reply:
        transport = Http(Endpoint.parse(f"unix://{cluster.socket}"))
        try:
            sending = Sending(method="POST" if body else "GET", path=path, label=path, body=body)
            return await transport.send(sending, TokenSource(lambda: cluster.jwt_key, user=user).current())
        finally:
            await transport.close()

    return asyncio.run(exchange())


def record(cluster: Cluster, name: str, what: str, known: Mapping[str, object]) -> None:
    """Keep one answer under a name, with what Slurm's own commands know of it."""
    path = f"/slurm/{VERSIONS[cluster.version]}/{what}"
    reply = ask(cluster, path)
    head = {"method": "GET", "path": path, "sent": None, "status": reply.status, "content_type": reply.content_type}
    raw = sanitised(reply.body).decode("utf-8", "surrogateescape")
    text = json.dumps({**head, **known, "raw": raw}, indent=1) + "\n"
    assert len(text) < MAX_BYTES, f"{name}: {len(text)} bytes"
    (RECORDED / cluster.version / f"hostile_{name}.json").write_text(text)
    print(f"{cluster.version} hostile_{name}: {len(text)} bytes, {known}", flush=True)


def sanitised(body: bytes) -> bytes:
    """Without who asked, and without indentation: a line break inside a text is always escaped."""
    small = re.sub(rb'"client":\{[^{}]*\},', b"", re.sub(rb"(?m)\n *", b"", body).replace(b'": ', b'":'))
    kept, original = (json.loads(one.decode("utf-8", "surrogateescape")) for one in (small, body))
    del original["meta"]["client"]
    assert kept == original, "nothing else was changed"
    return small


@contextmanager
def running(version: str) -> Iterator[Cluster]:
    """A cluster of its own: what is over stays in the list for minutes."""
    cluster = Cluster(version, rootfs.provide(version), accounting=True)
    try:
        cluster.start()
        welcome(cluster)
        yield cluster
    finally:
        cluster.stop()


def record_jobs(version: str, name: str, submitting: Callable[[Cluster], Submitted]) -> None:
    """The list of a group's jobs, and one job of it by its id."""
    with running(version) as cluster:
        said = submitting(cluster)
        record(cluster, f"jobs_{name}", "jobs", {"refused": said.refused, "job_ids": queue(cluster)})
        if name in ONE_BY_ONE:
            first = next(iter(said.accepted.values()))
            record(cluster, f"job_{name}", f"job/{first}", {"job_ids": [first]})


def record_admin(version: str) -> None:
    """What an administrator may write into nodes, partitions and reservations."""
    odd = "$'" + r"\xff\x1b[31m\n\u202e" + "'"
    with running(version) as cluster:
        submit(cluster, GROUPS["states"])
        cluster.shell(
            f"scontrol update nodename=n0 state=drain reason={odd};"
            f" scontrol update nodename=n1 comment={odd} extra={odd};"
            f" scontrol create partitionname={odd} nodes=compute;"
            f" scontrol create reservation reservationname={odd} users=alice nodes=n2 starttime=9999-01-01T00:00:00"
            " duration=UNLIMITED",
            check=False,
        )
        for what in ("nodes", "partitions", "reservations"):
            names = json.loads(
                ask(cluster, f"/slurm/{VERSIONS[version]}/{what}").body.decode("utf-8", "surrogateescape")
            )
            record(cluster, what, what, {"count": len(names[what])})


def main() -> None:
    """Record everything anew."""
    for version in sys.argv[1:]:
        for name, jobs in GROUPS.items():
            record_jobs(version, name, lambda cluster, jobs=jobs: submit(cluster, jobs))  # type: ignore[misc]
        record_jobs(version, "rest", submit_by_rest)
        record_admin(version)


if __name__ == "__main__":
    main()
