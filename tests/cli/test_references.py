"""References that lead out of the files of `check`: a warning where the cluster may have it, else an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_operator.cli.references import NOT_GIVEN, unresolved
from slurm_operator.cli.world import load

HEAD = "apiVersion: slinky.slurm.net/v1beta1\nkind: {kind}\nmetadata: {{name: {name}, namespace: slurm}}\nspec:\n"
KEYS = "  slurmKeyRef: {name: keys, key: key, optional: true}\n  jwtKeyRef: {name: keys, key: key, optional: true}\n"
NODESET = HEAD.format(kind="NodeSet", name="compute") + "  controllerRef: {name: slurm}\n"


def controller(name: str = "slurm", more: str = "") -> str:
    return HEAD.format(kind="Controller", name=name) + KEYS + more


def found(folder: Path, *documents: str) -> list[tuple[str, str, str]]:
    """Severity, code and field of each reference that leads nowhere."""
    path = folder / "manifests.yaml"
    path.write_text("---\n".join(documents))
    world = load([str(path)], partial=True)
    each = (finding for one in world.loaded() for finding in unresolved(one, world.refs("slurm"), world))
    return [(finding.severity, finding.code, finding.path) for finding in each]


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        (NODESET, "ControllerNotGiven", "spec.controllerRef.name"),
        (controller(more="  accountingRef: {name: books}\n"), "AccountingNotGiven", "spec.accountingRef.name"),
        (controller(more="  persistence: {existingClaim: state}\n"), "ClaimNotGiven", "spec.persistence.existingClaim"),
        (controller().replace(", optional: true", "", 1), "SecretNotGiven", "spec.slurmKeyRef.name"),
    ],
    ids=["Controller", "Accounting", "claim", "Secret"],
)
def test_what_the_cluster_may_have_is_a_warning(tmp_path: Path, document: str, code: str, path: str) -> None:
    assert found(tmp_path, document) == [("warning", code, path)]
    assert code in NOT_GIVEN


def test_a_name_that_the_files_have_under_another_is_an_error(tmp_path: Path) -> None:
    assert found(tmp_path, NODESET, controller("slrm")) == [("error", "ReferenceNotFound", "spec.controllerRef.name")]


def test_a_resource_that_is_wrong_itself_is_there(tmp_path: Path) -> None:
    assert found(tmp_path, NODESET, controller(more="  replicas: 5\n")) == []


def test_a_claim_of_a_controller_without_persistence_is_nobodys(tmp_path: Path) -> None:
    assert found(tmp_path, controller(more="  persistence: {enabled: false, existingClaim: state}\n")) == []
