"""What an image is made from decides its digest."""

from __future__ import annotations

from slurm_operator.local.image import recipe


def test_the_recipes_hash_follows_the_version() -> None:
    assert recipe.recipe_hash("24.11") != recipe.recipe_hash("26.05")
    assert recipe.recipe_hash("24.11") == recipe.recipe_hash("24.11")


def test_the_digest_follows_recipe_and_packages() -> None:
    digests = {recipe.digest("r", {"a": "1"}), recipe.digest("r", {"a": "2"}), recipe.digest("s", {"a": "1"})}
    assert len(digests) == 3
