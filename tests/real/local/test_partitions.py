"""Partitions in a local cluster, end to end: kubectl on one side, Slurm's own answer on the other."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.real.local.e2e.cluster import REST, CannotRun, LocalCluster

pytestmark = pytest.mark.real_slurm

SECRETS = """
apiVersion: v1
kind: Namespace
metadata: {name: slurm}
---
apiVersion: v1
kind: Secret
metadata: {name: slurm-auth-slurm, namespace: slurm}
stringData: {slurm.key: change-me-change-me-change-me-change-me-change-me-change-me-change-me}
---
apiVersion: v1
kind: Secret
metadata: {name: slurm-auth-jwt, namespace: slurm}
stringData: {jwt.key: change-me-change-me-change-me-change-me}
"""
MANIFEST = f"""{SECRETS}---
apiVersion: v1
kind: ConfigMap
metadata: {{name: slurm-files, namespace: slurm}}
data:
  cgroup.conf: |
    CgroupPlugin=disabled
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {{name: slurm, namespace: slurm}}
spec:
  slurmKeyRef: {{name: slurm-auth-slurm, key: slurm.key}}
  jwtKeyRef: {{name: slurm-auth-jwt, key: jwt.key}}
  configFileRefs: [{{name: slurm-files}}]
  extraConf: |
    ProctrackType=proctrack/linuxproc
    TaskPlugin=task/none
    SelectTypeParameters=CR_Core
    MinJobAge=20
  slurmctld: {{image: "ghcr.io/slinkyproject/slurmctld:VERSION"}}
  persistence: {{enabled: true, accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: RestApi
metadata: {{name: slurm, namespace: slurm}}
spec:
  controllerRef: {{name: slurm}}
  slurmrestd: {{image: "ghcr.io/slinkyproject/slurmrestd:VERSION"}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {{name: compute, namespace: slurm}}
spec:
  controllerRef: {{name: slurm}}
  replicas: 2
  oversubscribeNode: true
  slurmd: {{image: "ghcr.io/slinkyproject/slurmd:VERSION"}}
  partition: {{enabled: true, config: Default=YES}}
"""


@pytest.fixture(scope="module", params=sorted(REST))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A small cluster of each version."""
    folder: Path = tmp_path_factory.mktemp("partitions")
    made = LocalCluster(folder / "cluster", request.param)
    made.name = f"parts-{made.version.replace('.', '-')}"
    try:
        made.prepare()
    except CannotRun as error:
        pytest.skip(f"no local cluster: {error}")
    manifest = folder / "manifest.yaml"
    manifest.write_text(MANIFEST)
    try:
        made.up(manifest)
        yield made
    finally:
        print(made.last_words())
        made.reset()


def partition(cluster: LocalCluster, name: str = "short") -> dict[str, str]:
    """Slurm's own word on a partition."""
    said = cluster.admin(f"scontrol -o show partition {name} 2>/dev/null || true")
    return dict(word.partition("=")[::2] for word in said.split()) if said.startswith("PartitionName=") else {}


def slurm_conf(cluster: LocalCluster) -> str:
    return str(cluster.get("configmap", "slurm-config")["data"]["slurm.conf"])


def apply(cluster: LocalCluster, name: str, **spec: object) -> None:
    value = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Partition",
        "metadata": {"name": name, "namespace": "slurm"},
        "spec": {"controllerRef": {"name": "slurm"}, "nodeSets": ["compute"], **spec},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(value))


def reason(cluster: LocalCluster, which: str, name: str = "short") -> str:
    found = cluster.get("partition", name).get("status", {}).get("conditions", [])
    return next((one["reason"] for one in found if one["type"] == which), "")


def message(cluster: LocalCluster, kind: str, name: str, which: str = "Ready") -> str:
    found = cluster.get(kind, name).get("status", {}).get("conditions", [])
    return next((str(one["message"]) for one in found if one["type"] == which), "")


def running_and_waiting(cluster: LocalCluster, name: str, seconds: int) -> tuple[str, str]:
    """Two jobs, of which the second waits for the first."""
    alone = (
        f"sbatch --parsable -p {name} -w {hosts(cluster, name)[0]} --exclusive -o /dev/null --wrap 'sleep {seconds}'"
    )
    running = cluster.admin(alone)
    cluster.until("the job runs", lambda: "R" in cluster.admin(f"squeue -h -j {running} -o %t"))
    return running, cluster.admin(alone)


def hosts(cluster: LocalCluster, name: str) -> list[str]:
    return cluster.admin(f"sinfo -h -N -p {name} -o %N").split()


def expect_completed(cluster: LocalCluster, *jobs: str) -> None:
    for job in jobs:
        cluster.until("the job ends well", partial(is_completed, cluster, job), 60)


def is_completed(cluster: LocalCluster, job: str) -> bool:
    return "COMPLETED" in cluster.admin(f"scontrol show job {job}")


def slurmctld(cluster: LocalCluster) -> str:
    """The container of slurmctld: another one when it had to be started again."""
    found = cluster.get("pod", "slurm-controller-0")["status"]["containerStatuses"]
    return next(str(each["containerID"]) for each in found if each["name"] == "slurmctld")


def test_a_partition_lives_from_kubectl_apply_to_kubectl_delete(cluster: LocalCluster) -> None:
    live = cluster.version != "24.11"
    apply(cluster, "short", maxTime="30")
    took = cluster.until("the partition is there", lambda: partition(cluster).get("MaxTime") == "00:30:00")
    cluster.until("it is applied", lambda: cluster.condition("partition", "short", "Applied") == "True")
    last = cluster.get("partition", "short")["status"]["lastApply"]
    assert last["way"] == ("Live" if live else "Reconfigure")
    print(f"Slurm {cluster.version}: made in {took:.2f} s, by its own count in {last['milliseconds']} ms")
    apply(cluster, "short", maxTime="45", state="DRAIN")
    cluster.until("it is drained", lambda: partition(cluster).get("State") == "DRAIN")
    assert partition(cluster)["MaxTime"] == "00:45:00"
    apply(cluster, "short", maxTime="45", state="UP")
    cluster.until("it is up", lambda: partition(cluster).get("State") == "UP")
    job, waiting = running_and_waiting(cluster, "short", 12)
    cluster.kubectl("delete", "partition", "short", "--wait=false")
    cluster.until("it waits", lambda: reason(cluster, "Ready") == "WaitingForJobs")
    cluster.until("it names the jobs", lambda: f"jobs {job}, {waiting}" in message(cluster, "partition", "short"))
    cluster.until("it takes no jobs", lambda: partition(cluster).get("State") == "DRAIN")
    expect_completed(cluster, job, waiting)
    # Without live partitions the records of the jobs are waited for too: MinJobAge, and Slurm's next round.
    cluster.until("Slurm has let it go", lambda: not partition(cluster), 15 if live else 120)
    cluster.until("the object is gone", lambda: not cluster.get("partition", "short"))


def test_what_scontrol_changes_is_seen_and_settled_by_policy(cluster: LocalCluster) -> None:
    apply(cluster, "watched", driftPolicy="Report")
    cluster.until("it is there", lambda: partition(cluster, "watched"))
    if cluster.version != "24.11":
        # Before the file has it: what a hand does then is no part of the change either.
        cluster.admin("scontrol update partitionname=watched state=drain")
    cluster.until("it is published", lambda: "PartitionName=watched" in slurm_conf(cluster))
    if cluster.version != "24.11":
        cluster.until("it is seen", lambda: reason(cluster, "InSync", "watched") == "Drifted", 20)
        assert partition(cluster, "watched")["State"] == "DRAIN"
        cluster.admin("scontrol update partitionname=watched state=up")
        cluster.until("it is well", lambda: reason(cluster, "InSync", "watched") == "InSync", 20)
    cluster.admin("scontrol update partitionname=watched gracetime=77")
    took = cluster.until("it is seen", lambda: reason(cluster, "InSync", "watched") == "Drifted", 20)
    rows = cluster.get("partition", "watched")["status"]["drift"]
    assert [(row["field"], row["wanted"], row["found"]) for row in rows] == [("GraceTime", "0", "77")]
    print(f"Slurm {cluster.version}: drift seen in {took:.1f} s")
    if cluster.version == "24.11":
        # Without live partitions it is reverted by a reconfigure, and only after two minutes.
        return
    apply(cluster, "watched", driftPolicy="Revert")
    cluster.until("it is reverted", lambda: partition(cluster, "watched").get("GraceTime") == "0", 20)


def test_a_hand_on_the_partition_of_a_nodeset_is_seen_within_seconds(cluster: LocalCluster) -> None:
    if cluster.version == "24.11":
        pytest.skip("without live partitions it is reverted by a reconfigure, and only after two minutes")
    cluster.admin("scontrol update partitionname=compute gracetime=78")
    took = cluster.until("it is reverted", lambda: partition(cluster, "compute").get("GraceTime") == "0", 8)
    print(f"Slurm {cluster.version}: the drift of a NodeSet's own line is reverted in {took:.1f} s")


def slurm_command(cluster: LocalCluster, *arguments: str) -> tuple[int, str]:
    """`kubectl slurm`, as a person runs it: its exit code, and all that it says."""
    command = [sys.executable, "-m", "slurm_operator.cli.kubectl.main", "--kubeconfig", str(cluster.home.kubeconfig)]
    done = subprocess.run(
        [*command, "-n", "slurm", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout + done.stderr


def config_of(cluster: LocalCluster) -> str:
    return str(cluster.get("nodeset", "compute")["spec"]["partition"]["config"])


def test_the_partition_of_a_nodeset_is_drained_set_and_brought_up_again(cluster: LocalCluster) -> None:
    """U4: it advised scontrol, and the operator changed that back five seconds later."""
    before, reverted = config_of(cluster), events(cluster, "DriftReverted")
    code, said = slurm_command(cluster, "partition", "drain", "compute")
    print(f"Slurm {cluster.version}: {said.strip()}")
    assert (code, "in effect after" in said) == (0, True), said
    assert partition(cluster, "compute")["State"] == "DRAIN"
    assert config_of(cluster) == f"{before} State=DRAIN"
    # Longer than the operator needs to change back what somebody did by hand.
    time.sleep(8.0)
    assert partition(cluster, "compute")["State"] == "DRAIN"
    code, said = slurm_command(cluster, "why", "partition/compute")
    assert "as NodeSet compute says" in said
    assert "kubectl slurm -n slurm partition up compute" in said
    code, said = slurm_command(cluster, "partition", "set", "compute", "maxtime=45", "State=UP")
    print(f"Slurm {cluster.version}: {said.strip()}")
    assert code == 0, said
    found = partition(cluster, "compute")
    assert (found["State"], found["MaxTime"]) == ("UP", "00:45:00")
    assert config_of(cluster) == f"{before} State=UP MaxTime=45"
    code, said = slurm_command(cluster, "partition", "set", "compute", "MaxTime=", "State=")
    assert code == 0, said
    assert partition(cluster, "compute")["MaxTime"] == "UNLIMITED"
    assert config_of(cluster) == before
    assert events(cluster, "DriftReverted") == reverted


def test_a_host_that_does_not_exist_is_refused(cluster: LocalCluster) -> None:
    """U6: "in effect after 0.12 s", exit code 0."""
    apply(cluster, "chosen")
    cluster.until("it is there", lambda: partition(cluster, "chosen"))
    for verb in ("add-nodes", "remove-nodes"):
        code, said = slurm_command(cluster, "partition", verb, "chosen", "compute-9")
        assert (code, "there is no node compute-9; did you mean" in said) == (1, True), said
    assert "nodes" not in cluster.get("partition", "chosen")["spec"]
    code, said = slurm_command(cluster, "partition", "remove-nodes", "compute", "compute-0")
    assert (code, "it has exactly the nodes of the NodeSet" in said) == (1, True), said
    for verb in ("drain", "undrain"):
        code, said = slurm_command(cluster, verb, "compute-9")
        assert (code, "there is no worker 'compute-9'" in said) == (1, True), said
    code, said = slurm_command(cluster, "why", "node/compute-9")
    assert (code, "did you mean" in said) == (1, True), said
    cluster.kubectl("delete", "partition", "chosen", "--wait=false")


def events(cluster: LocalCluster, reason: str) -> list[tuple[str, str, str]]:
    found = (each for each in cluster.objects("events") if each.get("reason") == reason)
    return [(each["involvedObject"]["kind"], each["involvedObject"]["name"], each["message"]) for each in found]


def reverts_to(cluster: LocalCluster, seconds: int) -> list[tuple[str, str, str]]:
    return [each for each in events(cluster, "DriftReverted") if f"GraceTime from 0 to {seconds};" in each[2]]


def test_a_revert_is_an_event_on_the_nodeset_and_stands_in_drift(cluster: LocalCluster) -> None:
    """U4: nobody was told, and `drift` said that nothing had been changed by hand."""
    assert slurm_command(cluster, "drift")[0] == 0
    cluster.admin("scontrol update partitionname=compute gracetime=79")
    live = cluster.version != "24.11"
    if not live:
        # Two minutes of patience, in which it stands in drift.
        code, said = slurm_command(cluster, "drift")
        assert (code, "nodeset/compute" in said, "GraceTime" in said) == (1, True, True), said
    took = cluster.until(
        "it is reverted", lambda: partition(cluster, "compute").get("GraceTime") == "0", 20 if live else 240
    )
    cluster.until("it is told", lambda: reverts_to(cluster, 79))
    print(f"Slurm {cluster.version}: reverted and told in {took:.1f} s: {events(cluster, 'DriftReverted')}")
    ((kind, name, note),) = reverts_to(cluster, 79)
    assert (kind, name) == ("NodeSet", "compute")
    assert note.startswith("partition compute: somebody with scontrol or REST changed GraceTime from 0 to 79; ")
    code, said = slurm_command(cluster, "drift")
    assert (code, "nodeset/compute" in said, "GraceTime from 0 to 79" in said) == (0, True, True), said


def test_a_nodeset_goes_after_its_running_and_waiting_jobs(cluster: LocalCluster) -> None:
    made = cluster.get("nodeset", "compute")["spec"] | {"replicas": 1, "partition": {"enabled": True}}
    extra = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "spec": made}
    extra["metadata"] = {"name": "extra", "namespace": "slurm"}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(extra))
    cluster.until("its worker is there", lambda: hosts(cluster, "extra"), 60)
    cluster.until("it is ready", lambda: cluster.condition("nodeset", "extra") == "True", 60)
    before = slurmctld(cluster)
    running, waiting = running_and_waiting(cluster, "extra", 12)
    cluster.kubectl("delete", "nodeset", "extra", "--wait=false")
    cluster.until("it names the job", lambda: running in message(cluster, "nodeset", "extra"))
    cluster.until("it names the one that waits", lambda: waiting in message(cluster, "nodeset", "extra"))
    expect_completed(cluster, running)
    assert "PENDING" in cluster.admin(f"scontrol show job {waiting}")
    assert waiting in message(cluster, "nodeset", "extra")
    assert partition(cluster, "extra")
    cluster.admin(f"scancel {waiting}")
    # The records of its jobs name it until MinJobAge is over, and Slurm's next round.
    cluster.until("the object is gone", lambda: not cluster.get("nodeset", "extra"), 150)
    cluster.until("Slurm has let its partition go", lambda: not partition(cluster, "extra"))
    assert slurmctld(cluster) == before


def test_hosts_are_added_and_taken_away(cluster: LocalCluster) -> None:
    if cluster.version == "24.11":
        pytest.skip("24.11 has no live partitions")
    apply(cluster, "some", nodes="-compute-1")
    cluster.until("one host is left", lambda: partition(cluster, "some").get("Nodes") == "compute-0")
    cluster.kubectl("scale", "nodeset", "compute", "--replicas=3")
    cluster.until("a new one joins", lambda: partition(cluster, "some").get("Nodes") == "compute-[0,2]", 60)
