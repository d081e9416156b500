"""Configurations that are kept: which fields count, and that no Secret is among them."""

from __future__ import annotations

from tests.build.resources import controller, nodeset, partition, refs

from slurm_operator.build import labels
from slurm_operator.build.config_revision import controller_revision, file_hash, inputs


def test_what_becomes_text_is_kept_by_resource() -> None:
    cr = controller(extraConf="SchedulerType=sched/backfill", configFileRefs=[{"name": "files"}], slurmctld={})
    world = refs(
        cr,
        nodeset(partition={"enabled": True, "config": "Default=YES"}, replicas=3),
        partition(nodeSets=["compute"], maxTime="1:00:00"),
        config_maps={"files": {"gres.conf": "Name=gpu\n"}},
    )
    assert inputs(cr, world) == {
        "Controller/slurm": {"extraConf": "SchedulerType=sched/backfill", "configFileRefs": [{"name": "files"}]},
        "ConfigMap/files": {"gres.conf": file_hash("Name=gpu\n")},
        "NodeSet/compute": {"partition": {"enabled": True, "config": "Default=YES"}},
        "Partition/debug": {"nodeSets": ["compute"], "maxTime": "1:00:00"},
    }


def test_a_partition_that_is_going_is_not_kept() -> None:
    cr = controller()
    going = partition(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, nodes="n1")
    assert "Partition/debug" not in inputs(cr, refs(cr, going))


def test_a_file_that_is_not_there_is_kept_as_no_file() -> None:
    cr = controller(configFileRefs=[{"name": "gone"}])
    assert inputs(cr, refs(cr))["ConfigMap/gone"] == {}


def test_a_revision_is_found_by_its_label_and_goes_with_its_controller() -> None:
    cr = controller()
    made = controller_revision(cr, 7, "a" * 64, {"slurm.conf": "X=1\n"}, inputs(cr, refs(cr)), {"change": "first"})
    assert made["metadata"]["name"] == "slurm-config-7"
    assert made["metadata"]["labels"][labels.CONFIG_REVISION] == "a" * 12
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Controller"
    assert (made["revision"], made["data"]["change"]) == (7, "first")
    assert made["data"]["files"] == {"slurm.conf": "X=1\n"}
