"""Rules for NodeSets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.admission.rules.resources import KEY, check, namespace, resource, said

from slurm_operator.admission import rules
from slurm_operator.api.problem import Path
from slurm_operator.build.refs import Refs

Changes = dict[Path, Any]
HOSTNAME: Path = ("spec", "template", "spec", "hostname")
MOST: Path = ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
WINDOW: Path = ("spec", "updateStrategy", "scheduledUpdate")
CLAIMS: Path = ("spec", "volumeClaimTemplates")
START = "2026-01-31T22:00:00Z"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({("metadata", "name"): "a.b"}, 'metadata.name: "a.b" must not contain a dot: workers are named after it'),
        ({HOSTNAME: "-"}, 'spec.template.spec.hostname: "-" has no letter or digit'),
        ({HOSTNAME: "a_b"}, "spec.template.spec.hostname: "),
        ({HOSTNAME: "a.b"}, "spec.template.spec.hostname: "),
        ({HOSTNAME: "a\n"}, "spec.template.spec.hostname: "),
        ({HOSTNAME: "x" * 63}, "spec.template.spec.hostname: "),
        (
            {("spec", "replicas"): 65534},
            "spec.replicas: 65534 is more than the 65533 nodes that a Slurm cluster can have",
        ),
        ({MOST: 0}, "spec.updateStrategy.rollingUpdate.maxUnavailable: 0 would block every update; the minimum is 1"),
        ({MOST: -1}, "spec.updateStrategy.rollingUpdate.maxUnavailable: -1 would block"),
        ({MOST: "0%"}, "spec.updateStrategy.rollingUpdate.maxUnavailable: 0% would block every update"),
        ({MOST: "101%"}, 'spec.updateStrategy.rollingUpdate.maxUnavailable: "101%" is neither'),
        ({MOST: "many"}, 'spec.updateStrategy.rollingUpdate.maxUnavailable: "many" is neither'),
        ({MOST: "5%\n"}, "spec.updateStrategy.rollingUpdate.maxUnavailable: "),
        ({WINDOW: {"duration": "59s"}}, "spec.updateStrategy.scheduledUpdate.duration: must be at least 1m"),
        ({WINDOW: {"duration": "soon"}}, 'spec.updateStrategy.scheduledUpdate.duration: "soon" is not a duration'),
        ({WINDOW: {"flags": ["DAILY", "a b"]}}, "spec.updateStrategy.scheduledUpdate.flags[1]: "),
        (
            {("spec", "updateStrategy", "type"): "ScheduledUpdate"},
            "spec.updateStrategy.scheduledUpdate.startTime: scheduledUpdate.startTime and scheduledUpdate.duration",
        ),
        ({("spec", "ssh"): {"enabled": True}}, "spec.ssh.sssdConfRef.name: must name a Secret when ssh is enabled"),
        ({("spec", "ssh"): {"enabled": True, "sssdConfRef": {"key": "a"}}}, "spec.ssh.sssdConfRef.name: must name"),
        ({("spec", "ssh"): {"extraSshdConfig": "a\\"}}, "spec.ssh.extraSshdConfig: must not end in a backslash"),
        ({("spec", "extraConf"): "Weight"}, 'spec.extraConf: "Weight" is not of the form Key=Value'),
        ({("spec", "extraConf"): "Weight="}, 'spec.extraConf: "Weight=" is not of the form Key=Value'),
        ({("spec", "extraConf"): "Gres=$(id)"}, 'spec.extraConf: must not contain "$", which a shell would act on'),
        ({("spec", "partition"): {"config": "PartitionName=x"}}, "spec.partition.config: must not set PartitionName"),
        ({("spec", "partition"): {"config": "State=UP # x"}}, "spec.partition.config: must not contain '#'"),
        ({("spec", "partition"): {"config": "State"}}, "spec.partition.config: "),
        ({CLAIMS: [{"spec": {}}]}, "spec.volumeClaimTemplates[0].metadata.name: is required"),
        ({CLAIMS: [{"metadata": {"name": "A"}}]}, "spec.volumeClaimTemplates[0].metadata.name: "),
        (
            {CLAIMS: [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]},
            'spec.volumeClaimTemplates[1].metadata.name: "a" is listed twice',
        ),
    ],
    ids=lambda item: item[:70] if isinstance(item, str) else "",
)
def test_a_mistake_is_refused(changes: Changes, expected: str) -> None:
    found = said(check("NodeSet", changes))
    assert len(found) == 1, found
    assert found[0].startswith(expected), found


@pytest.mark.parametrize(
    "changes",
    [
        {HOSTNAME: "gpu-"},
        {HOSTNAME: "gpu", ("metadata", "name"): "a.b"},
        {HOSTNAME: "x" * 62},
        {("spec", "replicas"): 0},
        {("spec", "replicas"): 65533},
        {MOST: 1},
        {MOST: "1%"},
        {MOST: "100%"},
        {WINDOW: {"startTime": START, "duration": "1m"}, ("spec", "updateStrategy", "type"): "ScheduledUpdate"},
        {WINDOW: {"duration": "0s", "flags": ["DAILY"]}},
        {("spec", "ssh"): {"enabled": True, "sssdConfRef": KEY}},
        {("spec", "ssh"): {"enabled": False}},
        {("spec", "extraConf"): "Weight=10 Gres=gpu:a100:4 Features=a,b"},
        {("spec", "partition"): {"enabled": True, "config": "Default=YES MaxTime=1-00:00:00 Nodes=a"}},
        {CLAIMS: [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]},
        {("spec", "scalingMode"): "DaemonSet"},
    ],
    ids=lambda changes: " ".join(str(value) for value in changes.values())[:60],
)
def test_what_is_right_passes(changes: Changes) -> None:
    assert check("NodeSet", changes) == []


def test_a_worker_has_room_for_its_ordinal() -> None:
    assert check("NodeSet", {HOSTNAME: "x" * 61, ("spec", "replicas"): 100}) == []
    assert check("NodeSet", {HOSTNAME: "x" * 61, ("spec", "replicas"): 101}) != []
    assert check("NodeSet", {HOSTNAME: "x" * 61, ("spec", "ordinalPadding"): 3}) != []


def test_claims_never_change() -> None:
    claims: Changes = {CLAIMS: [{"metadata": {"name": "a"}}]}
    assert check("NodeSet", claims, old=claims) == []
    assert said(check("NodeSet", {}, old=claims))[0].startswith("spec.volumeClaimTemplates: must not change")
    assert said(check("NodeSet", claims, old={}))[0].startswith("spec.volumeClaimTemplates: must not change")


def test_all_mistakes_are_told_at_once() -> None:
    found = said(check("NodeSet", {("spec", "extraConf"): "a b=`x`", ("spec", "ssh"): {"enabled": True}, MOST: 0}))
    assert len(found) == 4


# Names of others


def with_neighbour(**changes: Any) -> Refs:
    """A namespace in which there is a NodeSet of the same cluster already."""
    there: Changes = {("metadata", "name"): "older", ("spec", "replicas"): 12}
    there |= {tuple(path.split("__")): value for path, value in changes.items()}
    return replace(namespace(), nodesets=(resource("NodeSet", there),))  # type: ignore[arg-type]  # it is a NodeSet


@pytest.mark.parametrize(
    ("changes", "neighbour", "example"),
    [
        pytest.param({HOSTNAME: "w"}, {"spec__template__spec__hostname": "w"}, "w0", id="the same prefix"),
        pytest.param({HOSTNAME: "older-"}, {}, "older-0", id="the name of another NodeSet"),
        pytest.param({HOSTNAME: "w1"}, {"spec__template__spec__hostname": "w"}, "w10", id="a prefix and a number"),
        pytest.param(
            {HOSTNAME: "w", ("spec", "replicas"): 0},
            {"spec__template__spec__hostname": "w"},
            "w0",
            id="the same prefix, and nobody there yet",
        ),
    ],
)
def test_two_nodesets_of_a_cluster_never_name_their_workers_alike(
    changes: Changes, neighbour: dict[str, Any], example: str
) -> None:
    """T9: refused when it is new, only told when it was so before."""
    refs = with_neighbour(**neighbour)
    (found,) = said(check("NodeSet", changes, refs=refs))
    assert 'the same names as those of NodeSet "older"' in found
    assert f'"{example}"' in found
    assert not found.startswith("warning")
    (told,) = said(check("NodeSet", {**changes, ("spec", "minReadySeconds"): 5}, old=changes, refs=refs))
    assert told.startswith("warning")
    standing = resource("NodeSet", changes)
    assert rules.check(standing, None, refs, standing=True) == []


@pytest.mark.parametrize(
    "neighbour",
    [
        pytest.param({"spec__controllerRef": {"name": "another"}}, id="another cluster"),
        pytest.param({"spec__template__spec__hostname": "w-"}, id="another prefix"),
        pytest.param({"spec__scalingMode": "DaemonSet"}, id="named by Kubernetes nodes"),
        pytest.param({"metadata__deletionTimestamp": START}, id="one that goes"),
    ],
)
def test_names_that_do_not_meet_are_fine(neighbour: dict[str, Any]) -> None:
    """T9: and what shares nothing is not kept out."""
    refs = with_neighbour(**{"spec__template__spec__hostname": "w", **neighbour})
    assert check("NodeSet", {HOSTNAME: "w", ("spec", "replicas"): 1}, refs=refs) == []


def test_nor_do_nodesets_of_two_controllers_that_lead_to_one_slurm() -> None:
    refs = with_neighbour(spec__template__spec__hostname="w", spec__controllerRef={"name": "outside"})
    place = {"host": "slurm-controller.slurm", "port": 6817}
    outside: Any = resource(
        "Controller",
        {("metadata", "name"): "outside", ("spec", "external"): True, ("spec", "externalConfig"): place},
    )
    one_slurm = replace(refs, controllers={**refs.controllers, "outside": outside})
    (found,) = said(check("NodeSet", {HOSTNAME: "w"}, refs=one_slurm))
    assert 'the same names as those of NodeSet "older"' in found


@pytest.mark.parametrize("field", ["subdomain", "setHostnameAsFQDN", "hostnameOverride", "nodeName"])
def test_a_template_that_would_rename_its_workers_is_told_that_it_does_not(field: str) -> None:
    """T5: the field is passed over, so that nobody wonders."""
    value = True if field == "setHostnameAsFQDN" else "elsewhere"
    (found,) = said(check("NodeSet", {("spec", "template", "spec", field): value}))
    assert found.startswith(f"warning: spec.template.spec.{field}: is ignored: the operator sets it")
