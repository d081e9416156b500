"""What differs between resources and Slurm, and what was changed back."""

from __future__ import annotations

from typing import Any

from tests.diagnose.broken import NODES, cluster, condition, resource
from tests.diagnose.said import said

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cluster import examine
from slurm_operator.diagnose.drift import ChangedBack, adoption, changed_back, current
from slurm_operator.diagnose.facts import Facts, Silence, Slurm

NODESET = resource("NodeSet", "compute", {"replicas": 2, "partition": {"enabled": True, "config": "MaxTime=60"}})
CONFIG = {
    "kind": "ConfigMap",
    "metadata": {"name": "slurm-config"},
    "data": {"slurm.conf": "NodeSet=compute Feature=compute\nPartitionName=compute Nodes=compute MaxTime=60\n"},
}
ROW = {"field": "GraceTime", "wanted": "0", "found": "7", "since": "2030-01-01T00:00:00Z"}


def slurm(state: str) -> Slurm:
    return said(NODES, "", f"PartitionName=compute State={state} Nodes=compute-[0-1] TotalNodes=2")


def facts(*changed: dict[str, Any], asked: Slurm | Silence | None = None) -> Facts:
    return cluster(NODESET, CONFIG, *changed, slurm=asked or slurm("DRAIN"), without=("debug",))


def event(kind: str, name: str, reason: str, message: str, **more: Any) -> dict[str, Any]:
    about = {"kind": kind, "name": name}
    return {"kind": "Event", "metadata": {"name": f"{name}.{reason}"}, "involvedObject": about, "reason": reason} | {
        "message": message,
        **more,
    }


def rows(found: Facts) -> list[tuple[str, str, str, str, str]]:
    return [(each.owner.place, each.field, each.wanted, each.found, each.state) for each in current(found)]


def test_the_partition_of_a_nodeset_is_compared_with_slurms_own_word() -> None:
    assert ("NodeSet compute", "State", "UP", "DRAIN", "being changed back") in rows(facts())
    assert "State" not in {row[1] for row in rows(facts(asked=slurm("UP")))}


def test_one_that_somebody_deleted_is_named() -> None:
    gone = said(NODES, "", "PartitionName=other State=UP Nodes=compute-0 TotalNodes=1")
    assert rows(facts(asked=gone)) == [
        ("NodeSet compute", "Partition", "present", "absent", "being changed back"),
        # One that somebody made.
        ("no resource", "Partition", "absent", "present", "left as it is"),
    ]


def reported(field: str, wanted: str, found: str) -> dict[str, Any]:
    in_sync = {"type": "InSync", "status": "False", "reason": "Drifted", "message": "changed in Slurm"}
    made = resource("Partition", "hand", {"driftPolicy": "Report"}, condition("Ready", "True"), in_sync)
    row = {"field": field, "wanted": wanted, "found": found}
    return {**made, "status": {**made["status"], "drift": [row]}}


def test_doctor_tells_of_drift_that_is_only_reported() -> None:
    lines = "PartitionName=hand State=UP Nodes=compute-0\n"
    namespace = facts(reported("MaxTime", "60", "30"), asked=said(NODES, "", lines))
    (told,) = (each for each in examine(namespace) if each.code == "Drifted")
    assert explained(namespace, "partition/hand") == told
    assert "MaxTime is 30, and Partition hand asks for 60" in told.sentence
    assert told.command == "kubectl slurm -n slurm drift"


def test_what_is_not_in_force_has_not_been_changed_by_hand() -> None:
    assert rows(facts({**CONFIG, "data": {"slurm.conf": ""}})) == []
    assert rows(facts(asked=Silence("no answer"))) == []
    leaving = {**NODESET, "metadata": {**NODESET["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    assert rows(facts(leaving)) == []


def test_whoever_insists_is_left_alone() -> None:
    told = event("NodeSet", "compute", "DriftComesBack", "partition compute: somebody …")
    assert {row[4] for row in rows(facts(told))} == {"left as it is"}


def test_a_partition_tells_itself_what_drifted() -> None:
    drifted = resource("Partition", "short", {"driftPolicy": "Report"}, condition("InSync", "False", "Drifted"))
    drifted["status"]["drift"] = [ROW]
    found = cluster(drifted, without=("debug",))
    assert rows(found) == [("Partition short", "GraceTime", "0", "7", "reported")]
    assert [each.since for each in current(found)] == ["2030-01-01T00:00:00Z"]


def test_what_was_changed_back_is_read_from_events() -> None:
    told = event("NodeSet", "compute", "DriftReverted", "partition compute: …", eventTime="2030-01-01T00:00:00Z")
    again = event(
        "Partition",
        "debug",
        "DriftReverted",
        "partition short: …",
        series={"count": 4, "lastObservedTime": "2030-01-01T00:01:00Z"},
    )
    other = event("NodeSet", "compute", "ScalingUp", "creating 2 workers")
    assert changed_back(cluster(NODESET, told, again, other)) == [
        ChangedBack("nodeset/compute", "2030-01-01T00:00:00Z", 1, "partition compute: …"),
        ChangedBack("partition/debug", "2030-01-01T00:01:00Z", 4, "partition short: …"),
    ]


def test_what_slurm_has_becomes_options_of_the_resource() -> None:
    ((owner, options),) = adoption(current(facts()))
    assert owner.place == "NodeSet compute"
    assert options["State"] == "DRAIN"
    assert "Nodes" not in options
