"""Every YAML block of a page is what it seems to be: manifests that can be applied, values that a chart takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.docs.command_lines import Files, problems
from tests.docs.pages import Page, pages, play, run
from tests.docs.yaml_blocks import Form, Shown, shown, spec_problems, values_problems

from slurm_operator.api.kinds import KINDS

KUBERNETES = "1.37"
NATIVE = {"v1", "apps/v1", "policy/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1", "storage.k8s.io/v1"}
BLOCKS = shown()
PAGES = [page for page in pages() if any(block.is_manifest for block in page.blocks())]
SCALABLE = {kind.name for kind in KINDS if kind.scalable}


def of(form: Form) -> pytest.MarkDecorator:
    found = [each for each in BLOCKS if each.form is form]
    return pytest.mark.parametrize("block", found, ids=[str(each) for each in found])


@pytest.mark.parametrize("block", BLOCKS, ids=[str(each) for each in BLOCKS])
def test_a_block_is_of_a_form_that_is_checked(block: Shown) -> None:
    assert block.form is not Form.UNKNOWN, block.block.text


@of(Form.VALUES)
def test_values_are_taken_by_the_schema_of_their_chart(block: Shown) -> None:
    assert values_problems(block.content) == []


@of(Form.SPEC)
def test_a_part_of_a_spec_fits_the_definition_of_its_kind(block: Shown) -> None:
    assert spec_problems(block.content["spec"]) == []


@of(Form.SCALED_OBJECT)
def test_an_autoscaler_scales_a_kind_of_ours(block: Shown) -> None:
    target = block.content["spec"]["scaleTargetRef"]
    assert target["apiVersion"] == "slinky.slurm.net/v1beta1"
    assert target["kind"] in SCALABLE


@of(Form.WORKFLOW)
def test_the_steps_of_a_workflow_name_what_exists(block: Shown) -> None:
    steps = [step for job in block.content["jobs"].values() for step in job["steps"]]
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    assert lines
    for line in lines:
        # The files are those of the repository that the workflow stands in.
        assert [each for each in problems(line, Files()) if "there is no file" not in each] == [], line


def objects_of_kubernetes(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each and each["apiVersion"] in NATIVE]


@of(Form.MANIFEST)
def test_objects_of_kubernetes_hold_against_its_schemas(block: Shown) -> None:
    for each in objects_of_kubernetes(block.block.text):
        kubernetes_validate.validate(each, KUBERNETES, strict=True)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_what_a_page_calls_right_renders_to_valid_objects(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = 0
    for command, done in play(page, tmp_path):
        files = re.findall(r" -f ([^-\s]\S*)", command.line)
        if not command.line.startswith(("slurm-operator check", "slurm-operator render")) or command.code or not files:
            continue
        assert done.exit_code == 0
        rendered = run(f"slurm-operator render -o json {' '.join(f'-f {name}' for name in files)}")
        if rendered.exit_code and "is not among the files" in done.output:
            continue
        assert rendered.exit_code == 0, rendered.output
        for each in json.loads(rendered.output)["items"]:
            if each["apiVersion"] in NATIVE:
                kubernetes_validate.validate(each, KUBERNETES, strict=True)
                seen += 1
    assert seen, "no manifest of this page is called right by a command"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"nodesets": {"a": {"replica": 3}}}, "replica"),
        ({"controller": {"ha": {"enabled": "yes"}}}, "is not of type"),
    ],
    ids=["a misspelt value", "a text for a boolean"],
)
def test_wrong_values_are_found(values: dict[str, Any], complaint: str) -> None:
    assert complaint in " ".join(values_problems(values))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [({"nodSets": ["a"]}, "no kind has all of nodSets"), ({"nodeSets": "a"}, "is not of type")],
    ids=["a misspelt field", "a text for a list"],
)
def test_a_wrong_part_of_a_spec_is_found(spec: dict[str, Any], complaint: str) -> None:
    assert complaint in " ".join(spec_problems(spec))
