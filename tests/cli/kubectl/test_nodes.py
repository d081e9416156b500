"""A drain is done when Slurm says so, and what keeps it from that is told."""

from __future__ import annotations

from tests.diagnose.broken import cluster, pod, resource, with_node

from slurm_operator.build import labels
from slurm_operator.cli.kubectl.nodes import is_back, is_drained, is_draining, reason_on
from slurm_operator.diagnose.facts import Facts, Silence


def without_database() -> Facts:
    """A cluster whose database was scaled to nothing, so that the operator is kept from Slurm."""
    selector = {"app": "mariadb"}
    template = {"template": {"metadata": {"labels": selector}}}
    facts = cluster(
        resource("Controller", "slurm", {"accountingRef": {"name": "slurm"}}),
        resource("Accounting", "slurm", {"storageConfig": {"host": "mariadb"}}),
        pod("slurm-accounting-0", labels.ACCOUNTING, "slurm"),
        {"kind": "Service", "metadata": {"name": "mariadb"}, "spec": {"selector": selector}},
        {"kind": "StatefulSet", "metadata": {"name": "mariadb"}, "spec": {"replicas": 0, **template}},
    )
    return Facts("slurm", facts.objects, facts.slurm, databases={"slurm": "Unable to connect to database"})


def test_a_drain_that_slurm_does_not_show_is_none() -> None:
    assert not is_draining(cluster(), "compute-0")
    assert not is_draining(cluster(slurm=Silence("down")), "compute-0")
    drained = cluster(slurm=with_node("IDLE+DRAIN"))
    assert is_draining(drained, "compute-0")
    assert is_drained(drained, "compute-0")


def test_a_node_is_back_only_where_slurm_says_so() -> None:
    assert is_back(cluster(), "compute-0")
    assert not is_back(cluster(slurm=with_node("IDLE+DRAIN")), "compute-0")
    assert not is_back(cluster(slurm=Silence("down")), "compute-0")


def test_what_keeps_the_operator_from_a_drain_is_told() -> None:
    reason = reason_on(without_database(), "compute-0", True)
    assert reason.sentence == "the database does not run: StatefulSet mariadb is scaled to 0"
    assert reason.command == "kubectl -n slurm scale statefulset mariadb --replicas=1"


def test_a_drain_that_nothing_keeps_is_on_its_way() -> None:
    assert "does not show it as drained yet" in reason_on(cluster(), "compute-0", True).sentence
