"""Which changes of a configuration slurmd can tell: those are tried by it, all others go on at once."""

from __future__ import annotations

import pytest

from slurm_operator.slurm.conf_of_slurmd import part_of_slurmd

CONF = """\
ClusterName=a
SlurmctldHost=ctl
TaskPlugin=task/affinity
NodeSet=compute Feature=compute
PartitionName=all Nodes=ALL
"""
FILES = {"slurm.conf": CONF, "cgroup.conf": "CgroupPlugin=disabled\n", "gres.conf": "# none\n"}


def changed(extra: str = "", **files: str) -> dict[str, str]:
    return {**FILES, **{name.replace("__", "."): text for name, text in files.items()}, "slurm.conf": CONF + extra}


def tells(files: dict[str, str], *, is_one_version: bool = True, before: dict[str, str] | None = None) -> bool:
    then = part_of_slurmd(before or FILES, is_one_version=is_one_version)
    return then != part_of_slurmd(files, is_one_version=is_one_version)


OTHERS = {
    "a partition": changed("PartitionName=short Nodes=compute MaxTime=5\n"),
    "a NodeSet": changed("NodeSet=gpu Feature=gpu\n"),
    "the scheduler": changed("SchedulerParameters=bf_interval=60\n"),
    "priorities": changed("PriorityType=priority/multifactor\nPriorityWeightAge=1\n"),
    "room for nodes": changed("MaxNodeCount=4096\n"),
    "slurmctld": changed("SlurmctldDebug=debug\n"),
    "accounting": changed("AccountingStorageEnforce=limits\n"),
    "a job submit plugin": changed("JobSubmitPlugins=lua\n", job_submit__lua="-- nothing\n"),
    "a prolog": changed(prolog="#!/bin/sh\nexit 0\n"),
    "a comment": changed("# TaskPlugin=task/none\n"),
    "a comment of another file": changed(cgroup__conf="CgroupPlugin=disabled # as before\n\n"),
}
SLURMDS = {
    "a task plugin": changed("TaskPlugin=task/cgroup\n"),
    "how processes are tracked": changed("ProctrackType=proctrack/cgroup\n"),
    "cgroup.conf": changed(cgroup__conf="CgroupPlugin=cgroup/v2\n"),
    "gres.conf": changed(gres__conf="Name=gpu File=/dev/nvidia0\n"),
    "a new file": changed(job_container__conf="BasePath=/tmp\n"),
    "a file that is gone": {name: text for name, text in FILES.items() if name != "cgroup.conf"},
    "a plugin of SPANK": changed(plugstack__conf="required nosuch.so\n"),
    "a key that nobody has heard of": changed("SomethingNew=1\n"),
    "a key in an included file": changed("Include more.conf\n", more__conf="TaskPlugin=task/none\n"),
    "a file without an ending": changed(more="required nosuch.so\n"),
}


@pytest.mark.parametrize("files", OTHERS.values(), ids=OTHERS)
def test_slurmd_cannot_tell_a_change_of(files: dict[str, str]) -> None:
    assert not tells(files)


@pytest.mark.parametrize("files", SLURMDS.values(), ids=SLURMDS)
def test_slurmd_can_tell_a_change_of(files: dict[str, str]) -> None:
    assert tells(files)


def test_partitions_in_an_included_file_are_no_matter_of_slurmd() -> None:
    before = changed("Include parts.conf\n", parts__conf="PartitionName=short Nodes=ALL\n")
    after = {**before, "parts.conf": "PartitionName=short Nodes=ALL MaxTime=5\n"}
    assert not tells(after, before=before)


def test_a_slurmd_of_another_version_may_not_know_a_key_that_it_has_no_use_for() -> None:
    assert tells(changed("MetricsType=metrics/openmetrics\n"), is_one_version=False)
    assert tells(changed("PartitionName=short Nodes=ALL Topology=a\n"), is_one_version=False)


def test_another_value_of_a_key_that_it_has_no_use_for_is_nothing_new_to_any_version() -> None:
    before, after = changed("SchedulerParameters=bf_interval=60\n"), changed("SchedulerParameters=bf_interval=61\n")
    assert not tells(after, is_one_version=False, before=before)


@pytest.mark.parametrize("text", ["", "=", "Include slurm.conf\n", "Include nosuch\n", "\x00", 'A="'], ids=repr)
def test_any_text_can_be_compared(text: str) -> None:
    assert tells({"slurm.conf": text})
