"""Which Deployments run a program of the Go operator, which of them are meant, and what their flags stand for."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.diagnose.go_programs import component, find, flags, values

Json = dict[str, Any]


def deployment(
    name: str, *args: str, command: tuple[str, ...] = (), replicas: int = 1, at: str = "slinky", beside: Any = ()
) -> Json:
    image = f"ghcr.io/slinkyproject/{name}:1.2.1"
    container = {"name": "manager", "image": image, "command": list(command), "args": list(args)}
    return {
        "metadata": {"name": name, "namespace": at},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [*beside, container]}}},
    }


def calling(namespace: str, group: str = "slinky.slurm.net") -> Json:
    """A webhook configuration of the Go operator in that namespace."""
    service = {"namespace": namespace, "name": "slurm-operator-webhook"}
    hook = {"name": "nodeset-v1beta1.kb.io", "rules": [{"apiGroups": [group]}], "clientConfig": {"service": service}}
    return {"metadata": {"name": "slurm-operator-webhook"}, "webhooks": [hook]}


@pytest.mark.parametrize(
    ("workload", "wanted"),
    [
        (deployment("slurm-operator"), "operator"),
        (deployment("slurm-operator-webhook"), "webhook"),
        (deployment("slurm-operator", command=("slurm-operator",)), ""),
        (deployment("slurmrestd"), ""),
    ],
    ids=["Go operator", "Go webhook", "this operator", "something else"],
)
def test_a_program_of_the_go_project_is_known_by_its_image(workload: Json, wanted: str) -> None:
    assert component(workload) == wanted


def test_flags_are_read_in_either_form() -> None:
    given = deployment("slurm-operator", "--a=1", "-b", "2", "--c", command=("/manager", "--d=e"))
    assert flags(given) == {"d": "e", "a": "1", "b": "2", "c": ""}


def test_flags_of_a_container_beside_it_are_not_its_own() -> None:
    proxy = {"name": "proxy", "image": "example.com/proxy", "args": ["--namespaces=proxy", "--v=10"]}
    assert flags(deployment("slurm-operator", "--a=1", beside=[proxy])) == {"a": "1"}


A, B = deployment("slurm-operator", at="a"), deployment("slurm-operator", at="b")
HOOK_B = deployment("slurm-operator-webhook", at="b")


@pytest.mark.parametrize(
    ("programs", "configurations", "named", "chosen"),
    [
        pytest.param([A], [], "", ["a"], id="the only one"),
        pytest.param([B, HOOK_B], [], "", ["b", "b"], id="operator and webhook"),
        pytest.param([A, B], [], "", [], id="two"),
        pytest.param([A, HOOK_B], [], "", [], id="an operator here and a webhook there"),
        pytest.param([A, B], [calling("b")], "", ["b"], id="the one that is called"),
        pytest.param([A, B], [calling("b", "apps")], "", [], id="the webhook of something else"),
        pytest.param([A, B], [calling("a"), calling("b")], "", [], id="both are called"),
        pytest.param([A], [calling("b")], "", [], id="another one is called"),
        pytest.param([A, B], [calling("b")], "a", ["a"], id="the one that is named"),
        pytest.param([A], [], "c", [], id="none is where the person says"),
        pytest.param([], [calling("b")], "", [], id="none"),
    ],
)
def test_the_programs_of_one_namespace_are_meant(
    programs: list[Json], configurations: list[Json], named: str, chosen: list[str]
) -> None:
    found = find(programs, configurations, named)
    assert [each["metadata"]["namespace"] for each in found.chosen] == chosen
    assert len(found.chosen) + len(found.others) == len(programs)


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--nodeset-workers=8", {"nodesetWorkers": 8}),
        ("--metrics-addr=0.0.0.0:8080", {"metricsPort": 8080}),
        ("--metrics-addr=0", {"metricsPort": 0}),
        ("--leader-elect=F", {"leaderElection": False}),
        ("--leader-elect", {}),
        ("--namespaces=123", {"namespaces": "123"}),
        (f"--namespaces={'abcdefgh,' * 100}", {"namespaces": "abcdefgh," * 100}),
        ("--zap-log-level=5", {"logLevel": "5"}),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_flag_stands_for_a_value_of_this_chart(flag: str, expected: Json) -> None:
    found = values(find([deployment("slurm-operator", flag)], []))
    assert found.get("operator", {}) == expected


def test_conditions_are_a_value_of_the_whole_chart() -> None:
    given = deployment("slurm-operator", "--propagated-node-conditions=A,B", replicas=2)
    assert values(find([given], [])) == {"operator": {"replicas": 2}, "propagatedNodeConditions": ["A", "B"]}
