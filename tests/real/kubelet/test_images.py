"""The operator's image says what its Dockerfile says; nobody has to keep the two in step."""

from __future__ import annotations

import pytest
from tests.real.kubelet import images


def test_the_last_stage_of_a_dockerfile_is_what_runs() -> None:
    text = 'FROM a AS build\nUSER 1\nENV X=1\nFROM b\nENV P=/x:$PATH \\\n  Q=1\nUSER 2:2\nENTRYPOINT ["run"]\n'
    assert images.last_stage(text) == {"ENV": "P=/x:$PATH    Q=1", "USER": "2:2", "ENTRYPOINT": '["run"]'}


def test_the_operators_image_is_that_of_the_dockerfile_under_the_manifests_name() -> None:
    image = images.operator_image(())
    assert image.name.endswith(f"/{images.installed_image()}")
    assert (image.entrypoint, image.command) == (("slurm-operator",), ("run",))
    assert image.user == "65532:65532"
    assert image.env["PATH"].startswith(f"{images.VENV}/bin:/usr")


@pytest.mark.real_kube
def test_slurms_images_have_the_names_that_the_operator_uses() -> None:
    assert {image.name.split("/")[-1].split(":")[0] for image in images.slurm_images()} == set(images.DAEMONS)
