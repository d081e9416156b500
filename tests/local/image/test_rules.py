"""Which image name stands for what."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_operator.build import images as operator_images
from slurm_operator.local.image import rules
from slurm_operator.local.image.errors import ImageMissing, InvalidRules
from slurm_operator.local.image.rules import DEFAULT, Rule, Rules
from slurm_operator.local.image.store import Image


def image(version: str) -> Image:
    return Image(
        path=Path(f"/cache/slurm-{version}"),
        version=version,
        digest=f"sha256:{version}",
        recipe="r",
        suite="sid",
        packages={},
        bytes=1,
        built="2026-01-01T00:00:00+00:00",
        seconds=1,
    )


BOTH = {version: image(version) for version in ("24.11", "26.05")}
OWN = "/usr/lib/slurm-operator"


@pytest.mark.parametrize(
    ("name", "first_words", "user"),
    [
        (operator_images.default("slurmctld"), [f"{OWN}/slurmctld"], "401:401"),
        (operator_images.default("slurmdbd"), ["tini", "-g", "--", "sh", "-c", rules.SLURMDBD, "slurmdbd"], "401:401"),
        (operator_images.default("slurmrestd"), ["tini", "-g", "--", "slurmrestd", "0.0.0.0:6820"], "65534:65534"),
        (operator_images.default("slurmd"), [f"{OWN}/slurmd"], "0:0"),
        (operator_images.default("login"), [f"{OWN}/login"], "0:0"),
        ("ghcr.io/slinkyproject/slurmd-pyxis:26.05-ubuntu26.04", [f"{OWN}/slurmd"], "0:0"),
        ("registry.example:5000/hpc/login-pyxis", [f"{OWN}/login"], "0:0"),
        ("slurmctld", [f"{OWN}/slurmctld"], "401:401"),
        ("mariadb:11.8", [f"{OWN}/mariadb"], "0:0"),
        ("docker.io/library/mariadb@sha256:0123", [f"{OWN}/mariadb"], "0:0"),
        ("alpine:3.20", ["sh"], "0:0"),
        ("busybox", ["sh"], "0:0"),
    ],
)
def test_an_image_name_stands_for_a_program_and_a_user(name: str, first_words: list[str], user: str) -> None:
    found = rules.resolve(name, DEFAULT, BOTH)
    assert [*found.entrypoint, *found.command] == first_words
    assert found.user == user
    assert found.env["PATH"].startswith("/usr/local/sbin")


@pytest.mark.parametrize(
    ("name", "version", "noted"),
    [
        ("x/slurmd:26.05-ubuntu26.04", "26.05", False),
        ("x/slurmd:24.11.5", "24.11", False),
        ("x/slurmd:v24.11", "24.11", False),
        ("x/slurmd", "26.05", False),
        ("x/slurmd:latest", "26.05", False),
        ("x/slurmd:25.11-ubuntu24.04", "26.05", True),
    ],
)
def test_the_tag_says_which_slurm(name: str, version: str, noted: bool) -> None:
    found = rules.resolve(name, DEFAULT, BOTH)
    assert (found.version, found.rootfs) == (version, Path(f"/cache/slurm-{version}"))
    assert bool(found.note) == noted


def test_a_version_that_is_not_built_is_replaced_and_that_is_said() -> None:
    found = rules.resolve("x/slurmd:26.05", DEFAULT, {"24.11": image("24.11")})
    assert found.version == "24.11"
    assert found.note == "Slurm 26.05 is not built: Slurm 24.11 runs in its place"


def test_without_any_image_the_error_says_how_to_build_one() -> None:
    with pytest.raises(ImageMissing, match=r"slurm-operator local image build --slurm 26\.05"):
        rules.resolve("x/slurmd:24.11", DEFAULT, {})


def test_the_default_rules_survive_being_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / rules.FILE
    rules.write_default(file, "24.11")
    written = rules.load(file)
    assert written.rules == DEFAULT.rules
    assert written.default == "24.11"


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / rules.FILE
    file.write_text("rules: [{match: '*', entrypoint: [mine]}]\n")
    rules.write_default(file)
    assert rules.load(file).rules[0].entrypoint == ("mine",)


def test_without_a_file_the_default_rules_hold(tmp_path: Path) -> None:
    assert rules.load(tmp_path / rules.FILE) == DEFAULT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rules: [", "is not valid YAML"),
        ("rules: [{entrypoint: [x]}]", "missing required field `match`"),
        ("rules: [{match: '*', entry: [x]}]", "unknown field `entry`"),
        ("rules: [{match: '*', entrypoint: x}]", r"\$.rules\[0\].entrypoint"),
        ("rules: [{match: '*', user: slurm}]", r"rules\[0\].user: 'slurm' is not a UID or UID:GID"),
        ("- 1", "Expected `object`"),
        ("", "Expected `object`"),
        ("[" * 20_000, "nested too deeply"),
    ],
    ids=["no yaml", "no match", "unknown field", "wrong type", "user by name", "a list", "empty", "too deep"],
)
def test_bad_rules_are_refused_with_the_place(text: str, says: str) -> None:
    with pytest.raises(InvalidRules, match=says):
        rules.parse(text)


def test_a_name_that_no_rule_matches_is_an_error() -> None:
    with pytest.raises(ImageMissing, match="'x/y:1'"):
        rules.resolve("x/y:1", Rules(rules=(Rule(match="*/z:*"),)), BOTH)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nosuch/image:1", r'no rule of images.yaml .* add \{match: "nosuch/image:\*", entrypoint: \[PROGRAM\]\}'),
        ("nginx", r'add \{match: "library/nginx:\*"'),
        ("x/slurmd:nosuch", r"the rule \*/slurmd\*:\* of images.yaml builds tags latest, 24.05\*.* the tag 'nosuch'"),
        ("x/slurmd:1", "correct the tag '1'"),
        ("x/slurmctld:99.99-ubuntu26.04", "correct the tag '99.99-ubuntu26.04'"),
        ("x/login:2605", "correct the tag '2605'"),
    ],
)
def test_what_was_never_built_cannot_be_pulled_and_the_rule_is_named(name: str, says: str) -> None:
    """A wrong tag ran as another Slurm, and an unknown image as a shell with slurmd's arguments (U11)."""
    with pytest.raises(ImageMissing, match=says):
        rules.resolve(name, DEFAULT, BOTH)


def test_rules_of_an_older_file_take_every_tag() -> None:
    """Files that earlier releases wrote say nothing of tags, and end in a rule for all names."""
    older = rules.parse("rules: [{match: '*/slurmd*:*', entrypoint: [a]}, {match: '*', command: [sh]}]")
    assert rules.resolve("x/slurmd:nosuch", older, BOTH).entrypoint == ("a",)
    assert rules.resolve("nosuch/image:1", older, BOTH).command == ("sh",)
