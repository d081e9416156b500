"""Configurations that slurmctld takes and workers do not: all that rules can see are refused, no good one is.

The corpus is in `tests/slurm/worker_configs`; each was tried on real daemons of both versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.build.resources import controller, nodeset, refs

from slurm_operator.admission.rules import nodeset as nodeset_rules
from slurm_operator.build.conf_origin import Origins
from slurm_operator.build.controller import built
from slurm_operator.plan.lint import lint_all

CORPUS = Path(__file__).parents[1] / "slurm" / "worker_configs"
VERSIONS = ("24.11", "26.05")
WITHOUT_CGROUPS = {"cgroup.conf": "CgroupPlugin=disabled\n"}
PROCTRACK = "ProctrackType=proctrack/linuxproc\n"


def corpus(name: str) -> list[Any]:
    """A case for each configuration and version that it holds for."""
    cases = yaml.safe_load((CORPUS / f"{name}.yaml").read_text())
    return [
        pytest.param(case, version, id=f"{version}: {case['name']}")
        for case in cases
        for version in case.get("versions", VERSIONS)
    ]


BAD = corpus("bad")
RULES = [each for each in BAD if each.values[0]["by"] == "rules"]


def refusals(case: dict[str, Any], version: str) -> list[str]:
    """Every error, with the place that the user wrote."""
    files = {**WITHOUT_CGROUPS, **case.get("files", {})}
    cr = controller(extraConf=case.get("extra", PROCTRACK), configFileRefs=[{"name": "site"}])
    worker = nodeset(extraConf=case.get("node"), slurmd={"image": f"registry.example/slurmd:{version}"})
    there = refs(cr, worker, config_maps={"site": files})
    conf = built(cr, there).conf
    published = {**files, "slurm.conf": conf.text}
    origins = Origins(cr, there, conf, published)
    found = [each for each in lint_all(published, cr.spec.extra_conf or "", version) if each.severity == "error"]
    problems = [each for each in nodeset_rules.check(worker, None, there) if each.severity == "error"]
    return [
        *(f"{each.place}: {each.without_place}" for each in map(origins.placed, found)),
        *(f"NodeSet compute {each}" for each in problems),
    ]


def place(at: str) -> str:
    """`extraConf 2`, `gres.conf 1` or `node` as a message has it."""
    if at == "node":
        return "NodeSet compute spec.extraConf: "
    file, _, line = at.partition(" ")
    where = "Controller slurm spec.extraConf" if file == "extraConf" else f"ConfigMap site key {file}"
    return f"{where} line {line}: "


@pytest.mark.parametrize(("case", "version"), RULES)
def test_what_stops_workers_is_refused_at_the_users_line(case: dict[str, Any], version: str) -> None:
    found = refusals(case, version)
    assert [each for each in found if each.startswith(place(case["at"])) and case["says"] in each], found


@pytest.mark.parametrize(("case", "version"), corpus("good"))
def test_what_workers_take_is_not_refused(case: dict[str, Any], version: str) -> None:
    assert refusals(case, version) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_there_are_at_least_forty_of_each_for_each_version(version: str) -> None:
    assert sum(each.values[1] == version for each in RULES) >= 40
    assert sum(each.values[1] == version for each in corpus("good")) >= 40
