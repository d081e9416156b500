"""Partitions in a local cluster, end to end: kubectl on one side, Slurm's own answer on the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    job = cluster.admin("sbatch --parsable -p short -o /dev/null --wrap 'sleep 15'")
    cluster.until("the job runs", lambda: "R" in cluster.admin(f"squeue -h -j {job} -o %t"))
    cluster.kubectl("delete", "partition", "short", "--wait=false")
    cluster.until("it waits", lambda: reason(cluster, "Ready") == "WaitingForJobs")
    cluster.until("it takes no jobs", lambda: partition(cluster).get("State") == "DRAIN")
    cluster.until("the job ends well", lambda: "COMPLETED" in cluster.admin(f"scontrol show job {job}"))
    if not live:
        # The record of the job is waited for, which is five minutes more.
        force = "partition.slinky.slurm.net/force-delete=true"
        cluster.kubectl("annotate", "partition", "short", force)
    else:
        cluster.until("Slurm has let it go", lambda: not partition(cluster))
    cluster.until("the object is gone", lambda: not cluster.get("partition", "short"))


def test_what_scontrol_changes_is_seen_and_settled_by_policy(cluster: LocalCluster) -> None:
    apply(cluster, "watched", driftPolicy="Report")
    cluster.until("it is there", lambda: cluster.condition("partition", "watched", "Applied") == "True")
    # What happens while a change is on its way is a part of it, and no drift.
    cluster.until("it is published", lambda: "PartitionName=watched" in slurm_conf(cluster))
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


def test_hosts_are_added_and_taken_away(cluster: LocalCluster) -> None:
    if cluster.version == "24.11":
        pytest.skip("24.11 has no live partitions")
    apply(cluster, "some", nodes="-compute-1")
    cluster.until("one host is left", lambda: partition(cluster, "some").get("Nodes") == "compute-0")
    cluster.kubectl("scale", "nodeset", "compute", "--replicas=3")
    cluster.until("a new one joins", lambda: partition(cluster, "some").get("Nodes") == "compute-[0,2]", 60)
