"""Options of partitions as people give them, and what is written into the resource that has the partition."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.cli.kubectl.options import BadOption, nodeset_patch, parsed, partition_patch, written


def test_options_get_their_own_spelling() -> None:
    assert parsed(["maxtime=2:00:00", "shared=NO", "QOS="]) == {"MaxTime": "2:00:00", "OverSubscribe": "NO", "QOS": ""}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        pytest.param("MaxTime", "'MaxTime' is not OPTION=VALUE, such as MaxTime=2:00:00", id="no value"),
        pytest.param("MaxTiem=5", "no option 'MaxTiem'; did you mean MaxTime?", id="misspelled"),
        pytest.param("PartitionName=x", "no option 'PartitionName'", id="the name"),
        pytest.param("Nodes=n1", "partition add-nodes and remove-nodes", id="nodes"),
        pytest.param("State=CLOSED", "State: 'CLOSED' ", id="a word that is none"),
        pytest.param("MaxTime=1 hour", "MaxTime must contain neither spaces nor quotes", id="two words"),
        pytest.param("QOS=a#b", "QOS must not contain '#'", id="a comment"),
        pytest.param("QOS=a\nPartitionName=x", "must be one line", id="a line of its own"),
        pytest.param("PriorityTier=high", "PriorityTier: 'high' is not a number that Slurm can read", id="no number"),
    ],
)
def test_what_slurm_would_not_read_is_refused_in_words(word: str, said: str) -> None:
    with pytest.raises(BadOption) as refused:
        parsed([word])
    assert said in str(refused.value)


def nodeset(config: str | None) -> dict[str, Any]:
    return {"spec": {"partition": {"enabled": True, "config": config}}}


@pytest.mark.parametrize(
    ("config", "options", "expected"),
    [
        pytest.param(None, {"State": "DRAIN"}, "State=DRAIN", id="no options before"),
        pytest.param("Default=YES", {"State": "DRAIN"}, "Default=YES State=DRAIN", id="beside what was written"),
        pytest.param("Default=YES State=DRAIN", {"State": "UP"}, "Default=YES State=UP", id="and back"),
        pytest.param("QOS=a", {"QOS": ""}, None, id="the last option"),
    ],
)
def test_a_nodesets_partition_is_changed_in_its_config(
    config: str | None, options: dict[str, str], expected: str | None
) -> None:
    assert nodeset_patch(nodeset(config), options) == {"partition": {"config": expected}}


def test_a_config_that_nobody_can_read_is_not_changed() -> None:
    with pytest.raises(BadOption, match="correct it first: must not contain '#'"):
        nodeset_patch(nodeset("MaxTime=60 # an hour"), {"State": "DRAIN"})


@pytest.mark.parametrize(
    ("spec", "options", "expected"),
    [
        pytest.param({}, {"State": "drain"}, {"state": "DRAIN"}, id="state"),
        pytest.param({"state": "DRAIN"}, {"State": ""}, {"state": "UP"}, id="the default state"),
        pytest.param({}, {"MaxTime": "60"}, {"maxTime": "60"}, id="a time stays text"),
        pytest.param({}, {"PriorityTier": "3"}, {"priorityTier": 3}, id="a number"),
        pytest.param({}, {"AllowAccounts": "a,b"}, {"allowAccounts": ["a", "b"]}, id="names"),
        pytest.param({}, {"Hidden": "yes"}, {"hidden": True}, id="a flag"),
        pytest.param({"maxTime": "60"}, {"MaxTime": ""}, {"maxTime": None}, id="taken away"),
        pytest.param(
            {"tresBillingWeights": {"CPU": "1", "Mem": "2"}},
            {"TRESBillingWeights": "CPU=3"},
            {"tresBillingWeights": {"CPU": "3", "Mem": None}},
            id="weights, and none of the old",
        ),
        pytest.param({}, {"SuspendTime": "60"}, {"config": "SuspendTime=60"}, id="an option without a field"),
        pytest.param(
            {"config": "QOS=a LLN=YES"}, {"QOS": "b"}, {"config": "QOS=b LLN=YES"}, id="where it stands: in config"
        ),
        pytest.param(
            {"config": "QOS=a", "qos": "b"}, {"QOS": ""}, {"qos": None, "config": None}, id="taken away from both"
        ),
    ],
)
def test_a_partition_is_changed_where_the_option_stands(
    spec: dict[str, Any], options: dict[str, str], expected: dict[str, Any]
) -> None:
    assert partition_patch({"spec": spec}, options) == expected


def test_options_in_a_sentence() -> None:
    assert written({"State": "DRAIN", "QOS": ""}) == "State=DRAIN, QOS removed"
