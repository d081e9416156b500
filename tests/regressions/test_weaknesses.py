"""What others got wrong, one test each: the number is that of the weakness, the name says what must not happen here."""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.build import resources
from tests.campaigns.rig import CANARY, World
from tests.campaigns.scenarios import CLAIMS, KEYS, REF, small
from tests.plan.small_cluster import Cluster, of_type

from slurm_operator.api.meta import INT32_MAX
from slurm_operator.build import accounting, controller, labels, nodeset
from slurm_operator.build.slurm_conf import slurm_conf
from slurm_operator.plan import token
from slurm_operator.plan.actions import Delete, Drain
from slurm_operator.plan.leaving import SCALE_IN
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.slurm.token import mint

# Of the list of what was noticed: those that are about behaviour. The others are about size, or have their own kinds.
WEAKNESSES = {*range(1, 7), *range(8, 18), *range(21, 29), *range(31, 40)}


def test_every_weakness_has_its_test() -> None:
    named = (re.match(r"test_(\d\d)_\w{20}", name) for name in globals())
    assert {int(each[1]) for each in named if each} == WEAKNESSES


async def scale(world: World, replicas: int) -> None:
    await world.patch("NodeSet", "compute", {"spec": {"replicas": replicas}})


async def busy(world: World, replicas: int, **spec: Any) -> None:
    await small(world, replicas, **spec)
    for _ in range(replicas):
        world.slurm.submit(10_000.0)
    await world.run()


def ready(world: World, kind: str, name: str) -> tuple[str, str]:
    found = world.custom(kind, name)["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in found if each["type"] == "Ready")


def template(world: World, name: str, resource: str = "statefulsets.apps") -> Any:
    return world.stored(resource, name)["spec"]["template"]


def _owner(value: Any) -> str:
    return str(value["metadata"]["ownerReferences"][0]["name"])


def worker_template(**spec: Any) -> Any:
    cr, owner = resources.nodeset(**spec), resources.controller()
    return nodeset.pod_template(cr, owner, resources.refs(owner, cr))


# Safety


async def test_01_no_slurm_client_is_not_taken_for_drained(world: World) -> None:
    await busy(world, 3)
    await scale(world, 2)
    await world.run_for(3.0)
    assert "DRAIN" in world.slurm.nodes["compute-2"].flags
    # One has been chosen to go by Slurm's word, the others are chosen without it.
    await world.delete("RestApi", "slurm")
    await scale(world, 0)
    await world.run_for(300.0)
    assert sorted(world.pods()) == ["compute-0", "compute-1", "compute-2"]


async def test_02_a_claim_outlives_a_cordon_and_an_update(world: World) -> None:
    await small(world, 1, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"})
    uid = world.stored("persistentvolumeclaims", "scratch-compute-0")["metadata"]["uid"]
    await world.patch("Pod", "compute-0", {"metadata": {"annotations": {labels.POD_CORDON: "true"}}})
    await world.run()
    await world.patch("NodeSet", "compute", {"spec": {"slurmd": {"image": "example.org/new:1"}}})
    await world.run()
    assert world.stored("persistentvolumeclaims", "scratch-compute-0")["metadata"]["uid"] == uid


async def test_03_a_deleted_nodeset_keeps_its_workers_and_its_partition_while_jobs_need_them(world: World) -> None:
    await busy(world, 1)
    await world.delete("NodeSet", "compute")
    await world.run_for(300.0)
    assert sorted(world.pods()) == ["compute-0"]
    assert "compute" in world.slurm.partitions


async def test_04_busy_workers_are_protected_in_daemonset_mode_too(world: World) -> None:
    await small(world, 1, scalingMode="DaemonSet")
    world.slurm.submit(1000.0)
    await world.run_for(6.0)
    protected = [pod for pod in world.pods().values() if pod["metadata"]["labels"].get(labels.POD_PROTECT) == "true"]
    assert len(protected) == 1
    assert world.stored("poddisruptionbudgets.policy")[0]["spec"]["minAvailable"] == INT32_MAX


async def test_05_a_users_pod_cordon_is_not_undone(world: World) -> None:
    await small(world, 2)
    await world.patch("Pod", "compute-1", {"metadata": {"annotations": {labels.POD_CORDON: "true"}}})
    await world.run_for(300.0)
    assert world.stored("pods", "compute-1")["metadata"]["annotations"][labels.POD_CORDON] == "true"
    assert "DRAIN" in world.slurm.nodes["compute-1"].flags


def test_06_of_two_workers_on_one_node_the_better_one_stays(cluster: Cluster) -> None:
    cr = cluster.nodeset(scalingMode="DaemonSet")
    pods = [cluster.pod("w-a", host="k1"), cluster.pod("w-b", host="k1", ready=False)]
    world = cluster.world(cr, pods, cluster.slurm(cluster.node("k1")))
    assert list(world.choice.leaving) == ["w-b"]


# The control plane


async def test_08_a_new_nodeset_does_not_restart_slurmctld(world: World) -> None:
    await small(world, 1)
    before = template(world, "slurm-controller")
    await world.create("NodeSet", "more", {**REF, "replicas": 1, "partition": {"enabled": True}})
    await world.run()
    assert "more" in world.slurm.partitions
    assert template(world, "slurm-controller") == before


async def test_09_an_annotation_on_a_resource_does_not_restart_its_daemons(world: World) -> None:
    await small(world, 1)
    before = template(world, "slurm-controller"), template(world, "slurm-restapi", "deployments.apps")
    for kind in ("Controller", "RestApi", "NodeSet"):
        name = "compute" if kind == "NodeSet" else "slurm"
        notes = {"annotations": {"example.org/note": "x"}, "labels": {"example.org/chart": "2"}}
        await world.patch(kind, name, {"metadata": notes})
    uid = world.stored("pods", "compute-0")["metadata"]["uid"]
    await world.run()
    assert (template(world, "slurm-controller"), template(world, "slurm-restapi", "deployments.apps")) == before
    assert world.stored("pods", "compute-0")["metadata"]["uid"] == uid


async def test_10_a_changed_user_file_reaches_a_controller_that_restarts_for_it(world: World) -> None:
    body = {"metadata": {"name": "files"}, "data": {"gres.conf": "# one"}}
    await world.ask("POST", "/api/v1/namespaces/hpc/configmaps", body)
    spec = {**KEYS, "inplaceReconfigure": False, "configFileRefs": [{"name": "files"}]}
    await world.create("Controller", "slurm", spec)
    await world.run()
    before = template(world, "slurm-controller")["metadata"]["annotations"]
    await world.patch("ConfigMap", "files", {"data": {"gres.conf": "# two"}})
    await world.run_for(1.0)
    assert template(world, "slurm-controller")["metadata"]["annotations"] != before


async def test_11_a_new_slurm_key_reaches_slurmrestd_and_login_pods(world: World) -> None:
    await small(world, 1)
    await world.create("LoginSet", "login", {**REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}})
    await world.run()
    names = ("slurm-restapi", "login")
    before = [template(world, name, "deployments.apps")["metadata"]["annotations"] for name in names]
    key = base64.b64encode(CANARY + b"-new").decode()
    await world.patch("Secret", "slurm-key", {"data": {"slurm.key": key}})
    await world.run_for(1.0)
    after = [template(world, name, "deployments.apps")["metadata"]["annotations"] for name in names]
    assert all(new != old for new, old in zip(after, before, strict=True))


def test_11_a_token_of_an_old_key_is_made_anew() -> None:
    jwt = mint(b"old", user="alice", now=0, life=100, token_id="x")
    assert token.read(jwt, b"new") is None
    assert token.renewal(None, user="alice", refresh=True, exists=True, now=1.0).needed


def test_12_a_stateful_set_keeps_the_service_that_it_was_made_with() -> None:
    cr = resources.controller()
    refs = resources.refs(cr, governing_services={"slurm-controller": "slurm-controller"})
    (made,) = [each for each in controller.objects(cr, refs) if each["kind"] == "StatefulSet"]
    assert made["spec"]["serviceName"] == "slurm-controller"


def test_13_an_external_accounting_is_named_in_slurm_conf() -> None:
    books = resources.accounting(external=True, externalConfig={"host": "dbd.example.org", "port": 6819})
    cr = resources.controller(accountingRef={"name": "books"})
    assert "AccountingStorageHost=dbd.example.org" in str(slurm_conf(cr, resources.refs(cr, books)).text)


# Latency and scale


async def test_14_a_drain_in_slurm_is_in_the_pod_within_six_seconds(world: World) -> None:
    await small(world, 1)
    world.slurm.admin_drain("compute-0")
    await world.run_for(6.0)
    types = {each["type"] for each in world.stored("pods", "compute-0")["status"]["conditions"]}
    assert "SlurmNodeStateDrain" in types
    assert world.custom("NodeSet", "compute")["status"]["slurmDrain"] == 1


async def test_15_a_new_kubernetes_node_gets_its_worker_at_once(world: World) -> None:
    await small(world, 1, scalingMode="DaemonSet")
    await world.ask("POST", "/api/v1/nodes", {"metadata": {"name": "k9"}})
    await world.run_for(0.5)
    assert len(world.pods()) == 4


async def test_15_a_node_that_comes_to_fit_gets_its_worker_at_once_and_one_that_no_longer_does_loses_it(
    world: World,
) -> None:
    selected = {"spec": {"nodeSelector": {"example.org/slurm": "yes"}}}
    await small(world, 1, scalingMode="DaemonSet", template=selected)
    assert world.pods() == {}
    content, label = "application/merge-patch+json", {"metadata": {"labels": {"example.org/slurm": "yes"}}}
    await world.ask("PATCH", "/api/v1/nodes/k1", label, content)
    await world.run_for(0.5)
    assert len(world.pods()) == 1
    await world.run()
    taint = {"spec": {"taints": [{"key": "example.org/broken", "effect": "NoExecute"}]}}
    await world.ask("PATCH", "/api/v1/nodes/k1", taint, content)
    await world.run_for(5.0)
    assert world.pods() == {}


def test_16_many_nodes_of_one_reason_are_one_call(cluster: Cluster) -> None:
    kube = cluster.kube_node(metadata={"annotations": {labels.NODE_CORDON_REASON: "x"}}, unschedulable=True)
    pods = [cluster.pod(f"w-{number}") for number in range(50)]
    slurm = cluster.slurm(*(cluster.node(f"w-{number}") for number in range(50)))
    world = cluster.world(cluster.nodeset(replicas=50), pods, slurm, [kube])
    assert [len(action.nodes) for action in of_type(plan_nodeset(world), Drain)] == [50]


async def test_16_a_quiet_minute_costs_slurm_a_bounded_number_of_calls(world: World) -> None:
    await small(world, 8)
    world.arm()
    await world.run_for(60.0)
    assert len(world.calls) <= 60 / 5 * 3 + 3


async def test_17_workers_are_made_while_slurmctld_is_down(world: World) -> None:
    await small(world, 1)
    # It takes every call, and answers none.
    world.line.hangs = lambda _: True
    await scale(world, 4)
    await world.run_for(5.0)
    assert len(world.pods()) == 4


def test_21_the_node_count_follows_the_nodesets() -> None:
    cr, huge = resources.controller(), resources.nodeset(replicas=3000)
    text = slurm_conf(cr, resources.refs(cr, huge)).text
    (line,) = [each for each in text.splitlines() if each.startswith("MaxNodeCount=")]
    assert int(line.partition("=")[2]) >= 3000


# Correctness


async def test_22_a_pod_that_vanishes_freezes_nobody(world: World) -> None:
    await small(world, 3)
    await scale(world, 5)
    await world.delete("Pod", "compute-1")
    await world.run_for(10.0)
    assert len(world.pods()) == 5


async def test_23_revisions_are_numbered_and_do_not_pile_up(world: World) -> None:
    await small(world, 1)
    for number in range(3):
        await world.patch("NodeSet", "compute", {"spec": {"slurmd": {"image": f"example.org/slurmd:{number}"}}})
        await world.run()
    revisions = [each for each in world.stored("controllerrevisions.apps") if _owner(each) == "compute"]
    assert [each["revision"] for each in revisions] == [4]


def test_24_a_topology_is_never_an_empty_option_of_slurmd() -> None:
    made = worker_template(slurmd={"resources": {"limits": {"cpu": 2}}})
    args = next(each for each in made["spec"]["containers"] if each["name"] == "slurmd")["args"]
    assert "Topology" not in " ".join(args)


async def test_25_records_do_not_outlive_their_workers(world: World) -> None:
    await small(world, 2)
    world.slurm.nodes["compute-1"].features = ["stale"]
    await world.patch("NodeSet", "compute", {"spec": {"extraConf": "Weight=7"}})
    await world.run()
    assert world.slurm.nodes["compute-1"].features == ["compute"]
    await scale(world, 1)
    await world.run()
    assert sorted(world.slurm.nodes) == ["compute-0"]


def test_26_false_and_zero_override() -> None:
    made = worker_template(slurmd={"securityContext": {"privileged": False}, "terminationMessagePath": ""})
    slurmd = next(each for each in made["spec"]["containers"] if each["name"] == "slurmd")
    assert slurmd["securityContext"]["privileged"] is False


def test_27_lists_of_the_user_do_not_drop_ours() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    made = worker_template(template={"spec": {"tolerations": [toleration], "dnsConfig": {"searches": ["a.org"]}}})
    assert {each["key"] for each in made["spec"]["tolerations"]} >= {"gpu", labels.WORKER_TAINT}
    assert len(made["spec"]["dnsConfig"]["searches"]) == 2


def test_28_workers_of_daemonset_mode_tolerate_what_daemons_do() -> None:
    keys = {each["key"] for each in worker_template(scalingMode="DaemonSet")["spec"]["tolerations"]}
    assert {"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"} <= keys


async def test_31_a_moved_window_is_written_once(world: World) -> None:
    window = {"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": "2030-01-01T05:00:00Z", "duration": "30m"}}
    await small(world, 1, updateStrategy=window)
    window["scheduledUpdate"] = {"startTime": "2030-01-01T06:00:00Z", "duration": "1h"}
    await world.patch("NodeSet", "compute", {"spec": {"updateStrategy": window}})
    await world.run()
    world.arm()
    await world.run_for(120.0)
    assert world.trace == []


async def test_32_shared_objects_are_repaired_and_forget_owners_that_left(world: World) -> None:
    await small(world, 1)
    await world.create("NodeSet", "more", {**REF, "replicas": 0})
    await world.run()
    path = "slurm-workers-slurm"
    assert len(world.stored("services", path)["metadata"]["ownerReferences"]) == 2
    await world.delete("NodeSet", "more")
    body = {"spec": {"ports": [{"name": "x", "port": 1}]}}
    await world.patch("Service", path, body)
    await world.run()
    assert [each["name"] for each in world.stored("services", path)["metadata"]["ownerReferences"]] == ["compute"]
    assert 6818 in [each["port"] for each in world.stored("services", path)["spec"]["ports"]]


def test_33_merged_values_keep_their_case() -> None:
    cr = resources.controller(extraConf="SlurmctldParameters=Enable_X\nJobSubmitPlugins=lua\nPrologFlags=Contain\n")
    assert "Enable_X" in slurm_conf(cr, resources.refs(cr)).text


def test_34_accounting_pods_follow_their_template() -> None:
    cr = resources.accounting(template={"metadata": {"labels": {"team": "hpc"}}})
    (made,) = [each for each in accounting.objects(cr, resources.refs(cr)) if each["kind"] == "StatefulSet"]
    assert made["spec"]["template"]["metadata"]["labels"]["team"] == "hpc"


async def test_35_a_template_that_cannot_be_built_makes_no_pod_and_says_why(world: World) -> None:
    await small(world, 1)
    await world.create("NodeSet", "bad", {**REF, "replicas": 1, "extraConf": "no-equals-sign"})
    await world.run()
    assert world.pods("bad") == {}
    assert ready(world, "NodeSet", "bad") == ("False", "InvalidSpec")


def test_36_volumes_come_in_the_order_of_their_templates() -> None:
    claims = [{"metadata": {"name": name}, "spec": {}} for name in ("z", "a", "m")]
    cr, owner = resources.nodeset(volumeClaimTemplates=claims), resources.controller()
    made = nodeset.pod(
        cr, nodeset.pod_template(cr, owner, resources.refs(owner, cr)), nodeset.WorkerIdentity(ordinal=0)
    )
    assert [each["name"] for each in made["spec"]["volumes"]][:3] == ["z", "a", "m"]


async def test_37_a_deleted_token_takes_its_secret_along(world: World) -> None:
    await world.create("Token", "ci", {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"]})
    await world.run_for(5.0)
    assert world.stored("secrets", "ci-jwt-alice") is not None
    await world.delete("Token", "ci")
    await world.run_for(5.0)
    assert world.stored("secrets", "ci-jwt-alice") is None
    assert world.stored("secrets", "jwt-key") is not None


async def test_38_a_restarted_pod_does_not_leave_its_node_down(world: World) -> None:
    await small(world, 1)
    world.slurm.stop_slurmd("compute-0", nodeset.TERMINATING)
    world.slurm.register("compute-0")
    await world.run_for(10.0)
    assert world.slurm.nodes["compute-0"].base == "IDLE"


def test_39_a_choice_is_made_once(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0", annotations={labels.CONDEMNED: SCALE_IN}), cluster.pod("w-1")]
    slurm = cluster.slurm(cluster.node("w-0", "MIXED"), cluster.node("w-1"), jobs=[cluster.job(1, "w-0")])
    world = cluster.world(cluster.nodeset(replicas=1), pods, slurm)
    assert list(world.choice.leaving) == ["w-0"]
    assert of_type(plan_nodeset(world), Delete) == []
