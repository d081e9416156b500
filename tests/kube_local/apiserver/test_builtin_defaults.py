"""Defaults of the built-in kinds: what a client reads back that it did not write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_local.apiserver.builtin_defaults import builtin_defaults, tag_of

Object = dict[str, Any]


def filled(kind: str, **fields: Any) -> Object:
    return builtin_defaults(kind, {"kind": kind, **fields})


def pod_spec(**spec: Any) -> Object:
    result: Object = filled("Pod", spec=spec)["spec"]
    return result


def container(**fields: Any) -> Object:
    result: Object = pod_spec(containers=[{"name": "c", **fields}])["containers"][0]
    return result


IMAGES = [
    ("no tag means latest", "busybox", "latest", "Always"),
    ("latest by name", "busybox:latest", "latest", "Always"),
    ("a tag", "busybox:1", "1", "IfNotPresent"),
    ("a registry with a port and no tag", "registry:5000/busybox", "latest", "Always"),
    ("a registry with a port and a tag", "registry:5000/busybox:2", "2", "IfNotPresent"),
    ("a digest", "busybox@sha256:00", "", "IfNotPresent"),
    ("a tag and a digest", "busybox:1@sha256:00", "1", "IfNotPresent"),
]


@pytest.mark.parametrize(("image", "tag", "policy"), [c[1:] for c in IMAGES], ids=[c[0] for c in IMAGES])
def test_the_pull_policy_follows_the_tag(image: str, tag: str, policy: str) -> None:
    assert tag_of(image) == tag
    assert container(image=image)["imagePullPolicy"] == policy


def test_a_pod_gets_its_policies() -> None:
    spec = pod_spec()
    assert spec == {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
    }


def test_what_the_client_chose_is_kept() -> None:
    spec = pod_spec(restartPolicy="Never", terminationGracePeriodSeconds=0, enableServiceLinks=False)
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 0)
    assert spec["enableServiceLinks"] is False


def test_the_old_name_of_the_service_account_follows_the_new_one() -> None:
    assert pod_spec(serviceAccountName="a")["serviceAccount"] == "a"
    assert pod_spec(serviceAccount="b")["serviceAccountName"] == "b"


def test_a_container_gets_its_paths_ports_and_probe_numbers() -> None:
    made = container(
        image="x:1",
        ports=[{"containerPort": 80}],
        env=[{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        livenessProbe={"httpGet": {"port": 80}},
        readinessProbe={"tcpSocket": {"port": 1}, "periodSeconds": 3},
        lifecycle={"preStop": {"httpGet": {"port": 80}}},
    )
    assert made["terminationMessagePath"] == "/dev/termination-log"
    assert made["terminationMessagePolicy"] == "File"
    assert made["resources"] == {}
    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert made["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    numbers = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    assert made["livenessProbe"] == {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, **numbers}
    assert made["readinessProbe"] == {"tcpSocket": {"port": 1}, **numbers, "periodSeconds": 3}
    assert made["lifecycle"]["preStop"]["httpGet"]["scheme"] == "HTTP"


def test_limits_become_requests_in_pods_but_not_in_templates() -> None:
    limited = {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}
    assert pod_spec(containers=[limited])["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    template = filled("Deployment", spec={"template": {"spec": {"containers": [limited]}}})["spec"]["template"]
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert "enableServiceLinks" not in template["spec"]


def test_host_network_opens_the_ports_on_the_host() -> None:
    spec = pod_spec(hostNetwork=True, containers=[{"name": "c", "ports": [{"containerPort": 80}]}])
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]


VOLUMES: list[tuple[str, Object, Object]] = [
    ("a volume without a source is an empty folder", {}, {"emptyDir": {}}),
    ("a secret", {"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
    (
        "a mode of one's own",
        {"configMap": {"name": "c", "defaultMode": 256}},
        {"configMap": {"name": "c", "defaultMode": 256}},
    ),
    ("a path of the host", {"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
    (
        "a projected token",
        {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {
            "projected": {
                "defaultMode": 420,
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
            }
        },
    ),
]


@pytest.mark.parametrize(("given_volume", "expected"), [c[1:] for c in VOLUMES], ids=[c[0] for c in VOLUMES])
def test_volumes(given_volume: Object, expected: Object) -> None:
    assert pod_spec(volumes=[{"name": "v", **given_volume}])["volumes"] == [{"name": "v", **expected}]


def test_a_stateful_set() -> None:
    spec = filled("StatefulSet", spec={"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}]})["spec"]
    assert spec == {
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "volumeClaimTemplates": [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "v"},
                "spec": {"volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            }
        ],
    }


def test_a_deployment() -> None:
    spec = filled("Deployment", spec={"replicas": 0})["spec"]
    assert spec["replicas"] == 0
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)


SERVICES: list[tuple[str, Object, Object]] = [
    (
        "a cluster service",
        {"ports": [{"port": 80}]},
        {
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
            "internalTrafficPolicy": "Cluster",
        },
    ),
    (
        "a named target port is kept",
        {"ports": [{"port": 80, "targetPort": "http"}], "type": "NodePort"},
        {
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}],
            "sessionAffinity": "None",
            "type": "NodePort",
            "externalTrafficPolicy": "Cluster",
            "internalTrafficPolicy": "Cluster",
        },
    ),
]


@pytest.mark.parametrize(("spec", "expected"), [c[1:] for c in SERVICES], ids=[c[0] for c in SERVICES])
def test_services(spec: Object, expected: Object) -> None:
    assert filled("Service", spec=spec)["spec"] == expected


def test_the_plain_text_of_a_secret_is_encoded_and_wins() -> None:
    secret = filled("Secret", data={"a": "b2xk", "b": "Yg=="}, stringData={"a": "new"})
    assert secret == {"kind": "Secret", "type": "Opaque", "data": {"a": "bmV3", "b": "Yg=="}}


def test_a_namespace_is_labelled_with_its_name() -> None:
    namespace = filled("Namespace", metadata={"name": "n"})
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}


def test_a_crd_gets_its_names() -> None:
    spec = filled("CustomResourceDefinition", spec={"names": {"kind": "NodeSet", "plural": "nodesets"}})["spec"]
    assert spec["names"] == {"kind": "NodeSet", "plural": "nodesets", "singular": "nodeset", "listKind": "NodeSetList"}
    assert spec["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize("kind", ["ConfigMap", "PodDisruptionBudget", "Lease", "ServiceAccount"])
def test_kinds_without_defaults_are_left_alone(kind: str) -> None:
    assert filled(kind, spec={"x": 1}) == {"kind": kind, "spec": {"x": 1}}


_names = st.sampled_from(["spec", "template", "containers", "ports", "volumes", "strategy", "type", "names", "kind"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | _names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=10,
)
_KINDS = st.sampled_from(
    [
        *("Pod", "Deployment", "StatefulSet", "Service", "Secret", "Namespace", "Node"),
        *("PersistentVolumeClaim", "CustomResourceDefinition", "ValidatingWebhookConfiguration", "NetworkPolicy"),
    ]
)


@settings(deadline=None)
@given(kind=_KINDS, value=st.dictionaries(_names, _json, max_size=4))
def test_a_misshapen_object_is_defaulted_without_a_crash_and_only_once(kind: str, value: Object) -> None:
    once = builtin_defaults(kind, value)
    assert builtin_defaults(kind, once) == once
