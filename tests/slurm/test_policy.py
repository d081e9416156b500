"""What Slurm's words mean for a worker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_operator.slurm import policy
from slurm_operator.slurm.hostlist import HostList
from slurm_operator.slurm.model import MAX_EPOCH_SECONDS, UNLIMITED, Absent, Job, Known, Limit, Node, NodeView, Unknown
from slurm_operator.slurm.policy import No, Yes


def node(*states: str, cpus: int = 0, memory: int = 0) -> Node:
    return Node(name="n0", states=frozenset(states), alloc_cpus=cpus, alloc_memory=memory)


def job(*states: str, nodes: tuple[str, ...] = ("n0",), start: int = 1000, limit: Limit = 10, number: int = 1) -> Job:
    return Job(job_id=number, states=frozenset(states), nodes=HostList.of(*nodes), start_time=start, time_limit=limit)


def readable(value: object) -> str:
    if isinstance(value, Node):
        return f"{policy.state_text(value)} cpus {value.alloc_cpus} memory {value.alloc_memory}"
    return "+".join(value) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize(
    ("seen", "busy"),
    [
        (node("IDLE"), False),
        (node("IDLE", "DRAIN", "DYNAMIC_NORM"), False),
        (node("IDLE", "PLANNED"), False),
        (node("DOWN", "NOT_RESPONDING"), False),
        (node("FUTURE"), False),
        (node("ALLOCATED"), True),
        (node("MIXED", "DRAIN"), True),
        (node("IDLE", "COMPLETING"), True),
        (node("DOWN", "COMPLETING"), True),
        (node("IDLE", cpus=1), True),
        (node("DOWN", memory=1), True),
        (node("UNKNOWN"), True),
        (node("ERROR"), True),
        (node("A_STATE_OF_NEXT_YEAR"), True),
        (node(), True),
    ],
    ids=readable,
)
def test_what_is_not_proven_idle_is_busy(seen: Node, busy: bool) -> None:
    assert policy.is_busy(seen) is busy


@pytest.mark.parametrize(
    ("states", "drained"),
    [
        (("IDLE", "DRAIN"), True),
        (("DOWN", "DRAIN"), True),
        (("IDLE",), False),
        (("MIXED", "DRAIN"), False),
        (("ALLOCATED", "DRAIN"), False),
        (("IDLE", "DRAIN", "COMPLETING"), False),
        (("UNKNOWN", "DRAIN"), False),
    ],
    ids=readable,
)
def test_drained_is_draining_without_work(states: tuple[str, ...], drained: bool) -> None:
    assert policy.is_drained(node(*states)) is drained


@pytest.mark.parametrize(
    ("view", "jobs", "answer"),
    [
        (Known(node("IDLE", "DRAIN")), (), Yes()),
        (Absent(), (), Yes()),
        (Known(node("IDLE")), (), No("node n0 is not drained (IDLE)")),
        (Known(node("MIXED", "DRAIN")), (), No("node n0 is busy (MIXED+DRAIN)")),
        (Known(node("IDLE", "DRAIN")), (job("SUSPENDED", number=7),), No("node n0 has jobs: 7")),
        (Known(node("IDLE", "DRAIN")), (job("RUNNING", nodes=("n1",)),), Yes()),
        (Known(node("IDLE", "DRAIN")), (job("COMPLETED"), job("PENDING")), Yes()),
        (Known(node("IDLE", "DRAIN")), (job("CANCELLED", "COMPLETING"),), No("node n0 has jobs: 1")),
        (Known(node("IDLE", "DRAIN")), (job("NEVER_HEARD_OF"),), No("node n0 has jobs: 1")),
        (Unknown("no route"), (), No("Slurm's record of the node is not available: no route")),
        (Known(node("IDLE", "DRAIN")), Unknown("slow"), No("Slurm's list of jobs is not available: slow")),
    ],
    ids=[
        "drained",
        "absent",
        "idle but not drained",
        "draining with work",
        "a suspended job hides behind an idle node",
        "a job elsewhere",
        "only past and future jobs",
        "a job being cleaned up",
        "a job state never heard of",
        "node unknown",
        "jobs unknown",
    ],
)
def test_a_worker_goes_only_by_slurms_own_word(
    view: NodeView, jobs: tuple[Job, ...] | Unknown, answer: Yes | No
) -> None:
    assert policy.may_remove(view, jobs) == answer


def test_many_jobs_are_named_in_short() -> None:
    jobs = [job("RUNNING", number=n) for n in range(1, 9)]
    assert policy.may_remove(Known(node("IDLE", "DRAIN")), jobs) == No("node n0 has jobs: 1, 2, 3, 4, 5 and 3 more")


@given(st.frozensets(st.sampled_from(["IDLE", "ALLOCATED", "MIXED", "DOWN", "UNKNOWN", "DRAIN", "COMPLETING", "X"])))
def test_no_set_of_states_lets_a_worker_go_undrained_or_busy(states: frozenset[str]) -> None:
    if policy.may_remove(Known(Node(name="n0", states=states)), ()) == Yes():
        assert "DRAIN" in states
        assert not states & {"ALLOCATED", "MIXED", "COMPLETING"}
        assert states & {"IDLE", "DOWN"}


@pytest.mark.parametrize(
    ("reason", "ours"),
    [("slurm-operator: x", True), ("slurm-operator:x", False), ("maintenance", False), ("", False)],
)
def test_a_drain_is_ours_by_its_prefix(reason: str, ours: bool) -> None:
    assert policy.drain_is_ours(reason) is ours


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("scale in", "slurm-operator: scale in"),
        ("slurm-operator: again", "slurm-operator: again"),
        ("two\nlines\tand\x00more", "slurm-operator: two lines and more"),
        ("x" * 999, "slurm-operator: " + "x" * 256),
    ],
    ids=["plain", "prefixed already", "control characters", "long"],
)
def test_a_reason_is_one_bounded_line_with_our_prefix(text: str, reason: str) -> None:
    assert policy.drain_reason(text) == reason
    assert policy.drain_is_ours(reason)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain", "plain"),
        ('a\nb\t"c"\x00\u2028d', "a b 'c' d"),
        ("  a  ", "a"),
        ("x" * 300, "x" * 256),
        ("a\x1b[2Jb", "a [2Jb"),
        ("\u202ea", "a"),
        ("\n\t", ""),
    ],
    ids=["plain", "signs", "spaces", "long", "escape", "right to left", "nothing"],
)
def test_anybodys_text_becomes_one_clean_line(text: str, clean: str) -> None:
    assert policy.clean_reason(text) == clean
    assert policy.clean_reason(clean) == clean


@pytest.mark.parametrize(
    ("jobs", "end"),
    [
        ([], None),
        ([job("RUNNING")], 1600),
        ([job("RUNNING"), job("RUNNING", start=2000)], 2600),
        ([job("RUNNING"), job("RUNNING", limit=UNLIMITED)], UNLIMITED),
        ([job("RUNNING", limit=UNLIMITED), job("RUNNING")], UNLIMITED),
        ([job("RUNNING", limit=None)], UNLIMITED),
        ([job("SUSPENDED")], UNLIMITED),
        ([job("COMPLETED")], None),
        ([job("RUNNING", nodes=("n1",))], None),
    ],
    ids=[
        "no job",
        "one",
        "the last counts",
        "no limit",
        "no limit first",
        "limit unknown",
        "suspended",
        "over",
        "else",
    ],
)
def test_the_deadline_is_the_end_of_the_last_job(jobs: list[Job], end: Limit) -> None:
    assert policy.deadline("n0", jobs) == end


def test_a_job_over_many_nodes_gives_each_its_deadline() -> None:
    assert policy.deadlines(policy.jobs_by_node([job("RUNNING", nodes=("a", "b", "c"))], {"a", "b", "d"})) == {
        "a": 1600,
        "b": 1600,
    }


@pytest.mark.parametrize(
    ("states", "responding"), [(("IDLE",), True), (("IDLE", "NOT_RESPONDING"), False), (("DOWN",), False)], ids=readable
)
def test_a_node_responds_unless_slurm_says_otherwise(states: tuple[str, ...], responding: bool) -> None:
    assert policy.is_responding(node(*states)) is responding


@pytest.mark.parametrize(
    ("states", "holds"),
    [
        pytest.param((), True, id="no state at all"),
        pytest.param(("A_STATE_OF_NEXT_YEAR",), True, id="a state never heard of"),
        pytest.param(("PENDING",), False, id="only pending"),
        pytest.param(("PENDING", "A_STATE_OF_NEXT_YEAR"), True, id="pending and more"),
        pytest.param(("COMPLETED",), False, id="over"),
        pytest.param(("COMPLETED", "COMPLETING"), True, id="over, not cleaned up"),
        pytest.param(("FAILED", "RUNNING"), True, id="a contradiction"),
        pytest.param(("CANCELLED", "SUSPENDED"), True, id="another contradiction"),
    ],
)
def test_only_a_job_that_is_known_to_be_over_lets_its_node_go(states: tuple[str, ...], holds: bool) -> None:
    """T16: an empty list of states is a subset of any."""
    held = job(*states)
    assert policy.occupies(held, "n0") is holds
    assert ("n0" in policy.deadlines(policy.jobs_by_node([held], {"n0"}))) is holds
    free = policy.may_remove(Known(node("IDLE", "DRAIN")), [held])
    assert isinstance(free, No) is holds


@given(st.integers(), st.integers(min_value=0))
def test_no_time_limit_is_later_than_a_calendar_can_write(start: int, limit: int) -> None:
    """T2: `sbatch -t 2982616-00:00:00` ends in the year 10192."""
    end = policy.deadline("n0", [job("RUNNING", start=start, limit=limit)])
    assert end == UNLIMITED or (isinstance(end, int) and end <= MAX_EPOCH_SECONDS)


@pytest.mark.parametrize("flag", ["LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED"])
def test_a_job_that_waits_again_after_a_failure_is_not_over(flag: str) -> None:
    """These are flags that a requeued job keeps; without live partitions its partition was taken away under it."""
    assert not policy.states_are_over({"PENDING", flag})
    assert policy.states_are_over({"FAILED", flag})
