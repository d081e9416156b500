"""What hostile users, tenants and impatient administrators do: no job, no data and no privilege is lost by it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from tests.admission.rules.test_privileged_worker import OFF, refused
from tests.admission.rules.test_reach import raw, refs
from tests.build.resources import controller, nodeset
from tests.build.resources import refs as around
from tests.campaigns.rig import JWT_KEY, NAMESPACE, World
from tests.campaigns.scenarios import CLAIMS, KEYS, REF, small
from tests.campaigns.slurm_model import Line, SlurmModel

from kube_runtime.client.write import Write
from kube_runtime.clock import Clock
from kube_runtime.loop.metrics import MAX_FAULT_PLACES
from slurm_operator.admission import rules
from slurm_operator.admission.lanes import SMALL_BYTES
from slurm_operator.admission.server import Bodies
from slurm_operator.api.problem import errors, format_path
from slurm_operator.api.validate import decode
from slurm_operator.build import labels
from slurm_operator.build import nodeset as build_nodeset
from slurm_operator.metrics import OperatorMetrics
from slurm_operator.reconcile.clusters import Cluster, SlurmTarget
from slurm_operator.slurm.client import SlurmClient
from slurm_operator.slurm.model import Absent, Node, SlurmList
from slurm_operator.slurm.one_by_one import ONE_BY_ONE_SECONDS
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.vanished import DOUBT_SECONDS

OTHER = {"controllerRef": {"name": "other"}}


@dataclass
class TwoClusters(World):
    """A world with a second Slurm, behind the RestApi `other`, that has never heard of the first one's nodes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.second = SlurmModel(self.clock, JWT_KEY, self.release, "hpc_other")
        self.second.up = True
        self.second_line = Line(self.second, lambda _, go: go())

    def _connect(self, target: SlurmTarget, token: TokenSource, clock: Clock) -> SlurmClient:
        if "other" not in target.address:
            return super()._connect(target, token, clock)
        line, name = self.second_line, target.cluster_name
        return SlurmClient(
            target.address, token, cluster=name, transport=line, monotonic=clock.monotonic, inline_bytes=sys.maxsize
        )


@pytest.fixture
async def two() -> AsyncIterator[TwoClusters]:
    world = TwoClusters()
    await world.open()
    yield world
    await world.close()


def said(world: World, name: str, type_: str = "Ready") -> tuple[str, str]:
    found = world.custom("NodeSet", name)["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in found if each["type"] == type_)


async def busy(world: World) -> dict[str, str]:
    """One job on three workers of the first cluster, and a second cluster beside it."""
    await small(world, 3)
    await world.create("Controller", "other", KEYS)
    await world.create("RestApi", "other", OTHER)
    world.slurm.submit(10_000.0)
    await world.run_for(5.0)
    return uids(world)


def uids(world: World) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}


async def test_workers_are_not_judged_by_another_cluster_when_the_nodeset_is_given_to_it(two: TwoClusters) -> None:
    """Without the webhook a controllerRef can change: all workers were unregistered there, and went with their jobs."""
    before = await busy(two)
    await two.patch("NodeSet", "compute", {"spec": OTHER})
    await two.run_for(90.0)
    assert two.slurm.lost == []
    assert uids(two) == before
    assert said(two, "compute") == ("False", "WrongCluster")
    assert not two.judge.violations


async def test_a_nodeset_adopts_no_worker_of_another_cluster(two: TwoClusters) -> None:
    """A NodeSet that lost its finalizer by hand, and a namesake in another cluster: the namesake took the busy pods."""
    before = await busy(two)
    for name in before:
        await two.patch("Pod", name, {"metadata": {"ownerReferences": None}})
    await two.patch("NodeSet", "compute", {"metadata": {"finalizers": None}})
    await two.delete("NodeSet", "compute")
    await two.create("NodeSet", "compute", {**OTHER, "replicas": 3})
    await two.run_for(90.0)
    assert two.slurm.lost == []
    assert uids(two) == before
    assert not any(pod["metadata"].get("ownerReferences") for pod in two.pods().values())
    assert said(two, "compute") == ("False", "WrongCluster")


EXTERNAL = {**KEYS, "external": True, "externalConfig": {"host": "slurmctld.example.org", "port": 6817}}


async def elsewhere(world: World) -> dict[str, str]:
    """Two workers for a Slurm that runs elsewhere, whose name nobody has written down."""
    world.cluster.slurm_is_elsewhere = True
    await world.create("Controller", "slurm", EXTERNAL)
    await world.create("RestApi", "slurm", REF)
    await world.create("NodeSet", "compute", {**REF, "replicas": 2})
    await world.run()
    assert said(world, "compute") == ("True", "AllReady")
    return uids(world)


@pytest.mark.parametrize("restarts", [False, True], ids=["the operator runs on", "the operator is restarted"])
async def test_an_external_slurm_without_a_name_stays_the_one_that_answered_first(world: World, restarts: bool) -> None:
    """Somebody else's slurmrestd at its address had none of the workers: all went, with their jobs."""
    before = await elsewhere(world)
    nodes = dict(world.slurm.nodes)
    world.slurm.cluster_name, world.slurm.nodes = "somebody_else", {}
    world.slurm.touch("nodes")
    if restarts:
        await world.stop_operator()
        await world.start_operator()
    await world.run_for(200.0)
    assert uids(world) == before
    assert said(world, "compute") == ("Unknown", "WrongCluster")
    await world.patch("Controller", "slurm", {"spec": {"clusterName": "somebody_else"}})
    world.slurm.nodes = nodes
    world.slurm.touch("nodes")
    await world.run()
    assert said(world, "compute") == ("True", "AllReady"), "its name was changed on purpose"
    assert world.custom("Controller", "slurm")["status"]["clusterName"] == "somebody_else"


@pytest.mark.parametrize(
    "second",
    [
        {"externalConfig": EXTERNAL["externalConfig"]},
        {"externalConfig": {"host": "10.1.2.3", "port": 6817}},
    ],
    ids=["at the same address", "at another address, which is the same machine"],
)
async def test_two_controllers_of_one_slurm_do_not_write_to_one_node(world: World, second: dict[str, Any]) -> None:
    """Each wrote its own comment over the other's, and judged the other's worker as its own."""
    await elsewhere(world)
    comment = world.slurm.nodes["compute-0"].comment
    await world.create("Controller", "again", {**EXTERNAL, **second})
    await world.create("RestApi", "again", {"controllerRef": {"name": "again"}})
    twin = {"controllerRef": {"name": "again"}, "replicas": 1, "template": {"spec": {"hostname": "compute-"}}}
    await world.create("NodeSet", "twin", twin)
    await world.run_for(60.0)
    assert world.pods("twin") == {}
    assert world.slurm.nodes["compute-0"].comment == comment
    assert said(world, "twin") == ("False", "DuplicateHostname")
    assert said(world, "compute") == ("True", "AllReady")


async def test_a_status_keeps_what_it_knows_while_something_is_in_the_way(world: World) -> None:
    """Autoscalers read `replicas`, and pins are kept in `ordinalToNode`: both vanished with a spelling mistake."""
    await small(world, 2, pinToNode=True)
    before = world.custom("NodeSet", "compute")["status"]
    await world.patch("NodeSet", "compute", {"spec": {"extraConf": "nonsense"}})
    await world.run_for(5.0)
    after = world.custom("NodeSet", "compute")["status"]
    assert said(world, "compute") == ("False", "InvalidSpec")
    assert {key: after.get(key) for key in ("replicas", "readyReplicas", "ordinalToNode")} == {
        key: before[key] for key in ("replicas", "readyReplicas", "ordinalToNode")
    }


async def test_data_of_others_does_not_go_with_a_nodeset_because_of_its_name(world: World) -> None:
    """`data-mysql-0` of a StatefulSet is also the claim of a NodeSet `mysql`: it went when the NodeSet was deleted."""
    claim = {"metadata": {"name": "scratch-compute-0", "labels": {"app": "mysql"}}, "spec": CLAIMS[0]["spec"]}
    await world.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", claim)
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    await small(world, 2, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy)
    await world.delete("NodeSet", "compute")
    await world.run_for(60.0)
    found = world.stored("persistentvolumeclaims", "scratch-compute-0")
    assert found is not None
    assert "ownerReferences" not in found["metadata"]
    assert world.stored("persistentvolumeclaims", "scratch-compute-1") is None


async def test_a_new_job_with_the_id_of_a_lost_one_does_not_stand_for_it(world: World) -> None:
    """slurmctld lost its state and began to count anew: the worker of the suspended job 1 went at once."""
    await small(world, 1)
    world.slurm.submit(10_000.0)
    world.slurm.suspend(1)
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 0}})
    await world.run_for(10.0)
    assert len(world.pods()) == 1
    world.slurm.forget_all_jobs()
    assert world.slurm.submit(10_000.0) == 1
    await world.run_for(DOUBT_SECONDS - 10.0)
    assert len(world.pods()) == 1
    await world.run_for(30.0)
    assert world.pods() == {}, "in the end Slurm's word holds: there is no such job any more"


# A privileged worker

SSH = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}


@pytest.mark.parametrize(
    "name",
    [
        "HWLOC_PLUGINS_PATH",
        "PMIX_MCA_mca_base_component_path",
        "UCX_MODULE_DIR",
        "HDF5_PLUGIN_PATH",
        "DBUS_SYSTEM_BUS_ADDRESS",
        "OPENSSL_CONF",
        "LUA_CPATH",
        "HOME",
    ],
)
def test_libraries_of_slurmd_take_no_code_from_the_environment_of_a_nodeset(name: str) -> None:
    """hwloc and its like load plugins of any folder, and D-Bus runs a program as an address."""
    slurmd = {"env": [{"name": name, "value": "/home/mine"}]}
    assert refused({"slurmd": slurmd}, refs(frozenset())) == ["spec.slurmd.env[0].name"]
    assert not refused({"slurmd": {**slurmd, **OFF}}, refs(frozenset()))


@pytest.mark.parametrize("prefix", ["GCONV_", "GLIBC_", "P11_", "UCX_", "HWLOC_PLUGINS_"])
def test_no_prefix_makes_such_a_variable(prefix: str) -> None:
    slurmd = {"envFrom": [{"configMapRef": {"name": "c"}, "prefix": prefix}]}
    assert refused({"slurmd": slurmd}, refs(frozenset())) == ["spec.slurmd.envFrom[0]"]


def test_containers_of_a_privileged_worker_do_not_share_their_processes() -> None:
    """Root of a sidecar writes to slurmd's files by /proc/PID/root of a job."""
    spec = {"template": {"spec": {"shareProcessNamespace": True}}}
    assert refused(spec, refs(frozenset())) == ["spec.template.spec.shareProcessNamespace"]
    assert not refused({**spec, "slurmd": OFF}, refs(frozenset()))
    assert not refused(spec, refs(frozenset({"privileged"})))


def test_a_privileged_worker_gets_no_block_device_of_the_users() -> None:
    spec = {"slurmd": {"volumeDevices": [{"name": "v", "devicePath": "/etc/x"}]}}
    assert refused(spec, refs(frozenset())) == ["spec.slurmd.volumeDevices[0]"]


@pytest.mark.parametrize(
    "line",
    [
        "AuthorizedKeysCommand /bin/sh -c id",
        "authorizedkeyscommand=/bin/sh",
        "  PermitRootLogin yes",
        "Match User x\n  ForceCommand id",
        "Include /home/mine/*",
        "AuthorizedKeysFile /home/mine/keys",
        "Subsystem x /bin/sh",
        "TrustedUserCAKeys /home/mine/ca",
        '"PermitRootLogin" yes',
    ],
)
def test_the_sshd_of_a_privileged_worker_runs_nothing_for_who_writes_a_nodeset(line: str) -> None:
    """sshd runs as root beside slurmd: its options could name a program, or let root in."""
    spec = {"ssh": {**SSH, "extraSshdConfig": line}}
    assert refused(spec, refs(frozenset())) == ["spec.ssh.extraSshdConfig"]
    assert not refused({**spec, "slurmd": OFF}, refs(frozenset()))
    assert not refused(spec, refs(frozenset({"privileged"})))


def test_ordinary_options_of_sshd_need_no_flag() -> None:
    lines = "# who\nAllowGroups hpc\n\nMatch Group staff\n\tX11Forwarding yes\nClientAliveInterval=30\n"
    assert not refused({"ssh": {**SSH, "extraSshdConfig": lines}}, refs(frozenset()))


def test_a_change_of_ssh_alone_is_looked_at_by_the_webhook_too() -> None:
    old = decode(raw("NodeSet", {"ssh": SSH})).resource
    new = decode(raw("NodeSet", {"ssh": {**SSH, "extraSshdConfig": "PermitRootLogin yes"}})).resource
    assert old is not None
    assert new is not None
    found = errors(rules.check(new, old, refs(frozenset())))
    assert [format_path(each.path) for each in found] == ["spec.ssh.extraSshdConfig"]


OWN_IMAGE = "docker.io/mine/slurmd:1"
CGROUPS = {"on": "CgroupPlugin=autodetect\n", "off": "CgroupPlugin=disabled\n"}


async def unprivileged(world: World, **spec: Any) -> None:
    """A cluster without cgroups, in which any image may be a worker's."""
    files = {"metadata": {"name": "files"}, "data": {"cgroup.conf": CGROUPS["off"]}}
    await world.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", files)
    await world.create("Controller", "slurm", {**KEYS, "configFileRefs": [{"name": "files"}]})
    await world.create("RestApi", "slurm", {"controllerRef": {"name": "slurm"}})
    worker = {"slurmd": {"image": OWN_IMAGE}, "replicas": 2, **spec}
    await world.create("NodeSet", "compute", {"controllerRef": {"name": "slurm"}, **worker})
    await world.run()
    assert len(world.pods()) == 2


def privileged(world: World) -> set[str]:
    return {
        name
        for name, pod in world.pods().items()
        if (pod["spec"]["containers"][0].get("securityContext") or {}).get("privileged")
    }


async def test_a_template_that_ran_unprivileged_is_no_way_to_a_privileged_worker(world: World) -> None:
    """Its image was let in because cgroups were off; when they came on, what "had run before" ran privileged."""
    await unprivileged(world)
    await world.patch("ConfigMap", "files", {"data": {"cgroup.conf": CGROUPS["on"]}})
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 4}})
    await world.run()
    assert privileged(world) == set()
    assert len(world.pods()) == 2
    assert said(world, "compute") == ("False", "InvalidSpec")
    assert "slurmd.image" in world.conditions("NodeSet", "compute")["Ready"]["message"]
    await world.patch("ConfigMap", "files", {"data": {"cgroup.conf": CGROUPS["off"]}})
    await world.run()
    assert len(world.pods()) == 4


async def test_a_note_of_what_ran_is_not_taken_from_the_user(world: World) -> None:
    """What a NodeSet says of itself in annotations is carried to its ControllerRevisions."""
    await unprivileged(world)
    noted = (each["metadata"]["annotations"] for each in world.stored("controllerrevisions.apps"))
    pods_hash = next(each[labels.PODS_HASH] for each in noted if labels.PODS_HASH in each)
    forged = {labels.PODS_HASH: "0", labels.PRIVILEGED_PODS_HASH: pods_hash}
    await world.patch("NodeSet", "compute", {"metadata": {"annotations": forged}})
    await world.run()
    await world.patch("ConfigMap", "files", {"data": {"cgroup.conf": CGROUPS["on"]}})
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 4}})
    await world.run()
    assert privileged(world) == set()
    assert said(world, "compute") == ("False", "InvalidSpec")


@pytest.mark.parametrize("logfile", [{}, {"image": "mine/logs:1"}], ids=["our sidecar", "an image of the user's"])
def test_slurmd_sees_nothing_of_the_log_volume_but_its_file(logfile: dict[str, Any]) -> None:
    """Anybody who could write there, jobs too, made its log a link: root appended its lines to a device or preload."""
    cr = nodeset(logfile=logfile)
    spec = build_nodeset.pod_template(cr, controller(), around(controller()))["spec"]
    (slurmd,) = spec["containers"]
    written = {each["name"] for other in spec["initContainers"] for each in other["volumeMounts"]}
    shared = [each for each in slurmd["volumeMounts"] if each["name"] in written]
    assert shared == [{"name": "slurm-logfile", "mountPath": "/var/log/slurm/slurmd.log", "subPath": "slurmd.log"}]
    # Without the file Kubernetes would make a folder of that name.
    (sidecar,) = spec["initContainers"]
    assert sidecar["startupProbe"]["exec"]["command"] == ["test", "-f", "/var/log/slurm/slurmd.log"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"logfile": {"command": ["sh", "-c", "ln -s /dev/sda /var/log/slurm/slurmd.log"]}}, "spec.logfile.command"),
        ({"logfile": {"args": ["-c", "true"]}}, "spec.logfile.args"),
        ({"logfile": {"command": None}}, "spec.logfile.command"),
        (
            {"template": {"spec": {"initContainers": [{"name": "logfile", "command": ["sh"]}]}}},
            "spec.template.spec.initContainers[0].command",
        ),
    ],
    ids=["a command", "arguments", "no command", "by the template"],
)
def test_another_way_of_logging_is_no_way_into_a_privileged_worker(spec: dict[str, Any], path: str) -> None:
    """It may need the folder as a whole, and gets it; then what it makes there is followed by slurmd."""
    assert refused(spec, refs(frozenset())) == [path]
    assert not refused(spec, refs(frozenset({"privileged"})))
    assert not refused({**spec, "slurmd": OFF}, refs(frozenset()))


# Load


async def test_a_token_is_not_written_every_moment(world: World) -> None:
    """A lifetime of a second was due when it was made: three writes a second for each such Token."""
    await world.create("Token", "ci", {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"], "lifetime": "1s"})
    await world.run_for(5.0)
    world.arm()
    await world.run_for(20.0)
    assert world.trace == []


async def test_nodes_that_slurm_has_lost_are_asked_for_in_bounded_time_and_all_in_the_end() -> None:
    """A thousand of them at a fifth of a second each took longer than a turn may: it was cut off for ever."""
    now, asked = [0.0], list[str]()

    async def node(name: str) -> Absent:
        now[0] += 0.2
        asked.append(name)
        return Absent()

    cluster = Cluster(Mock(node=node), SlurmTarget("http://x"), b"", lambda: now[0])
    lost = frozenset(f"n-{number:03}" for number in range(120))
    nodes: SlurmList[Node] = SlurmList(items=(), last_update=1, complete=True)
    found = set[str]()
    for _ in range(3):
        began = now[0]
        found |= await cluster._absent(lost, nodes)
        assert now[0] - began <= ONE_BY_ONE_SECONDS + 1.0
    assert found == lost
    assert sorted(asked[:120]) == sorted(lost)


def request_of(*parts: bytes, ends: bool = True) -> web.Request:
    content = StreamReader(Mock(_reading_paused=False), 2**16, loop=asyncio.get_running_loop())
    for part in parts:
        content.feed_data(part)
    if ends:
        content.feed_eof()
    return Mock(content=content)


async def test_bodies_on_their_way_to_the_webhook_are_bounded_in_bytes_and_time() -> None:
    """Anybody who reaches the port could hold as many unfinished bodies of 3 MB as there are connections."""
    bodies = Bodies(max_bytes=1000, seconds=0.05)
    slow = asyncio.create_task(bodies.read(request_of(b"x" * (SMALL_BYTES + 900), ends=False)))
    await asyncio.sleep(0)
    assert await bodies.read(request_of(b"x" * (SMALL_BYTES + 200))) is None
    assert await bodies.read(request_of(b"small")) == b"small", "small reviews of others pass"
    with pytest.raises(web.HTTPRequestTimeout):
        await slow
    assert bodies.held_bytes == 0
    whole = b"x" * (SMALL_BYTES + 200)
    assert await bodies.read(request_of(whole)) == whole


def test_faults_of_ever_new_names_do_not_fill_the_metrics() -> None:
    metrics = OperatorMetrics()
    for number in range(MAX_FAULT_PLACES + 50):
        metrics.reconcile_fault("NodeSet", "ns", f"n{number}")
    text = metrics.exposition().decode() if hasattr(metrics, "exposition") else ""
    assert text.count("reconcile_faults_total{") <= MAX_FAULT_PLACES + 1


# One plan for a cluster


async def test_a_candidate_of_somebody_else_takes_no_partition_out_of_slurm(world: World) -> None:
    """It was read as what Slurm might have been given: a partition that it named, and nobody wants, was deleted."""
    await small(world, 1)
    ours = world.stored("configmaps", "slurm-config")["data"]["slurm.conf"]
    await world.delete("ConfigMap", "slurm-config-candidate")
    await world.stop_operator()
    mine = {"slurm.conf": f"{ours}PartitionName=handmade Nodes=ALL\n"}
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    if world.stored("configmaps", "slurm-config-candidate") is not None:
        await world.delete("ConfigMap", "slurm-config-candidate")
    await world.ask("POST", path, {"metadata": {"name": "slurm-config-candidate"}, "data": mine})
    world.slurm.live_partitions.set({"name": "handmade", "nodes": {"configured": "ALL"}})
    world.slurm.touch("partitions")
    await world.start_operator()
    await world.run_for(30.0)
    assert "handmade" in world.slurm.live_partitions.shapes
    assert world.verdicts("Controller", "slurm")["Ready"] == ("False", "NameTaken")
    assert world.stored("configmaps", "slurm-config-candidate")["data"] == mine


async def test_a_partition_with_the_name_of_one_that_is_gone_knows_nothing_of_it(world: World) -> None:
    """Deleted and made again between two looks, it said that it took effect before it was there."""
    await small(world, 1)
    spec = {**REF, "nodeSets": ["compute"]}
    await world.create("Partition", "short", spec)
    await world.run()
    first = world.custom("Partition", "short")["status"]["lastApply"]
    await world.run_for(30.0)
    await world.patch("Partition", "short", {"metadata": {"finalizers": None}})
    await world.delete("Partition", "short")
    second = await world.create("Partition", "short", {**spec, "maxTime": "01:00:00"})
    await world.run()
    applied = world.custom("Partition", "short")["status"]["lastApply"]
    assert applied["time"] >= second["metadata"]["creationTimestamp"] > first["time"]
    assert applied["line"] != first["line"]


async def test_the_daemons_beside_slurmctld_are_counted(world: World) -> None:
    """The cache of pods did not hold those of slurmrestd and of logins: the status was silent on them."""
    await small(world, 1)
    marks = labels.of(labels.RESTAPI, "slurm")
    pod = {"metadata": {"name": "slurm-restapi-x", "labels": marks}, "spec": {"containers": [{"name": "c"}]}}
    await world.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
    running = {"status": {"phase": "Running", "startTime": "2029-01-01T00:00:00Z"}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/slurm-restapi-x/status"
    await world.ask("PATCH", path, running, "application/merge-patch+json")
    await world.run_for(10.0)
    daemons = world.custom("Controller", "slurm")["status"]["config"]["daemons"]
    assert "slurmrestd" in {each["daemon"] for each in daemons}


async def test_a_controller_that_goes_during_its_reconcile_leaves_nothing_in_memory(world: World) -> None:
    """Its way to Slurm, with the key, and its configuration were kept for ever: who does it often fills the memory."""
    await small(world, 1)
    assert world.operator is not None
    uid = world.custom("Controller", "slurm")["metadata"]["uid"]
    controllers = world.operator.controllers["Controller"]._reconcile.reconcile  # type: ignore[attr-defined]
    observe, seen = type(controllers.reader).observe, list[str]()

    async def gone_meanwhile(reader: Any, *args: Any) -> Any:
        if not seen:
            seen.append(uid)
            await world.patch("NodeSet", "compute", {"metadata": {"finalizers": None}})
            await world.delete("Controller", "slurm")
            for _ in range(1000):
                if reader.observer.get("Controller", NAMESPACE, "slurm") is not None:
                    await asyncio.sleep(0)
        return await observe(reader, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(controllers.reader), "observe", gone_meanwhile)
        await world.patch("Controller", "slurm", {"metadata": {"labels": {"wakes": "it"}}})
        await world.run_for(10.0)
    assert seen == [uid]
    assert world.custom("Controller", "slurm") is None
    assert uid not in controllers._memories
    assert uid not in {owner for owner, _ in world.operator.clusters._clusters.values()}


@pytest.mark.parametrize("maps", [("slurm-config",), ("slurm-config", "slurm-config-candidate")], ids=["one", "both"])
@pytest.mark.parametrize("release", ["24.11", "26.05"])
async def test_jobs_of_a_partition_that_goes_outlive_the_configmaps(release: str, maps: tuple[str, ...]) -> None:
    """Its line stood in these alone: without them the next reconfigure took the partition away, with its jobs."""
    world = World(release=release)
    await world.open()
    await small(world, 2)
    if release == "24.11":
        image = {"slurmctld": {"image": "example.com/slurmctld:24.11-ubuntu24.04"}}
        await world.patch("Controller", "slurm", {"spec": image})
        await world.run()
    await world.create("Partition", "short", {**REF, "nodeSets": ["compute"]})
    await world.run()
    number = world.slurm.submit(10_000.0, "short")
    await world.run_for(5.0)
    await world.delete("Partition", "short")
    await world.run_for(10.0)
    for name in maps:
        await world.delete("ConfigMap", name)
    await world.run_for(20.0)
    assert "short" in world.slurm.partitions
    assert (world.slurm.jobs[number].state, world.slurm.orphaned) == ("RUNNING", [])
    await world.close()
    assert world.judge.violations == []


async def test_a_job_that_comes_while_a_partition_goes_is_not_lost(old_slurm: World) -> None:
    """Without live partitions an empty one left the file at once: who came before slurmctld read it, lost."""
    world = old_slurm
    await small(world, 2)
    image = {"slurmctld": {"image": "example.com/slurmctld:24.11-ubuntu24.04"}}
    await world.patch("Controller", "slurm", {"spec": image})
    await world.run()
    await world.create("Partition", "short", {**REF, "nodeSets": ["compute"]})
    await world.run()
    assert world.operator is not None
    write_ended, came = world.operator.writer.after, list[int]()

    async def after(write: Write, error: BaseException | None) -> None:
        """Somebody submits a job right after the file without the partition was handed over."""
        await write_ended(write, error)
        if write.name == "slurm-config-candidate" and "PartitionName=short" not in write.body["data"]["slurm.conf"]:
            # Slurm takes it while the partition is there and is not drained.
            shape = world.slurm.live_partitions.shapes.get("short")
            if not came and shape is not None and shape["partition"]["state"] == ["UP"]:
                came.append(world.slurm.submit(5.0, "short"))

    world.operator.writer.after = after
    await world.delete("Partition", "short")
    await world.run_for(400.0)
    assert world.slurm.orphaned == []
    assert world.custom("Partition", "short") is None
