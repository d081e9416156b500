"""`kubectl slurm partition` and `drift` on a real API server: which resource is changed, and what is refused.

No operator and no Slurm run here, so nothing is confirmed: that is `tests/real/local/test_partitions.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.local.threaded_server import Served

from slurm_operator.api.crd import definitions
from slurm_operator.cli.kubectl.main import main
from slurm_operator.cli.kubectl.partitions import adopted, drift_data, drift_text, unknown_hosts
from slurm_operator.diagnose.drift import ChangedBack, Drifted
from slurm_operator.diagnose.partition_owner import Owner

API = "/apis/slinky.slurm.net/v1beta1/namespaces/hpc"
REF = {"controllerRef": {"name": "slurm"}}
EXTERNAL = {"controllerRef": {"name": "elsewhere"}}
KEYS = {"slurmKeyRef": {"name": "keys", "key": "slurm.key"}, "jwtKeyRef": {"name": "keys", "key": "jwt.key"}}
OUTSIDE = {"external": True, "externalConfig": {"host": "slurm.example.org", "port": 6817}}
OBJECTS: list[tuple[str, str, dict[str, Any]]] = [
    ("Controller", "slurm", {**KEYS, "extraConf": "PartitionName=legacy Nodes=ALL\n"}),
    ("Controller", "elsewhere", {**KEYS, **OUTSIDE}),
    ("NodeSet", "compute", {**REF, "partition": {"enabled": True, "config": "Default=YES MaxTime=60"}}),
    ("NodeSet", "bare", REF),
    ("NodeSet", "far", {**EXTERNAL, "partition": {"enabled": True}}),
    ("Partition", "short", {**REF, "nodeSets": ["compute"], "config": "QOS=a"}),
]
Ask = Callable[..., Result]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as server:
        for each in definitions():
            server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        server.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hpc"}})
        for kind, name, spec in OBJECTS:
            place = {"name": name, "namespace": "hpc"}
            made = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": place, "spec": spec}
            server.create(f"{API}/{kind.lower()}s", made)
        yield server


@pytest.fixture
def ask(served: Served, tmp_path: Path) -> Ask:
    path = tmp_path / "kubeconfig"
    path.write_text(served.server.kubeconfig())

    def invoke(*arguments: str) -> Result:
        result = CliRunner().invoke(main, ["--kubeconfig", str(path), "-n", "hpc", *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    return invoke


def spec(served: Served, kind: str, name: str) -> dict[str, Any]:
    row = served.server.store.get(f"{kind}.slinky.slurm.net", "hpc", name)
    assert row is not None
    found: dict[str, Any] = row.load()["spec"]
    return found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add-nodes", "compute", "n1"], "belongs to NodeSet compute: it has exactly the nodes of the NodeSet"),
        (["add-nodes", "compute", "n1"], "create a Partition with nodeSets: [compute] and nodes: '+n1'"),
        (["remove-nodes", "compute", "n1"], "to keep jobs off a node altogether: kubectl slurm -n hpc drain NODE"),
        (["drain", "legacy"], "is a line in extraConf of Controller slurm: set State=DRAIN there"),
        (["drain", "legacy"], "kubectl -n hpc edit controller slurm"),
        (["drain", "bare"], "NodeSet bare has no partition; to create one: kubectl -n hpc patch nodeset bare"),
        (["drain", "far"], "Controller elsewhere is external: the operator does not change its partitions"),
        (["drain", "computer"], "there is no partition 'computer' in namespace hpc; did you mean \"compute\"?"),
        (["set", "compute", "MaxTiem=5"], "no option 'MaxTiem'; did you mean MaxTime?"),
        (["remove-nodes", "short", "nosuch-9"], "nosuch-9 may not exist, and Slurm cannot be asked"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_said_with_what_can(ask: Ask, arguments: list[str], said: str) -> None:
    result = ask("partition", *arguments)
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split()), result.output
    assert "scontrol" not in result.output


@pytest.mark.parametrize(
    ("arguments", "kind", "name", "expected"),
    [
        pytest.param(
            ["drain", "compute"],
            "nodesets",
            "compute",
            {"partition": {"enabled": True, "config": "Default=YES MaxTime=60 State=DRAIN"}},
            id="drain a NodeSet's partition",
        ),
        pytest.param(
            ["set", "compute", "maxtime=30", "State=UP"],
            "nodesets",
            "compute",
            {"partition": {"enabled": True, "config": "Default=YES MaxTime=30 State=UP"}},
            id="set options of a NodeSet's partition",
        ),
        pytest.param(["down", "short"], "partitions", "short", {"state": "DOWN", "config": "QOS=a"}, id="a Partition"),
        pytest.param(
            ["set", "short", "QOS=", "PriorityTier=3"],
            "partitions",
            "short",
            {"priorityTier": 3, "state": "DOWN"},
            id="set options of a Partition",
        ),
    ],
)
def test_the_resource_is_changed(
    ask: Ask, served: Served, arguments: list[str], kind: str, name: str, expected: dict[str, Any]
) -> None:
    result = ask("partition", *arguments, "--timeout", "0.3")
    assert result.exit_code == 1
    assert "Slurm has not confirmed it after" in result.output
    found = spec(served, kind, name)
    assert {key: found.get(key) for key in expected} == expected
    assert name != "short" or "QOS=" not in arguments or "config" not in found


@pytest.mark.parametrize(
    ("reason", "arguments"),
    [
        ("RefusedBySlurm", ["set", "refused", "QOS=nosuch", "MaxTime=5"]),
        ("LinterRefused", ["set", "refused", "TRESBillingWeights=cpu=2"]),
    ],
)
def test_a_change_that_is_refused_is_taken_back(ask: Ask, served: Served, reason: str, arguments: list[str]) -> None:
    before = {**REF, "nodeSets": ["compute"], "maxTime": "60", "tresBillingWeights": {"cpu": "1"}}
    path = f"{API}/partitions"
    name = f"{arguments[1]}-{reason.lower()}"
    made = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Partition",
        "metadata": {"name": name, "namespace": "hpc"},
        "spec": before,
    }
    served.create(path, made)
    kept = spec(served, "partitions", name)
    # What the operator will say of the next generation as well.
    row = {"type": "Applied", "status": "False", "reason": reason, "message": "Slurm answered: never"}
    row["lastTransitionTime"] = "2026-11-17T12:00:00Z"
    served.patch(f"{path}/{name}/status", {"status": {"observedGeneration": 99, "conditions": [row]}})
    result = ask("partition", arguments[0], name, *arguments[2:], "--timeout", "5")
    assert result.exit_code == 1
    assert f"Slurm answered: never; Partition {name} is as it was before" in " ".join(result.output.split())
    assert spec(served, "partitions", name) == kept


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        pytest.param("compute-[0-1]", "", id="all are there"),
        pytest.param("compute-[0-9]", 'there is no node compute-[2-9]; did you mean "compute-', id="some are not"),
        pytest.param("nosuch-9", "there is no node nosuch-9", id="none is"),
    ],
)
def test_a_host_that_does_not_exist_is_refused(hosts: str, said: str) -> None:
    """U6: "in effect after 0.12 s", and exit code 0."""
    found = unknown_hosts(hosts, frozenset({"compute-0", "compute-1"}))
    assert found.startswith(said) if said else found == ""


NODESET = Owner("NodeSet", {"metadata": {"name": "compute"}}, "compute", "slurm")
NOW = [Drifted(NODESET, "State", "UP", "DRAIN", "being changed back")]
BACK = [ChangedBack("nodeset/compute", "2030-01-01T00:00:00.123456Z", 2, "partition compute: changed back")]


def test_drift_is_told_with_who_when_and_what() -> None:
    assert drift_text([], []) == "nothing has been changed by hand\n"
    text = drift_text(NOW, BACK)
    assert "compute     nodeset/compute   State   UP       DRAIN   -       being changed back" in text
    assert "changed by somebody with scontrol or REST: slurmctld does not record who" in text
    assert "2030-01-01T00:00:00Z   nodeset/compute   2       partition compute: changed back" in text


def test_drift_for_machines_has_the_same() -> None:
    first, second = json.loads(json.dumps(drift_data(NOW, BACK)))
    assert (first["object"], first["field"], first["wanted"], first["found"]) == (
        "nodeset/compute",
        "State",
        "UP",
        "DRAIN",
    )
    assert (second["state"], second["times"], second["last"]) == ("changed back", 2, "2030-01-01T00:00:00.123456Z")


def test_what_was_adopted_is_told() -> None:
    assert adopted({"State": "DRAIN", "MaxTime": ""}) == "no MaxTime, State=DRAIN"
