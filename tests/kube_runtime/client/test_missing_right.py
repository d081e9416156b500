"""A refusal of the API server, in words that can be pasted into a shell."""

from __future__ import annotations

import msgspec
import pytest

from kube_runtime.client import errors, missing_right
from kube_runtime.client.errors import Forbidden
from kube_runtime.client.missing_right import MissingRight

USER = "system:serviceaccount:slinky:slurm-operator"
# As kube-apiserver 1.36 writes them.
SAID = {
    "an apply": (
        (
            f'statefulsets.apps "slurm-controller" is forbidden: User "{USER}" cannot patch resource "statefulsets" in '
            'API group "apps" in the namespace "slurm"'
        ),
        f"kubectl auth can-i patch statefulsets.apps -n slurm --as={USER}",
    ),
    "a list everywhere": (
        f'secrets is forbidden: User "{USER}" cannot list resource "secrets" in API group "" at the cluster scope',
        f"kubectl auth can-i list secrets --as={USER}",
    ),
    "a part of an object": (
        f'pods "a" is forbidden: User "{USER}" cannot get resource "pods/log" in API group "" in the namespace "slurm"',
        f"kubectl auth can-i get pods --subresource=log -n slurm --as={USER}",
    ),
    "the one Lease": (
        (
            f'leases.coordination.k8s.io "slurm-operator" is forbidden: User "{USER}" cannot update resource "leases" '
            'in API group "coordination.k8s.io" in the namespace "slinky"'
        ),
        f"kubectl auth can-i update leases.coordination.k8s.io/slurm-operator -n slinky --as={USER}",
    ),
    "a role that is bound and not there": (
        (
            f'nodes is forbidden: User "{USER}" cannot watch resource "nodes" in API group "" at the cluster scope: '
            'RBAC: clusterrole.rbac.authorization.k8s.io "slurm-operator" not found'
        ),
        f"kubectl auth can-i watch nodes --as={USER}",
    ),
}


@pytest.mark.parametrize(("message", "command"), SAID.values(), ids=list(SAID))
def test_a_refusal_names_the_command_that_asks_for_the_right(message: str, command: str) -> None:
    right = missing_right.read(message)
    assert right is not None
    assert right.can_i == command


@pytest.mark.parametrize(
    "message",
    [
        'pods "a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=10, limited: pods=10',
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged',
        "",
    ],
    ids=["a quota", "pod security", "nothing"],
)
def test_other_refusals_are_about_no_right(message: str) -> None:
    assert missing_right.read(message) is None


def test_who_blocks_the_deletion_of_an_owner_needs_a_right_on_its_finalizers() -> None:
    owner = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "a", "blockOwnerDeletion": True}
    body = msgspec.json.encode({"metadata": {"namespace": "slurm", "ownerReferences": [owner]}})
    message = (
        'pods "a-0" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can\'t '
        "set finalizers on: , <nil>"
    )
    right = missing_right.read(message, body)
    assert right is not None
    assert right.can_i == "kubectl auth can-i update nodesets.slinky.slurm.net --subresource=finalizers -n slurm"
    assert missing_right.read(message, b"not JSON") is None


def test_the_error_begins_with_the_command_and_keeps_the_right() -> None:
    message, command = SAID["an apply"]
    body = msgspec.json.encode({"kind": "Status", "status": "Failure", "code": 403, "message": message})
    error = errors.from_status(403, body, "apply statefulsets slurm/slurm-controller")
    assert isinstance(error, Forbidden)
    assert str(error) == f'"{command}" says no (apply statefulsets slurm/slurm-controller)'
    assert error.right is not None
    assert error.right.kind == ("apps", "statefulsets", "", "patch")


@pytest.mark.parametrize(
    ("method", "path", "watch", "wanted"),
    [
        ("GET", "/api/v1/pods", False, MissingRight("", "pods", "list")),
        ("GET", "/api/v1/namespaces/a/pods", True, MissingRight("", "pods", "watch", namespace="a")),
        ("GET", "/api/v1/namespaces/a", False, MissingRight("", "namespaces", "get")),
        ("GET", "/api/v1/namespaces/a/pods/b/log", False, MissingRight("", "pods", "get", "log", "a")),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b",
            False,
            MissingRight("apps", "deployments", "patch", "", "a"),
        ),
        ("POST", "/apis/policy/v1/namespaces/a/x", False, MissingRight("policy", "x", "create", "", "a")),
    ],
    ids=["a list", "a watch", "a namespace", "a log", "a patch", "a create"],
)
def test_a_request_takes_a_right(method: str, path: str, watch: bool, wanted: MissingRight) -> None:
    assert missing_right.of_path(method, path, watch=watch) == wanted
