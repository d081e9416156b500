"""Which Controllers lead to one slurmctld."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build.resources import KEYS, resource

from slurm_operator.api.controller import Controller
from slurm_operator.build.refs import Refs
from slurm_operator.build.same_slurm import is_one_slurm


def controller(name: str, spec: dict[str, Any], answered: str = "") -> Controller:
    found = resource("Controller", name, {**KEYS, **spec}, {}, {"clusterName": answered} if answered else None)
    assert isinstance(found, Controller)
    return found


def outside(host: str, port: int = 6817, **more: Any) -> dict[str, Any]:
    return {"external": True, "externalConfig": {"host": host, "port": port}, **more}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (controller("a", {}), controller("b", {}), False),
        (controller("a", {"clusterName": "x"}), controller("b", {"clusterName": "x"}), False),
        (controller("a", outside("ctl")), controller("b", outside("CTL.")), True),
        (controller("a", outside("ctl")), controller("b", outside("ctl", 6818)), False),
        (controller("a", outside("ctl")), controller("b", outside("other")), False),
        (controller("a", outside("one", clusterName="x")), controller("b", outside("two", clusterName="X")), True),
        (controller("a", outside("one"), "x"), controller("b", outside("two", clusterName="x")), True),
        (controller("a", {}), controller("b", outside("a-controller.hpc")), True),
        (controller("a", {}), controller("b", outside("a-controller.hpc.svc.cluster.local", 7000)), True),
        (controller("a", {}), controller("b", outside("a-controller-0.a-controller-internal.hpc")), True),
        (controller("a", {}), controller("b", outside("a-controller.elsewhere")), False),
        (controller("a", {}), controller("b", outside("lb", clusterName="hpc_a")), True),
    ],
    ids=[
        "two that run here",
        "two that run here, with one name",
        "one address",
        "two ports of one host",
        "two addresses",
        "one name",
        "the name that answered",
        "the Service of the other",
        "the long name of that Service",
        "a pod of the other",
        "a Service of another namespace",
        "the computed name of the other",
    ],
)
def test_one_slurm_is_told_by_its_address_or_its_name(one: Controller, other: Controller, same: bool) -> None:
    refs = Refs(controllers={"a": one, "b": other})
    assert is_one_slurm(refs, "a", "b") is same
    assert is_one_slurm(refs, "b", "a") is same


def test_a_controller_that_is_not_there_is_of_its_own() -> None:
    assert is_one_slurm(Refs(), "a", "a")
    assert not is_one_slurm(Refs(), "a", "b")
