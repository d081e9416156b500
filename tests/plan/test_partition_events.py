"""What is told of a revert, and on which resource."""

from __future__ import annotations

import pytest

from slurm_operator.build.partition import ACCEPTED, IN_FORCE, NAME_TAKEN, Acceptance
from slurm_operator.plan.actions import Outcomes, PartitionDecisions, Plan, Reconfigure, Refused, SetPartition
from slurm_operator.plan.partition import MISSING_PARTITION
from slurm_operator.plan.partition_events import MAX_EVENTS, OwnerEvent, revert_events
from slurm_operator.plan.partition_fields import Difference
from slurm_operator.slurm.requests import PartitionChange

STATE = Difference("State", "UP", "DRAIN")
OF_NODESET = Acceptance("NodeSet", "compute", "compute", ACCEPTED, IN_FORCE, "PartitionName=compute")
OF_PARTITION = Acceptance("Partition", "debug", "short", ACCEPTED, IN_FORCE, "PartitionName=short")
REFUSED = Acceptance("Partition", "rival", "compute", NAME_TAKEN, "taken")


def plan(*names: str, drift: tuple[Difference, ...] = (STATE,), reverts: bool = True) -> Plan:
    stages = tuple((SetPartition(PartitionChange(name=name), "revert"),) for name in names)
    found = frozenset(names) if reverts else frozenset[str]()
    return Plan(stages, partitions=PartitionDecisions(drift=dict.fromkeys(names, drift), reverts=found))


def events(done: Plan, *acceptances: Acceptance, outcomes: Outcomes | None = None) -> tuple[OwnerEvent, ...]:
    return revert_events("slurm", acceptances, done, outcomes or Outcomes(), frozenset())


@pytest.mark.parametrize(
    ("name", "owner", "remedy"),
    [
        pytest.param(
            "compute",
            ("NodeSet", "compute"),
            "kubectl slurm partition set compute OPTION=VALUE changes NodeSet compute",
            id="of a NodeSet, though a Partition claims its name",
        ),
        pytest.param(
            "short",
            ("Partition", "debug"),
            "kubectl slurm partition set short OPTION=VALUE changes Partition debug",
            id="of a Partition",
        ),
        pytest.param(
            "legacy",
            ("Controller", "slurm"),
            "change its line in extraConf of Controller slurm",
            id="of extraConf",
        ),
    ],
)
def test_a_revert_is_told_on_the_resource_that_has_the_partition(
    name: str, owner: tuple[str, str], remedy: str
) -> None:
    (told,) = events(plan(name), OF_NODESET, OF_PARTITION, REFUSED)
    assert (told.kind, told.name, told.event.reason, told.event.warning) == (*owner, "DriftReverted", True)
    assert told.event.message == (
        f"partition {name}: somebody with scontrol or REST changed State from UP to DRAIN; changed back. "
        f"To change it for good: {remedy}"
    )


@pytest.mark.parametrize(
    ("drift", "words"),
    [
        pytest.param((MISSING_PARTITION,), "REST deleted it; changed back", id="deleted"),
        pytest.param((Difference("Nodes", "compute", "n1"),), "changed its nodes from compute to n1;", id="nodes"),
        pytest.param(
            (Difference("QOS", "", "high"),), "changed QOS from nothing to high;", id="an option without value"
        ),
        pytest.param(
            (STATE, Difference("MaxTime", "1", "2")), "State from UP to DRAIN, MaxTime from 1 to 2;", id="two"
        ),
        pytest.param((Difference("QOS", "a", "b\x1b[31m\n"),), "QOS from a to b [31m;", id="nothing that acts"),
    ],
)
def test_what_was_changed_is_told_from_and_to(drift: tuple[Difference, ...], words: str) -> None:
    (told,) = events(plan("compute", drift=drift), OF_NODESET)
    assert words in told.event.message


def test_what_slurm_refuses_was_not_changed_back() -> None:
    done = plan("compute")
    (action,) = done.actions
    assert isinstance(action, SetPartition)
    assert events(done, OF_NODESET, outcomes=Outcomes((Refused(action, "no"),))) == ()


def test_a_change_that_reverts_nothing_is_no_event() -> None:
    assert events(plan("compute", reverts=False), OF_NODESET) == ()
    assert events(Plan(partitions=PartitionDecisions(reverts=frozenset({"compute"}))), OF_NODESET) == ()


def test_a_reconfigure_is_told_for_each_partition_that_it_was_for() -> None:
    decisions = PartitionDecisions(
        drift={"compute": (STATE,), "short": (STATE,)}, reverts=frozenset({"compute", "short"})
    )
    told = events(Plan(((Reconfigure(("compute",)),),), partitions=decisions), OF_NODESET, OF_PARTITION)
    assert [(each.kind, each.name) for each in told] == [("NodeSet", "compute")]


def test_the_last_revert_says_that_the_next_change_is_left() -> None:
    (told,) = revert_events("slurm", (OF_NODESET,), plan("compute"), Outcomes(), frozenset({"compute"}))
    assert told.event.reason == "DriftComesBack"
    assert told.event.message.endswith("revert 5 within 10 minutes: the next change will not be reverted")


def test_a_whole_cluster_that_was_changed_is_a_few_events() -> None:
    told = events(plan(*(f"p{number}" for number in range(2000))))
    assert len(told) == MAX_EVENTS + 1
    assert (told[-1].kind, told[-1].name) == ("Controller", "slurm")
    assert f"changed {2000 - MAX_EVENTS} more partitions (" in told[-1].event.message
