"""Jobs that wait, and what keeps them, each made on a real cluster: situation, how it is made, cause, next command.

Most rows stand side by side: their jobs share the nodes of partition `shared`, and every limit has a QOS or an account
of its own. Those that need whole nodes, reservations or drains come in waves of their own. Jobs are cancelled when a
wave ends, all at once. Used by `test_why.py` with the harness of `table.py`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import yaml
from tests.real.local.broken import partition
from tests.real.local.e2e.cluster import MANIFEST, LocalCluster
from tests.real.local.table import Make, Row, Wave

Json = dict[str, Any]
RUNS = "sleep 1200"
LEFT_OUT = ("metal", "all", "alice")
# Jobs do not share nodes but in one partition, and limits count; what ended stays to be asked about.
MORE_CONF = (
    "Licenses=matlab:2\nAccountingStorageEnforce=associations,limits,qos\nMinJobAge=1200\n"
    "SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0\nKillWait=1\n"
)


def manifest(version: str) -> str:
    """The cluster of the end-to-end tests, with workers on one machine and partitions that have bounds."""
    found = list(yaml.safe_load_all(MANIFEST.read_text().replace("VERSION", version)))
    kept = [each for each in found if each["metadata"]["name"] not in LEFT_OUT]
    for each in kept:
        if each["kind"] == "Controller":
            each["spec"]["extraConf"] += MORE_CONF
        if each["kind"] == "NodeSet":
            each["spec"]["partition"]["config"] = "Default=YES"
            each["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "local-0"}
    kept += [
        partition("short", maxTime="30"),
        partition("small", maxNodes=1),
        partition("closed", state="DOWN"),
        partition("shared", overSubscribe="FORCE:64"),
    ]
    return yaml.safe_dump_all(kept)


# Jobs


def submit(cluster: LocalCluster, *options: str, script: str = RUNS) -> str:
    """A job of alice's, which may wait."""
    return cluster.submit(script, *options).partition(";")[0]


def until_state(cluster: LocalCluster, number: str, state: str) -> None:
    """Wait in the pod itself, which is one command; a job that Slurm no longer lists has no state."""
    look = f'[ "$(squeue -h -j {number} -o %T 2>/dev/null)" = "{state}" ]'
    cluster.admin(f"n=0; until {look}; do n=$((n+1)); [ $n -lt 600 ] || exit 1; sleep 0.2; done")


@contextmanager
def job(cluster: LocalCluster, *options: str, script: str = RUNS, task: str = "") -> Iterator[str]:
    yield f"job/{submit(cluster, *options, script=script)}{task}"


def running(cluster: LocalCluster, *options: str) -> str:
    """The number of a job that runs."""
    number = submit(cluster, *options)
    until_state(cluster, number, "RUNNING")
    return number


def one(*options: str, **more: Any) -> Make:
    """A job that waits by itself."""
    return lambda cluster: job(cluster, *options, **more)


def behind(first: tuple[str, ...], *then: tuple[str, ...]) -> Make:
    """Jobs behind one that runs; the last of them is asked about."""

    @contextmanager
    def made(cluster: LocalCluster) -> Iterator[str]:
        number, last = running(cluster, *first), ""
        for options in then:
            last = submit(cluster, *(each.format(first=number) for each in options))
        yield f"job/{last} {number}"

    return made


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of a QOS, an account or a user in an account, which has nothing but this limit."""

    name: str
    limit: str
    kind: str = "qos"

    @property
    def commands(self) -> tuple[str, ...]:
        """What sacctmgr is told."""
        if self.kind == "qos":
            return (
                f"add qos {self.name} set {self.limit}",
                f"modify user alice where account=physics set qos+={self.name}",
            )
        account, user = f"add account {self.name}", f"add user alice account={self.name}"
        if self.kind == "account":
            return f"{account} {self.limit}", user
        return account, f"{user} {self.limit}"

    @property
    def options(self) -> tuple[str, ...]:
        """What a job of it is submitted with."""
        return ("-p", "shared", "-q", self.name) if self.kind == "qos" else ("-p", "shared", "-A", self.name)


BOUNDS = {
    each.name: each
    for each in (
        Bound("jobs-pu", "MaxJobsPU=1"),
        Bound("cpus-pu", "MaxTRESPU=cpu=1"),
        Bound("cpus-pu-alone", "MaxTRESPU=cpu=1"),
        Bound("jobs", "GrpJobs=1"),
        Bound("wall", "MaxWall=10"),
        Bound("cpus", "MaxTRES=cpu=1"),
        Bound("few", "GrpJobs=1", "account"),
        Bound("thin", "GrpTRES=cpu=1", "account"),
        Bound("own", "MaxJobs=1", "user"),
        Bound("brief", "MaxWall=10", "user"),
    )
}


def over(name: str, *options: str) -> Make:
    """A job that is over a limit by itself."""
    return one(*BOUNDS[name].options, *options)


def after(name: str) -> Make:
    """A job that is over a limit because another one runs."""
    options = (*BOUNDS[name].options, "-n1")
    return behind(options, options)


def prepare(cluster: LocalCluster) -> None:
    """Accounts with alice in them, and everything that has a limit."""
    cluster.until("accounting answers", lambda: accounts(cluster), 180)
    commands = ["add account physics", "add user alice account=physics"]
    commands += [each for bound in BOUNDS.values() for each in bound.commands]
    cluster.admin(" && ".join(shlex.join(["sacctmgr", "-i", *each.split()]) for each in commands))


def accounts(cluster: LocalCluster) -> bool:
    """Whether slurmdbd answers."""
    asked = ("exec", "slurm-controller-0", "-c", "slurmctld", "--", "sacctmgr", "-n", "show", "cluster")
    return cluster.attempt(*asked).returncode == 0


@contextmanager
def held_by_admin(cluster: LocalCluster) -> Iterator[str]:
    number = submit(cluster, "-H")
    cluster.admin(f"scontrol release {number}; scontrol hold {number}")
    yield f"job/{number}"


@contextmanager
def requeued_and_held(cluster: LocalCluster) -> Iterator[str]:
    number = running(cluster, "-p", "shared")
    cluster.admin(f"scontrol requeuehold {number}")
    until_state(cluster, number, "PENDING")
    yield f"job/{number}"


@contextmanager
def suspended(cluster: LocalCluster) -> Iterator[str]:
    number = running(cluster, "-p", "shared")
    cluster.admin(f"scontrol suspend {number}")
    yield f"job/{number}"


@contextmanager
def cancelled(cluster: LocalCluster) -> Iterator[str]:
    number = submit(cluster, "-H")
    cluster.admin(f"scancel {number}")
    yield f"job/{number}"


@contextmanager
def failed(cluster: LocalCluster) -> Iterator[str]:
    number = submit(cluster, "-p", "shared", script="exit 3")
    until_state(cluster, number, "")
    yield f"job/{number}"


@contextmanager
def never_satisfied(cluster: LocalCluster) -> Iterator[str]:
    with failed(cluster) as first:
        yield f"job/{submit(cluster, '-d', 'afterok:' + first.removeprefix('job/'))}"


@contextmanager
def forgotten(cluster: LocalCluster) -> Iterator[str]:
    yield "job/99999"


@contextmanager
def heterogeneous(cluster: LocalCluster) -> Iterator[str]:
    script = r"printf '#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n1\nsleep 600\n'"
    number = cluster.alice(f"{script} | sbatch --parsable -H -o /dev/null")
    yield f"job/{number}+1"


# Nodes


@contextmanager
def reservation(cluster: LocalCluster, name: str, start: str, *more: str) -> Iterator[None]:
    options = " ".join(more)
    cluster.admin(
        f"scontrol create reservation reservationname={name} starttime={start} duration=60 nodes=ALL {options}"
    )
    try:
        yield
    finally:
        cluster.admin(f"scancel -u alice; scontrol delete reservationname={name}")


@contextmanager
def reserved_for_later(cluster: LocalCluster) -> Iterator[str]:
    with reservation(cluster, "later", "now+3hours", "users=alice"), job(cluster, "--reservation=later") as target:
        yield target


@contextmanager
def reserved_for_soon(cluster: LocalCluster) -> Iterator[str]:
    with (
        reservation(cluster, "soon", "now+30minutes", "users=root", "flags=maint"),
        job(cluster, "-t", "60") as target,
    ):
        yield target


@contextmanager
def reserved_for_others(cluster: LocalCluster) -> Iterator[str]:
    with reservation(cluster, "mine", "now", "users=root", "flags=ignore_jobs"), job(cluster) as target:
        yield target


@contextmanager
def _drained(cluster: LocalCluster) -> Iterator[None]:
    cluster.admin("scontrol update nodename=compute-0 state=drain reason='bad dimm'")
    try:
        yield
    finally:
        cluster.admin("scontrol update nodename=compute-0 state=resume")


@contextmanager
def _scaling_in(cluster: Any) -> Iterator[None]:
    """A NodeSet that becomes smaller while a job runs on the worker that goes; it could run on the one that stays."""
    with ExitStack() as stack:
        jobs = [running(cluster, *HALF), running(cluster, *HALF)]
        cluster.first = {cluster.alice(f"squeue -h -j {each} -o %B"): each for each in jobs}["compute-1"]
        # Of two busy workers that goes whose jobs end first.
        cluster.admin(f"scontrol update jobid={cluster.first} timelimit=50")
        _replicas(cluster, 1)
        stack.callback(_replicas, cluster, 2)
        yield


def leaving(target: str) -> Make:
    """What waits for the job of the scale-in."""

    @contextmanager
    def made(cluster: Any) -> Iterator[str]:
        yield f"{target} {cluster.first}"

    return made


def _replicas(cluster: LocalCluster, number: int) -> None:
    cluster.kubectl("patch", "nodeset", "compute", "--type=merge", "-p", json.dumps({"spec": {"replicas": number}}))


# What jobs stand on


@contextmanager
def without_database(cluster: LocalCluster) -> Iterator[str]:
    cluster.kubectl("scale", "statefulset", "mariadb", "--replicas=0")
    try:
        yield "accounting/slurm"
    finally:
        cluster.kubectl("scale", "statefulset", "mariadb", "--replicas=1")
        cluster.until("accounting answers", lambda: accounts(cluster), 180)


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
def without_sssd(cluster: LocalCluster) -> Iterator[str]:
    inside = ("exec", "deploy/login", "-c", "login", "--", "sh", "-c")
    cluster.kubectl(*inside, "for p in /proc/[0-9]*; do grep -qx sssd $p/comm && kill ${p##*/}; done; true")
    try:
        yield "loginset/login"
    finally:
        cluster.kubectl("rollout", "restart", "deploy/login")
        cluster.kubectl("rollout", "status", "deploy/login", "--timeout=180s")


FULL = ("-N2", "--exclusive", "-t", "60")
HALF = ("-N1", "--exclusive", "-t", "60")
SHARED = ("-p", "shared")
_BESIDE_EACH_OTHER: dict[str, Row] = {
    "held by its owner": Row(one("-H"), "JobHeldUser", "its owner alice holds it", "scontrol release", ok=True),
    "held by an administrator": Row(held_by_admin, "JobHeldAdmin", "an administrator", "scontrol release", ok=True),
    "requeued and held": Row(
        requeued_and_held,
        "job requeued in held state|JobHeldAdmin|JobHeldUser",
        "hold|held",
        "scontrol release",
        ok=True,
    ),
    "longer than its partition allows": Row(
        one("-p", "short", "-t", "60"),
        "PartitionTimeLimit",
        "01:00:00, and partition short allows at most 00:30:00",
        "timelimit=30",
        ok=False,
    ),
    "more nodes than its partition allows": Row(
        one("-p", "small", "-N2"),
        "PartitionNodeLimit",
        "2 nodes, and partition small allows at most 1",
        "numnodes=1",
        ok=False,
    ),
    "later": Row(one("-b", "now+1hour"), "BeginTime", "must not start before", "starttime=now", ok=True),
    "after a job that runs": Row(
        behind(SHARED, (*SHARED, "-d", "afterok:{first}")),
        "Dependency",
        "job {first} has ended well; that one is RUNNING",
        "why job/{first}",
        ok=True,
    ),
    "after any end of a job that runs": Row(
        behind(SHARED, (*SHARED, "-d", "afterany:{first}")),
        "Dependency",
        "job {first} has ended; that one is RUNNING",
        "why job/{first}",
        ok=True,
    ),
    "after the failure of a job that runs": Row(
        behind(SHARED, (*SHARED, "-d", "afternotok:{first}")),
        "Dependency",
        "job {first} has failed",
        "why job/{first}",
        ok=True,
    ),
    "after a job that failed": Row(
        never_satisfied, "DependencyNeverSatisfied", "will never start", "scancel", ok=False
    ),
    "the only one of its name": Row(
        behind((*SHARED, "-J", "same"), (*SHARED, "-J", "same", "-d", "singleton")),
        "Dependency",
        "same name and user",
        "why job/{first}",
        ok=True,
    ),
    "a license that is in use": Row(
        behind((*SHARED, "-L", "matlab:2"), (*SHARED, "-L", "matlab:1")),
        "Licenses",
        "1 of license matlab, and 0 of 2 are free",
        "squeue -t R -L matlab",
        ok=True,
    ),
    "a task of a throttled array": Row(
        one(*SHARED, "--array=0-9%1", task="_5"), "JobArrayTaskLimit", "1 task at once", "arraytaskthrottle=0", ok=True
    ),
    "a task of an array that is held": Row(
        one("-H", "--array=0-999", task="_500"), "JobHeldUser", "its owner alice holds it", "scontrol release", ok=True
    ),
    "a component of a heterogeneous job": Row(heterogeneous, "JobHeldUser", "+1 waits", "scontrol release", ok=True),
    "in a partition that is DOWN": Row(
        one("-p", "closed"), "PartitionNotUp", "closed is DOWN", "partition up closed", ok=True
    ),
    "running jobs of a QOS for each user": Row(
        after("jobs-pu"),
        "QOSMaxJobsPerUserLimit",
        "QOS jobs-pu allows at most 1 running job for each user (MaxJobsPU), and 1 is in use",
        "squeue -t R -q jobs-pu -u alice",
        ok=True,
    ),
    "CPUs of a QOS for each user": Row(
        after("cpus-pu"),
        "QOSMaxCpuPerUserLimit",
        "at most 1 CPU for each user (MaxTRESPU), and 1 is in use",
        "squeue -t R -q cpus-pu -u alice",
        ok=True,
    ),
    "more CPUs than a QOS allows each user": Row(
        over("cpus-pu-alone", "-n2"),
        "QOSMaxCpuPerUserLimit",
        "at most 1 CPU for each user (MaxTRESPU), and it asks for 2",
        "numcpus=1",
        ok=False,
    ),
    "running jobs of a QOS in all": Row(
        after("jobs"),
        "QOSGrpJobsLimit",
        "QOS jobs allows at most 1 running job (GrpJobs), and 1 is in use",
        "squeue -t R -q jobs",
        ok=True,
    ),
    "longer than its QOS allows": Row(
        over("wall", "-t", "60"),
        "QOSMaxWallDurationPerJobLimit",
        "at most 00:10:00 for each job (MaxWall), and it asks for 01:00:00",
        "timelimit=00:10:00",
        ok=False,
    ),
    "more CPUs than its QOS allows a job": Row(
        over("cpus", "-n2"), "QOSMaxCpuPerJobLimit", "at most 1 CPU", "numcpus=1", ok=False
    ),
    "running jobs of an account": Row(
        after("few"),
        "AssocGrpJobsLimit",
        "account few allows at most 1 running job (GrpJobs), and 1 is in use",
        "squeue -t R -A few",
        ok=True,
    ),
    "CPUs of an account": Row(
        over("thin", "-n2"),
        "AssocGrpCpuLimit",
        "account thin allows at most 1 CPU (GrpTRES), and it asks for 2",
        "numcpus=1",
        ok=False,
    ),
    "running jobs of a user in an account": Row(
        after("own"),
        "AssocMaxJobsLimit",
        "the association of alice in account own allows at most 1 running job",
        "squeue -t R -A own -u alice",
        ok=True,
    ),
    "longer than its association allows": Row(
        over("brief", "-t", "60"),
        "AssocMaxWallDurationPerJobLimit",
        "at most 00:10:00 for each job (MaxWall), and it asks for 01:00:00",
        "timelimit=00:10:00",
        ok=False,
    ),
    "suspended": Row(suspended, "SUSPENDED", "SUSPENDED", "scontrol resume", ok=True),
    "cancelled": Row(cancelled, "CANCELLED", "cancelled it", "sacct -j", ok=True),
    "failed": Row(failed, "FAILED", "code 3:0", "sacct -j", ok=False),
    "no longer in Slurm": Row(forgotten, "NotFound", "has no job 99999", "sacct -j 99999", ok=False),
}
WAVES: dict[str, Wave] = {
    "jobs beside each other": Wave(_BESIDE_EACH_OTHER),
    "a node that is busy": Wave(
        {
            "two nodes, of which one is busy": Row(
                behind(HALF, ("-N2", "--exclusive")),
                "Resources",
                "1 is free, 1 more needed",
                '{"spec":{"replicas":3}}',
                ok=True,
            ),
        }
    ),
    "two nodes that are busy": Wave(
        {
            "two nodes, both busy": Row(
                behind(FULL, ("-N2", "--exclusive")),
                "Resources",
                "none is free, and 2 needed; compute-0 and compute-1 run job {first} of alice until",
                '{"spec":{"replicas":4}}',
                ok=True,
            ),
            "behind another one": Row(
                one("-N2", "--exclusive"), "Priority|Resources", "ahead of it: first job", "why job/", ok=True
            ),
        }
    ),
    "reservations of later": Wave(
        {
            "a reservation of later": Row(
                reserved_for_later, "Reservation", "reservation later begins at", "show reservation later", ok=True
            ),
            "nodes that are reserved before it would end": Row(
                reserved_for_soon, "ReqNodeNotAvail", "reservation soon from", "timelimit=2", ok=True
            ),
        }
    ),
    "a reservation of others": Wave(
        {
            "nodes that others have reserved": Row(
                reserved_for_others,
                "ReqNodeNotAvail|Resources|Priority|Reservation",
                "reservation mine",
                "scontrol show reservation",
                ok=True,
            ),
        }
    ),
    "a drain": Wave(
        {
            "a node that is drained": Row(
                one("-w", "compute-0"), "DrainedBySomebody", "bad dimm", "state=resume", ok=False
            ),
            "two nodes, of which one is drained": Row(
                one("-N2"), "DrainedBySomebody", "bad dimm", "state=resume", ok=False
            ),
        },
        _drained,
    ),
    "a scale-in": Wave(
        {
            "a scale-in that waits for a job": Row(
                leaving("nodeset/compute"),
                "ScalingIn",
                "compute-1 waits for job {first} of alice (until",
                "scontrol requeue {first}",
                ok=True,
            ),
            "a worker that waits for its job": Row(
                leaving("node/compute-1"),
                "GoingAway",
                "waits for job {first} of alice, until",
                "scontrol requeue {first}",
                ok=True,
            ),
        },
        _scaling_in,
    ),
    "a database": Wave(
        {
            "a job that is held while there is no database": Row(
                one("-H"), "JobHeldUser", "its owner alice holds it", "scontrol release", ok=True
            ),
            "a database that is scaled to nothing": Row(
                without_database,
                "DatabaseDown",
                "StatefulSet mariadb is scaled to 0",
                "scale statefulset mariadb --replicas=1",
                ok=False,
            ),
        }
    ),
    "a key and a directory": Wave(
        {
            "a key whose Secret was deleted": Row(
                without_key,
                "SecretMissing",
                "'slurm-auth-jwt' does not exist",
                "create secret generic slurm-auth-jwt --from-file=jwt.key=",
                ok=False,
            ),
            "a login pod without its sssd": Row(
                without_sssd, "SssdNotRunning", "sssd does not run", "logs login", ok=False
            ),
        }
    ),
}
