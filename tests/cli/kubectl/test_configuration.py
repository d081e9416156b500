"""What `kubectl slurm config` says of a configuration in force, and of one that is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import pytest

from slurm_operator.build import controller
from slurm_operator.cli.kubectl.configuration import differences, read
from slurm_operator.diagnose.facts import Facts

GOOD = "ClusterName=slurm\nMinJobAge=300\n"


def namespace(candidate: str | None = None, valid: str = "True", message: str = "") -> Facts:
    """One cluster whose configuration is in force, or is refused."""
    said = {"type": "ConfigValid", "status": valid, "message": message}
    status = {"config": {"hash": "abc"}, "conditions": [said]}
    maps: dict[str, dict[str, Any]] = {"slurm-config": {"data": {"slurm.conf": GOOD}}}
    if candidate is not None:
        maps["slurm-config-candidate"] = {"data": {"slurm.conf": candidate, controller.NOTE: "abc"}}
    return Facts(
        "slurm", {"Controller": {"slurm": {"metadata": {"name": "slurm"}, "status": status}}, "ConfigMap": maps}
    )


@pytest.mark.parametrize("candidate", [None, GOOD], ids=["never tried another", "the same was tried"])
def test_what_is_in_force_does_not_differ(candidate: str | None) -> None:
    found = read(namespace(candidate), "")
    assert (found.cluster, found.hash, found.refused) == ("slurm", "abc", False)
    assert list(differences(found)) == []


def test_a_refused_line_and_the_reason_are_shown() -> None:
    found = read(namespace(GOOD + "JobSubmitPlugins=lua\n", "False", "slurm.conf:3: no such plugin"), "slurm")
    assert found.refused
    assert found.verdict == "slurm.conf:3: no such plugin"
    assert "+JobSubmitPlugins=lua" in list(differences(found))


def test_the_notes_of_the_operator_are_no_file_of_slurm() -> None:
    assert list(read(namespace(GOOD), "slurm").wanted) == ["slurm.conf"]


def asking(reason: str, valid: str, candidate: str | None = None, extra: str = "MinJobAge=600") -> Facts:
    """A cluster whose resources ask for more than is in force."""
    facts = namespace(valid=valid)
    conf = {"type": "ConfigValid", "status": valid, "reason": reason, "message": "said"}
    conf["lastTransitionTime"] = "2026-11-16T20:00:00Z"
    spec = {
        "slurmKeyRef": {"name": "a", "key": "b"},
        "jwtKeyRef": {"name": "a", "key": "c"},
        "extraConf": extra,
        "configFileRefs": [{"name": "files"}],
    }
    owner = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Controller",
        "metadata": {"name": "slurm", "namespace": "slurm"},
        "spec": spec,
        "status": {"conditions": [conf]},
    }
    maps = {**facts.objects["ConfigMap"], "files": {"data": {"gres.conf": "Name=gpu File=/dev/nvidia0\n"}}}
    if candidate is not None:
        maps["slurm-config-candidate"] = {"data": {"slurm.conf": candidate}}
    return Facts("slurm", {"Controller": {"slurm": owner}, "ConfigMap": maps})


@pytest.mark.parametrize(
    ("reason", "valid", "candidate"),
    [
        ("SlurmdRefused", "False", None),
        ("SlurmdRefused", "False", "ClusterName=slurm\nTried=long ago\n"),
        ("LinterRefused", "False", None),
        ("Trying", "Unknown", None),
        ("WaitingForSlurmctld", "Unknown", None),
        ("KeyRotation", "Unknown", None),
    ],
)
def test_what_no_slurmctld_has_got_yet_is_shown_too(reason: str, valid: str, candidate: str | None) -> None:
    lines = list(differences(read(asking(reason, valid, candidate), "")))
    assert "+Name=gpu File=/dev/nvidia0" in lines
    assert "+MinJobAge=600" in lines
    assert not any("long ago" in line for line in lines)


@pytest.mark.parametrize("reason", ["SlurmRefused", "RolledBack"])
def test_what_slurmctld_refused_is_the_candidate_that_it_got(reason: str) -> None:
    lines = list(differences(read(asking(reason, "False", GOOD + "JobSubmitPlugins=lua\n"), "")))
    assert [line for line in lines if line.startswith("+") and "asked for" not in line] == ["+JobSubmitPlugins=lua"]


def test_what_cannot_be_built_is_no_difference() -> None:
    facts = asking("SlurmdRefused", "False")
    maps = {name: each for name, each in facts.objects["ConfigMap"].items() if name != "files"}
    found = read(replace(facts, objects={**facts.objects, "ConfigMap": maps}), "")
    assert (list(differences(found)), found.verdict) == ([], "said")


def test_an_unknown_controller_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(click.ClickException, match=r"no Controller 'other' in namespace slurm; there is: slurm"):
        read(namespace(), "other")
