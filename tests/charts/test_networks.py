"""NetworkPolicies cover the pods that there are, and open the ports that these serve."""

from __future__ import annotations

from typing import Any

import pytest
from tests.charts.rendering import cases, golden, golden_of

from slurm_operator.cli.render import render
from slurm_operator.cli.world import load

Json = dict[str, Any]
OPERATOR = [case for chart, case in cases() if chart == "slurm-operator"]
CLOSED = [case for case in OPERATOR if case != "only-operator"]
SLURM = [
    case
    for chart, case in cases()
    if chart == "slurm"
    and golden_of(chart, case).is_file()
    and any(each["kind"] == "NetworkPolicy" for each in golden(chart, case))
]
PORTS = {"slurmctld": {6817}, "slurmdbd": {6819}, "slurmrestd": {6820}, "slurmd": set(), "login": {"login"}}


def policies(objects: list[Json]) -> list[Json]:
    return [each for each in objects if each["kind"] == "NetworkPolicy"]


def covering(objects: list[Json], labels: Json) -> list[Json]:
    """The policies that choose a pod with these labels."""
    return [each for each in policies(objects) if each["spec"]["podSelector"]["matchLabels"].items() <= labels.items()]


def ports(policy: Json) -> set[int | str]:
    return {port["port"] for rule in policy["spec"]["ingress"] for port in rule.get("ports", ())}


def templates(objects: list[Json]) -> list[Json]:
    """The pods of all workloads."""
    kinds = {"Deployment", "StatefulSet"}
    made = [each["spec"]["template"] for each in objects if each["kind"] in kinds]
    return made + [each for each in objects if each["kind"] == "Pod"]


@pytest.mark.parametrize("case", CLOSED)
def test_of_our_own_pods_exactly_the_ports_that_they_serve_are_open(case: str) -> None:
    objects = golden("slurm-operator", case)
    for each in (each for each in objects if each["kind"] == "Deployment"):
        pod = each["spec"]["template"]
        (policy,) = covering(objects, pod["metadata"]["labels"])
        served = {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        assert ports(policy) == served
        assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_who_may_read_metrics_can_be_said() -> None:
    (policy,) = (
        each for each in policies(golden("slurm-operator", "hardened")) if "webhook" not in each["metadata"]["name"]
    )
    (metrics,) = (rule for rule in policy["spec"]["ingress"] if {"port": 8080} in rule["ports"])
    assert metrics["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]


@pytest.mark.parametrize("case", SLURM)
def test_every_pod_of_a_cluster_is_covered_once_and_serves_its_own_port(case: str) -> None:
    objects = golden("slurm", case)
    rendered = render(load((str(golden_of("slurm", case)),)))
    pods = templates(rendered.of_kinds(()))
    daemons = {pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in pods}
    assert daemons >= {"slurmctld", "slurmrestd", "slurmd"}
    for pod in pods:
        labels = pod["metadata"]["labels"]
        (policy,) = covering(objects, labels)
        assert ports(policy) == PORTS[labels["app.kubernetes.io/name"]]


def test_there_is_a_cluster_with_policies() -> None:
    assert SLURM
