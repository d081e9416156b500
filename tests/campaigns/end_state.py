"""What a life left behind, without what differs from run to run: uids, versions, times, places.

In: a world at rest. Out: `State`, and the differences between two of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.campaigns.rig import NAMESPACE, World

from slurm_operator.build import labels

# Their values differ from run to run; whether they are there does not.
MASKED = frozenset(
    {
        "uid",
        "resourceVersion",
        "managedFields",
        "creationTimestamp",
        "lastTransitionTime",
        "generation",
        "observedGeneration",
        "nodeName",
        "issuedAt",
        "expiresAt",
        "eventTime",
        "lastApplied",
        "time",
        "milliseconds",
        "clusterIP",
        "clusterIPs",
        "revision",
    }
)
IGNORED = frozenset({"events", "leases.coordination.k8s.io", "nodes", "namespaces"})


@dataclass
class State:
    """The end of a life."""

    objects: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    slurm: dict[str, Any] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    what: str = ""

    @property
    def broken(self) -> bool:
        """Whether that life came to no end."""
        return not self.objects and not self.counts

    def as_data(self) -> dict[str, Any]:
        """For a file."""
        return dict(vars(self))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> State:
        """Out of a file."""
        return cls(**data)


def state_of(world: World) -> State:
    """What there is now."""
    objects: dict[str, Any] = {}
    for resource in world.server.store.resources():
        if resource in IGNORED or resource.startswith("customresourcedefinitions"):
            continue
        for row in world.server.store.rows(resource, NAMESPACE):
            if is_history(resource, row.name):
                continue
            objects[f"{resource}/{row.name}"] = _masked(row.load(), resource)
    counts = {
        f"{resource}/{name}": [count, world.cluster.deletes.get((resource, name), 0)]
        for (resource, name), count in world.cluster.creates.items()
        if resource not in IGNORED and not is_history(resource, name)
    }
    return State(json.loads(json.dumps(objects)), counts, _slurm(world), list(world.judge.violations), world.what)


def is_history(resource: str, name: str) -> bool:
    """Whether an object keeps a configuration: which were in force for long, and so were kept, is the life itself."""
    return resource == "controllerrevisions.apps" and name.rpartition("-")[2].isdecimal() and "-config-" in name


def _slurm(world: World) -> dict[str, Any]:
    nodes = {
        name: [node.base, sorted(node.flags), node.reason, sorted(node.features), bool(node.comment)]
        for name, node in sorted(world.slurm.nodes.items())
    }
    return {"nodes": nodes, "partitions": world.slurm.partitions, "reservations": sorted(world.slurm.reservations)}


def _masked(value: Any, resource: str) -> Any:
    if isinstance(value, dict):
        kept = {key: "*" if key in MASKED else _masked(item, resource) for key, item in value.items()}
        # How often a pod was told is no state; that it was told at all, and in time, the judge knows from its kubelet.
        kept.pop(labels.CONFIG_CANDIDATE, None)
        if resource == "secrets" and "data" in kept:
            kept["data"] = sorted(kept["data"])
        return kept
    if isinstance(value, list):
        items = [_masked(item, resource) for item in value]
        # Conditions are a map by type: who wrote first does not matter.
        named = all(isinstance(item, dict) and "type" in item for item in items)
        return sorted(items, key=lambda item: str(item["type"])) if named else items
    return value


def differences(found: State, expected: State, *, counts: bool) -> list[str]:
    """How one life differs from another."""
    result = list(_differ("objects", found.objects, expected.objects))
    result += _differ("slurm", found.slurm, expected.slurm)
    if counts:
        result += _differ("creates and deletes", found.counts, {**expected.counts, **_untried(found, expected)})
    return result


def _untried(found: State, expected: State) -> dict[str, None]:
    """The trials of a configuration that was never seen, since the next one overtook it, which was tried."""
    missing = expected.counts.keys() - found.counts.keys()
    is_other_tried = any("-trial-" in key for key in found.counts)
    return {key: None for key in missing if is_other_tried and "-trial-" in key}


def _differ(what: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*found, *expected}):
        if found.get(key) != expected.get(key):
            yield f"{what}: {key}: {_first(found.get(key), expected.get(key))}"


def _first(found: Any, expected: Any, path: str = "") -> str:
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted({*found, *expected}):
            if found.get(key) != expected.get(key):
                return _first(found.get(key), expected.get(key), f"{path}.{key}")
    return f"{path} is {json.dumps(found)[:160]}, expected {json.dumps(expected)[:160]}"
