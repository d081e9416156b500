"""Commands that a person copies into a shell: a name that somebody else chose is one word in them, or not in them."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from tests.diagnose.broken import cluster, event, pending, resource, with_node

from slurm_operator.diagnose import leftovers, node, partition, pod, references
from slurm_operator.diagnose import resource as resources
from slurm_operator.diagnose.cause import Cause, Diagnosis, quoted
from slurm_operator.diagnose.facts import Facts, Slurm, SlurmNode, SlurmPartition

# A second command, a substitution, the end of a quotation, a line break, a comment, a file; no space, as in node names.
HOSTILE = ["x;id", "x&&id", "x|id", "$(id)", "`id`", "x'$(id)'", 'x";id;"', "x\nid", "x#y", "x>/tmp/y", "~root", "x*"]
# Prints its words; any other command that the line turns into fails, or prints what is no word.
KUBECTL = 'kubectl() { printf "%s\\0" kubectl "$@"; }'


def words_of(answer: Diagnosis | None) -> list[str]:
    """The words of an answer's command, as a shell reads them."""
    assert isinstance(answer, Cause)
    ran = subprocess.run(
        ["/bin/sh", "-c", f"{KUBECTL}\n{answer.command}"],
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": "/h"},
    )
    words = ran.stdout.removesuffix("\0").split("\0")
    assert words == shlex.split(answer.command)
    return words


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN", "IDLE+INVALID_REG", "IDLE+POWERING_UP"])
def test_a_nodes_name_is_one_word(name: str, state: str) -> None:
    slurm = Slurm(nodes={name: SlurmNode(name, frozenset(state.split("+")), reason="broken")})
    facts = Facts("slurm", {"Controller": {"slurm": resource("Controller", "slurm")}}, {"slurm": slurm})
    words = words_of(node.why(facts, name))
    assert any(each.endswith(name.replace("\n", " ")) for each in words)


@pytest.mark.parametrize("name", HOSTILE)
def test_records_that_are_left_over_are_one_word(name: str) -> None:
    comment = '{"namespace":"slurm","nodeSetUID":"gone"}'
    record = SlurmNode(name, frozenset({"DOWN", "NOT_RESPONDING", "DYNAMIC_NORM"}), comment=comment)
    words_of(leftovers.why(Facts("slurm"), Slurm(nodes={name: record})))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_partitions_name_is_one_word(name: str) -> None:
    slurm = Slurm(partitions={name: SlurmPartition(name, "DOWN")})
    facts = Facts("slurm", {"Controller": {"slurm": resource("Controller", "slurm")}}, {"slurm": slurm})
    words_of(partition.why(facts, name))


@pytest.mark.parametrize("name", [*HOSTILE, "--server=https://elsewhere", "Large"])
def test_a_secret_that_cannot_exist_is_not_to_be_created(name: str) -> None:
    """The API server takes any name for the Secret of a pod's volume, and the kubelet repeats it."""
    told = event(
        "Pod", "compute-0", "FailedMount", f'MountVolume.SetUp failed for volume "v" : secret "{name}" not found'
    )
    cause = pod.why(cluster(pending("compute-0", "", nodeName="n1"), told), "compute-0")
    assert words_of(cause) == ["kubectl", "-n", "slurm", "describe", "pod", "compute-0"]


@pytest.mark.parametrize("name", [*HOSTILE, "--server=https://elsewhere"])
def test_a_reference_that_cannot_be_met_is_to_be_changed(name: str) -> None:
    owner = resource("Controller", "slurm", {"configFileRefs": [{"name": name}]})
    facts = Facts("slurm", {"Controller": {"slurm": owner}, "ConfigMap": {}})
    cause = references.why(facts, "Controller", owner)
    assert words_of(cause) == ["kubectl", "-n", "slurm", "edit", "controller", "slurm"]
    assert cause == resources.why(facts, "Controller", "slurm")


@pytest.mark.parametrize("key", HOSTILE)
def test_the_key_of_a_secret_is_one_word(key: str) -> None:
    owner = resource("LoginSet", "login", {"sssdConfRef": {"name": "sssd", "key": key}})
    words_of(references.why(Facts("slurm", {"LoginSet": {"login": owner}}, secrets={}), "LoginSet", owner))


def test_a_long_list_of_nodes_is_whole() -> None:
    """Half of a list is the list of other nodes."""
    names = ",".join(f"node-{number * 7}" for number in range(200))
    assert shlex.split(quoted(names)) == [names]


def test_a_usual_name_stands_as_it_is() -> None:
    assert words_of(node.why(cluster(slurm=with_node("IDLE+DRAIN", "broken")), "compute-0"))[-2] == "nodename=compute-0"
