"""Objects of others, workers out of sight, resources that cannot be read, host names twice: nothing is lost by them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import CLAIMS, KEYS, REF, small

from kube_runtime.client.write import Write
from slurm_operator.api.problem import FieldProblem
from slurm_operator.api.validate import Decoded, decode
from slurm_operator.build import controller, labels, nodeset
from slurm_operator.plan.actions import Apply, Create, Plan
from slurm_operator.plan.ownership import NameTaken
from slurm_operator.reconcile import observe
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.status_pace import StatusPace

STORAGE = {"host": "mariadb", "passwordKeyRef": {"name": "database", "key": "password"}}
SSSD = {"sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
TOKEN = {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"], "lifetime": "24h"}


def content(value: Any) -> Any:
    """All that somebody could miss; the server's own numbers aside."""
    return {**value, "metadata": {key: each for key, each in value["metadata"].items() if key != "managedFields"}}


async def post(world: World, path: str, body: dict[str, Any]) -> Any:
    return await world.ask("POST", f"{path.format(namespace=NAMESPACE)}", body)


# T4: what is somebody else's


@pytest.mark.parametrize("refresh", [True, False])
async def test_a_token_never_overwrites_a_secret_that_is_not_its_own(world: World, refresh: bool) -> None:
    """T4: the auth/slurm key became a JWT, and went with the Token."""
    before = world.stored("secrets", "slurm-key")
    await world.create("Token", "ci", {**TOKEN, "refresh": refresh, "secretRef": {"name": "slurm-key", "key": "x"}})
    await world.run_for(60.0)
    assert content(world.stored("secrets", "slurm-key")) == content(before)
    assert world.verdicts("Token", "ci")["Ready"] == ("False", "NameTaken")
    assert "Secret hpc/slurm-key" in world.conditions("Token", "ci")["Degraded"]["message"]
    await world.delete("Token", "ci")
    await world.run_for(60.0)
    assert content(world.stored("secrets", "slurm-key")) == content(before)


async def test_a_token_does_not_take_the_secret_of_another_token(world: World) -> None:
    """T4: of two Tokens with one Secret the first keeps it."""
    shared = {"secretRef": {"name": "shared", "key": "jwt"}}
    await world.create("Token", "first", {**TOKEN, **shared})
    await world.run_for(5.0)
    before = world.stored("secrets", "shared")
    await world.create("Token", "second", {**TOKEN, "username": "mallory", **shared})
    await world.run_for(30.0)
    assert content(world.stored("secrets", "shared")) == content(before)
    assert world.verdicts("Token", "second")["Ready"] == ("False", "NameTaken")
    assert "Token first" in world.conditions("Token", "second")["Ready"]["message"]


async def test_a_name_that_becomes_free_is_taken_without_anybodys_help(world: World) -> None:
    """T4: it recovers when the other object goes, and nothing is written meanwhile."""
    await post(world, "/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "ci-jwt-alice"}})
    await world.create("Token", "ci", TOKEN)
    await world.run_for(30.0)
    assert world.verdicts("Token", "ci")["Ready"] == ("False", "NameTaken")
    world.arm()
    await world.run_for(120.0)
    assert world.trace == []
    await world.delete("Secret", "ci-jwt-alice")
    await world.run_for(30.0)
    assert world.verdicts("Token", "ci")["Ready"] == ("True", "Issued")


PORTS = {"spec": {"ports": [{"port": 80}], "selector": {"app": "shop"}}}
POD = {"spec": {"containers": [{"name": "shop", "image": "shop"}]}}


@pytest.mark.parametrize(
    ("plural", "name", "body", "kind", "resource"),
    [
        ("configmaps", "slurm-config", {"data": {"slurm.conf": "mine"}}, "Controller", "slurm"),
        ("services", "slurm-controller", PORTS, "Controller", "slurm"),
        ("secrets", "books-accounting", {"data": {"my": b64encode(b"own").decode()}}, "Accounting", "books"),
        ("services", "slurm-restapi", PORTS, "RestApi", "slurm"),
        ("configmaps", "login-ssh-config", {"data": {"my": "own"}}, "LoginSet", "login"),
        ("services", "slurm-workers-slurm", PORTS, "NodeSet", "compute"),
        ("configmaps", "compute-ssh-config", {"data": {"my": "own"}}, "NodeSet", "compute"),
        ("pods", "compute-0", POD, "NodeSet", "compute"),
    ],
)
async def test_an_object_of_the_user_with_a_computed_name_is_left_as_it_is(
    world: World, plural: str, name: str, body: dict[str, Any], kind: str, resource: str
) -> None:
    """T4: neither overwritten, nor owned, which would delete it one day."""
    meta = {"name": name, "labels": {"app": "shop"}}
    made = await post(world, f"/api/v1/namespaces/{{namespace}}/{plural}", {"metadata": meta, **body})
    await world.run_for(1.0)
    await world.create("Controller", "slurm", KEYS)
    await world.create("Accounting", "books", {**KEYS, "storageConfig": STORAGE})
    await world.create("RestApi", "slurm", REF)
    await world.create("LoginSet", "login", {**REF, **SSSD})
    await world.create("NodeSet", "compute", {**REF, "replicas": 1, "ssh": {"enabled": True, **SSSD}})
    await world.run_for(90.0)
    now = world.stored(plural, name)
    assert now["metadata"]["uid"] == made["metadata"]["uid"]
    assert "ownerReferences" not in now["metadata"]
    assert {key: now[key] for key in body if key != "spec"} == {key: body[key] for key in body if key != "spec"}
    assert (now.get("spec") or {}).get("selector") == (made.get("spec") or {}).get("selector")
    assert world.verdicts(kind, resource)["Ready"] == ("False", "NameTaken")
    assert name in world.conditions(kind, resource)["Degraded"]["message"]


@pytest.mark.parametrize("action", [lambda value: Apply(value, None), Create], ids=["apply", "create"])
async def test_what_no_cache_shows_yet_is_not_taken_over(world: World, action: Callable[[Any], Any]) -> None:
    """T4: a cache that is late is no proof that a name is free."""
    await world.create("Token", "ci", {**TOKEN, "secretRef": {"name": "elsewhere", "key": "jwt"}})
    await world.run_for(5.0)
    before = await post(
        world, "/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "late"}, "data": {"a": "YQ=="}}
    )
    assert world.operator is not None
    raw = world.operator.observer.get("Token", NAMESPACE, "ci")
    assert raw is not None
    meta = {"name": "late", "namespace": NAMESPACE}
    desired = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"b": "Yg=="}}
    executor = Executor(world.operator.writer, None, StatusPace(world.clock.monotonic))  # type: ignore[arg-type]
    with pytest.raises(NameTaken, match="Secret hpc/late"):
        await executor.execute(Plan(((action(desired),),)), raw, "Token")
    assert content(world.stored("secrets", "late")) == content(before)


async def test_a_claim_that_somebody_made_is_used_and_not_owned(world: World) -> None:
    """T4: claims are known by name, as with a StatefulSet; another's owner reference on one stays."""
    held = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "ledger", "uid": ""}]
    ledger = await post(world, "/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "ledger"}})
    held[0]["uid"] = ledger["metadata"]["uid"]
    claim = {"metadata": {"name": "scratch-compute-0", "ownerReferences": held}, "spec": CLAIMS[0]["spec"]}
    await post(world, "/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
    policy = {"whenDeleted": "Delete"}
    await small(world, 1, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy)
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("True", "AllReady")
    owners = world.stored("persistentvolumeclaims", "scratch-compute-0")["metadata"]["ownerReferences"]
    assert [each["kind"] for each in owners] == ["ConfigMap"]


async def test_objects_that_lost_their_resource_are_taken_up_by_the_next_of_its_name(world: World) -> None:
    """T4: `kubectl delete --cascade=orphan` and the same again is no stranger."""
    await small(world, 1)
    before = world.stored("statefulsets.apps", "slurm-controller")["metadata"]["uid"]
    await world.ask("DELETE", f"{world._path('Controller')}/slurm", {"propagationPolicy": "Orphan"}, "application/json")
    await world.run_for(5.0)
    await world.create("Controller", "slurm", KEYS)
    await world.run_for(60.0)
    now = world.stored("statefulsets.apps", "slurm-controller")["metadata"]
    assert now["uid"] == before
    assert now["ownerReferences"][0]["uid"] == world.custom("Controller", "slurm")["metadata"]["uid"]
    assert world.verdicts("Controller", "slurm")["Ready"] == ("True", "AllReady")


# T5: workers are found by their owner


async def test_a_template_cannot_give_a_worker_another_identity(world: World) -> None:
    """T5: and whoever is taken for somebody else is not drained."""
    spec = {"subdomain": "elsewhere", "setHostnameAsFQDN": True, "hostnameOverride": "me", "nodeName": "k0"}
    await small(world, 1, template={"spec": spec})
    found = world.stored("pods", "compute-0")["spec"]
    assert (found["hostname"], found["subdomain"]) == ("compute-0", "slurm-workers-slurm")
    assert not {"setHostnameAsFQDN", "hostnameOverride"} & found.keys()


async def test_workers_are_drained_whatever_their_subdomain_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """T5: a NodeSet with workers of another subdomain was let go at once, with its jobs."""
    monkeypatch.setattr(nodeset, "_with_identity", lambda spec, _: dict(spec))
    await small(world, 1, template={"spec": {"subdomain": "elsewhere"}})
    assert world.stored("pods", "compute-0")["spec"]["subdomain"] == "elsewhere"
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("True", "AllReady")
    job = world.slurm.submit(60.0)
    await world.delete("NodeSet", "compute")
    await world.run_for(30.0)
    assert world.slurm.jobs[job].state == "RUNNING"
    assert "DRAIN" in world.slurm.nodes["compute-0"].flags
    await world.run()
    assert world.slurm.jobs[job].state == "COMPLETED"


async def test_a_nodeset_is_not_let_go_while_a_job_holds_a_node_of_its_own(world: World) -> None:
    """T5: a worker that lost its labels is out of sight, but not out of Slurm."""
    await small(world, 1, partition={"enabled": False})
    await world.create("Partition", "all", {**REF, "nodeSets": ["ALL"], "default": True})
    await world.run()
    job = world.slurm.submit(60.0, "all")
    assert world.slurm.jobs[job].nodes == ("compute-0",)
    await world.patch("Pod", "compute-0", {"metadata": {"labels": {labels.NAME: "hidden"}}})
    await world.delete("NodeSet", "compute")
    await world.run_for(30.0)
    assert world.custom("NodeSet", "compute") is not None
    assert world.slurm.jobs[job].state == "RUNNING"
    assert "holds node compute-0" in world.conditions("NodeSet", "compute")["Ready"]["message"]


async def test_another_pod_with_the_labels_of_slurmctld_is_not_believed(world: World) -> None:
    """T5: what a sidecar says is read only from the pods of our own StatefulSet."""
    await small(world, 1)
    mine = {labels.NAME: "slurmctld", labels.INSTANCE: "slurm"}
    notes = {labels.CONFIG_PROTOCOL: controller.PROTOCOL}
    body = {"metadata": {"name": "mallory", "labels": mine, "annotations": notes}, **POD}
    await post(world, "/api/v1/namespaces/{namespace}/pods", body)
    await world.run_for(5.0)
    await world.patch("Controller", "slurm", {"spec": {"extraConf": "MaxJobCount=77"}})
    await world.run_for(30.0)
    assert world.cluster.sidecar.readings
    assert "mallory" not in world.cluster.sidecar.readings
    assert world.stored("pods", "mallory")["metadata"]["annotations"] == notes


# T6: what cannot be read is not gone


def unreadable(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    """As if the API server had kept something that this release cannot convert."""

    def broken(raw: Any, *, served: bool = False) -> Decoded:
        if (raw["kind"], raw["metadata"]["name"]) == (kind, name):
            return Decoded(None, (FieldProblem(("spec",), "cannot be converted"),))
        return decode(raw, served=served)

    monkeypatch.setattr(observe, "decode", broken)


async def touched(world: World, kind: str, name: str) -> None:
    await world.patch(kind, name, {"metadata": {"annotations": {"touched": "yes"}}})


async def test_a_nodeset_waits_for_a_controller_that_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T6: its finalizer was released, and its jobs were lost."""
    await small(world, 1)
    job = world.slurm.submit(300.0)
    unreadable(monkeypatch, "Controller", "slurm")
    await touched(world, "Controller", "slurm")
    await world.delete("NodeSet", "compute")
    await world.run_for(60.0)
    assert labels.DRAIN_FINALIZER in world.custom("NodeSet", "compute")["metadata"]["finalizers"]
    assert world.slurm.jobs[job].state == "RUNNING"
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("False", "ReferenceUnreadable")
    assert "Controller 'slurm'" in world.conditions("NodeSet", "compute")["Degraded"]["message"]


async def test_a_nodeset_without_a_controller_is_still_let_go(world: World) -> None:
    """T6: known to be absent is another matter."""
    await small(world, 1)
    await world.delete("Controller", "slurm")
    await world.run_for(5.0)
    world.judge.expect_loss = True
    await world.delete("NodeSet", "compute")
    await world.run_for(60.0)
    assert world.custom("NodeSet", "compute") is None


@pytest.mark.parametrize("broken", ["Controller", "Partition"])
async def test_a_partition_is_not_let_go_unread(world: World, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """T6: neither its Controller nor itself."""
    await small(world, 1)
    await world.create("Partition", "all", {**REF, "nodeSets": ["compute"]})
    await world.run()
    name = "slurm" if broken == "Controller" else "all"
    unreadable(monkeypatch, broken, name)
    await touched(world, broken, name)
    await world.delete("Partition", "all")
    await world.run_for(60.0)
    assert labels.PARTITION_FINALIZER in world.custom("Partition", "all")["metadata"]["finalizers"]
    assert "all" in world.slurm.partitions
    await world.patch("Partition", "all", {"metadata": {"annotations": {labels.PARTITION_FORCE_DELETE: "true"}}})
    await world.run_for(30.0)
    assert world.custom("Partition", "all") is None


@pytest.mark.parametrize(("kind", "name"), [("NodeSet", "compute"), ("Partition", "all"), ("RestApi", "slurm")])
async def test_the_last_configuration_stays_while_a_part_of_it_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    """T6: its lines left slurm.conf, and its jobs with them."""
    await small(world, 1)
    await world.create("Partition", "all", {**REF, "nodeSets": ["compute"]})
    await world.run()
    before = world.stored("configmaps", "slurm-config")["data"]
    unreadable(monkeypatch, kind, name)
    await touched(world, kind, name)
    await touched(world, "Controller", "slurm")
    await world.run_for(60.0)
    assert world.stored("configmaps", "slurm-config")["data"] == before
    assert {"compute", "all"} <= set(world.slurm.partitions)
    assert world.verdicts("Controller", "slurm")["Degraded"] == ("True", "ReferenceUnreadable")
    assert f"{kind} {name!r}" in world.conditions("Controller", "slurm")["Degraded"]["message"]


async def test_an_unreadable_nodeset_keeps_its_share_of_what_workers_share(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T6: its sibling would have become the only owner of the workers' Service."""
    await small(world, 1)
    await world.create("NodeSet", "gpu", {**REF, "replicas": 1})
    await world.run()
    before = world.stored("services", "slurm-workers-slurm")["metadata"]["ownerReferences"]
    unreadable(monkeypatch, "NodeSet", "compute")
    await touched(world, "NodeSet", "compute")
    await world.patch("NodeSet", "gpu", {"spec": {"replicas": 2}})
    await world.run_for(30.0)
    assert world.stored("services", "slurm-workers-slurm")["metadata"]["ownerReferences"] == before
    assert len(world.pods("gpu")) == 2


async def test_a_worker_that_cannot_be_read_is_not_taken_for_gone(world: World) -> None:
    """T6: the same of pods: nothing is made, removed or let go."""
    await small(world, 2)
    assert world.operator is not None
    (cache,) = world.operator.observer.pods
    list(cache._store.drop((NAMESPACE, "compute-1")))
    cache.unreadable[NAMESPACE, "compute-1"] = "cannot be converted"
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
    await world.run_for(30.0)
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("False", "ReferenceUnreadable")
    assert set(world.pods()) == {"compute-0", "compute-1"}


# T9: one host name, one worker


async def test_two_nodesets_with_one_prefix_do_not_write_to_one_record_in_turns(world: World) -> None:
    """T9: 1,426 writes, and no end."""
    await world.create("Controller", "slurm", KEYS)
    await world.create("RestApi", "slurm", REF)
    template = {"template": {"spec": {"hostname": "w"}}}
    await world.create("NodeSet", "older", {**REF, "replicas": 2, **template})
    await world.run_for(30.0)
    await world.create("NodeSet", "newer", {**REF, "replicas": 3, **template})
    await world.run()
    assert sorted(world.pods("older")) == ["older-0", "older-1"]
    assert sorted(world.pods("newer")) == ["newer-2"]
    assert world.verdicts("NodeSet", "older")["Ready"] == ("True", "AllReady")
    assert world.verdicts("NodeSet", "newer")["Ready"] == ("False", "DuplicateHostname")
    message = world.conditions("NodeSet", "newer")["Degraded"]["message"]
    assert all(each in message for each in ("host name w0", "1 more", "NodeSet older", "NodeSet newer"))
    assert json.loads(world.slurm.nodes["w0"].comment)["nodeSetName"] == "older"
    world.arm()
    await world.run_for(300.0)
    assert world.trace == []
    await world.delete("NodeSet", "older")
    await world.run()
    assert sorted(world.pods("newer")) == ["newer-0", "newer-1", "newer-2"]
    assert world.verdicts("NodeSet", "newer")["Ready"] == ("True", "AllReady")


async def test_who_has_a_pod_keeps_its_name_when_an_older_nodeset_grows_into_it(world: World) -> None:
    """T9: a worker with jobs is not joined by another slurmd of its name."""
    await world.create("Controller", "slurm", KEYS)
    await world.create("RestApi", "slurm", REF)
    await world.create("NodeSet", "older", {**REF, "replicas": 1, "template": {"spec": {"hostname": "w"}}})
    await world.run_for(5.0)
    await world.create("NodeSet", "newer", {**REF, "replicas": 1, "template": {"spec": {"hostname": "w1"}}})
    await world.run()
    assert set(world.slurm.nodes) == {"w0", "w10"}
    await world.patch("NodeSet", "older", {"spec": {"replicas": 12}})
    await world.run()
    assert "older-10" not in world.pods("older")
    assert "older-11" in world.pods("older")
    assert json.loads(world.slurm.nodes["w10"].comment)["nodeSetName"] == "newer"
    assert world.verdicts("NodeSet", "newer")["Ready"] == ("True", "AllReady")
    assert world.verdicts("NodeSet", "older")["Ready"] == ("False", "DuplicateHostname")
    world.arm()
    await world.run_for(120.0)
    assert world.trace == []


async def test_two_kubernetes_nodes_of_one_short_name_get_one_worker(world: World) -> None:
    """T9: k9.rack1 and k9.rack2 shared a record and counted as two."""
    for name in ("k9.rack1", "k9.rack2"):
        await world.ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"rack": "yes"}}})
    await small(world, 1, scalingMode="DaemonSet", template={"spec": {"nodeSelector": {"rack": "yes"}}})
    (pod,) = world.pods().values()
    assert pod["metadata"]["annotations"][labels.ASSIGNED_NODE] == "k9.rack1"
    status = world.custom("NodeSet", "compute")["status"]
    assert (status["desired"], status["readyReplicas"]) == (2, 1)
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("False", "DuplicateHostname")
    override = {"metadata": {"annotations": {labels.HOSTNAME_OVERRIDE: "k9b"}}}
    await world.ask("PATCH", "/api/v1/nodes/k9.rack2", override, "application/merge-patch+json")
    await world.run()
    assert set(world.slurm.nodes) == {"k9", "k9b"}
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("True", "AllReady")


async def test_two_nodesets_of_daemon_mode_on_one_node_make_one_worker(world: World) -> None:
    """T9: the older NodeSet has it."""
    daemon = {**REF, "scalingMode": "DaemonSet", "oversubscribeNode": True}
    await world.create("Controller", "slurm", KEYS)
    await world.create("RestApi", "slurm", REF)
    await world.create("NodeSet", "older", daemon)
    await world.run_for(1.0)
    await world.create("NodeSet", "newer", daemon)
    await world.run()
    assert (len(world.pods("older")), len(world.pods("newer"))) == (3, 0)
    assert world.verdicts("NodeSet", "newer")["Ready"] == ("False", "DuplicateHostname")


# T17: a delete is of the version that was judged


def deletes(world: World) -> list[Write]:
    seen: list[Write] = []
    assert world.operator is not None
    before = world.operator.writer.before

    async def noting(write: Write) -> None:
        if write.verb == "delete":
            seen.append(write)
        await before(write)

    world.operator.writer.before = noting
    return seen


async def test_every_delete_names_the_version_that_was_judged(world: World) -> None:
    """T17: pod deletes carried no resourceVersion."""
    await small(world, 3, ssh={"enabled": True, **SSSD})
    seen = deletes(world)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1, "ssh": {"enabled": False}}})
    await world.run()
    assert len(world.pods()) == 1
    assert {each.resource.kind for each in seen} >= {"Pod", "ConfigMap"}
    assert all(each.body["uid"] and each.body["resource_version"] for each in seen)


async def test_a_worker_that_changed_since_it_was_judged_is_judged_again_at_once(world: World) -> None:
    """T17: a kubelet may write to a pod at any time; that costs one more look, and no growing wait."""
    await small(world, 2)
    assert world.operator is not None
    before = world.operator.writer.before
    overtaken: list[float] = []

    async def kubelet_is_faster(write: Write) -> None:
        await before(write)
        if write.verb == "delete" and write.resource.kind == "Pod" and len(overtaken) < 3:
            overtaken.append(world.clock.monotonic())
            note = {"metadata": {"annotations": {"kubelet": str(len(overtaken))}}}
            await world.patch("Pod", write.name, note)

    world.operator.writer.before = kubelet_is_faster
    world.arm()
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run()
    assert set(world.pods()) == {"compute-0"}
    assert len(overtaken) == 3
    assert overtaken[-1] - overtaken[0] <= 2.5
    assert world.verdicts("NodeSet", "compute")["Ready"] == ("True", "AllReady")
