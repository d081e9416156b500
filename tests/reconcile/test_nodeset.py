"""The life of a NodeSet, told as stories in virtual time."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from tests.campaigns.rig import World
from tests.campaigns.scenarios import CLAIMS, KEYS, REF, small
from tests.campaigns.slurm_model import MIN_JOB_AGE, SILENCE_SECONDS

from slurm_operator.build import labels, nodeset
from slurm_operator.plan.actions import Plan
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.plan.nodeset_world import NodeSetWorld
from slurm_operator.reconcile.nodeset import SLOW
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.errors import SlurmUnreachable
from slurm_operator.slurm.policy import BACK_IN_SERVICE_REASON
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

MERGE = "application/merge-patch+json"


def condition(world: World, kind: str, name: str, type_: str) -> tuple[str, str]:
    found = world.custom(kind, name)["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in found if each["type"] == type_)


def pod_conditions(world: World, name: str) -> dict[str, str]:
    found = world.stored("pods", name)["status"]["conditions"]
    return {each["type"]: each["status"] for each in found if each["type"].startswith("Slurm")}


def held_claims(world: World) -> list[str]:
    return [each["metadata"]["name"] for each in world.stored("persistentvolumeclaims")]


def revisions(world: World) -> list[Any]:
    """The NodeSet's own; a Controller has some for its configurations."""
    found = world.stored("controllerrevisions.apps")
    return [each for each in found if each["metadata"]["name"].startswith("compute-")]


async def scale(world: World, replicas: int) -> None:
    await world.patch("NodeSet", "compute", {"spec": {"replicas": replicas}})


# Coming up


async def test_workers_come_up_register_and_are_ready(world: World) -> None:
    await small(world, 3)
    assert condition(world, "NodeSet", "compute", "Ready") == ("True", "AllReady")
    assert sorted(world.slurm.nodes) == ["compute-0", "compute-1", "compute-2"]
    assert pod_conditions(world, "compute-0") == {"SlurmNodeRegistered": "True", "SlurmNodeStateIdle": "True"}


async def test_a_node_record_says_whose_it_is_as_soon_as_it_is_there(world: World) -> None:
    await small(world, 1)
    uid = world.custom("NodeSet", "compute")["metadata"]["uid"]
    assert json.loads(world.slurm.nodes["compute-0"].comment) == {
        "namespace": "hpc",
        "nodeSetName": "compute",
        "nodeSetUID": uid,
    }
    assert world.slurm.nodes["compute-0"].saved


async def test_features_and_topology_of_a_kubernetes_node_reach_slurm(world: World) -> None:
    await small(world, 1)
    node = world.stored("pods", "compute-0")["spec"]["nodeName"]
    notes = {labels.FEATURES: "ib, nvme", labels.TOPOLOGY: "topo-switch:s2"}
    path = f"/api/v1/nodes/{node}"
    await world.ask("PATCH", path, {"metadata": {"annotations": notes}}, "application/merge-patch+json")
    await world.run()
    record = world.slurm.nodes["compute-0"]
    assert record.features == ["compute", "k8s/ib", "k8s/nvme"]
    assert record.active_features == record.features
    assert record.topology == "topo-switch:s2"
    assert world.stored("pods", "compute-0")["metadata"]["annotations"][labels.TOPOLOGY] == "topo-switch:s2"
    gone = {labels.FEATURES: None}
    await world.ask("PATCH", path, {"metadata": {"annotations": gone}}, "application/merge-patch+json")
    await world.run()
    assert record.features == ["compute"]


async def test_a_slurm_without_topology_calls_is_served_all_the_same(old_slurm: World) -> None:
    await small(old_slurm, 1)
    node = old_slurm.stored("pods", "compute-0")["spec"]["nodeName"]
    notes = {labels.FEATURES: "ib", labels.TOPOLOGY: "topo-switch:s2"}
    body = {"metadata": {"annotations": notes}}
    await old_slurm.ask("PATCH", f"/api/v1/nodes/{node}", body, "application/merge-patch+json")
    await old_slurm.run()
    assert old_slurm.slurm.nodes["compute-0"].features == ["compute", "k8s/ib"]
    assert old_slurm.slurm.nodes["compute-0"].topology == ""
    assert condition(old_slurm, "NodeSet", "compute", "Ready") == ("True", "AllReady")


# Failing closed


async def blind_by_missing_restapi(world: World) -> None:
    await world.delete("RestApi", "slurm")


async def blind_by_missing_key(world: World) -> None:
    await world.delete("Secret", "jwt-key")


async def blind_by_another_key(world: World) -> None:
    world.slurm.key = b"another"


async def blind_by_silence(world: World) -> None:
    world.cluster.slurm.up = False
    world.cluster._config = lambda: None  # type: ignore[method-assign]  # nobody brings it back


async def blind_by_hanging(world: World) -> None:
    world.line.hangs = lambda _: True


async def blind_by_hanging_lists(world: World) -> None:
    """slurmctld pings back, and never comes to an end of its lists."""
    world.line.hangs = lambda sending: sending.label in ("GET nodes", "GET jobs", "GET jobs/state")


async def blind_by_an_empty_list(world: World) -> None:
    world.slurm._get_nodes = lambda sending: world.slurm._list("nodes", sending, [])  # type: ignore[method-assign]


async def blind_by_half_a_list(world: World) -> None:
    def half(sending: Sending) -> Reply:
        nodes = [world.slurm._node(node) for _, node in sorted(world.slurm.nodes.items())]
        return world.slurm._list("nodes", sending, nodes[: len(nodes) // 2])

    world.slurm._get_nodes = half  # type: ignore[method-assign]  # the model's own seam


async def blind_by_no_jobs(world: World) -> None:
    world.slurm._get_jobs = lambda sending: world.slurm._list("jobs", sending, [])  # type: ignore[method-assign]
    world.slurm._get_job_states = lambda _: world.slurm._json({"jobs": []})  # type: ignore[method-assign]


BLIND = {
    "the RestApi is missing": blind_by_missing_restapi,
    "the JWT key is missing": blind_by_missing_key,
    "slurmrestd refuses the token": blind_by_another_key,
    "slurmrestd refuses connections": blind_by_silence,
    "slurmrestd hangs": blind_by_hanging,
    "slurmctld hangs": blind_by_hanging_lists,
    "the list of nodes is empty": blind_by_an_empty_list,
    "half the nodes are listed": blind_by_half_a_list,
    "no job is listed": blind_by_no_jobs,
}


@pytest.mark.parametrize("blindness", BLIND.values(), ids=BLIND)
async def test_without_slurms_word_busy_workers_stay_and_new_ones_still_come(world: World, blindness: Any) -> None:
    await small(world, 3)
    for _ in range(3):
        world.slurm.submit(10_000.0)
    await world.run()
    await blindness(world)
    await scale(world, 1)
    await world.run_for(120.0)
    assert sorted(world.pods()) == ["compute-0", "compute-1", "compute-2"]
    # The operator is killed in the middle of it; the new one knows no more.
    await world.stop_operator()
    await world.start_operator()
    await world.run_for(120.0)
    assert sorted(world.pods()) == ["compute-0", "compute-1", "compute-2"]
    await scale(world, 5)
    await world.run_for(60.0)
    assert sorted(world.pods()) == [f"compute-{number}" for number in range(5)]
    assert world.slurm.lost == []


@pytest.mark.parametrize("blindness", BLIND.values(), ids=BLIND)
async def test_an_operator_that_dies_in_a_scale_in_and_comes_back_blind_takes_no_busy_worker(
    world: World, blindness: Any
) -> None:
    await small(world, 4)
    for _ in range(4):
        world.slurm.submit(10_000.0)
    await world.run()
    await scale(world, 1)
    await world.run_for(3.0)
    assert sum("DRAIN" in node.flags for node in world.slurm.nodes.values()) == 3
    await world.stop_operator()
    await blindness(world)
    await world.start_operator()
    await world.run_for(120.0)
    assert sorted(world.pods()) == [f"compute-{number}" for number in range(4)]
    await scale(world, 6)
    await world.run_for(10.0)
    assert sorted(world.pods()) == [f"compute-{number}" for number in range(6)]
    await world.run_for(120.0)
    assert world.slurm.lost == []


@pytest.mark.parametrize("after", [0.0, 9.0, 33.0], ids=["as it begins", "in the middle of it", "after a time-out"])
async def test_a_slurm_that_hangs_does_not_keep_new_workers_waiting(world: World, after: float) -> None:
    await small(world, 1)
    await blind_by_hanging_lists(world)
    asked: list[float] = []
    made: dict[str, float] = {}

    async def ask() -> None:
        asked.append(world.clock.monotonic())
        await scale(world, 3)

    def noticed(change: Any) -> None:
        if change.row.resource == "pods" and change.type == "ADDED":
            made[change.row.name] = world.clock.monotonic()

    world.server.store.listen(noticed)
    tasks: list[Any] = []
    world.clock.call_later(after, lambda: tasks.append(asyncio.ensure_future(ask())))
    await world.run_for(60.0)
    assert {name: time - asked[0] <= 3.5 for name, time in made.items()} == {"compute-1": True, "compute-2": True}
    world.line.hangs = lambda _: False
    await world.run()
    assert condition(world, "NodeSet", "compute", "Ready") == ("True", "AllReady")


async def test_a_slurm_that_hangs_makes_nobody_judge_workers_of_whom_none_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand take a third of a second, every three seconds, in which nothing else is done."""
    await small(world, 3)
    await blind_by_hanging_lists(world)
    judged: list[int] = []

    def noting(seen: NodeSetWorld) -> Plan:
        if seen.slurm.nodes is SLOW:
            judged.append(seen.cr.spec.replicas)
        return plan_nodeset(seen)

    monkeypatch.setattr("slurm_operator.reconcile.nodeset.plan_nodeset", noting)
    await world.patch("NodeSet", "compute", {"spec": {"minReadySeconds": 1}})
    await world.run_for(20.0)
    assert judged == []


async def test_a_blind_world_is_quiet_too_and_says_so(world: World) -> None:
    await small(world, 2)
    await blind_by_silence(world)
    await world.run_for(60.0)
    assert condition(world, "NodeSet", "compute", "Ready") == ("Unknown", "SlurmUnreachable")
    world.arm()
    await world.run_for(600.0)
    assert world.trace == []


async def test_a_suspended_job_keeps_its_worker(world: World) -> None:
    await small(world, 1)
    job = world.slurm.submit(1000.0)
    await world.run()
    world.slurm.suspend(job)
    await scale(world, 0)
    await world.run()
    assert sorted(world.pods()) == ["compute-0"]
    world.slurm.resume_job(job, 5.0)
    await world.run()
    assert world.pods() == {}


async def test_a_worker_that_slurmctld_forgot_is_not_killed_with_its_job(world: World) -> None:
    await small(world, 2)
    job = world.slurm.submit(400.0)
    await world.run()
    before = world.stored("pods", "compute-0")["metadata"]["uid"]
    for node in world.slurm.nodes.values():
        node.saved = False
    world.slurm.kill_controller()
    await world.run_for(120.0)
    assert world.stored("pods", "compute-0")["metadata"]["uid"] == before
    assert world.slurm.jobs[job].state == "RUNNING"
    await world.run(horizon=400.0)
    assert world.slurm.lost == []
    # Both were made anew in the end, and are registered again.
    assert sorted(world.slurm.nodes) == ["compute-0", "compute-1"]
    assert condition(world, "NodeSet", "compute", "Ready") == ("True", "AllReady")


# Drains


async def test_a_stale_reason_of_a_lifted_drain_does_not_keep_a_worker_for_ever(old_slurm: World) -> None:
    await small(old_slurm, 1)
    old_slurm.slurm.nodes["compute-0"].reason = "broken fan"
    await scale(old_slurm, 0)
    await old_slurm.run()
    assert old_slurm.pods() == {}


async def test_a_pod_cordon_of_a_user_stays_until_the_user_takes_it_back(world: World) -> None:
    await small(world, 2)
    await world.patch("Pod", "compute-0", {"metadata": {"annotations": {labels.POD_CORDON: "true"}}})
    await world.run()
    assert "DRAIN" in world.slurm.nodes["compute-0"].flags
    await world.run_for(600.0)
    assert "DRAIN" in world.slurm.nodes["compute-0"].flags
    await world.patch("Pod", "compute-0", {"metadata": {"annotations": {labels.POD_CORDON: None}}})
    await world.run()
    assert "DRAIN" not in world.slurm.nodes["compute-0"].flags


async def test_a_drain_of_an_admin_survives_everything(world: World) -> None:
    await small(world, 2)
    world.slurm.admin_drain("compute-0")
    await scale(world, 3)
    await world.run()
    assert world.slurm.nodes["compute-0"].reason == "broken fan"
    assert "DRAIN" in world.slurm.nodes["compute-0"].flags


async def test_a_pod_that_restarts_in_place_gets_its_node_back(world: World) -> None:
    await small(world, 1)
    world.slurm.stop_slurmd("compute-0", nodeset.TERMINATING)
    world.slurm.register("compute-0")
    await world.run()
    assert world.slurm.nodes["compute-0"].base == "IDLE"


# Leftovers


async def test_records_of_workers_that_were_scaled_in_are_deleted_as_soon_as_their_pods_are(world: World) -> None:
    calls = record_deletions(world)
    await small(world, 30)
    await scale(world, 1)
    await world.run_for(SILENCE_SECONDS / 2)
    assert sorted(world.slurm.nodes) == ["compute-0"]
    # Not one by one, and not only when slurmctld has noticed by itself that they do not answer.
    assert len(calls) <= 6


async def test_records_go_with_their_nodeset(world: World) -> None:
    await small(world, 3)
    await world.delete("NodeSet", "compute")
    await world.run_for(SILENCE_SECONDS / 2)
    assert world.custom("NodeSet", "compute") is None
    assert world.slurm.nodes == {}


async def test_a_slurmd_that_ended_without_a_word_is_waited_for_and_its_record_deleted(world: World) -> None:
    await small(world, 1)
    await world.delete("NodeSet", "compute")
    await world.run_for(0.5)
    # Its pod could not tell slurmctld any more.
    world.slurm.slurmds.discard("compute-0")
    await world.run_for(SILENCE_SECONDS)
    assert condition(world, "NodeSet", "compute", "Ready") == ("False", "Deleting")
    assert "compute-0" in str(world.custom("NodeSet", "compute")["status"]["conditions"])
    world.slurm.nodes["compute-0"].base = "DOWN"
    world.slurm.nodes["compute-0"].flags.add("NOT_RESPONDING")
    world.slurm.touch("nodes")
    await world.run()
    assert world.custom("NodeSet", "compute") is None
    assert world.slurm.nodes == {}


def record_deletions(world: World) -> list[str]:
    """The calls that delete node records, as they come."""
    calls: list[str] = []
    before = world.line.on_call

    def on_call(sending: Sending, go: Any) -> Reply:
        if sending.label == "DELETE node":
            calls.append(sending.path)
        return before(sending, go)

    world.line.on_call = on_call
    return calls


# Jobs whose processes are gone


async def restart(world: World, name: str) -> None:
    """A worker's container ends with all that ran in it, and starts again."""
    world.slurm.restart_container(name)
    now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    containers = [{"name": "slurmd", "ready": True, "state": {"running": {"startedAt": now}}}]
    pod = f"/api/v1/namespaces/hpc/pods/{name}/status"
    await world.ask("PATCH", pod, {"status": {"containerStatuses": containers}}, MERGE)


async def test_a_job_that_lost_its_processes_is_requeued_by_slurm(world: World) -> None:
    await small(world, 1)
    job = world.slurm.submit(30.0)
    await world.run_for(5.0)
    await restart(world, "compute-0")
    await world.run_for(10.0)
    assert world.slurm.jobs[job].ghost
    await world.run_for(30.0)
    assert not world.slurm.jobs[job].ghost
    await world.run()
    assert world.slurm.jobs[job].state == "COMPLETED"


async def test_a_job_that_lives_is_asked_about_in_vain_and_ever_more_rarely(world: World) -> None:
    await small(world, 1)
    job = world.slurm.submit(7200.0)
    changes = node_changes(world)
    await world.run_for(5.0)
    # The clock of its Kubernetes node is ahead of slurmctld's.
    pods = "/api/v1/namespaces/hpc/pods/compute-0/status"
    later = (world.clock.now() + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"containerStatuses": [{"name": "slurmd", "ready": True, "state": {"running": {"startedAt": later}}}]}
    await world.ask("PATCH", pods, {"status": status}, MERGE)
    await world.run_for(7000.0)
    assert world.slurm.jobs[job].state == "RUNNING"
    assert 6 <= changes.count(("UNDRAIN", BACK_IN_SERVICE_REASON)) <= 16


async def test_a_node_in_service_is_drained_while_its_slurmd_is_asked(world: World) -> None:
    """Else slurmctld goes on placing jobs on it whose launches it holds back, and forgets them at a reconfigure."""
    await small(world, 1)
    world.slurm.submit(7200.0)
    await world.run_for(5.0)
    changes = node_changes(world)
    await restart(world, "compute-0")
    await world.run_for(4.0)
    assert changes == [("DRAIN", "slurm-operator: slurmd is asked to register"), ("UNDRAIN", BACK_IN_SERVICE_REASON)]


async def test_a_drain_of_ours_stands_again_after_the_question(world: World) -> None:
    """The ghost on a worker that leaves would keep it for half an hour."""
    await small(world, 1)
    job = world.slurm.submit(30.0)
    await world.run_for(5.0)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
    await world.run_for(5.0)
    reason = world.slurm.nodes["compute-0"].reason
    changes = node_changes(world)
    await restart(world, "compute-0")
    await world.run_for(4.0)
    assert changes == [("UNDRAIN", BACK_IN_SERVICE_REASON), ("DRAIN", reason)]
    await world.run()
    assert world.slurm.jobs[job].state == "PENDING"
    assert world.pods() == {}


async def test_a_drain_for_a_question_that_never_came_is_lifted(world: World) -> None:
    await small(world, 1)
    job = world.slurm.submit(30.0)
    await world.run_for(5.0)
    before = world.line.on_call
    lost: list[str] = []

    def on_call(sending: Sending, go: Any) -> Reply:
        if sending.label == "POST nodes" and b"UNDRAIN" in (sending.body or b"") and not lost:
            lost.append(sending.path)
            raise SlurmUnreachable("the connection was reset", call=sending.label)
        return before(sending, go)

    world.line.on_call = on_call
    await restart(world, "compute-0")
    await world.run()
    assert lost
    assert "DRAIN" not in world.slurm.nodes["compute-0"].flags
    assert world.slurm.jobs[job].state == "COMPLETED"


def node_changes(world: World) -> list[tuple[str, str]]:
    """The state and the reason in each call that changes nodes, as they come; the list grows."""
    calls: list[tuple[str, str]] = []
    before = world.line.on_call

    def on_call(sending: Sending, go: Any) -> Reply:
        body = json.loads(sending.body) if sending.label == "POST nodes" and sending.body else {}
        calls.extend((state, body.get("reason", "")) for state in body.get("state", ()))
        return before(sending, go)

    world.line.on_call = on_call
    return calls


@pytest.mark.parametrize("limit", [0, 1], ids=["none is kept", "one is kept"])
async def test_old_revisions_go_when_nobody_runs_them(world: World, limit: int) -> None:
    await small(world, 1, revisionHistoryLimit=limit)
    for image in ("one", "two"):
        await world.patch("NodeSet", "compute", {"spec": {"slurmd": {"image": f"example.org/{image}:1"}}})
        await world.run()
    found = revisions(world)
    assert sorted(each["revision"] for each in found) == ([3] if limit == 0 else [2, 3])


async def test_two_templates_with_one_hash_are_told_apart(world: World) -> None:
    await small(world, 1)
    path = "/apis/apps/v1/namespaces/hpc/controllerrevisions"
    (held,) = revisions(world)
    metadata = {key: held["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    twin = {"metadata": metadata, "revision": 1, "data": {"spec": {"other": True}}}
    await world.ask("DELETE", f"{path}/{held['metadata']['name']}")
    await world.ask("POST", path, {"apiVersion": "apps/v1", "kind": "ControllerRevision", **twin})
    await world.run()
    assert world.custom("NodeSet", "compute")["status"]["collisionCount"] == 1
    assert condition(world, "NodeSet", "compute", "Ready") == ("True", "AllReady")


async def test_the_ssh_configuration_goes_when_ssh_is_turned_off(world: World) -> None:
    ssh = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    await small(world, 1, ssh=ssh)
    assert world.stored("configmaps", "compute-ssh-config") is not None
    await world.patch("NodeSet", "compute", {"spec": {"ssh": {**ssh, "enabled": False}}})
    await world.run()
    assert world.stored("configmaps", "compute-ssh-config") is None


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        pytest.param({}, [0, 1], id="retain both"),
        pytest.param({"whenScaled": "Delete"}, [0], id="delete when scaled"),
        pytest.param({"whenDeleted": "Delete"}, [0, 1], id="delete when deleted"),
        pytest.param({"whenScaled": "Delete", "whenDeleted": "Delete"}, [0], id="delete both"),
    ],
)
async def test_claims_are_kept_as_the_policy_says(world: World, policy: dict[str, str], kept: list[int]) -> None:
    await small(world, 2, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy)
    await world.patch("NodeSet", "compute", {"spec": {"slurmd": {"image": "example.org/new:1"}}})
    await world.run()
    assert held_claims(world) == ["scratch-compute-0", "scratch-compute-1"]
    await scale(world, 1)
    await world.run()
    assert held_claims(world) == [f"scratch-compute-{number}" for number in kept]
    await world.delete("NodeSet", "compute")
    await world.run()
    left = [] if policy.get("whenDeleted") == "Delete" else kept
    assert held_claims(world) == [f"scratch-compute-{number}" for number in left]


# Modes, adoption, windows


async def test_one_worker_runs_on_each_node_and_a_new_node_gets_one_at_once(world: World) -> None:
    await small(world, 1, scalingMode="DaemonSet")
    assert sorted(world.slurm.nodes) == ["k0", "k1", "k2"]
    await world.ask("POST", "/api/v1/nodes", {"metadata": {"name": "k3"}})
    await world.run_for(3.0)
    assert "k3" in world.slurm.nodes


async def test_the_record_of_a_node_that_left_kubernetes_is_deleted_when_asked_for(world: World) -> None:
    await small(world, 1, scalingMode="DaemonSet", pruneSlurmNodeRecords="NodeNotFound")
    (pod,) = [each for each in world.pods().values() if each["spec"]["hostname"] == "k2"]
    await world.ask("DELETE", "/api/v1/nodes/k2")
    await world.delete("Pod", pod["metadata"]["name"])
    await world.run()
    assert sorted(world.slurm.nodes) == ["k0", "k1"]


async def test_workers_of_the_other_mode_go_in_good_order(world: World) -> None:
    await small(world, 2)
    job = world.slurm.submit(30.0)
    await world.patch("NodeSet", "compute", {"spec": {"scalingMode": "DaemonSet"}})
    await world.run()
    assert sorted(each["spec"]["hostname"] for each in world.pods().values()) == ["k0", "k1", "k2"]
    assert world.slurm.lost == []
    assert world.slurm.jobs[job].state == "COMPLETED"


async def test_orphans_are_adopted_without_a_restart(world: World) -> None:
    await small(world, 2)
    uids = {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}
    await world.patch("Pod", "compute-0", {"metadata": {"ownerReferences": None}})
    (held,) = revisions(world)
    path = f"/apis/apps/v1/namespaces/hpc/controllerrevisions/{held['metadata']['name']}"
    await world.ask("PATCH", path, {"metadata": {"ownerReferences": None}}, "application/merge-patch+json")
    await world.stop_operator()
    await world.start_operator()
    await world.run()
    assert {name: pod["metadata"]["uid"] for name, pod in world.pods().items()} == uids
    assert world.stored("pods", "compute-0")["metadata"]["ownerReferences"][0]["name"] == "compute"
    assert revisions(world)[0]["metadata"]["ownerReferences"][0]["name"] == "compute"


def window(start: str, **more: Any) -> dict[str, Any]:
    return {"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": start, "duration": "30m", **more}}


async def test_a_scheduled_update_reserves_its_window_and_uses_it(world: World) -> None:
    await small(world, 2, updateStrategy=window("2030-01-01T01:00:00Z", flags=["daily"]))
    (held,) = world.slurm.reservations.values()
    assert held["name"] == "SlurmOperatorMaint-compute"
    assert hostlist.expand(held["node_list"]) == ["compute-0", "compute-1"]
    assert set(held["flags"]) == {"MAINT", "IGNORE_JOBS", "DAILY", "SPEC_NODES"}
    assert condition(world, "NodeSet", "compute", "ReservationCreated") == ("True", "Created")
    assert labels.RESERVATION_FINALIZER in world.custom("NodeSet", "compute")["metadata"]["finalizers"]
    before = {pod["metadata"]["uid"] for pod in world.pods().values()}
    await world.patch("NodeSet", "compute", {"spec": {"slurmd": {"image": "example.org/new:1"}}})
    await world.run()
    assert {pod["metadata"]["uid"] for pod in world.pods().values()} == before
    await world.run_for(3600.0)
    assert not before & {pod["metadata"]["uid"] for pod in world.pods().values()}
    world.arm()
    await world.run_for(60.0)
    assert world.trace == []


async def test_a_reservation_goes_with_its_strategy_and_with_its_nodeset(world: World) -> None:
    await small(world, 1, updateStrategy=window("2030-01-01T01:00:00Z"))
    await world.patch("NodeSet", "compute", {"spec": {"updateStrategy": {"type": "RollingUpdate"}}})
    await world.run()
    assert world.slurm.reservations == {}
    assert labels.RESERVATION_FINALIZER not in world.custom("NodeSet", "compute")["metadata"]["finalizers"]
    await world.patch("NodeSet", "compute", {"spec": {"updateStrategy": window("2030-01-01T02:00:00Z")}})
    await world.run()
    assert len(world.slurm.reservations) == 1
    await world.delete("NodeSet", "compute")
    await world.run()
    assert world.slurm.reservations == {}
    assert world.custom("NodeSet", "compute") is None


async def test_a_changed_start_moves_the_reservation_once(world: World) -> None:
    await small(world, 1, updateStrategy=window("2030-01-01T01:00:00Z"))
    await world.patch("NodeSet", "compute", {"spec": {"updateStrategy": window("2030-01-01T03:00:00Z")}})
    await world.run()
    (held,) = world.slurm.reservations.values()
    assert held["start_time"]["number"] == 1893466800
    world.arm()
    await world.run_for(300.0)
    assert world.trace == []


# Going


@pytest.mark.parametrize("slurm_is_there", [True, False], ids=["Slurm answers", "Slurm is gone for good"])
async def test_a_forced_deletion_asks_nobody(world: World, slurm_is_there: bool) -> None:
    await small(world, 1)
    world.slurm.submit(10_000.0)
    world.judge.expect_loss = True
    if not slurm_is_there:
        await blind_by_silence(world)
    await world.delete("NodeSet", "compute")
    await world.run_for(60.0)
    assert world.custom("NodeSet", "compute") is not None
    await world.patch("NodeSet", "compute", {"metadata": {"annotations": {labels.FORCE_DELETE: "true"}}})
    await world.run()
    assert world.custom("NodeSet", "compute") is None
    assert world.pods() == {}


def partition(world: World) -> list[str]:
    """The states of the NodeSet's partition; none when it is gone."""
    shape = world.slurm.live_partitions.shapes.get("compute")
    return list(shape["partition"]["state"]) if shape else []


async def test_the_partition_of_a_deleted_nodeset_takes_no_more_jobs_and_goes_with_the_last(world: World) -> None:
    await goes_with_the_last_job(world)


async def test_before_live_partitions_the_file_drains_the_partition_of_a_deleted_nodeset(old_slurm: World) -> None:
    await goes_with_the_last_job(old_slurm)


async def goes_with_the_last_job(world: World) -> None:
    """A NodeSet is deleted under a job."""
    await small(world, 2)
    world.slurm.submit(60.0)
    await world.delete("NodeSet", "compute")
    await world.run_for(30.0)
    assert partition(world) == ["DRAIN"]
    assert "job" in str(world.custom("NodeSet", "compute")["status"]["conditions"])
    await world.run_for(60.0)
    assert world.custom("NodeSet", "compute") is None
    # Before 26.05 its line waits for what slurmctld remembers of its jobs, and the NodeSet does not.
    await world.run_for(MIN_JOB_AGE)
    assert partition(world) == []
    assert world.slurm.nodes == {}


async def test_a_nodeset_without_its_controller_says_so(world: World) -> None:
    await world.create("NodeSet", "compute", REF)
    await world.run()
    assert condition(world, "NodeSet", "compute", "Ready") == ("Unknown", "ReferenceNotFound")
    await world.create("Controller", "slurm", KEYS)
    await world.create("RestApi", "slurm", REF)
    await world.run()
    assert condition(world, "NodeSet", "compute", "Ready") == ("True", "AllReady")


# How soon it is said that Slurm is silent


@pytest.mark.parametrize("blindness", [blind_by_hanging, blind_by_hanging_lists], ids=["slurmrestd", "slurmctld"])
async def test_a_slurm_that_hangs_is_called_unreachable_within_seconds(world: World, blindness: Any) -> None:
    """It took until the list of nodes timed out: 30 s and more."""
    await small(world, 2)
    assert condition(world, "NodeSet", "compute", "SlurmReachable") == ("True", "Answering")
    await blindness(world)
    # The next look, and the patience with it.
    await world.run_for(8.5)
    assert condition(world, "NodeSet", "compute", "SlurmReachable") == ("False", "SlurmUnreachable")
    world.line.hangs = lambda _: False
    # The lists that hang have their 30 s, and the pause after them.
    await world.run_for(60.0)
    assert condition(world, "NodeSet", "compute", "SlurmReachable") == ("True", "Answering")


async def test_a_slurm_that_hangs_for_long_is_said_once(world: World) -> None:
    await small(world, 2)
    await blind_by_hanging(world)
    await world.run_for(120.0)
    world.arm()
    await world.run_for(600.0)
    assert len([each for each in world.trace if "NodeSet" in each or "nodesets" in each]) <= 2


async def test_a_slurm_that_is_always_slow_is_not_said_at_every_look(world: World) -> None:
    """Its lists take four seconds, and come: after the first time it has the patience that it needs."""
    await small(world, 2)
    heard = world.line.send

    async def slow(sending: Sending, token: str) -> Reply:
        if sending.label == "GET nodes":
            await world.clock.sleep(4.0)
        return await heard(sending, token)

    world.line.send = slow  # type: ignore[method-assign]  # the model's own seam
    await world.run_for(60.0)
    world.arm()
    await world.run_for(600.0)
    assert condition(world, "NodeSet", "compute", "SlurmReachable") == ("True", "Answering")
    assert world.trace == []
