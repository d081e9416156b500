"""Where a line of the configuration was written: a resource, a field and a line, never `slurm.conf:42`."""

from __future__ import annotations

import pytest
from tests.build.resources import controller, nodeset, partition, refs

from slurm_operator.build.conf_origin import Origins
from slurm_operator.build.controller import config_map
from slurm_operator.build.slurm_conf import FILE, slurm_conf
from slurm_operator.slurm.conf import Finding

EXTRA = """\
# mine
TaskPlugin=task/affinity
SlurmctldParameters=cloud_dns,\\
idle_on_node_suspend
NodeName=s[1-2]
PartitionName=short Nodes=s1
Include site.conf
"""
SITE = {"site": {"site.conf": "TreeWidth=4\nTreeWidth=5\n"}}


def origins(**changed: str) -> Origins:
    """A cluster with lines of every kind, its slurm.conf changed as asked."""
    cr = controller(extraConf=EXTRA, configFileRefs=[{"name": "site"}], metrics={"enabled": True}, clusterName="red")
    sets = nodeset("gpu", partition={"enabled": True, "config": "MaxTime=60"}), nodeset("cpu")
    part = partition("night", nodeSets=["cpu"], maxTime="02:00:00", config="LLN=YES", tresBillingWeights={"cpu": "1"})
    there = refs(cr, *sets, part, config_maps=SITE)
    built = slurm_conf(cr, there)
    text = built.text
    for old, new in changed.items():
        assert old in text, old
        text = text.replace(old, new)
    files = {**config_map(cr, there, built)["data"], FILE: text}
    return Origins(cr, there, built, files)


def place(found: Origins, line: str, option: str = "") -> str:
    """The place of the last line that begins so, and of an option in it."""
    lines = found.files[FILE].split("\n")
    number = max(number for number, text in enumerate(lines, start=1) if text.startswith(line))
    column = lines[number - 1].index(option) + 1 if option else 0
    return str(found.of(FILE, number, column))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# mine", "Controller slurm spec.extraConf line 1"),
        ("TaskPlugin=", "Controller slurm spec.extraConf line 2"),
        ("idle_on_node", "Controller slurm spec.extraConf line 4"),
        ("PartitionName=short", "Controller slurm spec.extraConf line 6"),
        ("SlurmctldParameters=", "Controller slurm spec.extraConf line 3"),
        ("PartitionName=gpu", "NodeSet gpu spec.partition.config"),
        ("NodeSet=cpu", "NodeSet cpu metadata.name"),
        ("PartitionName=night", "Partition night spec"),
        ("MetricsType=", "Controller slurm spec.metrics.enabled"),
        ("ClusterName=", "Controller slurm spec.clusterName"),
        ("SlurmdUser=", "Controller slurm spec"),
    ],
)
def test_a_line_of_slurm_conf_has_its_origin(line: str, expected: str) -> None:
    assert place(origins(), line) == expected


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("PartitionName=", "partitionName"),
        ("Nodes=", "nodeSets"),
        ("State=", "state"),
        ("MaxTime=", "maxTime"),
        ("LLN=", "config"),
        ("TRESBillingWeights=", "tresBillingWeights"),
    ],
)
def test_an_option_of_a_partition_has_its_field(option: str, field: str) -> None:
    assert place(origins(), "PartitionName=night", option) == f"Partition night spec.{field}"


def test_a_line_below_one_that_was_taken_away_keeps_its_number() -> None:
    found = origins(**{"NodeName=s[1-2]\n": ""})
    assert place(found, "Include site.conf") == "Controller slurm spec.extraConf line 7"


def test_a_file_of_a_config_map_has_its_key_and_line() -> None:
    assert str(origins().of("site.conf", 2)) == "ConfigMap site key site.conf line 2"
    assert origins().of("cgroup.conf", 1) is None


def test_both_places_of_a_finding_are_those_that_people_know() -> None:
    finding = Finding(
        file="site.conf",
        line=2,
        column=1,
        severity="warning",
        code="DuplicateKey",
        message="TreeWidth was already set at site.conf:1; the last one counts",
        other=("site.conf", 1),
    )
    assert str(origins().placed(finding)) == (
        "ConfigMap site key site.conf line 2: warning: "
        "TreeWidth was already set at ConfigMap site key site.conf line 1; the last one counts"
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "error: Parse error in file /etc/slurm/site.conf line 2: x",
            "error: Parse error in ConfigMap site key site.conf",
        ),
        ("site.conf:1", "ConfigMap site key site.conf line 1"),
        ("fatal: other.conf:1 is bad", "fatal: other.conf:1 is bad"),
        ("listening on 10.0.0.1:6817", "listening on 10.0.0.1:6817"),
    ],
)
def test_a_place_that_slurm_names_becomes_one_that_people_know(said: str, expected: str) -> None:
    assert origins().translated(said).startswith(expected)


def test_a_finding_elsewhere_keeps_its_words() -> None:
    own = Finding(
        file="cgroup.conf", line=1, column=1, severity="error", code="x", message="y", other=("cgroup.conf", 2)
    )
    placed = origins().placed(own)
    assert (placed.message, placed.place) == ("y", "")


def test_a_column_beside_every_option_is_the_partition_itself() -> None:
    found = origins()
    line = next(n for n, text in enumerate(found.files[FILE].split("\n"), 1) if text.startswith("PartitionName=night"))
    assert str(found.of(FILE, line, 900)) == "Partition night spec"
