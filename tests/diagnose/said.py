"""Slurm's lists for tests, written in short: `NodeName=n0 State=IDLE+DRAIN Reason=two words`, one record on each line.

In: such lines of nodes, jobs and partitions. Out: what the diagnosis reads out of the JSON that scontrol prints for
them. `answer` wraps records of a test's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from slurm_operator.diagnose.facts import Slurm
from slurm_operator.diagnose.scontrol import slurm_facts

_FIELD = re.compile(r"(?:^| )([A-Za-z]+)=")
Record = Mapping[str, Any]
NOT_SET = {"set": False, "infinite": False, "number": 0}
UNLIMITED = {"set": False, "infinite": True, "number": 0}


def said(nodes: str, jobs: str, partitions: str) -> Slurm:
    """The facts that stand in these lines."""
    return slurm_facts(
        answer("nodes", [_node(row) for row in _rows(nodes)]),
        answer("jobs", [job(row) for row in _rows(jobs)]),
        answer("partitions", [_partition(row) for row in _rows(partitions)]),
    )


def answer(name: str, records: Sequence[Record], **more: Any) -> bytes:
    """What scontrol prints for a list."""
    meta = {"slurm": {"release": "26.05.5", "cluster": "test"}}
    last = {"set": True, "infinite": False, "number": 1_794_840_796}
    return json.dumps({name: records, "last_update": last, "meta": meta, "errors": [], "warnings": [], **more}).encode()


def _rows(lines: str) -> list[dict[str, str]]:
    return [dict(_pairs(line)) for line in lines.split("\n") if line]


def _pairs(line: str) -> list[tuple[str, str]]:
    words = _FIELD.split(line)
    return list(zip(words[1::2], words[2::2], strict=True))


def _node(row: Mapping[str, str]) -> Record:
    return {
        "name": row["NodeName"],
        "state": row["State"].split("+"),
        "reason": row.get("Reason", ""),
        "partitions": row.get("Partitions", "").split(","),
        "cpus": int(row.get("CPUTot", "0")),
        "alloc_cpus": int(row.get("CPUAlloc", "0")),
        "real_memory": int(row.get("RealMemory", "0")),
        "alloc_memory": int(row.get("AllocMem", "0")),
        "features": [each for each in row.get("Features", "").split(",") if each],
        "gres": row.get("Gres", ""),
        "gres_used": row.get("GresUsed", ""),
        "reservation": row.get("Reservation", ""),
        "reason_set_by_user": row.get("By", ""),
    }


def job(row: Mapping[str, str]) -> Record:
    """A job's record; what is not named is as Slurm leaves it."""
    return {
        "job_id": int(row["JobId"]),
        "name": row.get("JobName", ""),
        "user_name": row.get("UserId", "").partition("(")[0],
        "job_state": [row["JobState"]],
        "state_reason": row.get("Reason", "None"),
        "partition": row.get("Partition", ""),
        "nodes": row.get("NodeList", ""),
        "node_count": _number(int(row.get("NumNodes", "1"))),
        "start_time": _moment(row.get("StartTime", "")),
        "end_time": _moment(row.get("EndTime", "")),
        "time_limit": _number(int(row.get("TimeLimit", "60"))),
        "account": row.get("Account", ""),
        "qos": row.get("QOS", ""),
        "state_description": row.get("Description", ""),
        "priority": _number(int(row.get("Priority", "1"))),
        "cpus": _number(int(row.get("NumCPUs", "1"))),
        "memory_per_node": _number(int(row.get("MinMemoryNode", "0"))),
        "memory_per_cpu": _number(int(row.get("MinMemoryCPU", "0"))),
        "memory_per_tres": row.get("MemPerTres", ""),
        "tres_req_str": row.get("ReqTRES", ""),
        "cpus_per_task": _number(int(row.get("CpusPerTask", "1"))),
        "tasks_per_node": _number(int(row.get("TasksPerNode", "0"))),
        "minimum_cpus_per_node": _number(int(row.get("MinCPUsNode", "1"))),
        "max_nodes": _number(int(row.get("MaxNodes", "0"))),
        "dependency": row.get("Dependency", ""),
        "licenses": row.get("Licenses", ""),
        "features": row.get("Features", ""),
        "resv_name": row.get("Reservation", ""),
        "required_nodes": row.get("ReqNodeList", ""),
        "shared": ["none"] if "Exclusive" in row else [],
        "submit_line": row.get("SubmitLine", ""),
        "tres_per_node": row.get("TresPerNode", ""),
        "array_job_id": _number(int(row.get("ArrayJobId", "0"))),
        "array_task_id": _number(int(row["ArrayTaskId"])) if "ArrayTaskId" in row else NOT_SET,
        "array_task_string": row.get("ArrayTasks", ""),
        "array_max_tasks": _number(int(row.get("ArrayTaskThrottle", "0"))),
        "het_job_id": _number(int(row.get("HetJobId", "0"))),
        "het_job_offset": _number(int(row.get("HetJobOffset", "0"))),
        "batch_flag": True,
        "requeue": row.get("Requeue", "1") == "1",
        "failed_node": row.get("FailedNode", ""),
        "exit_code": {"return_code": _number(int(row.get("ExitCode", "0")))},
    }


def _moment(text: str) -> Record:
    return _number(int(datetime.fromisoformat(text).timestamp()) if text else 0)


def _number(value: int) -> Record:
    return {"set": True, "infinite": False, "number": value}


def _partition(row: Mapping[str, str]) -> Record:
    nodes = row.get("Nodes", "")
    return {
        "name": row["PartitionName"],
        "partition": {"state": [row["State"]]},
        "nodes": {"configured": "" if nodes == "(null)" else nodes},
        "maximums": {
            "time": _number(int(row["MaxTime"])) if "MaxTime" in row else UNLIMITED,
            "nodes": _number(int(row["MaxNodes"])) if "MaxNodes" in row else UNLIMITED,
        },
        "minimums": {"nodes": int(row.get("MinNodes", "0"))},
        "qos": {"assigned": row.get("QoS", "")},
    }
