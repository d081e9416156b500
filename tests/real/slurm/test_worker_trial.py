"""The trial by slurmd with a real slurmd: what it refuses, what it lets pass, and that nobody else notices.

The script runs as in its pod: with its own /run, /tmp and spool folder and its own host name, as root. The network is
that of a running cluster on purpose: whatever a trial would send to slurmctld would arrive there.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from tests.real.slurm import rootfs
from tests.real.slurm.cluster import SLURM_CONF, Cluster, require_namespaces
from tests.real.slurm.test_worker_configs import BASE as OPEN_BASE
from tests.real.slurm.test_worker_configs import PROCTRACK, VERSIONS, corpus

from slurm_operator.build import pods, worker_trial
from slurm_operator.build.worker_trial import ACCEPTED, REFUSED, UNCLEAR, TrialLine

pytestmark = [pytest.mark.real_slurm, pytest.mark.timeout(300)]

CGROUP = "CgroupPlugin=disabled\n"
BASE = SLURM_CONF.replace("/%n", "").replace("-%n", "")
FILES = {"slurm.conf": BASE, "cgroup.conf": CGROUP}
ALONE = """
for folder in /run /tmp /var/spool/slurmd; do mount -t tmpfs tmpfs "$folder"; done
hostname trial-0
exec sh /trial.sh
"""


@dataclass
class Place:
    """Where trials are made: beside a running cluster."""

    cluster: Cluster

    def write(self, folder: str, files: Mapping[str, str]) -> None:
        self.cluster.run("rm", "-rf", folder)
        self.cluster.run("mkdir", "-p", folder)
        for name, text in files.items():
            command = [*self.cluster.enter(), "/bin/sh", "-c", f"cat > {shlex.quote(f'{folder}/{name}')}"]
            subprocess.run(command, input=text.encode(), check=True, timeout=10)

    def tried(self, files: Mapping[str, str], *, good: Mapping[str, str] = FILES, **environment: str) -> TrialLine:
        """What the trial of these files ends with."""
        self.write("/cfg-candidate", files)
        self.write("/cfg-good", good)
        self.write("/cfg-script", {"trial.sh": pods.script(worker_trial.SCRIPT)})
        values = {
            "TRIAL_CANDIDATE": "/cfg-candidate",
            "TRIAL_GOOD": "/cfg-good",
            "TRIAL_MESSAGE": "/cfg-script/message",
            **environment,
        }
        self.cluster.run("cp", "/cfg-script/trial.sh", "/trial.sh")
        set_to = [f"{name}={value}" for name, value in values.items()]
        self.cluster.run(
            "env", *set_to, "unshare", "-m", "-u", "--propagation", "private", "bash", "-c", ALONE, timeout=60
        )
        return worker_trial.read(self.cluster.run("cat", "/cfg-script/message"))


@pytest.fixture(scope="module", params=sorted(rootfs.SUITES))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A cluster of its own for each version."""
    try:
        root = rootfs.provide(request.param)
        require_namespaces()
    except rootfs.CannotProvision as missing:
        pytest.skip(f"no real Slurm {request.param}: {missing}")
    cluster = Cluster(request.param, root)
    try:
        cluster.start()
        yield Place(cluster)
    finally:
        cluster.stop()


def with_line(line: str, **files: str) -> dict[str, str]:
    """The base with one more line, and other files."""
    return {**FILES, "slurm.conf": f"{BASE}{line}\n", **{name.replace("__", "."): text for name, text in files.items()}}


BAD: dict[str, tuple[dict[str, str], str]] = {
    "a task plugin that needs cgroups without them": (with_line("TaskPlugin=task/cgroup"), "cgroup"),
    "a task plugin that the image lacks": (with_line("TaskPlugin=task/nosuch"), "task/nosuch"),
    "tracking by cgroups without them": (with_line("ProctrackType=proctrack/cgroup"), "cgroup"),
    "tracking that the image lacks": (with_line("ProctrackType=proctrack/nosuch"), "proctrack/nosuch"),
    "a cgroup plugin that does not exist": (with_line("", cgroup__conf="CgroupPlugin=cgroup/v9\n"), "cgroup"),
    "a key that cgroup.conf does not know": (with_line("", cgroup__conf=f"{CGROUP}Nonsense=1\n"), "Nonsense"),
    "a device that is not there": (
        with_line("GresTypes=gpu", gres__conf="Name=gpu File=/dev/nosuch0\n"),
        "/dev/nosuch0",
    ),
    "a key that gres.conf does not know": (with_line("GresTypes=gpu", gres__conf="Name=gpu Nonsense=1\n"), "Nonsense"),
    "a job container without its file": (with_line("JobContainerType=job_container/tmpfs"), "job_container"),
    "accounting of jobs that the image lacks": (with_line("JobAcctGatherType=jobacct_gather/nosuch"), "nosuch"),
}
GOOD: dict[str, dict[str, str]] = {
    "the same": FILES,
    "binding of processors": with_line("TaskPlugin=task/affinity"),
    "tracking by process groups": with_line("ProctrackType=proctrack/pgid"),
    "accounting of jobs": with_line("JobAcctGatherType=jobacct_gather/linux"),
    "a device that is there": with_line("GresTypes=gpu", gres__conf="Name=gpu File=/dev/null\n"),
    "a feature of slurmd": with_line("SlurmdParameters=config_overrides"),
    "a health check that would end it": with_line("HealthCheckProgram=/bin/false\nHealthCheckInterval=10"),
    "limits": with_line("PropagateResourceLimits=NONE\nUnkillableStepTimeout=200"),
}


@pytest.mark.parametrize(("files", "word"), BAD.values(), ids=BAD)
def test_slurmd_refuses(place: Place, files: dict[str, str], word: str) -> None:
    found = place.tried(files)
    assert found.stage == REFUSED, found
    assert word in found.reason


@pytest.mark.parametrize("files", GOOD.values(), ids=GOOD)
def test_slurmd_lets_pass(place: Place, files: dict[str, str]) -> None:
    assert place.tried(files) == TrialLine(ACCEPTED)


def names(kind: str, **fields: str) -> list[str]:
    """The cases of the corpus that have these fields, of any version."""
    cases = {name: case for version in VERSIONS for name, case in corpus(kind, version).items()}
    return [name for name, case in cases.items() if fields.items() <= case.items()]


def of_corpus(place: Place, kind: str, name: str) -> TrialLine:
    """What the trial of a case of the corpus ends with."""
    case = corpus(kind, place.cluster.version).get(name)
    if case is None:
        pytest.skip("not in this version")
    text = OPEN_BASE.replace("/%n", "").replace("-%n", "") + case.get("extra", PROCTRACK)
    files = {"cgroup.conf": CGROUP, "slurm.conf": text, **case.get("files", {})}
    node = {"TRIAL_NODE_CONF": case["node"]} if case.get("node") else {}
    return place.tried(files, **node)


@pytest.mark.parametrize("name", names("bad", by="trial"))
def test_slurmd_refuses_what_no_rule_sees(place: Place, name: str) -> None:
    assert of_corpus(place, "bad", name).stage == REFUSED


@pytest.mark.parametrize("name", names("good"))
def test_slurmd_lets_pass_every_good_one(place: Place, name: str) -> None:
    assert of_corpus(place, "good", name) == TrialLine(ACCEPTED)


def test_the_fatal_line_comes_first(place: Place) -> None:
    found = place.tried(BAD["a task plugin that needs cgroups without them"][0])
    assert found.reason.startswith("fatal: ")
    assert "more than once" not in found.reason


def test_devices_that_kubernetes_hands_out_are_taken_as_given(place: Place) -> None:
    files = with_line("GresTypes=gpu", gres__conf="AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-3]\n")
    given = place.tried(files, TRIAL_DEVICES="given", TRIAL_NODE_CONF="Gres=gpu:4")
    assert given == TrialLine(ACCEPTED)


def test_a_record_for_some_nodes_is_judged_as_by_one_of_them(place: Place) -> None:
    files = with_line("GresTypes=gpu", gres__conf="NodeName=compute-[0-9] Name=gpu File=/dev/nvidia0\n")
    assert place.tried(files, TRIAL_DEVICES="here", TRIAL_READY_LIMIT="3").stage == ACCEPTED
    found = place.tried(files, TRIAL_DEVICES="here", TRIAL_READY_LIMIT="3", TRIAL_NODE_NAME="compute-7")
    assert (found.stage, "/dev/nvidia0" in found.reason) == (REFUSED, True)
    assert place.tried(files, TRIAL_DEVICES="given", TRIAL_NODE_NAME="compute-7").stage == ACCEPTED


def test_where_no_slurmd_starts_nothing_is_refused(place: Place) -> None:
    broken = BAD["a task plugin that the image lacks"][0]
    found = place.tried(BAD["tracking that the image lacks"][0], good=broken)
    assert found.stage == UNCLEAR
    assert "task/nosuch" in found.reason


def test_a_mistake_of_a_nodeset_refuses_no_configuration(place: Place) -> None:
    found = place.tried(GOOD["limits"], TRIAL_NODE_CONF="Nonsense=1")
    assert found.stage == UNCLEAR


def test_a_running_cluster_does_not_notice(place: Place) -> None:
    cluster = place.cluster
    nodes, log = (
        cluster.run("sinfo", "-h", "-N", "-o", "%N %t"),
        len(cluster.run("cat", "/var/log/slurm/slurmctld.log")),
    )
    job = cluster.run("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", "--wrap", "sleep 600").strip()
    cluster.wait_job(int(job))
    assert place.tried(GOOD["limits"]).stage == ACCEPTED
    assert place.tried(BAD["tracking that the image lacks"][0]).stage == REFUSED
    assert "JobState=RUNNING" in cluster.run("scontrol", "-o", "show", "job", job)
    cluster.run("scancel", job)
    cluster.quiet()
    assert cluster.run("sinfo", "-h", "-N", "-o", "%N %t") == nodes
    assert "trial-0" not in cluster.run("cat", "/var/log/slurm/slurmctld.log")[log:]
