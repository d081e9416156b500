"""Who may write a NodeSet gets no privileged container of their own code by that alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.admission.rules.test_reach import raw, refs

from slurm_operator.admission import rules
from slurm_operator.admission.rules.privileged_worker import SHARED_MEMORY
from slurm_operator.admission.rules.reach_table import Allowed
from slurm_operator.api.controller import Controller
from slurm_operator.api.problem import errors, format_path
from slurm_operator.api.validate import decode
from slurm_operator.build.refs import Refs

OFF = {"securityContext": {"privileged": False, "capabilities": {"add": []}}}
COMMAND = {"command": ["sh", "-c", "id"]}
OWN_CODE: list[tuple[dict[str, Any], str]] = [
    ({"image": "docker.io/mine/slurmd:1"}, "image"),
    ({"image": "ghcr.io/slinkyproject.example.com/slurmd:1"}, "image"),
    ({"image": "mine"}, "image"),
    ({"command": ["sh"]}, "command"),
    ({"args": ["-d", "/home/mine/slurmstepd"]}, "args"),
    ({"env": [{"name": "A", "value": "1"}, {"name": "LD_PRELOAD", "value": "/home/x.so"}]}, "env[1].name"),
    ({"env": [{"name": "PATH", "value": "/home"}]}, "env[0].name"),
    ({"env": [{"name": "BASH_ENV", "value": "/home/x"}]}, "env[0].name"),
    ({"env": [{"name": "SLURMD_OPTIONS", "value": "-d /home/x"}]}, "env[0].name"),
    ({"envFrom": [{"configMapRef": {"name": "c"}}]}, "envFrom[0]"),
    ({"envFrom": [{"configMapRef": {"name": "c"}, "prefix": "L"}]}, "envFrom[0]"),
    ({"envFrom": [{"configMapRef": {"name": "c"}, "prefix": "LD_"}]}, "envFrom[0]"),
    ({"volumeMounts": [{"name": "v", "mountPath": "/usr/sbin"}]}, "volumeMounts[0].mountPath"),
    ({"volumeMounts": [{"name": "v", "mountPath": "/home/../etc"}]}, "volumeMounts[0].mountPath"),
    ({"volumeMounts": [{"name": "v", "mountPath": "/"}]}, "volumeMounts[0].mountPath"),
    ({"volumeMounts": [{"name": "v", "mountPath": "/lib64"}]}, "volumeMounts[0].mountPath"),
    ({"lifecycle": {"postStart": {"exec": COMMAND}}}, "lifecycle.postStart.exec"),
    ({"lifecycle": {"preStop": {"exec": COMMAND}}}, "lifecycle.preStop.exec"),
    ({"livenessProbe": {"exec": COMMAND}}, "livenessProbe.exec"),
    ({"readinessProbe": {"exec": COMMAND}}, "readinessProbe.exec"),
    ({"startupProbe": {"exec": COMMAND}}, "startupProbe.exec"),
    ({"command": ["sh"], "securityContext": {"privileged": False}}, "command"),
]


def refused(spec: dict[str, Any], around: Refs) -> list[str]:
    decoded = decode(raw("NodeSet", spec))
    assert decoded.resource is not None, decoded.problems
    return [format_path(each.path) for each in errors(rules.check(decoded.resource, None, around))]


@pytest.mark.parametrize(("container", "path"), OWN_CODE, ids=[str(each)[:70] for each, _ in OWN_CODE])
def test_own_code_in_a_privileged_worker_needs_the_right_to_privileged_containers(
    container: dict[str, Any], path: str
) -> None:
    """T8: whoever may write a NodeSet had a privileged container of their own image."""
    assert refused({"slurmd": container}, refs(frozenset())) == [f"spec.slurmd.{path}"]
    inside = {"template": {"spec": {"containers": [{"name": "slurmd", **container}]}}}
    assert refused(inside, refs(frozenset())) == [f"spec.template.spec.containers[0].{path}"]
    assert not refused({"slurmd": container}, refs(frozenset({"privileged"})))
    assert not refused({"slurmd": {**container, **OFF}}, refs(frozenset())), "an unprivileged one may run anything"


def test_a_refused_image_names_the_flag_and_the_value_of_the_chart() -> None:
    new = decode(raw("NodeSet", {"slurmd": {"image": "mine/x"}})).resource
    assert new is not None
    (found,) = errors(rules.check(new, None, refs(frozenset())))
    assert "--worker-images (workerImages in the chart) or --allow-pod-features=privileged" in found.message


def test_a_worker_without_a_controller_counts_as_privileged() -> None:
    around = replace(refs(frozenset()), controllers={})
    assert refused({"slurmd": {"command": ["sh"]}}, around) == ["spec.slurmd.command"]


def test_a_worker_that_manages_no_cgroups_is_not_privileged() -> None:
    around = refs(frozenset())
    cgroups = {"c": {"cgroup.conf": "CgroupPlugin=disabled"}}
    controller = decode({**raw("Controller", {"configFileRefs": [{"name": "c"}]}), "metadata": {"name": "slurm"}})
    assert isinstance(controller.resource, Controller)
    around = replace(around, controllers={"slurm": controller.resource}, config_maps=cgroups)
    assert not refused({"slurmd": {"command": ["sh"], "image": "mine/x"}}, around)


@pytest.mark.parametrize(
    ("images", "image", "trusted"),
    [
        (("ghcr.io/slinkyproject/",), "ghcr.io/slinkyproject/slurmd:26.05-ubuntu26.04", True),
        (("registry.example.com/hpc/",), "ghcr.io/slinkyproject/slurmd:26.05", False),
        (("registry.example.com:5000/slurmd",), "registry.example.com:5000/slurmd:1", True),
        (("registry.example.com:5000/slurmd",), "registry.example.com:5000/slurmd@sha256:abc", True),
        (("registry.example.com:5000/slurmd",), "registry.example.com:5000/slurmd-of-mine:1", False),
        (("r/slurmd:1",), "r/slurmd:1", True),
        (("r/slurmd:1",), "r/slurmd:2", False),
        ((), "ghcr.io/slinkyproject/slurmd:26.05", False),
    ],
)
def test_the_administrator_says_which_images_are_trusted(images: tuple[str, ...], image: str, trusted: bool) -> None:
    around = replace(refs(frozenset()), worker_images=images)
    assert (refused({"slurmd": {"image": image}}, around) == []) == trusted


def test_an_ordinary_worker_of_the_go_operator_needs_no_flag() -> None:
    container = {
        "image": "ghcr.io/slinkyproject/slurmd:25.11-ubuntu24.04",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "APP_"}],
        "resources": {"limits": {"nvidia.com/gpu": 4}},
        "volumeMounts": [{"name": "home", "mountPath": "/home"}, {"name": "shm", "mountPath": SHARED_MEMORY}],
    }
    volumes = [
        {"name": "home", "nfs": {"server": "s", "path": "/h"}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    assert not refused({"slurmd": container, "template": {"spec": {"volumes": volumes}}}, refs(frozenset()))


def test_the_operators_volumes_are_not_replaced() -> None:
    spec = {"template": {"spec": {"volumes": [{"name": "slurm-etc", "configMap": {"name": "mine"}}]}}}
    assert refused(spec, refs(frozenset())) == ["spec.template.spec.volumes[0].name"]
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "slurm-etc"}}]}
    assert refused(claims, refs(frozenset())) == ["spec.volumeClaimTemplates[0].metadata.name"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"slurmd": {"volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}]}},
            "spec.slurmd.volumeDevices[0]",
        ),
        (
            {"template": {"spec": {"shareProcessNamespace": True}}},
            "spec.template.spec.shareProcessNamespace",
        ),
        (
            {
                "ssh": {
                    "enabled": True,
                    "sssdConfRef": {"name": "sssd", "key": "sssd.conf"},
                    "extraSshdConfig": "# who may come in\nX11Forwarding no\nAuthorizedKeysCommand /home/x",
                }
            },
            "spec.ssh.extraSshdConfig",
        ),
        (
            {"slurmd": {"image": "mine", "securityContext": {"$patch": "turn"}}},
            "spec.slurmd.image",
        ),
    ],
    ids=["a block device", "shared processes", "a command of sshd", "an overlay that cannot be merged"],
)
def test_ways_around_the_container_are_looked_at_too(spec: dict[str, Any], path: str) -> None:
    assert path in refused(spec, refs(frozenset()))


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        (Allowed("unset"), "unset (`false`, `0` and empty count as unset)"),
        (Allowed("only", ("a", "b")), "unset, `a`, `b`"),
        (Allowed("but", ("a",)), "any but `a`"),
        (Allowed("worker", ("any but `a`",)), "any but `a`"),
        (Allowed("worker"), "unset"),
        (Allowed("any"), "any"),
    ],
    ids=["unset", "only these", "any but these", "of a worker", "of a worker, none", "any"],
)
def test_the_page_says_which_values_a_field_may_have(allowed: Allowed, text: str) -> None:
    assert str(allowed) == text


def test_a_sidecar_and_claims_of_a_privileged_worker_need_no_flag() -> None:
    claim = {
        "metadata": {"name": "scratch"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    sidecar = {"name": "exporter", "image": "docker.io/mine/exporter:1", "command": ["exporter"]}
    spec = {"template": {"spec": {"containers": [sidecar]}}, "volumeClaimTemplates": [claim]}
    assert refused(spec, refs(frozenset())) == []
