"""Configurations that must never reach a running slurmctld, each with what it does there.

`EXTRA` are lines that somebody adds to slurm.conf, `FILES` come with files beside it. Used by `test_vet.py`.
"""

from __future__ import annotations

# What to add to slurm.conf.
EXTRA = {
    "unknown key": "Bogus=1",
    "garbage": "this is garbage",
    "a number that is none": "SlurmctldTimeout=abc",
    "a negative number": "MaxJobCount=-5",
    "unknown select plugin": "SelectType=select/nosuch",
    "unknown scheduler plugin": "SchedulerType=sched/nosuch",
    "unknown priority plugin": "PriorityType=priority/nosuch",
    "unknown preempt plugin": "PreemptType=preempt/nosuch",
    "unknown job submit plugin": "JobSubmitPlugins=nosuch",
    "job_submit.lua is missing": "JobSubmitPlugins=lua",
    "unknown accounting plugin": "AccountingStorageType=accounting_storage/nosuch",
    "unknown task plugin": "TaskPlugin=task/nosuch",
    "unknown proctrack plugin": "ProctrackType=proctrack/nosuch",
    "unknown job accounting plugin": "JobAcctGatherType=jobacct_gather/nosuch",
    "unknown switch plugin": "SwitchType=switch/nosuch",
    "unknown topology plugin": "TopologyPlugin=topology/nosuch",
    "unknown job completion plugin": "JobCompType=jobcomp/nosuch",
    "another way to authenticate": "AuthType=auth/nosuch",
    "another credential": "CredType=cred/nosuch",
    "partition of an unknown node": "PartitionName=bad Nodes=nosuch",
    "unknown key of a partition": "PartitionName=bad Nodes=compute Foo=bar",
    "a time that is none": "PartitionName=bad Nodes=compute MaxTime=xyz",
    "a state that is none": "PartitionName=bad Nodes=compute State=SIDEWAYS",
    "a choice that is none": "PartitionName=bad Nodes=compute OverSubscribe=MAYBE",
    "partition twice": "PartitionName=compute Nodes=ALL",
    "partition without nodes": "PartitionName=bad Nodes=",
    "two default partitions": "PartitionName=second Nodes=compute Default=YES",
    "a broken host list": "PartitionName=bad Nodes=n[0-",
    "NodeSet without a feature": "NodeSet=foo",
    "NodeSet twice": "NodeSet=compute Feature=x",
    "node twice": "NodeName=s1 NodeAddr=127.0.0.1 State=FUTURE\nNodeName=s1 NodeAddr=127.0.0.1 State=FUTURE",
    "unknown key of a node": "NodeName=s1 NodeAddr=127.0.0.1 Frob=1",
    "another cluster name": "ClusterName=other",
    "another host": "SlurmctldHost=elsewhere(192.0.2.9)",
    "another port": "SlurmctldPort=6899",
    "unknown user": "SlurmUser=nosuch",
    "state in a place that is not there": "StateSaveLocation=/nope",
    "no room for the nodes": "MaxNodeCount=1",
    "included file is missing": "Include /etc/slurm/nofile.conf",
    "topology.conf is missing": "TopologyPlugin=topology/tree",
}
# Files beside slurm.conf, and what to add to it.
FILES = {
    "bad cgroup.conf": ({"cgroup.conf": "Bogus=yes\n"}, ""),
    "bad gres.conf": ({"gres.conf": "Name=gpu Bogus=1\n"}, "GresTypes=gpu"),
    "bad included file": ({"more.conf": "Bogus=1\n"}, "Include more.conf"),
    "bad topology.conf": ({"topology.conf": "SwitchName=s0 Frob=1\n"}, "TopologyPlugin=topology/tree"),
}
# Only the linter refuses these: Slurm takes them in silence, or a trial has something of its own in their place.
ONLY_THE_LINTER = frozenset(
    {
        "two default partitions",
        "NodeSet without a feature",
        "NodeSet twice",
        "unknown task plugin",
        "unknown proctrack plugin",
        "bad gres.conf",
        "another port",
        "another host",
        "another cluster name",
        "state in a place that is not there",
    }
)
