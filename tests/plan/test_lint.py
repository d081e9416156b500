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
from slurm_operator.plan.config import ConfigDecision, Stage, Verdict
from slurm_operator.plan.partition import lines
from slurm_operator.status import cluster as cluster_status
from slurm_operator.status import config as config_status
from slurm_operator.status import partition as partition_status

EXTRA = "Controller slurm spec.extraConf"
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


def test_an_owned_key_is_found_where_it_stands_in_slurm_conf() -> None:
    extra = "# mine\nSlurmctldPort=1\n"
    text = f"ClusterName=a\n#\n### EXTRA CONFIG ###\n{extra}"
    found = [each for each in lint.linted({"slurm.conf": text}, extra, "26.05") if each.code == "OwnedKey"]
    assert [text.splitlines()[each.line - 1] for each in found] == ["SlurmctldPort=1"]


def test_a_file_that_extra_conf_includes_may_not_set_what_the_operator_sets() -> None:
    extra = "Include site.conf\n"
    files = {"slurm.conf": f"ClusterName=a\n### EXTRA CONFIG ###\n{extra}", "site.conf": "\nSlurmUser=root\n"}
    assert [(each.file, each.line, each.code) for each in lint.linted(files, extra, "26.05")] == [
        ("site.conf", 2, "OwnedKey")
    ]


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("# one\nFoo=1", f"{EXTRA} line 2: unknown key Foo"),
        (
            "NodeName=a\nNodeName=a",
            f"{EXTRA} line 2: node a is already defined at {EXTRA} line 1",
        ),
        (
            "NodeName=a\nPartitionName=x Nodes=a Default=YES\nPartitionName=y Nodes=a Default=YES",
            f"{EXTRA} line 3: partition x is already the default, set at {EXTRA} line 2; Slurm takes the last one",
        ),
        (
            "NodeSet=compute Feature=x",
            f"{EXTRA} line 1: NodeSet compute is already defined at NodeSet compute metadata.name",
        ),
    ],
    ids=["a typo", "a node twice", "two defaults", "a name that a NodeSet has"],
)
def test_what_is_refused_is_told_with_the_place_that_somebody_wrote(extra: str, said: str) -> None:
    """U5: duplicates and two defaults were blamed on slurm.conf:42, a line that nobody wrote."""
    found = released(cluster((), (), (), cr=controller(extraConf=extra)))
    valid = config_status.drafts(found.config, None)[0]
    assert (valid.type, valid.reason, valid.message) == ("ConfigValid", "LinterRefused", said)


def test_what_slurm_refuses_is_told_with_the_place_that_somebody_wrote() -> None:
    world = cluster((), (), (), cr=controller(extraConf="# one\nPriorityType=priority/basic\n"))
    files = {**world.files, FILE: world.conf_text}
    line = files[FILE].split("\n").index("PriorityType=priority/basic") + 1
    verdict = Verdict("", "refused", reason="fatal: cannot find priority plugin for priority/basic")
    decision = ConfigDecision(Stage.REFUSED, "aa", None, verdict=verdict, place=f"slurm.conf:{line}")
    placed = lint.placed_decision(world, files, decision)
    message = config_status.drafts(placed, None)[0].message
    assert message.startswith(f"{EXTRA} line 2: fatal: cannot find priority plugin")
