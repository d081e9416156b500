"""Which daemons are counted as current: by their start, by silence, and where nobody can say."""

from __future__ import annotations

import pytest

from kube_runtime.client.objects import ObjectMeta, Pod, PodStatus
from kube_runtime.times import parse_seconds
from slurm_operator.plan.daemons import Census, of_nodes, of_pods
from slurm_operator.slurm.model import Node

READ_AT = 1_000.0


def node(name: str, started: int, *states: str) -> Node:
    return Node(name=name, states=frozenset(states or ("IDLE",)), slurmd_start_time=started)


def pod(name: str, started: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name), status=PodStatus(phase="Running", start_time=started))


@pytest.mark.parametrize(
    ("found", "current", "behind", "unknown"),
    [
        pytest.param(node("n1", 1_003), 1, (), (), id="started anew: it has it"),
        pytest.param(node("n1", 999), 1, (), (), id="clocks differ a little"),
        pytest.param(node("n1", 900), 0, ("n1",), (), id="not started since: it missed it"),
        pytest.param(node("n1", 900, "IDLE", "NOT_RESPONDING"), 0, (), ("n1",), id="does not answer"),
        pytest.param(node("n1", 0), 0, (), ("n1",), id="never registered"),
    ],
)
def test_a_slurmd_is_judged_by_its_start(
    found: Node, current: int, behind: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    census = of_nodes([found], READ_AT)
    assert (census.current, census.behind, census.unknown) == (current, behind, unknown)
    assert bool(census.why) == (current == 0)


def test_nobody_is_judged_while_the_time_is_not_known() -> None:
    assert of_nodes([node("n2", 5), node("n1", 5)], None).unknown == ("n1", "n2")


def test_a_pod_that_started_later_has_read_it_and_an_older_one_may_have() -> None:
    changed = parse_seconds("2026-01-01T12:00:00Z")
    pods = [pod("old", "2026-01-01T11:59:59Z"), pod("new", "2026-01-01T12:00:00Z"), pod("starting", "")]
    assert of_pods("login", pods, changed, "who knows") == Census("login", 3, (), ("old", "starting"), "who knows")
