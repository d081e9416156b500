"""Nothing that the linter refuses reaches Slurm, by the file or live; one typo stops no other resource."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.build.resources import controller, partition
from tests.plan.test_cluster import IN_SLURM, LONGER, MISSPELLED, SHORT, TYPO, cluster

from slurm_operator.build.slurm_conf import FILE
from slurm_operator.plan import lint
from slurm_operator.plan.actions import DeletePartition, Outcomes, SetPartition
from slurm_operator.plan.cluster import Release, plan_cluster, release
from slurm_operator.plan.cluster_world import ClusterWorld
from slurm_operator.plan.config import Stage
from slurm_operator.plan.partition import lines
from slurm_operator.status import cluster as cluster_status
from slurm_operator.status import partition as partition_status

UNCHECKED = controller(
    metadata={"annotations": {"slinky.slurm.net/config-check": "off"}}, extraConf=TYPO.spec.extra_conf
)


def sent(world: ClusterWorld) -> list[str]:
    """The partitions that are set live."""
    return sorted(each.change.name for each in plan_cluster(world).actions if isinstance(each, SetPartition))


def released(world: ClusterWorld) -> Release:
    return release(world, plan_cluster(world), Outcomes())


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(cluster((), (), (), cr=TYPO), id="a partition of extraConf beside the typo"),
        pytest.param(cluster((SHORT,), (), (), cr=TYPO), id="a Partition that is new"),
        pytest.param(cluster((LONGER,), (SHORT,), (IN_SLURM,), cr=TYPO), id="a Partition that changes"),
        pytest.param(cluster((MISSPELLED,), (), ()), id="a new Partition with a typo"),
        pytest.param(cluster((MISSPELLED,), (SHORT,), (IN_SLURM,)), id="a Partition that gets a typo"),
    ],
)
def test_what_the_linter_refuses_is_not_sent_to_slurm(world: ClusterWorld) -> None:
    assert "ghost" not in sent(world)
    assert "short" not in sent(world)


def test_a_file_that_the_linter_refuses_is_not_handed_over_and_its_partitions_say_so() -> None:
    found = released(cluster((SHORT,), (), (), cr=TYPO))
    assert found.config.stage is Stage.INVALID
    conditions = {each.type: each for each in partition_status.drafts(found.partitions["short"])}
    assert {(each.truth.value, each.reason) for each in conditions.values()} == {("False", "LinterRefused")}
    assert "unknown key Foo" in conditions["Applied"].message


def test_a_deleted_partition_goes_though_the_linter_refuses_the_file() -> None:
    world = cluster((), (SHORT,), (IN_SLURM,), cr=TYPO)
    assert [type(each) for each in plan_cluster(world).actions] == [DeletePartition]


def test_the_typo_of_one_partition_stops_no_other() -> None:
    other = partition("other", nodeSets=["compute"], maxTime="01:00:00")
    world = cluster((MISSPELLED, other), (SHORT,), (IN_SLURM,))
    assert "other" in sent(world)
    found = released(world)
    assert found.config.candidate is not None
    assert {name: line.text for name, line in lines(found.config.candidate[FILE]).items()} == {
        "short": "PartitionName=short Nodes=compute State=UP MaxTime=01:00:00",
        "other": "PartitionName=other Nodes=compute State=UP MaxTime=01:00:00",
    }


def test_the_typo_of_a_partition_is_told_on_it_and_on_its_controller() -> None:
    world = cluster((MISSPELLED,), (SHORT,), (IN_SLURM,))
    plan = plan_cluster(world)
    found = release(world, plan, Outcomes())
    conditions = {each.type: each for each in partition_status.drafts(found.partitions["short"])}
    assert (conditions["Accepted"].reason, conditions["Applied"].reason) == ("LinterRefused", "LinterRefused")
    assert "unknown key AllowGroup; did you mean AllowGroups?" in conditions["Accepted"].message
    degraded = [each for each in cluster_status.drafts(world, plan, found) if each.type == "Degraded"]
    assert [(each.truth.value, each.reason) for each in degraded] == [("True", "ConfigNotValid")]
    assert "partition short: the linter refuses the options of Partition 'short'" in degraded[0].message


def test_where_the_check_is_off_everything_is_sent() -> None:
    assert "short" in sent(cluster((SHORT,), (), (), cr=UNCHECKED))


def test_files_are_linted_once_for_two_reconciles_that_see_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster((MISSPELLED,), (SHORT,), (IN_SLURM,))
    first = released(world)
    monkeypatch.setattr(lint, "linted", lambda *_: pytest.fail("the same files were linted again"))
    second = released(replace(world, memory=replace(world.memory, linted=first.memory.linted)))
    assert second.refused_by_linter == first.refused_by_linter != {}
