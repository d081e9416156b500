"""Jobs that wait, and what keeps them, each made on a real cluster: situation, how it is made, cause, next command.

Used by `test_why_jobs.py` on each Slurm version. Everything is taken back when its `with` ends.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import yaml
from tests.real.local.broken import partition, plain
from tests.real.local.e2e.cluster import MANIFEST, LocalCluster

Json = dict[str, Any]
RUNS = "sleep 600"


def manifest(version: str) -> str:
    """The cluster of the end-to-end tests: jobs do not share nodes, licenses and limits count."""
    found = list(yaml.safe_load_all(MANIFEST.read_text().replace("VERSION", version)))
    kept = [each for each in found if each["metadata"]["name"] not in ("metal", "all", "alice")]
    for each in kept:
        if each["kind"] == "Controller":
            each["spec"]["extraConf"] += (
                "Licenses=matlab:2\nAccountingStorageEnforce=associations,limits,qos\nMinJobAge=600\n"
                "SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0\n"
            )
        if each["kind"] == "NodeSet":
            each["spec"]["partition"]["config"] = "Default=YES"
    kept += [partition("short", maxTime="30"), partition("small", maxNodes=1), partition("closed", state="DOWN")]
    return yaml.safe_dump_all(kept)


Made = AbstractContextManager[str]
Make = Callable[[LocalCluster], Made]


@dataclass(frozen=True, slots=True)
class Waiting:
    """One situation."""

    make: Make
    # Several codes are equally true where Slurm's versions differ in the order of their checks.
    code: str
    # What the sentence and the command must hold; {first} is the other job's number.
    words: str
    command: str
    ok: bool = True


def submit(cluster: LocalCluster, *options: str, script: str = RUNS) -> str:
    """A job of alice's, which may wait."""
    return cluster.submit(script, *options).partition(";")[0]


@contextmanager
def job(cluster: LocalCluster, *options: str, script: str = RUNS, task: str = "") -> Iterator[str]:
    number = submit(cluster, *options, script=script)
    try:
        yield f"job/{number}{task}"
    finally:
        cluster.admin(f"scancel {number}")
        cluster.until("it is gone", lambda: not cluster.alice(f"squeue -h -j {number} 2>/dev/null || true"))


@contextmanager
def running(cluster: LocalCluster, *options: str) -> Iterator[str]:
    with job(cluster, *options) as target:
        number = target.removeprefix("job/")
        cluster.until("it runs", lambda: cluster.job_state(number) == "RUNNING")
        yield number


def one(*options: str, **more: Any) -> Make:
    """A job that waits by itself."""
    return lambda cluster: job(cluster, *options, **more)


def behind(first: tuple[str, ...], *then: tuple[str, ...]) -> Make:
    """Jobs behind one that runs; the last of them is asked about."""

    @contextmanager
    def made(cluster: LocalCluster) -> Iterator[str]:
        with ExitStack() as stack:
            number = stack.enter_context(running(cluster, *first))
            target = ""
            for options in then:
                target = stack.enter_context(job(cluster, *(each.format(first=number) for each in options)))
            yield f"{target} {number}"

    return made


def limited(what: str, limit: str, first: tuple[str, ...], then: tuple[str, ...]) -> Make:
    """A limit of a QOS or association, and a job over it."""

    @contextmanager
    def made(cluster: LocalCluster) -> Iterator[str]:
        cluster.admin(f"sacctmgr -i modify {what} set {limit}")
        name = limit.rpartition("=")[0]
        try:
            with behind(first, then)(cluster) if first else job(cluster, *then) as target:
                yield target
        finally:
            cluster.admin(f"sacctmgr -i modify {what} set {name}=-1")

    return made


@contextmanager
def held_by_admin(cluster: LocalCluster) -> Iterator[str]:
    with job(cluster, "-H") as target:
        number = target.removeprefix("job/")
        cluster.admin(f"scontrol release {number}; scontrol hold {number}")
        yield target


@contextmanager
def requeued_and_held(cluster: LocalCluster) -> Iterator[str]:
    with running(cluster) as number:
        cluster.admin(f"scontrol requeuehold {number}")
        yield f"job/{number}"


@contextmanager
def suspended(cluster: LocalCluster) -> Iterator[str]:
    with running(cluster) as number:
        cluster.admin(f"scontrol suspend {number}")
        yield f"job/{number}"


@contextmanager
def cancelled(cluster: LocalCluster) -> Iterator[str]:
    with job(cluster, "-H") as target:
        cluster.admin(f"scancel {target.removeprefix('job/')}")
        yield target


@contextmanager
def failed(cluster: LocalCluster) -> Iterator[str]:
    number = submit(cluster, script="exit 3")
    cluster.until("it failed", lambda: cluster.job_state(number) == "")
    yield f"job/{number}"


@contextmanager
def never_satisfied(cluster: LocalCluster) -> Iterator[str]:
    with failed(cluster) as first, job(cluster, "-d", f"afterok:{first.removeprefix('job/')}") as target:
        yield target


@contextmanager
def reserved_for_later(cluster: LocalCluster) -> Iterator[str]:
    cluster.admin(
        "scontrol create reservation reservationname=later starttime=now+1hour duration=60 users=alice nodes=ALL"
    )
    try:
        with job(cluster, "--reservation=later") as target:
            yield target
    finally:
        cluster.admin("scontrol delete reservationname=later")


@contextmanager
def reserved_for_others(cluster: LocalCluster) -> Iterator[str]:
    cluster.admin(
        "scontrol create reservation reservationname=mine starttime=now duration=60 users=root nodes=ALL "
        "flags=ignore_jobs"
    )
    try:
        with job(cluster) as target:
            yield target
    finally:
        cluster.admin("scontrol delete reservationname=mine")


@contextmanager
def reserved_for_soon(cluster: LocalCluster) -> Iterator[str]:
    cluster.admin(
        "scontrol create reservation reservationname=soon starttime=now+30minutes duration=60 users=root nodes=ALL "
        "flags=maint"
    )
    try:
        with job(cluster, "-t", "60") as target:
            yield target
    finally:
        cluster.admin("scontrol delete reservationname=soon")


@contextmanager
def drained(cluster: LocalCluster, *nodes: str) -> Iterator[None]:
    names = ",".join(nodes)
    cluster.admin(f"scontrol update nodename={names} state=drain reason='bad dimm'")
    try:
        yield
    finally:
        cluster.admin(f"scontrol update nodename={names} state=resume")


@contextmanager
def required_node_drained(cluster: LocalCluster) -> Iterator[str]:
    with drained(cluster, "compute-0"), job(cluster, "-w", "compute-0") as target:
        yield target


@contextmanager
def too_many_drained(cluster: LocalCluster) -> Iterator[str]:
    with drained(cluster, "compute-1"), job(cluster, "-N2") as target:
        yield target


@contextmanager
def heterogeneous(cluster: LocalCluster) -> Iterator[str]:
    script = r"printf '#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n1\nsleep 600\n'"
    number = cluster.alice(f"{script} | sbatch --parsable -H -o /dev/null")
    try:
        yield f"job/{number}+1"
    finally:
        cluster.admin(f"scancel {number}")


def scale_in(target: str) -> Make:
    """A NodeSet that becomes smaller while a job runs on the worker that goes."""

    @contextmanager
    def made(cluster: LocalCluster) -> Iterator[str]:
        with running(cluster, "-N2", "--exclusive", "-t", "30") as number:
            _replicas(cluster, 1)
            try:
                yield f"{target} {number}"
            finally:
                _replicas(cluster, 2)

    return made


def _replicas(cluster: LocalCluster, number: int) -> None:
    cluster.kubectl("patch", "nodeset", "compute", "--type=merge", "-p", json.dumps({"spec": {"replicas": number}}))


@contextmanager
def without_database(cluster: LocalCluster) -> Iterator[str]:
    cluster.kubectl("scale", "statefulset", "mariadb", "--replicas=0")
    try:
        yield "accounting/slurm"
    finally:
        cluster.kubectl("scale", "statefulset", "mariadb", "--replicas=1")
        cluster.until("accounting answers", lambda: _accounts(cluster), 120)


def _accounts(cluster: LocalCluster) -> bool:
    asked = ("exec", "slurm-controller-0", "-c", "slurmctld", "--", "sacctmgr", "-n", "show", "cluster")
    return cluster.attempt(*asked).returncode == 0


@contextmanager
def without_key(cluster: LocalCluster) -> Iterator[str]:
    kept = cluster.get("secret", "slurm-auth-jwt")
    cluster.kubectl("delete", "secret", "slurm-auth-jwt")
    try:
        yield "controller/slurm"
    finally:
        meta = {"name": "slurm-auth-jwt", "namespace": kept["metadata"]["namespace"]}
        whole = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": kept["data"]}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(whole))


@contextmanager
def without_sssd_conf(cluster: LocalCluster) -> Iterator[str]:
    wanted = cluster.get("loginset", "login")["spec"]
    broken = plain("LoginSet", "lost", {**wanted, "sssdConfRef": {"name": "nosuch", "key": "sssd.conf"}})
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(broken))
    try:
        yield "loginset/lost"
    finally:
        cluster.kubectl("delete", "loginset", "lost")


@contextmanager
def forgotten(cluster: LocalCluster) -> Iterator[str]:
    yield "job/99999"


FULL = ("-N2", "--exclusive", "-t", "60")
HALF = ("-N1", "--exclusive", "-t", "60")
ACCOUNT, USER = "account name=physics", "user name=alice where account=physics"
WAITING: dict[str, Waiting] = {
    "held by its owner": Waiting(one("-H"), "JobHeldUser", "its owner alice holds it", "scontrol release"),
    "held by an administrator": Waiting(held_by_admin, "JobHeldAdmin", "an administrator", "scontrol release"),
    "requeued and held": Waiting(
        requeued_and_held, "job requeued in held state|JobHeldAdmin|JobHeldUser", "hold|held", "scontrol release"
    ),
    "longer than its partition allows": Waiting(
        one("-p", "short", "-t", "60"),
        "PartitionTimeLimit",
        "01:00:00, and partition short allows at most 00:30:00",
        "timelimit=30",
        ok=False,
    ),
    "more nodes than its partition allows": Waiting(
        one("-p", "small", "-N2"),
        "PartitionNodeLimit",
        "2 nodes, and partition small allows at most 1",
        "numnodes=1",
        ok=False,
    ),
    "later": Waiting(one("-b", "now+1hour"), "BeginTime", "must not start before", "starttime=now"),
    "after a job that runs": Waiting(
        behind((), ("-d", "afterok:{first}")),
        "Dependency",
        "job {first} has ended well; that one is RUNNING",
        "why job/{first}",
    ),
    "after any end of a job that runs": Waiting(
        behind((), ("-d", "afterany:{first}")),
        "Dependency",
        "job {first} has ended; that one is RUNNING",
        "why job/{first}",
    ),
    "after the failure of a job that runs": Waiting(
        behind((), ("-d", "afternotok:{first}")), "Dependency", "job {first} has failed", "why job/{first}"
    ),
    "after a job that failed": Waiting(
        never_satisfied, "DependencyNeverSatisfied", "will never start", "scancel", ok=False
    ),
    "the only one of its name": Waiting(
        behind(("-J", "same"), ("-J", "same", "-d", "singleton")), "Dependency", "same name and user", "why job/{first}"
    ),
    "two nodes, of which one is busy": Waiting(
        behind(HALF, ("-N2", "--exclusive")), "Resources", "1 is free, 1 more needed", '{"spec":{"replicas":3}}'
    ),
    "two nodes, both busy": Waiting(
        behind(FULL, ("-N2", "--exclusive")), "Resources", "run job {first} of alice until", '{"spec":{"replicas":4}}'
    ),
    "behind another one": Waiting(
        behind(FULL, ("-N2", "--exclusive"), ("-N2", "--exclusive")),
        "Priority|Resources",
        "ahead of it: first job",
        "why job/",
    ),
    "a license that is in use": Waiting(
        behind(("-L", "matlab:2"), ("-L", "matlab:1")),
        "Licenses",
        "1 of license matlab, and 0 of 2 are free",
        "squeue -t R -L matlab",
    ),
    "a task of a throttled array": Waiting(
        one("--array=0-9%1", task="_5"), "JobArrayTaskLimit", "1 task at once", "arraytaskthrottle=0"
    ),
    "a task of an array that is held": Waiting(
        one("-H", "--array=0-999", task="_500"), "JobHeldUser", "its owner alice holds it", "scontrol release"
    ),
    "a component of a heterogeneous job": Waiting(heterogeneous, "JobHeldUser", "+1 waits", "scontrol release"),
    "a reservation of later": Waiting(
        reserved_for_later, "Reservation", "reservation later begins at", "show reservation later"
    ),
    "nodes that others have reserved": Waiting(
        reserved_for_others,
        "ReqNodeNotAvail|Resources|Priority|Reservation",
        "reservation mine",
        "scontrol show reservation",
    ),
    "nodes that are reserved before it would end": Waiting(
        reserved_for_soon, "ReqNodeNotAvail", "reservation soon from", "timelimit=2"
    ),
    "a node that is drained": Waiting(required_node_drained, "DrainedBySomebody", "bad dimm", "state=resume", ok=False),
    "two nodes, of which one is drained": Waiting(
        too_many_drained, "DrainedBySomebody", "bad dimm", "state=resume", ok=False
    ),
    "a partition that is DOWN": Waiting(one("-p", "closed"), "PartitionNotUp", "closed is DOWN", "partition up closed"),
    "running jobs of a QOS for each user": Waiting(
        limited("qos name=normal", "MaxJobsPU=1", ("-n1",), ("-n1",)),
        "QOSMaxJobsPerUserLimit",
        "QOS normal allows at most 1 running job for each user (MaxJobsPU), and 1 is in use",
        "squeue -t R -q normal -u alice",
    ),
    "CPUs of a QOS for each user": Waiting(
        limited("qos name=normal", "MaxTRESPU=cpu=1", ("-n1",), ("-n1",)),
        "QOSMaxCpuPerUserLimit",
        "at most 1 CPU for each user (MaxTRESPU), and 1 is in use",
        "squeue -t R -q normal -u alice",
    ),
    "more CPUs than a QOS allows each user": Waiting(
        limited("qos name=normal", "MaxTRESPU=cpu=1", (), ("-n2",)),
        "QOSMaxCpuPerUserLimit",
        "at most 1 CPU for each user (MaxTRESPU), and it asks for 2",
        "numcpus=1",
        ok=False,
    ),
    "running jobs of a QOS in all": Waiting(
        limited("qos name=normal", "GrpJobs=1", ("-n1",), ("-n1",)),
        "QOSGrpJobsLimit",
        "QOS normal allows at most 1 running job (GrpJobs), and 1 is in use",
        "squeue -t R -q normal",
    ),
    "longer than its QOS allows": Waiting(
        limited("qos name=normal", "MaxWall=10", (), ("-t", "60")),
        "QOSMaxWallDurationPerJobLimit",
        "at most 00:10:00 time",
        "timelimit=00:10:00",
        ok=False,
    ),
    "more CPUs than its QOS allows a job": Waiting(
        limited("qos name=normal", "MaxTRES=cpu=1", (), ("-n2",)),
        "QOSMaxCpuPerJobLimit",
        "at most 1 CPU",
        "numcpus=1",
        ok=False,
    ),
    "running jobs of an account": Waiting(
        limited(ACCOUNT, "GrpJobs=1", ("-n1",), ("-n1",)),
        "AssocGrpJobsLimit",
        "account physics allows at most 1 running job (GrpJobs), and 1 is in use",
        "squeue -t R -A physics",
    ),
    "CPUs of an account": Waiting(
        limited(ACCOUNT, "GrpTRES=cpu=1", (), ("-n2",)),
        "AssocGrpCpuLimit",
        "account physics allows at most 1 CPU (GrpTRES), and it asks for 2",
        "numcpus=1",
        ok=False,
    ),
    "running jobs of a user in an account": Waiting(
        limited(USER, "MaxJobs=1", ("-n1",), ("-n1",)),
        "AssocMaxJobsLimit",
        "the association of alice in account physics allows at most 1 running job",
        "squeue -t R -A physics -u alice",
    ),
    "longer than its association allows": Waiting(
        limited(USER, "MaxWall=10", (), ("-t", "60")),
        "AssocMaxWallDurationPerJobLimit",
        "at most 00:10:00",
        "timelimit=00:10:00",
        ok=False,
    ),
    "suspended": Waiting(suspended, "SUSPENDED", "SUSPENDED", "scontrol resume"),
    "cancelled": Waiting(cancelled, "CANCELLED", "was cancelled", "sacct -j"),
    "failed": Waiting(failed, "FAILED", "code 3:0", "sacct -j", ok=False),
    "no longer in Slurm": Waiting(forgotten, "NotFound", "no longer has job 99999", "sacct -j 99999", ok=False),
    "a scale-in that waits for a job": Waiting(
        scale_in("nodeset/compute"),
        "ScalingIn",
        "compute-1 waits for job {first} of alice (until",
        "scontrol requeue {first}",
    ),
    "a worker that waits for its job": Waiting(
        scale_in("node/compute-1"), "GoingAway", "waits for job {first} of alice, until", "scontrol requeue {first}"
    ),
    "a database that is scaled to nothing": Waiting(
        without_database,
        "DatabaseDown",
        "StatefulSet mariadb is scaled to 0",
        "scale statefulset mariadb --replicas=1",
        ok=False,
    ),
    "a key whose Secret was deleted": Waiting(
        without_key,
        "SecretMissing",
        "'slurm-auth-jwt' does not exist",
        "create secret generic slurm-auth-jwt --from-file=jwt.key=",
        ok=False,
    ),
    "an sssd.conf that is not there": Waiting(
        without_sssd_conf, "SecretMissing", "'nosuch' does not exist", "create secret generic nosuch", ok=False
    ),
}


def prepare(cluster: LocalCluster) -> None:
    """An account with alice in it."""
    commands = ("add account physics", "add user alice account=physics")
    cluster.until("accounting answers", lambda: _accounts(cluster), 120)
    for command in commands:
        cluster.admin(shlex.join(["sacctmgr", "-i", *command.split()]))
