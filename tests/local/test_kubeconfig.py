"""A start of the cluster writes its kubeconfig anew, and leaves alone what a person has set in it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from slurm_operator.local.kubeconfig import with_user_settings

FRESH = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "embedded", "cluster": {"server": "https://127.0.0.1:2"}}],
        "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "admin"}}],
        "current-context": "embedded",
        "users": [{"name": "admin", "user": {"token": "new"}}],
    },
    sort_keys=False,
)


def changed(**parts: Any) -> str:
    """The file of an earlier start, on another port, as a person has changed it."""
    body = yaml.safe_load(FRESH.replace("127.0.0.1:2", "127.0.0.1:1").replace("new", "old"))
    return yaml.safe_dump(body | parts)


def test_the_namespace_that_a_person_chose_stays() -> None:
    """`kubectl config set-context --current --namespace=slurm` was undone by the next `local up` (U14)."""
    context = {"cluster": "embedded", "user": "admin", "namespace": "slurm"}
    text = with_user_settings(FRESH, changed(contexts=[{"name": "embedded", "context": context}]))
    found = yaml.safe_load(text)
    assert found["contexts"] == [{"name": "embedded", "context": context}]
    assert found["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:2"
    assert found["users"][0]["user"]["token"] == "new"
    assert with_user_settings(FRESH, text) == text


def test_contexts_of_others_stay_and_so_does_the_choice_among_them() -> None:
    other = {"name": "mine", "context": {"cluster": "embedded", "user": "admin", "namespace": "lab"}}
    parts = {"contexts": [*yaml.safe_load(FRESH)["contexts"], other], "current-context": "mine"}
    found = yaml.safe_load(with_user_settings(FRESH, changed(**parts)))
    assert found["contexts"][1:] == [other]
    assert found["current-context"] == "mine"


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", id="no file"),
        pytest.param("a: [", id="no YAML"),
        pytest.param("[" * 20_000, id="too deep"),
        pytest.param("[]", id="a list"),
        pytest.param("text", id="a word"),
        pytest.param(changed(), id="nothing set"),
        pytest.param(changed(contexts="none"), id="contexts of a wrong type"),
        pytest.param(changed(**{"current-context": "gone"}), id="a context that is gone"),
    ],
)
def test_nothing_else_of_an_old_file_comes_back(before: str) -> None:
    assert with_user_settings(FRESH, before) == FRESH
