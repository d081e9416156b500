"""From decoded JSON to a typed resource, or to everything that is wrong with it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.kinds import BY_NAME
from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import format_path
from slurm_operator.api.token import Token
from slurm_operator.api.validate import decode, decode_part, without_nulls

KEY = {"name": "keys", "key": "key"}


def raw(kind: str, spec: object = None, **metadata: Any) -> dict[str, Any]:
    """A custom resource as decoded JSON."""
    result = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": "one", "namespace": "slurm", **metadata},
    }
    return result if spec is None else {**result, "spec": spec}


def problems(value: dict[str, Any]) -> list[str]:
    """What is wrong, as text."""
    return [f"{format_path(problem.path)}: {problem.message}" for problem in decode(value).problems]


# The NodeSet of the frequently asked questions, with the namespace in its reference as older manifests write it.
FAQ = """
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata:
  name: compute
  namespace: slurm
spec:
  controllerRef:
    name: slinky
    namespace: slurm
  replicas: 3
  slurmd:
    image: ghcr.io/slinkyproject/slurmd:25.05-rockylinux9
  partition:
    enabled: true
"""

STORAGE = """
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata:
  name: gpu-nodeset
spec:
  controllerRef:
    name: slurm
  replicas: 4
  slurmd:
    resources:
      limits:
        nvidia.com/gpu: 8
    volumeMounts:
      - name: local-scratch
        mountPath: /scratch
  volumeClaimTemplates:
    - metadata:
        name: local-scratch
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: local-nvme
        resources:
          requests:
            storage: 1Ti
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: Delete
    whenScaled: Retain
  template:
    spec:
      nodeSelector:
        accelerator: nvidia
"""


@pytest.mark.parametrize("text", [FAQ, STORAGE], ids=["frequently asked questions", "local scratch"])
def test_a_manifest_that_people_have_written_is_read(text: str) -> None:
    decoded = decode(yaml.safe_load(text))
    assert decoded.problems == ()
    assert isinstance(decoded.resource, NodeSet)
    assert decoded.resource.spec.replicas in (3, 4)


def test_defaults_are_filled_in() -> None:
    decoded = decode(raw("NodeSet", {"controllerRef": {"name": "slurm"}}))
    assert isinstance(decoded.resource, NodeSet)
    spec = decoded.resource.spec
    assert (spec.replicas, spec.scaling_mode, spec.update_strategy.type) == (1, "StatefulSet", "RollingUpdate")
    assert spec.update_strategy.rolling_update.max_unavailable == "25%"
    assert (spec.workload_disruption_protection, spec.prune_slurm_node_records) == (True, "Never")
    policy = spec.persistent_volume_claim_retention_policy
    assert (policy.when_deleted, policy.when_scaled) == ("Retain", "Retain")


def test_a_controller_needs_no_spec_to_be_read() -> None:
    decoded = decode(raw("Controller"))
    assert isinstance(decoded.resource, Controller)
    assert decoded.resource.cluster_name == "slurm_one"
    assert decoded.resource.replicas == 1
    assert decoded.resource.jwt_key_ref is None
    assert decoded.resource.spec.persistence.enabled is True


@pytest.mark.parametrize("kind", [Controller, Accounting, Token], ids=lambda kind: kind.__name__)
def test_the_newer_name_of_the_jwt_key_wins(kind: type[Any]) -> None:
    old, new = {"name": "old", "key": "k"}, {"name": "new", "key": "k"}
    user = {"username": "alice"} if kind is Token else {}
    only_old = decode(raw(kind.__name__, {"jwtHs256KeyRef": old, **user})).resource
    both = decode(raw(kind.__name__, {"jwtHs256KeyRef": old, "jwtKeyRef": new, **user})).resource
    assert isinstance(only_old, kind)
    assert isinstance(both, kind)
    assert (only_old.jwt_key_ref.name, both.jwt_key_ref.name) == ("old", "new")


def test_high_availability_counts_its_backups() -> None:
    decoded = decode(raw("Controller", {"ha": {"enabled": True, "backups": 2}}))
    assert isinstance(decoded.resource, Controller)
    assert decoded.resource.replicas == 3


@pytest.mark.parametrize(
    ("hostname", "name"), [("gpu-", "gpu"), ("gpu", "gpu"), ("", "one"), (None, "one"), ("--", "one")]
)
def test_slurm_knows_workers_by_their_host_name_prefix(hostname: str | None, name: str) -> None:
    spec = {"controllerRef": {"name": "slurm"}, "template": {"spec": {"hostname": hostname}}}
    decoded = decode(raw("NodeSet", spec))
    assert isinstance(decoded.resource, NodeSet)
    assert decoded.resource.slurm_name == name


def test_a_partition_is_named_after_its_object_or_as_it_says() -> None:
    plain = decode(raw("Partition", {"controllerRef": {"name": "a"}})).resource
    named = decode(raw("Partition", {"controllerRef": {"name": "a"}, "partitionName": "Debug_1"})).resource
    assert isinstance(plain, Partition)
    assert isinstance(named, Partition)
    assert (plain.slurm_name, named.slurm_name) == ("one", "Debug_1")


@pytest.mark.parametrize("mode", ["DaemonSet", "StatefulSet"])
def test_the_scaling_mode_tells_daemons(mode: str) -> None:
    resource = decode(raw("NodeSet", {"controllerRef": {"name": "a"}, "scalingMode": mode})).resource
    assert isinstance(resource, NodeSet)
    assert resource.is_daemon is (mode == "DaemonSet")


def test_explicit_nulls_are_as_good_as_absent() -> None:
    spec = {
        "controllerRef": {"name": "slurm", "namespace": None},
        "replicas": None,
        "extraConf": None,
        "volumeClaimTemplates": None,
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": None}, "scheduledUpdate": None},
        "template": {"metadata": {"labels": None}, "spec": {"nodeSelector": None}},
        "partition": {"enabled": None},
    }
    decoded = decode(raw("NodeSet", spec, labels=None, annotations=None))
    assert decoded.problems == ()
    assert isinstance(decoded.resource, NodeSet)
    assert decoded.resource.spec.replicas == 1
    # Within a pod spec a null is the user's: it deletes what the operator would set.
    assert decoded.resource.spec.template.spec == {"nodeSelector": None}


def test_nulls_go_from_lists_of_objects_too() -> None:
    schema = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    assert without_nulls([{"a": None}, {"a": "b"}], schema) == [{}, {"a": "b"}]


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("NodeSet", None, "spec: is required"),
        ("NodeSet", {}, "spec.controllerRef: is required"),
        ("NodeSet", {"controllerRef": {}, "replica": 1}, 'spec.replica: unknown field; did you mean "replicas"?'),
        ("NodeSet", {"controllerRef": {"nmae": "a"}}, 'spec.controllerRef.nmae: unknown field; did you mean "name"?'),
        ("NodeSet", {"controllerRef": {}, "replicas": "3"}, 'spec.replicas: must be an integer, not "3"'),
        ("NodeSet", {"controllerRef": {}, "replicas": -1}, "spec.replicas: -1 is too small; the minimum is 0"),
        ("NodeSet", {"controllerRef": {}, "replicas": 2**31}, "spec.replicas: 2147483648 does not fit into int32"),
        ("NodeSet", {"controllerRef": "slurm"}, 'spec.controllerRef: must be a mapping, not "slurm"'),
        ("NodeSet", [], "spec: must be a mapping, not []"),
        ("NodeSet", {"controllerRef": {}, "partition": {"config": "a\nb"}}, "spec.partition.config: "),
        ("NodeSet", {"controllerRef": {}, "partition": {"config": "a\n"}}, "spec.partition.config: "),
        ("NodeSet", {"controllerRef": {}, "scalingMode": "Daemonset"}, 'did you mean "DaemonSet"?'),
        (
            "NodeSet",
            {"controllerRef": {}, "updateStrategy": {"rollingUpdate": {"maxUnavailable": True}}},
            "spec.updateStrategy.rollingUpdate.maxUnavailable: must be an integer or a string, not True",
        ),
        ("Controller", {"slurmKeyRef": {"name": "a"}}, "spec.slurmKeyRef.key: is required"),
        ("Controller", {"externalConfig": {"host": "a"}}, "spec.externalConfig.port: is required"),
        ("Controller", {"externalConfig": {"host": "a", "port": 70000}}, "spec.externalConfig.port: 70000 is too"),
        ("Controller", {"ha": {"backups": 0}}, "spec.ha.backups: 0 is too small; the minimum is 1"),
        ("Controller", {"metrics": {"serviceMonitor": {"interval": "5"}}}, "spec.metrics.serviceMonitor.interval: "),
        ("Controller", {"slurmctld": {"imagePullPolicy": "always"}}, 'did you mean "Always"?'),
        ("Controller", {"slurmctld": {"enviroment": []}}, "spec.slurmctld.enviroment: unknown field"),
        ("Controller", {"template": {"spec": {"tolerations": {}}}}, "spec.template.spec.tolerations: must be a list"),
        ("LoginSet", {"controllerRef": {}}, "spec.sssdConfRef: is required"),
        ("LoginSet", {"controllerRef": {}, "sssdConfRef": KEY, "login": {"env": [{}]}}, "spec.login.env[0].name: is"),
        ("Token", {}, "spec.username: is required"),
        ("Accounting", {"storageConfig": {"host": "a"}}, "spec.storageConfig.passwordKeyRef: is required"),
        ("Partition", {"controllerRef": {}, "nodeSets": ["a", "a"]}, 'spec.nodeSets[1]: is listed twice: "a"'),
        ("Partition", {"controllerRef": {}, "maxTime": "1 day"}, "spec.maxTime: "),
        ("Partition", {"controllerRef": {}, "maxNodes": "many"}, "spec.maxNodes: "),
        ("Partition", {"controllerRef": {}, "state": "up"}, 'did you mean "UP"?'),
        ("Partition", {"controllerRef": {}, "partitionName": "a b"}, "spec.partitionName: "),
        ("Partition", {"controllerRef": {}, "allowAccounts": ["a b"]}, "spec.allowAccounts[0]: "),
        ("Partition", {"controllerRef": {}, "qos": "a\n"}, "spec.qos: "),
    ],
)
def test_a_mistake_is_named_by_its_path(kind: str, spec: object, expected: str) -> None:
    found = problems(raw(kind, spec))
    assert any(expected in line for line in found), found
    assert decode(raw(kind, spec)).resource is None


def test_all_mistakes_are_told_at_once() -> None:
    found = problems(raw("NodeSet", {"replicas": "x", "slurmd": {"image": 1}, "unknown": 1}, labels={"a": 1}))
    assert [line.partition(":")[0] for line in found] == [
        "spec.controllerRef",
        "spec.replicas",
        "spec.unknown",
        "spec.slurmd.image",
        "metadata.labels.a",
    ]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": 5}, "metadata.name: must be a string, not 5"),
        ({"namespace": ["a"]}, "metadata.namespace: must be a string, not ['a']"),
        ({"labels": ["a"]}, "metadata.labels: must be a mapping of strings"),
        ({"labels": {"a": True}}, "metadata.labels.a: must be a string, not True; put it in quotes"),
        ({"annotations": {"a": None}}, "metadata.annotations.a: must be a string, not None; put it in quotes"),
        ({"finalizers": "x"}, "metadata.finalizers: Expected `array`, got `str`"),
        ({"ownerReferences": [{"uid": 4}]}, "metadata.ownerReferences[0].uid: Expected `str`, got `int`"),
    ],
    ids=lambda item: "" if isinstance(item, str) else str(item),
)
def test_metadata_is_checked_as_far_as_it_is_used(metadata: dict[str, Any], expected: str) -> None:
    assert problems(raw("Controller", {}, **metadata)) == [expected]


@pytest.mark.parametrize("status", [None, {}, {"selector": "a=b", "unknown": 1}], ids=repr)
def test_a_status_that_people_wrote_does_not_matter(status: object) -> None:
    assert problems({**raw("NodeSet", {"controllerRef": {"name": "slurm"}}), "status": status}) == []


def test_a_status_of_the_wrong_type_is_refused() -> None:
    value = {**raw("NodeSet", {"controllerRef": {"name": "slurm"}}), "status": {"replicas": "3"}}
    assert problems(value) == ["status.replicas: Expected `int`, got `str`"]


@pytest.mark.parametrize("metadata", [[], "a", 5])
def test_metadata_must_be_a_mapping(metadata: object) -> None:
    value = {"apiVersion": API_VERSION, "kind": "Controller", "metadata": metadata}
    assert [line.partition(",")[0] for line in problems(value)] == ["metadata: must be a mapping"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, "kind: is required"),
        ({"kind": "Nodeset"}, 'kind: unknown kind "Nodeset"; did you mean "NodeSet"?'),
        ({"kind": ["NodeSet"]}, "kind: unknown kind"),
        ({"kind": "NodeSet"}, "apiVersion: is required; write slinky.slurm.net/v1beta1"),
        ({"kind": "NodeSet", "apiVersion": "slinky.slurm.net/v1alpha1"}, 'unknown version "slinky.slurm.net/v1alpha1"'),
    ],
    ids=["nothing", "misspelt kind", "kind is a list", "no version", "old version"],
)
def test_a_kind_or_version_that_is_not_ours_is_said_so(value: dict[str, Any], expected: str) -> None:
    (found,) = problems(value)
    assert expected in found


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"extraConf": "a\ud800"}, "spec.extraConf"),
        ({"slurmctld": {"args": ["a", "\udfff"]}}, "spec.slurmctld.args[1]"),
        ({"template": {"metadata": {"labels": {"\ud800": "a"}}}}, 'spec.template.metadata.labels["\\ud800"]'),
    ],
    ids=["value", "list", "key"],
)
def test_half_a_character_is_refused_where_it_stands(spec: dict[str, Any], path: str) -> None:
    (found,) = problems(raw("Controller", spec))
    assert found.startswith(f"{path}: ")
    assert found.endswith("is not valid Unicode text")


@pytest.mark.parametrize("kind", list(BY_NAME))
def test_a_resource_written_and_read_again_is_the_same(kind: str) -> None:
    specs: dict[str, dict[str, Any]] = {
        "Controller": {"slurmKeyRef": KEY, "jwtKeyRef": KEY, "persistence": {"resources": {"requests": {"a": 1}}}},
        "NodeSet": {"controllerRef": {"name": "a"}, "replicas": 0, "slurmd": {"image": "a"}},
        "LoginSet": {"controllerRef": {"name": "a"}, "sssdConfRef": KEY, "strategy": {"type": "Recreate"}},
        "RestApi": {"controllerRef": {"name": "a"}},
        "Accounting": {"storageConfig": {"host": "db", "passwordKeyRef": KEY}},
        "Token": {"username": "alice", "refresh": False},
        "Partition": {"controllerRef": {"name": "a"}, "nodeSets": ["a"], "lln": True, "maxMemPerCPU": 5},
    }
    first = decode(raw(kind, specs[kind])).resource
    assert first is not None
    assert decode(msgspec.to_builtins(first)).resource == first


def test_the_readable_part_of_a_resource_leaves_out_what_is_wrong() -> None:
    spec = {"controllerRef": {"name": "slurm"}, "replicas": "many", "slurmd": {"imag": "x", "image": "y"}, "extra": 1}
    part, left_out = decode_part(raw("NodeSet", spec))
    assert isinstance(part, NodeSet)
    assert (part.spec.replicas, part.spec.slurmd) == (1, {"image": "y"})
    assert {format_path(path) for path in left_out} >= {"spec.replicas", "spec.slurmd.imag", "spec.extra"}


def test_an_item_that_is_wrong_takes_its_list_along() -> None:
    part, _ = decode_part(raw("Partition", {"controllerRef": {"name": "slurm"}, "nodeSets": ["a", 5, "b"]}))
    assert isinstance(part, Partition)
    assert not part.spec.node_sets


@pytest.mark.parametrize(
    "value",
    [
        raw("NodeSet", {"replicas": 1}),
        raw("NodeSet", 5),
        raw("Sheep", {}),
        {**raw("NodeSet", {"controllerRef": {"name": "slurm"}}), "metadata": {"name": 5}},
    ],
    ids=["required", "no mapping", "no kind of ours", "no name"],
)
def test_a_resource_of_which_nothing_is_left_has_no_readable_part(value: dict[str, Any]) -> None:
    assert decode_part(value)[0] is None


def test_a_field_to_do_without_is_left_out_though_it_is_right() -> None:
    spec = {"slurmKeyRef": KEY, "jwtKeyRef": KEY, "clusterName": "fine", "extraConf": "KillWait=1"}
    part, left_out = decode_part(raw("Controller", spec), [("spec", "clusterName")])
    assert isinstance(part, Controller)
    assert (part.spec.cluster_name, part.spec.extra_conf, left_out) == (None, "KillWait=1", (("spec", "clusterName"),))
