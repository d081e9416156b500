"""What the real helm makes of the charts, and what it says to wrong values."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.charts.rendering import CHARTS, NAMES, cases, golden_of
from tests.docs.pages import Page
from tests.real.helm.command import Helm
from tools import install_manifest

from slurm_operator.cli.check import check
from slurm_operator.cli.world import load


@pytest.mark.parametrize("chart", NAMES)
def test_helm_finds_nothing_to_complain_about(helm: Helm, chart: str) -> None:
    done = helm.run("lint", "--strict", str(CHARTS / chart))
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


@pytest.mark.parametrize(("chart", "case"), cases(), ids=["-".join(each) for each in cases()])
def test_a_case_comes_to_its_golden_objects(helm: Helm, chart: str, case: str) -> None:
    assert helm.case(chart, case) == golden_of(chart, case).read_text(), "run: python -m tests.real.helm.command"


@pytest.mark.parametrize(
    ("chart", "settings", "kept"),
    [
        ("slurm-operator-crds", (), True),
        ("slurm-operator-crds", ("--set", "keep=false"), False),
        ("slurm-operator", ("--set", "crds.enabled=true"), True),
    ],
    ids=["alone", "alone and not kept", "within the operator's chart"],
)
def test_the_definitions_are_those_of_the_kinds(helm: Helm, chart: str, settings: tuple[str, ...], kept: bool) -> None:
    rendered = yaml.safe_load_all(helm.template(chart, *settings).stdout)
    found = {each["metadata"]["name"]: each for each in rendered if each["kind"] == "CustomResourceDefinition"}
    expected = [yaml.safe_load(path.read_text()) for path in (CHARTS.parent / "crds").glob("*.yaml")]
    assert {name: each["spec"] for name, each in found.items()} == {
        each["metadata"]["name"]: each["spec"] for each in expected
    }
    for each in found.values():
        assert (each["metadata"].get("annotations") == {"helm.sh/resource-policy": "keep"}) is kept


def test_the_manifest_without_helm_is_not_stale(helm: Helm) -> None:
    assert install_manifest.text(helm.run) == install_manifest.TARGET.read_text(), "run: make golden"


GUIDE = Page(CHARTS.parents[1] / "docs/guides/install.md")
BLOCKS = [block for block in GUIDE.blocks() if block.language == "yaml"]
WRONG = {
    "a partition over a node set that there is not": (
        "slurm",
        {"nodesets": {"a": {}}, "partitions": {"p": {"nodesets": ["b"]}}},
        'partitions.p.nodesets names "b", but nodesets has no enabled entry of that name (it has: a)',
    ),
    "a partition over a node set that is off": (
        "slurm",
        {"nodesets": {"a": {"enabled": False}}, "partitions": {"p": {"nodesets": ["a"]}}},
        "(it has: none)",
    ),
    "a partition over nothing": (
        "slurm",
        {"partitions": {"p": {"nodesets": []}}},
        "partitions.p.nodesets is empty: name node sets of this chart, or ALL",
    ),
    "a name twice in a list": ("slurm", {"nodesets": [{"name": "a"}, {"name": "a"}]}, 'nodesets names "a" twice'),
    "a name in both spellings": (
        "slurm",
        {"nodesets": {"a": {}}, "nodeSets": {"a": {}}},
        "is also given under another spelling",
    ),
    "an external daemon without a host": (
        "slurm",
        {"controller": {"external": True}},
        "controller.externalConfig.host is needed, since controller.external is true",
    ),
    "a misspelt value": ("slurm", {"nodesets": {"a": {"replica": 3}}}, "additional properties 'replica' not allowed"),
    "a pool of machines with too few networks": (
        "slurm",
        {"nodesets": {"a": {}}, "vendor": {"google": {"a3mega": [{"targetNodeSet": "a", "networks": ["default"]}]}}},
        "vendor.google.a3mega[0].networks has 1 entries, but must have 9",
    ),
    "a pool of machines for nobody": (
        "slurm",
        {"nodesets": {"a": {}}, "vendor": {"google": {"a3ultra": [{"nodePool": "pool"}]}}},
        "vendor.google.a3ultra[0].targetNodeSet is missing",
    ),
    "a pool of machines for a node set that there is not": (
        "slurm",
        {"nodesets": {"a": {}}, "vendor": {"google": {"a3mega": [{"targetNodeSet": "b"}]}}},
        'vendor.google.a3mega[0].targetNodeSet names "b", but nodesets has no enabled entry of that name (it has: a)',
    ),
    "a node set on two kinds of machines": (
        "slurm",
        {
            "nodesets": {"a": {}},
            "vendor": {
                "google": {
                    "a3mega": [{"targetNodeSet": "a", "networks": list("012345678")}],
                    "a3ultra": [{"targetNodeSet": "a", "networks": list("012345678")}],
                }
            },
        },
        "which another entry has already",
    ),
    "secure metrics on no port": (
        "slurm-operator",
        {"operator": {"metricsPort": 0, "metricsSecure": True}},
        "operator.metricsSecure needs a operator.metricsPort that is not 0",
    ),
    "two operators that both lead": (
        "slurm-operator",
        {"operator": {"replicas": 2, "leaderElection": False}},
        "two operators would write at once",
    ),
    "a certificate without its CA": (
        "slurm-operator",
        {"webhook": {"certSecretName": "mine"}},
        "webhook.certSecretName needs webhook.caBundle",
    ),
}


@pytest.mark.parametrize(("chart", "values", "words"), WRONG.values(), ids=list(WRONG))
def test_wrong_values_are_refused_with_words(
    helm: Helm, tmp_path: Path, chart: str, values: dict[str, object], words: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = helm.template(chart, "-f", str(file), check=False)
    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_values_in_the_guide_are_taken(helm: Helm, tmp_path: Path, number: int) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(BLOCKS[number].text)
    values = yaml.safe_load(BLOCKS[number].text)
    chart = "slurm-operator" if {"operator", "allowPodFeatures"} & values.keys() else "slurm"
    rendered = helm.template(chart, "-f", str(file)).stdout
    if chart == "slurm" and "nodesets" in values:
        made = tmp_path / "made.yaml"
        made.write_text(rendered)
        world = load((str(made),))
        assert [str(each) for each in [*world.findings, *check(world, None)]] == []
