"""Jobs that Slurm counts as running though the containers that their processes were in have ended.

In: facts. Out: a cause for each such job. The operator has slurmctld ask the worker's slurmd (`plan/ghosts.py`), and
Slurm then requeues or fails a batch job; one of salloc or srun it keeps until its time limit. Called by `job.py` and
`cluster.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kube_runtime.times import parse_time
from slurm_operator.build import labels
from slurm_operator.diagnose.cause import Cause
from slurm_operator.diagnose.facts import (
    Facts,
    Object,
    Slurm,
    SlurmJob,
    host_of,
    known_hosts,
    label_of,
    name_of,
    status_of,
)

WORKER = labels.WORKER.daemon


def examine(facts: Facts) -> Iterator[Cause]:
    """Every such job."""
    workers = {host_of(pod): pod for pod in facts.every("Pod") if label_of(pod).get(labels.NAME) == WORKER}
    for slurm in facts.slurm.values():
        for job in slurm.jobs.values() if isinstance(slurm, Slurm) else ():
            cause = _why(facts, job, workers)
            if cause is not None:
                yield cause


def why(facts: Facts, job: SlurmJob) -> Cause | None:
    """Why a job that is said to run does not; None when it may well run."""
    workers = {host_of(pod): pod for pod in facts.every("Pod") if label_of(pod).get(labels.NAME) == WORKER}
    return _why(facts, job, workers)


def _why(facts: Facts, job: SlurmJob, workers: Mapping[str, Object]) -> Cause | None:
    if job.state not in ("RUNNING", "SUSPENDED"):
        return None
    script = job.wants.get("BatchHost", "")
    # A list of nodes is not made longer than Slurm wrote it.
    hosts = [script] if script else sorted(known_hosts(job.nodes, workers.keys()))
    if not script and len(hosts) != len(job.nodes):
        return None
    restarted = [_restarted(workers.get(host), job.wants.get("StartTime", "")) for host in hosts]
    if not restarted or not all(restarted):
        return None
    pod, since = name_of(workers[hosts[0]]), restarted[0]
    lost = f"Slurm counts job {job.id} as {job.state.lower()}, but its worker {pod} was restarted at {since}"
    if script:
        sentence = f"{lost}, and its processes are gone; Slurm requeues or fails it within a minute"
        return Cause("ProcessesGone", sentence, _command(facts, f"scontrol requeue {job.id}"))
    sentence = f"{lost}, and its processes are gone; Slurm keeps a job without a script until its time limit"
    return Cause("ProcessesGone", sentence, _command(facts, f"scancel {job.id}"))


def _restarted(pod: Object | None, began: str) -> str:
    """When a worker's slurmd was started, if that was after the job began; else empty."""
    for status in status_of(pod).get("containerStatuses") or () if pod is not None else ():
        if status.get("name") == WORKER:
            since = str(((status.get("state") or {}).get("running") or {}).get("startedAt") or "")
            job, container = parse_time(began), parse_time(since)
            return since if job is not None and container is not None and job < container else ""
    return ""


def _command(facts: Facts, command: str) -> str:
    return f"kubectl slurm -n {facts.namespace} shell -- {command}"
