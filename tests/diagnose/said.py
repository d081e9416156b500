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
    }


def job(row: Mapping[str, str]) -> Record:
    """A job's record; what is not named is as Slurm leaves it."""
    end = datetime.fromisoformat(row["EndTime"]).timestamp() if "EndTime" in row else 0
    return {
        "job_id": int(row["JobId"]),
        "name": row.get("JobName", ""),
        "user_name": row.get("UserId", "").partition("(")[0],
        "job_state": [row["JobState"]],
        "state_reason": row.get("Reason", "None"),
        "partition": row.get("Partition", ""),
        "nodes": row.get("NodeList", ""),
        "node_count": _number(int(row.get("NumNodes", "1"))),
        "end_time": _number(int(end)),
        "time_limit": _number(60),
        "account": row.get("Account", ""),
        "qos": row.get("QOS", ""),
    }


def _number(value: int) -> Record:
    return {"set": True, "infinite": False, "number": value}


def _partition(row: Mapping[str, str]) -> Record:
    nodes = row.get("Nodes", "")
    return {
        "name": row["PartitionName"],
        "partition": {"state": [row["State"]]},
        "nodes": {"configured": "" if nodes == "(null)" else nodes},
    }
