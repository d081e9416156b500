"""`kubectl slurm plan` finds what `check` finds, with what the namespace holds besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.diagnose.said import said

from slurm_operator.cli.kubectl import explain
from slurm_operator.cli.kubectl.main import main
from slurm_operator.cli.kubectl.planning import Planned, planned
from slurm_operator.cli.world import load
from slurm_operator.diagnose.facts import Facts

Object = dict[str, Any]
Plan = Callable[..., Planned]
KEYS = {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}}


def resource(kind: str, name: str, **spec: Any) -> Object:
    owner = {} if kind == "Controller" else {"controllerRef": {"name": "slurm"}}
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "slurm", "uid": "u", "creationTimestamp": "2026-11-16T20:00:00Z"},
        "spec": {**owner, **spec},
    }


def changed(raw: Object, **spec: Any) -> Object:
    """A manifest as somebody writes it."""
    return {**raw, "metadata": {"name": raw["metadata"]["name"]}, "spec": {**raw["spec"], **spec}}


CONTROLLER = resource("Controller", "slurm", **KEYS)
NODESET = resource("NodeSet", "compute", replicas=2, partition={"enabled": True})
FACTS = Facts(
    "slurm", {"Controller": {"slurm": CONTROLLER}, "NodeSet": {"compute": NODESET}}, {"slurm": said("", "", "")}
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Plan manifests of one file."""

    def run(*manifests: Object, facts: Facts = FACTS) -> Planned:
        path = tmp_path / "a.yaml"
        path.write_text("---\n".join(yaml.safe_dump(each, sort_keys=False) for each in manifests))
        return planned(facts, load([str(path)]))

    return run


@pytest.mark.parametrize(
    ("manifest", "what", "line", "message"),
    [
        (
            changed(CONTROLLER, extraConf="MinJobAge=300\nMinJobAgee=600\n"),
            "Controller slurm",
            "MinJobAgee",
            "did you mean MinJobAge?",
        ),
        (
            changed(CONTROLLER, extraConf="Include /etc/slurm/site.conf"),
            "Controller slurm",
            "site.conf",
            "site.conf",
        ),
        (changed(resource("Partition", "ghost", nodes="r1n[1-8]")), "Partition ghost", "r1n", "no node is left"),
        (changed(resource("Partition", "p", nodeSets=["nosuch"])), "Partition p", "nosuch", "no NodeSet 'nosuch'"),
        (changed(NODESET, replicas="many"), "NodeSet compute", "replicas", "replicas"),
        (changed(resource("RestApi", "r", controllerRef={"name": "x"})), "RestApi r", "name: x", "Controller 'x'"),
    ],
    ids=["unknown key", "missing include", "no hosts", "no NodeSet", "wrong type", "no Controller"],
)
def test_what_would_be_refused_is_called_so_with_its_line(
    plan: Plan, tmp_path: Path, manifest: Object, what: str, line: str, message: str
) -> None:
    found = plan(manifest)
    assert [(each.what, each.way) for each in found.effects] == [(what, "refused")]
    lines = (tmp_path / "a.yaml").read_text().splitlines()
    number = next(at for at, text in enumerate(lines, 1) if line in text)
    (effect,) = found.effects
    assert effect.sentence.startswith(f"{tmp_path / 'a.yaml'}:{number}: ")
    assert message in effect.sentence
    assert found.is_refused


@pytest.mark.parametrize(
    ("manifests", "ways"),
    [
        ([changed(CONTROLLER), changed(NODESET)], []),
        ([changed(CONTROLLER, extraConf="MinJobAge=600")], ["reconfigure"]),
        ([changed(resource("Partition", "p", nodeSets=["compute"]))], ["live", "made"]),
        ([changed(NODESET, slurmd={"image": "other:1"})], ["flag", "drain"]),
    ],
    ids=["nothing", "a good line", "a good partition", "an image of one's own"],
)
def test_what_is_right_is_foretold_as_ever(plan: Plan, manifests: list[Object], ways: list[str]) -> None:
    found = plan(*manifests)
    assert ([each.way for each in found.effects], found.findings) == (ways, [])
    assert not found.is_refused


def test_what_was_wrong_before_is_not_said_of_other_manifests(plan: Plan) -> None:
    wrong = {**FACTS.objects, "Partition": {"ghost": resource("Partition", "ghost", nodes="r1n[1-8]")}}
    found = plan(changed(NODESET, replicas=3), facts=replace(FACTS, objects=wrong))
    assert ([each.way for each in found.effects], found.findings) == (["made"], [])


def test_a_resource_in_the_cluster_that_the_change_breaks_is_named(plan: Plan) -> None:
    there = {**FACTS.objects, "Partition": {"q": resource("Partition", "q", nodeSets=["compute"])}}
    found = plan(changed(CONTROLLER, extraConf="PartitionName=q Nodes=ALL"), facts=replace(FACTS, objects=there))
    assert [each.what for each in found.effects if each.way == "refused"] == ["Partition q"]
    assert found.effects[0].sentence.startswith("Partition q (in the cluster): ")


def test_a_field_that_may_not_change_is_refused(plan: Plan) -> None:
    found = plan(changed(CONTROLLER, clusterName="other"))
    assert ("Controller slurm", "refused") in [(each.what, each.way) for each in found.effects]


def test_another_change_of_a_refused_configuration_is_still_foretold(plan: Plan) -> None:
    found = plan(changed(CONTROLLER, extraConf="MinJobAgee=600", slurmctld={"image": "other:1"}))
    assert [each.way for each in found.effects] == ["refused", "restart"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "nothing to plan: there is no manifest in"), ("a: 1\n", ":1: this is no manifest")],
    ids=["empty", "no manifest"],
)
def test_what_holds_no_manifest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    async def facts_of(_: object) -> Facts:
        return FACTS

    monkeypatch.setattr(explain, "facts_of", facts_of)
    path = tmp_path / "a.yaml"
    path.write_text(text)
    result = CliRunner().invoke(main, ["plan", "-f", str(path)])
    assert result.exit_code == 1
    assert said in result.output
    assert "nothing would change" not in result.output
