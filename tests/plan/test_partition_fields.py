"""Partition options: two ways to write one thing are one thing, and every difference is seen and can be mended."""

from __future__ import annotations

import pytest

from slurm_operator.plan.partition import lines
from slurm_operator.plan.partition_fields import (
    Line,
    change,
    changed_options,
    creation,
    differences,
    options,
    unsettable,
    with_options,
)
from slurm_operator.slurm import hostlist, requests
from slurm_operator.slurm.model import UNLIMITED, Partition
from slurm_operator.slurm.requests import PartitionChange

# As slurmrestd v0.0.45 answers for `PartitionName=p Nodes=compute`.
BARE = {
    "name": "p",
    "states": frozenset({"UP"}),
    "flags": frozenset[str](),
    "nodes": "n[0-2]",
    "node_sets": "compute",
    "total_nodes": 3,
    "max_time": UNLIMITED,
    "max_nodes": UNLIMITED,
    "max_cpus_per_node": UNLIMITED,
    "max_cpus_per_socket": UNLIMITED,
    "priority_tier": 1,
    "priority_job_factor": 1,
    "preempt_mode": ("CLUSTER_GLOBAL",),
    "oversubscribe": "NO",
    "exclusive": "NO",
    "memory_per_node": 0,
    "max_memory_per_node": 0,
}


def line(options: str = "", nodes: str = "compute") -> Line:
    text = f"NodeSet=compute Feature=compute\nNodeSet=gpu Feature=gpu\nPartitionName=p Nodes={nodes} {options}\n"
    return lines(text)["p"]


def live(**fields: object) -> Partition:
    return Partition(**{**BARE, **fields})  # type: ignore[arg-type]  # a table row's own types


def seen(options: str, **fields: object) -> set[tuple[str, str, str]]:
    return {(each.field, each.wanted, each.found) for each in differences(line(options), live(**fields))}


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        pytest.param("", {}, id="nothing set: Slurm's defaults"),
        pytest.param("", {"min_nodes": 1}, id="a live partition has MinNodes 1"),
        pytest.param("MaxTime=60", {"max_time": 60}, id="minutes"),
        pytest.param("MaxTime=1:00:00", {"max_time": 60}, id="hours"),
        pytest.param("MaxTime=1-00:00:00", {"max_time": 1440}, id="days"),
        pytest.param("MaxTime=2-12", {"max_time": 3600}, id="days and hours"),
        pytest.param("MaxTime=90:30", {"max_time": 91}, id="seconds are rounded up"),
        pytest.param("MaxTime=infinite", {}, id="infinite is unlimited"),
        pytest.param("MaxTime=60", {"max_time": 60, "default_time": 60}, id="the default time is the longest"),
        pytest.param("DefaultTime=10", {"default_time": 10}, id="default time"),
        pytest.param("default=yes", {"flags": frozenset({"DEFAULT"})}, id="keys and words know no case"),
        pytest.param("OverSubscribe=FORCE", {"oversubscribe": "FORCE:4"}, id="FORCE is four jobs"),
        pytest.param("Shared=YES:2", {"oversubscribe": "YES:2"}, id="Shared is the old name"),
        pytest.param("OverSubscribe=EXCLUSIVE", {"exclusive": "NODE"}, id="exclusive nodes"),
        pytest.param("ExclusiveUser=YES", {"exclusive": "USER"}, id="exclusive users"),
        pytest.param("ExclusiveUser=NO", {}, id="not exclusive"),
        pytest.param("PreemptMode=OFF", {"preempt_mode": ("DISABLED",)}, id="off is disabled"),
        pytest.param("PreemptMode=SUSPEND,GANG", {"preempt_mode": ("SUSPEND",)}, id="gang is not shown"),
        pytest.param("Priority=5", {"priority_tier": 5, "priority_job_factor": 5}, id="Priority is both"),
        pytest.param("Priority=5 PriorityTier=2", {"priority_tier": 2, "priority_job_factor": 5}, id="or one of them"),
        pytest.param("DefMemPerCPU=100", {"memory_per_cpu": 100, "memory_per_node": None}, id="memory per CPU"),
        pytest.param("DefMemPerNode=1k", {"memory_per_node": 1024}, id="k is 1024"),
        pytest.param("MaxMemPerNode=UNLIMITED", {}, id="no limit is 0"),
        pytest.param("AllowAccounts=b,A", {"allowed_accounts": "a,b"}, id="lists have no order"),
        pytest.param("AllowAccounts=ALL", {}, id="ALL is no restriction"),
        pytest.param("DenyQos=x", {"denied_qos": "x"}, id="denied"),
        pytest.param("AllocNodes=n0,n1", {"allowed_alloc_nodes": "n[0-1]"}, id="host lists"),
        pytest.param("TRESBillingWeights=Mem=0.25G,CPU=1.0", {"billing_weights": "CPU=1.0,Mem=0.25G"}, id="weights"),
        pytest.param("State=drain", {"states": frozenset({"DRAIN"})}, id="state"),
        pytest.param("DefCpuPerGPU=2", {}, id="what Slurm does not show is not compared"),
        pytest.param("DisableRootJobs=YES", {"flags": frozenset({"NO_ROOT"})}, id="no root"),
        pytest.param("OverTimeLimit=5", {"over_time_limit": 5}, id="over time"),
        pytest.param("Topology=blue", {"topology": "blue"}, id="topology"),
    ],
)
def test_a_partition_as_written_is_no_difference(options: str, fields: dict[str, object]) -> None:
    assert seen(options, **fields) == set()


@pytest.mark.parametrize(
    ("options", "fields", "expected"),
    [
        pytest.param("MaxTime=60", {}, ("MaxTime", "01:00:00", "UNLIMITED"), id="a limit that is not there"),
        pytest.param("", {"max_time": 2880}, ("MaxTime", "UNLIMITED", "2-00:00:00"), id="a limit nobody wrote"),
        pytest.param("", {"states": frozenset({"DRAIN"})}, ("State", "UP", "DRAIN"), id="drained by hand"),
        pytest.param("", {"default_time": 5}, ("DefaultTime", "NONE", "00:05:00"), id="a default time nobody wrote"),
        pytest.param("", {"flags": frozenset({"DEFAULT"})}, ("Default", "NO", "YES"), id="another default partition"),
        pytest.param("Hidden=YES", {}, ("Hidden", "YES", "NO"), id="shown though hidden"),
        pytest.param("PriorityTier=9", {}, ("PriorityTier", "9", "1"), id="priority"),
        pytest.param("", {"grace_time": 3}, ("GraceTime", "0", "3"), id="grace"),
        pytest.param("AllowGroups=a", {"allowed_groups": "a,b"}, ("AllowGroups", "a", "a,b"), id="one group more"),
        pytest.param("", {"allowed_qos": "x"}, ("AllowQos", "ALL", "x"), id="a restriction nobody wrote"),
        pytest.param("", {"memory_per_cpu": 10, "memory_per_node": None}, ("DefMemPerCPU", "", "10"), id="memory"),
        pytest.param("PreemptMode=CANCEL", {}, ("PreemptMode", "CANCEL", ""), id="the cluster's preemption instead"),
        pytest.param("", {"max_cpus_per_socket": 2}, ("MaxCPUsPerSocket", "UNLIMITED", "2"), id="per socket"),
    ],
)
def test_a_difference_names_field_wanted_and_found(
    options: str, fields: dict[str, object], expected: tuple[str, str, str]
) -> None:
    assert seen(options, **fields) == {expected}


def test_what_an_old_slurm_does_not_tell_is_not_compared() -> None:
    silent = {"flags": None, "preempt_mode": None, "oversubscribe": None, "exclusive": None}
    assert seen("Hidden=YES PreemptMode=CANCEL OverSubscribe=FORCE ExclusiveUser=YES Default=YES", **silent) == set()


@pytest.mark.parametrize(
    ("nodes", "fields", "differs"),
    [
        pytest.param("compute", {}, False, id="a NodeSet"),
        pytest.param("compute", {"nodes": "n[0-99]"}, False, id="a NodeSet that grew"),
        pytest.param("compute", {"node_sets": "gpu"}, True, id="another NodeSet"),
        pytest.param("compute", {"node_sets": ""}, True, id="its nodes, but no longer the NodeSet"),
        pytest.param("compute,gpu", {"node_sets": "gpu,compute"}, False, id="NodeSets have no order"),
        pytest.param("compute,n9", {}, True, id="a host beside it is missing"),
        pytest.param("compute,n9", {"nodes": "n[0-2,9]"}, False, id="a host beside it"),
        pytest.param("n[0-1]", {"node_sets": "", "nodes": "n0,n1"}, False, id="hosts"),
        pytest.param("n[0-1]", {"node_sets": "", "nodes": "n[0-2]"}, True, id="one host too many"),
        pytest.param("all", {"node_sets": "ALL"}, False, id="all nodes"),
    ],
)
def test_nodes_are_compared_by_what_they_were_declared_with(
    nodes: str, fields: dict[str, object], differs: bool
) -> None:
    assert bool(differences(line(nodes=nodes), live(**fields))) is differs


@pytest.mark.parametrize(
    ("options", "fields", "expected"),
    [
        pytest.param("MaxTime=60", {"MaxTime"}, {"max_time": 60}, id="set"),
        pytest.param("", {"MaxTime"}, {"max_time": UNLIMITED}, id="back to the default"),
        pytest.param("", {"DefaultTime"}, {"default_time": UNLIMITED}, id="no default time: the longest"),
        pytest.param("MaxTime=60", {"DefaultTime"}, {"default_time": 60}, id="no default time: that of the line"),
        pytest.param("", {"DefMemPerCPU"}, {"memory_per_node": 0}, id="no memory per CPU: any per node"),
        pytest.param(
            "DefMemPerNode=5",
            {"DefMemPerCPU", "DefMemPerNode"},
            {"memory_per_node": 5},
            id="per node instead of per CPU",
        ),
        pytest.param(
            "DefMemPerCPU=5", {"DefMemPerCPU", "DefMemPerNode"}, {"memory_per_cpu": 5}, id="per CPU instead of per node"
        ),
        pytest.param("", {"AllowAccounts"}, {"allowed_accounts": ""}, id="no restriction"),
        pytest.param("Hidden=YES", {"Hidden", "LLN"}, {"flags": {"HIDDEN": True, "LLN": False}}, id="flags"),
        pytest.param("PreemptMode=OFF", {"PreemptMode"}, {"preempt_mode": ("DISABLED",)}, id="no preemption"),
        pytest.param("", {"PreemptMode"}, {}, id="preemption of the cluster: no call for it"),
        pytest.param("OverSubscribe=FORCE", {"OverSubscribe"}, {"oversubscribe": "FORCE:4"}, id="sharing"),
        pytest.param(
            "OverSubscribe=EXCLUSIVE", {"OverSubscribe", "Exclusive"}, {"exclusive": "NODE"}, id="whole nodes, alone"
        ),
        pytest.param("DefCpuPerGPU=2", {"JobDefaults"}, {"job_defaults": "DefCpuPerGPU=2"}, id="defaults of jobs"),
        pytest.param("", {"Nodes"}, {"nodes": "compute"}, id="nodes"),
        pytest.param("", {"CpuBind"}, {}, id="what only a file can set"),
    ],
)
def test_a_change_sets_what_is_given_and_nothing_else(
    options: str, fields: set[str], expected: dict[str, object]
) -> None:
    assert change(line(options), fields) == PartitionChange(name="p", **expected)  # type: ignore[arg-type]  # rows


def test_a_new_partition_carries_every_option_of_its_line() -> None:
    made = creation(line("MaxTime=60 Hidden=YES AllowGroups=alice Priority=3 ExclusiveUser=YES", nodes="compute,n7"))
    assert made == PartitionChange(
        name="p",
        nodes="compute,n7",
        state="UP",
        max_time=60,
        flags={"HIDDEN": True},
        allowed_groups="alice",
        priority_tier=3,
        priority_job_factor=3,
        exclusive="USER",
    )


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param("MaxTime=60", "MaxTime=1:00:00", set(), id="written differently"),
        pytest.param("MaxTime=60", "MaxTime=61", {"MaxTime"}, id="changed"),
        pytest.param("", "MaxTime=61", {"MaxTime"}, id="no longer set"),
        pytest.param("CpuBind=core", "", {"CpuBind"}, id="only by file"),
        pytest.param("DefMemPerGPU=1", "DefMemPerGPU=2", {"JobDefaults"}, id="defaults of jobs"),
    ],
)
def test_options_that_changed_between_two_lines(new: str, old: str, expected: set[str]) -> None:
    assert changed_options(line(new), line(old)) == expected


def test_options_that_no_call_can_set_are_named() -> None:
    assert unsettable(line("CpuBind=core PreemptMode=WITHIN SuspendTime=5 MaxTime=1")) == (
        "CpuBind",
        "PreemptMode",
        "SuspendTime",
    )


HOSTILE = [
    "²",
    "²:3",
    "٣",
    "9" * 5000,
    "1-" + "9" * 5000,
    "0x" + "f" * 5000,
    "-1",
    "-9",
    "1e9",
    "9" * 20,
    "1:2:3:4",
    "k",
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:8])
@pytest.mark.parametrize("key", [each for each in options() if each != "Nodes"] + ["Priority", "ExclusiveUser"])
def test_no_value_of_an_option_stops_a_turn(key: str, value: str) -> None:
    """The linter says what is wrong with it, after the partitions have been compared."""
    wanted = line(f"{key}={value}")
    differences(wanted, live())
    changed_options(wanted, line())
    assert requests.set_partition(creation(wanted)).body


def test_an_option_with_a_value_that_is_none_comes_by_the_file() -> None:
    assert unsettable(line("State=WRONG GraceTime=-1 MaxTime=60")) == ("GraceTime", "State")


def hosts_differ(nodes: str, sets: str, found: str) -> bool:
    return "Nodes" in {each.field for each in differences(line(nodes=nodes), live(nodes=found, node_sets=sets))}


@pytest.mark.parametrize(
    ("nodes", "sets", "found", "differ"),
    [
        ("n[1-3]", "", "n[1-3]", False),
        ("n3,n1,n2", "", "n[1-3]", False),
        ("n[1-3]", "", "n[1-2]", True),
        ("n[1-3]", "", "n[1-100000]", True),
        ("n1", "", "n[1]", False),
        ("n1", "", "", True),
        ("n1", "", "n[", True),
        ("n1", "", ",".join(f"other{number}" for number in range(1000)), True),
        ("compute,n1", "compute", "n[0-99999]", False),
        ("compute,m1", "compute", "n[0-99999]", True),
        ("compute,n1", "compute", "n[", True),
        ("compute", "compute", "n[", False),
        ("compute", "gpu", "n[0-2]", True),
    ],
)
def test_hosts_are_compared_as_sets(nodes: str, sets: str, found: str, differ: bool) -> None:
    assert hosts_differ(nodes, sets, found) is differ


def test_slurms_own_list_is_not_expanded_where_it_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile slurmrestd gave each of a thousand partitions a hundred thousand hosts: minutes of the event loop."""
    wanted = [(line(nodes="compute"), "compute"), (line(nodes="compute,n7"), "compute"), (line(nodes="n7"), "")]
    monkeypatch.setattr(hostlist, "expand", lambda *_, **__: pytest.fail("the list is expanded"))
    for each, sets in wanted:
        differences(each, live(nodes=",".join(f"r{rack}n[0-9999]" for rack in range(10)), node_sets=sets))


@pytest.mark.parametrize(
    ("written", "changes", "expected"),
    [
        pytest.param("", {"State": "DRAIN"}, "State=DRAIN", id="nothing before"),
        pytest.param("Default=YES", {"State": "DRAIN"}, "Default=YES State=DRAIN", id="a new one comes last"),
        pytest.param("State=UP Default=YES", {"State": "DRAIN"}, "State=DRAIN Default=YES", id="it stays in its place"),
        pytest.param(
            "state=UP  Default=YES", {"State": "DOWN"}, "state=DOWN  Default=YES", id="spelling and spaces stay"
        ),
        pytest.param("Shared=YES", {"OverSubscribe": "NO"}, "Shared=NO", id="under another name"),
        pytest.param("State=UP State=DOWN", {"State": "DRAIN"}, "State=DRAIN", id="twice"),
        pytest.param("MaxTime=60 QOS=a", {"QOS": ""}, "MaxTime=60", id="taken away"),
        pytest.param("QOS=a MaxTime=60", {"qos": ""}, "MaxTime=60", id="taken away from the beginning"),
        pytest.param("QOS=a", {"QOS": ""}, "", id="the only one taken away"),
        pytest.param("MaxTime=60", {"QOS": ""}, "MaxTime=60", id="taken away though it is not there"),
        pytest.param(
            "TRESBillingWeights=CPU=1,Mem=2",
            {"TRESBillingWeights": "CPU=3"},
            "TRESBillingWeights=CPU=3",
            id="with = in it",
        ),
        pytest.param("Future=1 MaxTime=60", {"MaxTime": "30"}, "Future=1 MaxTime=30", id="one that nobody knows stays"),
    ],
)
def test_options_are_changed_where_they_stand(written: str, changes: dict[str, str], expected: str) -> None:
    assert with_options(written, changes) == expected
