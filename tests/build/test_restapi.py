"""RestApis: arguments around the user's, and the key that restarts them. Whole objects: tests/golden."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build.resources import controller, external_controller, refs, restapi

from slurm_operator.build import labels
from slurm_operator.build import restapi as build
from slurm_operator.build.errors import MissingReference


@pytest.mark.parametrize(
    ("accounting", "user", "args"),
    [
        pytest.param({}, [], ["-s", "openapi/slurmctld", "0.0.0.0:6820"], id="without accounting"),
        pytest.param({"accountingRef": {"name": "books"}}, [], ["0.0.0.0:6820"], id="with accounting"),
        pytest.param({"accountingRef": {"name": "books"}}, ["-v"], ["-v", "0.0.0.0:6820"], id="the address is last"),
    ],
)
def test_arguments(accounting: dict[str, Any], user: list[str], args: list[str]) -> None:
    world = refs(controller(**accounting))
    _, deployment = build.objects(restapi(slurmrestd={"args": user}), world)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == args


def test_a_new_key_restarts_it() -> None:
    def hash_of(key: bytes) -> Any:
        _, deployment = build.objects(restapi(), refs(controller(), secrets={"slurm-key": {"slurm.key": key}}))
        return deployment["spec"]["template"]["metadata"]["annotations"][labels.SLURM_KEY_HASH]

    assert hash_of(b"one") != hash_of(b"two")


def test_a_controller_without_a_key_has_no_key_to_mount() -> None:
    _, deployment = build.objects(restapi(), refs(external_controller()))
    template = deployment["spec"]["template"]
    assert labels.SLURM_KEY_HASH not in template["metadata"]["annotations"]
    assert [list(each) for each in template["spec"]["volumes"][0]["projected"]["sources"]] == [["configMap"]]


def test_a_controller_that_is_missing() -> None:
    with pytest.raises(MissingReference):
        build.objects(restapi(), refs())


def test_files_beside_slurm_conf_are_mounted_too() -> None:
    world = refs(controller(configFileRefs=[{"name": "files"}]), config_maps={"files": {"gres.conf": "Name=gpu\n"}})
    _, deployment = build.objects(restapi(), world)
    sources = deployment["spec"]["template"]["spec"]["volumes"][0]["projected"]["sources"]
    assert {"configMap": {"name": "slurm-config"}} in sources
