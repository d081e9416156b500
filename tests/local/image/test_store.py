"""Images in the cache: complete or not there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec
import pytest

from slurm_operator.local.image import rules, store
from slurm_operator.local.image.recipe import recipe_hash
from slurm_operator.local.image.store import Image


def put(
    cache: Path, version: str = "26.05", digest: str = "aaa", *, built: str = "2026-01-01", recipe: str = ""
) -> Image:
    folder = store.images_folder(cache)
    unfinished = folder / f"{digest}{store.UNFINISHED}"
    unfinished.mkdir(parents=True)
    (unfinished / "etc").mkdir()
    made = Image(
        path=folder / f"slurm-{version}-{digest}",
        version=version,
        digest=f"sha256:{digest}",
        recipe=recipe or recipe_hash(version),
        suite="sid",
        packages={"slurmd": "26.05.5-1"},
        bytes=3,
        built=built,
        seconds=1.5,
    )
    return store.put(made, unfinished)


def test_an_image_that_was_put_is_found_as_it_was(tmp_path: Path) -> None:
    made = put(tmp_path)
    assert store.find("26.05", tmp_path) == made
    assert (made.path / "etc").is_dir()
    assert store.find("24.11", tmp_path) is None


def test_the_newest_image_is_found(tmp_path: Path) -> None:
    put(tmp_path, digest="aaa", built="2026-01-02")
    put(tmp_path, digest="bbb", built="2026-01-03")
    put(tmp_path, digest="ccc", built="2026-01-01")
    assert [image.digest for image in store.list_images(tmp_path)] == ["sha256:bbb", "sha256:aaa", "sha256:ccc"]
    found = store.find("26.05", tmp_path)
    assert found is not None
    assert found.digest == "sha256:bbb"


def test_an_image_of_another_recipe_is_not_taken_for_current(tmp_path: Path) -> None:
    put(tmp_path, recipe="old")
    assert store.find("26.05", tmp_path) is None
    assert [image.current for image in store.list_images(tmp_path)] == [False]


def test_pods_keep_running_from_an_outdated_image_until_a_current_one_is_there(tmp_path: Path) -> None:
    put(tmp_path, digest="old", recipe="old", built="2026-02-02")
    assert rules.built_images(tmp_path)["26.05"].digest == "sha256:old"
    put(tmp_path, digest="new", built="2026-01-01")
    assert rules.built_images(tmp_path)["26.05"].digest == "sha256:new"


@pytest.mark.parametrize("broken", ["", "{", '{"path": 1}', "\x00"], ids=["empty", "cut off", "other type", "binary"])
def test_a_broken_description_is_passed_over(tmp_path: Path, broken: str) -> None:
    made = put(tmp_path)
    made.path.with_name(made.path.name + ".json").write_text(broken)
    assert store.list_images(tmp_path) == []


def test_a_file_system_without_description_is_no_image_and_is_replaced(tmp_path: Path) -> None:
    left = store.images_folder(tmp_path) / "slurm-26.05-aaa"
    (left / "half").mkdir(parents=True)
    assert store.list_images(tmp_path) == []
    assert not (put(tmp_path).path / "half").exists()


def test_a_moved_cache_still_works(tmp_path: Path) -> None:
    put(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    found = store.find("26.05", tmp_path / "new")
    assert found is not None
    assert found.path.is_dir()


def test_the_lock_is_held_by_one(tmp_path: Path) -> None:
    with store.lock(tmp_path, lambda: pytest.fail("nobody else holds it")):
        other = os.open(store.images_folder(tmp_path) / "build.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)


def test_the_newest_image_of_a_version_is_run_and_rules_may_be_changed(tmp_path: Path) -> None:
    file = tmp_path / rules.FILE

    def resolved() -> rules.ResolvedImage:
        return rules.resolve("x/slurmd:26.05", rules.load(file), rules.built_images(tmp_path))

    put(tmp_path, digest="one")
    assert resolved().digest == "sha256:one"
    put(tmp_path, digest="two", built="2026-01-09")
    assert resolved().digest == "sha256:two"
    mine = rules.Rules(rules=(rules.Rule(match="*", entrypoint=("mine",)),))
    file.write_text(rules.dump(mine))
    assert resolved().entrypoint == ("mine",)


def test_descriptions_are_plain_json(tmp_path: Path) -> None:
    made = put(tmp_path)
    read = msgspec.json.decode(made.path.with_name(made.path.name + ".json").read_bytes())
    assert read["packages"] == {"slurmd": "26.05.5-1"}
