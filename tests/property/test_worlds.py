"""Any resource of the seven kinds is refused with a path, or becomes valid objects and a readable slurm.conf."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import strategies
from tests.property.oracle import judge

from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
# Together 20,000; the kinds with the most fields get the most.
SHARES = {
    "Controller": 5000,
    "NodeSet": 6000,
    "LoginSet": 2500,
    "RestApi": 1500,
    "Accounting": 2000,
    "Token": 1000,
    "Partition": 2000,
}


def _decoded(kind: str, name: str, **spec: Any) -> Any:
    raw = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": strategies.NAMESPACE, "uid": "1"},
        "spec": {**strategies.NEEDED[kind], **spec},
    }
    found = decode(raw)
    assert found.resource is not None, found.problems
    return found.resource


NEIGHBOURS = Refs(
    controllers={
        "slurm": _decoded("Controller", "slurm", extraConf="NodeName=ext[1-4] CPUs=4\nPartitionName=old Nodes=ext1")
    },
    accountings={"db": _decoded("Accounting", "db")},
    nodesets=(
        _decoded("NodeSet", "compute", partition={"enabled": True, "config": "Default=YES"}),
        _decoded("NodeSet", "gpu", template={"spec": {"hostname": "gpu-"}}),
    ),
    partitions=(_decoded("Partition", "all", nodeSets=["ALL"]),),
    config_maps={"scripts": {"10-a.sh": "#!/bin/sh\n"}, "gres": {"gres.conf": "AutoDetect=nvml\n"}},
    secrets={"keys": {"key": b"secret"}},
    kubernetes_nodes=3,
)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", list(BY_NAME))
def test_any_resource_is_refused_with_a_path_or_built_into_what_kubernetes_and_slurm_take(kind: str) -> None:
    outcomes: Counter[str] = Counter()

    @settings(max_examples=SHARES[kind] if FULL else SHARES[kind] // 20)
    @given(strategies.resource(kind))
    def holds(raw: dict[str, Any]) -> None:
        outcomes[judge(raw, NEIGHBOURS)] += 1

    holds()
    print(kind, dict(outcomes))
    # A property that only ever sees refusals would prove nothing.
    assert outcomes["built"] * 5 > outcomes.total(), outcomes
    assert outcomes["malformed"] + outcomes["refused"] > 0, outcomes


@settings(max_examples=400 if FULL else 40)
@given(st.recursive(strategies.JUNK, lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3)))
def test_rubbish_instead_of_a_spec_is_refused_with_a_path(rubbish: Any) -> None:
    for kind in BY_NAME:
        raw = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "a", "namespace": "b"}, "spec": rubbish}
        judge(raw, NEIGHBOURS)
