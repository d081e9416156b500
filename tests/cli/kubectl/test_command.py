"""What `kubectl slurm` says when it is asked wrongly, or cannot ask: a sentence with what to do, never a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.local.threaded_server import Served

from slurm_operator.api.crd import definitions
from slurm_operator.cli.invocation import LOCAL_UP
from slurm_operator.cli.kubectl import command
from slurm_operator.cli.kubectl.main import main

Ask = Callable[..., Result]

KUBECONFIG = """\
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: abc}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
NODESET = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "NodeSet",
    "metadata": {"name": "workers", "namespace": "lone"},
    "spec": {"controllerRef": {"name": "slurm"}, "replicas": 2},
}


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run a command with the kubeconfig of this text."""
    monkeypatch.setattr(command, "SECOND_LOOK_SECONDS", 0.0)

    def invoke(kubeconfig: str, *arguments: str) -> Result:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig)
        result = CliRunner().invoke(main, ["--kubeconfig", str(path), *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    return invoke


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    """A cluster without the operator's definitions."""
    with Served() as server:
        yield server.server.kubeconfig()


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A cluster with a NodeSet whose Controller is missing."""
    with Served() as server:
        for each in definitions():
            server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        server.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lone"}})
        server.create("/apis/slinky.slurm.net/v1beta1/namespaces/lone/nodesets", NODESET)
        yield server.server.kubeconfig()


@pytest.mark.parametrize(
    ("kubeconfig", "said"),
    [
        ("not: [yaml", r"kubeconfig:1: not YAML"),
        ("text", r"kubeconfig: not a kubeconfig: "),
        ("", r"no current-context in .*: name one with --context; there is none"),
        (KUBECONFIG.replace("current-context: x", ""), r"name one with --context; there is x"),
        (KUBECONFIG, r"cannot connect to 127\.0\.0\.1:1: Connection refused; kubectl cluster-info says"),
        (KUBECONFIG.replace("https", "ftp"), r"server 'ftp://127\.0\.0\.1:1' is not an http\(s\) address"),
        (KUBECONFIG.replace("token: abc", "tokenFile: none"), r"cannot read .*none: No such file"),
    ],
    ids=["no YAML", "no kubeconfig", "empty", "no context", "nobody listens", "no HTTP", "no token file"],
)
def test_a_server_that_cannot_be_asked_is_one_sentence(ask: Ask, kubeconfig: str, said: str) -> None:
    result = ask(kubeconfig, "status")
    assert result.exit_code == 1
    assert re.search(said, result.output), result.output
    assert result.output.count("\n") == 1


def test_a_local_cluster_that_is_stopped_can_be_started(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCAL_UP, "slurm-operator local up --name=mine")
    said = ask(KUBECONFIG, "status").output
    assert "start the cluster, if it is not running, with slurm-operator local up --name=mine" in said
    assert "cluster-info" not in said


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--kubeconfig", str(tmp_path / "none"), "status"])
    assert "none does not exist; name one with --kubeconfig or KUBECONFIG" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["why", "gadget/x"], "'gadget/x' is not KIND/NAME with a kind of node, pod, job"),
        (["why", "node/"], "'node/' is not KIND/NAME"),
        (["logs", "token/x"], "write KIND/NAME, with a kind of controller, nodeset"),
        (["adopt", "nodeset/x"], "give either --release NAME or --give-back"),
        (["partition", "drian", "p"], "No such command 'drian'"),
        (["partition", "add-nodes", "p", "a[0-"], "host list 'a[0-', column 2: '[' is never closed"),
        (["plan", "-f", "/none.yaml"], "/none.yaml: no such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_asked_wrongly_is_said_before_anybody_is_asked(ask: Ask, arguments: list[str], said: str) -> None:
    result = ask(KUBECONFIG, *arguments)
    assert result.exit_code in (1, 2)
    assert said in result.output
    assert "connect" not in result.output


@pytest.mark.parametrize(
    "arguments", [["status"], ["why", "x"], ["adopt", "nodeset/x", "--release", "r"]], ids=" ".join
)
def test_a_cluster_without_the_operator_is_told_to_install_it(ask: Ask, bare: str, arguments: list[str]) -> None:
    result = ask(bare, *arguments)
    assert (result.exit_code, result.output) == (1, f"Error: {command.NO_KINDS}\n")


def test_refused_credentials_are_told_to_log_in(ask: Ask, bare: str) -> None:
    lines = ["    token: expired" if "token:" in line else line for line in bare.splitlines()]
    result = ask("\n".join(lines), "status")
    assert result.exit_code == 1
    assert "401 Unauthorized; log in again" in result.output


def test_a_certificate_that_nobody_vouches_for_is_named(ask: Ask, bare: str) -> None:
    lines = [line for line in bare.splitlines() if "certificate-authority-data" not in line]
    result = ask("\n".join(lines), "status")
    assert result.exit_code == 1
    assert "is not trusted: unable to get local issuer certificate" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status"], "there is no Slurm cluster in namespace default"),
        (["-n", "lone", "config", "show"], "there is no Controller in namespace lone"),
        (["-n", "lone", "why", "job/7"], "there is no Controller in namespace lone, so there is no Slurm to ask"),
        (["-n", "lone", "why", "partition/p"], "there is no Controller in namespace lone"),
        (["-n", "lone", "why", "nodeset/nope"], "there is no NodeSet 'nope' in namespace lone"),
        (["-n", "lone", "partition", "drain", "p"], "there is no partition 'p' in namespace lone"),
        (["-n", "lone", "partition", "add-nodes", "p", "a1"], "kubectl slurm -n lone partition list shows all"),
        (["-n", "lone", "drain", "workers-0"], "there is no worker 'workers-0' in namespace lone"),
        (["-n", "lone", "undrain", "workers-0"], "there is no worker 'workers-0' in namespace lone"),
        (["-n", "lone", "uncordon", "workers-0"], "there is no Kubernetes node 'workers-0'; kubectl get nodes"),
        (["-n", "lone", "cordon", "workers-0"], "there is no Kubernetes node 'workers-0'; kubectl get nodes"),
        (["-n", "lone", "shell"], "no login pod and no slurmctld pod runs in namespace lone"),
        (["-n", "lone", "token", "root"], "no slurmctld pod runs in namespace lone"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_not_there_is_named(ask: Ask, cluster: str, arguments: list[str], said: str) -> None:
    result = ask(cluster, *arguments)
    assert result.exit_code == 1
    assert said in result.output, result.output


def test_the_only_namespace_with_a_cluster_is_named(ask: Ask) -> None:
    spec = {"slurmKeyRef": {"name": "k", "key": "k"}, "jwtKeyRef": {"name": "k", "key": "k"}}
    controller = {**NODESET, "kind": "Controller", "metadata": {"name": "slurm", "namespace": "lone"}, "spec": spec}
    with Served() as server:
        for each in definitions():
            server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        server.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lone"}})
        server.create("/apis/slinky.slurm.net/v1beta1/namespaces/lone/controllers", controller)
        output = ask(server.server.kubeconfig(), "status").output
    said = "there is no Slurm cluster in namespace default; namespace lone has one: use kubectl slurm -n lone"
    assert output == f"Error: {said}\n"
