"""Services: the operator's port and selector within what a user asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.build.resources import restapi

from slurm_operator.api.meta import ServiceTemplate
from slurm_operator.build import labels, services
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.metadata import Object

API = labels.Component("api", "restapi")
SELECTOR = labels.selector(API, restapi().name)


def service(**user: Any) -> Object:
    template = msgspec.convert(user, ServiceTemplate)
    return services.service(restapi(), "svc", API, 6820, template)


OURS = {"name": "api", "protocol": "TCP", "port": 6820, "targetPort": "api"}


@pytest.mark.parametrize(
    ("user", "spec"),
    [
        pytest.param({}, {"selector": SELECTOR, "ports": [OURS]}, id="nothing asked"),
        pytest.param(
            {"port": 80, "nodePort": 30080, "spec": {"type": "NodePort"}},
            {"selector": SELECTOR, "ports": [{**OURS, "port": 80, "nodePort": 30080}], "type": "NodePort"},
            id="port, node port and type",
        ),
        pytest.param({"port": 0}, {"selector": SELECTOR, "ports": [OURS]}, id="port 0 is no port"),
        pytest.param(
            {"spec": {"selector": {labels.NAME: "theirs", "more": "1"}, "externalIPs": ["192.0.2.1"]}},
            {"selector": SELECTOR | {"more": "1"}, "ports": [OURS]},
            id="our selector wins, external addresses go",
        ),
        pytest.param(
            {"spec": {"ports": [{"name": "x", "port": 1}]}},
            {"selector": SELECTOR, "ports": [{"name": "x", "port": 1}, OURS]},
            id="one more port",
        ),
    ],
)
def test_the_spec_of_a_service(user: dict[str, Any], spec: Object) -> None:
    assert service(**user)["spec"] == spec


def test_metadata_of_a_service() -> None:
    metadata = service(metadata={"labels": {labels.NAME: "theirs", "m": "3"}, "annotations": {"n": "4"}})["metadata"]
    ours = labels.of(API, restapi().name)
    assert (metadata["labels"], metadata["annotations"]) == ({**ours, "m": "3"}, {"n": "4"})


def test_ports_that_collide_name_their_field() -> None:
    with pytest.raises(InvalidSpec) as caught:
        service(spec={"ports": [{"name": "api", "port": 1}]})
    assert caught.value.path[:4] == ("spec", "service", "spec", "ports")


def test_a_headless_service_names_pods_that_are_not_ready() -> None:
    spec = services.headless_spec({"a": "b"}, "slurmd", 6818)
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
