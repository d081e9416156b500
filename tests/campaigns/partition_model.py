"""The partitions of the small Slurm: as its files name them, and as slurmrestd changes them live from 26.05 on.

In: a slurm.conf, or the body of a call. Out: partitions in the shape of recorded answers. With KeepPartInfo a file adds
partitions and leaves the others as they are, as Slurm does.
"""

from __future__ import annotations

import copy
import functools
import json
from dataclasses import dataclass, field
from typing import Any

from tests.slurm.replay import kept_answer

from slurm_operator.plan.partition import declared
from slurm_operator.plan.partition_fields import creation
from slurm_operator.slurm import requests

# What no partition of 24.11's answers has.
NEWER = ("flags", "preempt_mode", "topology")


@functools.cache
def bare(release: str) -> str:
    """A partition of which nothing is set, as JSON."""
    recorded = kept_answer(release, "partitions")["json"]["partitions"][0]
    recorded["maximums"]["time"] = {"set": False, "infinite": True, "number": 0}
    recorded |= {"flags": []} if release != "24.11" else {}
    return json.dumps(recorded)


@dataclass
class PartitionModel:
    """slurmctld's partitions."""

    release: str
    shapes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def declared_nodes(self) -> dict[str, str]:
        """By partition: the nodes as they were declared."""
        return {name: shape["node_sets"] for name, shape in self.shapes.items()}

    def read(self, text: str) -> tuple[bool, set[str]]:
        """A reconfigure: whether it changed anything, and which partitions the file no longer names."""
        lines = declared(text).lines
        keeps = "KeepPartInfo" in text
        bodies = {name: requests.set_partition(creation(line)).body or {} for name, line in lines.items()}
        before = copy.deepcopy(self.shapes)
        gone = set(self.shapes) - set(lines)
        self.shapes = dict(self.shapes) if keeps else {}
        for name, body in bodies.items():
            if name not in self.shapes:
                self.set(body["partitions"][0])
        return self.shapes != before, gone

    def set(self, body: dict[str, Any]) -> None:
        """Create a partition, or change what is given."""
        shape = self.shapes.setdefault(body["name"], json.loads(bare(self.release)) | {"node_sets": ""})
        if "DEFAULT" in body.get("flags", ()):
            for other in self.shapes.values():
                other["flags"] = [each for each in other.get("flags", []) if each != "DEFAULT"]
        _merge(shape, {key: value for key, value in body.items() if key != "flags"})
        for flag in body.get("flags", ()):
            _set_flag(shape, flag)
        if "configured" in body.get("nodes", {}):
            shape["node_sets"] = body["nodes"]["configured"]
        if self.release == "24.11":
            for key in NEWER:
                shape.pop(key, None)
            shape["partition"] = {"state": shape["partition"]["state"]}


def _set_flag(shape: dict[str, Any], flag: str) -> None:
    name = flag.removesuffix("_CLEAR")
    others = [each for each in shape.get("flags", []) if each != name]
    shape["flags"] = others if flag.endswith("_CLEAR") else [*others, name]


def _merge(target: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
