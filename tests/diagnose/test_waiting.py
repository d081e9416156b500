"""Why a job waits: the cause with its numbers, the next command, and whether anything is wrong at all."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from tests.diagnose.broken import cluster, resource, waiting
from tests.diagnose.reason_names import NAMES_24_11, NAMES_26_05
from tests.diagnose.said import said

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause, Diagnosis, Fine, Unseen
from slurm_operator.diagnose.facts import Limits, Slurm, SlurmLicense, SlurmReservation
from slurm_operator.diagnose.reasons import REASONS, limit_of
from slurm_operator.diagnose.scontrol import gres_counts

NOW = "2026-11-17T12:00:00Z"
NODES = """\
NodeName=compute-0 CPUAlloc=0 CPUTot=4 RealMemory=8000 State=IDLE+DYNAMIC_NORM Partitions=compute Features=a,b
NodeName=compute-1 CPUAlloc=4 CPUTot=4 RealMemory=8000 State=ALLOCATED+DYNAMIC_NORM Partitions=compute
"""
LEFT = (
    "NodeName=compute-4 CPUTot=4 RealMemory=8000 State=DOWN+DRAIN+DYNAMIC_NORM Partitions=compute "
    "Reason=slurm-operator: Pod is terminating\n"
)
RUNS = (
    "JobId=7 JobName=train UserId=alice(1000) JobState=RUNNING Partition=compute NodeList=compute-1 NumCPUs=4 "
    "EndTime=2026-11-17T14:05:00Z QOS=normal Account=physics Priority=99\n"
)
PARTITION = "PartitionName=compute State=UP Nodes=compute-[0-1] MaxTime=30 MaxNodes=2"
TO_14_05 = "until 14:05:00 UTC at the latest"


@dataclass(frozen=True, slots=True)
class Row:
    """A job 9 of bob's, what Slurm says of it, and what is to be said."""

    asks: str
    code: str
    words: str
    command: str
    ok: bool = True
    nodes: str = NODES
    others: str = RUNS
    partition: str = PARTITION
    target: str = "job/9"


def job(asks: str) -> str:
    given = asks if "JobId=" in asks else f"JobId=9 {asks}"
    more = "" if "JobState=" in asks else " JobState=PENDING"
    return f"{given} JobName=j UserId=bob(1001) Partition=compute{more}"


def slurm_of(row: Row) -> Slurm:
    found = said(row.nodes, row.others + job(row.asks), row.partition)
    return replace(
        found,
        licenses={"matlab": SlurmLicense("matlab", 2, 2)},
        reservations={"later": SlurmReservation("later", 1_794_924_000, 1_794_927_600, (), ("compute-0", "compute-1"))},
        limits=Limits(
            {"normal": {"Name": "normal", "MaxJobsPU": "1", "GrpTRES": "cpu=4,mem=10G", "MaxWall": "00:10:00"}},
            (
                {"Account": "physics", "User": "bob", "Partition": "", "ParentName": "", "MaxJobs": "2"},
                {"Account": "physics", "User": "", "Partition": "", "ParentName": "science"},
                {"Account": "science", "User": "", "Partition": "", "ParentName": "root", "GrpJobs": "1"},
            ),
        ),
    )


def answer(row: Row) -> Diagnosis:
    return explained(replace(cluster(slurm=slurm_of(row)), now=NOW), row.target)


WHOLE = "Reason=Resources ReqTRES=cpu=1,mem=8000M,node=1,billing=1"
# Each job got a node's memory whole, and CPUs are left.
FULL = NODES.replace("CPUAlloc=0", "CPUAlloc=1 AllocMem=8000").replace("CPUAlloc=4", "CPUAlloc=1 AllocMem=8000")
LEFT_0 = "compute-0 has 0 of 8000 MiB free, compute-1 has 0 of 8000 MiB free"
TWO = "Reason=Resources NumNodes=2 NumCPUs=8"
ROWS: dict[str, Row] = {
    "one node is free and two are needed": Row(
        TWO,
        "Resources",
        f"it needs 2 nodes of 4 CPUs; 1 is free, 1 more needed; compute-1 runs job 7 of alice {TO_14_05}",
        """patch nodeset compute --type=merge -p '{"spec":{"replicas":3}}'""",
    ),
    "when it will start": Row(
        f"{TWO} StartTime=2026-11-17T14:05:00Z", "Resources", "Slurm expects to start it at 14:05:00 UTC", "replicas"
    ),
    "a start on another day": Row(
        f"{TWO} StartTime=2026-11-18T09:30:00Z", "Resources", "start it at 2026-11-18 09:30 UTC", "replicas"
    ),
    "a start in a year, which is Slurm's word for no idea": Row(
        f"{TWO} StartTime=2027-11-17T12:00:00Z", "Resources", "; Slurm knows no time for its start", "replicas"
    ),
    "a start in a year, by a plan of some time ago": Row(
        f"{TWO} StartTime=2027-11-17T03:00:00Z", "Resources", "; Slurm knows no time for its start", "replicas"
    ),
    "a start a year after that of a job without an end": Row(
        f"{TWO} StartTime=2027-02-01T08:00:30Z",
        "Resources",
        "without a time limit; Slurm knows no time for its start",
        "replicas",
        others=RUNS.replace("EndTime=2026-11-17T14:05:00Z", "StartTime=2026-02-01T08:00:00Z"),
    ),
    "an exclusive job beside a small one": Row(
        "Reason=Resources NumNodes=2 NumCPUs=2 Exclusive=1", "Resources", "1 is free, 1 more needed", "replicas"
    ),
    "an exclusive job of 26.05": Row(
        "Reason=Resources NumNodes=2 NumCPUs=2 SubmitLine=sbatch -N2 --exclusive x.sh",
        "Resources",
        "it needs 2 whole nodes; none is free, and 2 needed",
        "replicas",
        nodes=NODES.replace("CPUAlloc=0", "CPUAlloc=1").replace("CPUAlloc=4", "CPUAlloc=1").replace("IDLE", "MIXED"),
    ),
    "memory that is in use": Row(
        "Reason=Resources NumNodes=1 MinMemoryNode=6000",
        "Resources",
        "it needs 1 node of 1 CPU and 6000 MiB of memory; none is free, and 1 needed; compute-0 has 4000 of 8000 MiB "
        "free; compute-1 runs job 7",
        "replicas",
        nodes=NODES.replace("CPUAlloc=0 CPUTot=4", "CPUAlloc=1 AllocMem=4000 CPUTot=4").replace("IDLE", "MIXED"),
    ),
    "all memory of a node, of which another job has all": Row(
        WHOLE,
        "Resources",
        "it needs 1 node of 1 CPU and all of its memory (8000 MiB), since neither the job (--mem) nor the "
        "configuration (DefMemPerCPU, DefMemPerNode) sets less; none is free, and 1 needed; "
        f"{LEFT_0}; compute-1 runs job 7 of alice {TO_14_05}",
        '"replicas":3',
        nodes=FULL,
    ),
    "all memory of a node, for a task of an array": Row(
        f"JobId=9 {WHOLE} ArrayJobId=9 ArrayTasks=0-4",
        "Resources",
        LEFT_0,
        '"replicas":3',
        nodes=FULL,
        target="job/9_3",
    ),
    "all memory of two nodes": Row(
        f"{WHOLE.replace('8000M', '16000M')} NumNodes=2 NumCPUs=2",
        "Resources",
        "2 nodes of 1 CPU and all memory of each (8000 MiB)",
        '"replicas":4',
        nodes=FULL,
    ),
    "all memory of a node, of which another job has a part": Row(
        WHOLE,
        "Resources",
        "compute-0 has 7000 of 8000 MiB free, compute-1 has 0 of 8000 MiB free; compute-1 runs job 7 of alice "
        f"{TO_14_05}; with 2000 MiB of memory on each node it would fit now",
        "scontrol update jobid=9 minmemorynode=2000",
        nodes=FULL.replace("AllocMem=8000", "AllocMem=1000", 1),
    ),
    "all memory of a node where Slurm does not count memory": Row(
        WHOLE, "Resources", "1 node has room for that", "sdiag"
    ),
    "all memory of nodes that differ": Row(
        # Slurm counts the average of the partition's nodes, and gives what the node has.
        WHOLE.replace("8000M", "16000M"),
        "Resources",
        "none is free",
        "replicas",
        nodes=FULL,
    ),
    "memory for each GPU": Row(
        "Reason=Resources ReqTRES=cpu=1,mem=5.86G,node=1,billing=1 MemPerTres=gres:gpu:3000 TresPerNode=gres/gpu:2",
        "Resources",
        "1 node of 1 CPU and 6000 MiB of memory; none is free, and 1 needed; compute-0 has 4000 of 8000 MiB free",
        "replicas",
        nodes=NODES.replace("Features=a,b", "AllocMem=4000 Gres=gpu:h100:4(S:0)"),
    ),
    "more memory than any node has": Row(
        "Reason=Resources NumNodes=1 MinMemoryNode=9000", "NodesTooSmall", "9000 MiB", "sinfo", ok=False
    ),
    "more CPUs than any node has": Row(
        "Reason=BadConstraints NumNodes=2 NumCPUs=64", "NodesTooSmall", "at most 4 CPUs", "sinfo", ok=False
    ),
    "a feature that one of two nodes has": Row(
        "Reason=BadConstraints NumNodes=2 Features=a&b",
        "NodesTooSmall",
        "2 nodes with 1 CPU and features a&b, and only 1 of 2 nodes of partition compute has that: "
        "the others have no feature a and no feature b",
        "sinfo",
        ok=False,
    ),
    "a task that no node has room for": Row(
        "Reason=Resources NumNodes=1 NumCPUs=8 CpusPerTask=8 MinCPUsNode=8",
        "NodesTooSmall",
        "needs 1 node with 8 CPUs for one task, and no node of partition compute has that: they have at most 4 CPUs",
        "sinfo",
        ok=False,
    ),
    "tasks that do not fit on one node together": Row(
        "Reason=PartitionConfig NumNodes=4 NumCPUs=20 TasksPerNode=5",
        "NodesTooSmall",
        "needs 4 nodes with 5 CPUs (5 tasks of 1 CPU go on one node), and no node of partition compute has that",
        "sinfo",
        ok=False,
    ),
    "tasks of several CPUs that do not fit on one node together": Row(
        "Reason=BadConstraints NumNodes=2 NumCPUs=12 TasksPerNode=3 CpusPerTask=2",
        "NodesTooSmall",
        "6 CPUs (3 tasks of 2 CPUs go on one node)",
        "sinfo",
        ok=False,
    ),
    "memory for each CPU of a task": Row(
        "Reason=BadConstraints NumNodes=1 NumCPUs=4 CpusPerTask=4 MinMemoryCPU=4000",
        "NodesTooSmall",
        "4 CPUs for one task and 16000 MiB of memory (4000 for each CPU), and no node of partition compute has that: "
        "they have at most 8000 MiB",
        "sinfo",
        ok=False,
    ),
    "one node that is not to be more": Row(
        "Reason=BadConstraints NumNodes=1 MaxNodes=1 NumCPUs=8",
        "NodesTooSmall",
        "1 node with 8 CPUs",
        "sinfo",
        ok=False,
    ),
    "tasks that spread over more nodes than there are": Row(
        "Reason=PartitionConfig NumNodes=1 NumCPUs=12",
        "PartitionTooSmall",
        "3 nodes, and partition compute has 2",
        '"replicas":3',
        ok=False,
    ),
    "tasks of three CPUs that spread over more nodes than there are": Row(
        "Reason=PartitionConfig NumNodes=1 NumCPUs=9 CpusPerTask=3",
        "PartitionTooSmall",
        "3 nodes, and partition compute has 2",
        '"replicas":3',
        ok=False,
    ),
    "GPUs that no node has": Row(
        "Reason=BadConstraints TresPerNode=gres/gpu:1", "NodesTooSmall", "gres/gpu:1", "sinfo", ok=False
    ),
    "GPUs that are in use": Row(
        "Reason=Resources TresPerNode=gres/gpu:2",
        "Resources",
        "none is free, and 1 needed",
        "replicas",
        nodes=NODES.replace("Features=a,b", "Gres=gpu:h100:4(S:0) GresUsed=gpu:h100:3(IDX:0-2)"),
    ),
    "more nodes than there are": Row(
        "Reason=PartitionConfig NumNodes=5 NumCPUs=5",
        "PartitionTooSmall",
        "5 nodes, and partition compute has 2",
        '"replicas":5',
        ok=False,
    ),
    "a node that is drained": Row(
        TWO,
        "DrainedBySomebody",
        "user root drained compute-1: bad dimm",
        "state=resume",
        ok=False,
        nodes=NODES.replace("State=ALLOCATED", "By=root Reason=bad dimm State=IDLE+DRAIN"),
    ),
    "a node that it must have is drained": Row(
        "Reason=ReqNodeNotAvail Description=ReqNodeNotAvail, UnavailableNodes:compute-1 ReqNodeList=compute-1",
        "DrainedBySomebody",
        "bad dimm",
        "state=resume",
        ok=False,
        nodes=NODES.replace("State=ALLOCATED", "By=root Reason=bad dimm State=IDLE+DRAIN"),
    ),
    "the node that it must have was scaled away": Row(
        "Reason=ReqNodeNotAvail Description=ReqNodeNotAvail, UnavailableNodes:compute-4 ReqNodeList=compute-4",
        "PodGone",
        "node compute-4 no longer has a pod, and job 9 of bob can run on no other node",
        "scontrol update jobid=9 reqnodelist=",
        ok=False,
        nodes=NODES + LEFT,
        partition=PARTITION.replace("0-1", "0-4"),
    ),
    "so it was, and the job may not start yet": Row(
        "Reason=BeginTime StartTime=2026-11-17T15:00:00Z ReqNodeList=compute-4",
        "PodGone",
        "Let the job run on other nodes, or cancel the job (scancel 9)",
        "scontrol update jobid=9 reqnodelist=",
        ok=False,
        nodes=NODES + LEFT,
    ),
    "the node that it must have is not in Slurm": Row(
        "Reason=BeginTime StartTime=2026-11-17T15:00:00Z ReqNodeList=compute-4",
        "PodGone",
        "can run on no node but compute-4 (sbatch -w), of which Slurm has no record any more",
        "scontrol update jobid=9 reqnodelist=",
        ok=False,
    ),
    "nodes in a reservation": Row(
        "Reason=ReqNodeNotAvail Description=ReqNodeNotAvail, May be reserved for other job NumNodes=2",
        "ReqNodeNotAvail",
        "compute-0 is in reservation mine",
        "scontrol show reservation",
        nodes=NODES.replace("State=IDLE", "Reservation=mine State=IDLE+RESERVED"),
    ),
    "nodes that are reserved for later": Row(
        # Slurm's own word is Reservation here, though the job has none.
        "Reason=Reservation Description=ReqNodeNotAvail, Reserved for maintenance",
        "ReqNodeNotAvail",
        "compute-0 is in reservation later from 14:00:00 UTC, before which it would not end; a time limit below",
        "scontrol update jobid=9 timelimit=119",
    ),
    "free nodes": Row(
        "Reason=Resources", "Resources", "1 node has room for that; Slurm has not tried again since", "sdiag"
    ),
    "a job ahead": Row(
        "Reason=Priority Priority=5",
        "Priority",
        "1 job is ahead of it: first job 8 of alice, with priority 6 against 5",
        "why job/8",
        others=f"{RUNS}JobId=8 JobState=PENDING Reason=Resources UserId=alice(1) Partition=compute Priority=6\n",
    ),
    "an older job of the same priority ahead": Row(
        "Reason=Priority Priority=5",
        "Priority",
        "first job 8 of alice, of the same priority and older",
        "why job/8",
        others=f"{RUNS}JobId=8 JobState=PENDING Reason=Resources UserId=alice(1) Partition=compute Priority=5\n",
    ),
    "busy nodes, and a job ahead": Row(
        f"{TWO} Priority=5",
        "Resources",
        "at the latest; 1 job is ahead of it: first job 8 of alice",
        "why job/8",
        others=f"{RUNS}JobId=8 JobState=PENDING Reason=Resources UserId=alice(1) Partition=compute Priority=6\n",
    ),
    "a held job is not ahead": Row(
        "Reason=Priority Priority=5",
        "Priority",
        "jobs of higher priority",
        "squeue",
        others=f"{RUNS}JobId=8 JobState=PENDING Reason=JobHeldUser UserId=alice(1) Partition=compute Priority=6\n",
    ),
    "longer than its partition allows": Row(
        "Reason=PartitionTimeLimit TimeLimit=60",
        "PartitionTimeLimit",
        "it asks for 01:00:00, and partition compute allows at most 00:30:00 (MaxTime)",
        "scontrol update jobid=9 timelimit=30",
        ok=False,
    ),
    "more nodes than its partition allows": Row(
        "Reason=PartitionNodeLimit NumNodes=3",
        "PartitionNodeLimit",
        "3 nodes, and partition compute allows at most 2 (MaxNodes)",
        "numnodes=2",
        ok=False,
    ),
    "tasks that spread over more nodes than its partition allows": Row(
        "Reason=PartitionNodeLimit NumNodes=1 NumCPUs=12",
        "PartitionNodeLimit",
        "it asks for 3 nodes for its 12 CPUs, and partition compute allows at most 2 (MaxNodes)",
        "scontrol show partition compute",
        ok=False,
    ),
    "a bound on nodes that nothing explains": Row(
        "Reason=PartitionNodeLimit NumNodes=1",
        "PartitionNodeLimit",
        "it asks for 1 node, and partition compute has 2 nodes, MinNodes=0, MaxNodes=2",
        "scontrol show partition compute",
        ok=False,
    ),
    "fewer nodes than its partition allows": Row(
        "Reason=PartitionNodeLimit NumNodes=1",
        "PartitionNodeLimit",
        "no fewer than 2 (MinNodes)",
        "numnodes=2",
        ok=False,
        partition=f"{PARTITION} MinNodes=2",
    ),
    "a partition that is DOWN": Row(
        "Reason=PartitionDown",
        "PartitionNotUp",
        "compute is DOWN",
        "kubectl",
        ok=False,
        partition=PARTITION.replace("UP", "DOWN"),
    ),
    "after a job that runs": Row(
        "Reason=Dependency Dependency=afterok:7(unfulfilled)",
        "Dependency",
        f"until job 7 has ended well; that one is RUNNING {TO_14_05}",
        "why job/7",
    ),
    "after a job that Slurm no longer has": Row(
        "Reason=Dependency Dependency=afterany:3(unfulfilled)",
        "Dependency",
        "Slurm no longer has that job",
        "scontrol update jobid=9 dependency=",
        ok=False,
    ),
    "after a job that failed": Row(
        "Reason=DependencyNeverSatisfied Dependency=afterok:7(failed)",
        "DependencyNeverSatisfied",
        "job 7 has ended well; that one is FAILED, so it will never start",
        "scancel 9",
        ok=False,
        others=RUNS.replace("RUNNING", "FAILED"),
    ),
    "the only one of its name": Row(
        "Reason=Dependency Dependency=singleton(unfulfilled)",
        "Dependency",
        "job 6 of the same name and user has ended",
        "why job/6",
        others="JobId=6 JobName=j JobState=RUNNING UserId=bob(1001) Partition=compute NodeList=compute-1\n",
    ),
    "after a task of an array": Row(
        "Reason=Dependency Dependency=afterany:5_2(unfulfilled)",
        "Dependency",
        "job 5_2 has ended; that one is RUNNING",
        "why job/6",
        others="JobId=6 ArrayJobId=5 ArrayTaskId=2 JobState=RUNNING UserId=bob(1) NodeList=compute-1\n",
    ),
    "a license in use": Row(
        "Reason=Licenses Licenses=matlab:1",
        "Licenses",
        "1 of license matlab, and 0 of 2 are free",
        "squeue -t R -L matlab",
    ),
    "more licenses than there are": Row(
        "Reason=Licenses Licenses=matlab:3", "Licenses", "never enough", "scontrol show licenses", ok=False
    ),
    "a reservation of later": Row(
        "Reason=Reservation Reservation=later",
        "Reservation",
        "reservation later begins at 14:00:00 UTC",
        "reservation later",
    ),
    "a reservation that is gone": Row(
        "Reason=Reservation Reservation=gone", "Reservation", "gone does not exist", "reservationname=", ok=False
    ),
    "a reservation that was deleted": Row(
        "Reason=ReservationDeleted Reservation=gone", "ReservationDeleted", "was deleted", "reservationname=", ok=False
    ),
    "later": Row(
        "Reason=BeginTime StartTime=2026-11-17T15:00:00Z", "BeginTime", "before 15:00:00 UTC", "starttime=now"
    ),
    "held by its owner": Row("Reason=JobHeldUser", "JobHeldUser", "its owner bob holds it", "scontrol release 9"),
    "held by an administrator": Row("Reason=JobHeldAdmin", "JobHeldAdmin", "an administrator", "scontrol release 9"),
    "it could not be launched": Row(
        "Reason=JobHeldAdmin Description=launch failed requeued held",
        "launch failed requeued held",
        "could not be launched",
        "scontrol release 9",
        ok=False,
    ),
    "a prolog that failed": Row(
        "Reason=JobHeldAdmin Description=launch failed requeued held",
        "launch failed requeued held",
        "Slurm has drained compute-1 for that: Prolog error. Once that is fixed, resume the node, and then release "
        "the job: scontrol release 9",
        "logs compute-1 -c slurmd",
        ok=False,
        nodes=NODES.replace("State=ALLOCATED", "Reason=Prolog error State=IDLE+DRAIN"),
    ),
    "requeued too often": Row(
        "Reason=JobHoldMaxRequeue", "JobHoldMaxRequeue", "too often", "scontrol release 9", ok=False
    ),
    "a task of a throttled array": Row(
        "JobId=9 Reason=JobArrayTaskLimit ArrayJobId=9 ArrayTasks=2-99%1 ArrayTaskThrottle=1",
        "JobArrayTaskLimit",
        "job 9_[2-99%1] waits: its array may run 1 task at once, and 1 task runs now, the first of them until",
        "arraytaskthrottle=0",
        target="job/9_50",
        others="JobId=8 ArrayJobId=9 ArrayTaskId=1 JobState=RUNNING UserId=bob(1) Partition=compute NodeList=compute-1 "
        "EndTime=2026-11-17T14:05:00Z\n",
    ),
    "a task beyond what Slurm prints of a list": Row(
        "JobId=9 Reason=JobHeldUser ArrayJobId=9 ArrayTasks=0,2,4,...",
        "JobHeldUser",
        "bob",
        "scontrol release 9",
        target="9_500",
    ),
    "a component of a heterogeneous job": Row(
        "JobId=9 Reason=Resources HetJobId=8 HetJobOffset=1", "Resources", "job 8+1 waits", "sdiag", target="8+1"
    ),
    "running jobs of a QOS for each user": Row(
        "Reason=QOSMaxJobsPerUserLimit QOS=normal",
        "QOSMaxJobsPerUserLimit",
        "QOS normal allows at most 1 running job for each user (MaxJobsPU), and 0 are in use",
        "squeue -t R -q normal -u bob",
    ),
    "CPUs of a QOS": Row(
        "Reason=QOSGrpCpuLimit QOS=normal",
        "QOSGrpCpuLimit",
        "QOS normal allows at most 4 CPUs (GrpTRES), and 4 are in use",
        "squeue -t R -q normal",
    ),
    "more CPUs than its QOS has in all": Row(
        "Reason=QOSGrpCpuLimit QOS=normal NumCPUs=8 NumNodes=2",
        "QOSGrpCpuLimit",
        "QOS normal allows at most 4 CPUs (GrpTRES), and it asks for 8",
        "numcpus=4",
        ok=False,
    ),
    "longer than its QOS allows": Row(
        "Reason=QOSMaxWallDurationPerJobLimit QOS=normal",
        "QOSMaxWallDurationPerJobLimit",
        "at most 00:10:00 for each job (MaxWall), and it asks for 01:00:00",
        "timelimit=00:10:00",
        ok=False,
    ),
    "jobs of an account above its own": Row(
        "Reason=AssocGrpJobsLimit Account=physics",
        "AssocGrpJobsLimit",
        "account science allows at most 1 running job (GrpJobs), and 1 is in use",
        "squeue -t R -A physics",
    ),
    "jobs of a user in an account": Row(
        "Reason=AssocMaxJobsLimit Account=physics",
        "AssocMaxJobsLimit",
        "the association of bob in account physics allows at most 2 running jobs (MaxJobs)",
        "squeue -t R -A physics -u bob",
    ),
    "a limit of which sacctmgr says nothing": Row(
        "Reason=QOSGrpBillingMinutes QOS=normal",
        "QOSGrpBillingMinutes",
        "QOS normal sets a limit on billing units minutes (GrpTRESMins)",
        "sacctmgr show qos normal format=Name,GrpTRESMins",
        ok=False,
    ),
    "an account that does not exist": Row(
        "Reason=InvalidAccount Account=nosuch", "InvalidAccount", "nosuch", "sacctmgr show assoc user=bob", ok=False
    ),
    "an account that a shell would run": Row(
        "Reason=AssocGrpJobsLimit Account=a;reboot", "AssocGrpJobsLimit", "a;reboot", "shell -- scontrol show job 9"
    ),
    "it failed": Row("JobState=FAILED ExitCode=3", "FAILED", "code 3:0", "scontrol show job 9", ok=False),
    "its node failed": Row(
        "JobState=NODE_FAIL FailedNode=compute-1", "NODE_FAIL", "node compute-1", "why node/compute-1", ok=False
    ),
    "it was cancelled": Row("JobState=CANCELLED", "CANCELLED", "cancelled it", "scontrol show job 9"),
    "it ran too long": Row("JobState=TIMEOUT", "TIMEOUT", "01:00:00", "scontrol show job 9", ok=False),
    "it used too much memory": Row("JobState=OUT_OF_MEMORY", "OUT_OF_MEMORY", "memory", "scontrol", ok=False),
    "it was preempted": Row("JobState=PREEMPTED", "PREEMPTED", "higher priority", "scontrol"),
    "it is suspended": Row("JobState=SUSPENDED", "SUSPENDED", "stopped", "scontrol resume 9"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_job_that_waits_has_its_cause_with_numbers_and_a_next_command(row: Row) -> None:
    found = answer(row)
    assert isinstance(found, Cause), found
    assert found.code == row.code, found
    assert row.words in found.sentence, found
    assert row.command in found.command, found
    assert f"why {row.target}" not in found.command
    assert found.wrong != row.ok, found


def test_of_several_reservations_the_first_to_begin_is_in_the_way() -> None:
    found = slurm_of(Row("Reason=ReqNodeNotAvail TimeLimit=600", "", "", ""))
    hosts = ("compute-0", "compute-1")
    both = {
        "a-late": SlurmReservation("a-late", 1_794_931_200, 1_794_934_800, (), hosts),
        "soon": SlurmReservation("soon", 1_794_919_800, 1_794_923_400, (), hosts),
    }
    facts = replace(cluster(slurm=replace(found, reservations=both)), now=NOW)
    cause = explained(facts, "job/9")
    assert isinstance(cause, Cause)
    assert "in reservation soon from" in cause.sentence


@pytest.mark.parametrize(
    ("more", "said_of_it"),
    [
        pytest.param("", "1 takes jobs, and 1 fits but takes none", id="one"),
        pytest.param(
            "NodeName=compute-2 CPUTot=4 State=IDLE Partitions=compute\n"
            "NodeName=compute-3 CPUTot=4 State=DOWN Partitions=compute\n",
            "2 take jobs, and 2 fit but take none",
            id="several",
        ),
    ],
)
def test_numbers_and_verbs_agree(more: str, said_of_it: str) -> None:
    nodes = NODES.replace("State=ALLOCATED", "By=root Reason=bad dimm State=IDLE+DRAIN") + more
    asks = "Reason=Resources NumNodes=3" if more else "Reason=Resources NumNodes=2"
    found = answer(Row(asks, "", "", "", nodes=nodes, partition=PARTITION.replace("0-1", "0-3")))
    assert isinstance(found, Cause)
    assert any(said_of_it in step for step in found.trail), found.trail


DRAINED = NODES.replace("IDLE", "IDLE+DRAIN").replace("ALLOCATED", "ALLOCATED+DRAIN")


def test_more_nodes_than_a_partition_has_are_told_before_a_drain_of_those_that_it_has() -> None:
    found = answer(Row("Reason=Resources NumNodes=5 NumCPUs=5", "", "", "", nodes=DRAINED))
    assert isinstance(found, Cause)
    assert found.code == "PartitionTooSmall"


def test_a_partition_that_has_become_too_small_is_told_where_slurm_says_that_it_does_not_allow_so_many() -> None:
    row = Row(
        "Reason=PartitionNodeLimit NumNodes=5 NumCPUs=5", "", "", "", partition=PARTITION.replace("MaxNodes=2", "")
    )
    found = answer(row)
    assert isinstance(found, Cause)
    assert found.code == "PartitionTooSmall"
    assert "asks for 5 nodes, and partition compute has 2" in found.sentence


def test_a_job_that_waits_for_workers_that_have_not_come_is_told_why_they_have_not() -> None:
    nodes, partition = NODES.splitlines()[1], PARTITION.replace("compute-[0-1]", "compute-1")
    row = Row("Reason=Resources NumNodes=2 NumCPUs=2", "", "", "", nodes=nodes, partition=partition)
    owner = resource("Partition", "debug", {"partitionName": "compute", "nodeSets": ["compute"]})
    facts = cluster(owner, waiting("compute-0", "ImagePullBackOff", "not found"), slurm=slurm_of(row))
    found = explained(replace(facts, now=NOW), "job/9")
    assert isinstance(found, Cause)
    assert found.code == "ImageNotPulled"


@pytest.mark.parametrize("name", [*NAMES_24_11, *NAMES_26_05])
def test_every_reason_that_slurm_knows_has_a_text(name: str) -> None:
    found = answer(Row(f"Reason={name} QOS=normal Account=physics", "", "", ""))
    assert isinstance(found, Fine if name == "None" else Cause), found
    assert f"Slurm says {name}" not in found.sentence
    assert "{" not in found.sentence
    assert name in REASONS or limit_of(name) is not None


def test_a_reason_that_nobody_knows_yet_is_shown_as_slurm_writes_it() -> None:
    found = answer(Row("Reason=MoonPhase", "", "", ""))
    assert isinstance(found, Cause)
    assert "Slurm says MoonPhase" in found.sentence
    assert found.command.endswith("scontrol show job 9")


@pytest.mark.parametrize(("target", "there"), [("9_50", True), ("9_1", False), ("9_100", False), ("9_x", False)])
def test_a_task_is_found_where_slurm_keeps_it(target: str, there: bool) -> None:
    row = Row("JobId=9 Reason=JobHeldUser ArrayJobId=9 ArrayTasks=2-99:2%1", "", "", "", target=f"job/{target}")
    assert isinstance(answer(row), Cause if there else Unseen)


def test_a_running_job_says_until_when() -> None:
    found = answer(Row("Reason=None", "", "", "", target="job/7"))
    assert found == Fine("job 7 is running on compute-1, until 14:05:00 UTC at the latest")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("gpu:2", {"gpu": 2}),
        ("gres/gpu:h100:2", {"gpu": 2}),
        ("gres:gpu", {"gpu": 1}),
        ("gpu:h100:4(S:0-1),nic:2", {"gpu": 4, "nic": 2}),
        ("gpu:a100:1(IDX:0),gpu:h100:2(IDX:1-2)", {"gpu": 3}),
        ("gpu:many", {}),
    ],
)
def test_generic_resources_are_counted_as_slurm_writes_them(text: str, counts: dict[str, int]) -> None:
    assert gres_counts(text) == counts
