"""The bundles that runc is given, as expected files; SLURM_OPERATOR_UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kube_local.node import bundle
from kube_local.node.bundle import Bind, Device, Plan
from kube_local.node.identity import User

MakePod = Callable[..., dict[str, Any]]
NAMESPACES = {"mount": "", "uts": "/p/ns/uts", "pid": "", "ipc": "/p/ns/ipc", "network": "/run/netns/n"}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "restricted": (
        {"runAsNonRoot": True, "runAsUser": 401, "runAsGroup": 401, "seccompProfile": {"type": "RuntimeDefault"}},
        {
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
            "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}, "requests": {"cpu": "100m"}},
        },
    ),
    "privileged": (
        {},
        {"securityContext": {"privileged": True, "capabilities": {"add": ["BPF"]}}, "tty": True, "stdin": True},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bundle_is_as_expected(case: str, make_pod: MakePod, golden: Path) -> None:
    shared, own = CASES[case]
    plan = Plan(
        pod=make_pod(securityContext=shared),
        container={"name": "main", **own},
        rootfs="/p/containers/main/0/root",
        args=("slurmd", "-Z"),
        env={"PATH": "/bin", "A": "b c"},
        user=User(401, 401, (401, 44)),
        working_dir="/srv",
        binds=(Bind("/p/etc/hosts", "/etc/hosts"), Bind("/v", "/v", read_only=True, propagation="rslave")),
        namespaces=NAMESPACES,
        cgroup="/slk/uid-1/main-0",
        allowed=frozenset(range(41)) - {24},
        devices=(Device("/dev/fuse", "c", 10, 229),),
    )
    made = json.loads(json.dumps(bundle.config(plan)))
    file = golden / f"bundle-{case}.json"
    if os.environ.get("SLURM_OPERATOR_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(made, indent=1) + "\n")
    assert made == json.loads(file.read_text())


def test_no_bundle_asks_for_what_some_machines_refuse(golden: Path) -> None:
    for file in golden.glob("bundle-*.json"):
        made = json.loads(file.read_text())
        assert "rlimits" not in made["process"]
        assert "oomScoreAdj" not in made["process"]
        assert "CAP_SYS_RESOURCE" not in made["process"]["capabilities"]["bounding"]


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ({}, {}, {}),
        ({"memory": "1Gi"}, {}, {"memory": {"limit": 2**30}}),
        ({"cpu": "2"}, {}, {"cpu": {"shares": 2048, "quota": 200_000, "period": 100_000}}),
        ({}, {"cpu": "1m"}, {"cpu": {"shares": 2}}),
        ({"cpu": "1m"}, {"cpu": "1m"}, {"cpu": {"shares": 2, "quota": 1000, "period": 100_000}}),
    ],
    ids=["none", "memory", "a limit is a request", "least shares", "least quota"],
)
def test_limits_become_cgroup_settings(limits: Any, requests: Any, expected: Any) -> None:
    made = bundle.resources({"resources": {"limits": limits, "requests": requests}}, privileged=False)
    assert made == {"devices": [{"allow": False, "access": "rwm"}], **expected}


def test_a_limit_that_the_machine_cannot_keep_is_left_out(make_pod: MakePod) -> None:
    container = {"name": "main", "resources": {"limits": {"memory": "1Gi", "cpu": "1"}}}
    plan = Plan(make_pod(), container, "/root", ("sh",), {}, User(), controllers=frozenset({"cpu"}))
    assert set(bundle.config(plan)["linux"]["resources"]) == {"devices", "cpu"}
