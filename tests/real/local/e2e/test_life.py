"""The life of a cluster with real Slurm, from the first job to the last object, in this order and on both versions.

Every test leaves the cluster as it found it, but for the last ones, which take it down.
"""

from __future__ import annotations

import json
import os
import time
from functools import partial

import pytest
from tests.real.local.e2e.cluster import CORDON, REASON, LocalCluster

pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED end to end: a local cluster needs root"),
    # One cluster per version for all tests of this file, in their order.
    pytest.mark.xdist_group("e2e"),
]

KINDS = {
    "controllers": ("slurm",),
    "accountings": ("slurm",),
    "restapis": ("slurm",),
    "loginsets": ("login",),
    "nodesets": ("compute", "metal"),
    "partitions": ("all",),
    "tokens": ("alice",),
}
# Slurm's word is asked every 5 s, every second while somebody waits; the rest is the machine's.
QUIET_SECONDS, DRAIN_SECONDS = 12.0, 6.0


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_ready_in_its_newest_generation(cluster: LocalCluster, kind: str) -> None:
    for name in KINDS[kind]:
        cluster.until(f"{kind}/{name} is ready", lambda name=name: cluster.condition(kind, name) == "True")  # type: ignore[misc]
        found = cluster.get(kind, name)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]


def test_the_nodesets_count_their_workers(cluster: LocalCluster) -> None:
    cluster.until("both are counted", lambda: cluster.get("nodeset", "metal")["status"].get("slurmIdle") == 1)
    status = {name: cluster.get("nodeset", name)["status"] for name in ("compute", "metal")}
    assert {name: (one["desired"], one["readyReplicas"]) for name, one in status.items()} == {
        "compute": (2, 2),
        "metal": (1, 1),
    }


def test_jobs_come_from_the_login_pod_and_by_rest(cluster: LocalCluster) -> None:
    token = cluster.secret("alice-jwt-alice", "SLURM_JWT")
    jobs = [
        cluster.submit("srun hostname", "-N2"),
        cluster.submit("hostname", "-p", "all", "-w", "local-2"),
        cluster.rest_submit("srun hostname", token),
    ]
    cluster.expect_completed(*jobs)


def test_a_change_in_slurm_is_seen_in_time_and_a_foreign_drain_is_left_alone(cluster: LocalCluster) -> None:
    cluster.admin("scontrol update nodename=compute-1 state=drain reason='disk is bad'")
    seen = cluster.until("the pod says so", lambda: "Drain" in cluster.pod_states("compute-1"), QUIET_SECONDS)
    seen += cluster.until("the NodeSet counts it", lambda: _drained(cluster, "compute") == 1, QUIET_SECONDS)
    cluster.measured["change in Slurm seen in pod and NodeSet, nobody waiting (goal 6)"] = seen
    # A cordon, and its end, on top of it: both are turns in which the operator could meddle.
    cluster.kubectl("annotate", "pod", "compute-1", f"{CORDON}=true")
    cluster.kubectl("annotate", "pod", "compute-0", f"{CORDON}=true")
    _expect_drain(cluster, "compute-0", "Pod (slurm/compute-0) was cordoned")
    for pod in ("compute-0", "compute-1"):
        cluster.kubectl("annotate", "pod", pod, f"{CORDON}-")
    _expect_service(cluster, "compute-0")
    assert cluster.node("compute-1").reason == "disk is bad"
    assert "DRAIN" in cluster.node("compute-1").states
    cluster.admin("scontrol update nodename=compute-1 state=resume")
    cluster.until("the pod is in service", lambda: "Drain" not in cluster.pod_states("compute-1"), QUIET_SECONDS)


def test_a_cordoned_pod_is_drained_with_a_reason_and_its_job_goes_on(cluster: LocalCluster) -> None:
    job = cluster.submit("sleep 4", "-w", "compute-0")
    cluster.wait_running(job)
    cluster.kubectl("annotate", "pod", "compute-0", f"{CORDON}=true")
    _expect_drain(cluster, "compute-0", "Pod (slurm/compute-0) was cordoned")
    cluster.expect_completed(job)
    cluster.kubectl("annotate", "pod", "compute-0", f"{CORDON}-")
    _expect_service(cluster, "compute-0")


@pytest.mark.parametrize("worker", ["compute-0", "local-2"], ids=["StatefulSet mode", "DaemonSet mode"])
def test_a_cordoned_kubernetes_node_drains_its_workers_with_its_reason(cluster: LocalCluster, worker: str) -> None:
    pod = next(
        one for one in cluster.objects("pods") if worker in (one["metadata"]["name"], one["spec"].get("hostname"))
    )
    node = pod["spec"]["nodeName"]
    cluster.kubectl("annotate", "node", node, f"{REASON}=new kernel")
    cluster.kubectl("cordon", node)
    _expect_drain(cluster, worker, "new kernel")
    cluster.kubectl("uncordon", node)
    cluster.kubectl("annotate", "node", node, f"{REASON}-")
    _expect_service(cluster, worker)


def test_workers_come_at_once_and_busy_ones_go_only_when_their_jobs_have_ended(cluster: LocalCluster) -> None:
    cluster.kubectl("scale", "nodeset", "compute", "--replicas=4")
    new = ("compute-2", "compute-3")
    took = cluster.until("new workers take jobs", lambda: all("IDLE" in cluster.node(one).states for one in new))
    cluster.measured["two more workers in service"] = took
    # Idle workers would go first, then those that will be free soonest: these two.
    jobs = [
        cluster.submit("sleep 7", "-t", "1", "-w", "compute-2"),
        cluster.submit("sleep 9", "-t", "2", "-w", "compute-3"),
        *(cluster.submit("sleep 9", "-t", "60", "-w", name) for name in ("compute-0", "compute-1")),
    ]
    cluster.wait_running(*jobs)
    cluster.kubectl("scale", "nodeset", "compute", "--replicas=2")
    _expect_drain(cluster, "compute-3", "Pod of NodeSet (slurm/compute) is pending termination for scale-in")
    _expect_kept_while_running(cluster, "compute-3", jobs[1])
    took = cluster.until("the pod is taken away", lambda: _is_going(cluster, "compute-3"), DRAIN_SECONDS)
    cluster.measured["end of a job seen during a drain, worker let go (goal 1.5)"] = took
    cluster.expect_completed(*jobs)
    cluster.until("two workers are left", lambda: _workers(cluster, "compute") == {"compute-0", "compute-1"})


def test_a_rolling_update_replaces_every_worker_and_kills_no_job(cluster: LocalCluster) -> None:
    before = cluster.pods()
    jobs = [cluster.submit("sleep 7", "-w", name) for name in ("compute-0", "compute-1")]
    cluster.wait_running(*jobs)
    _patch(cluster, {"template": {"metadata": {"labels": {"rolled": "once"}}}})
    cluster.until("an update is under way", lambda: cluster.condition("nodeset", "compute", "Progressing") == "True")
    first = next(one for one in ("compute-1", "compute-0") if "DRAIN" in cluster.node(one).states)
    _expect_kept_while_running(cluster, first, jobs[int(first[-1])])
    cluster.until("all are new", lambda: _are_new(cluster, before, "compute-0", "compute-1"))
    cluster.until("all are ready", lambda: cluster.condition("nodeset", "compute") == "True")
    cluster.expect_completed(*jobs)
    cluster.expect_completed(
        cluster.submit("hostname", "-w", "compute-0"), cluster.submit("hostname", "-w", "compute-1")
    )


def test_a_new_jwt_key_renews_tokens_and_the_operator_asks_on(cluster: LocalCluster) -> None:
    old = cluster.secret("alice-jwt-alice", "SLURM_JWT")
    job = cluster.submit("sleep 8", "-w", "compute-0")
    cluster.wait_running(job)
    cluster.set_secret("slurm-auth-jwt", "jwt.key", f"another-key-{time.time_ns()}-another-key-another-key")
    cluster.until("the token is new", lambda: cluster.secret("alice-jwt-alice", "SLURM_JWT") != old)
    new = cluster.secret("alice-jwt-alice", "SLURM_JWT")
    took = cluster.until("Slurm takes the new token", partial(cluster.accepts, new), 120)
    cluster.measured["new JWT key in force"] = took
    assert not cluster.accepts(old)
    cluster.until("the operator asks on", lambda: _reaches_slurm(cluster))
    cluster.expect_completed(job, cluster.rest_submit("hostname", new))


def test_a_new_slurm_key_waits_for_the_jobs_and_then_reaches_every_daemon(cluster: LocalCluster) -> None:
    job, before = cluster.submit("sleep 6", "-w", "compute-0"), cluster.pods()
    cluster.wait_running(job)
    cluster.set_secret("slurm-auth-slurm", "slurm.key", f"another-key-{time.time_ns()}-" + "another-key-" * 5)
    cluster.until("workers are drained", lambda: "DRAIN" in cluster.node("compute-0").states, 30)
    _expect_kept_while_running(cluster, "compute-0", job)
    having = {"slurm-controller-0", "slurm-accounting-0", "compute-0", "compute-1"}
    took = cluster.until("every daemon has it", lambda: _are_new(cluster, before, *having), 120)
    took += cluster.until("workers are ready", lambda: cluster.condition("nodeset", "compute") == "True", 60)
    cluster.measured["new slurm key at every daemon, from the end of the last job"] = took
    cluster.until("jobs are taken", lambda: cluster.as_alice("srun -w compute-0 -t 1 true").returncode == 0)
    cluster.expect_completed(job)


def test_a_deleted_nodeset_waits_for_its_job(cluster: LocalCluster) -> None:
    job = cluster.submit("sleep 6", "-p", "all", "-w", "local-2")
    cluster.wait_running(job)
    cluster.kubectl("delete", "partition", "all", "--wait=false")
    cluster.kubectl("delete", "nodeset", "metal", "--wait=false")
    _expect_drain(cluster, "local-2", "Pod of NodeSet (slurm/metal) is pending termination for deletion")
    assert cluster.get("nodeset", "metal")
    cluster.expect_completed(job)
    cluster.until("the NodeSet is gone", lambda: not cluster.get("nodeset", "metal"), 120)
    cluster.until("its workers are gone", lambda: not _workers(cluster, "metal"))


def test_a_deleted_controller_takes_its_daemons_along_and_workers_stay_for_a_new_one(cluster: LocalCluster) -> None:
    cluster.kubectl("delete", "controller", "slurm", "--wait=false")
    cluster.until("the Controller is gone", lambda: not cluster.get("controller", "slurm"))
    cluster.until("slurmctld is gone", lambda: "slurm-controller-0" not in cluster.pods())
    assert cluster.condition("nodeset", "compute") != "True"
    assert _workers(cluster, "compute") == {"compute-0", "compute-1"}


def test_a_deleted_namespace_ends_though_no_slurm_is_left_to_ask(cluster: LocalCluster) -> None:
    cluster.kubectl("delete", "namespace", "slurm", "--wait=false")
    took = cluster.until("the namespace is gone", lambda: not cluster.get("namespace", "slurm"), 90)
    cluster.measured["namespace deleted"] = took


def _patch(cluster: LocalCluster, spec: dict[str, object]) -> None:
    cluster.kubectl("patch", "nodeset", "compute", "--type=merge", "-p", json.dumps({"spec": spec}))


def _drained(cluster: LocalCluster, name: str) -> int:
    return int(cluster.get("nodeset", name)["status"].get("slurmDrain", 0))


def _workers(cluster: LocalCluster, nodeset: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in cluster.objects("pods", "-l", f"app.kubernetes.io/instance={nodeset}")}


def _expect_drain(cluster: LocalCluster, node: str, reason: str) -> None:
    cluster.until(f"{node} is drained", lambda: "DRAIN" in cluster.node(node).states, 30)
    assert cluster.node(node).reason == f"slurm-operator: {reason}"


def _expect_service(cluster: LocalCluster, node: str) -> None:
    cluster.until(f"{node} is in service", lambda: "DRAIN" not in cluster.node(node).states, 30)


def _expect_kept_while_running(cluster: LocalCluster, pod: str, job: str) -> None:
    """Look at the pod and then at its job: a pod that is going while its job still runs is a lost job."""
    while True:
        going, state = _is_going(cluster, pod), cluster.job_state(job)
        if state != "RUNNING":
            return
        assert not going, f"{pod} is taken away under job {job}"
        time.sleep(0.2)


def _is_going(cluster: LocalCluster, pod: str) -> bool:
    found = cluster.get("pod", pod)
    return not found or "deletionTimestamp" in found["metadata"]


def _are_new(cluster: LocalCluster, before: dict[str, str], *names: str) -> bool:
    now = cluster.pods()
    return all(now.get(name, before[name]) != before[name] for name in names)


def _reaches_slurm(cluster: LocalCluster) -> bool:
    return cluster.condition("nodeset", "compute", "SlurmReachable") == "True"
