"""The pod in which slurmd tries a configuration: what it has of a worker, and what it never has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from tests.build.resources import KEYS, controller, nodeset

from slurm_operator.build import hostnames, labels, pods, worker_trial
from slurm_operator.build.refs import Refs
from slurm_operator.build.worker_trial import ACCEPTED, REFUSED, UNCLEAR, read

GOLDEN = Path(__file__).with_name("worker_trial.yaml")
HASH = "0123456789abcdef" * 4
PART = "fedcba98"
GPU_SPEC: dict[str, Any] = {
    "extraConf": "Gres=gpu:2 Feature=fast",
    "slurmd": {
        "image": "ghcr.io/slinkyproject/slurmd:26.05",
        "resources": {"limits": {"cpu": "500m", "memory": "64Gi", "nvidia.com/gpu": 2}},
        "env": [
            {"name": "UCX_TLS", "value": "rc"},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}},
        ],
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "modules", "mountPath": "/opt/modules"},
            {"name": "plugins", "mountPath": "/opt/plugins", "readOnly": True},
        ],
    },
    "template": {
        "metadata": {"labels": {"team": "physics"}},
        "spec": {
            "nodeSelector": {"kind": "gpu"},
            "hostNetwork": True,
            "priorityClassName": "high",
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "initContainers": [{"name": "setup", "image": "busybox"}],
            "volumes": [
                {"name": "scratch", "hostPath": {"path": "/scratch"}},
                {"name": "modules", "persistentVolumeClaim": {"claimName": "modules"}},
                {"name": "plugins", "configMap": {"name": "plugins"}},
            ],
        },
    },
}


def refs(*nodesets: Any, cgroup: str = "") -> Refs:
    cr = controller(configFileRefs=[{"name": "files"}] if cgroup else [])
    files = {"files": {"cgroup.conf": cgroup}} if cgroup else {}
    return Refs(controllers={"slurm": cr}, nodesets=tuple(nodesets), config_maps=files)


def tried(*nodesets: Any, cgroup: str = "") -> list[dict[str, Any]]:
    world = refs(*nodesets, cgroup=cgroup)
    cr = world.controllers["slurm"]
    return [worker_trial.pod(cr, kind, HASH, PART) for kind in worker_trial.kinds(cr, nodesets, world)]


def test_the_pod_of_a_worker_with_devices_and_volumes_is_what_its_golden_file_says() -> None:
    found = tried(nodeset("gpu", **GPU_SPEC))[0]
    # The program is its own file, and the name changes with it.
    found["spec"]["containers"][0]["command"][-1] = worker_trial.SCRIPT
    key = found["metadata"]["name"].removeprefix("slurm-trial-")
    assert found["spec"]["hostname"] == f"trial-{key}"
    found["metadata"]["name"], found["spec"]["hostname"] = "slurm-trial-KEY", "trial-KEY"
    assert found == yaml.safe_load(GOLDEN.read_text())


def test_no_secret_no_token_no_claim_no_folder_and_no_device_gets_into_a_trial() -> None:
    found = tried(nodeset("gpu", **GPU_SPEC))[0]["spec"]
    container = found["containers"][0]
    assert found["automountServiceAccountToken"] is False
    assert "hostNetwork" not in found
    assert "initContainers" not in found
    sources = {key for volume in found["volumes"] for key in volume if key != "name"}
    assert sources == {"configMap", "emptyDir"}
    assert not any("valueFrom" in entry for entry in container["env"])
    assert "nvidia.com/gpu" not in str(container["resources"])
    assert KEYS["slurmKeyRef"]["name"] not in str(found)


def test_nobody_else_tells_a_privileged_trial_where_to_write() -> None:
    env = [{"name": "TRIAL_MESSAGE", "value": "/dev/sda"}, {"name": "TRIAL_GOOD", "value": "/dev"}]
    found = tried(nodeset("mine", slurmd={"env": env}), cgroup="CgroupPlugin=cgroup/v2")[0]["spec"]["containers"][0]
    values = [(each["name"], each["value"]) for each in found["env"]]
    assert [value for name, value in values if name.startswith("TRIAL_") and value.startswith("/dev")] == []
    assert [name for name, _ in values].count("TRIAL_GOOD") == 1


def test_a_trial_is_nowhere_taken_for_a_worker() -> None:
    found = tried(nodeset())[0]
    assert found["metadata"]["labels"][labels.NAME] != labels.WORKER.daemon
    assert "subdomain" not in found["spec"]
    assert [(owner["kind"], owner["controller"]) for owner in found["metadata"]["ownerReferences"]] == [
        ("Controller", True)
    ]


@pytest.mark.parametrize(
    ("cgroup", "is_privileged"), [("", True), ("CgroupPlugin=disabled\n", False)], ids=["cgroups", "no cgroups"]
)
def test_a_trial_has_the_rights_of_its_worker_and_no_more(cgroup: str, is_privileged: bool) -> None:
    container = tried(nodeset(), cgroup=cgroup)[0]["spec"]["containers"][0]
    assert bool(container.get("securityContext", {}).get("privileged")) is is_privileged


def test_a_restricted_worker_has_a_restricted_trial() -> None:
    security = pods.restricted(1000)
    each = nodeset(slurmd={"securityContext": security}, template={"spec": {"securityContext": {"runAsNonRoot": True}}})
    found = tried(each, cgroup="CgroupPlugin=disabled\n")[0]["spec"]
    assert found["containers"][0]["securityContext"] == security
    assert found["securityContext"] == {"runAsNonRoot": True}


def test_a_trial_takes_no_more_than_its_worker_may() -> None:
    small = nodeset(slurmd={"resources": {"limits": {"cpu": "10m", "memory": "100Mi"}}})
    assert tried(small)[0]["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "10m", "memory": "100Mi"},
        "requests": {"cpu": "10m", "memory": "48Mi"},
    }


KINDS = {
    "workers that differ in name, number and features are one kind": (
        nodeset("a", replicas=0),
        nodeset("b", replicas=9, extraConf="Feature=x"),
        1,
    ),
    "another image is another kind": (
        nodeset("a"),
        nodeset("b", slurmd={"image": "ghcr.io/slinkyproject/slurmd:24.11"}),
        2,
    ),
    "other devices are another kind": (nodeset("a"), nodeset("b", extraConf="Gres=gpu:1"), 2),
    "other nodes are another kind": (nodeset("a"), nodeset("b", template={"spec": {"nodeSelector": {"a": "b"}}}), 2),
    "what cannot be built has no workers": (nodeset("a"), nodeset("b", ssh={"enabled": True}), 1),
    "DaemonSet mode changes where a worker may run": (nodeset("a"), nodeset("b", scalingMode="DaemonSet"), 2),
}


@pytest.mark.parametrize(("one", "other", "count"), KINDS.values(), ids=KINDS)
def test_each_kind_of_worker_is_tried_once(one: Any, other: Any, count: int) -> None:
    found = tried(one, other)
    assert len(found) == count
    assert len({each["metadata"]["name"] for each in found}) == count


def test_a_pod_is_named_for_what_it_tries() -> None:
    cr, kind = controller(), worker_trial.kinds(controller(), [nodeset()], refs(nodeset()))[0]
    one, other = (worker_trial.pod(cr, kind, hash_) for hash_ in (HASH, HASH[1:]))
    assert one["metadata"]["name"] != other["metadata"]["name"]
    volumes = {each["name"]: each.get("configMap", {}).get("name") for each in one["spec"]["volumes"]}
    assert volumes["candidate"] == worker_trial.config_map(cr, {}, HASH)["metadata"]["name"]


MESSAGES = {
    "accepted": ('worker-trial version=1 stage=accepted reason=""\n', (ACCEPTED, "")),
    "refused": ('worker-trial version=1 stage=refused reason="fatal: no"', (REFUSED, "fatal: no")),
    "the last line counts": (
        'worker-trial version=1 stage=accepted reason=""\nworker-trial version=1 stage=refused reason="no"\n',
        (REFUSED, "no"),
    ),
    "control characters do nothing": ('worker-trial version=1 stage=refused reason="a\x1b[2J"', (REFUSED, "a [2J")),
    "nothing": ("", (UNCLEAR, "the trial pod ended without a verdict")),
    "something else": ("boom", (UNCLEAR, "the trial pod ended without a verdict: boom")),
    "a newer version": (
        'worker-trial version=2 stage=accepted reason=""',
        (UNCLEAR, "this operator does not understand the verdict of the trial pod"),
    ),
    "another stage": (
        'worker-trial version=1 stage=fine reason=""',
        (UNCLEAR, "this operator does not understand the verdict of the trial pod"),
    ),
}


@pytest.mark.parametrize(("message", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_what_a_trial_ends_with(message: str, expected: tuple[str, str]) -> None:
    found = read(message)
    assert (found.stage, found.reason) == expected


def test_a_long_reason_is_bounded() -> None:
    found = read(f'worker-trial version=1 stage=refused reason="{"x" * 9000}"')
    assert len(found.reason) == worker_trial.MAX_REASON_CHARACTERS


# Each start takes the next word; a folder of the machine's own is none of its business.
SLURMD = """#!/bin/sh
word="$(head -n 1 "$WORDS")"
sed -i 1d "$WORDS"
case "$word" in
  starts) echo "slurmd: slurmd started on Tue" ;;
  refuses) echo "slurmd: fatal: no plugin" && exit 1 ;;
esac
exec sleep 60
"""
MKDIR = """#!/bin/sh
case "$2" in /var/*) exit 0 ;; esac
exec /bin/mkdir "$@"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("starts", (ACCEPTED, "")),
        ("refuses starts", (REFUSED, "fatal: no plugin")),
        ("hangs starts starts", (ACCEPTED, "")),
        ("hangs starts refuses", (REFUSED, "fatal: no plugin")),
    ],
)
def test_a_slurmd_that_was_only_slow_at_first_refuses_nothing(
    tmp_path: Path, words: str, expected: tuple[str, str]
) -> None:
    """A pod that refuses is not made anew: what it says must not hang on how busy its node was."""
    for name, program in {"slurmd": SLURMD, "mkdir": MKDIR}.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    files, order = tmp_path / "files", tmp_path / "words"
    files.mkdir()
    (files / "slurm.conf").write_text("ClusterName=a\n")
    order.write_text("\n".join(words.split()) + "\n")
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "WORDS": str(order),
        "TRIAL_CANDIDATE": str(files),
        "TRIAL_GOOD": str(files),
        "TRIAL_MESSAGE": str(tmp_path / "message"),
        "TRIAL_READY_LIMIT": "4",
    }
    subprocess.run(["sh", "-c", pods.script(worker_trial.SCRIPT)], env=environment, check=True, capture_output=True)
    line = read((tmp_path / "message").read_text())
    assert (line.stage, line.reason[: len(expected[1])]) == expected


def tried_as(gres: str, *nodesets: Any) -> list[tuple[tuple[str, ...], str]]:
    """The NodeSets of each trial, and the node that its slurmd is started as."""
    world = refs(*nodesets)
    found = worker_trial.kinds(world.controllers["slurm"], nodesets, world, {"gres.conf": gres})
    names = ({entry["name"]: entry["value"] for entry in kind.spec["containers"][0]["env"]} for kind in found)
    return [(kind.nodesets, env.get("TRIAL_NODE_NAME", "")) for kind, env in zip(found, names, strict=True)]


def test_a_record_for_some_nodes_is_tried_as_one_of_them() -> None:
    record = "NodeName=compute-[5-9] Name=gpu File=/dev/nvidia0\n"
    assert tried_as(record, nodeset("compute"), nodeset("debug"), nodeset("other")) == [
        (("compute",), "compute-5"),
        (("debug", "other"), ""),
    ]


def test_each_record_for_other_nodes_has_a_trial_of_its_own() -> None:
    records = "NodeName=compute-[0-1] Name=gpu File=/dev/a\nNodeName=x-0,compute-7 Name=gpu File=/dev/b\n"
    assert tried_as(records, nodeset("compute")) == [(("compute",), "compute-0"), (("compute",), "compute-7")]


@pytest.mark.parametrize(
    "record", ["Name=gpu File=/dev/a", "NodeName=compute-[1 Name=gpu", "NodeName=compute-x Name=a"]
)
def test_a_record_for_no_node_of_ours_is_tried_without_a_name(record: str) -> None:
    assert tried_as(record, nodeset("compute"), nodeset("debug")) == [(("compute", "debug"), "")]


def test_one_node_of_each_nodeset_is_tried_before_another_of_the_same() -> None:
    records = "".join(f"NodeName=a-{number} Name=gpu File=/dev/a\n" for number in range(20))
    other = nodeset("b", slurmd={"image": "example.org/slurmd:1"})
    found = tried_as(records, nodeset("a"), other)
    assert found[:3] == [(("a",), "a-0"), (("b",), ""), (("a",), "a-1")]
    # Enough to say that not all are tried, and no more.
    assert len(found) == worker_trial.MAX_KINDS + 2


NAMED = {
    "a prefix of its own": ({"template": {"spec": {"hostname": "bare"}}}, "NodeName=bare[7-9]", "bare7"),
    "a prefix that ends in a digit": ({"template": {"spec": {"hostname": "bare1"}}}, "NodeName=bare[0-200]", "bare10"),
    "padded numbers": ({"ordinalPadding": 3}, "NodeName=a-[1-5],a-[001-005]", "a-001"),
    "numbers that are not padded": ({}, "NodeName=a-[01-12]", "a-10"),
    "the first of a range in the middle": ({}, "NodeName=x[0-9],a-[3-4]", "a-3"),
    "the name of another": ({}, "NodeName=aa-0,a-0x,a", ""),
    "a worker named after its Kubernetes node": ({"scalingMode": "DaemonSet"}, "NodeName=a-0", ""),
}


@pytest.mark.parametrize(("spec", "record", "node"), NAMED.values(), ids=NAMED)
def test_a_record_is_for_a_nodeset_whose_worker_it_names(spec: dict[str, Any], record: str, node: str) -> None:
    assert tried_as(f"{record} Name=gpu\n", nodeset("a", **spec)) == [(("a",), node)]


def test_a_name_in_a_record_is_looked_at_once_however_many_nodesets_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    may_have = Mock(return_value=False)
    monkeypatch.setattr(hostnames, "may_have", may_have)
    tried_as("NodeName=bare[0-9999] Name=gpu\n", *(nodeset(f"bare{number}") for number in range(20)))
    assert may_have.call_count == 0


FILLS = [{"name": "plugins", "image": "a", "volumeMounts": [{"name": "plugins", "mountPath": "/to"}]}]
MOUNTED: dict[str, Any] = {"volumeMounts": [{"name": "plugins", "mountPath": "/opt/plugins/"}]}
EMPTY: dict[str, Any] = {"volumes": [{"name": "plugins", "emptyDir": {}}]}
FILE = {"name": "plugins", "hostPath": {"path": "/opt/task_site.so", "type": "File"}}
SECRET = {"secretKeyRef": {"name": "database", "key": "password"}}
SSH = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
LEFT_OUT: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "nothing of a plain worker": ({}, ()),
    "nothing of one with ssh": ({"ssh": SSH}, ()),
    "no folder that starts empty": ({"slurmd": MOUNTED, "template": {"spec": EMPTY}}, ()),
    "a folder that an init container fills": (
        {"slurmd": MOUNTED, "template": {"spec": {**EMPTY, "initContainers": FILLS}}},
        ("/opt/plugins",),
    ),
    "a folder that another container fills": (
        {"slurmd": MOUNTED, "template": {"spec": {**EMPTY, "containers": FILLS}}},
        ("/opt/plugins",),
    ),
    "a file of the node": ({"slurmd": MOUNTED, "template": {"spec": {"volumes": [FILE]}}}, ("/opt/plugins",)),
    "a variable from a Secret": ({"slurmd": {"env": [{"name": "A", "valueFrom": SECRET}]}}, ("$A",)),
    "no variable that is written out": ({"slurmd": {"env": [{"name": "A", "value": "b"}]}}, ()),
    "all variables of a ConfigMap or a Secret": (
        {"slurmd": {"envFrom": [{"configMapRef": {"name": "x"}}, {"secretRef": {"name": "y"}}]}},
        ("the variables of ConfigMap x", "the variables of Secret y"),
    ),
    "programs of the user's": (
        {"slurmd": {"command": ["/start"], "lifecycle": {"postStart": {"exec": {"command": ["/more"]}}}}},
        ("the command of slurmd's container", "the postStart hook of slurmd's container"),
    ),
}


@pytest.mark.parametrize(("spec", "expected"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_trial_pod_is_known_to_lack(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    each = nodeset("a", **spec)
    (found,) = worker_trial.kinds(controller(), [each], refs(each))
    assert found.left_out == expected
