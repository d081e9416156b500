"""Real kubectl against the embedded API server: every command that users of the operator type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(180)

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "nginx:1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""
NODE_SET = """
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: workers}
spec:
  controllerRef: {name: slurm}
  replicas: 2
"""


def value(kubectl: Any, what: str, path: str) -> str:
    return str(kubectl("get", what, "-o", f"jsonpath={{{path}}}"))


def test_apply_creates_then_changes_then_leaves_alone(kubectl: Any) -> None:
    assert "deployment.apps/web created" in kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert "deployment.apps/web unchanged" in kubectl("apply", "-f", "-", stdin=MANIFEST)
    changed = MANIFEST.replace("nginx:1", "nginx:2").replace("{color: blue}", "{size: large}")
    assert "configmap/settings configured" in kubectl("apply", "-f", "-", stdin=changed)
    assert json.loads(kubectl("get", "cm", "settings", "-o", "json"))["data"] == {"size": "large"}
    assert value(kubectl, "deploy/web", ".spec.template.spec.containers[0].image") == "nginx:2"


def test_server_side_apply_names_the_other_manager(kubectl: Any) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST)
    kubectl("scale", "deployment/web", "--replicas=5")
    refused = kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST, code=1)
    # The manager is the name of the program file.
    assert 'with subresource "scale" using apps/v1: .spec.replicas' in refused
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=MANIFEST)
    assert value(kubectl, "deploy/web", ".spec.replicas") == "2"


def test_get_prints_tables(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    kubectl("run", "p", "--image=busybox")
    lines = kubectl("get", "pods", "-o", "wide").splitlines()
    assert lines[0].split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:4] == ["p", "0/1", "Pending", "0"]
    everything = kubectl("get", "all")
    assert "deployment.apps/web" in everything
    assert "service/web" in everything
    assert "pod/p" in kubectl("get", "pods", "-o", "name", "-l", "run=p")
    assert "No resources found" in kubectl("get", "secrets")
    assert 'Error from server (NotFound): pods "none" not found' in kubectl("get", "pod", "none", code=1)
    assert "doesn't have a resource type" in kubectl("get", "nonsense", code=1)


def test_describe(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    text = kubectl("describe", "deployment", "web")
    assert "RollingUpdateStrategy:  25% max unavailable, 25% max surge" in text
    assert "color:" in kubectl("describe", "cm", "settings")
    kubectl("run", "p", "--image=busybox")
    assert "Image:" in kubectl("describe", "pod", "p")


def test_edit(kubectl: Any, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nsed -i "s/color: blue/color: green/" "$1"\n')
    script.chmod(0o755)
    assert "configmap/settings edited" in kubectl("edit", "cm", "settings", editor=str(script))
    assert value(kubectl, "cm/settings", ".data.color") == "green"


@pytest.mark.parametrize(
    ("kind", "patch", "path", "found"),
    [
        (
            "strategic",
            '{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"B"}]}]}}}}',
            ".spec.template.spec.containers[0].env[0].value",
            "B",
        ),
        ("merge", '{"spec":{"paused":true}}', ".spec.paused", "true"),
        ("json", '[{"op":"replace","path":"/spec/replicas","value":7}]', ".spec.replicas", "7"),
    ],
)
def test_three_kinds_of_patches(kubectl: Any, kind: str, patch: str, path: str, found: str) -> None:
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert "deployment.apps/web patched" in kubectl("patch", "deployment", "web", f"--type={kind}", "-p", patch)
    assert value(kubectl, "deploy/web", path) == found
    assert value(kubectl, "deploy/web", ".spec.template.spec.containers[0].image") == "nginx:1"


def test_scale_annotate_label(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert "scaled" in kubectl("scale", "deployment", "web", "--replicas=4")
    assert value(kubectl, "deploy/web", ".spec.replicas") == "4"
    assert "annotated" in kubectl("annotate", "deployment", "web", "note=hello")
    assert "labeled" in kubectl("label", "cm", "settings", "tier=back")
    assert "settings" in kubectl("get", "cm", "-l", "tier=back")
    assert "already has a value" in kubectl("label", "cm", "settings", "tier=front", code=1)
    assert "labeled" in kubectl("label", "--overwrite", "cm", "settings", "tier=front")
    assert "unlabeled" in kubectl("label", "cm", "settings", "tier-")


def test_delete_and_wait(kubectl: Any) -> None:
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    kubectl("run", "p", "--image=busybox")
    assert "condition met" in kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/p", "--timeout=10s")
    assert "timed out" in kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=1s", code=1)
    assert 'pod "p" deleted' in kubectl("delete", "pod", "p")
    assert "deleted" in kubectl("delete", "-f", "-", stdin=MANIFEST)
    assert "No resources found" in kubectl("get", "all")


def test_a_namespace_is_deleted_with_what_is_in_it(kubectl: Any, tmp_path: Path) -> None:
    name = f"old-{abs(hash(tmp_path)) % 10**6}"
    kubectl("create", "namespace", name)
    kubectl("-n", name, "create", "configmap", "m", "--from-literal=a=b")
    assert "deleted" in kubectl("delete", "namespace", name, "--timeout=20s")
    assert "NotFound" in kubectl("get", "namespace", name, code=1)


def test_explain_and_api_resources(own_kinds: Any) -> None:
    assert "Number of desired pods" in own_kinds("explain", "deployment.spec.replicas")
    assert "controllerRef" in own_kinds("explain", "nodeset.spec")
    listed = own_kinds("api-resources", "--api-group=slinky.slurm.net")
    assert "NodeSet" in listed
    assert "apps/v1" in own_kinds("api-versions")


def test_auth(kubectl: Any) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip().endswith("yes")
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "system:masters" in kubectl("auth", "whoami")


def test_events(kubectl: Any) -> None:
    kubectl("run", "p", "--image=busybox")
    metadata = json.loads(kubectl("get", "pod", "p", "-o", "json"))["metadata"]
    about = {key: metadata[key] for key in ("name", "namespace", "uid")}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
        "reason": "Started",
        "message": "it runs",
        "type": "Normal",
        "count": 2,
        "lastTimestamp": "2024-01-01T00:00:00Z",
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert "it runs" in kubectl("events")
    assert "pod/p" in kubectl("get", "events", "--field-selector=involvedObject.name=p")
    assert "it runs" in kubectl("describe", "pod", "p")


def test_mistakes_are_told(kubectl: Any) -> None:
    bad = MANIFEST.replace("image:", "imagine:")
    refused = kubectl("apply", "-f", "-", stdin=bad, code=1)
    assert 'unknown field "spec.template.spec.containers[0].imagine"' in refused
    assert "no matches for kind" in kubectl(
        "apply", "-f", "-", stdin="apiVersion: nobody.example.com/v1\nkind: Thing\nmetadata: {name: x}\n", code=1
    )


def test_created_by_command(kubectl: Any) -> None:
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    assert value(kubectl, "secret/s", ".data.a") == "Yg=="
    kubectl("create", "deployment", "d", "--image=nginx", "--replicas=3")
    assert value(kubectl, "deploy/d", ".spec.replicas") == "3"
    kubectl("create", "serviceaccount", "sa")
    assert "configmap/c created (dry run)" in kubectl("create", "cm", "c", "--dry-run=client")
    assert "created (server dry run)" in kubectl("create", "cm", "c", "--from-literal=a=b", "--dry-run=server")
    assert "NotFound" in kubectl("get", "cm", "c", code=1)


def test_our_own_kinds(own_kinds: Any) -> None:
    kubectl = own_kinds
    assert "nodeset.slinky.slurm.net/workers created" in kubectl("apply", "-f", "-", stdin=NODE_SET)
    assert "scaled" in kubectl("scale", "nodeset", "workers", "--replicas=4")
    assert value(kubectl, "nodeset/workers", ".spec.replicas") == "4"
    assert "patched" in kubectl("patch", "nss", "workers", "--type=merge", "-p", '{"spec":{"replicas":3}}')
    refused = kubectl("patch", "nodeset", "workers", "--type=merge", "-p", '{"spec":{"replicas":"x"}}', code=1)
    assert "must be of type integer" in refused
    assert "DESIRED" in kubectl("get", "nodesets")
    assert "Replicas:" in kubectl("describe", "nodeset", "workers")
    assert "deleted" in kubectl("delete", "nodeset", "workers")
