"""Images: the default ones, and the Slurm version that a tag speaks of."""

from __future__ import annotations

import pytest

from slurm_operator.build import images


def test_a_container_without_an_image_gets_the_default_one() -> None:
    assert images.of({}, "slurmd") == images.default("slurmd") == f"ghcr.io/slinkyproject/slurmd:{images.TAG}"
    assert images.of({"image": ""}, "slurmd") == images.default("slurmd")
    assert images.of({"image": "mine:1"}, "slurmd") == "mine:1"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("ghcr.io/slinkyproject/slurmd:25.11-ubuntu24.04", (25, 11)),
        ("slurmd:26.05", (26, 5)),
        ("slurmd:v24.11.5", (24, 11)),
        ("slurmd:25.05_rc1", (25, 5)),
        ("registry:5000/slurmd:25.11@sha256:abc", (25, 11)),
        ("registry:5000/slurmd", None),
        ("slurmd:latest", None),
        ("slurmd@sha256:abc", None),
        ("slurmd:2511", None),
        ("", None),
    ],
)
def test_the_version_in_a_tag(image: str, version: tuple[int, int] | None) -> None:
    assert images.slurm_version(image) == version


@pytest.mark.parametrize(
    ("image", "answers"),
    [("slurmd:25.05", False), ("slurmd:25.11", True), ("slurmd:26.05", True), ("slurmd:latest", True)],
)
def test_only_newer_daemons_answer_http(image: str, answers: bool) -> None:
    assert images.answers_http(image) is answers
