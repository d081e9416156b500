"""The plan for partitions: live changes, lines that stay, jobs that are waited for, drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import pytest

from slurm_operator.plan.actions import DeletePartition, Plan, Reconfigure, SetPartition
from slurm_operator.plan.partition import (
    PartitionWorld,
    declared,
    edited,
    lines,
    plan_partitions,
    with_lines,
    without_live_lines,
)
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.model import UNLIMITED, Job, Partition, SlurmList, Unknown
from slurm_operator.slurm.requests import PartitionChange

SETS = "NodeSet=compute Feature=compute\nNodeSet=gpu Feature=gpu\n"
BARE = Partition(
    name="p",
    states=frozenset({"UP"}),
    flags=frozenset(),
    nodes="n[0-2]",
    node_sets="compute",
    max_time=UNLIMITED,
    max_nodes=UNLIMITED,
    max_cpus_per_node=UNLIMITED,
    max_cpus_per_socket=UNLIMITED,
    priority_tier=1,
    priority_job_factor=1,
    preempt_mode=("CLUSTER_GLOBAL",),
    oversubscribe="NO",
    exclusive="NO",
    memory_per_node=0,
    max_memory_per_node=0,
)


def slurm(name: str = "p", **fields: object) -> Partition:
    return msgspec.structs.replace(BARE, name=name, **fields)


def job(number: int, partition: str = "p", *states: str) -> Job:
    return Job(job_id=number, partition=partition, states=frozenset(states or {"RUNNING"}))


@dataclass(frozen=True)
class Case:
    """One row: the two files, Slurm, and what comes of it."""

    wanted: str = "PartitionName=p Nodes=compute"
    in_force: str = "PartitionName=p Nodes=compute"
    live: tuple[Partition, ...] = (BARE,)
    jobs: tuple[Job, ...] | Unknown = ()
    supports_live_partitions: bool = True
    policy: str | None = None
    given_up: bool = False
    actions: tuple[object, ...] = ()
    kept: dict[str, str] = field(default_factory=dict)
    waits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    drift: set[str] = field(default_factory=set)
    unsettable: tuple[str, ...] = ()

    def plan(self) -> Plan:
        in_force = declared(SETS + self.in_force)
        return plan_partitions(
            PartitionWorld(
                lines(SETS + "NodeSet=new Feature=new\n" + self.wanted),
                in_force.lines,
                SlurmList(self.live, complete=True),
                self.jobs,
                self.supports_live_partitions,
                {"p": self.policy} if self.policy else {},
                sets_in_force=frozenset(in_force.sets),
                unreverted=frozenset({"p"}) if self.given_up else frozenset(),
            )
        )


def change(**fields: object) -> PartitionChange:
    return PartitionChange(**{"name": "p", **fields})  # type: ignore[arg-type]  # rows of a table


P = "PartitionName=p Nodes=compute"
DRAINED = frozenset({"DRAIN"})
CASES = {
    "as wanted: nothing": Case(),
    "written differently: nothing": Case(
        wanted=f"{P} MaxTime=60", in_force=f"{P} MaxTime=1:00:00", live=(slurm(max_time=60),)
    ),
    # --- making
    "a new partition is made live": Case(in_force="", live=(), actions=(change(nodes="compute", state="UP"),)),
    "a new one is made with all that its line says": Case(
        wanted=f"{P} MaxTime=5 State=DRAIN",
        in_force="",
        live=(),
        actions=(change(nodes="compute", state="DRAIN", max_time=5),),
    ),
    "a new one that somebody made by hand is brought in line": Case(
        wanted=f"{P} MaxTime=5", in_force="", actions=(change(max_time=5),)
    ),
    "a new one of a NodeSet that Slurm has not read comes by the file": Case(
        wanted="PartitionName=p Nodes=new", in_force="", live=()
    ),
    "a new one with an option that no call sets comes by the file": Case(
        wanted=f"{P} CpuBind=core", in_force="", live=()
    ),
    "without the live way a new one comes by the file": Case(in_force="", live=(), supports_live_partitions=False),
    # --- changing
    "a change is made live": Case(wanted=f"{P} MaxTime=5", actions=(change(max_time=5),)),
    "a state takes effect live": Case(wanted=f"{P} State=DOWN", actions=(change(state="DOWN"),)),
    "an option that is no longer set goes back to the default": Case(
        in_force=f"{P} MaxTime=5", live=(slurm(max_time=5),), actions=(change(max_time=UNLIMITED),)
    ),
    "a change that was made already is not made again": Case(wanted=f"{P} MaxTime=5", live=(slurm(max_time=5),)),
    "what cannot be compared is set with the change": Case(
        wanted=f"{P} DefCpuPerGPU=2", actions=(change(job_defaults="DefCpuPerGPU=2"),)
    ),
    "an option that was taken back already is not taken back again": Case(in_force=f"{P} MaxTime=5"),
    "an option without a default of its own is taken back": Case(
        in_force=f"{P} Topology=blue", live=(slurm(topology="blue"),), actions=(change(topology=""),)
    ),
    "an option that no call takes back is named": Case(
        in_force=f"{P} PreemptMode=CANCEL", live=(slurm(preempt_mode=("CANCEL",)),), unsettable=("PreemptMode",)
    ),
    "other nodes": Case(wanted="PartitionName=p Nodes=gpu", actions=(change(nodes="gpu"),)),
    "other nodes of a NodeSet that Slurm has not read: the old line stays": Case(
        wanted="PartitionName=p Nodes=compute,new", kept={"p": P}
    ),
    "an option that no call sets is named, the others are set": Case(
        wanted=f"{P} CpuBind=core MaxTime=5", actions=(change(max_time=5),), unsettable=("CpuBind",)
    ),
    "without the live way a change comes by the file": Case(wanted=f"{P} MaxTime=5", supports_live_partitions=False),
    "the default of a DEFAULT line counts": Case(
        wanted=f"PartitionName=DEFAULT MaxTime=5\n{P}", actions=(change(max_time=5),)
    ),
    "a change under any policy": Case(wanted=f"{P} MaxTime=5", policy="Keep", actions=(change(max_time=5),)),
    # --- drift
    "drift is reverted": Case(live=(slurm(max_time=5),), actions=(change(max_time=UNLIMITED),), drift={"MaxTime"}),
    "drift is reported": Case(live=(slurm(max_time=5),), policy="Report", drift={"MaxTime"}),
    "drift is kept": Case(live=(slurm(states=DRAINED),), policy="Keep", drift={"State"}),
    "drift that comes back is reported": Case(live=(slurm(max_time=5),), given_up=True, drift={"MaxTime"}),
    "drift and change in one call": Case(
        wanted=f"{P} GraceTime=3",
        live=(slurm(max_time=5),),
        actions=(change(grace_time=3, max_time=UNLIMITED),),
        drift={"MaxTime"},
    ),
    "a change does not touch what is kept": Case(
        wanted=f"{P} GraceTime=3",
        live=(slurm(max_time=5),),
        policy="Keep",
        actions=(change(grace_time=3),),
        drift={"MaxTime"},
    ),
    "a partition deleted by hand is made again": Case(
        live=(), actions=(change(nodes="compute", state="UP"),), drift={"Partition"}
    ),
    "a partition deleted by hand is missed": Case(live=(), policy="Report", drift={"Partition"}),
    "without the live way drift is reverted by a reconfigure": Case(
        live=(slurm(max_time=5),), supports_live_partitions=False, actions=("reconfigure",), drift={"MaxTime"}
    ),
    "without the live way nothing is drift while a change is on its way": Case(
        wanted=f"{P} MaxTime=9", live=(slurm(max_time=5),), supports_live_partitions=False
    ),
    "a partition that somebody made by hand is left alone": Case(live=(BARE, slurm("theirs"))),
    # --- removing
    "an unused partition is deleted live, and its line stays until then": Case(
        wanted="", actions=("delete",), kept={"p": f"{P} State=DRAIN"}
    ),
    "a used one is drained and waited for": Case(
        wanted="",
        jobs=(job(7), job(8, "p", "PENDING"), job(9, "q"), job(5, "p", "COMPLETED")),
        actions=(change(state="DRAIN"),),
        kept={"p": f"{P} State=DRAIN"},
        waits={"p": (7, 8)},
    ),
    "a job that may also run elsewhere is waited for": Case(
        wanted="",
        jobs=(job(7, "q,p", "PENDING"),),
        live=(slurm(states=DRAINED),),
        kept={"p": f"{P} State=DRAIN"},
        waits={"p": (7,)},
    ),
    "a job that completes is waited for": Case(
        wanted="",
        jobs=(job(7, "p", "COMPLETED", "COMPLETING"),),
        live=(slurm(states=DRAINED),),
        kept={"p": f"{P} State=DRAIN"},
        waits={"p": (7,)},
    ),
    "a drained one is not drained again": Case(
        wanted="",
        jobs=(job(7),),
        live=(slurm(states=DRAINED),),
        kept={"p": f"{P} State=DRAIN"},
        waits={"p": (7,)},
    ),
    "a finished job keeps nothing live": Case(
        wanted="", jobs=(job(5, "p", "COMPLETED"),), actions=("delete",), kept={"p": f"{P} State=DRAIN"}
    ),
    "without the live way even a finished job's record is waited for": Case(
        wanted="",
        jobs=(job(5, "p", "COMPLETED"),),
        supports_live_partitions=False,
        kept={"p": f"{P} State=DRAIN"},
        waits={"p": (5,)},
    ),
    "without the live way the file drains it first, since somebody may be about to submit a job": Case(
        wanted="", supports_live_partitions=False, kept={"p": f"{P} State=DRAIN"}, waits={"p": ()}
    ),
    "without the live way the file takes it away once it is drained": Case(
        wanted="", live=(slurm(states=frozenset({"DRAIN"})),), supports_live_partitions=False
    ),
    "also where Slurm keeps its own state": Case(
        wanted="", in_force=f"{P} State=DRAIN", supports_live_partitions=False
    ),
    "one that is gone already leaves the file": Case(wanted="", live=()),
    "one that is not listed, while an ended job names it, is deleted before it leaves the file": Case(
        wanted="", live=(), jobs=(job(7, "p", "COMPLETED"),), actions=("delete",), kept={"p": f"{P} State=DRAIN"}
    ),
    "without live partitions it stays in the file while an ended job names it": Case(
        wanted="",
        live=(),
        jobs=(job(7, "p", "COMPLETED"),),
        supports_live_partitions=False,
        kept={"p": P},
        waits={"p": (7,)},
    ),
    "jobs that cannot be asked for keep it as it is": Case(
        wanted="", jobs=Unknown("no answer"), kept={"p": P}, waits={"p": ()}
    ),
}


def told(action: object) -> object:
    match action:
        case SetPartition():
            return action.change
        case DeletePartition():
            return "delete"
        case Reconfigure():
            return "reconfigure"
    raise AssertionError(action)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_plan(case: Case) -> None:
    plan = case.plan()
    assert tuple(told(each) for each in plan.actions) == case.actions
    assert {name: line.text for name, line in plan.partitions.kept_lines.items()} == case.kept
    assert plan.partitions.waits == case.waits
    assert {each.field for rows in plan.partitions.drift.values() for each in rows} == case.drift
    assert plan.partitions.unsettable.get("p", ()) == case.unsettable


@pytest.mark.parametrize(
    "live",
    [Unknown("slurmctld does not answer"), SlurmList((BARE,), complete=False)],
    ids=["no answer", "half an answer"],
)
def test_nothing_is_done_or_dropped_without_slurms_whole_word(live: SlurmList[Partition] | Unknown) -> None:
    plan = plan_partitions(
        PartitionWorld(lines(SETS + "PartitionName=q Nodes=gpu"), lines(SETS + P), live, (), True, {})
    )
    assert plan.actions == ()
    assert {name: line.text for name, line in plan.partitions.kept_lines.items()} == {"p": P}
    assert plan.partitions.waits == {"p": ()}


@pytest.mark.parametrize(
    ("on_trial", "kept"),
    [
        pytest.param(frozenset({"p"}), [P], id="a sidecar is bringing it to Slurm"),
        pytest.param(frozenset[str](), [], id="Slurm will never have it"),
    ],
)
def test_one_that_is_not_in_slurm_yet_stays_in_the_file_until_it_is(on_trial: frozenset[str], kept: list[str]) -> None:
    plan = plan_partitions(PartitionWorld({}, lines(P), SlurmList((), complete=True), (), True, {}, on_trial=on_trial))
    assert ([line.text for line in plan.partitions.kept_lines.values()], plan.actions) == (kept, ())


def test_the_new_default_is_set_after_the_old_one_is_cleared() -> None:
    old = "PartitionName=a Nodes=compute Default=YES\nPartitionName=b Nodes=compute"
    new = "PartitionName=a Nodes=compute\nPartitionName=b Nodes=compute Default=YES"
    live = SlurmList((slurm("a", flags=frozenset({"DEFAULT"})), slurm("b")), complete=True)
    plan = plan_partitions(PartitionWorld(lines(SETS + new), lines(SETS + old), live, (), True, {}))
    flags = [(each.change.name, each.change.flags) for each in plan.actions if isinstance(each, SetPartition)]
    assert flags == [("a", {"DEFAULT": False}), ("b", {"DEFAULT": True})]


def test_a_name_that_slurmrestd_misreads_is_kept_rather_than_another_deleted() -> None:
    plan = plan_partitions(
        PartitionWorld({}, lines(SETS + "PartitionName=on Nodes=compute"), SlurmList((slurm("on"),), complete=True))
    )
    assert plan.actions == ()
    assert "on" in plan.partitions.kept_lines


def test_drift_of_many_is_one_reconfigure() -> None:
    text = SETS + "PartitionName=a Nodes=compute\nPartitionName=b Nodes=compute"
    live = SlurmList((slurm("a", max_time=1), slurm("b", max_time=1)), complete=True)
    plan = plan_partitions(PartitionWorld(lines(text), lines(text), live, (), False, {}))
    assert [str(each) for each in plan.actions] == ["reconfigure: a, b"]


@pytest.mark.parametrize("supports_live_partitions", [True, False], ids=["live", "by the file"])
def test_only_those_whose_policy_asks_for_it_are_reverted(supports_live_partitions: bool) -> None:
    """B2: one action for several partitions reverts those that it names."""
    text = SETS + "\n".join(f"PartitionName={name} Nodes=compute" for name in "abc")
    live = SlurmList(tuple(slurm(name, max_time=1) for name in "abc"), complete=True)
    plan = plan_partitions(
        PartitionWorld(
            lines(text), lines(text), live, (), supports_live_partitions, {"b": "Report"}, unreverted=frozenset("c")
        )
    )
    assert (set(plan.partitions.drift), set(plan.partitions.reverts)) == ({"a", "b", "c"}, {"a"})


# --- hosts added and taken away ----------------------------------------------------------------------------------

MEMBERS = {"compute": frozenset({"n0", "n1", "n2"}), "": frozenset({"n0", "n1", "n2", "g0"})}


@pytest.mark.parametrize(
    ("nodes", "added", "removed", "expected"),
    [
        pytest.param("compute", ("g0",), (), "compute,g0", id="added beside the NodeSet"),
        pytest.param("compute", ("nosuch",), (), "compute", id="a host that Slurm does not have yet"),
        pytest.param("compute", (), ("n1",), "n[0,2]", id="taken away: the others by name"),
        pytest.param("compute", ("g0",), ("n1",), "g0,n[0,2]", id="both"),
        pytest.param("ALL", (), ("n1",), "g0,n[0,2]", id="taken from all"),
    ],
)
def test_hosts_are_added_and_taken_away(
    nodes: str, added: tuple[str, ...], removed: tuple[str, ...], expected: str
) -> None:
    line = lines(SETS + f"PartitionName=p Nodes={nodes}")["p"]
    assert edited(line, added, removed, MEMBERS).nodes == expected


def test_a_partition_without_some_hosts_follows_its_nodeset() -> None:
    text = lines(SETS + P)
    now = {"p": edited(text["p"], (), ("n1",), {"compute": frozenset({"n0", "n1", "n2", "n3"})})}
    live = SlurmList((slurm(node_sets="", nodes="n[0,2]"),), complete=True)
    plan = plan_partitions(PartitionWorld(now, text, live, (), True, {"p": "Keep"}))
    assert [told(each) for each in plan.actions] == [change(nodes="n[0,2-3]")]
    assert plan.partitions.drift == {}


# --- texts -------------------------------------------------------------------------------------------------------


def test_a_kept_line_brings_the_nodeset_that_it_needs() -> None:
    old = declared("NodeSet=gone Feature=gone\nPartitionName=gone Nodes=gone MaxTime=5\n")
    text = with_lines("ClusterName=c\n", dict(old.lines), old.sets)
    assert text.splitlines()[0] == "ClusterName=c"
    assert declared(text).lines == old.lines
    assert declared(text).sets == old.sets


def test_a_line_is_replaced_or_left_out_whole() -> None:
    text = "A=1\nPartitionName=p Nodes=ALL \\\n  MaxTime=5\nPartitionName=q Nodes=ALL\nB=2\n"
    assert with_lines(text, {"p": None}, {}) == "A=1\nPartitionName=q Nodes=ALL\nB=2\n"
    assert lines(with_lines(text, {"p": lines(text)["q"]}, {}))["q"].values == {"Nodes": "ALL"}


def test_what_needs_no_reconfigure_is_left_out_of_the_comparison() -> None:
    text = "# one\nA=1\nPartitionName=p Nodes=ALL\nPartitionName=q Nodes=ALL CpuBind=core\n"
    assert without_live_lines(text) == "A=1\nPartitionName=q Nodes=ALL CpuBind=core"
    kept = with_lines("A=1\nPartitionName=q Nodes=ALL CpuBind=core\n", {"p": lines(text)["p"]}, {})
    assert without_live_lines(kept) == without_live_lines(text)


def test_partitions_of_included_files_are_partitions_too() -> None:
    assert set(lines("Include more.conf\n", {"more.conf": "PartitionName=m Nodes=ALL\n"})) == {"m"}


def test_the_hosts_of_all_lines_are_bounded_together() -> None:
    """A ConfigMap has room for thousands of lines that name a hundred thousand hosts each."""
    text = SETS + "".join(f"PartitionName=p{number} Nodes=n[1-60000]\n" for number in range(4))
    found = declared(text + "PartitionName=last Nodes=compute,gpu\nPartitionName=host Nodes=n1\n").lines
    assert sum(len(line.hosts) for line in found.values()) < hostlist.MAX_NAMES
    assert found["p1"].nodes == "n[1-60000]"
    assert (found["last"].sets, found["host"].hosts) == (("compute", "gpu"), ("n1",))


class Looked(tuple[Job, ...]):
    """Jobs that count how often they are looked through."""

    times = 0

    def __iter__(self) -> Iterator[Job]:
        self.times += 1
        return super().__iter__()


def test_jobs_are_looked_through_once_for_all_partitions_that_go() -> None:
    gone = "".join(f"PartitionName=p{number} Nodes=compute\n" for number in range(50))
    jobs = Looked((job(1, "p1"), job(2, "p1,p2"), job(3, "p3", "COMPLETED")))
    live = SlurmList(tuple(slurm(f"p{number}") for number in range(50)), complete=True)
    plan = plan_partitions(PartitionWorld({}, declared(SETS + gone).lines, live, jobs))
    assert plan.partitions.waits == {"p1": (1, 2), "p2": (2,)}
    assert jobs.times == 1


@pytest.mark.parametrize("live", [True, False], ids=["live", "by the file"])
@pytest.mark.parametrize("jobs", [(job(1),), Unknown("no answer")], ids=["a job is in it", "nobody can say"])
def test_a_list_that_has_lost_a_partition_with_jobs_takes_no_line_away(
    jobs: tuple[Job, ...] | Unknown, live: bool
) -> None:
    """One answer without it, whole by its own word, and the next reconfigure killed the jobs."""
    plan = Case(wanted="", live=(), jobs=jobs, supports_live_partitions=live).plan()
    assert plan.actions == ()
    assert plan.partitions.kept_lines["p"].text == "PartitionName=p Nodes=compute"
