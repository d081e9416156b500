"""One plan for a cluster: what slurm.conf holds after Slurm has accepted or refused each live change."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.build.resources import controller, nodeset, partition, refs

from slurm_operator.api.controller import Controller
from slurm_operator.api.partition import Partition as PartitionResource
from slurm_operator.build import controller as build
from slurm_operator.build.slurm_conf import FILE
from slurm_operator.plan.actions import Outcomes, PartitionAction, Refused
from slurm_operator.plan.cluster import plan_cluster, release
from slurm_operator.plan.cluster_world import (
    ClusterMemory,
    ClusterWorld,
    ConfigMaps,
    PartitionSnapshot,
    config_files,
    declared_in_force,
)
from slurm_operator.plan.owned import OwnedWorld
from slurm_operator.plan.partition import declared, lines
from slurm_operator.plan.partition_memory import PartitionMemory, Refusal
from slurm_operator.slurm.model import Job, Node, Partition, SlurmList, Unknown

CR = controller()
# A typo beside a partition: the linter refuses the file.
TYPO = controller(extraConf="PartitionName=ghost Nodes=ALL MaxTime=10\nFoo=bar\n")
MISSPELLED = partition("short", nodeSets=["compute"], config="AllowGroup=root")
SHORT = partition("short", nodeSets=["compute"], maxTime="01:00:00")
LONGER = partition("short", nodeSets=["compute"], maxTime="02:00:00")
IN_SLURM = Partition(name="short", node_sets="compute", states=frozenset({"UP"}), max_time=60)
NO_ANSWER = Unknown("slurmctld does not answer")


def files(*partitions: PartitionResource) -> dict[str, str]:
    """The published configuration with these Partitions."""
    return dict(config_files(build.built(CR, refs(CR, nodeset(), *partitions)), CR))


def cluster(
    wanted: tuple[PartitionResource, ...],
    before: tuple[PartitionResource, ...],
    slurm: tuple[Partition, ...] | Unknown,
    memory: PartitionMemory | None = None,
    jobs: tuple[Job, ...] = (),
    cr: Controller = CR,
) -> ClusterWorld:
    """A cluster that runs with one configuration and is to have another."""
    there = refs(cr, nodeset(), *wanted)
    built, maps = build.built(cr, there), ConfigMaps(good=files(*before), candidate=files(*before))
    text = built.conf.text_for(live_partitions=True)
    lines_ = declared(text, config_files(built, cr))
    listed = slurm if isinstance(slurm, Unknown) else SlurmList(slurm, complete=True)
    nodes = SlurmList((Node(name="compute-0", features=("compute",)),), complete=True)
    return ClusterWorld(
        cr,
        there,
        built,
        OwnedWorld(built.objects),
        maps,
        PartitionSnapshot(listed, jobs, nodes, supports_live_partitions=True),
        text,
        lines_,
        declared_in_force(maps, None, lines_),
        ClusterMemory(memory or PartitionMemory()),
        now=1000.0,
        time="2030-01-01T12:00:00Z",
    )


def candidate(world: ClusterWorld, *, refused: bool) -> dict[str, str]:
    """The partition lines that the sidecars are given, when Slurm takes every action or refuses each."""
    plan = plan_cluster(world)
    said = tuple(Refused(each, "no") for each in plan.actions if isinstance(each, PartitionAction)) if refused else ()
    released = release(world, plan, Outcomes(said))
    assert released.config.candidate is not None
    return {name: line.text for name, line in lines(released.config.candidate[FILE]).items()}


HOUR = "PartitionName=short Nodes=compute State=UP MaxTime=01:00:00"
TWO_HOURS = "PartitionName=short Nodes=compute State=UP MaxTime=02:00:00"
DRAINED = "PartitionName=short Nodes=compute State=DRAIN MaxTime=01:00:00"


@pytest.mark.parametrize(
    ("world", "accepted", "refused"),
    [
        pytest.param(cluster((SHORT,), (), ()), {"short": HOUR}, {}, id="a new one is left out if it is refused"),
        pytest.param(
            cluster((LONGER,), (SHORT,), (IN_SLURM,)),
            {"short": TWO_HOURS},
            {"short": HOUR},
            id="a change that is refused leaves the line in force",
        ),
        pytest.param(
            cluster((), (SHORT,), (IN_SLURM,)), {}, {"short": DRAINED}, id="a delete that is refused keeps it, drained"
        ),
        pytest.param(
            cluster((SHORT,), (SHORT,), (msgspec.structs.replace(IN_SLURM, grace_time=7),)),
            {"short": HOUR},
            {"short": HOUR},
            id="a revert that is refused asks for what the file has already",
        ),
    ],
)
def test_the_file_follows_slurm(world: ClusterWorld, accepted: dict[str, str], refused: dict[str, str]) -> None:
    assert plan_cluster(world).actions
    assert candidate(world, refused=False) == accepted
    assert candidate(world, refused=True) == refused


def test_the_same_world_gives_the_same_plan_and_the_same_release() -> None:
    first, second = (cluster((LONGER,), (SHORT,), (IN_SLURM,)) for _ in range(2))
    plans = [plan_cluster(world) for world in (first, first, second)]
    assert plans[0] == plans[1] == plans[2]
    assert release(first, plans[0], Outcomes()).config == release(second, plans[2], Outcomes()).config


def test_what_slurm_refused_stays_out_of_the_file_while_it_cannot_be_asked() -> None:
    line = lines(files(SHORT)[FILE])["short"]
    refused = PartitionMemory(refused={"short": Refusal("no", line)})
    world = cluster((SHORT,), (), NO_ANSWER, refused)
    assert plan_cluster(world).actions == ()
    assert candidate(world, refused=False) == {}
    # Another line is a new try.
    assert candidate(cluster((LONGER,), (), NO_ANSWER, refused), refused=False) == {"short": TWO_HOURS}


def test_without_an_answer_nothing_is_learned() -> None:
    known = PartitionMemory(refused={"short": Refusal("no")}, drifting={"short": ("rows", 1.0)})
    world = cluster((SHORT,), (SHORT,), NO_ANSWER, known)
    assert release(world, plan_cluster(world), Outcomes()).memory.partitions is known


def test_an_outcome_tells_what_is_on_its_way_and_then_that_it_is_in_force() -> None:
    before, after = (cluster((LONGER,), (SHORT,), (msgspec.structs.replace(IN_SLURM, max_time=m),)) for m in (60, 120))
    outcomes = [release(each, plan_cluster(each), Outcomes()).partitions["short"] for each in (before, after)]
    assert [[row.field for row in each.pending] for each in outcomes] == [["MaxTime"], []]
    assert [each.is_in_force for each in outcomes] == [False, True]


def test_an_outcome_names_the_jobs_that_a_deleted_partition_waits_for() -> None:
    leaving = partition("short", {"deletionTimestamp": "2030-01-01T12:00:00Z"}, nodeSets=["compute"])
    job = Job(job_id=7, partition="short", states=frozenset({"RUNNING"}))
    busy = cluster((leaving,), (SHORT,), (IN_SLURM,), jobs=(job,))
    gone = cluster((leaving,), (SHORT,), ())
    found = [release(each, plan_cluster(each), Outcomes()).partitions["short"] for each in (busy, gone)]
    assert [(each.waits, each.has_left) for each in found] == [((7,), False), ((), True)]


def test_nobody_says_that_a_partition_has_left_whom_slurm_does_not_answer() -> None:
    leaving = partition("short", {"deletionTimestamp": "2030-01-01T12:00:00Z"}, nodeSets=["compute"])
    world = cluster((leaving,), (SHORT,), NO_ANSWER)
    outcome = release(world, plan_cluster(world), Outcomes()).partitions["short"]
    assert (outcome.waits, outcome.has_left) == (NO_ANSWER, False)


def test_what_slurm_refuses_is_not_asked_for_every_second() -> None:
    """A partition with an option that Slurm does not take was a call and a line in the log a second, for ever."""
    memory, sent = PartitionMemory(), list[float]()
    for second in range(60):
        world = replace(cluster((LONGER,), (SHORT,), (IN_SLURM,), memory), now=1000.0 + second)
        plan = plan_cluster(world)
        tried = tuple(Refused(each, "no such QOS") for each in plan.actions if isinstance(each, PartitionAction))
        sent += [world.now for _ in tried]
        released = release(world, plan, Outcomes(tried))
        # Whether it was sent or not, the file holds what Slurm has, and the Partition says why.
        assert released.config.candidate is not None
        assert lines(released.config.candidate[FILE])["short"].text == HOUR
        assert released.partitions["short"].refused == "no such QOS"
        memory = released.memory.partitions
    assert [at - 1000.0 for at in sent] == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 47.0]


def test_another_change_is_sent_at_once_though_one_was_refused() -> None:
    world = cluster((LONGER,), (SHORT,), (IN_SLURM,))
    plan = plan_cluster(world)
    refused = tuple(Refused(each, "no") for each in plan.actions if isinstance(each, PartitionAction))
    memory = release(world, plan, Outcomes(refused)).memory.partitions
    assert plan_cluster(cluster((LONGER,), (SHORT,), (IN_SLURM,), memory)).actions == ()
    other = partition("short", nodeSets=["compute"], maxTime="03:00:00")
    assert len(plan_cluster(cluster((other,), (SHORT,), (IN_SLURM,), memory)).actions) == 1


def test_a_change_without_an_answer_is_sent_again_at_once() -> None:
    world = cluster((LONGER,), (SHORT,), (IN_SLURM,))
    plan = plan_cluster(world)
    silent = tuple(Refused(each, "timeout", False) for each in plan.actions if isinstance(each, PartitionAction))
    memory = release(world, plan, Outcomes(silent)).memory.partitions
    assert plan_cluster(cluster((LONGER,), (SHORT,), (IN_SLURM,), memory)).actions == plan.actions
