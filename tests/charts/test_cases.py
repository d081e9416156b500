"""What the charts make of values: resources that the checker finds nothing wrong with, equal to hand-written ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from tests.charts.rendering import cases, golden, golden_of

from slurm_operator.cli.check import check
from slurm_operator.cli.render import render
from slurm_operator.cli.world import load
from slurm_operator.rights import GROUP

Json = dict[str, Any]
SLURM = [case for chart, case in cases() if chart == "slurm"]
OPERATOR = [case for chart, case in cases() if chart == "slurm-operator"]


@pytest.mark.parametrize("case", SLURM)
def test_the_checker_finds_nothing_wrong(case: str) -> None:
    world = load((str(golden_of("slurm", case)),))
    assert [str(finding) for finding in [*world.findings, *check(world, None)]] == []


def slurm_conf(case: str) -> list[str]:
    """The lines of slurm.conf that come of a case."""
    (text,) = render(load((str(golden_of("slurm", case)),))).slurm_confs.values()
    return text.splitlines()


PARTITION_LINES = {
    "nodesets-as-nodeSets": [
        "PartitionName=compute Nodes=compute Default=YES",
        "PartitionName=gpu Nodes=gpu MaxTime=1-00:00:00",
        "PartitionName=debug Nodes=compute MaxTime=00:30:00",
    ],
    "two-kinds-of-workers": ["PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=UNLIMITED"],
    "partitions": [
        "PartitionName=gpu Nodes=gpu AllowAccounts=ai,physics MaxTime=1-00:00:00",
        "PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=UNLIMITED",
        "PartitionName=debug Nodes=compute State=UP MaxTime=00:30:00 MaxNodes=2",
        (
            "PartitionName=highprio Nodes=compute,gpu State=DRAIN PriorityTier=100 PreemptMode=OFF Hidden=NO"
            " SelectTypeParameters=CR_Core"
        ),
    ],
}


@pytest.mark.parametrize("case", PARTITION_LINES)
def test_partitions_come_to_the_lines_that_the_values_mean(case: str) -> None:
    assert [line for line in slurm_conf(case) if line.startswith("PartitionName")] == PARTITION_LINES[case]


def one(case: str, kind: str, name: str) -> Json:
    """One object of a case."""
    (found,) = (each for each in golden("slurm", case) if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def test_a_list_with_an_image_beside_slurmd_is_the_same_as_a_map_with_the_image_in_it() -> None:
    slurmd = one("pyxis-as-lists", "NodeSet", "slurm-worker-pyxis")["spec"]["slurmd"]
    assert slurmd["image"] == "ghcr.io/slinkyproject/slurmd-pyxis:26.05-ubuntu26.04"
    assert slurmd["securityContext"] == {"privileged": True}
    assert slurmd["volumeMounts"] == [{"name": "enroot-cache", "mountPath": "/var/cache/enroot"}]


@pytest.mark.parametrize(
    ("nodeset", "image", "policy"),
    [
        (
            "digest",
            "example.org/slurmd@sha256:2d0d5e7a6ffb1aafc9e76d3b8a3b5e1f6d7a2f3c4b5a69788796a5b4c3d2e1f0",
            "Always",
        ),
        ("string", "example.org/slurmd:26.05", "Never"),
        ("tag", "ghcr.io/slinkyproject/slurmd:26.05-rockylinux9", "Always"),
    ],
    ids=["a digest wins over the tag", "a string stands for itself", "a tag alone keeps the repository"],
)
def test_an_image_may_be_written_as(nodeset: str, image: str, policy: str) -> None:
    slurmd = one("images", "NodeSet", f"slurm-worker-{nodeset}")["spec"]["slurmd"]
    assert (slurmd["image"], slurmd["imagePullPolicy"]) == (image, policy)


def test_the_sidecar_runs_the_image_of_slurmctld() -> None:
    spec = one("older-slurm", "Controller", "slurm")["spec"]
    assert spec["reconfigure"]["image"] == spec["slurmctld"]["image"] == "ghcr.io/slinkyproject/slurmctld:25.11"


def test_names_are_those_of_the_go_project() -> None:
    names = {(each["kind"], each["metadata"]["name"]) for each in golden("slurm", "scripts")}
    assert names >= {
        ("Controller", "hpc"),
        ("RestApi", "hpc"),
        ("NodeSet", "hpc-worker-compute"),
        ("Secret", "hpc-auth-slurm"),
        ("Secret", "hpc-auth-jwt"),
        ("ConfigMap", "hpc-prolog-scripts"),
        ("ConfigMap", "hpc-epilog-slurmctld-scripts"),
    }
    assert list(one("scripts", "ConfigMap", "hpc-prolog-scripts")["data"]) == ["prolog-00-exit.sh"]


def test_a_worker_is_named_for_its_node_set() -> None:
    assert one("daemonset", "NodeSet", "slurm-worker-bare")["spec"]["template"]["spec"]["hostname"] == "bare-"


def interfaces(nodeset: str) -> list[tuple[str, str]]:
    """The networks of a node set's pods, as GKE reads them."""
    meta = one("google-a3", "NodeSet", f"slurm-worker-{nodeset}")["spec"]["template"]["metadata"]["annotations"]
    assert meta["networking.gke.io/default-interface"] == "eth0"
    return [(each["interfaceName"], each["network"]) for each in json.loads(meta["networking.gke.io/interfaces"])]


def test_machines_with_eight_gpus_have_a_network_for_each() -> None:
    mega = [("eth0", "default"), *((f"eth{number}", f"vpc{number}") for number in range(1, 9))]
    assert interfaces("mega") == mega
    # GKE has a second interface of its own on these.
    assert interfaces("ultra") == [
        ("eth0", "default"),
        *((f"eth{number + 2}", f"rdma-{number}") for number in range(8)),
    ]


@pytest.mark.parametrize(
    ("nodeset", "pool", "conf", "volumes"),
    [
        (
            "mega",
            "a3-mega-pool",
            "Gres=gpu:nvidia_h100_80gb_hbm3:8",
            ["libraries", "sys", "proc-sys", "aperture-devices"],
        ),
        (
            "ultra",
            "a3-ultra-pool",
            "Weight=10 Gres=gpu:nvidia_h200:8",
            ["scratch", "library-dir-host", "gib", "sys", "proc-sys"],
        ),
    ],
    ids=["A3 Mega", "A3 Ultra"],
)
def test_a_node_set_has_what_its_machines_need(nodeset: str, pool: str, conf: str, volumes: list[str]) -> None:
    spec = one("google-a3", "NodeSet", f"slurm-worker-{nodeset}")["spec"]
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"]["cloud.google.com/gke-nodepool"] == pool
    assert spec["slurmd"]["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert spec["slurmd"]["resources"]["requests"]["nvidia.com/gpu"] == 8
    assert spec["extraConf"] == conf
    assert [each["name"] for each in pod["volumes"]] == volumes
    assert [each["name"] for each in pod.get("containers", ())] == (["tcpxo-daemon"] if nodeset == "mega" else [])


def test_what_the_values_say_of_such_a_node_set_wins() -> None:
    slurmd = one("google-a3", "NodeSet", "slurm-worker-ultra")["spec"]["slurmd"]
    assert {"name": "LD_LIBRARY_PATH", "value": "/opt/lib"} in slurmd["env"]
    assert slurmd["resources"]["limits"]["memory"] == "1800Gi"
    plain = one("google-a3", "NodeSet", "slurm-worker-compute")["spec"]
    assert "resources" not in plain["slurmd"]


def test_gpus_are_found_by_slurm_itself_where_no_file_says_otherwise() -> None:
    config = one("google-a3", "ConfigMap", "slurm-config-a3mega")
    assert config["data"] == {"gres.conf": "AutoDetect=nvidia\n"}
    refs = one("google-a3", "Controller", "slurm")["spec"]["configFileRefs"]
    assert refs == [{"name": "slurm-config-a3mega"}]


def test_a_dash_is_no_storage_class() -> None:
    assert one("scripts", "Controller", "hpc")["spec"]["persistence"]["storageClassName"] == ""
    assert "storageClassName" not in one("defaults", "Controller", "slurm")["spec"]["persistence"]


def test_an_external_daemon_listens_on_its_usual_port_when_none_is_given() -> None:
    assert one("hybrid", "Controller", "slurm")["spec"]["externalConfig"] == {"host": "slurm.example.org", "port": 6817}
    assert not [each for each in golden("slurm", "hybrid") if each["metadata"]["name"].startswith("slurm-auth")]


def test_a_chart_bump_reaches_no_pod_template() -> None:
    for case in SLURM:
        for each in golden("slurm", case):
            template = each.get("spec", {}).get("template", {})
            assert "helm.sh/chart" not in json.dumps(template)


def test_keys_are_kept_when_a_release_goes() -> None:
    for name in ("slurm-auth-slurm", "slurm-auth-jwt"):
        secret = one("defaults", "Secret", name)
        assert secret["immutable"] is True
        assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


# The operator's chart


@pytest.mark.parametrize("case", OPERATOR)
def test_our_own_pods_are_restricted(case: str) -> None:
    for each in golden("slurm-operator", case):
        spec = each["spec"]["template"]["spec"] if each["kind"] == "Deployment" else each.get("spec")
        if each["kind"] not in {"Deployment", "Pod"} or not isinstance(spec, dict):
            continue
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}


def rules(case: str, kind: str) -> list[tuple[str, Json]]:
    """Every rule of a kind of role, with the role's name."""
    roles = [each for each in golden("slurm-operator", case) if each["kind"] == kind]
    return [(each["metadata"]["name"], rule) for each in roles for rule in each["rules"]]


@pytest.mark.parametrize("case", OPERATOR)
def test_no_rule_has_a_wildcard(case: str) -> None:
    for kind in ("Role", "ClusterRole"):
        for name, rule in rules(case, kind):
            assert "*" not in json.dumps(rule), name


def test_with_namespaces_given_nothing_but_nodes_is_seen_in_the_whole_cluster() -> None:
    own = [
        rule
        for name, rule in rules("namespaces", "ClusterRole")
        if name in {"slurm-operator", "slurm-operator-webhook"}
    ]
    assert sorted(resource for rule in own for resource in rule["resources"]) == [
        "nodes",
        "validatingwebhookconfigurations",
    ]
    roles = [each for each in golden("slurm-operator", "namespaces") if each["kind"] == "Role"]
    assert {role["metadata"]["namespace"] for role in roles} == {"slurm-a", "slurm-b", "slinky"}


@pytest.mark.parametrize("case", OPERATOR)
def test_the_admission_server_reads_no_secret_but_its_own(case: str) -> None:
    for kind in ("Role", "ClusterRole"):
        for name, rule in rules(case, kind):
            if "webhook" in name and "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
                assert rule["resourceNames"] == ["slurm-operator-webhook-certificate"]


def test_a_given_certificate_needs_no_right_to_make_one() -> None:
    for case in ("hardened", "cert-manager"):
        for kind in ("Role", "ClusterRole"):
            resources = {each for name, rule in rules(case, kind) if "webhook" in name for each in rule["resources"]}
            assert not resources & {"secrets", "validatingwebhookconfigurations"}


def test_every_kind_is_checked_where_the_admission_server_answers() -> None:
    from slurm_operator.admission.server import path_of
    from slurm_operator.api.kinds import KINDS

    (configuration,) = (
        each for each in golden("slurm-operator", "defaults") if each["kind"] == "ValidatingWebhookConfiguration"
    )
    served = {hook["clientConfig"]["service"]["path"]: hook["rules"] for hook in configuration["webhooks"]}
    assert set(served) == {path_of(kind.name) for kind in KINDS}
    assert {rule["resources"][0] for rules in served.values() for rule in rules} == {kind.plural for kind in KINDS}
    assert {rule["apiGroups"][0] for rules in served.values() for rule in rules} == {GROUP}


@pytest.mark.parametrize("case", OPERATOR)
def test_the_programs_know_every_argument_that_the_chart_gives_them(case: str, tmp_path: Path) -> None:
    import click

    from slurm_operator.cli.main import main

    for each in golden("slurm-operator", case):
        if each["kind"] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            name, *rest = container["args"]
            command = main.commands[name]
            with click.Context(command) as context:
                command.parse_args(context, list(rest))


def test_our_kinds_are_not_aggregated_to_edit_unless_asked() -> None:
    """T8: whoever had `edit` in a namespace could write a NodeSet, and so run a privileged container."""

    def aggregated(case: str, role: str) -> set[str]:
        found = [each for each in golden("slurm-operator", case) if each["kind"] == "ClusterRole"]
        (chosen,) = [each for each in found if each["metadata"]["name"] == f"slurm-operator-{role}"]
        return {label.partition("aggregate-to-")[2] for label in chosen["metadata"]["labels"] if "aggregate" in label}

    assert aggregated("defaults", "edit") == set()
    assert aggregated("defaults", "view") == {"view"}
    assert aggregated("namespaces", "edit") == {"edit", "admin"}
    assert aggregated("only-operator", "view") == set()


NATIVE = {"v1", "apps/v1", "policy/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"}
NATIVE |= {"admissionregistration.k8s.io/v1", "scheduling.k8s.io/v1"}


@pytest.mark.parametrize(("chart", "case"), cases(), ids=["-".join(each) for each in cases()])
def test_objects_of_kubernetes_hold_against_its_schemas(chart: str, case: str) -> None:
    found = [each for each in golden(chart, case) if each["apiVersion"] in NATIVE]
    assert found
    for each in found:
        kubernetes_validate.validate(each, "1.37", strict=True)
